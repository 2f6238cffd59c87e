"""Online methods over partitions: the model visits the data, not the other way round.

Two ways to pass over partitions with one method, such as ``Pegasos``:

    passed     one model visits one partition after the other, in a new order in each pass: the same steps as over a
               stream of the partitions, and as slow, since only one of them works at a time
    averaged   every partition has its own model, all begin a pass at the same w, and w becomes their mean, weighted by
               the samples (iterative parameter mixing: McDonald, Hall, Mann 2010): all work at once, and a pass brings
               less, because each model sees its own samples alone

Both send two vectors per visit.  The exact objective after every pass takes one more round.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import numpy as np
from typing_extensions import override

from undercut._jit import online as kernel
from undercut.contracts import Regularizer, Risk, Solver
from undercut.errors import CapabilityError
from undercut.maps.matrix import Matrix
from undercut.regularizers import L2
from undercut.risks.combined.sharded import ShardedRisk
from undercut.risks.scores.linear import LinearRisk
from undercut.solvers.online.base import OnlineSolver
from undercut.solvers.online.game import Game, Samples
from undercut.solvers.online.methods import OptimisticProximal
from undercut.threads import one_thread
from undercut.trace import Certificate, Progress, Status
from undercut.types import FloatArray


@dataclass(frozen=True)
class PartitionState:
    solution: FloatArray
    progress: Progress
    game: Game
    radius: float


@dataclass(frozen=True, kw_only=True)
class PartitionSolver(Solver[PartitionState, ShardedRisk, L2]):
    """A step is a pass of ``method`` over the partitions of a ``ShardedRisk``; the best w evaluated is the solution."""

    method: OnlineSolver = field(default_factory=OptimisticProximal)

    may_stall = False

    @override
    def certificate(self, risk: ShardedRisk) -> Certificate:
        return "none"

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        super().check(risk, reg)
        if not isinstance(risk, ShardedRisk) or not issubclass(risk.kind, LinearRisk):
            raise CapabilityError(f"{self.name} needs a ShardedRisk of linear risks; got {type(risk).__name__}")
        if getattr(risk, "fit_intercept", False):
            raise CapabilityError(
                f"{self.name} needs a mean over samples, and a free intercept depends on all of them: use a constant "
                "feature, or a batch solver"
            )
        if not (isinstance(reg, L2) and reg.center is None and reg.weights is None):
            raise CapabilityError(f"{self.name} needs L2(lam) without center and weights; got {reg!r}")
        if self.method.needs_radius and risk.lower_bound == -math.inf:
            raise CapabilityError(f"{self.method.name} needs a risk with a known lower bound: use Pegasos")

    @override
    def init(self, risk: ShardedRisk, reg: L2, w0: FloatArray) -> PartitionState:
        objective = reg.value(w0) + risk.value(w0)
        radius = self.method.ball(risk.value(np.zeros_like(w0)) - risk.lower_bound, reg.lam)
        game, norm = self.method.new_game(w0.size), float(np.linalg.norm(w0))
        game.move_to(w0 * (radius / norm) if self.method.project and norm > radius else w0)
        return PartitionState(w0, Progress(0, objective, n_evaluations=1), game, radius)

    @override
    def step(self, risk: ShardedRisk, reg: L2, state: PartitionState) -> PartitionState:
        last = state.progress

        # 1. One pass over all partitions.
        game = self.visit(risk, reg, state)
        w = game.average if self.method.averages else game.last

        # 2. Only an iterate whose exact objective is known can be called the best.
        objective = reg.value(w) + risk.value(w)
        n_passes, count = last.step + 1, last.n_evaluations + 1
        progress = replace(last, step=n_passes, n_passes=float(n_passes), n_evaluations=count)
        if not objective < last.objective:
            return replace(state, game=game, progress=progress)
        return replace(state, game=game, solution=w, progress=replace(progress, objective=objective))

    @override
    def ended(self, state: PartitionState) -> Status | None:
        return Status.MAX_PASSES if state.progress.n_passes >= self.method.n_passes else None

    @abstractmethod
    def visit(self, risk: ShardedRisk, reg: L2, state: PartitionState) -> Game:
        """The game after one more pass."""


@final
@dataclass(frozen=True, kw_only=True)
class AlongPartitions(PartitionSolver):
    """An online ``method`` whose model is passed from one partition to the next.

    >>> from undercut import Hinge, minimize
    >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1.0, -1.0, 1.0])
    >>> risk = ShardedRisk.of(LinearRisk(X, y, Hinge()), 3)
    >>> result = minimize(risk, L2(0.1), AlongPartitions())
    >>> result.status.name, result.certificate, result.objective < 0.2
    ('MAX_PASSES', 'none', True)
    """

    @override
    def visit(self, risk: ShardedRisk, reg: L2, state: PartitionState) -> Game:
        order = np.random.default_rng((self.method.seed, state.progress.step)).permutation(risk.weights.size)
        game = state.game
        for k in order.tolist():
            at = Visit(self.method, reg.lam, state.radius, state.progress.step)
            (game,) = risk.parts.each(_played, at, game, which=[k])
        return game


@final
@dataclass(frozen=True, kw_only=True)
class MeanOfPartitions(PartitionSolver):
    """An online ``method`` that runs on all partitions at once, from the mean of the models of the last pass.

    >>> from undercut import Hinge, minimize
    >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1.0, -1.0, 1.0])
    >>> risk = ShardedRisk.of(LinearRisk(X, y, Hinge()), 3)
    >>> result = minimize(risk, L2(0.1), MeanOfPartitions())
    >>> result.status.name, result.certificate, result.objective < 0.3
    ('MAX_PASSES', 'none', True)
    """

    @override
    def visit(self, risk: ShardedRisk, reg: L2, state: PartitionState) -> Game:
        weights = [float(weight) for weight in risk.weights]
        at = Visit(self.method, reg.lam, state.radius, state.progress.step)
        last, u, numbers = risk.parts.total(_share, at, state.game, items=weights, add=_joined)
        game = Game(last, u, numbers, state.game.rng)
        game.move_to(last)
        return game


class Visit(NamedTuple):
    """What a partition is told of a pass beside the game."""

    method: OnlineSolver
    lam: float
    radius: float
    n_passes: int  # before this one


def _played(shard: Any, at: Visit, game: Game) -> Game:
    """The game after a pass over one partition."""
    risk = shard.risk
    if not isinstance(risk.design, Matrix):
        raise CapabilityError(f"online methods need X as a dense or sparse matrix; got {type(risk.design).__name__}")
    rng = np.random.default_rng((at.method.seed, at.n_passes, shard.number))
    own = Game(game.v.copy(), game.u.copy(), game.numbers.copy(), rng)
    samples = Samples.of(risk.design, risk.y, risk.n_samples * risk.weight, risk.loss)
    with one_thread():
        at.method.absorb(own, samples, at.lam, at.radius)
    own.move_to(own.last)
    return own


def _share(shard: Any, at: Visit, game: Game, weight: float) -> tuple[Any, ...]:
    """The share of one partition in the mean of the models, of the sums of iterates and of their counts."""
    own = _played(shard, at, game)
    numbers = own.numbers.copy()
    numbers[kernel.N_SUMMED] *= weight
    return weight * own.last, weight * own.u, numbers


def _joined(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """Models and sums are added; of t, R, G and the sums of tau the largest counts."""
    numbers = np.maximum(one[2], other[2])
    numbers[kernel.N_SUMMED] = one[2][kernel.N_SUMMED] + other[2][kernel.N_SUMMED]
    return one[0] + other[0], one[1] + other[1], numbers
