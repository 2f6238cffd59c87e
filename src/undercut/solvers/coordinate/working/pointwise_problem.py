"""One score per sample: models with a diagonal matrix, and bounds from slopes that are moved into their limits.

A dual point needs ``|<x_j, u>| <= l1`` for every feature.  Scaling u by ``l1 / max_j |<x_j, u>|`` costs the largest
violation times ``|w|_1``.  Moving u into the limits by the change that is shortest in the metric of the second
derivatives D costs each violation times its own ``|w_j|``, which is far less where few features are violated most.
That change is ``D X c``, with c the minimum of the model at u without the parameters w,

    <u, X c> + 1/2 (X c)' D X c + l1 |c|_1
"""

from __future__ import annotations

import math

import numpy as np
from numpy.linalg import norm
from typing_extensions import override

from undercut._jit import gram_model, pointwise
from undercut.accuracy import wanted_gap
from undercut.contracts import Design, Regularizer
from undercut.losses import Logistic, Poisson, Squared
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.risks import LinearRisk
from undercut.risks.scores.smooth_mean import SmoothMean
from undercut.solvers.bounds import ROUNDING, balanced
from undercut.solvers.coordinate.dual.conjugates import smooth_conjugate
from undercut.solvers.coordinate.working.column_parts import some_columns
from undercut.solvers.coordinate.working.columns import Columns, Model, PointwiseModel, Tolerance
from undercut.solvers.coordinate.working.direct_columns import SparseColumns, WideColumns
from undercut.solvers.coordinate.working.gram_columns import CompactColumns, DenseColumns
from undercut.solvers.coordinate.working.repaired_slopes import tolerance
from undercut.solvers.coordinate.working.sparse_problem import CLOSE, Bound, Iterate, Last, Point, SparseProblem
from undercut.trace import Progress
from undercut.types import Array, FloatArray

LEAST_DAMPING = 1e-6  # where a loss is linear
BALANCED = 1e-8  # share of the slopes that their sum may be at the best intercept: the value depends on its square
ROUGH = 0.2  # relative error of the change of slopes in a model from which on they prove little
MISSED = 0.3  # share of the error of a model by which slopes inside the limits of the losses may miss its slopes
NEARLY = 2.0  # times the gap asked for: slopes are moved into their limits where this may be left of the gap
ROUNDS = 4  # of descent that move slopes into their limits
EXACT = 1e-9  # relative error of a model that is put down to rounding
FAR = 6.0  # change of a score in a step from which on ...
REACH = 10.0  # ... the next model lets the slope of a sample vanish within this change of its score, at most
SHORT_ROWS = 30  # entries of X per sample: up to here columns overlap so little that cyclic descent is fast
LONG_ROWS = 80  # entries of a working set per sample from which on a Gram matrix takes longer than descent
FEW = 300  # columns: up to here a working set has a Gram matrix if it is dense or the loss quadratic
REUSED = 2.0  # entries of the Gram matrix of a quadratic loss per entry of sparse columns, at most; of others 1
ROWS = 0.5  # per column: from here on too


