"""The convex-concave procedure (Yuille and Rangarajan 2003): minimize a convex function above J that touches it.

    w_{k+1} = argmin_w  reg(w) + M_k(w),        M_k = convex part of R + tangent of its concave part at w_k

M_k lies above R, so J never rises.  The inner problems are solved by one of our convex solvers, step by step: the lower
bound it proves for M_k says how much this and every later tangent at w_k can still gain, hence the model gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, final

from typing_extensions import override

from undercut.contracts import LineRisk, MajorizedRisk, QuadraticRegularizer, Risk, Solver
from undercut.errors import require
from undercut.solvers.bundle.line_search_bundle import LineSearchBundle
from undercut.solvers.bundle.proximal_bundle import ProximalBundle
from undercut.trace import Certificate, Progress, Status
from undercut.types import FloatArray


@dataclass(frozen=True)
class ConvexConcaveState:
    solution: FloatArray  # w_k
    majorizer: Risk
    inner: Any  # the inner solver's state on the majorizer
    n_before: int  # evaluations spent before this inner problem
    progress: Progress
    stuck: bool = False  # the last inner problem gained nothing


@final
@dataclass(frozen=True, kw_only=True)
class ConvexConcave(Solver[ConvexConcaveState, MajorizedRisk, QuadraticRegularizer]):
    """CCCP over any risk with a ``majorizer``: a ``LinearRisk`` with a ``KinkedLoss``, a ``DifferenceRisk``, your own.

    An inner problem counts as solved once its gap is ``accuracy`` times what it has gained.

    >>> import numpy as np
    >>> from undercut import L2, LinearRisk, Ramp, minimize
    >>> X, y = np.array([[1.0], [2.0], [-1.0], [8.0]]), np.array([1.0, 1.0, -1.0, -1.0])
    >>> minimize(LinearRisk(X, y, Ramp()), L2(0.01), ConvexConcave(), w0=np.ones(1)).w.round(2)
    array([1.])
    """

    needs_convex = False
    may_stall = False

    inner: Solver[Any, Any, Any] | None = None  # by default what suits the majorizer
    accuracy: float = 0.1

    def __post_init__(self) -> None:
        require(0.0 < self.accuracy < 1.0, "`accuracy` must be between 0 and 1", self.accuracy)

    @override
    def certificate(self, risk: MajorizedRisk) -> Certificate:
        return "local"

    @override
    def init(self, risk: MajorizedRisk, reg: QuadraticRegularizer, w0: FloatArray) -> ConvexConcaveState:
        return self._linearized(risk, reg, w0, Progress(0, reg.value(w0) + risk.value(w0), n_evaluations=1))

    @override
    def step(self, risk: MajorizedRisk, reg: QuadraticRegularizer, state: ConvexConcaveState) -> ConvexConcaveState:
        last, solver = state.progress, self._solver(state.majorizer)

        # 1. One step on the convex problem.
        inner = solver.step(state.majorizer, reg, state.inner)
        at: Progress = inner.progress
        n_evaluations = state.n_before + at.n_evaluations
        bound = min(at.lower_bound, last.objective)  # J(w_k) bounds the minimum of its majorizer
        progress = replace(last, step=last.step + 1, lower_bound=bound, n_evaluations=n_evaluations, n_cuts=at.n_cuts)
        if at.gap > self.accuracy * max(last.objective - at.objective, 0.0) and at.gap > 0.0:
            return replace(state, inner=inner, progress=progress)

        # 2. It is solved well enough: move there and take the next tangent.
        objective = reg.value(inner.solution) + risk.value(inner.solution)
        if not objective < last.objective:
            return replace(state, inner=inner, progress=progress, stuck=True)
        progress = replace(progress, objective=objective, n_evaluations=n_evaluations + 1, n_descent=last.n_descent + 1)
        return self._linearized(risk, reg, inner.solution, progress)

    @override
    def restored(self, risk: MajorizedRisk, reg: QuadraticRegularizer, state: ConvexConcaveState) -> ConvexConcaveState:
        solver = self._solver(state.majorizer)
        return replace(state, inner=solver.restored(state.majorizer, reg, state.inner))

    @override
    def ended(self, state: ConvexConcaveState) -> Status | None:
        return Status.STALLED if state.stuck else None

    def _linearized(
        self, risk: MajorizedRisk, reg: QuadraticRegularizer, w: FloatArray, progress: Progress
    ) -> ConvexConcaveState:
        majorizer = risk.majorizer(w)
        solver = self._solver(majorizer)
        solver.check(majorizer, reg)
        inner = solver.init(majorizer, reg, w)
        progress = replace(progress, lower_bound=-math.inf)
        return ConvexConcaveState(w, majorizer, inner, progress.n_evaluations, progress)

    def _solver(self, majorizer: Risk) -> Solver[Any, Any, Any]:
        return self.inner or (LineSearchBundle() if isinstance(majorizer, LineRisk) else ProximalBundle())
