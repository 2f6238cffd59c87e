"""Products in double precision where the stored matrix is rounded."""

from __future__ import annotations

from threading import Lock

import numpy as np

from undercut.devices import free_bytes
from undercut.maps.gram.tiled import KernelTiles
from undercut.types import Array, FloatArray

FEW = 0.5  # share of the rows up to which they are kept: as much memory as the matrix in float32
ROOM = 0.25  # share of the free memory that they may take


class ExactRows:
    """Rows of a kernel matrix in float64, computed when they are first needed and kept while they are few.

    The certificates of a run, and those of one class after the other, need nearly the same rows.

    >>> ExactRows(KernelTiles(lambda X, Z: X @ Z.T, np.eye(4))).product(np.array([0.0, 2.0, 0.0, 0.0]))
    array([0., 2., 0., 0.])
    """

    def __init__(self, tiles: KernelTiles) -> None:
        n = tiles.X.shape[0]
        self.tiles, self.capacity = tiles, int(min(FEW * n, ROOM * free_bytes(None) / (8 * n)))
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self.blocks: list[tuple[Array, FloatArray]] = []  # indices of rows, and these rows
        self.is_kept = np.zeros(self.tiles.X.shape[0], dtype=bool)

    def product(self, v: FloatArray) -> FloatArray:
        """``K v`` for one or several columns v."""
        needed = np.flatnonzero(v.reshape(len(v), -1).any(1))
        if needed.size > self.capacity:
            return np.asarray(self.tiles.product(v))
        with self._lock:
            blocks = self._including(needed)
        return sum((block.T @ v[rows] for rows, block in blocks), start=np.zeros_like(v))

    def _including(self, needed: Array) -> list[tuple[Array, FloatArray]]:
        """The rows that are kept, after those that are needed have joined them."""
        missing = needed[~self.is_kept[needed]]
        if self.is_kept.sum() + missing.size > self.capacity:
            self._forget()
            missing = needed
        if missing.size:
            self.blocks.append((missing, self.tiles.rows(missing)))
            self.is_kept[missing] = True
        return list(self.blocks)
