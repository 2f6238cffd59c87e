"""Piecewise-linear losses with L1 and many features: interior point steps on a growing set of columns of X.

The problem is solved on a working set of parameters, all others being zero.  The slopes g of the losses at its optimum
make a plane of the whole risk, and

    |x_j' g| <= l1_j

holds for every parameter that may stay zero (Dantzig and Wolfe 1960); the columns that violate it most join the set.
Scaled until no column violates it, the plane proves a bound of the whole problem.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from typing_extensions import override

from undercut.contracts import PiecewiseLinearLoss, Regularizer, Risk, Solver
from undercut.deadline import expired
from undercut.errors import CapabilityError, require
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.regularizers import SeparableRegularizer
from undercut.risks import LinearRisk
from undercut.solvers.bounds import least, tighter
from undercut.solvers.newton.interior.penalty_terms import PenaltyTerms
from undercut.solvers.newton.interior_point import InteriorPoint, InteriorPointState, bound_of
from undercut.trace import Progress, Status
from undercut.types import Array, FloatArray

MAX_STEPS = 60  # interior point steps on one working set
FULL = 0.25  # columns per sample from which on more of a sparse X hardly make a step more expensive
SETTLED = 1e-9  # relative gap beyond which a working set is not solved


@dataclass(frozen=True)
class ColumnState:
    working: Array  # int64, ascending
    solution: FloatArray
    progress: Progress
    is_over: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class ColumnGeneration(Solver[ColumnState, LinearRisk, SeparableRegularizer]):
    """Working sets of features for hinge, absolute, quantile and epsilon-insensitive losses with L1 or elastic net.

    >>> from undercut import L1, Hinge, minimize
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge())
    >>> minimize(risk, L1(0.1), ColumnGeneration()).w.round(2)
    array([ 1., -1.])
    """

    first: int = 50  # columns of the first working set
    accuracy: float = 0.1  # solve a working set to this share of the gap

    def __post_init__(self) -> None:
        require(self.first >= 1, "`first` must be at least 1", self.first)
        require(0.0 < self.accuracy < 1.0, "`accuracy` must lie between 0 and 1", self.accuracy)

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        super().check(risk, reg)
        if not isinstance(risk, LinearRisk) or not isinstance(risk.loss, PiecewiseLinearLoss):
            raise CapabilityError(
                f"ColumnGeneration needs a LinearRisk with a piecewise-linear loss such as Hinge or Absolute, and this "
                f"{type(risk).__name__} is not one: use WorkingSet if the loss is smooth, or LevelBundle"
            )
        if not isinstance(risk.design, DenseDesign | SparseDesign):
            raise CapabilityError(
                f"ColumnGeneration needs X as an array or a sparse matrix; got {type(risk.design).__name__}: "
                "use LevelBundle"
            )
        if not _has_zeros(reg, risk.n_params):
            raise CapabilityError(
                f"ColumnGeneration needs a penalty with an absolute value of every parameter, and {type(reg).__name__} "
                "has none: use L1 or ElasticNet, or LevelBundle as the solver"
            )

    @override
    def init(self, risk: LinearRisk, reg: SeparableRegularizer, w0: FloatArray) -> ColumnState:
        cut = risk.cut(w0)
        objective = reg.value(w0) + cut.value
        progress = Progress(0, objective, min(least(risk, reg), objective), n_evaluations=1)
        steepest = np.argsort(-np.abs(cut.a) / _l1(reg, risk.n_params))[: self.first]
        return ColumnState(np.union1d(np.flatnonzero(w0), steepest), w0, progress)

    @override
    def step(self, risk: LinearRisk, reg: SeparableRegularizer, state: ColumnState) -> ColumnState:
        last, working = state.progress, state.working

        # 1. The problem with the parameters of the working set alone.
        goal = max(self.accuracy * last.gap, SETTLED * abs(last.objective))
        inner = _solved(_restricted(risk, working), reg.take(working), state.solution[working], goal)
        w = np.zeros(risk.n_params)
        w[working] = inner.solution
        objective, solution = last.objective, state.solution
        if inner.progress.objective < objective:
            objective, solution = inner.progress.objective, w

        # 2. Its plane in all parameters, and what it proves.
        program, (_, _, u, v) = inner.program, inner.proof.inside
        g = program.slopes(u, v)
        plane = program.plane(inner.proof.scores, g, program.rows.on_samples(g), inner.proof.inside)
        at = np.zeros(risk.n_params)
        at[working] = inner.proof.x[: working.size]
        plane = plane._replace(a=risk.design.rmatvec(program.balanced(g)))
        proved = bound_of(reg, at, plane, risk.lower_bound)
        lower_bound = tighter(last.lower_bound, proved, objective, plane.size)

        # 3. The columns that would lower J most; at most as many as there are, unless more cost nothing.
        share = np.abs(plane.a) / _l1(reg, risk.n_params)
        share[working] = 0.0
        joining = np.argsort(-share)[: share.size if _is_full(risk, working) else working.size]
        joining = joining[share[joining] > 1.0]
        n_evaluations = last.n_evaluations + inner.progress.n_evaluations + 1
        progress = replace(
            last, step=last.step + 1, objective=objective, lower_bound=lower_bound, n_evaluations=n_evaluations
        )
        is_over = not joining.size and goal <= SETTLED * abs(last.objective)
        return ColumnState(np.union1d(working, joining), solution, progress, is_over)

    @override
    def ended(self, state: ColumnState) -> Status | None:
        return Status.STALLED if state.is_over else None


def _solved(risk: LinearRisk, reg: SeparableRegularizer, w0: FloatArray, goal: float) -> InteriorPointState:
    """Interior point steps until the gap is small enough, none helps any more or the time is over."""
    solver = InteriorPoint()
    state = solver.init(risk, reg, w0)
    for _ in range(MAX_STEPS):
        if state.progress.gap <= goal or solver.ended(state) is not None or expired():
            break
        state = solver.step(risk, reg, state)
    return solver.finish(risk, reg, state)


def _restricted(risk: LinearRisk, working: Array) -> LinearRisk:
    design = risk.design
    assert isinstance(design, DenseDesign | SparseDesign)
    return LinearRisk(design.X[:, working], risk.y, risk.loss, risk.weight, fit_intercept=risk.fit_intercept)


def _is_full(risk: LinearRisk, working: Array) -> bool:
    """Whether equations of the size of the samples are solved, and few entries of X make them."""
    return isinstance(risk.design, SparseDesign) and working.size >= FULL * risk.n_samples


def _l1(reg: Regularizer, n_params: int) -> FloatArray:
    terms = PenaltyTerms.of(reg, n_params)
    assert terms is not None
    return terms.l1


def _has_zeros(reg: Regularizer, n_params: int) -> bool:
    """Whether every parameter has an absolute value, and may be zero."""
    if not isinstance(reg, SeparableRegularizer):
        return False
    terms = PenaltyTerms.of(reg, n_params)
    return terms is not None and bool(((terms.l1 > 0.0) & (terms.lower < 0.0) & (terms.upper > 0.0)).all())
