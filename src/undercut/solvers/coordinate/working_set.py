"""Proximal Newton steps with coordinate descent on a growing working set, for L1 and the elastic net.

    min_w  l1 |w|_1 + l2/2 |w|^2 + sum_i weight_i l_i(<w, x_i> + b)

Few parameters of the solution are not zero.  Each step minimizes over a working set of parameters that holds those
and the ones whose optimality condition ``|<x_j, u>| <= l1`` is violated most, u being the slopes
``weight_i l_i'(score_i)`` (Massias, Gramfort, Salmon 2018; Bertrand et al. 2022).  Fenchel duality makes a lower bound
of every u that sums to zero where the intercept is free:

    - sum_i weight_i l_i*(u_i / weight_i) - sum_j max(0, |<x_j, u>| - l1)^2 / (2 l2)     (l2 = 0: u scaled into the box)

and the gap says which parameters are zero at every solution (Ndiaye et al. 2017): these are not looked at again.
Where the loss is squared and rows are short, cyclic descent on nearly all features takes one step to the gap asked for;
where it is logistic and samples are many, the first point is about the solution for an eighth of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import numpy as np
from typing_extensions import override

from undercut.accuracy import gap_allowed, wanted_gap
from undercut.contracts import Design, MulticlassLoss, Regularizer, Risk, Solver
from undercut.deadline import expired
from undercut.errors import CapabilityError, require
from undercut.losses import Logistic, Softmax
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.regularizers import L1, ElasticNet
from undercut.risks import LinearRisk, MulticlassRisk
from undercut.solvers.bounds import tighter
from undercut.solvers.coordinate.dual.conjugates import smooth_conjugate
from undercut.solvers.coordinate.working.class_problem import ClassProblem
from undercut.solvers.coordinate.working.columns import Columns, ModelGap, Tolerance, column_norms
from undercut.solvers.coordinate.working.direct_columns import SparseColumns
from undercut.solvers.coordinate.working.gram_columns import DenseColumns, GramColumns
from undercut.solvers.coordinate.working.pointwise_problem import PointwiseProblem
from undercut.solvers.coordinate.working.repaired_slopes import Repair, tolerance
from undercut.solvers.coordinate.working.sampled_columns import SampledColumns
from undercut.solvers.coordinate.working.sparse_problem import Bound, Effort, Last, Point, SparseProblem, is_used, sizes
from undercut.trace import Progress
from undercut.types import Array, FloatArray

FINER = (
    0.1  # accuracy where descent visits sparse columns, with L1 alone: Newton steps cost less than the rest of a step
)
OUTSIDE = 0.1  # share of the largest violation: where there is a larger one outside the working set, it is replaced
MAX_NEWTON = 6  # Newton steps on one working set
MAX_ROUNDS = 30  # of descent on the model of each Newton step
FIRST_NEWTON = 1  # Newton steps on a new working set
FIRST_ROUNDS = 2  # of descent on the model of each of those
CLOSE = 3.0  # times the gap asked for: after a step that decreased the objective by less, with L1 alone, one model ...
CLOSE_ROUNDS = 8  # ... is minimized in so many rounds of descent ...
MISFIT = 0.3  # ... or until violations are expected to add this share of that gap, because its slopes prove the most,
FINER_MISFIT = 0.3  # ... and of what they add now: a larger tolerance would take the start for the minimum
QUICK = 200_000  # entries of a working set: a Newton step on fewer, all that there are, takes less time than a bound
EXPECTED = 0.9  # share of the gap asked for, at which such steps are expected to end the run
SMALLEST = 100  # parameters of a working set, if there are as many
REFRESHED = 10  # steps after which scores are computed from the parameters, not from those of the last step
SHRUNK = 0.5  # share of a working set: where no more than that is needed, the others are left out
MANY = 2  # of what a working set needs: if there are fewer parameters than that, it holds all of them ...
MANY_CYCLIC = 8  # ... or than that, where cyclic descent costs less than another step
WITHIN = 0.9  # share of the gap asked for at which cyclic descent on all features ends
PART = 0.1  # share of the gap at which that on some of them does
MANY_SAMPLES = 100  # per parameter: from here on ...
SOME = 0.125  # ... this share of them is minimized over first, ...
ROUGH = 0.1  # ... to this relative gap, ...
FEW_STEPS = 5  # ... in at most so many steps, ...
STEEP = 3.0  # ... if the largest slope at zero is more than this, in units of l1, ...
EXCESS = 0.3  # ... and the excess of the risk is expected to be at most this share of the objective
FREE = 10.0  # with a free intercept, where zero is a better start, as many times the samples and the slope are needed
MANY_CLASS_SAMPLES = 40_000  # with several classes, from here on instead, whose steps on some samples ...
NEAR = 0.05  # ... end where one decreases the objective by no more than this share


SparseRisk: TypeAlias = LinearRisk | MulticlassRisk


@dataclass(frozen=True)
class WorkingSetState:
    w: FloatArray  # not worse than the solution but for rounding
    solution: FloatArray
    point: Point
    alive: Array  # which features a solution may use
    norms: FloatArray  # of the columns of X, weighted
    progress: Progress
    columns: Columns | None = None  # the working set
    damping: float = 0.0
    moved: float = 0.0  # largest change of a score in the last Newton step
    decrease: float = math.inf  # of the objective in the last step
    repair: Repair | None = None  # of slopes that violate the box of l1


@final
@dataclass(frozen=True, kw_only=True)
class WorkingSet(Solver[WorkingSetState, SparseRisk, Regularizer]):
    """Coordinate descent on a working set of features: sparse linear models with smooth losses, softmax included.

    >>> import numpy as np
    >>> from undercut import L1, LinearRisk, Squared, minimize
    >>> risk = LinearRisk(np.eye(3), np.array([3.0, -0.5, 1.5]), Squared())
    >>> minimize(risk, L1(1 / 3), WorkingSet()).w.round(6)
    array([2. , 0. , 0.5])
    """

    growth: float = 2.0  # size of a new working set, in parameters that are not zero

    def __post_init__(self) -> None:
        require(self.growth > 1.0, "`growth` must be greater than 1", self.growth)

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        if not isinstance(reg, L1 | ElasticNet) or reg.terms.l1 <= 0.0:
            raise CapabilityError(
                f"WorkingSet needs L1 or ElasticNet with a positive l1_ratio; got {reg}: use LevelBundle or L2"
            )
        if not isinstance(risk, SparseRisk) or not isinstance(_features(risk), SparseDesign | DenseDesign):
            raise CapabilityError(
                "WorkingSet needs a LinearRisk or a MulticlassRisk on a dense or sparse matrix; "
                f"got {type(risk).__name__}: use LevelBundle"
            )
        if not isinstance(risk.loss, Softmax) and (
            isinstance(risk.loss, MulticlassLoss) or smooth_conjugate(risk.loss) is None
        ):
            raise CapabilityError(
                f"WorkingSet needs a smooth loss of this library; got {type(risk.loss).__name__}: use LevelBundle"
            )
        super().check(risk, reg)

    @override
    def init(self, risk: SparseRisk, reg: Regularizer, w0: FloatArray) -> WorkingSetState:
        norms = column_norms(_features(risk), risk.weight)
        problem = _problem(risk, reg, norms)
        w = problem.by_feature(w0 if w0.any() else self._first(risk, reg, w0)).copy()
        w[norms == 0.0] = 0.0
        w = problem.flat(w)
        start = WorkingSetState(w, w, problem.point(problem.scores(w)), norms > 0.0, norms, Progress(-1))
        return _proved(risk, reg, problem, start)

    def _first(self, risk: SparseRisk, reg: Regularizer, zero: FloatArray) -> FloatArray:
        """The solution for some of the samples, roughly; zero where these say little about the others."""
        if not _is_worth_a_sample(risk, reg):
            return zero
        rows = np.flatnonzero(np.random.default_rng(0).random(risk.n_samples) < SOME)
        if isinstance(risk, MulticlassRisk) and not np.bincount(risk.y[rows], risk.weight[rows], risk.n_classes).all():
            return zero  # intercepts need every class
        part = risk.part(rows)
        with gap_allowed(lambda progress: math.inf):  # no bound of the part is of use
            state = self.init(part, reg, zero)
            problem = _problem(part, reg, state.norms)
            for _ in range(FEW_STEPS):
                last = state.progress
                if last.gap <= ROUGH * abs(last.objective) or expired():
                    break
                state = self.step(part, reg, state)
                if problem.excess(state.w, state.point) > EXCESS * state.progress.objective:
                    return zero
                if isinstance(part, MulticlassRisk) and state.progress.objective > (1.0 - NEAR) * last.objective:
                    break  # bounds are far away until late
        return state.solution

    @override
    def carry(self, risk: SparseRisk, reg: Regularizer, state: WorkingSetState) -> WorkingSetState:
        start = replace(state, solution=state.w, alive=state.norms > 0.0, progress=Progress(-1))
        carried = _proved(risk, reg, _problem(risk, reg, state.norms), start)
        return replace(carried, progress=carried.progress.changed(n_evaluations=0))

    @override
    def step(self, risk: SparseRisk, reg: Regularizer, state: WorkingSetState) -> WorkingSetState:
        problem = _problem(risk, reg, state.norms)
        point, w = state.point, problem.by_feature(state.w)

        # 1. A working set that holds every feature whose optimality condition is violated most.
        violation = np.where(state.alive, problem.violation(state.w, point.gradient), 0.0)
        most = float(violation.max(initial=0.0))
        columns = self._columns(problem, state, violation)

        # 2. Newton steps on it, no more accurate than the other features deserve.
        effort = _effort(problem, columns, state)
        if isinstance(columns, SparseColumns) and not columns.is_slow and problem.is_cyclic(columns.ids):
            effort = effort._replace(n_newton=1, model_gap=_model_gap(columns, state))
        moved = state.moved if effort.tol is None else 0.0
        start = problem.iterate(w[columns.ids].reshape(-1), point, state.damping, moved)
        gradient = point.gradient[columns.ids].reshape(-1)
        end = problem.descend(columns, start, gradient, most, effort)
        w = np.zeros_like(w)
        w[columns.ids] = end.w.reshape(columns.ids.size, *w.shape[1:])

        # 3. The exact objective, and what the new slopes prove.
        is_fresh = (state.progress.step + 1) % REFRESHED == 0
        at = problem.point(columns.scores(end.w)) if is_fresh else problem.settled(end, point.intercept)
        after = WorkingSetState(
            problem.flat(w), state.solution, at, state.alive, state.norms, state.progress, columns,
            end.damping, end.moved, start.value - end.value, state.repair,
        )  # fmt: skip
        return _proved(risk, reg, problem, after, end.last)

    @override
    def restored(self, risk: SparseRisk, reg: Regularizer, state: WorkingSetState) -> WorkingSetState:
        if state.columns is None:
            return state
        columns = _problem(risk, reg, state.norms).columns(state.columns.ids)
        if isinstance(columns, SampledColumns) and isinstance(state.columns, SampledColumns):
            columns.resume(state.columns)
        if isinstance(columns, DenseColumns) and isinstance(state.columns, DenseColumns):
            columns.resume(state.columns)
        if isinstance(columns, SparseColumns) and isinstance(state.columns, SparseColumns):
            columns.is_slow = state.columns.is_slow
        return replace(state, columns=columns)

    def _columns(self, problem: SparseProblem, state: WorkingSetState, violation: FloatArray) -> Columns:
        """The last working set if it has the largest violations and few features that are not needed, or another."""
        last = state.columns
        if isinstance(last, GramColumns) and _is_whole(last, state):
            return last
        used = is_used(problem.by_feature(state.w))
        size = max(SMALLEST, int(np.count_nonzero(violation)), int(self.growth * np.count_nonzero(used)))
        if last is None or _outside(violation, last.ids) > OUTSIDE * float(violation.max(initial=0.0)):
            likely = _likely(state, used, size)
            if problem.is_cyclic(likely) and not (isinstance(last, SparseColumns) and last.is_slow):
                likely = _likely(state, used, size, MANY_CYCLIC)
            return problem.columns(likely, last)
        if size < SHRUNK * last.ids.size and isinstance(last, SparseColumns):  # whose columns are copied at little cost
            return problem.columns(np.intersect1d(_likely(state, used, size), last.ids, assume_unique=True), last)
        return last


def _likely(state: WorkingSetState, used: Array, size: int, many: int = MANY) -> Array:
    """The features that are used, and those with the largest slopes."""
    candidates = np.flatnonzero(state.alive | used)
    if candidates.size <= many * size:
        return candidates
    rank = np.where(used, math.inf, sizes(state.point.gradient))[candidates]
    return np.sort(candidates[np.argpartition(-rank, size)[:size]])


def _effort(problem: SparseProblem, columns: Columns, state: WorkingSetState) -> Effort:
    """How much to spend on a working set: little on a new one, and one accurate model near the optimum.

    Where X is so small that a bound takes longer than a Newton step, it waits until it is likely to end the run.
    """
    if isinstance(columns, DenseColumns) and columns.X.size <= QUICK and _is_whole(columns, state):
        gap = EXPECTED * wanted_gap(state.progress)
        return Effort(MAX_NEWTON if gap > 0.0 and not problem.is_quadratic else 1, MAX_ROUNDS, 0.0, gap=gap)
    if problem.is_corrected(columns):
        wanted = wanted_gap(state.progress)
        if state.decrease >= CLOSE * wanted:
            return Effort(MAX_NEWTON, 1, FINER)
        tol = tolerance(problem.penalty, state.w, state.progress.objective, wanted)
        misfit = problem.penalty.misfit(problem.by_feature(state.w), state.point.gradient)
        return Effort(1, CLOSE_ROUNDS, FINER, Tolerance(tol, min(MISFIT * wanted, FINER_MISFIT * misfit)))
    if columns is not state.columns:
        return Effort(FIRST_NEWTON, FIRST_ROUNDS)
    return Effort(1 if _is_costly(columns, state) else MAX_NEWTON, MAX_ROUNDS)


def _model_gap(columns: Columns, state: WorkingSetState) -> ModelGap:
    """The gap to which to minimize over a working set: that of the run where no other feature is alive."""
    last = state.progress
    is_whole = np.count_nonzero(state.alive[columns.ids]) == np.count_nonzero(state.alive)
    wanted = WITHIN * wanted_gap(last)
    gap = wanted if is_whole and wanted > 0.0 else max(wanted, PART * last.gap)
    return ModelGap(min(gap / max(last.objective, 1e-300), PART), state.point.value)


def _is_worth_a_sample(risk: SparseRisk, reg: Regularizer) -> bool:
    """Whether a share of the samples tells most about a solution that is many steps away from zero."""
    if not isinstance(risk.loss, Logistic | Softmax):  # other losses need fewer steps
        return False
    assert isinstance(reg, L1 | ElasticNet)
    times = FREE if risk.fit_intercept and isinstance(risk, LinearRisk) else 1.0
    many = MANY_CLASS_SAMPLES if isinstance(risk, MulticlassRisk) else times * MANY_SAMPLES * risk.n_params
    if risk.n_samples < many:
        return False
    return float(np.abs(risk.cut_at_zero.a).max(initial=0.0)) > times * STEEP * float(reg.terms.l1)


def _outside(violation: FloatArray, ids: Array) -> float:
    """The largest violation of the features that are not in a working set."""
    others = violation.copy()
    others[ids] = 0.0
    return float(others.max(initial=0.0))


def _is_costly(columns: Columns, state: WorkingSetState) -> bool:
    """Whether a Newton step, which succeeds, costs so much more than a bound that each is worth one."""
    if isinstance(columns, SampledColumns):
        return True
    return isinstance(columns, GramColumns) and state.damping == 0.0 and _is_whole(columns, state)


def _is_whole(columns: Columns, state: WorkingSetState) -> bool:
    """Whether a working set holds all features that a solution may use."""
    return int(np.count_nonzero(state.alive[columns.ids])) == int(np.count_nonzero(state.alive))


def _features(risk: SparseRisk) -> Design:
    return risk.features if isinstance(risk, MulticlassRisk) else risk.design


def _problem(risk: SparseRisk, reg: Regularizer, norms: FloatArray) -> SparseProblem:
    return ClassProblem(risk, reg, norms) if isinstance(risk, MulticlassRisk) else PointwiseProblem(risk, reg, norms)


def _proved(
    risk: SparseRisk,
    reg: Regularizer,
    problem: SparseProblem,
    state: WorkingSetState,
    newton: Last | None = None,
) -> WorkingSetState:
    """The state with the objective at its w, the bound that slopes prove, and the features that this excludes.

    ``newton`` : the last Newton step.
    """
    w, point, last = state.w, state.point, state.progress
    objective = problem.penalty.value(w) + point.value
    solution = w if objective <= last.objective else state.solution
    objective = min(objective, last.objective)
    progress = Progress(last.step + 1, objective, last.lower_bound, last.n_evaluations + 1)
    best = problem.best_bound(w, point, newton, state.alive, progress)
    repair = state.repair
    if isinstance(problem, ClassProblem):
        progress = progress.changed(lower_bound=max(last.lower_bound, best.value))
        moved, repair = _moved_into_the_box(problem, state, progress)
        best = best if moved is None else max(best, moved, key=lambda bound: bound.value)
    lower_bound = tighter(max(last.lower_bound, risk.lower_bound), best.value, objective)
    alive = state.alive & ~problem.screened(w, best.gradient, best.share, objective - best.value)
    return WorkingSetState(
        w, solution, point, alive, state.norms, progress.changed(lower_bound=lower_bound), state.columns,
        state.damping, state.moved, state.decrease, repair,
    )  # fmt: skip


def _moved_into_the_box(
    problem: ClassProblem, state: WorkingSetState, progress: Progress
) -> tuple[Bound | None, Repair | None]:
    """The bound of slopes that are moved to ``|X' u| <= l1``, where that may end the run, and the repair after it.

    ``state.progress`` is that before the step, ``progress`` the one after it.
    """
    wanted = wanted_gap(progress)
    if not 0.0 < wanted < progress.gap:
        return None, state.repair
    if problem.penalty.l2 > 0.0 or state.progress.objective - progress.objective > wanted:
        return None, state.repair
    return problem.repaired(state.w, state.point, state.alive, progress, state.repair)
