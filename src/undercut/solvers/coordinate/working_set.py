"""Proximal Newton steps with coordinate descent on a growing working set, for L1 and the elastic net.

    min_w  l1 |w|_1 + l2/2 |w|^2 + sum_i weight_i l_i(<w, x_i> + b)

Few parameters of the solution are not zero.  Each step minimizes over a working set of parameters that holds those
and the ones whose optimality condition ``|<x_j, u>| <= l1`` is violated most, u being the slopes
``weight_i l_i'(score_i)`` (Massias, Gramfort, Salmon 2018; Bertrand et al. 2022).  Fenchel duality makes a lower bound
of every u that sums to zero where the intercept is free:

    - sum_i weight_i l_i*(u_i / weight_i) - sum_j max(0, |<x_j, u>| - l1)^2 / (2 l2)     (l2 = 0: u scaled into the box)

and the gap says which parameters are zero at every solution (Ndiaye et al. 2017): these are not looked at again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
from typing_extensions import override

from undercut.contracts import Regularizer, Risk, SmoothLoss, Solver
from undercut.errors import CapabilityError, NonfiniteError, require
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.regularizers import L1, ElasticNet
from undercut.risks import LinearRisk
from undercut.solvers.bounds import ROUNDING, tighter
from undercut.solvers.coordinate.columns import Columns, Model, Penalty, column_norms, columns_of
from undercut.solvers.coordinate.conjugates import smooth_conjugate
from undercut.trace import Progress
from undercut.types import Array, FloatArray

ACCURACY = 0.1  # share of the largest violation to which a step reduces those of its working set
MODEL_ACCURACY = 0.1  # share of the violation at a Newton step to which its model is minimized
MAX_NEWTON = 6  # Newton steps on one working set
MAX_ROUNDS = 30  # of descent on the model of each Newton step
FIRST_NEWTON = 2  # the same on a new one
FIRST_ROUNDS = 1  # of descent on the model of each of those
SMALLEST = 100  # parameters of a working set, if there are as many
MANY = 2  # of what a working set needs: if there are fewer parameters than that, it holds all of them
ADDED = 1000  # violated conditions that are taken up at once, at least
SUFFICIENT = 0.01  # share of the predicted decrease that a step must reach
LEAST_DAMPING = 1e-6  # where a loss is linear
FIRST_DAMPING = 1e-2  # after a step that failed
SHARES = (1.0, 0.5, 0.25, 0.1)  # of a Newton step that are tried
NEGLIGIBLE = 1e-14  # relative rise of the objective that is put down to rounding


class Effort(NamedTuple):
    """How much to spend on a working set: Newton steps, and rounds of descent on the model of each."""

    n_newton: int
    n_rounds: int


class Iterate(NamedTuple):
    """The parameters of a working set, and where they lead."""

    w: FloatArray
    scores: FloatArray  # of the samples, the intercept included
    value: float  # of the objective
    slopes: FloatArray
    damping: float  # second derivative per slope that is added to those of the loss


class Point(NamedTuple):
    """The slopes at a solution, and what they prove."""

    slopes: FloatArray  # sum to zero with a free intercept
    gradient: FloatArray  # X' slopes
    scores: FloatArray  # X w
    intercept: float


@dataclass(frozen=True)
class WorkingSetState:
    w: FloatArray  # not worse than the solution but for rounding
    solution: FloatArray
    point: Point
    alive: Array  # which parameters may be other than zero at a solution
    norms: FloatArray  # of the columns of X, weighted
    progress: Progress
    columns: Columns | None = None  # the working set
    damping: float = 0.0


@final
@dataclass(frozen=True, kw_only=True)
class WorkingSet(Solver[WorkingSetState, LinearRisk, Regularizer]):
    """Coordinate descent on a working set: sparse linear models with smooth losses.

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
        if not isinstance(risk, LinearRisk) or not isinstance(risk.design, SparseDesign | DenseDesign):
            raise CapabilityError(
                f"WorkingSet needs a LinearRisk on a dense or sparse matrix; got {type(risk).__name__}: use LevelBundle"
            )
        if smooth_conjugate(risk.loss) is None:
            raise CapabilityError(
                f"WorkingSet needs a smooth loss of this library; got {type(risk.loss).__name__}: use LevelBundle"
            )
        super().check(risk, reg)

    @override
    def init(self, risk: LinearRisk, reg: Regularizer, w0: FloatArray) -> WorkingSetState:
        norms = column_norms(risk.design, risk.weight)
        alive = norms > 0.0
        w = np.where(alive, w0, 0.0)
        return _Problem(risk, reg, norms).state(w, w, risk.design.matvec(w), alive, Progress(-1))

    @override
    def step(self, risk: LinearRisk, reg: Regularizer, state: WorkingSetState) -> WorkingSetState:
        problem = _Problem(risk, reg, state.norms)
        point, w = state.point, state.w

        # 1. A working set that holds every parameter whose optimality condition is violated most.
        violation = np.where(state.alive, problem.penalty.violation(w, point.gradient), 0.0)
        columns = state.columns
        effort = Effort(MAX_NEWTON, MAX_ROUNDS)
        if columns is None or violation.max(initial=0.0) > violation[columns.ids].max(initial=0.0):
            columns = columns_of(risk.design, self._working_set(state, violation))
            effort = Effort(FIRST_NEWTON, FIRST_ROUNDS)

        # 2. Newton steps on it, no more accurate than the other parameters deserve.
        start = problem.iterate(w[columns.ids], point.scores + point.intercept, state.damping)
        end = problem.descend(columns, start, ACCURACY * float(violation.max(initial=0.0)), effort)
        w = np.zeros_like(w)
        w[columns.ids] = end.w

        # 3. The exact objective, and what the new slopes prove.
        after = problem.state(w, state.solution, columns.scores(end.w), state.alive, state.progress)
        return replace(after, columns=columns, damping=end.damping)

    @override
    def restored(self, risk: LinearRisk, reg: Regularizer, state: WorkingSetState) -> WorkingSetState:
        if state.columns is None:
            return state
        return replace(state, columns=columns_of(risk.design, state.columns.ids))

    def _working_set(self, state: WorkingSetState, violation: FloatArray) -> Array:
        """The parameters that are not zero, and those with the largest slopes."""
        support = state.w != 0.0
        violated = min(ADDED, int(np.count_nonzero(violation)))
        size = max(SMALLEST, violated, int(self.growth * np.count_nonzero(support)))
        rank = np.where(support, math.inf, np.where(state.alive, np.abs(state.point.gradient), -1.0))
        candidates = np.flatnonzero(rank >= 0.0)
        if candidates.size > MANY * size:
            candidates = candidates[np.argpartition(-rank[candidates], size)[:size]]
        return np.sort(candidates)


