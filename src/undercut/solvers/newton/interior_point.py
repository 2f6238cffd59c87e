"""A primal-dual interior point method for problems with kinks: in the loss, in the penalty, or in both.

    min_x  q(w) + f(s) + sum_i left_i (s_i - kinks_0i) + sum_ki caps_ki max(0, z_ki),    s = A x,  z_ki = s_i - kinks_ki

Every kink has slacks ``t - r = z`` and slopes ``u + v = cap``, all positive, and a step aims at
``r u = t v = share mu`` with a mu that goes to zero; the share of a sample is its cap.  The Newton equations of all
kinks reduce to a matrix of the size of x,

    (q'' + A' (f'' + diag(sum_k D_k)) A) dx  =  -(q'(w) + A' g) - A' pull

with ``D = 1 / (t/v + r/u)`` and ``g = f' + left + sum_k u_k``,

whose formation is one pass over the data and most of the work.  The number of steps depends little on lambda and on
the number of samples.

Any slopes u between 0 and the caps make a plane below the risk, so every step proves a bound.  At the current x the
plane lies ``sum u max(0, -z) + v max(0, z)`` below the risk, a sum without cancellation.  Smooth losses are bounded by
their conjugates.  The best point is exactly zero where the slopes say so, and within its bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, final

import numpy as np
from typing_extensions import override

from undercut.contracts import (
    PiecewiseLinearLoss,
    QuadraticRegularizer,
    Regularizer,
    Risk,
    SmoothLoss,
    Solver,
    WeightedGramDesign,
)
from undercut.errors import CapabilityError, NonfiniteError
from undercut.risks import LinearRisk
from undercut.solvers.bounds import ROUNDING, least, plane_bound, tighter
from undercut.solvers.newton.interior import mehrotra
from undercut.solvers.newton.interior.crossover import crossed, n_free
from undercut.solvers.newton.interior.kinked_program import KinkedProgram, Plane, check_penalty, check_size
from undercut.solvers.newton.interior.mehrotra import Iterate
from undercut.solvers.newton.interior.slopes_bound import slopes_bound
from undercut.trace import Progress, Status
from undercut.types import FloatArray

LITTLE, NEAR = 0.5, 1e-2  # crossover if a step leaves more than this share of the gap, and the relative gap is below
SPARSER = (1.0, 1e-2, 1e-4)  # how readily parameters are taken for zero, in the order of trial
EXTRA_STEPS = 4  # at the end, to decide which parameters are zero
SHORTEST = 1e-8  # a step shorter than this gains nothing
SMALLEST_GAP = 1e-6  # of the size of the losses: the gap at the start is assumed to be at least this


@dataclass(frozen=True)
class InteriorPointState:
    derived: ClassVar = ("program",)

    program: KinkedProgram
    at: Iterate
    residual: FloatArray  # q'(w) + A' g
    solution: FloatArray
    proof: Iterate  # whose slopes prove the bound
    progress: Progress
    start: float  # J at the start
    length: float = 1.0  # of the last step


@final
@dataclass(frozen=True)
class InteriorPoint(Solver[InteriorPointState, LinearRisk, Regularizer]):
    """Interior point steps for any convex loss with L1, elastic net or bounds, and for kinked losses with L2.

    >>> from undercut import L1, Hinge, minimize
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge())
    >>> result = minimize(risk, L1(0.1), InteriorPoint())
    >>> result.w.round(2), round(result.objective, 2), result.status.name
    (array([ 1., -1.]), 0.2, 'CONVERGED')
    """

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        if not isinstance(risk, LinearRisk) or not isinstance(risk.loss, PiecewiseLinearLoss | SmoothLoss):
            raise CapabilityError(
                f"InteriorPoint needs a LinearRisk with a loss that is piecewise linear, such as Hinge or Absolute, or "
                f"smooth, and this {type(risk).__name__} is not one: use LineSearchBundle"
            )
        if not isinstance(risk.design, WeightedGramDesign):
            raise CapabilityError(
                f"InteriorPoint needs a design that makes X' D X, and {type(risk.design).__name__} has no "
                "`weighted_gram(g)`: use LineSearchBundle"
            )
        check_penalty("InteriorPoint", risk, reg)
        check_size("InteriorPoint", risk, reg)

    @override
    def init(self, risk: LinearRisk, reg: Regularizer, w0: FloatArray) -> InteriorPointState:
        evaluation = risk.phi.evaluate(risk.design.matvec(w0))
        objective = _finite(reg.value(w0) + evaluation.value)
        program = KinkedProgram(risk, reg, objective)
        known = min(least(risk, reg), objective)
        x = program.start(w0, evaluation.intercept)
        scores = program.rows.matvec(x)

        progress = Progress(0, objective, known, n_evaluations=1)
        at = Iterate(x, scores, mehrotra.outside(program), 0.0)
        return InteriorPointState(program, at, np.zeros(0), w0, at, progress, objective)

    @override
    def step(self, risk: LinearRisk, reg: Regularizer, state: InteriorPointState) -> InteriorPointState:
        last = state.progress
        progress = replace(last, step=last.step + 1, n_evaluations=last.n_evaluations + 1)

        if not state.residual.size:
            state = _started(risk, reg, state)

        # 1. Towards the optimum along the central path.
        at, length = mehrotra.step(state.program, state.at, state.residual)

        # 2. J and the plane there.
        best = Best(state.solution, state.proof, progress)
        moved = replace(_certified(risk, reg, state.program, at, best), length=length)

        # 3. Where that gains little although the end is near, the equations of the kinks that are met.
        if LITTLE * last.gap < moved.progress.gap < NEAR * abs(moved.progress.objective):
            return _crossed(risk, reg, moved, moved.at)
        return moved

    @override
    def finish(self, risk: LinearRisk, reg: Regularizer, state: InteriorPointState) -> InteriorPointState:
        """A solution on fewer parameters, where it has more than the slopes tell to be needed."""
        for _ in range(EXTRA_STEPS):
            if not _is_dense(state):
                break
            crossed = _crossed(risk, reg, state, state.proof)
            state = self.step(risk, reg, crossed) if _is_dense(crossed) else crossed
        return state

    @override
    def restored(self, risk: LinearRisk, reg: Regularizer, state: InteriorPointState) -> InteriorPointState:
        return replace(state, program=KinkedProgram(risk, reg, state.start))

    @override
    def ended(self, state: InteriorPointState) -> Status | None:
        return Status.STALLED if state.length < SHORTEST else None


def _started(risk: LinearRisk, reg: Regularizer, state: InteriorPointState) -> InteriorPointState:
    """With slacks and slopes on the central path, as far from its end as x may be."""
    program, at, progress = state.program, state.at, state.progress
    total = max(state.start - min(least(risk, reg), state.start), SMALLEST_GAP * program.size(at.scores))
    inside = mehrotra.centered(program, at.scores, program.mu(total))
    start = at._replace(inside=inside, total=total)
    proof = state.proof if progress.step else start
    return _certified(risk, reg, program, start, Best(state.solution, proof, progress))


class Best(NamedTuple):
    """The best point so far, the iterate that proves the bound, and their numbers."""

    solution: FloatArray
    proof: Iterate
    progress: Progress


def _certified(
    risk: LinearRisk, reg: Regularizer, program: KinkedProgram, at: Iterate, best: Best
) -> InteriorPointState:
    """The state at an iterate: the better of it and the best point so far, and the better bound."""
    w, (_, _, u, v) = at.x[: program.rows.d], at.inside
    g = program.slopes(u, v)
    if program.smooth is not None:
        g[: program.rows.n] += program.smooth.evaluate(at.scores[: program.rows.n]).slopes
    a = program.rows.on_samples(g)
    last = best.progress
    objective, solution = _better(risk, reg, program, at, best.solution, last.objective)
    if isinstance(risk.loss, PiecewiseLinearLoss):
        plane = program.plane(at.scores, g, a, at.inside)
        proved, size = bound_of(reg, w, plane, risk.lower_bound), plane.size
    else:
        proved, size = slopes_bound(risk, reg, w, g[: program.rows.n])
    lower_bound = tighter(last.lower_bound, proved, objective, size)
    progress = replace(last, objective=objective, lower_bound=lower_bound)
    residual = program.gradient(at.x) + program.rows.with_identity(a, g)
    proof = at if proved > last.lower_bound else best.proof
    return InteriorPointState(program, at, residual, solution, proof, progress, program.first)


def _is_dense(state: InteriorPointState) -> bool:
    program = state.program
    if program.smooth is not None or program.dense_rows is None or not program.rows.signs:
        return False
    return bool(np.count_nonzero(state.solution) > n_free(program, state.proof))


def _crossed(risk: LinearRisk, reg: Regularizer, state: InteriorPointState, at: Iterate) -> InteriorPointState:
    """The state with the better of what it and a crossover from an iterate give."""
    return _kept(risk, reg, state, crossed(state.program, at) if state.program.smooth is None else None)


def _kept(risk: LinearRisk, reg: Regularizer, state: InteriorPointState, at: Iterate | None) -> InteriorPointState:
    """The same iterate, with the better of what it and another one give."""
    if at is None or not np.isfinite(at.x).all():
        return state
    found = _certified(risk, reg, state.program, at, Best(state.solution, state.proof, state.progress))
    return replace(state, solution=found.solution, proof=found.proof, progress=found.progress)


def _better(
    risk: LinearRisk, reg: Regularizer, program: KinkedProgram, at: Iterate, best: FloatArray, objective: float
) -> tuple[float, FloatArray]:
    """The better of the best point so far and the iterate, or a sparser point near it that is better too."""
    w = at.x[: program.rows.d]
    for share in SPARSER if program.rows.signs else ():
        sparse = program.candidate(w, at.inside[2], at.inside[3], share)
        value = reg.value(sparse) + risk.value(sparse)
        if value < objective:
            return value, sparse
    value = reg.value(w) + risk.phi.evaluate(at.scores[: program.rows.n]).value
    return (value, w.copy()) if value < objective else (objective, best)


def bound_of(reg: Regularizer, w: FloatArray, plane: Plane, floor: float) -> float:
    """What a plane and the risk's own lower bound prove, less what rounding may have added."""
    b = plane.height - float(plane.a @ w)
    size = plane.size + float(np.abs(plane.a) @ np.abs(w))
    if isinstance(reg, QuadraticRegularizer):
        return plane_bound(reg, plane.a, b, size)
    share = reg.shrinkage(-plane.a, ROUNDING * float(np.abs(plane.a).sum()))
    mixed = share * b + ((1.0 - share) * floor if share < 1.0 else 0.0)
    return mixed - reg.conjugate(-share * plane.a) - ROUNDING * size


def _finite(objective: float) -> float:
    if not math.isfinite(objective):
        raise NonfiniteError(f"the value of the risk is {objective}")
    return objective
