"""A dense design matrix, multiplied by BLAS; sums are float64 also where the entries are float32."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from typing_extensions import override

from undercut.contracts import Rows
from undercut.maps.matrix import Matrix
from undercut.threads import all_threads
from undercut.types import Array, FloatArray

BLOCK_BYTES = 2**21  # float32 rows widened at a time: small enough for the cache


class DenseDesign(Matrix):
    """Rows of float64, multiplied by BLAS."""

    def __init__(self, X: Array) -> None:
        self.X = X
        self.shape = X.shape

    @override
    def take(self, rows: Array) -> DenseDesign:
        return type(self)(self.X[rows])

    @override
    def rows(self) -> Rows:
        values = np.ascontiguousarray(self.X).reshape(-1)
        return Rows(True, np.zeros(1, np.int32), np.arange(self.shape[1], dtype=np.int32), values, 0.0)

    @override
    def weighted_gram(self, g: FloatArray) -> FloatArray:
        return sum_of_grams(self.X, g)

    @override
    def gram_product(self, g: FloatArray, v: FloatArray) -> FloatArray:
        out = np.zeros(self.shape[1])
        with all_threads(self.X.size):
            for X, part in weighted_blocks(self.X, g):
                out += (part * (X @ v)) @ X
        return out

    @override
    def squared_rmatvec(self, g: FloatArray) -> FloatArray:
        out = np.zeros(self.shape[1])
        for X, part in weighted_blocks(self.X, g):
            out += part @ X**2
        return out

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
    """Rows of float32, widened block by block so that BLAS multiplies and adds in float64: X as given is exact."""

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


def row_blocks(X: Array) -> list[slice]:
    """Slices of rows that fit in the cache once they are float64."""
    rows = max(1, BLOCK_BYTES // (8 * max(1, X.shape[1])))
    return [slice(start, start + rows) for start in range(0, X.shape[0], rows)]


def weighted_blocks(X: Array, g: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Blocks of rows and their weights; rows of weight zero are left out where they are the majority."""
    for rows in row_blocks(X):
        block, part = X[rows], g[rows]
        if not part.all() and 2 * np.count_nonzero(part) < part.size:
            used = np.flatnonzero(part)
            block, part = block[used], part[used]
        yield block.astype(np.float64, copy=False), part


def sum_of_grams(X: Array, g: FloatArray) -> FloatArray:
    """``X' diag(g) X`` block by block, so that no copy of X is made."""
    is_constant = g.size > 0 and bool(g.min() == g.max())
    with all_threads(X.size):
        out = np.zeros((X.shape[1], X.shape[1]))
        for block, part in weighted_blocks(X, g):
            scaled = block if is_constant else block * np.sqrt(part)[:, None]
            out += scaled.T @ scaled
    return out * g[0] if is_constant else out
