"""Softmax with L1 or the elastic net: working sets of features, each with a parameter per class.

With the probabilities ``p_i`` and weights of the samples, the model has the matrix ``weight_i (diag(p_i) - p_i p_i')``
for every sample.  Coordinate descent visits a feature with all its classes, because they share the rows of its column.
Where most entries of X are not zero, a Gram matrix of some rows and the likely parameters takes its place.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from typing_extensions import override

from undercut._jit.multiclass import softmax_conjugate
from undercut.accuracy import wanted_gap
from undercut.contracts import Design, Regularizer
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.risks import MulticlassRisk
from undercut.risks.scores.classes.class_scores import Settled, class_sums
from undercut.risks.scores.classes.softmax_scores import SoftmaxScores
from undercut.solvers.coordinate.working.class_columns import ClassColumns
from undercut.solvers.coordinate.working.class_model import SMOOTHNESS, ClassModel
from undercut.solvers.coordinate.working.column_parts import some_columns
from undercut.solvers.coordinate.working.columns import Columns, Model
from undercut.solvers.coordinate.working.gram_columns import GramColumns
from undercut.solvers.coordinate.working.repaired_slopes import Repair, Slopes, is_affordable, movable, tolerance
from undercut.solvers.coordinate.working.sampled_columns import SampledColumns
from undercut.solvers.coordinate.working.shifted_softmax import ShiftedSoftmax
from undercut.solvers.coordinate.working.sparse_problem import Bound, Iterate, Last, Point, SparseProblem
from undercut.trace import Progress
from undercut.types import Array, FloatArray

FEW = 300  # parameters: up to here a working set has a Gram matrix
MANY = 1000  # parameters: up to here it has one if its columns have more entries
SMALL = 100_000  # samples times parameters: a Gram matrix of all of them takes no time
DENSE = 0.1  # share of entries that are not zero from which on models are made of dense rows
AHEAD = 5.0  # times the gap asked for: up to here the slopes that a model predicts may prove it


class ClassGramColumns(GramColumns):
    """A few columns with many entries each, with a parameter for every class."""

    derived: ClassVar[tuple[str, ...]] = (*GramColumns.derived, "_flat")

    def __init__(self, part: SparseDesign | DenseDesign, ids: Array, n_classes: int) -> None:
        self.ids, self._n_classes = ids, n_classes
        self._flat: FloatArray | None = None
        self._design = part

    @override
    def gram(self, model: Model) -> FloatArray:
        """Blocks ``X' diag(weight p_k ([k = l] - p_l) + ridge [k = l]) X``; without the ridge they sum to zero."""
        assert isinstance(model, ClassModel)
        K, d = self._n_classes, self.ids.size
        ridge = model.damping * self._flat_gram(model.weight) if model.damping else np.zeros((d, d))
        H = np.zeros((d, K, d, K))
        for k in range(K):
            H[:, k, :, k] += ridge
            for m in range(k):
                block = self._design.weighted_gram(model.weight * model.P[:, k] * model.P[:, m])
                H[:, k, :, m] = H[:, m, :, k] = -block
                H[:, k, :, k] += block
                H[:, m, :, m] += block
        return H.reshape(d * K, d * K)

    @override
    def gradient(self, slopes: FloatArray) -> FloatArray:
        return np.ascontiguousarray(self._design.rmatmat(slopes).T).reshape(-1)

    @override
    def scores(self, w: FloatArray) -> FloatArray:
        return self._design.matmat(w.reshape(-1, self._n_classes).T)

    def _flat_gram(self, weight: FloatArray) -> FloatArray:
        """``SMOOTHNESS X' diag(weight) X``, the same for every model."""
        if self._flat is None:
            self._flat = self._design.weighted_gram(SMOOTHNESS * weight)
        return self._flat


