"""The online methods: how much curvature tau_t is added in round t."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, final

from scipy.optimize import minimize_scalar
from typing_extensions import override

from undercut._jit import online as kernel
from undercut.contracts import Regularizer, Risk
from undercut.errors import CapabilityError, require
from undercut.risks import LinearRisk
from undercut.solvers.online.base import Game, OnlineSolver
from undercut.solvers.online.bounds import rounds_by_curvature, single_tau_bound
from undercut.solvers.online.compiled import compiled_loss

OPENING = 20.0  # the first step of a phase goes at most this fraction of R


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


@final
@dataclass(frozen=True, kw_only=True)
class Proximal(OnlineSolver):
    """Algorithm 2: adds ``tau_t/2 |w - w_t|^2``, which changes the step size alone.

    ``tau="balance"`` weighs the two terms of the regret bound in every round (Strategy 1); ``tau="bound"`` puts all
    curvature into the first round, as much as minimizes B(tau) over ``n_passes`` passes (Strategy 2, Thm. 2).

    >>> import numpy as np
    >>> from undercut import Hinge, L2, LinearRisk, minimize
    >>> risk = LinearRisk(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), Hinge())
    >>> round(minimize(risk, L2(0.1), Proximal(n_passes=200)).objective, 2)
    0.05
    """

    tau: Literal["balance", "bound"] = "balance"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.tau in ("balance", "bound"), "`tau` is 'balance' or 'bound'", self.tau)

    @property
    def method(self) -> int:  # type: ignore[override]
        return kernel.PROXIMAL if self.tau == "balance" else kernel.FIXED

    @override
    def first_tau(self, game: Game, lam: float, n: int) -> float:
        if self.tau == "balance" or game.numbers[kernel.T] > 0.0:
            return 0.0
        rounds = self.n_passes * math.ceil(n / self.batch_size)
        R, G = game.numbers[kernel.R], max(game.numbers[kernel.G], math.sqrt(lam))
        upper = G * math.sqrt(rounds) / R  # twice the tau that is best without lambda (Cor. 3)
        best = minimize_scalar(lambda t: single_tau_bound(t, R, G, lam, rounds), bounds=(0.0, upper), method="bounded")
        return float(best.x)


@final
@dataclass(frozen=True, kw_only=True)
class OptimisticProximal(OnlineSolver):
    """Algorithm 3: the proximal method in phases, each with an R that is hoped to exceed ``|w*|``.

    R starts at 1 and grows by sqrt(2) whenever ``|w|`` comes close to it; w stays.  With ``epsilon`` each phase starts
    t and the tau sums anew, as printed, and the run ends by its own guarantee (Lemma 2): the average of the last phase
    is epsilon-optimal with probability ``1 - delta``.  Without it the run ends after ``n_passes``, and phases open
    gently (``_jit.online.next_phase``), which keeps R from running away.

    >>> import numpy as np
    >>> from undercut import Hinge, L2, LinearRisk, minimize
    >>> risk = LinearRisk(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), Hinge())
    >>> minimize(risk, L2(0.1), OptimisticProximal(epsilon=0.3, delta=0.5, n_passes=10**6)).status.name
    'GUARANTEED'
    """

    epsilon: float | None = None
    delta: float = 0.1

    method: ClassVar[int] = kernel.PROXIMAL

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.epsilon is None or self.epsilon > 0.0, "`epsilon` must be positive, or None", self.epsilon)
        require(0.0 < self.delta <= 1.0, "`delta` must be in (0, 1]", self.delta)

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        super().check(risk, reg)
        compiled = compiled_loss(risk.loss) if isinstance(risk, LinearRisk) else None
        if self.epsilon is not None and (compiled is None or not math.isfinite(compiled.lipschitz)):
            raise CapabilityError(
                f"OptimisticProximal(epsilon=...) needs a linear risk whose loss has bounded slopes, and "
                f"{type(risk).__name__} has none: leave epsilon out, or use a loss like Hinge, Logistic or Huber"
            )

    @property
    @override
    def averages(self) -> bool:
        return self.average or self.epsilon is not None

    @override
    def first_radius(self, radius: float) -> float:
        return min(1.0, radius)

    @override
    def phases(self, game: Game, lam: float) -> tuple[bool, float, float, float, float]:
        if self.epsilon is None:
            return True, OPENING, 0.0, math.inf, math.inf
        G = game.numbers[kernel.G]
        failure = self.delta / max(1.0, 3.0 - math.log2(lam))  # of one phase, so that all together stay below delta
        per_r2 = (4.0 * G / (failure * self.epsilon)) ** 2
        return True, 0.0, self.epsilon, rounds_by_curvature(self.epsilon, failure, G, lam), per_r2
