"""Gram matrices that are computed on demand, tile by tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from undercut.devices import beside, on_host
from undercut.errors import require
from undercut.maps.gram.base import Gram, Kernel
from undercut.maps.gram.checks import check_definite, finite_diagonal
from undercut.threads import each, one_thread
from undercut.types import Array, FloatArray

TILE = 64 * 2**20  # bytes
CACHED_TILE = 4 * 2**20  # bytes: what a cache holds


@dataclass(frozen=True)
class KernelTiles:
    """``kernel(X, X)`` in double precision, never more than a tile of it at a time and thread.

    >>> KernelTiles(lambda X, Z: X @ Z.T, np.eye(2)).product(np.array([1.0, 2.0]))
    array([1., 2.])
    """

    kernel: Kernel
    X: Any
    tile_bytes: int = CACHED_TILE

    def product(self, v: Any) -> Any:
        """``K v`` for one or several columns v, where X is; only rows of v that are not zero cost anything."""
        rows = v.reshape(len(v), -1).any(1).nonzero()
        rows = rows[0] if on_host(v) else rows[:, 0]
        out = 0.0 * v
        if not len(rows):
            return out
        others, weight = self.X[rows], v[rows]
        tile = max(1, (self.tile_bytes if on_host(v) else TILE) // (8 * len(rows)))

        def fill(low: int) -> None:
            out[low : low + tile] = beside(self.kernel(self.X[low : low + tile], others), v) @ weight

        with one_thread():
            each(fill, range(0, len(v), tile))
        return out

    def rows(self, rows: Array) -> FloatArray:
        """``kernel(X[rows], X)`` in main memory."""
        n, some = self.X.shape[0], self.X[rows]
        out = np.empty((rows.size, n))
        tile = max(1, self.tile_bytes // (8 * rows.size))

        def fill(low: int) -> None:
            out[:, low : low + tile] = self.kernel(some, self.X[low : low + tile])

        with one_thread():
            each(fill, range(0, n, tile))
        return out

    def diagonal(self) -> FloatArray:
        """All ``k(x, x)``."""
        chunks = [self.X[low : low + 8] for low in range(0, self.X.shape[0], 8)]
        return np.concatenate([np.diagonal(self.kernel(chunk, chunk)) for chunk in chunks])


class TiledGram(Gram):
    """The matrix ``kernel(X, X)`` computed anew for every product, in tiles of ``tile_bytes``.

    Unless ``check`` is False some thirty products look for a negative eigenvalue, which is refused.

    >>> TiledGram(lambda X, Z: X @ Z.T, np.eye(2)).product(np.array([1.0, 2.0]))
    array([1., 2.])
    """

    def __init__(self, kernel: Kernel, X: Any, *, tile_bytes: int = CACHED_TILE, check: bool = True) -> None:
        require(tile_bytes >= 8, "`tile_bytes` must be at least 8", tile_bytes)
        self.tiles = KernelTiles(kernel, X, tile_bytes)
        self.n_samples = X.shape[0]
        self.diagonal = finite_diagonal(self.tiles.diagonal())
        if check:
            check_definite(self)

    @override
    def product(self, v: Any) -> FloatArray:
        return np.asarray(self.tiles.product(v))

    @override
    def block(self, rows: Array) -> Array:
        part = self.tiles.X[rows]
        return np.ascontiguousarray(self.tiles.kernel(part, part))
