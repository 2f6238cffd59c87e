"""Columns whose Gram matrix ``X' D X`` is small: dense ones with many rows, or a few sparse ones with many entries."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from scipy.linalg.lapack import dposv
from typing_extensions import override

from undercut._jit import gram_model, working_set as kernels
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign, sum_of_grams
from undercut.solvers.coordinate.working.columns import (
    SLICE,
    Columns,
    Model,
    Move,
    Penalty,
    PointwiseModel,
    Tolerance,
    inverted,
)
from undercut.threads import all_threads
from undercut.types import Array, FloatArray

EPOCHS = 20  # of coordinate descent before a Newton step, which takes longer ...
QUICK = 20_000  # ... or as many as visit this number of entries of the matrix, which takes no longer
CHEAP = 1e-8  # share of the violations asked for that may be left: rounds cost less than the matrix
ROUNDS = 100  # of descent, at most
ROUNDED = 1e-12  # share of l1: smaller violations are rounding errors
NEAR = 0.9  # share of l1: a parameter with a smaller gradient stays zero in the model
PART = 0.5  # of the columns: the model is restricted to those likely to be used where they are fewer
SEVERAL = 50  # columns from which on a Gram matrix costs more than a step with a model that is a little off, ...
SIMILAR = 0.1  # ... which is one whose second derivatives differ by no more than this share, ...
STEADY = 0.4  # ... and whose last step has left no more than this share of the violations
JITTERS = (1e-12, 1e-6)  # added to the diagonal of a matrix before its factorization, relative to its mean


class GramColumns(Columns):
    """Columns whose Gram matrix is small."""

    derived: ClassVar[tuple[str, ...]] = ("_matrix", "_columns", "_design", "X")

    @abstractmethod
    def gram(self, model: Model) -> FloatArray:
        """``X' D X``."""

    @override
    def minimize(
        self, model: Model, w: FloatArray, gradient: FloatArray, penalty: Penalty, tol: Tolerance, n_rounds: int
    ) -> Move:
        H, gradient, now, accuracy = self.gram(model), gradient.copy(), w.copy(), CHEAP * tol.violation
        if not model.totals.size:
            descend_gram(H, gradient, now, penalty, accuracy)
            return Move(now, self.scores(now - w))

        # The intercepts are minimized over in closed form: b = -inverse (totals + mixed (v - w)).
        mixed = self.mixed(model)
        inverse = inverted(model.intercept_bend)
        pull = mixed.T @ inverse
        gradient -= pull @ model.totals
        descend_gram(H - pull @ mixed, gradient, now, penalty, accuracy)
        change = now - w
        return Move(now, self.scores(change) - inverse @ (model.totals + mixed @ change))

    def mixed(self, model: Model) -> FloatArray:
        """The second derivatives in an intercept and a parameter, with a row per intercept."""
        return np.stack([self.gradient(model.through(unit)) for unit in model.units()])


class PointwiseGram(GramColumns):
    """A Gram matrix with one weight per sample."""

    bend: FloatArray | None = None  # second derivatives of the last model ...
    _matrix: FloatArray | None = None  # ... and its matrix

    @abstractmethod
    def weighted_gram(self, bend: FloatArray) -> FloatArray:
        """``X' diag(bend) X``."""

    @override
    def gram(self, model: Model) -> FloatArray:
        assert isinstance(model, PointwiseModel)
        if self._matrix is None or self.bend is None or not np.array_equal(model.bend, self.bend):
            self.bend, self._matrix = model.bend, self.weighted_gram(model.bend)
        return self._matrix  # that of a quadratic loss is the same everywhere

    @override
    def mixed(self, model: Model) -> FloatArray:
        assert isinstance(model, PointwiseModel)
        return self.gradient(model.bend)[None, :]


class CompactColumns(PointwiseGram):
    """A few sparse columns with many entries each and one parameter each.

    Where few parameters are not zero or likely to become so, the others stay zero in the model: a Gram matrix takes
    time in the square of its columns.
    """

    def __init__(self, design: SparseDesign, ids: Array) -> None:
        self.ids, self._design = ids, design

    @override
    def gradient(self, slopes: FloatArray) -> FloatArray:
        return self._design.rmatvec(slopes)

    @override
    def scores(self, w: FloatArray) -> FloatArray:
        return self._design.matvec(w)

    @override
    def weighted_gram(self, bend: FloatArray) -> FloatArray:
        return self._design.weighted_gram(bend)

    @override
    def minimize(
        self, model: Model, w: FloatArray, gradient: FloatArray, penalty: Penalty, tol: Tolerance, n_rounds: int
    ) -> Move:
        likely = np.flatnonzero((w != 0.0) | (np.abs(gradient) > NEAR * penalty.l1))
        if likely.size >= PART * w.size:
            return super().minimize(model, w, gradient, penalty, tol, n_rounds)
        part = LikelyColumns(self, likely)
        move = part.minimize(model, w[likely], gradient[likely], penalty, tol, n_rounds)
        return Move(part.among_all(move.w), move.scores)


