"""The online methods: how much curvature tau_t is added in round t."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, final

from scipy.optimize import minimize_scalar
from typing_extensions import override

from undercut._jit import online as kernel
from undercut.contracts import Loss, Regularizer, Risk
from undercut.errors import CapabilityError, require
from undercut.maps.matrix import Matrix
from undercut.risks import LinearRisk
from undercut.solvers.online.base import OnlineSolver
from undercut.solvers.online.bounds import phases_to_guarantee, rounds_by_curvature, single_tau_bound
from undercut.solvers.online.game import Game

OPENING = 20.0  # the first step of a phase goes at most this fraction of R


def _check_bounded(method: str, loss: Loss | None, given: str) -> None:
    """Refuse a method that must know a bound G on all subgradients before the first round."""
    if loss is None or not math.isfinite(loss.lipschitz):
        raise CapabilityError(
            f"{method} must know a bound on all subgradients before the first round, so it needs a linear risk whose "
            f"loss has bounded slopes; got {given}: use a loss like Hinge, Logistic or Huber, or OptimisticProximal() "
            "without epsilon, which learns the bound"
        )


def _loss_of(risk: Risk) -> tuple[Loss | None, str]:
    """The loss of a linear risk whose rows are in memory, and how to name the risk in a message."""
    if isinstance(risk, LinearRisk) and isinstance(risk.design, Matrix):
        return risk.loss, f"LinearRisk with {risk.loss!r}"
    return None, type(risk).__name__


@final
@dataclass(frozen=True, kw_only=True)
class Pegasos(OnlineSolver):
    """Algorithm 1: tau_t = 0, step size ``1 / (lam t)`` (Shalev-Shwartz et al. 2007).

    >>> import numpy as np
    >>> from undercut import Hinge, L2, LinearRisk, minimize
    >>> risk = LinearRisk(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), Hinge())
    >>> result = minimize(risk, L2(0.1), Pegasos(n_passes=200))
    >>> result.status.name, result.certificate, round(result.objective, 2)
    ('MAX_PASSES', 'none', 0.05)
    """

    method: ClassVar[int] = kernel.PEGASOS


@final
@dataclass(frozen=True, kw_only=True)
class Adaptive(OnlineSolver):
    """Adaptive online gradient descent (Bartlett et al. 2008): adds ``tau_t/2 |w|^2``, balanced against its own bound.

    >>> import numpy as np
    >>> from undercut import Hinge, L2, LinearRisk, minimize
    >>> risk = LinearRisk(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), Hinge())
    >>> round(minimize(risk, L2(0.1), Adaptive(n_passes=200)).objective, 2)
    0.05
    """

    method: ClassVar[int] = kernel.ADAPTIVE
    needs_radius: ClassVar[bool] = True


@final
@dataclass(frozen=True, kw_only=True)
class Proximal(OnlineSolver):
    """Algorithm 2: adds ``tau_t/2 |w - w_t|^2``, which changes the step size alone.

    ``tau="balance"`` weighs the two terms of the regret bound in every round (Strategy 1); ``tau="bound"`` puts all
    curvature into the first round, as much as minimizes B(tau) over ``n_passes`` passes (Strategy 2, Thm. 2).  The
    latter needs a loss with bounded slopes, because B(tau) depends on a bound G on all subgradients to come.

    >>> import numpy as np
    >>> from undercut import Hinge, L2, LinearRisk, minimize
    >>> risk = LinearRisk(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), Hinge())
    >>> round(minimize(risk, L2(0.1), Proximal(n_passes=200)).objective, 2)
    0.05
    """

    tau: Literal["balance", "bound"] = "balance"

    needs_radius: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.tau in ("balance", "bound"), "`tau` is 'balance' or 'bound'", self.tau)

    @property
    def method(self) -> int:  # type: ignore[override]
        return kernel.PROXIMAL if self.tau == "balance" else kernel.FIXED

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        super().check(risk, reg)
        if self.tau == "bound":
            _check_bounded('Proximal(tau="bound")', *_loss_of(risk))

    @override
    def check_stream(self, loss: Loss) -> None:
        super().check_stream(loss)
        if self.tau == "bound":
            _check_bounded('Proximal(tau="bound")', loss, repr(loss))

    @override
    def first_tau(self, game: Game, lam: float, n: int) -> float:
        if self.tau == "balance" or game.numbers[kernel.T] > 0.0:
            return 0.0
        rounds = self.n_passes * math.ceil(n / self.batch_size)
        R, G = game.numbers[[kernel.R, kernel.G]]
        upper = G * math.sqrt(rounds) / R  # twice the tau that is best without lambda (Cor. 3)
        best = minimize_scalar(lambda t: single_tau_bound(t, R, G, lam, rounds), bounds=(0.0, upper), method="bounded")
        return float(best.x)


@final
@dataclass(frozen=True, kw_only=True)
class OptimisticProximal(OnlineSolver):
    """Algorithm 3: the proximal method in phases, each with an R that is hoped to exceed ``|w*|``.

    R starts at 1 and grows by sqrt(2) whenever ``|w|`` comes close to it; w stays.  With ``epsilon`` each phase starts
    t and the tau sums anew, as printed, and the run ends by its own guarantee (Lemma 2): the average of the last phase
    is epsilon-optimal with probability ``1 - delta``.  This is proved for independent samples and projected steps, and
    so needs ``sampling="replacement"``.  Without ``epsilon`` the run ends after ``n_passes``, and phases open gently
    (``_jit.online.next_phase``), which keeps R from running away.

    >>> import numpy as np
    >>> from undercut import Hinge, L2, LinearRisk, minimize
    >>> risk = LinearRisk(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), Hinge())
    >>> solver = OptimisticProximal(epsilon=0.3, delta=0.5, sampling="replacement", n_passes=10**6)
    >>> minimize(risk, L2(0.1), solver).status.name
    'GUARANTEED'
    """

    epsilon: float | None = None
    delta: float = 0.1

    method: ClassVar[int] = kernel.PROXIMAL

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.epsilon is None or self.epsilon > 0.0, "`epsilon` must be positive, or None", self.epsilon)
        require(0.0 < self.delta <= 1.0, "`delta` must be in (0, 1]", self.delta)
        if self.epsilon is not None:
            rule = "`epsilon` needs {}: the guarantee is proved for nothing else"
            require(self.sampling == "replacement", rule.format("sampling='replacement'"), self.sampling)
            require(self.project, rule.format("project=True"), self.project)

    @property
    def needs_radius(self) -> bool:  # type: ignore[override]
        return self.epsilon is not None

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        super().check(risk, reg)
        if self.epsilon is not None:
            _check_bounded("OptimisticProximal(epsilon=...)", *_loss_of(risk))

    @override
    def check_stream(self, loss: Loss) -> None:
        super().check_stream(loss)
        if self.epsilon is not None:
            raise CapabilityError(
                "OptimisticProximal(epsilon=...) needs all samples to draw from, which a stream does not offer: leave "
                f"epsilon out, or use `fit`; got epsilon={self.epsilon!r}"
            )

    @property
    @override
    def averages(self) -> bool:
        return self.average or self.epsilon is not None

    @override
    def open(self, game: Game, lam: float, radius: float) -> None:
        numbers = game.numbers
        numbers[kernel.R] = min(1.0, radius)
        if self.epsilon is None:
            return
        # The theorem's mean includes the first iterate, which must lie inside the ball of radius R.
        game.u[:] = game.last
        numbers[kernel.N_SUMMED] = 1.0
        while numbers[kernel.NORM2] >= kernel.near_squared(numbers[kernel.R], self.epsilon, lam):
            numbers[kernel.R] *= math.sqrt(2.0)

    @override
    def phases(self, game: Game, lam: float, radius: float) -> tuple[bool, float, float, float, float]:
        if self.epsilon is None:
            return True, OPENING, 0.0, math.inf, math.inf
        G = game.numbers[kernel.G]
        failure = self.delta / phases_to_guarantee(self.epsilon, radius, lam)  # of one phase: they add up to delta
        per_r2 = (4.0 * G / (failure * self.epsilon)) ** 2
        return True, 0.0, self.epsilon, rounds_by_curvature(self.epsilon, failure, G, lam), per_r2
