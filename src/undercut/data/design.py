"""The design matrix as a pair of products, dense or CSR, never copied once it is floating point.

Data may be float32 or float64 and CSR indices int32 or int64; scores and gradients are float64 sums.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from typing_extensions import override

from undercut.arrays import Array, FloatArray, all_threads
from undercut.errors import DataError
from undercut.kernels import csr

BLOCK_BYTES = 2**21  # float32 rows widened at a time: small enough for the cache


class Design(Protocol):
    """An n x d matrix X as a linear operator."""

    shape: tuple[int, int]

    def matvec(self, w: FloatArray) -> FloatArray:
        """``X w``."""

    def rmatvec(self, g: FloatArray) -> FloatArray:
        """``X' g``."""

    def weighted_gram(self, g: FloatArray) -> FloatArray:
        """``X' diag(g) X``, dense, for non-negative g."""


class DenseDesign(Design):
    """Rows of float64, multiplied by BLAS."""

    def __init__(self, X: Array) -> None:
        self.X = X
        self.shape = X.shape

    @override
    def matvec(self, w: FloatArray) -> FloatArray:
        with all_threads(self.X.size):
            return self.X @ w

    @override
    def rmatvec(self, g: FloatArray) -> FloatArray:
        with all_threads(self.X.size):
            return g @ self.X

    @override
    def weighted_gram(self, g: FloatArray) -> FloatArray:
        return sum_of_grams(self.X, g)


class NarrowDesign(Design):
    """Rows of float32, widened block by block so that BLAS adds in float64."""

    def __init__(self, X: Array) -> None:
        self.X = X
        self.shape = X.shape
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
    def weighted_gram(self, g: FloatArray) -> FloatArray:
        return sum_of_grams(self.X, g)


class SparseDesign(Design):
    """CSR rows, multiplied by compiled loops that skip samples without a gradient."""

    def __init__(self, X: Any) -> None:
        self.shape = X.shape
        self._parts = (X.indptr, X.indices, X.data)

    @override
    def matvec(self, w: FloatArray) -> FloatArray:
        out = np.empty(self.shape[0])
        csr.matvec(*self._parts, w, out)
        return out

    @override
    def rmatvec(self, g: FloatArray) -> FloatArray:
        out = np.empty(self.shape[1])
        csr.rmatvec(*self._parts, g, out)
        return out

    @override
    def weighted_gram(self, g: FloatArray) -> FloatArray:
        out = np.empty((self.shape[1], self.shape[1]))
        csr.weighted_gram(*self._parts, g, out)
        return out


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
    sparse = sp.issparse(X)
    X = X.tocsr() if sparse else np.asarray(X)
    if X.ndim != 2:
        raise DataError(f"X must be 2-dimensional, samples by features; got shape {X.shape}")
    if X.dtype.kind not in "fiub":
        raise DataError(f"X must hold real numbers; got dtype {X.dtype}")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    _check_finite(X.data if sparse else X)
    if sparse:
        return SparseDesign(X)
    return DenseDesign(X) if X.dtype == np.float64 else NarrowDesign(X)


def _check_finite(values: Any) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(np.sum(values, dtype=np.float64))  # one pass, no temporary
    if suspicious and not np.isfinite(values).all():
        raise DataError("X must be finite; it contains NaN or infinity: drop or impute those entries")
