"""The QP-free bundle method (Smola et al. 2007, Sec. 5): line search in the dual instead of a quadratic program.

Only ``z = A' alpha`` and ``r = alpha' b`` are kept, no plane.  Moving alpha by ``step_size`` towards the newest plane
changes the dual value by a parabola whose maximum is explicit (eq. 15):

    D(z, r) = r - reg*(-z)  <=  min_w J(w)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from typing_extensions import override

from undercut.contracts import QuadraticRegularizer, Risk, Solver
from undercut.solvers.bounds import cut_size, least, plane_bound, tighter
from undercut.solvers.bundle.common import best_of
from undercut.trace import Progress
from undercut.types import FloatArray


@dataclass(frozen=True)
class DualAscentState:
    w: FloatArray  # where the next plane is taken
    z: FloatArray | None  # None until the first plane, where the risk has no known lower bound
    r: float
    size: float  # of the numbers that make r, for its rounding
    solution: FloatArray
    progress: Progress


@final
@dataclass(frozen=True)
class DualAscent(Solver[DualAscentState, Risk, QuadraticRegularizer]):
    """Bundle method without a bundle: constant memory, one evaluation and a few vector operations a step.

    >>> import numpy as np
    >>> from undercut import Hinge, L2, LinearRisk, Stop, minimize
    >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    >>> result = minimize(LinearRisk(X, y, Hinge()), L2(0.5), DualAscent(), stop=Stop(gap_rel=1e-2))
    >>> result.lower_bound <= 0.3125 <= result.objective
    True
    """

    @override
    def init(self, risk: Risk, reg: QuadraticRegularizer, w0: FloatArray) -> DualAscentState:
        flat = np.zeros_like(w0) if math.isfinite(risk.lower_bound) else None
        return DualAscentState(w0, flat, risk.lower_bound, 0.0, w0, Progress())

    @override
    def step(self, risk: Risk, reg: QuadraticRegularizer, state: DualAscentState) -> DualAscentState:
        last = state.progress

        # 1. The newest plane, and the best value so far.
        cut = risk.cut(state.w)
        solution, objective = best_of(state, state.w, cut, risk, reg)

        # 2. Maximize D((1 - step_size) z + step_size a, (1 - step_size) r + step_size b): slope gamma_t at 0 and the
        #    constant curvature of the dual (eq. 15).
        if state.z is None:
            z, r = cut.a, cut.b
        else:
            towards = cut.a - state.z
            slope = float(towards @ reg.conjugate_argmax(-state.z)) + cut.b - state.r
            curvature = float(reg.dual_inner(towards, towards))
            step_size = min(1.0, max(0.0, slope) / curvature) if curvature > 0.0 else float(slope > 0.0)
            z, r = state.z + step_size * towards, state.r + step_size * (cut.b - state.r)

        # 3. Every alpha on the simplex proves a bound.
        size = max(state.size, cut_size(cut))
        proved = max(plane_bound(reg, z, r, size), least(risk, reg))
        lower_bound = tighter(last.lower_bound, proved, objective, size)
        progress = Progress(last.step + 1, objective, lower_bound, last.n_evaluations + 1)
        return DualAscentState(reg.conjugate_argmax(-z), z, r, size, solution, progress)
