"""What the online methods share: a game against mini-batches, played one pass per step.

Each round t offers ``f_t(w) = lam/2 |w|^2 + mean loss of a mini-batch``; the player moves by

    w_{t+1} = Pi_S[w_t - step_size g_t],      step_size = 1 / (lambda_{1:t} + tau_{1:t}),     S = {|w| <= radius}

and the methods differ in the curvature tau_t they add (Do, Le, Foo 2009).  Any minimizer of J lies in S:
``lam |w*|^2 = -<R'(w*), w*> <= R(0) - inf R``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from typing_extensions import override

from undercut._jit import online as kernel
from undercut.contracts import BatchedRisk, Loss, Regularizer, Risk, Solver
from undercut.errors import CapabilityError, require
from undercut.maps.matrix import Matrix
from undercut.regularizers import L2
from undercut.risks import LinearRisk
from undercut.solvers.bounds import tighter
from undercut.solvers.bundle.bundle import Bundle
from undercut.solvers.online.game import Game, Samples
from undercut.threads import one_thread
from undercut.trace import Certificate, Progress, Status
from undercut.types import Array, FloatArray

Subgradient = Callable[[Array, FloatArray], FloatArray]  # of the mean loss of some rows, at w


def _samples(risk: BatchedRisk) -> Samples | None:
    """Those of a linear model, ``None`` for any other."""
    if not (isinstance(risk, LinearRisk) and isinstance(risk.design, Matrix)):
        return None
    return Samples.of(risk.design, risk.y, risk.n_samples * risk.weight, risk.loss)


@dataclass(frozen=True)
class OnlineState:
    derived: ClassVar = ("samples",)

    game: Game
    radius: float  # of S
    samples: Samples | None  # None: the risk is not linear, and is asked for its mini-batches
    solution: FloatArray
    solution_pass: int  # after which it was taken
    progress: Progress


@dataclass(frozen=True, kw_only=True)
class OnlineSolver(Solver[OnlineState, BatchedRisk, L2]):
    """Projected subgradient steps on mini-batches; a step of the solver is a pass over the samples.

    The exact objective is evaluated every ``evaluate_every`` passes, and the best iterate evaluated is the solution;
    with ``evaluate_every=None`` it is the last one, or the average.  ``certify`` asks for a lower bound from one plane
    at the end.
    """

    n_passes: int = 20
    batch_size: int = 1
    sampling: Literal["shuffle", "replacement"] = "shuffle"
    average: bool = False  # report the mean of the iterates instead of the last
    project: bool = True  # on the ball that holds the optimum
    evaluate_every: int | None = 1
    certify: bool = False
    seed: int = 0

    may_stall: ClassVar[bool] = False
    needs_radius: ClassVar[bool] = False  # a finite radius of S, without which no tau balances the regret bound
    method: ClassVar[int]

    def __post_init__(self) -> None:
        require(self.n_passes >= 1, "`n_passes` must be at least 1", self.n_passes)
        require(self.batch_size >= 1, "`batch_size` must be at least 1", self.batch_size)
        require(self.sampling in ("shuffle", "replacement"), "`sampling` is 'shuffle' or 'replacement'", self.sampling)
        every = self.evaluate_every
        require(every is None or every >= 1, "`evaluate_every` must be at least 1, or None", every)

    @override
    def certificate(self, risk: BatchedRisk) -> Certificate:
        return "global" if self.certify else "none"

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        super().check(risk, reg)
        name = type(self).__name__
        if not isinstance(risk, BatchedRisk):
            raise CapabilityError(
                f"{name} needs a risk that is a mean over samples, and {type(risk).__name__} is not: use a batch "
                "solver, or a constant feature instead of the intercept that is minimized out"
            )
        if not (isinstance(reg, L2) and reg.center is None and reg.weights is None):
            raise CapabilityError(f"{name} needs L2(lam) without center and weights; got {reg!r}")
        if self.needs_radius and risk.lower_bound == -math.inf:
            raise CapabilityError(
                f"{name} needs a bound on |w|, which follows from a lower bound of the risk, and {type(risk).__name__} "
                "has none: set `lower_bound`, implement `infimum` of the loss, or use Pegasos"
            )

    def check_stream(self, loss: Loss) -> None:
        """Raise ``CapabilityError`` if the method cannot learn with this loss from chunks, before the first one."""
        if not loss.is_convex:
            raise CapabilityError(
                f"{type(self).__name__} needs a convex loss; got {loss!r}: use a convex one such as Hinge or Logistic, "
                "or LinearClassifier, which takes losses that are not convex"
            )
        if self.needs_radius and loss.infimum(np.ones(1))[0] == -math.inf:
            raise CapabilityError(
                f"{type(self).__name__} needs a bound on |w|, which follows from the infimum of the loss, and that of "
                f"{loss!r} is unknown: implement `infimum`, or use Pegasos"
            )

    @override
    def init(self, risk: BatchedRisk, reg: L2, w0: FloatArray) -> OnlineState:
        game = self.new_game(w0.size)
        norm = float(np.linalg.norm(w0))
        at_zero = risk.value(np.zeros(w0.size) if norm > 0.0 else w0)
        objective = math.inf
        if self.evaluate_every is not None:
            objective = reg.value(w0) + (risk.value(w0) if norm > 0.0 else at_zero)
        radius = self.ball(at_zero - risk.lower_bound, reg.lam)
        samples = _samples(risk)
        if norm > 0.0:
            game.move_to(w0 * (radius / norm) if self.project and norm > radius else w0)
        return OnlineState(
            game, radius, samples, w0, 0, Progress(0, objective, n_evaluations=int(objective < math.inf))
        )

    @override
    def step(self, risk: BatchedRisk, reg: L2, state: OnlineState) -> OnlineState:
        last, game = state.progress, state.game.copy(averaging=self.averages)

        # 1. One pass of steps over mini-batches.
        if state.samples is not None:
            self.absorb(game, state.samples, reg.lam, state.radius)
        else:
            order = self._order(game.rng, risk.n_samples)
            self._prepare(game, math.inf, reg.lam, state.radius)
            self._play(game, order, lambda rows, w: risk.batch(rows).cut(w).a, math.inf, reg.lam, state.radius)
        w = game.average if self.averages else game.last

        # 2. The exact objective, if it is time for it: only then can an iterate be called the best.
        n_passes = last.step + 1
        progress = replace(last, step=n_passes, n_passes=float(n_passes))
        if self.evaluate_every is None:
            return replace(state, game=game, solution=w, solution_pass=n_passes, progress=progress)
        final = bool(game.numbers[kernel.DONE]) or n_passes >= self.n_passes
        if n_passes % self.evaluate_every and not final:
            return replace(state, game=game, progress=progress)
        objective = reg.value(w) + risk.value(w)
        progress = replace(progress, n_evaluations=last.n_evaluations + 1)
        if not objective < last.objective:
            return replace(state, game=game, progress=progress)
        progress = replace(progress, objective=objective)
        return replace(state, game=game, solution=w, solution_pass=n_passes, progress=progress)

    @override
    def restored(self, risk: BatchedRisk, reg: L2, state: OnlineState) -> OnlineState:
        return replace(state, samples=_samples(risk))

    @override
    def ended(self, state: OnlineState) -> Status | None:
        if state.game.numbers[kernel.DONE]:
            return Status.GUARANTEED
        return Status.MAX_PASSES if state.progress.n_passes >= self.n_passes else None

    @override
    def remark(self, state: OnlineState) -> str:
        which = "mean of the iterates" if self.averages else "last iterate"
        choice = "" if self.evaluate_every is None else ", the best that was evaluated"
        return f"the solution is the {which} after pass {state.solution_pass}{choice}"

    @override
    def finish(self, risk: BatchedRisk, reg: L2, state: OnlineState) -> OnlineState:
        """With ``certify``, the bound of the model made of the flat plane and the plane at the solution."""
        if not self.certify:
            return state
        cut = risk.cut(state.solution)
        bundle = Bundle(reg, risk.n_params, risk.lower_bound)
        bundle.add(cut)
        objective = reg.value(state.solution) + cut.value
        bound = tighter(-math.inf, bundle.minimize(0.0).lower_bound, objective)
        count = state.progress.n_evaluations + 1
        progress = replace(state.progress, objective=objective, lower_bound=bound, n_evaluations=count)
        return replace(state, progress=progress)

    @property
    def averages(self) -> bool:
        """Whether the mean of the iterates is the answer."""
        return self.average

    def new_game(self, n_params: int) -> Game:
        """The position before the first round, at ``w = 0``."""
        numbers = np.zeros(kernel.N_STATE)
        numbers[kernel.SCALE] = 1.0
        return Game(np.zeros(n_params), np.zeros(n_params), numbers, np.random.default_rng(self.seed))

    def ball(self, excess: float, lam: float) -> float:
        """The radius of S from ``R(0) - inf R``."""
        return math.sqrt(max(excess, 1e-300) / lam)

    def absorb(self, game: Game, samples: Samples, lam: float, radius: float) -> None:
        """Play one pass over the samples, compiled where the loss is."""
        order = self._order(game.rng, samples.y.size)
        G = samples.bound + lam * radius
        self._prepare(game, G, lam, radius)
        if samples.slope is None:
            self._play(game, order, samples.subgradient, G, lam, radius)
            return
        kernel.run_pass(
            *samples.rows, samples.y, samples.weight, order, self.batch_size, *samples.slope,
            self.method, lam, math.inf == G, radius if self.project else math.inf,
            self.first_tau(game, lam, order.size), *self.phases(game, lam, radius), self.averages,
            game.v, game.u, game.numbers,
        )  # fmt: skip

    def _play(
        self, game: Game, order: Array, subgradient: Subgradient, known_G: float, lam: float, radius: float
    ) -> None:
        """The same pass one mini-batch at a time, for losses and risks that are not compiled.

        An infinite ``known_G`` means that G is the largest subgradient seen so far.
        """
        numbers, tau_one = game.numbers, self.first_tau(game, lam, order.size)
        w, norm = game.last, math.sqrt(game.numbers[kernel.NORM2])
        for first in range(0, order.size, self.batch_size):
            a = subgradient(order[first : first + self.batch_size], w)
            if known_G == math.inf:
                numbers[kernel.G] = max(numbers[kernel.G], float(np.linalg.norm(a)) + lam * norm)
            numbers[kernel.T] += 1.0
            t, tau_sum, R, G = numbers[[kernel.T, kernel.TAU_SUM, kernel.R, kernel.G]]
            steep = kernel.steepness(self.method, R, G)
            tau, step_size, shrink = kernel.step_sizes(self.method, lam, t, tau_sum, steep, tau_one)
            numbers[kernel.TAU_SUM] += tau
            w = shrink * w - step_size * a
            norm = float(np.linalg.norm(w))
            if self.project and norm > radius:
                w, norm = w * (radius / norm), radius
            if self.averages:
                game.u += w
                numbers[kernel.N_SUMMED] += 1.0
            if self._ends_phase(game, w, norm, lam, radius):
                break
        game.move_to(w)

    def _ends_phase(self, game: Game, w: FloatArray, norm: float, lam: float, radius: float) -> bool:
        """Start a new phase where the norm of w has come close to R; whether the phase has lasted long enough."""
        growing, opening, epsilon, length_cap, length_per_r2 = self.phases(game, lam, radius)
        numbers = game.numbers
        if growing and norm**2 >= kernel.near_squared(numbers[kernel.R], epsilon, lam):
            position = [kernel.R, kernel.T, kernel.TAU_SUM]
            r, t, tau_sum = numbers[position]
            numbers[position] = kernel.next_phase(r, t, tau_sum, numbers[kernel.G], opening, epsilon, lam, norm**2)
            numbers[kernel.PHASES] += 1.0
            numbers[kernel.N_SUMMED] = float(opening == 0.0)
            game.u[:] = w if opening == 0.0 else 0.0
        elif growing and numbers[kernel.T] >= min(length_cap, length_per_r2 * numbers[kernel.R] ** 2):
            numbers[kernel.DONE] = 1.0
            return True
        return False

    def _order(self, rng: np.random.Generator, n: int) -> Array:
        if self.sampling == "replacement":
            return rng.integers(0, n, n)
        order: Array = kernel.shuffled(n, rng.integers(0, 2**63))
        return order

    def _prepare(self, game: Game, G: float, lam: float, radius: float) -> None:
        """Set R at the first round, raise G to what is known, and free the norm of w from rounding."""
        numbers = game.numbers
        with one_thread():
            numbers[kernel.NORM2] = float(game.v @ game.v) * numbers[kernel.SCALE] ** 2
        if numbers[kernel.R] == 0.0:
            self.open(game, lam, radius)
        if math.inf > G:
            numbers[kernel.G] = max(numbers[kernel.G], G)

    def open(self, game: Game, lam: float, radius: float) -> None:
        """Set the R of the first phase."""
        game.numbers[kernel.R] = radius

    def first_tau(self, game: Game, lam: float, n: int) -> float:
        """tau_1, where it is chosen in advance."""
        return 0.0

    def phases(self, game: Game, lam: float, radius: float) -> tuple[bool, float, float, float, float]:
        """Whether R grows, how a phase opens, epsilon, and the two limits on the length of a phase."""
        return False, 0.0, 0.0, math.inf, math.inf
