"""Stochastic gradient descent with momentum over batches, for any risk that is a mean over samples, without a bound.

    v <- momentum v - eta_t (g_B + reg'(w)),        w <- w + v,        eta_t = step_size / (1 + t / half_life)

with a batch B of the samples at a time and t in passes.  A step of the solver is a pass over all samples in random
order, after which the objective is evaluated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from typing_extensions import override

from undercut.contracts import BatchedRisk, DifferentiableRegularizer, Solver
from undercut.errors import require
from undercut.trace import Certificate, Progress
from undercut.types import FloatArray


@dataclass(frozen=True)
class StochasticState:
    w: FloatArray
    speed: FloatArray
    solution: FloatArray
    progress: Progress


@final
@dataclass(frozen=True, kw_only=True)
class StochasticGradient(Solver[StochasticState, BatchedRisk, DifferentiableRegularizer]):
    """Passes of mini-batch steps; the best point at the end of a pass is kept.

    A pass counts as two evaluations of the risk: that of all batches, and that of the objective.  ``seed`` fixes the
    order of the samples in every pass.

    >>> from undercut import L2, LinearRisk, Squared, minimize
    >>> from undercut.solvers import Stop
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Squared())
    >>> solver = StochasticGradient(step_size=0.1, batch_size=1)
    >>> result = minimize(risk, L2(0.5), solver, stop=Stop(max_steps=200))
    >>> result.w.round(1), result.certificate
    (array([ 0.5, -0.5]), 'none')
    """

    needs_convex = False
    may_stall = False

    step_size: float = 0.1
    batch_size: int = 32
    momentum: float = 0.9
    half_life: float = math.inf  # passes after which the steps are half as long
    seed: int = 0

    def __post_init__(self) -> None:
        require(0.0 < self.step_size < math.inf, "`step_size` must be positive and finite", self.step_size)
        require(self.batch_size >= 1, "`batch_size` must be at least 1", self.batch_size)
        require(0.0 <= self.momentum < 1.0, "`momentum` must be in [0, 1)", self.momentum)
        require(self.half_life > 0.0, "`half_life` must be positive", self.half_life)

    @override
    def certificate(self, risk: BatchedRisk) -> Certificate:
        return "none"

    @override
    def init(self, risk: BatchedRisk, reg: DifferentiableRegularizer, w0: FloatArray) -> StochasticState:
        progress = Progress(0, reg.value(w0) + risk.value(w0), n_evaluations=1)
        return StochasticState(w0, np.zeros_like(w0), w0, progress)

    @override
    def step(self, risk: BatchedRisk, reg: DifferentiableRegularizer, state: StochasticState) -> StochasticState:
        last, w, speed = state.progress, state.w.copy(), state.speed.copy()
        eta = self.step_size / (1.0 + last.step / self.half_life)

        # 1. One step per batch, in an order that depends on the seed and the pass alone.
        order = np.random.default_rng([self.seed, last.step]).permutation(risk.n_samples)
        for start in range(0, order.size, self.batch_size):
            cut = risk.batch(order[start : start + self.batch_size]).cut(w)
            speed *= self.momentum
            speed -= eta * (cut.a + reg.gradient(w))
            w += speed

        # 2. Keep the best point.
        objective, solution = last.objective, state.solution
        if (candidate := reg.value(w) + risk.value(w)) < objective:
            objective, solution = candidate, w
        n_evaluations = last.n_evaluations + 2
        progress = Progress(last.step + 1, objective, n_evaluations=n_evaluations, n_passes=last.n_passes + 1.0)
        return StochasticState(w, speed, solution, progress)
