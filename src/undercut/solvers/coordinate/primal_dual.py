"""Primal-dual steps on working sets of samples and features, for kinked losses with L1 or the elastic net.

    min_w max_v  l1 |w|_1 + l2/2 |w|^2 + <v, X w> - sum_i l_i*(v_i)

A step costs one product with X and one with X', and needs no factorization: where thousands of parameters are not zero
and as many losses are at a kink, that is less than any method of Newton's kind needs.  Two sets keep X small:

    features   those that are not zero, or whose ``|x_j' v|`` is near l1; the others are zero
    samples    those whose scores have come near a kink; the slopes v of the others are those of their losses

Every step ends with products with the whole X, which say who joins and who leaves, and prove a bound: all slopes v
between the limits of the losses, scaled until ``|x_j' v| <= l1``, are a point of the dual problem.

The last digits cost these steps the most.  Once they have taken a share of what interior point steps from their point
would take, those come next (``newton_end.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, final

import numpy as np
from typing_extensions import override

from undercut.contracts import PiecewiseLinearLoss, Regularizer, Risk, Solver
from undercut.errors import CapabilityError, NonfiniteError, require
from undercut.maps.csr import SparseDesign
from undercut.regularizers import L1, ElasticNet
from undercut.risks import LinearRisk
from undercut.solvers.bounds import ROUNDING, balanced, least, tighter
from undercut.solvers.coordinate import newton_end
from undercut.solvers.coordinate.newton_end import NewtonEnd
from undercut.solvers.coordinate.saddle import Losses, Pair, Run, Saddle, started
from undercut.solvers.coordinate.working.columns import column_norms
from undercut.trace import Progress
from undercut.types import Array, FloatArray

LEAST_STEPS, MOST_STEPS = 80, 2000  # between two products with the whole X
MORE = 0.15  # of all steps so far: as many come next, within these limits
NEAR = 0.8  # share of l1 from which on a feature is taken up
FIRST = 1000  # features that are taken up at first, at most
GROWTH = 2  # features that are taken up later, at most, in numbers of those that are not zero
CLOSE = 0.3  # relative gap from which on samples leave
FAR = 3.0  # distance of a score from the next kink, in units of the last change of scores, beyond which a sample leaves
FARTHER = 2.0  # what this is multiplied by after one has left too early
SURPLUS = 1.5  # what is in use, in units of what is needed, before it is reduced
NEAR_END = 0.2  # relative gap from which on interior point steps are worthwhile
NEARER = 0.9  # share of l1 from which on they take up a feature
FEWEST, JOINING = 50, 0.1  # features that they take up at once later, at most: a number, and a share of theirs
LARGEST = 5000  # columns of their problem, at most
INVESTED = 3.0  # steps of theirs that take as long as all steps before them
SETTLED = 0.5  # share of the gap that their own columns have, at most, where others are missing
STUCK = 1e-3  # length of a step of theirs that ends them
LATER = 4.0  # what INVESTED is multiplied by after that
LOOSE = 1e-9  # share of the range of slopes: a slope nearer than this to that of the loss is equal to it


@dataclass(frozen=True)
class PrimalDualState:
    derived: ClassVar = ("saddle",)

    saddle: Saddle
    rows: Array  # int64, ascending
    columns: Array  # int64, ascending
    run: Run
    v: FloatArray  # slopes of the losses of all samples
    scores: FloatArray  # the intercept included
    norms: FloatArray  # of the columns of X, weighted
    units: FloatArray  # of the intercept, the size of a row of X; empty if there is none
    solution: FloatArray
    progress: Progress
    far: float = FAR
    work: float = 0.0  # entries of X that were read in steps on the working sets
    invested: float = INVESTED
    end: NewtonEnd | None = None  # interior point steps, while they run


@final
@dataclass(frozen=True, kw_only=True)
class PrimalDual(Solver[PrimalDualState, LinearRisk, L1 | ElasticNet]):
    """Primal-dual steps with restarts: hinge, absolute, quantile and similar losses with L1 on wide sparse data.

    >>> import scipy.sparse as sp
    >>> from undercut import Hinge, minimize
    >>> risk = LinearRisk(sp.eye(2, format="csr"), np.array([1.0, -1.0]), Hinge())
    >>> minimize(risk, L1(0.1), PrimalDual()).w.round(2)
    array([ 1., -1.])
    """

    first: int = FIRST  # features that are taken up at first, at most

    def __post_init__(self) -> None:
        require(self.first >= 1, "`first` must be at least 1", self.first)

    @override
    def check(self, risk: Risk, reg: Regularizer) -> None:
        if not isinstance(reg, L1 | ElasticNet) or reg.terms.l1 <= 0.0:
            raise CapabilityError(
                f"PrimalDual needs L1 or ElasticNet with a positive l1_ratio; got {reg}: use LevelBundle or L2"
            )
        if not isinstance(risk, LinearRisk) or not isinstance(risk.loss, PiecewiseLinearLoss):
            raise CapabilityError(
                f"PrimalDual needs a LinearRisk with a piecewise-linear loss such as Hinge or Absolute, and this "
                f"{type(risk).__name__} is not one: use WorkingSet if the loss is smooth, or LevelBundle"
            )
        if not isinstance(risk.design, SparseDesign):
            raise CapabilityError(
                f"PrimalDual needs X as a sparse matrix; got {type(risk.design).__name__}: use ColumnGeneration or "
                "LevelBundle"
            )
        super().check(risk, reg)

    @override
    def init(self, risk: LinearRisk, reg: L1 | ElasticNet, w0: FloatArray) -> PrimalDualState:
        losses, slopes = _losses(risk), risk.phi.evaluate(risk.design.matvec(w0)).slopes
        v = balanced(slopes) if risk.fit_intercept else slopes
        steepest = float(np.abs(risk.design.rmatvec(v)).max(initial=0.0))
        share = min(1.0, float(reg.terms.l1) / max(steepest, 1e-300))
        v = np.clip(share * v, losses.left, losses.left + losses.ranges)
        return self._begun(risk, reg, w0, v, column_norms(risk.design, risk.weight))

    @override
    def carry(self, risk: LinearRisk, reg: L1 | ElasticNet, state: PrimalDualState) -> PrimalDualState:
        return self._begun(risk, reg, state.solution, state.v, state.norms)

    @override
    def step(self, risk: LinearRisk, reg: L1 | ElasticNet, state: PrimalDualState) -> PrimalDualState:
        if state.end is not None:
            return self._newton_step(risk, reg, state, state.end)

        # 1. Steps on the working sets.
        n_steps = min(max(int(MORE * state.run.total), LEAST_STEPS), MOST_STEPS)
        run = state.saddle.advanced(state.run, n_steps)
        w, v = np.zeros(risk.n_params), state.v.copy()
        w[state.columns] = run.image.w[: state.columns.size]
        v[state.rows] = run.image.v

        # 2. J there, and the bound that the slopes prove.
        found = _evaluated(risk, reg, w, v, state.norms)
        b = float(run.image.w[state.columns.size :] @ state.units)
        scores, moved = found.scores + b, np.abs(found.scores + b - state.scores)
        work = state.work + 2.0 * state.saddle.by_row[2].size * (run.total - state.run.total)
        after = replace(_after(state, w, found), run=run, v=v, scores=scores, work=work)

        # 3. Who joins the working sets, and who leaves; or the last digits.
        columns = np.flatnonzero((w != 0.0) | (np.abs(found.gradient) > NEARER * float(reg.terms.l1)))
        if _is_end(risk, after, columns.size):
            x = np.append(w[columns], np.full(state.units.size, b))
            end = newton_end.begun(risk, reg, columns, x, v, found.gradient, found.objective)
            return replace(after, end=end)
        return self._with_others(risk, reg, after, w, found.gradient, moved)

    def _newton_step(
        self, risk: LinearRisk, reg: L1 | ElasticNet, state: PrimalDualState, last: NewtonEnd
    ) -> PrimalDualState:
        """An interior point step; steps on the working sets come next if it is too short."""
        end, l1 = last.advanced(), float(reg.terms.l1)
        if end.length < STUCK or not np.isfinite(end.at.x).all():
            begun = self._begun(risk, reg, last.parameters(risk.n_params), last.slopes, state.norms)
            progress = replace(state.progress, step=state.progress.step + 1)
            kept = replace(begun, solution=state.solution, progress=progress, work=state.work)
            return replace(kept, invested=LATER * state.invested)
        w = end.parameters(risk.n_params)
        found = _evaluated(risk, reg, w, end.slopes, state.norms)
        after = replace(_after(state, w, found), v=end.slopes, scores=found.scores + end.intercept, end=end)

        # The columns that are missing, where they violate their condition most, or where they are all that is left.
        steepness = np.abs(found.gradient)
        is_settled = end.at.total <= SETTLED * after.progress.gap
        inside = 0.0 if is_settled else float(steepness[end.columns].max(initial=0.0))
        steepness[end.columns] = 0.0
        if float(steepness.max(initial=0.0)) <= max(inside, l1):
            return after
        joining = np.flatnonzero(steepness > NEARER * l1)
        most = max(FEWEST, int(JOINING * end.columns.size))
        if joining.size > most:  # slopes far from the optimum say little about the others
            joining = joining[np.argpartition(-steepness[joining], most)[:most]]
        columns = np.union1d(end.columns, joining)
        return replace(after, end=end.widened(risk, reg, found.gradient, columns))

    @override
    def restored(self, risk: LinearRisk, reg: L1 | ElasticNet, state: PrimalDualState) -> PrimalDualState:
        saddle, end = _saddle(risk, reg, state.units, state.rows, state.columns, state.v), state.end
        if end is not None:
            program = newton_end.program_of(risk, reg, end.columns, state.progress.objective)
            end = replace(end, program=program)
        return replace(state, saddle=saddle, end=end)

    def _begun(
        self, risk: LinearRisk, reg: L1 | ElasticNet, w: FloatArray, v: FloatArray, norms: FloatArray
    ) -> PrimalDualState:
        """All samples and the steepest features, from a point and slopes of the losses."""
        found = _evaluated(risk, reg, w, v, norms)
        b = risk.phi.intercept(found.scores) if risk.fit_intercept else 0.0
        rows, columns = np.flatnonzero(risk.weight), self._columns(w, found.gradient, float(reg.terms.l1))
        units = np.full(int(risk.fit_intercept), float(np.linalg.norm(norms)) or 1.0)
        saddle = _saddle(risk, reg, units, rows, columns, v)
        at = Pair(np.append(w[columns], b / units), v[rows])
        run = started(at, saddle.first_balance(), 0)
        lower_bound = tighter(least(risk, reg), found.bound, found.objective)
        progress = Progress(0, found.objective, lower_bound, 1)
        return PrimalDualState(saddle, rows, columns, run, v, found.scores + b, norms, units, w, progress)

    def _with_others(
        self, risk: LinearRisk, reg: L1 | ElasticNet, state: PrimalDualState, w: FloatArray, gradient: FloatArray,
        moved: FloatArray,
    ) -> PrimalDualState:  # fmt: skip
        """The state with other samples and features where some are missing, or too many are in use.

        ``moved`` : how much the scores changed in the last step.
        """
        l1, losses = float(reg.terms.l1), _losses(risk)
        slopes = losses.slopes(state.scores)
        loose = np.abs(state.v - slopes) > LOOSE * losses.ranges
        is_early = _outside(loose, state.rows)
        far = FARTHER * state.far if is_early else state.far
        reach = far * (moved + math.sqrt(float(np.mean(moved**2))))
        if state.progress.gap > CLOSE * abs(state.progress.objective):
            reach = np.full_like(reach, math.inf)
        rows = np.flatnonzero(loose | (losses.distances(state.scores) < reach))
        columns = self._columns(w, gradient, l1)
        missing = is_early or _outside(np.abs(gradient) > l1, state.columns)
        if not missing and state.rows.size <= SURPLUS * rows.size and state.columns.size <= SURPLUS * columns.size:
            return state
        v = slopes.copy()
        v[rows] = state.v[rows]
        run = state.run
        at = Pair(np.append(w[columns], run.image.w[state.columns.size :]), v[rows])
        saddle = _saddle(risk, reg, state.units, rows, columns, v)
        begun = started(at, run.balance, run.total)
        return replace(state, saddle=saddle, rows=rows, columns=columns, run=begun, v=v, far=far)

    def _columns(self, w: FloatArray, gradient: FloatArray, l1: float) -> Array:
        """The features that are used, and those that may be: the steepest of them if they are many."""
        used = w != 0.0
        steepness = np.where(used, math.inf, np.abs(gradient))
        wanted = np.flatnonzero(steepness > NEAR * l1)
        most = max(self.first, GROWTH * int(np.count_nonzero(used)))
        if wanted.size > most:
            wanted = np.sort(wanted[np.argpartition(-steepness[wanted], most)[:most]])
        return wanted


class Evaluated(NamedTuple):
    """J at a point, and what slopes of the losses prove."""

    objective: float
    bound: float
    scores: FloatArray  # X w
    gradient: FloatArray  # X' v, of slopes that sum to zero if the intercept is free


def _evaluated(risk: LinearRisk, reg: L1 | ElasticNet, w: FloatArray, v: FloatArray, norms: FloatArray) -> Evaluated:
    """J at w, and the bound of the slopes v."""
    scores = risk.design.matvec(w)
    objective = reg.value(w) + risk.phi.evaluate(scores).value
    if not math.isfinite(objective):
        raise NonfiniteError(f"the value of the risk is {objective}")
    if risk.fit_intercept:
        v = balanced(v)
    gradient = risk.design.rmatvec(v)
    return Evaluated(objective, _bound(risk, reg, v, gradient, norms, objective), scores, gradient)


def _after(state: PrimalDualState, w: FloatArray, found: Evaluated) -> PrimalDualState:
    """The state after a step to w: the better point, and the better bound."""
    last, solution = state.progress, w if found.objective < state.progress.objective else state.solution
    objective = min(last.objective, found.objective)
    lower_bound = tighter(last.lower_bound, found.bound, objective)
    return replace(
        state, solution=solution, progress=Progress(last.step + 1, objective, lower_bound, last.n_evaluations + 1)
    )


def _is_end(risk: LinearRisk, state: PrimalDualState, n_columns: int) -> bool:
    """Whether the steps so far have taken their share of what interior point steps would take."""
    is_near = state.progress.gap <= NEAR_END * abs(state.progress.objective) and 0 < n_columns <= LARGEST
    return is_near and state.work >= state.invested * newton_end.n_operations(risk, n_columns)


def _bound(
    risk: LinearRisk, reg: L1 | ElasticNet, v: FloatArray, gradient: FloatArray, norms: FloatArray, objective: float
) -> float:
    """The best ``share b + (1 - share) inf R - reg*(-share X' v)`` of a few shares, with ``b = -sum_i l_i*(v_i)``."""
    l1, l2, used = float(reg.terms.l1), float(reg.terms.l2), risk.weight > 0.0
    terms = _losses(risk).conjugate(v)
    size = math.sqrt(float((v[used] ** 2 / risk.weight[used]).sum()))
    steep = np.abs(gradient) + ROUNDING * size * norms
    inside = min(1.0, l1 / max(float(steep.max(initial=0.0)), 1e-300))

    def value(share: float) -> float:
        over = np.maximum(share * steep - l1, 0.0)
        square = 0.5 * float(over @ over) / l2 if l2 > 0.0 else 0.0
        rest = (1.0 - share) * risk.lower_bound if share < 1.0 else 0.0
        return rest - share * float(terms.sum()) - (1.0 + ROUNDING) * square

    best = max(map(value, {inside, math.sqrt(inside), 1.0} if l2 > 0.0 else {inside}))
    return best - ROUNDING * (float(np.abs(terms).sum()) + abs(objective))


def _losses(risk: LinearRisk) -> Losses:
    """The losses with their weights."""
    assert isinstance(risk.loss, PiecewiseLinearLoss)
    pieces = risk.loss.pieces(risk.y)
    return Losses(pieces.left * risk.weight, pieces.kinks, pieces.jumps[:, None] * risk.weight)


def _saddle(
    risk: LinearRisk, reg: L1 | ElasticNet, units: FloatArray, rows: Array, columns: Array, v: FloatArray
) -> Saddle:
    assert isinstance(risk.design, SparseDesign)
    penalty = (float(reg.terms.l1), float(reg.terms.l2))
    return Saddle(risk.design, _losses(risk), penalty, units, rows, columns, v)


def _outside(which: Array, ids: Array) -> bool:
    """Whether there is one that is not among some ids."""
    others = which.copy()
    others[ids] = False
    return bool(others.any())
