"""Softmax with L1 or the elastic net: working sets of features, each with a parameter per class.

With the probabilities ``p_i`` and weights of the samples, the model has the matrix ``weight_i (diag(p_i) - p_i p_i')``
for every sample.  Coordinate descent visits a feature with all its classes, because they share the rows of its column.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import xlogy
from typing_extensions import override

from undercut._jit import class_working_set as kernels
from undercut.contracts import Design, Regularizer
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.risks import MulticlassRisk
from undercut.solvers.coordinate.columns import Columns, Model
from undercut.solvers.coordinate.direct_columns import CompressedColumns, Parts, SparseColumns, Trial, some_columns
from undercut.solvers.coordinate.gram_columns import CompressedGram
from undercut.solvers.coordinate.sparse_problem import Iterate, Point, SparseProblem
from undercut.types import Array, FloatArray

FEW = 300  # parameters: up to here a working set has a Gram matrix
MANY = 1000  # parameters: up to here it has one if its columns have more entries
DENSE = 0.3  # share of entries that are not zero from which on it is computed by BLAS
SMOOTHNESS = 0.5  # the largest second derivative of the softmax loss


class ClassModel:
    """``D z = weight (p z - p <p, z>) + ridge z`` for every sample."""

    def __init__(self, slopes: FloatArray, P: FloatArray, weight: FloatArray, damping: float, free: bool) -> None:
        self.slopes, self.P, self.weight, self.free, self.damping = slopes, P, weight, free, damping
        self.ridge = damping * SMOOTHNESS * weight

    def through(self, z: FloatArray) -> FloatArray:
        out = np.empty_like(z)
        kernels.through(self.P, self.weight, self.ridge, z, out)
        return out

    def sums(self, g: FloatArray) -> FloatArray:
        return g.sum(axis=0) if self.free else np.zeros(0)

    def units(self) -> list[FloatArray]:
        return [np.tile(row, (self.weight.size, 1)) for row in np.eye(self.P.shape[1])] if self.free else []

    @property
    def intercept_bend(self) -> FloatArray:
        if not self.free:
            return np.zeros((0, 0))
        weighted = self.weight[:, None] * self.P
        return np.asarray(np.diag(weighted.sum(axis=0) + self.ridge.sum()) - self.P.T @ weighted)


class ClassColumns(CompressedColumns):
    """Columns in compressed form, with a parameter for every class."""

    def __init__(self, design: Design, ids: Array, n_classes: int) -> None:
        self.ids, self.n_classes, self.n_samples = ids, n_classes, design.shape[0]
        self.parts = _parts(design, ids)
        self.n_entries = n_classes * self.parts[1].size

    @property
    @override
    def n_params(self) -> int:
        return int(self.ids.size) * self.n_classes

    @override
    def scores(self, w: FloatArray) -> FloatArray:
        out = np.zeros((self.n_samples, self.n_classes))
        kernels.add_scores(*self.parts, self._matrix(w), out)
        return out

    @override
    def products(self, active: Array, g: FloatArray) -> FloatArray:
        every, out = np.zeros((self.ids.size, self.n_classes)), np.zeros(self.n_params)
        kernels.dots(*self.parts, np.unique(active // self.n_classes), g, every)
        out[active] = every.reshape(-1)[active]
        return out

    @override
    def bends(self, model: Model) -> FloatArray:
        assert isinstance(model, ClassModel)
        out = np.zeros((self.ids.size, self.n_classes + 2))
        kernels.bends(*self.parts, model.P, model.weight, model.ridge, out)
        self._bends = out
        a, total, ridge = out[:, :-2], out[:, -2:-1], out[:, -1:]
        return np.asarray(a + ridge - a**2 / np.maximum(total, 1e-300)).reshape(-1)

    @override
    def epoch(self, trial: Trial, active: Array) -> float:
        model = trial.model
        assert isinstance(model, ClassModel)
        features = np.unique(active // self.n_classes)
        gradient, w = self._matrix(trial.gradient), self._matrix(trial.w)
        state = (model.P, model.weight, model.ridge, trial.z)
        return float(kernels.descend(*self.parts, *state, gradient, self._bends, *trial.penalty, w, features))

    def _matrix(self, w: FloatArray) -> FloatArray:
        return w.reshape(-1, self.n_classes)


class ClassGramColumns(CompressedGram):
    """A few columns with many entries each, with a parameter for every class."""

    derived: ClassVar[tuple[str, ...]] = (*CompressedGram.derived, "_flat")

    def __init__(self, columns: ClassColumns) -> None:
        super().__init__(columns)
        self._n_classes = columns.n_classes
        self._flat: FloatArray | None = None
        dense = self.X.nnz > DENSE * columns.n_samples * columns.ids.size
        self._design = DenseDesign(self.X.toarray()) if dense else SparseDesign(self.X)

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
    def columns(self, ids: Array) -> Columns:
        columns = ClassColumns(self.design, ids, self.risk.n_classes)
        n_params = columns.n_params
        is_small = n_params <= FEW or (n_params <= MANY and n_params**2 <= columns.n_entries)
        return ClassGramColumns(columns) if is_small else columns

    @override
    def evaluate(self, scores: FloatArray) -> Point:
        value, slopes, b = self.risk.phi.settle(scores)
        gradient = self.by_feature(self.risk.design.rmatvec(slopes.reshape(-1)))
        return Point(value, slopes, gradient, scores, b)

    @override
    def conjugate(self, slopes: FloatArray, share: float) -> FloatArray:
        used = np.flatnonzero(self.weight > 0.0)
        weight = self.weight[used]
        q = share * slopes[used] / weight[:, None]
        q[np.arange(used.size), self.risk.y[used]] += 1.0
        return np.asarray(weight * xlogy(np.maximum(q, 0.0), np.maximum(q, 0.0)).sum(axis=1))

    @override
    def imbalance(self, slopes: FloatArray) -> float:
        return float(np.abs(slopes.sum(axis=0)).max()) if self.risk.fit_intercept else 0.0

    @override
    def model(self, at: Iterate) -> tuple[Model, float]:
        P = at.slopes / np.where(self.weight > 0.0, self.weight, 1.0)[:, None]
        P[np.arange(self.risk.y.size), self.risk.y] += 1.0
        model = ClassModel(at.slopes, P, self.weight, min(at.damping, 1.0), self.risk.fit_intercept)
        return model, at.damping

    @override
    def mean(self, scores: FloatArray) -> tuple[float, FloatArray]:
        values, slopes = self.risk.loss.value_slope(self.risk.y, scores)
        slopes *= self.weight[:, None]
        return float(self.weight @ values), slopes


def _parts(design: Design, ids: Array) -> Parts:
    """The columns in compressed form; zeros of a dense matrix are left out."""
    if isinstance(design, SparseDesign):
        return SparseColumns(some_columns(design, ids), ids).parts
    assert isinstance(design, DenseDesign)
    X = sp.csc_array(np.take(design.X, ids, axis=1))
    return X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data.astype(np.float64)
