"""The design matrix as a pair of products, dense or CSR, never copied once it is floating point.

Data may be float32 or float64 and CSR indices int32 or int64; scores and gradients are float64 sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from typing_extensions import override

from undercut._jit import csr
from undercut.contracts import Design, LinearMap, Rows
from undercut.errors import DataError
from undercut.threads import all_threads
from undercut.types import Array, FloatArray

BLOCK_BYTES = 2**21  # float32 rows widened at a time: small enough for the cache


class DenseDesign(Design):
    """Rows of float64, multiplied by BLAS."""

    def __init__(self, X: Array) -> None:
        self.X = X
        self.shape = X.shape

    @override
    def take(self, rows: Array) -> Design:
        return type(self)(self.X[rows])

    @override
    def rows(self) -> Rows:
        values = np.ascontiguousarray(self.X).reshape(-1)
        return Rows(True, np.zeros(1, np.int32), np.arange(self.shape[1], dtype=np.int32), values, 0.0)

    @override
    def weighted_gram(self, g: FloatArray) -> FloatArray:
        return sum_of_grams(self.X, g)

    @override
    def matvec(self, w: FloatArray) -> FloatArray:
        with all_threads(self.X.size):
            return self.X @ w

    @override
    def rmatvec(self, g: FloatArray) -> FloatArray:
        with all_threads(self.X.size):
            return g @ self.X

    @override
    def matmat(self, W: FloatArray) -> FloatArray:
        with all_threads(self.X.size):
            return self.X @ W.T

    @override
    def rmatmat(self, G: FloatArray) -> FloatArray:
        with all_threads(self.X.size):
            return G.T @ self.X


class NarrowDesign(DenseDesign):
    """Rows of float32, widened block by block so that BLAS adds in float64."""

    def __init__(self, X: Array) -> None:
        super().__init__(X)
        self._blocks = row_blocks(X)

    @override
    def matvec(self, w: FloatArray) -> FloatArray:
        return np.concatenate([self.X[rows].astype(np.float64) @ w for rows in self._blocks])

    @override
    def rmatvec(self, g: FloatArray) -> FloatArray:
        out = np.zeros(self.shape[1])
        for rows in self._blocks:
            out += g[rows] @ self.X[rows].astype(np.float64)
        return out

    @override
    def matmat(self, W: FloatArray) -> FloatArray:
        return np.concatenate([self.X[rows].astype(np.float64) @ W.T for rows in self._blocks])

    @override
    def rmatmat(self, G: FloatArray) -> FloatArray:
        out = np.zeros((G.shape[1], self.shape[1]))
        for rows in self._blocks:
            out += G[rows].T @ self.X[rows].astype(np.float64)
        return out


class SparseDesign(Design):
    """CSR rows, multiplied by compiled loops that skip samples without a gradient."""

    def __init__(self, X: Any) -> None:
        self.X = X
        self.shape = X.shape
        self._parts = (X.indptr, X.indices, X.data)
        self._rows = np.empty(X.shape[0], np.uint64)

    @override
    def take(self, rows: Array) -> Design:
        return SparseDesign(self.X[rows])

    @override
    def rows(self) -> Rows:
        return Rows(False, *self._parts, 0.0)

    @override
    def matvec(self, w: FloatArray) -> FloatArray:
        out = np.empty(self.shape[0])
        csr.matvec(*self._parts, w, out)
        return out

    @override
    def rmatvec(self, g: FloatArray) -> FloatArray:
        out = np.empty(self.shape[1])
        csr.rmatvec(*self._parts, g, self._rows, out)
        return out

    @override
    def matmat(self, W: FloatArray) -> FloatArray:
        out = np.empty((self.shape[0], W.shape[0]))
        csr.matmat(*self._parts, np.ascontiguousarray(W.T), out)
        return out

    @override
    def rmatmat(self, G: FloatArray) -> FloatArray:
        out = np.empty((self.shape[1], G.shape[1]))
        csr.rmatmat(*self._parts, G, out)
        return np.ascontiguousarray(out.T)

    @override
    def weighted_gram(self, g: FloatArray) -> FloatArray:
        out = np.empty((self.shape[1], self.shape[1]))
        csr.weighted_gram(*self._parts, g, out)
        return out


class WithConstant(Design):
    """Another design with a constant feature 1 behind its last column, which is not stored."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.shape = (design.shape[0], design.shape[1] + 1)

    @override
    def matvec(self, w: FloatArray) -> FloatArray:
        return np.asarray(self.design.matvec(w[:-1]) + w[-1])

    @override
    def rmatvec(self, g: FloatArray) -> FloatArray:
        return np.append(self.design.rmatvec(g), g.sum())

    @override
    def weighted_gram(self, g: FloatArray) -> FloatArray:
        mixed = self.design.rmatvec(g)[:, None]
        return np.block([[self.design.weighted_gram(g), mixed], [mixed.T, np.array([[g.sum()]])]])

    @override
    def take(self, rows: Array) -> Design:
        return WithConstant(self.design.take(rows))

    @override
    def rows(self) -> Rows:
        return self.design.rows()._replace(constant=1.0)


class PerClass(LinearMap):
    """The n K scores ``X W'`` of K classes as a map of the K d entries of W, both row by row."""

    def __init__(self, design: Design, n_classes: int) -> None:
        n, d = design.shape
        self.design, self.n_classes = design, n_classes
        self.shape = (n * n_classes, d * n_classes)

    @override
    def matvec(self, w: FloatArray) -> FloatArray:
        return self.design.matmat(w.reshape(self.n_classes, -1)).reshape(-1)

    @override
    def rmatvec(self, g: FloatArray) -> FloatArray:
        return self.design.rmatmat(g.reshape(-1, self.n_classes)).reshape(-1)


def row_blocks(X: Array) -> list[slice]:
    """Slices of rows that fit in the cache once they are float64."""
    rows = max(1, BLOCK_BYTES // (8 * max(1, X.shape[1])))
    return [slice(start, start + rows) for start in range(0, X.shape[0], rows)]


def sum_of_grams(X: Array, g: FloatArray) -> FloatArray:
    """``X' diag(g) X`` block by block, so that no copy of X is made."""
    out = np.zeros((X.shape[1], X.shape[1]))
    with all_threads(X.size):
        for rows in row_blocks(X):
            scaled = X[rows] * np.sqrt(g[rows])[:, None]
            out += scaled.T @ scaled
    return out


def as_design(X: Any) -> Design:
    """Wrap a dense array or any SciPy sparse matrix; ``DataError`` unless it is 2-d, real and finite."""
    if isinstance(X, (DenseDesign, SparseDesign, WithConstant)):
        return X
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


def trusted_design(X: Any) -> Design:
    """Wrap rows that were checked before: a 2-d array or CSR matrix of finite float32 or float64."""
    if sp.issparse(X):
        return SparseDesign(X)
    return DenseDesign(X) if X.dtype == np.float64 else NarrowDesign(X)


def _check_finite(values: Any) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(np.sum(values, dtype=np.float64))  # one pass, no temporary
    if suspicious and not np.isfinite(values).all():
        raise DataError("X must be finite; it contains NaN or infinity: drop or impute those entries")
