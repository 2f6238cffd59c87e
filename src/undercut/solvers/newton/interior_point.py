"""A primal-dual interior point method for piecewise-linear losses with few parameters.

    min_x  q(w) + sum_i left_i (s_i - kinks_0i) + sum_ki caps_ki max(0, z_ki),      s = A x,  z_ki = s_i - kinks_ki

Every kink has slacks ``t - r = z`` and slopes ``u + v = cap``, all positive, and a step aims at
``r u = t v = min(cap, most) mu`` with a mu that goes to zero; ``most`` is the largest cap of a sample.  The Newton
equations of all kinks reduce to a matrix of the size of x,

    (q'' + A' diag(sum_k D_k) A) dx  =  -(q'(w) + A' g) - A' pull,      D = 1 / (t/v + r/u),   g = left + sum_k u_k

whose formation is one pass over the data and most of the work.  The number of steps depends little on lambda and on
the number of samples.

Any slopes u between 0 and the caps make a plane below the risk, so every step proves a bound.  At the current x the
plane lies ``sum u max(0, -z) + v max(0, z)`` below the risk, a sum without cancellation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from undercut.contracts import PiecewiseLinearLoss, QuadraticRegularizer, Regularizer, Risk, Solver, WeightedGramDesign
from undercut.errors import CapabilityError, NonfiniteError
from undercut.risks import LinearRisk
from undercut.solvers.bounds import ROUNDING, least, plane_bound, tighter
from undercut.solvers.newton import mehrotra
from undercut.solvers.newton.kinked_program import KinkedProgram, Plane, check_penalty
from undercut.solvers.newton.mehrotra import Inside, Iterate
from undercut.trace import Progress, Status
from undercut.types import FloatArray

SHORTEST = 1e-8  # a step shorter than this gains nothing
SMALLEST_GAP = 1e-6  # of the size of the losses: the gap at the start is assumed to be at least this


@dataclass(frozen=True)
class InteriorPointState:
    derived: ClassVar = ("program",)

    program: KinkedProgram
    at: Iterate
    residual: FloatArray  # q'(w) + A' g
    solution: FloatArray
    progress: Progress
    length: float  # of the last step


@final
@dataclass(frozen=True)
class InteriorPoint(Solver[InteriorPointState, LinearRisk, Regularizer]):
    """Interior point steps for hinge, absolute, quantile and epsilon-insensitive losses with L2, L1 or elastic net.

    >>> from undercut import L1, Hinge, minimize
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge())
    >>> result = minimize(risk, L1(0.1), InteriorPoint())
    >>> result.w.round(2), round(result.objective, 2), result.status.name
    (array([ 1., -1.]), 0.2, 'CONVERGED')
    """

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        if not isinstance(risk, LinearRisk) or not isinstance(risk.loss, PiecewiseLinearLoss):
            raise CapabilityError(
                f"InteriorPoint needs a LinearRisk with a piecewise-linear loss such as Hinge or Absolute, and this "
                f"{type(risk).__name__} is not one: use LineSearchBundle, or Newton if the risk is smooth"
            )
        if not isinstance(risk.design, WeightedGramDesign):
            raise CapabilityError(
                f"InteriorPoint needs a design that makes X' D X, and {type(risk.design).__name__} has no "
                "`weighted_gram(g)`: use LineSearchBundle"
            )
        check_penalty("InteriorPoint", reg)

    @override
    def init(self, risk: LinearRisk, reg: Regularizer, w0: FloatArray) -> InteriorPointState:
        program, evaluation = KinkedProgram(risk, reg), risk.phi.evaluate(risk.design.matvec(w0))
        objective = _finite(reg.value(w0) + evaluation.value)
        known = min(least(risk, reg), objective)
        x = program.start(w0, evaluation.intercept)
        scores = program.rows.matvec(x)

        # Slacks and slopes on the central path, as far from its end as w0 may be.
        total = max(objective - known, SMALLEST_GAP * program.size(scores))
        inside = Inside.centered(program, scores, program.mu(total))
        progress = Progress(0, objective, known, n_evaluations=1)
        return _certified(risk, reg, program, Iterate(x, scores, inside, total), w0, progress)

    @override
    def step(self, risk: LinearRisk, reg: Regularizer, state: InteriorPointState) -> InteriorPointState:
        last = state.progress

        # 1. Towards the optimum along the central path.
        at, length = mehrotra.step(state.program, state.at, state.residual)

        # 2. J and the plane there.
        progress = replace(last, step=last.step + 1, n_evaluations=last.n_evaluations + 1)
        moved = _certified(risk, reg, state.program, at, state.solution, progress)
        return replace(moved, length=length)

    @override
    def restored(self, risk: LinearRisk, reg: Regularizer, state: InteriorPointState) -> InteriorPointState:
        return replace(state, program=KinkedProgram(risk, reg))

    @override
    def ended(self, state: InteriorPointState) -> Status | None:
        return Status.STALLED if state.length < SHORTEST else None


def _certified(
    risk: LinearRisk, reg: Regularizer, program: KinkedProgram, at: Iterate, best: FloatArray, last: Progress
) -> InteriorPointState:
    """The state at an iterate: the better of it and the best point so far, and the better bound."""
    w = at.x[: program.rows.d]
    objective, solution = last.objective, best
    candidate = reg.value(w) + risk.phi.evaluate(at.scores[: program.rows.n]).value
    if candidate < objective:
        objective, solution = candidate, w.copy()
    g = program.slopes(at.inside.u)
    a = program.rows.on_samples(g)
    plane = program.plane(at.scores, g, a, at.inside.u, at.inside.v)
    proved = _bound(reg, w, plane, risk.lower_bound)
    lower_bound = tighter(last.lower_bound, proved, objective, plane.size)
    progress = replace(last, objective=objective, lower_bound=lower_bound)
    return InteriorPointState(
        program, at, program.gradient(at.x) + program.rows.with_identity(a, g), solution, progress, 1.0
    )


def _bound(reg: Regularizer, w: FloatArray, plane: Plane, floor: float) -> float:
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
