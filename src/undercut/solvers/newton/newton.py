"""Newton's method with an exact line search, for smooth risks with few parameters.

The (generalized) Hessian costs one pass over the data and a factorization of the size of w, and a handful of steps
reach any accuracy, however small lambda is.  The plane at w proves

    b - reg*(-a)  =  J(w) - 1/2 g' M^-1 g       (g the gradient of J at w, M the Hessian of reg)

which closes quadratically with the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from scipy.linalg.lapack import dposv
from typing_extensions import override

from undercut.accuracy import wanted_gap
from undercut.contracts import QuadraticRegularizer, SmoothRisk, Solver
from undercut.risks.scores.classes.multiclass import SmoothMulticlassRisk, SoftmaxLine
from undercut.risks.scores.linear import SmoothLine, SmoothLinearRisk
from undercut.solvers.bounds import tighter
from undercut.solvers.newton.line_step import NewtonState, descend, restart, start
from undercut.solvers.newton.model_bound import model_bound
from undercut.solvers.newton.sampled_start import sampled_start
from undercut.trace import Progress
from undercut.types import FloatArray


@final
@dataclass(frozen=True)
class Newton(Solver[NewtonState, SmoothRisk, QuadraticRegularizer]):
    """Newton steps with an exact line search, semismooth where the second derivative jumps.

    >>> import numpy as np
    >>> from undercut import L2, LinearRisk, Squared, minimize
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Squared())
    >>> minimize(risk, L2(0.5), Newton()).w
    array([ 0.5, -0.5])
    """

    @override
    def init(self, risk: SmoothRisk, reg: QuadraticRegularizer, w0: FloatArray) -> NewtonState:
        return start(risk, reg, sampled_start(self, risk, reg, w0))

    @override
    def carry(self, risk: SmoothRisk, reg: QuadraticRegularizer, state: NewtonState) -> NewtonState:
        return restart(risk, reg, state)

    @override
    def step(self, risk: SmoothRisk, reg: QuadraticRegularizer, state: NewtonState) -> NewtonState:
        w = state.solution

        # 1. The Newton direction; M makes the matrix positive definite but for rounding.
        hessian = _hessian(risk, state)
        reg.add_hessian(hessian)
        direction = -_solve(hessian, reg.gradient(w) + state.cut.a)

        # 2. The minimum of J along it; the plane there proves a bound.
        moved = descend(risk, reg, state, direction)

        # 3. The slopes that the quadratic model predicted prove another one.
        last = moved.progress
        if not _may_be_near(state.progress, last):
            return moved
        bound = tighter(last.lower_bound, model_bound(reg, moved.line), last.objective)
        return replace(moved, progress=replace(last, lower_bound=bound))


def _may_be_near(before: Progress, now: Progress) -> bool:
    """Whether the decrease of the next step, which falls quadratically, may be below the gap at which the run ends."""
    wanted, decrease = wanted_gap(now), before.objective - now.objective
    return wanted == 0.0 or (now.gap > wanted and decrease**2 <= wanted * abs(now.objective))


def _hessian(risk: SmoothRisk, state: NewtonState) -> FloatArray:
    """The second derivatives at the solution, those of the losses as the line knows them."""
    if isinstance(risk, SmoothLinearRisk) and isinstance(state.line, SmoothLine):
        return risk.bent(state.line.expansion(state.t).bend)
    if isinstance(risk, SmoothMulticlassRisk) and isinstance(state.line, SoftmaxLine):
        return risk.bent(state.line.kept.at(state.t))
    return risk.hessian(state.solution)


def _solve(H: FloatArray, g: FloatArray) -> FloatArray:
    """``H^-1 g``, with the smallest ridge that lets the factorization through."""
    ridge = 1e-16 * float(np.trace(H))
    while True:
        _, direction, failed = dposv(H, g)
        if not failed:
            return np.asarray(direction)
        H.flat[:: g.size + 1] += ridge
        ridge *= 100.0