class PointwiseProblem(SparseProblem):
    """One score per sample."""

    model_accuracy = 0.3  # models cost little

    def __init__(self, risk: LinearRisk, reg: Regularizer, norms: FloatArray) -> None:
        super().__init__(reg, norms)
        self.risk, self.weight, self.design = risk, risk.weight, risk.design
        known = smooth_conjugate(risk.loss)
        assert known is not None
        self._conjugate, self.smoothness, self.compiled_loss = known, known.smoothness, known.loss
        self.is_quadratic = isinstance(risk.loss, Squared)
        assert isinstance(risk.phi, SmoothMean)
        self._phi = risk.phi

    @override
    def by_feature(self, w: FloatArray) -> FloatArray:
        return w

    @override
    def flat(self, by_feature: FloatArray) -> FloatArray:
        return by_feature

    @override
    def scores(self, w: FloatArray) -> FloatArray:
        return self.design.matvec(w) if w.any() else np.zeros(self.weight.size)

    @override
    def columns(self, ids: Array, last: Columns | None = None) -> Columns:
        return columns_of(self.design, ids, last, self.is_quadratic)

    @override
    def evaluate(self, scores: FloatArray) -> Point:
        at = self._phi.expand(scores)
        slopes = balanced(at.slopes) if self.risk.fit_intercept else at.slopes
        return Point(at.value, slopes, self.design.rmatvec(slopes), scores, at.intercept, at.bend)

    @override
    def settled(self, at: Iterate, intercept: FloatArray | float) -> Point:
        if not self.risk.fit_intercept:
            return Point(at.loss, at.slopes, self.design.rmatvec(at.slopes), at.scores, 0.0, at.bend)
        b, last = float(intercept), math.inf
        while True:
            total, size, bend = pointwise.totals(at.slopes, _known(at.bend))
            if abs(total) <= BALANCED * size:
                break
            if not (abs(total) < 0.5 * last and bend > 0.0):
                return super().settled(at, b)
            shift, last = -total / bend, abs(total)
            scores = at.scores + shift
            value, slopes, bends = self.mean(scores)
            at, b = at._replace(scores=scores, loss=value, slopes=slopes, bend=bends), b + shift
        slopes = balanced(at.slopes)
        return Point(at.loss, slopes, self.design.rmatvec(slopes), at.scores - b, b, at.bend)

    @override
    def best_bound(self, w: FloatArray, point: Point, last: Last | None, alive: Array, progress: Progress) -> Bound:
        """Near the optimum, the slopes at the end of the last model prove more than those at the point.

        They keep to ``|X' slopes| <= l1`` as accurately as it was minimized; those at the point miss it by the error of
        the model, and are scaled by ``error / l1``.  With squares in the penalty they need no scaling near the optimum.
        """
        here = super().best_bound(w, point, last, alive, progress)
        if last is None or self.penalty.l2 > 0.0:
            return here
        ahead = self._predicted(last, point.slopes)
        if ahead is None:
            return self._corrected(w, here, point, last, alive, progress)
        bound = self.bound(ahead, self.design.rmatvec(ahead), alive, progress.objective)
        w = w.copy()
        w[last.columns.ids] = last.move.w
        return max(here, self._corrected(w, bound, point, last, alive, progress), key=lambda bound: bound.value)

    @override
    def bound(self, slopes: FloatArray, gradient: FloatArray, alive: Array, objective: float) -> Bound:
        l1, l2 = self.penalty
        steepest = gram_model.steepest(slopes, self.weight, gradient, alive, self.norms, ROUNDING)
        inside = 1.0 if steepest <= l1 else l1 / steepest

        def value(share: float) -> float:
            terms = self.conjugate(slopes, share)
            square = 0.5 * float(gram_model.excess(gradient, alive, share, l1)) / l2 if l2 > 0.0 else 0.0
            total, size, _ = pointwise.totals(terms, terms)
            return float(-total - square - ROUNDING * (size + square + abs(objective)))

        shares = (1.0, inside, math.sqrt(inside)) if l2 > 0.0 else (inside,)
        first, *others = ((1.0 - ROUNDING) * share for share in shares)  # slopes at their limits stay within them
        best, share = value(first), first
        if objective - best > CLOSE * abs(objective):
            best, share = max([(best, share), *((value(other), other) for other in others)])
        return Bound(best, slopes, share, gradient)

    @override
    def screened(self, w: FloatArray, gradient: FloatArray, share: float, gap: float) -> Array:
        out = np.zeros(w.size, bool)
        if math.isfinite(self.smoothness) and math.isfinite(gap):
            radius = math.sqrt(2.0 * self.smoothness * max(gap, 0.0))
            gram_model.screened(w, gradient, self.norms, share, radius, self.penalty.l1, out)
        return out

    @override
    def expected_gap(self, columns: Columns, at: Iterate) -> float:
        """The smaller of what the slopes here prove and, without squares, of what those at the end of the model do."""
        slopes, bend = at.slopes, _known(at.bend)
        if self.risk.fit_intercept:
            total, _, total_bend = pointwise.totals(slopes, bend)
            slopes = slopes - total / max(total_bend, 1e-300) * bend  # after a Newton step in the intercept, about
        here = self.penalty.expected_gap(at.w, columns.gradient(slopes), pointwise.spread(slopes, bend))
        if self.penalty.l2 > 0.0 or at.last is None:
            return here
        ahead = at.last.model.slopes + at.last.model.through(at.last.move.scores)
        return min(here, float(pointwise.distance(ahead, slopes, bend)))

    def _predicted(self, last: Last, slopes: FloatArray) -> FloatArray | None:
        """The slopes at the end of a model; ``None`` where those at the point, ``slopes``, prove as much.

        Some are no slopes of the loss at any score: those at the point take their place.
        """
        if self.is_quadratic:  # but for rounding, those of the model are those at the point
            return None
        change = last.model.through(last.move.scores)
        ahead = last.model.slopes + change
        error, size = norm(ahead - slopes), norm(change)
        if not EXACT * size < error < ROUGH * size:
            return None
        inside = self._inside(ahead, slopes)
        return inside if norm(inside - ahead) <= MISSED * error else None

    def _inside(self, slopes: FloatArray, others: FloatArray) -> FloatArray:
        """The slopes, but ``others`` where they are no slopes of the loss at any score."""
        inside, is_slope = slopes, self._conjugate.is_slope
        if is_slope is not None:
            weight, chosen = self.used(self.weight), self.used(slopes)
            inside = others.copy()
            is_inside = is_slope(self.used(self.risk.y), chosen / weight)
            inside[self.weight > 0.0] = np.where(is_inside, chosen, self.used(others))
        return balanced(inside) if self.risk.fit_intercept else inside

    @override
    def is_cyclic(self, ids: Array) -> bool:
        design = self.design
        if not self.is_quadratic or not isinstance(design, SparseDesign):
            return False
        return bool(design.X.nnz <= SHORT_ROWS * design.shape[0]) and not _is_compact(design, ids, True)

    @override
    def is_corrected(self, columns: Columns) -> bool:
        return self.penalty.l2 == 0.0 and isinstance(columns, SparseColumns)

    def _corrected(
        self, w: FloatArray, last_bound: Bound, point: Point, last: Last, alive: Array, progress: Progress
    ) -> Bound:
        """What slopes prove after they are moved into their limits, where that may end the run; else the same bound.

        ``w`` : parameters with which the slopes of ``last_bound`` are nearly complementary.
        """
        wanted = wanted_gap(progress)
        if not 0.0 < wanted < progress.objective - last_bound.value or not self.is_corrected(last.columns):
            return last_bound
        if self.penalty.misfit(w, last_bound.gradient) > NEARLY * wanted:
            return last_bound
        columns = self._widened(last.columns, alive & (np.abs(last_bound.gradient) > self.penalty.l1))
        tol = Tolerance(tolerance(self.penalty, w, progress.objective, wanted))
        return max(
            last_bound,
            self.moved(last_bound, _known(point.bend), columns, tol, alive, progress.objective),
            key=lambda bound: bound.value,
        )

    def moved(
        self, bound: Bound, bends: FloatArray, columns: Columns, tol: Tolerance, alive: Array, objective: float
    ) -> Bound:
        """What the slopes of a bound prove after the shortest move into their limits with weights 1 / ``bends``.

        ``columns`` : with all whose limit is exceeded; ``tol`` : by how much it may be.
        """
        model = PointwiseModel(bound.slopes, bends, self.risk.fit_intercept)
        zero, gradient = np.zeros(columns.ids.size), bound.gradient[columns.ids]
        move = columns.minimize(model, zero, gradient, self.penalty, tol, ROUNDS)
        slopes = self._inside(bound.slopes + model.through(move.scores), bound.slopes)
        return self.bound(slopes, self.design.rmatvec(slopes), alive, objective)

    def _widened(self, columns: Columns, is_wanted: Array) -> Columns:
        """The columns, and all that are wanted."""
        is_wanted[columns.ids] = False
        others = np.flatnonzero(is_wanted)
        return self.columns(np.union1d(columns.ids, others), columns) if others.size else columns

    @override
    def conjugate(self, slopes: FloatArray, share: float) -> FloatArray:
        return self._conjugate.weighted(self.used(self.risk.y), self.used(self.weight), self.used(slopes), share)

    @override
    def imbalance(self, slopes: FloatArray) -> float:
        return abs(float(slopes.sum())) if self.risk.fit_intercept else 0.0

    @override
    def model(self, at: Iterate) -> tuple[Model, float]:
        bend = _known(at.bend)
        if at.moved > FAR and isinstance(self.risk.loss, Logistic | Poisson):
            bend = np.maximum(bend, np.abs(at.slopes) / REACH)
        flat = not bend.all() and bool(((bend == 0.0) & (at.slopes != 0.0)).any())
        damping = max(at.damping, LEAST_DAMPING) if flat else at.damping
        return PointwiseModel(at.slopes, self._damped(bend, at.slopes, damping), self.risk.fit_intercept), damping

    @override
    def excess(self, w: FloatArray, point: Point) -> float:
        """``used / n mean(slope^2) / mean(second derivative)``."""
        squares = float((self.used(point.slopes) ** 2 / self.used(self.weight)).sum())
        bend = float(_known(point.bend).sum())
        used = int(np.count_nonzero(w))
        return used * squares / (self.weight.size * bend) if bend > 0.0 else math.inf

    def _damped(self, bend: FloatArray, slopes: FloatArray, damping: float) -> FloatArray:
        """At least ``damping`` times the largest second derivative: with 1 an upper model of the loss."""
        if damping == 0.0:
            return bend
        if math.isfinite(self.smoothness):
            return np.maximum(bend, min(damping, 1.0) * self.smoothness * self.weight)
        return np.asarray(bend + damping * np.abs(slopes))

    @override
    def mean(self, scores: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        return self._phi.fixed.expand(scores)[:3]


def _known(bend: FloatArray | None) -> FloatArray:
    """Second derivatives, which every loss with one score per sample has."""
    assert bend is not None
    return bend


def columns_of(design: Design, ids: Array, last: Columns | None, is_quadratic: bool) -> Columns:
    """Copy some columns of a design, or of those at hand; ``is_quadratic`` : one Gram matrix serves all models."""
    if isinstance(design, SparseDesign):
        is_small = _is_compact(design, ids, is_quadratic)
        return CompactColumns(some_columns(design, ids), ids) if is_small else SparseColumns(design, ids, last)
    assert isinstance(design, DenseDesign)
    is_small = ids.size <= FEW or ids.size <= design.shape[0] / ROWS
    return DenseColumns(design, ids) if is_small else WideColumns(design, ids)


def _is_compact(design: SparseDesign, ids: Array, is_quadratic: bool) -> bool:
    """Whether a Gram matrix of some columns takes less time than descent on them."""
    n_entries = int(design.counts[ids].sum())
    is_few = is_quadratic and (ids.size <= FEW or ids.size**2 <= REUSED * n_entries)
    return (is_few or ids.size**2 <= n_entries) and n_entries <= LONG_ROWS * design.shape[0]