class ClassProblem(SparseProblem):
    """A score per sample and class."""

    def __init__(self, risk: MulticlassRisk, reg: Regularizer, norms: FloatArray) -> None:
        super().__init__(reg, norms)
        self.risk, self.weight, self.design = risk, risk.weight, risk.features
        self.smoothness = SMOOTHNESS
        assert isinstance(risk.phi, SoftmaxScores)
        self._phi = risk.phi

    @override
    def by_feature(self, w: FloatArray) -> FloatArray:
        return w.reshape(self.risk.n_classes, -1).T

    @override
    def flat(self, by_feature: FloatArray) -> FloatArray:
        return np.ascontiguousarray(by_feature.T).reshape(-1)

    @override
    def scores(self, w: FloatArray) -> FloatArray:
        return self.risk.phi.rows(self.risk.design.matvec(w))

    @override
    def columns(self, ids: Array, last: Columns | None = None) -> Columns:
        n_classes = self.risk.n_classes
        part = _part(self.design, ids)
        n_params, n_cells = ids.size * n_classes, part.shape[0] * ids.size
        if n_cells * n_classes > SMALL and _n_entries(part) >= DENSE * n_cells:
            return SampledColumns(part, ids, n_classes, self.norms[ids])
        n_entries = _n_entries(part) * n_classes
        if n_params <= FEW or (n_params <= MANY and n_params**2 <= n_entries):
            return ClassGramColumns(part, ids, n_classes)
        return ClassColumns(part, ids, n_classes)

    @override
    def evaluate(self, scores: FloatArray) -> Point:
        return self._point(self._phi.settle(scores), scores)

    @override
    def settled(self, at: Iterate, intercept: FloatArray | float) -> Point:
        scores = at.scores - intercept
        start = Settled(at.loss, at.slopes, np.zeros(self.risk.n_classes) + intercept)
        return self._point(self._phi.settle_from(start, scores), scores)

    def _point(self, at: Settled, scores: FloatArray) -> Point:
        return Point(at.value, at.slopes, self._gradient(at.slopes), scores, at.b)

    def _gradient(self, slopes: FloatArray) -> FloatArray:
        assert isinstance(self.design, SparseDesign | DenseDesign)
        return self.design.rmatmat(slopes).T

    @override
    def conjugate(self, slopes: FloatArray, share: float) -> FloatArray:
        if isinstance(self.risk.loss, ShiftedSoftmax):
            return self.risk.loss.conjugate(slopes, self.weight, self.risk.y, share)
        values = np.empty(self.weight.size)
        softmax_conjugate(slopes, self.weight, self.risk.y, share, values)
        return values

    @override
    def best_bound(self, w: FloatArray, point: Point, last: Last | None, alive: Array, progress: Progress) -> Bound:
        """Near the end, a matrix for every pair of classes costs far more than another bound, which may save it.

        Not with L1 alone, where the bound is scaled by the largest violation of ``|X' slopes| <= l1``.
        """
        proved, wanted = super().best_bound(w, point, last, alive, progress), wanted_gap(progress)
        if last is None or self.penalty.l2 <= 0.0 or not wanted < progress.objective - proved.value <= AHEAD * wanted:
            return proved
        ahead = self._phi.nearest(last.model.slopes + last.model.through(last.move.scores))
        if ahead is None:
            return proved
        return max(
            proved, self.bound(ahead, self._gradient(ahead), alive, progress.objective), key=lambda bound: bound.value
        )

    def repaired(
        self, w: FloatArray, point: Point, alive: Array, progress: Progress, last: Repair | None
    ) -> tuple[Bound | None, Repair | None]:
        """The bound of the slopes at a point moved into the box of l1, where that may end the run, and what it took.

        ``last`` : what an earlier attempt took.
        """
        wanted, W = wanted_gap(progress), self.by_feature(w)
        if last is None and not is_affordable(self.design, self.risk.n_classes):
            return None, None
        if movable(point.gradient, W, self.penalty) is None:
            return None, last
        violation = float(np.where(alive, self.violation(w, point.gradient), 0.0).max(initial=0.0))
        if last is None:
            assert isinstance(self.design, SparseDesign | DenseDesign)
            last = Repair.made(self.design, self._probabilities(point.slopes), self.weight, self.risk.fit_intercept)
        elif not last.is_worthwhile(violation, wanted):
            return None, last
        best = self._repaired(W, point, alive, progress.objective, wanted, last)
        if best is None:
            return None, last
        return best, last.after(progress.objective - best.value, violation)

    def _repaired(
        self, W: FloatArray, point: Point, alive: Array, objective: float, wanted: float, repair: Repair
    ) -> Bound | None:
        """Move near complementarity with W; what violations are left, by clipped probabilities, is moved without."""
        assert isinstance(self.design, SparseDesign | DenseDesign)
        slopes, gradient = point.slopes, point.gradient
        tol = tolerance(self.penalty, W.reshape(-1), objective, wanted)
        for at in (W, np.zeros_like(W)):
            change = repair.move(self.design, Slopes(gradient, class_sums(slopes)), at, self.penalty, tol)
            if change is None:
                break
            slopes = self._phi.clipped(slopes + change)
            gradient = self._gradient(slopes)
            if float(np.abs(gradient).max(initial=0.0)) <= self.penalty.l1 + tol:
                break
        balanced = self._phi.nearest(slopes)
        return None if balanced is None else self.bound(balanced, self._gradient(balanced), alive, objective)

    @override
    def excess(self, w: FloatArray, point: Point) -> float:
        """The number of parameters over that of samples: the loss is a likelihood."""
        return int(np.count_nonzero(w)) / self.weight.size

    @override
    def imbalance(self, slopes: FloatArray) -> float:
        return float(np.abs(slopes.sum(axis=0)).max()) if self.risk.fit_intercept else 0.0

    @override
    def model(self, at: Iterate) -> tuple[Model, float]:
        P = self._probabilities(at.slopes)
        totals = class_sums(at.slopes) if self.risk.fit_intercept else np.zeros(0)
        damping = min(at.damping, 1.0)
        return ClassModel(at.slopes, P, self.weight, damping, totals), damping

    def _probabilities(self, slopes: FloatArray) -> FloatArray:
        P = slopes / np.where(self.weight > 0.0, self.weight, 1.0)[:, None]
        P[np.arange(self.risk.y.size), self.risk.y] += 1.0
        return np.maximum(P, 0.0, out=P)  # rounding

    @override
    def mean(self, scores: FloatArray) -> tuple[float, FloatArray, None]:
        values, slopes = self.risk.loss.value_slope(self.risk.y, scores)
        slopes *= self.weight[:, None]
        return float(self.weight @ values), slopes, None


def _part(design: Design, ids: Array) -> SparseDesign | DenseDesign:
    """Some columns, as float64."""
    if isinstance(design, SparseDesign):
        return some_columns(design, ids)
    assert isinstance(design, DenseDesign)
    X = design.X if ids.size == design.shape[1] else np.take(design.X, ids, axis=1)
    return DenseDesign(np.asarray(X, dtype=np.float64))


def _n_entries(part: SparseDesign | DenseDesign) -> int:
    return int(part.X.nnz if isinstance(part, SparseDesign) else np.count_nonzero(part.X))
