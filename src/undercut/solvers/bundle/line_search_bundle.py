"""Cutting planes with an exact line search (Franc and Sonnenburg 2008, OCAS) on cached scores.

The plain cutting-plane iterate may be far worse than the best point so far.  Here every step moves the best point to
the minimum of J on the way to the model's minimizer, and takes the next plane just beyond it:

    best   <- argmin_{t >= 0} J(best + t (minimizer - best))
    plane at  (1 - beyond) best + beyond minimizer

On a ``LineRisk`` a step costs one product with X, one with X' and the line search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from typing_extensions import override

from undercut.contracts import Cut, Line, LineRisk, QuadraticRegularizer
from undercut.errors import NonfiniteError, require
from undercut.solvers.bounds import LINE_ACCURACY, check_floor, check_plane, tighter
from undercut.solvers.bundle.bundle import Bundle
from undercut.solvers.bundle.common import BundleSolver, check_bundle_settings, master_tolerance
from undercut.trace import Progress
from undercut.types import FloatArray


@dataclass(frozen=True)
class LineSearchState:
    line: Line  # passes through the best point at ``t``
    t: float
    solution: FloatArray
    cut: Cut  # the newest plane, not yet in the bundle
    bundle: Bundle
    progress: Progress


@final
@dataclass(frozen=True, kw_only=True)
class LineSearchBundle(BundleSolver[LineSearchState, LineRisk, QuadraticRegularizer]):
    """Cutting planes with an exact line search: the fastest certified solver for linear models.

    >>> import numpy as np
    >>> from undercut import Hinge, L2, LinearRisk, minimize
    >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    >>> minimize(LinearRisk(X, y, Hinge()), L2(0.1), LineSearchBundle()).w.round(6)
    array([ 0.5, -1. ])
    """

    max_planes: int | None = None  # planes kept besides the flat and the aggregated one
    beyond: float = 0.03  # where between the best point and the model's minimizer the next plane is taken
    max_idle: int = 15  # drop a plane whose dual weight has been zero this long
    master_accuracy: float = 0.2  # solve each master problem to this fraction of the gap

    def __post_init__(self) -> None:
        check_bundle_settings(self.max_planes, self.max_idle, self.master_accuracy)
        require(0.0 < self.beyond <= 1.0, "`beyond` must be in (0, 1]", self.beyond)

    @override
    def init(self, risk: LineRisk, reg: QuadraticRegularizer, w0: FloatArray) -> LineSearchState:
        line = risk.along(w0, np.zeros_like(w0))
        cut = line.cut(0.0)
        progress = Progress(0, reg.value(w0) + cut.value, n_evaluations=1)
        return LineSearchState(line, 0.0, w0, cut, Bundle(reg, risk.n_params, risk.lower_bound), progress)

    @override
    def carry(self, risk: LineRisk, reg: QuadraticRegularizer, state: LineSearchState) -> LineSearchState:
        state.bundle.regularize(reg)
        objective = reg.value(state.solution) + state.line.value(state.t)
        bound = min(state.bundle.proved().lower_bound, objective)
        return replace(state, progress=Progress(0, objective, bound, n_cuts=len(state.bundle)))

    @override
    def step(self, risk: LineRisk, reg: QuadraticRegularizer, state: LineSearchState) -> LineSearchState:
        last, bundle, best = state.progress, state.bundle, state.solution

        # 1. Sharpen the model by the newest plane and minimize it to a share of the gap.
        if self.max_planes is not None:
            bundle.make_room(self.max_planes)
        bundle.add(state.cut)
        model = bundle.minimize(master_tolerance(self.master_accuracy, last.objective, last.lower_bound))
        bundle.drop_idle(self.max_idle)

        # 2. Move the best point to the minimum of J towards the model's minimizer.
        direction = model.w - best
        line = state.line.turn(state.t, direction)
        t = line.minimizer(*reg.along(best, direction), accuracy=LINE_ACCURACY)
        solution = best + t * direction
        objective = reg.value(solution) + line.value(t)
        if not objective < last.objective:  # rounding: stay
            t, solution, objective = 0.0, best, last.objective
        lower_bound = tighter(last.lower_bound, model.lower_bound, objective, model.size)

        # 3. Take the next plane a little beyond it, where the model is wrong by more.
        cut = self._cut_beyond(line, t)
        check_floor(risk.lower_bound, cut)
        check_plane(cut, solution, objective, reg.value(solution))
        progress = Progress(last.step + 1, objective, lower_bound, last.n_evaluations + 1, len(bundle))
        return LineSearchState(line, t, solution, cut, bundle, progress)

    def _cut_beyond(self, line: Line, t: float) -> Cut:
        """The plane at ``beyond`` of the way from t to the model's minimizer at 1, or at t where that overflows."""
        try:
            return line.cut(t + self.beyond * (1.0 - t))
        except NonfiniteError:
            return line.cut(t)