class LikelyColumns(PointwiseGram):
    """The columns at the places ``chosen`` of others, without a copy."""

    def __init__(self, whole: CompactColumns, chosen: Array) -> None:
        self.ids = whole.ids[chosen]
        self._whole, self._chosen = whole, chosen

    def among_all(self, w: FloatArray) -> FloatArray:
        """Parameters of all columns, zero for those that are not chosen."""
        every = np.zeros(self._whole.ids.size)
        every[self._chosen] = w
        return every

    @override
    def gradient(self, slopes: FloatArray) -> FloatArray:
        return self._whole.gradient(slopes)[self._chosen]

    @override
    def scores(self, w: FloatArray) -> FloatArray:
        return self._whole.scores(self.among_all(w))

    @override
    def weighted_gram(self, bend: FloatArray) -> FloatArray:
        return self._whole._design.partial_gram(bend, self._chosen)


class DenseColumns(PointwiseGram):
    """Columns of a dense matrix, widened to float64."""

    violation = 0.0  # the largest at the start of the last step

    def __init__(self, design: DenseDesign, ids: Array) -> None:
        self.ids = ids
        every = ids.size == design.shape[1]
        self.X = np.asarray(design.X if every else np.take(design.X, ids, axis=1), dtype=np.float64)

    def resume(self, saved: DenseColumns) -> None:
        """Go on with the model of saved columns with the same ids."""
        self.bend, self.violation = saved.bend, saved.violation

    @override
    def at_hand(self, model: Model, violation: float) -> Model:
        assert isinstance(model, PointwiseModel)
        is_steady, self.violation = violation <= STEADY * self.violation, violation
        if self.bend is None or not is_steady or self.ids.size < SEVERAL:
            return model
        is_similar = float(np.abs(self.bend - model.bend).sum()) <= SIMILAR * float(model.bend.sum())
        return PointwiseModel(model.slopes, self.bend, model.free) if is_similar else model

    @override
    def gradient(self, slopes: FloatArray) -> FloatArray:
        with all_threads(self.X.size):
            return slopes @ self.X

    @override
    def scores(self, w: FloatArray) -> FloatArray:
        with all_threads(self.X.size):
            return self.X @ w

    @override
    def weighted_gram(self, bend: FloatArray) -> FloatArray:
        return sum_of_grams(self.X, bend)


def descend_gram(H: FloatArray, gradient: FloatArray, w: FloatArray, penalty: Penalty, tol: float) -> None:
    """Epochs of coordinate descent in turn with Newton steps on the parameters that are not zero.

    ``w`` and the gradient there are overwritten.
    """
    tol = max(tol, ROUNDED * penalty.l1)
    n_epochs = max(EPOCHS, QUICK // max(1, w.size**2))
    fit = max(1, SLICE // (n_epochs * w.size**2 + 1))
    for _ in range(min(fit, ROUNDS)):
        kernels.descend_gram(H, gradient, *penalty, w, n_epochs, tol)
        if penalty.largest_violation(w, gradient) <= tol:
            break
        _newton_on_support(H, gradient, w, penalty)


def _newton_on_support(H: FloatArray, gradient: FloatArray, w: FloatArray, penalty: Penalty) -> None:
    """A Newton step on the parameters that are not zero; w and gradient are overwritten."""
    support, matrix, right = gram_model.support_system(H, gradient, w, *penalty)
    if support.size and (step := _solved(matrix, penalty.l2, right)).size:
        gram_model.move_support(H, matrix, support, step, *penalty, w, gradient)


def _solved(matrix: FloatArray, l2: float, right: FloatArray) -> FloatArray:
    """The solution of ``(matrix + l2 I) x = right``, with a larger diagonal if it is singular; empty if that fails."""
    for jitter in JITTERS:
        damped = matrix.copy()
        damped.flat[:: right.size + 1] += l2 + jitter * float(matrix.trace()) / right.size
        _, step, failed = dposv(damped.T, right, overwrite_a=True)  # symmetric, and LAPACK stores columns
        if not failed:
            return np.asarray(step)
    return np.empty(0)
