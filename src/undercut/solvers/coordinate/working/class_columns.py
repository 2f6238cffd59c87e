"""Sparse columns of X with a parameter for every class.

With many classes, few of a feature's parameters are not zero or likely to become so.  Where the scores of all classes
that a column needs, which lie next to each other, take more time than those of the likely parameters one by one, the
model is restricted to these, and the others stay zero in it.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from typing_extensions import override

from undercut._jit import class_pairs as pair_kernels, class_working_set as kernels
from undercut.maps.csr import ColumnParts, SparseDesign, by_columns
from undercut.maps.dense import DenseDesign
from undercut.solvers.coordinate.working.class_model import ClassModel
from undercut.solvers.coordinate.working.columns import Model, Move, Penalty, Tolerance
from undercut.solvers.coordinate.working.direct_columns import CompressedColumns, Trial
from undercut.types import Array, FloatArray

APART = 1.5  # times as long takes an entry that is read for one class, beside one that is read for all
NEAR = 0.9  # share of l1: a parameter that is zero and has a smaller gradient stays zero in the model


class ClassColumns(CompressedColumns):
    """Columns in compressed form, with a parameter for every class."""

    def __init__(self, part: SparseDesign | DenseDesign, ids: Array, n_classes: int) -> None:
        self.ids, self.n_classes, self.n_samples = ids, n_classes, part.shape[0]
        self.parts = _by_columns(part)
        self.n_entries = n_classes * self.parts[1].size

    @property
    @override
    def n_params(self) -> int:
        return int(self.ids.size) * self.n_classes

    @override
    def minimize(
        self, model: Model, w: FloatArray, gradient: FloatArray, penalty: Penalty, tol: Tolerance, n_rounds: int
    ) -> Move:
        likely = np.flatnonzero((w != 0.0) | (np.abs(gradient) > NEAR * penalty.l1))
        part = LikelyPairs(self, likely[np.argsort(likely % self.n_classes, kind="stable")])
        if APART * part.n_entries >= self._entries(likely // self.n_classes):
            return super().minimize(model, w, gradient, penalty, tol, n_rounds)
        assert isinstance(model, ClassModel)
        move = part.minimize(ByClass(model), w[part.ids], gradient[part.ids], penalty, tol, n_rounds)
        every = np.zeros(self.n_params)
        every[part.ids] = move.w
        return Move(every, np.ascontiguousarray(move.scores))

    def _entries(self, features: Array) -> int:
        """Those of some features, for all classes."""
        used = np.zeros(self.ids.size, bool)
        used[features] = True
        return int(np.diff(self.parts[0])[used].sum()) * self.n_classes

    @override
    def active_scores(self, active: Array, w: FloatArray) -> FloatArray:
        every, out = np.zeros(self.n_params), np.zeros((self.n_samples, self.n_classes))
        every[active] = w
        kernels.add_scores(*self.parts, self._matrix(every), out)
        return out

    @override
    def products(self, active: Array, g: FloatArray) -> FloatArray:
        every, used = np.zeros((self.ids.size, self.n_classes)), np.zeros(self.ids.size, bool)
        used[active // self.n_classes] = True
        kernels.dots(*self.parts, np.flatnonzero(used), g, every)
        return every.reshape(-1)[active]

    @override
    def gradient(self, slopes: FloatArray) -> FloatArray:
        out = np.zeros((self.ids.size, self.n_classes))
        kernels.dots(*self.parts, np.arange(self.ids.size), slopes, out)
        return out.reshape(-1)

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
        _, firsts = np.unique(active // self.n_classes, return_index=True)
        features = active[np.sort(firsts)] // self.n_classes
        gradient, w = self._matrix(trial.gradient), self._matrix(trial.w)
        state = (model.P, model.weight, model.ridge, trial.z)
        return float(kernels.descend(*self.parts, *state, gradient, self._bends, *trial.penalty, w, features))

    def _matrix(self, w: FloatArray) -> FloatArray:
        return w.reshape(-1, self.n_classes)


class ByClass(ClassModel):
    """The same model with its matrices stored class by class."""

    def __init__(self, model: ClassModel) -> None:
        slopes, P = np.asfortranarray(model.slopes), np.asfortranarray(model.P)
        super().__init__(slopes, P, model.weight, model.damping, model.totals)

    @override
    def through(self, z: FloatArray) -> FloatArray:
        out = np.empty_like(z)
        pair_kernels.through(self.P, self.weight, self.ridge, z, out)
        return out


class LikelyPairs(CompressedColumns):
    """Some of the parameters of such columns, which are pairs of a feature and a class, without a copy.

    They are ordered by class, as the matrices of their models are.
    """

    def __init__(self, whole: ClassColumns, chosen: Array) -> None:
        self.n_samples, self.n_classes, self.parts = whole.n_samples, whole.n_classes, whole.parts
        self._columns, self._classes = np.divmod(chosen, whole.n_classes)
        self.ids = chosen
        self.n_entries = int(np.diff(whole.parts[0])[self._columns].sum())

    @override
    def work(self, trial: Trial) -> int:
        return trial.visits * int(APART * self.n_entries + self.n_samples * self.n_classes)

    @override
    def active_scores(self, active: Array, w: FloatArray) -> FloatArray:
        out = np.zeros((self.n_samples, self.n_classes), order="F")
        pair_kernels.add_scores(*self.parts, self._columns, self._classes, active, w, out)
        return out

    @override
    def products(self, active: Array, g: FloatArray) -> FloatArray:
        out = np.empty(active.size)
        pair_kernels.dots(*self.parts, self._columns, self._classes, active, g, out)
        return out

    @override
    def bends(self, model: Model) -> FloatArray:
        assert isinstance(model, ClassModel)
        out = np.empty(self.ids.size)
        pair_kernels.bends(*self.parts, self._columns, self._classes, model.P, model.weight, model.ridge, out)
        return out

    @override
    def epoch(self, trial: Trial, active: Array) -> float:
        model = trial.model
        assert isinstance(model, ClassModel)
        state = (model.P, model.weight, model.ridge, trial.z, *trial.fixed, trial.w)
        active = active[np.argsort(self._classes[active], kind="stable")]
        return float(pair_kernels.descend(*self.parts, self._columns, self._classes, *state, active))


def _by_columns(part: SparseDesign | DenseDesign) -> ColumnParts:
    """The columns in compressed form; zeros of a dense matrix are left out."""
    if isinstance(part, SparseDesign):
        return by_columns(part.X)
    X = sp.csc_array(part.X)
    return X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data