class _Problem:
    """A risk and a penalty, as the steps see them."""

    def __init__(self, risk: LinearRisk, reg: Regularizer, norms: FloatArray) -> None:
        assert isinstance(reg, L1 | ElasticNet)
        self.risk, self.reg, self.norms = risk, reg, norms
        self.penalty = Penalty(float(reg.terms.l1), float(reg.terms.l2))

    def state(
        self, w: FloatArray, best: FloatArray, scores: FloatArray, alive: Array, last: Progress
    ) -> WorkingSetState:
        """The state at w with its exact objective, the bound that its slopes prove, and what that screens."""
        risk = self.risk
        at = risk.phi.evaluate(scores)
        if not math.isfinite(at.value):
            raise NonfiniteError(f"the value of the risk is {at.value}")
        slopes = balanced(at.slopes) if risk.fit_intercept else at.slopes.copy()
        gradient = risk.design.rmatvec(slopes)
        point = Point(slopes, gradient, scores, at.intercept)
        objective = self.reg.value(w) + at.value
        if objective <= last.objective:
            best = w
        objective = min(objective, last.objective)
        proved, share = self.bound(point, alive, objective)
        lower_bound = tighter(max(last.lower_bound, risk.lower_bound), proved, objective)
        alive = alive & ~self.screened(w, gradient, share, objective - proved)
        progress = Progress(last.step + 1, objective, lower_bound, last.n_evaluations + 1)
        return WorkingSetState(w, best, point, alive, self.norms, progress)

    def bound(self, point: Point, alive: Array, objective: float) -> tuple[float, float]:
        """The best bound of ``share slopes``, and that share."""
        l1, l2 = self.penalty
        used = self.risk.weight > 0.0
        weight, y = self.risk.weight[used], self.risk.y[used]
        v = point.slopes[used] / weight
        size = float(np.sqrt(weight @ v**2))
        largest = float((np.abs(point.gradient) + ROUNDING * size * self.norms)[alive].max(initial=0.0))
        shares = {min(1.0, l1 / largest) if largest > 0.0 else 1.0}
        if l2 > 0.0:
            shares |= {1.0, math.sqrt(min(shares))}
        known = smooth_conjugate(self.risk.loss)
        assert known is not None

        def value(share: float) -> float:
            terms = weight * known.values(y, share * v)
            over = np.maximum(np.abs(share * point.gradient[alive]) - l1, 0.0) if l2 > 0.0 else np.zeros(0)
            square = 0.5 * float(over @ over) / l2 if l2 > 0.0 else 0.0
            return -float(terms.sum()) - square - ROUNDING * (float(np.abs(terms).sum()) + square + abs(objective))

        return max((value(share), share) for share in shares)

    def screened(self, w: FloatArray, gradient: FloatArray, share: float, gap: float) -> Array:
        """The parameters that are zero at every solution: the dual point is within ``sqrt(2 L gap)`` of the best."""
        known = smooth_conjugate(self.risk.loss)
        assert known is not None
        if not math.isfinite(known.smoothness) or not math.isfinite(gap):
            return np.zeros(w.size, bool)
        radius = math.sqrt(2.0 * known.smoothness * max(gap, 0.0))
        inside = (np.abs(share * gradient) + radius * self.norms) * (1.0 + 1e-9) < self.penalty.l1
        return np.asarray(inside & (w == 0.0))

    def descend(self, columns: Columns, start: Iterate, tol: float, effort: Effort) -> Iterate:
        """Proximal Newton steps on the working set until its violations are at most ``tol``."""
        at = start
        for _ in range(effort.n_newton):
            violation = float(self.penalty.violation(at.w, columns.gradient(at.slopes)).max(initial=0.0))
            if self.risk.fit_intercept:
                violation = max(violation, abs(float(at.slopes.sum())))
            if violation <= tol:
                break
            at = self._newton_step(columns, at, max(MODEL_ACCURACY * violation, 0.5 * tol), effort.n_rounds)
        return at

    def _newton_step(self, columns: Columns, at: Iterate, tol: float, n_rounds: int) -> Iterate:
        """Minimize a quadratic model; move towards its minimum, or raise the damping if that is not worthwhile."""
        bend = self._bend(at.scores)
        flat = bool(((bend == 0.0) & (at.slopes != 0.0)).any())
        damping = max(at.damping, LEAST_DAMPING) if flat else at.damping
        model = Model(at.slopes, bend + damping * np.abs(at.slopes), self.risk.fit_intercept)
        move = columns.minimize(model, at.w, self.penalty, tol, n_rounds)
        predicted = float(at.slopes @ move.scores) + self.penalty.value(move.w) - self.penalty.value(at.w)
        for t in SHARES:
            w = at.w + t * (move.w - at.w)
            after = self.iterate(w, at.scores + t * move.scores, 0.1 * damping if t == 1.0 else damping)
            if after.value <= at.value + SUFFICIENT * t * predicted + NEGLIGIBLE * abs(at.value):
                return after
        return at._replace(damping=max(10.0 * damping, FIRST_DAMPING))

    def iterate(self, w: FloatArray, scores: FloatArray, damping: float) -> Iterate:
        """The iterate with these parameters of the working set and scores, the intercept included."""
        value, slopes = self._mean(scores)
        return Iterate(w, scores, value + self.penalty.value(w), slopes, damping)

    def _bend(self, scores: FloatArray) -> FloatArray:
        """Weighted second derivatives."""
        loss, weight = self.risk.loss, self.risk.weight
        assert isinstance(loss, SmoothLoss)
        return np.asarray(weight * np.where(weight > 0.0, loss.curvature(self.risk.y, scores), 0.0))

    def _mean(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Value and slopes of the weighted losses at scores that include the intercept."""
        weight = self.risk.weight
        values, slopes = self.risk.loss.value_slope(self.risk.y, scores)
        if not weight.all():
            values, slopes = np.where(weight > 0.0, values, 0.0), np.where(weight > 0.0, slopes, 0.0)
        return float(weight @ values), weight * slopes


def balanced(slopes: FloatArray) -> FloatArray:
    """Slopes that sum to zero: those of the sign with the larger sum are shortened."""
    up, down = np.maximum(slopes, 0.0), np.minimum(slopes, 0.0)
    rise, fall = float(up.sum()), -float(down.sum())
    if rise > fall:
        return up * (fall / rise) + down
    return up + down * (rise / fall) if fall > 0.0 else slopes.copy()
