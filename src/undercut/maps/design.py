"""X as a linear operator: an array, a sparse matrix, or a ``Design`` of the user's own.

Arrays may be float32 or float64 and CSR indices int32 or int64; scores and gradients are float64 sums.  A floating
point array is not copied.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from typing_extensions import override

from undercut.contracts import BlockDesign, Design, Rows
from undercut.errors import DataError
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign, NarrowDesign
from undercut.maps.matrix import Matrix
from undercut.types import Array, FloatArray

PRODUCTS = ("matvec", "rmatvec")


class WithConstant(Matrix):
    """A matrix with a constant feature 1 after its last column, which is not stored."""

    def __init__(self, design: Matrix) -> None:
        self.design = design
        self.shape = (design.shape[0], design.shape[1] + 1)

    @override
    def matvec(self, w: FloatArray) -> FloatArray:
        return np.asarray(self.design.matvec(w[:-1]) + w[-1])

    @override
    def rmatvec(self, g: FloatArray) -> FloatArray:
        return np.append(self.design.rmatvec(g), g.sum())

    @override
    def matmat(self, W: FloatArray) -> FloatArray:
        return np.asarray(self.design.matmat(W[:, :-1]) + W[:, -1])

    @override
    def rmatmat(self, G: FloatArray) -> FloatArray:
        return np.column_stack([self.design.rmatmat(G), G.sum(axis=0)])

    @override
    def weighted_gram(self, g: FloatArray) -> FloatArray:
        mixed = self.design.rmatvec(g)[:, None]
        return np.block([[self.design.weighted_gram(g), mixed], [mixed.T, np.array([[g.sum()]])]])

    @override
    def gram_product(self, g: FloatArray, v: FloatArray) -> FloatArray:
        mixed = self.design.rmatvec(g)
        last = float(mixed @ v[:-1]) + float(g.sum()) * v[-1]
        return np.append(self.design.gram_product(g, v[:-1]) + v[-1] * mixed, last)

    @override
    def squared_rmatvec(self, g: FloatArray) -> FloatArray:
        return np.append(self.design.squared_rmatvec(g), g.sum())

    @override
    def take(self, rows: Array) -> WithConstant:
        return WithConstant(self.design.take(rows))

    @override
    def rows(self) -> Rows:
        return self.design.rows()._replace(constant=1.0)


class PerClass(Design):
    """The n K scores ``X W'`` of K classes as a map of the K d entries of W, both row by row."""

    def __init__(self, design: Design, n_classes: int) -> None:
        n, d = design.shape
        self.design, self.n_classes = design, n_classes
        self.shape = (n * n_classes, d * n_classes)
        self._blocks = design if isinstance(design, BlockDesign) else None  # asked once: the check takes time

    @override
    def matvec(self, w: FloatArray) -> FloatArray:
        W = w.reshape(self.n_classes, -1)
        if self._blocks is not None:
            return self._blocks.matmat(W).reshape(-1)
        return np.stack([self.design.matvec(row) for row in W], axis=1).reshape(-1)

    @override
    def rmatvec(self, g: FloatArray) -> FloatArray:
        G = g.reshape(-1, self.n_classes)
        if self._blocks is not None:
            return self._blocks.rmatmat(G).reshape(-1)
        return np.concatenate([self.design.rmatvec(np.ascontiguousarray(column)) for column in G.T])


def as_design(X: Any) -> Design:
    """X itself if it is a ``Design``, else the matrix of an array; ``DataError`` unless it is 2-d, real and finite.

    >>> as_design([[1, 2], [3, 4]]).matvec(np.ones(2))
    array([3., 7.])
    """
    if not any(hasattr(X, product) for product in PRODUCTS):
        return as_matrix(X)
    missing = [name for name in ("shape", *PRODUCTS) if not hasattr(X, name)]
    if missing or len(X.shape) != 2:
        lack = f"{type(X).__name__} has no {' and no '.join(missing)}" if missing else f"got shape {X.shape}"
        raise DataError(f"X must be an array or a Design with a 2-d `shape`, `matvec(w)` and `rmatvec(g)`; {lack}")
    design: Design = X
    return design


def as_matrix(X: Any) -> Matrix:
    """The matrix of a dense array or of any SciPy sparse matrix."""
    sparse = sp.issparse(X)
    X = X.tocsr() if sparse else np.asarray(X)
    if X.ndim != 2:
        raise DataError(f"X must be 2-dimensional, samples by features; got shape {X.shape}")
    if X.dtype.kind not in "fiub":
        raise DataError(f"X must hold real numbers; got dtype {X.dtype}")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    _check_finite(X.data if sparse else X)
    return trusted_design(X)


def trusted_design(X: Any) -> Matrix:
    """Wrap rows that were checked before: a 2-d array or CSR matrix of finite float32 or float64, or a design."""
    if hasattr(X, PRODUCTS[0]):
        return cast(Matrix, X)
    if sp.issparse(X):
        return SparseDesign(X)
    return DenseDesign(X) if X.dtype == np.float64 else NarrowDesign(X)


def _check_finite(values: Any) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(np.sum(values, dtype=np.float64))  # one pass, no temporary
    if suspicious and not np.isfinite(values).all():
        raise DataError("X must be finite; it contains NaN or infinity: drop or impute those entries")
