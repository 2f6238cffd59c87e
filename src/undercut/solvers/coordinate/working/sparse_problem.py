"""A risk, L1 or the elastic net, and a working set of features: Newton steps on it, and bounds from its slopes.

Arrays of scores have a row per sample and arrays of parameters one per feature: they are vectors where a sample has
one score, and matrices with a column per class where it has several.  Parameters of a working set are flattened.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cache, cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from undercut._jit.class_working_set import row_sizes
from undercut.contracts import Design, Regularizer
from undercut.deadline import expired
from undercut.errors import NonfiniteError
from undercut.regularizers import L1, ElasticNet
from undercut.scalar import Point as Along, minimize_convex
from undercut.solvers.bounds import ROUNDING
from undercut.solvers.coordinate.working.columns import Columns, Model, ModelGap, Move, Penalty, Tolerance
from undercut.trace import Progress
from undercut.types import Array, FloatArray

FLAT = 0.3  # share of the slope along a Newton step that may be left at its end
ENOUGH = 0.25  # share of the slope at the start: a whole step that decreases the objective by as much is taken
SHORT = 0.01  # share of a Newton step: if no more than that is taken, the next model is damped
FIRST_DAMPING = 1.0  # after a step that failed: an upper model
CLOSE = 0.01  # relative gap from which on slopes are not shortened where squares let them exceed l1
NEGLIGIBLE = 1e-14  # relative rise of the objective that is put down to rounding


class Effort(NamedTuple):
    """How much to spend on a working set: Newton steps, and rounds of descent on the model of each."""

    n_newton: int
    n_rounds: int
    accuracy: float = 0.3  # share of the largest violation to which a step reduces those of its working set
    tol: Tolerance | None = None  # of the models; without it, a share of the violations at their start
    model_gap: ModelGap | None = None  # of the models, where descent is cyclic
    gap: float = 0.0  # steps end where slopes are expected to prove as much


class Last(NamedTuple):
    """The last Newton step: the working set, the model and its minimum."""

    columns: Columns
    model: Model
    move: Move


class Iterate(NamedTuple):
    """The parameters of a working set, and where they lead."""

    w: FloatArray
    scores: FloatArray  # of the samples, the intercept included
    value: float  # of the objective
    loss: float  # of the risk
    slopes: FloatArray
    damping: float  # least share of the largest second derivative that models have; per slope if there is none
    moved: float  # largest change of a score in the last step
    bend: FloatArray | None  # weighted second derivatives of the losses; ``None`` with several classes
    last: Last | None = None


class Point(NamedTuple):
    """The risk at a solution."""

    value: float
    slopes: FloatArray  # sum to zero with a free intercept
    gradient: FloatArray  # X' slopes
    scores: FloatArray  # X w, up to a constant where the intercept is free
    intercept: FloatArray | float
    bend: FloatArray | None = None  # weighted second derivatives of the losses; ``None`` with several classes


class Bound(NamedTuple):
    """What a dual point proves: the best bound of ``share slopes``."""

    value: float
    slopes: FloatArray
    share: float
    gradient: FloatArray  # X' slopes


class SparseProblem(ABC):
    """A risk and a penalty, as the steps see them.  ``norms`` are those of the columns of X, weighted."""

    weight: FloatArray
    design: Design
    smoothness: float  # the largest second derivative of the loss
    is_quadratic: bool = False  # whether a model is the risk itself
    model_accuracy: ClassVar[float] = 0.1  # share of the violation at a Newton step to which its model is minimized

    def __init__(self, reg: Regularizer, norms: FloatArray) -> None:
        assert isinstance(reg, L1 | ElasticNet)
        self.norms = norms
        self.penalty = Penalty(float(reg.terms.l1), float(reg.terms.l2))

    @abstractmethod
    def by_feature(self, w: FloatArray) -> FloatArray:
        """Parameters of the risk, with a row per feature."""

    @abstractmethod
    def flat(self, by_feature: FloatArray) -> FloatArray:
        """The inverse of ``by_feature``."""

    @abstractmethod
    def scores(self, w: FloatArray) -> FloatArray:
        """``X w``."""

    @abstractmethod
    def columns(self, ids: Array, last: Columns | None = None) -> Columns:
        """A working set of features; ``last`` : the one before."""

    @abstractmethod
    def model(self, at: Iterate) -> tuple[Model, float]:
        """The quadratic model of the risk, and its damping."""

    @abstractmethod
    def evaluate(self, scores: FloatArray) -> Point:
        """The risk at the best intercept."""

    @abstractmethod
    def mean(self, scores: FloatArray) -> tuple[float, FloatArray, FloatArray | None]:
        """The weighted losses at scores that include the intercept: value, slopes, and what ``Iterate.bend`` is."""

    @abstractmethod
    def conjugate(self, slopes: FloatArray, share: float) -> FloatArray:
        """``weight_i l_i*(share slopes_i / weight_i)`` of every sample with a weight."""

    @abstractmethod
    def excess(self, w: FloatArray, point: Point) -> float:
        """About by how much the mean loss of other samples exceeds that of these at their minimum (Takeuchi 1976)."""

    @abstractmethod
    def imbalance(self, slopes: FloatArray) -> float:
        """How far the slopes are from summing to zero; 0 without an intercept."""

    def used(self, by_sample: FloatArray) -> FloatArray:
        """Those of the samples with a weight."""
        return by_sample if self._uses_all else by_sample[self.weight > 0.0]

    @cached_property
    def _uses_all(self) -> bool:
        """Whether every sample has a weight."""
        return bool(self.weight.all())

    def point(self, scores: FloatArray) -> Point:
        """The risk at these scores; ``NonfiniteError`` where it has no value."""
        at = self.evaluate(scores)
        if not math.isfinite(at.value):
            raise NonfiniteError(f"the value of the risk is {at.value}")
        return at

    def settled(self, at: Iterate, intercept: FloatArray | float) -> Point:
        """The risk at an iterate, at the best intercept; ``intercept`` is about the one in its scores."""
        return self.point(at.scores - intercept)

    def violation(self, w: FloatArray, gradient: FloatArray) -> FloatArray:
        """The largest of every feature."""
        W = self.by_feature(w)
        if W.ndim == 1:
            return self.penalty.violation(W, gradient)
        used = np.flatnonzero(is_used(W))  # the others need no copy
        out = np.maximum(sizes(gradient) - self.penalty.l1, 0.0)
        out[used] = self.penalty.violation(W[used], gradient[used]).max(axis=1)
        return out

    def best_bound(self, w: FloatArray, point: Point, last: Last | None, alive: Array, progress: Progress) -> Bound:
        """What the slopes at a point prove, or those that the last model predicts, where these are worth their cost."""
        return self.bound(point.slopes, point.gradient, alive, progress.objective)

    def is_cyclic(self, ids: Array) -> bool:
        """Whether cyclic descent on these columns is expected to reach the minimum in few epochs."""
        return False

    def expected_gap(self, columns: Columns, at: Iterate) -> float:
        """About what the gap is if no other columns are needed; infinite where that is not known."""
        return math.inf

    def is_corrected(self, columns: Columns) -> bool:
        """Whether slopes are moved into their limits with these columns."""
        return False

    def bound(self, slopes: FloatArray, gradient: FloatArray, alive: Array, objective: float) -> Bound:
        """The best bound of ``share slopes``, and that share; ``gradient`` is ``X' slopes``."""
        l1, l2 = self.penalty
        squares, weight = self.used(row_sums(slopes**2)), self.used(self.weight)
        size = math.sqrt(float((squares / weight).sum()))
        steep = sizes(gradient)
        steepest = float((steep + ROUNDING * size * self.norms).max(initial=0.0, where=alive))
        inside = min(1.0, l1 / steepest) if steepest > 0.0 else 1.0
        high = np.zeros(0)
        if l2 > 0.0:
            high = np.abs(gradient[alive & (steep > l1)])
            high = high[high > l1]

        def value(share: float) -> float:
            terms, square = self.conjugate(slopes, share), 0.0
            if l2 > 0.0:
                over = np.maximum(share * high - l1, 0.0)
                square = 0.5 * float(over @ over) / l2
            return -float(terms.sum()) - square - ROUNDING * (float(np.abs(terms).sum()) + square + abs(objective))

        shares = (1.0, inside, math.sqrt(inside)) if l2 > 0.0 else (inside,)
        first, *others = ((1.0 - ROUNDING) * share for share in shares)  # slopes at their limits stay within them
        best, share = value(first), first
        if objective - best > CLOSE * abs(objective):
            best, share = max([(best, share), *((value(other), other) for other in others)])
        return Bound(best, slopes, share, gradient)

    def screened(self, w: FloatArray, gradient: FloatArray, share: float, gap: float) -> Array:
        """The features that no solution uses: the dual point is within ``sqrt(2 L gap)`` of the best."""
        if not math.isfinite(self.smoothness) or not math.isfinite(gap):
            return np.zeros(self.norms.size, bool)
        radius = math.sqrt(2.0 * self.smoothness * max(gap, 0.0))
        inside = (share * sizes(gradient) + radius * self.norms) * (1.0 + 1e-9) < self.penalty.l1
        return np.asarray(inside & ~is_used(self.by_feature(w)))

    def descend(self, columns: Columns, start: Iterate, gradient: FloatArray, most: float, effort: Effort) -> Iterate:
        """Proximal Newton steps on the working set until violations are at most a share of ``most``, the largest now.

        ``gradient`` is that of the risk at the start in the parameters of the working set.
        """
        at, violation, tol = start, most, effort.accuracy * most
        for done in range(effort.n_newton):
            if done:
                if effort.gap > 0.0 and self.expected_gap(columns, at) <= effort.gap:
                    break
                gradient = columns.gradient(at.slopes)
                violation = self.penalty.largest_violation(at.w, gradient)
            violation = max(violation, self.imbalance(at.slopes))
            if violation <= tol or expired():
                break
            accuracy = effort.tol or Tolerance(self.model_accuracy * max(violation, 1.5 * tol))
            exact, damping = self.model(at)
            model = columns.at_hand(exact, violation)
            accuracy = accuracy._replace(gap=effort.model_gap)
            move = columns.minimize(model, at.w, gradient, self.penalty, accuracy, effort.n_rounds)
            at = self._after(at, Last(columns, model, move), damping)
        return at

    def _after(self, at: Iterate, last: Last, damping: float) -> Iterate:
        """Move towards the minimum of a quadratic model, or raise the damping if that is not worthwhile."""
        t, after = self._search(at, last.move, self.is_corrected(last.columns))
        after = after._replace(last=last)
        worthwhile = after.value <= at.value + NEGLIGIBLE * abs(at.value)
        if t < SHORT or not worthwhile:
            damping = max(10.0 * damping, FIRST_DAMPING)
        elif t >= 1.0:
            damping *= 0.1
        return (after if worthwhile else at)._replace(damping=damping)

    def _search(self, at: Iterate, move: Move, is_whole: bool) -> tuple[float, Iterate]:
        """Which share of a move to take: all of it unless the slope there says that a search is worthwhile.

        ``is_whole`` : a whole move is preferred, because only that leaves zero what the model makes zero.
        """
        whole = self._moved(at, move, 1.0)
        if self.is_quadratic and whole.value <= at.value:
            return 1.0, whole
        change = move.w - at.w
        trials = {0.0: at, 1.0: whole}

        @cache
        def point(t: float) -> Along:
            if t not in trials:
                trials[t] = self._moved(at, move, t)
            trial = trials[t]
            if not math.isfinite(trial.value):
                return Along(math.inf, math.nan, math.nan)
            slope = float(np.vdot(trial.slopes, move.scores)) + self.penalty.slope(trial.w, change)
            return Along(trial.value, slope, math.nan)

        slope, left, decrease = abs(point(0.0).slope), point(1.0).slope, at.value - whole.value
        is_flat = abs(left) <= FLAT * slope and (decrease >= 0.0 or not is_whole)
        is_rounding = slope <= NEGLIGIBLE * abs(at.value)  # which a longer step would multiply
        if is_flat or is_rounding or (is_whole and decrease >= ENOUGH * slope):
            return 1.0, whole
        t = minimize_convex(point, 0.0, 0.0, accuracy=FLAT)
        point(t)
        return t, trials[t]

    def _moved(self, at: Iterate, move: Move, t: float) -> Iterate:
        """After the share t of a move; zeros of a whole move stay exact."""
        w = move.w if t == 1.0 else at.w + t * (move.w - at.w)
        scores = at.scores + t * move.scores
        with np.errstate(over="ignore", invalid="ignore"):
            value, slopes, bend = self.mean(scores)
        moved = t * float(np.abs(self.used(move.scores)).max(initial=0.0))
        return Iterate(w, scores, value + self.penalty.value(w), value, slopes, at.damping, moved, bend)

    def iterate(self, w: FloatArray, point: Point, damping: float, moved: float = 0.0) -> Iterate:
        """The iterate at a point, with its parameters in the working set; ``moved`` as in the last one."""
        value = point.value + self.penalty.value(w)
        scores = point.scores + point.intercept
        return Iterate(w, scores, value, point.value, point.slopes, damping, moved, point.bend)


def sizes(by_row: FloatArray) -> FloatArray:
    """The largest absolute value of every row."""
    if by_row.ndim == 1:
        return np.abs(by_row)
    out = np.empty(by_row.shape[0])
    row_sizes(by_row, out)
    return out


def is_used(w: FloatArray) -> Array:
    """The features with a parameter that is not zero."""
    return np.asarray(w if w.ndim == 1 else w.any(axis=1), bool)


def row_sums(by_row: FloatArray) -> FloatArray:
    """The sum of every row."""
    return by_row if by_row.ndim == 1 else by_row.sum(axis=1)
