"""A Gram matrix whose blocks of rows are kept and multiplied where they are: on the workers of a cluster.

The "distributed kernel evaluations" of Defourny and Wehenkel (2009): a product sends v to every worker, and the entries
of ``K v`` come back, 8 bytes a sample each way.  No entry of K travels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from typing_extensions import override

from undercut.errors import DataError
from undercut.maps.gram.base import Gram, Kernel
from undercut.maps.gram.checks import NOT_FINITE, check_definite, check_memory, finite_diagonal
from undercut.maps.gram.dense import SINGLE
from undercut.maps.gram.tiled import CACHED_TILE
from undercut.maps.parts import Parts
from undercut.types import Array, FloatArray


@dataclass(frozen=True)
class RowBlock:
    """``K[start : start + n]`` in float32 or float64, and how its entries are made in double precision."""

    start: int
    K: Array
    kernel: Kernel
    X: Any  # all samples

    @classmethod
    def of(cls, X: Any, rows: tuple[int, int], kernel: Kernel, dtype: Any) -> RowBlock:
        """Compute the rows, a tile of columns at a time."""
        start, stop = rows
        n = X.shape[0]
        check_memory(f"a block of {stop - start} rows of the Gram matrix", stop - start, n, np.dtype(dtype).itemsize)
        K, tile = np.empty((stop - start, n), dtype=dtype), max(1, CACHED_TILE // (8 * max(1, stop - start)))
        for low in range(0, n, tile):
            K[:, low : low + tile] = kernel(X[start:stop], X[low : low + tile])
        if not np.isfinite(K).all():
            raise DataError(NOT_FINITE)
        return cls(start, K, kernel, X)

    def product(self, v: FloatArray) -> FloatArray:
        """These rows of ``K v``, with sums in double precision."""
        rows = np.flatnonzero(v)
        out, tile = np.zeros(len(self.K)), max(1, CACHED_TILE // (8 * max(1, len(self.K))))
        for low in range(0, rows.size, tile):
            some = rows[low : low + tile]
            out += self.K[:, some].astype(np.float64, copy=False) @ v[some]
        return out

    def exact_product(self, v: FloatArray) -> FloatArray:
        """The same by entries in double precision, for one or several columns v."""
        rows = np.flatnonzero(v.reshape(len(v), -1).any(1))
        own = self.X[self.start : self.start + len(self.K)]
        tile = max(1, CACHED_TILE // (8 * max(1, len(self.K))))
        out = np.zeros((len(self.K), *v.shape[1:]))
        for low in range(0, rows.size, tile):
            some = rows[low : low + tile]
            out += self.kernel(own, self.X[some]) @ v[some]
        return out

    def diagonal(self) -> Array:
        """These entries of the diagonal."""
        at = np.arange(len(self.K))
        return np.asarray(self.K[at, self.start + at], dtype=np.float64)

    def entries(self, rows: Array) -> Array:
        """The columns ``rows`` of those of the same rows that are here."""
        own = rows[(rows >= self.start) & (rows < self.start + len(self.K))] - self.start
        return np.asarray(self.K[own][:, rows])


class ShardedGram(Gram):
    """The matrix ``kernel(X, X)`` in blocks of rows, one in each of some ``Parts``, of which each is a ``RowBlock``.

    ``ShardedGram.of`` makes the blocks from the samples of all parts.  Solvers certify the problem of ``kernel``
    in double precision, whatever ``dtype`` the blocks are stored in.

    >>> from undercut.maps.gram import LinearKernel
    >>> from undercut.maps.parts import LocalParts
    >>> gram = ShardedGram.of(LinearKernel(), LocalParts([np.eye(3)[:2], np.eye(3)[2:]]))
    >>> gram.product(np.array([1.0, 2.0, 0.0]))
    array([1., 2., 0.])
    """

    def __init__(self, blocks: Parts, dtype: Any = np.float64, *, check: bool = True) -> None:
        self.blocks, self.itemsize = blocks, np.dtype(dtype).itemsize
        self.diagonal = finite_diagonal(np.concatenate(blocks.each(RowBlock.diagonal)))
        self.n_samples = self.diagonal.size
        if np.dtype(dtype) == np.float32:
            self.rounding = SINGLE * float(self.diagonal.max())
        if check:
            check_definite(self)

    @classmethod
    def of(cls, kernel: Kernel, samples: Parts, dtype: Any = np.float64, *, check: bool = True) -> ShardedGram:
        """From the rows of X in parts, which are exchanged once: every worker needs all samples for its rows of K."""
        return cls(samples.crossed(partial(_block, kernel=kernel, dtype=np.dtype(dtype))), dtype, check=check)

    @override
    def product(self, v: Any) -> FloatArray:
        return self._joined(RowBlock.product, v)

    @override
    def exact_product(self, v: Any) -> FloatArray:
        return self.product(v) if self.rounding == 0.0 and v.ndim == 1 else self._joined(RowBlock.exact_product, v)

    @override
    def block(self, rows: Array) -> Array:
        order = np.argsort(rows, kind="stable")
        parts: Sequence[Array] = self.blocks.each(RowBlock.entries, rows[order])
        out = np.empty((rows.size, rows.size), dtype=parts[0].dtype)
        out[np.ix_(order, order)] = np.concatenate(parts)
        return out

    def _joined(self, question: Any, v: Any) -> FloatArray:
        return np.concatenate(self.blocks.each(question, np.asarray(v, dtype=np.float64)))


def _block(samples: Sequence[Any], at: int, *, kernel: Kernel, dtype: Any) -> RowBlock:
    """The rows of K that belong to the samples of one part."""
    start = sum(X.shape[0] for X in samples[:at])
    stack = sp.vstack if sp.issparse(samples[0]) else np.concatenate
    return RowBlock.of(stack(samples), (start, start + samples[at].shape[0]), kernel, dtype)
