"""A sparse design matrix in CSR form, multiplied by compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from typing_extensions import override

from undercut._jit import csr
from undercut.contracts import Rows
from undercut.maps.matrix import Matrix
from undercut.threads import in_threads, span_edges
from undercut.types import Array, FloatArray

LARGE_GRAM = 200_000  # stored entries: from this number on, the rows are divided among threads
TILE = 128  # rows and columns of a Gram matrix that are mirrored at a time


ColumnParts: TypeAlias = tuple[Array, Array, FloatArray]  # starts of the columns, rows, values


class SparseDesign(Matrix):
    """CSR rows, multiplied by compiled loops that skip samples without a gradient."""

    def __init__(self, X: Any) -> None:
        self.X = X
        self.shape = X.shape
        self._parts = (X.indptr, X.indices, X.data)
        self._rows = np.empty(X.shape[0], np.uint64)

    @cached_property
    def counts(self) -> Array:
        """Stored entries of every column."""
        return column_counts(self.X)

    @override
    def take(self, rows: Array) -> SparseDesign:
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
        return out.T  # a copy row by row would take as long as the product: some callers need none

    @override
    def gram_product(self, g: FloatArray, v: FloatArray) -> FloatArray:
        out = np.empty(self.shape[1])
        csr.gram_product(*self._parts, g, v, out)
        return out

    @override
    def squared_rmatvec(self, g: FloatArray) -> FloatArray:
        out = np.empty(self.shape[1])
        csr.squared_rmatvec(*self._parts, g, out)
        return out

    @override
    def weighted_gram(self, g: FloatArray) -> FloatArray:
        return self._gram(lambda start, stop: self._half_gram(g, start, stop))

    def partial_gram(self, g: FloatArray, columns: Array) -> FloatArray:
        """``X' diag(g) X`` of some of the columns, in their order."""
        slot = np.full(self.shape[1], -1, np.int64)
        slot[columns] = np.arange(columns.size)
        return self._gram(lambda start, stop: self._partial_half_gram(g, slot, columns.size, start, stop))

    def _gram(self, half_gram: Callable[[int, int], tuple[FloatArray, FloatArray]]) -> FloatArray:
        """The sum of halves over all rows, which are divided among threads."""
        edges = span_edges(self.shape[0]) if self.X.nnz >= LARGE_GRAM else [0, self.shape[0]]
        parts = in_threads(lambda at: half_gram(edges[at], edges[at + 1]), len(edges) - 1)
        half, diagonal = parts[0]
        for more, entries in parts[1:]:  # in the order of the rows, whichever thread is first
            half += more
            diagonal += entries
        _mirror(half)
        half[np.diag_indices_from(half)] += diagonal
        return half

    def _half_gram(self, g: FloatArray, start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        out, diagonal = np.empty((self.shape[1], self.shape[1])), np.empty(self.shape[1])
        csr.half_gram(*self._parts, g, start, stop, out, diagonal)
        return out, diagonal

    def _partial_half_gram(
        self, g: FloatArray, slot: Array, size: int, start: int, stop: int
    ) -> tuple[FloatArray, FloatArray]:
        out, diagonal = np.empty((size, size)), np.empty(size)
        csr.partial_half_gram(*self._parts, g, slot, start, stop, out, diagonal)
        return out, diagonal


def column_counts(X: Any) -> Array:
    """Stored entries of every column of a CSR matrix."""
    counts = np.zeros(X.shape[1], np.int64)
    csr.count_columns(X.indices, counts)
    return counts


def by_columns(X: Any) -> ColumnParts:
    """A CSR matrix by columns; rows ascend."""
    starts = np.concatenate([[0], np.cumsum(column_counts(X))])
    rows, values = np.empty(X.nnz, np.int32), np.empty(X.nnz)
    csr.fill_columns(X.indptr, X.indices, X.data, starts[:-1].copy(), rows, values)
    return starts, rows, values


def _mirror(half: FloatArray) -> None:
    """Add the transpose of a square matrix to it, by tiles that fit into the cache."""
    for i in range(0, half.shape[0], TILE):
        for j in range(0, i + 1, TILE):
            one, other = half[i : i + TILE, j : j + TILE], half[j : j + TILE, i : i + TILE]
            both = one + other.T
            one[:] = both
            other[:] = both.T
