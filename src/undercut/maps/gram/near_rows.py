"""Products with a matrix on a device."""

from __future__ import annotations

from typing import Any

from undercut.devices import free_bytes

FEW = 0.25  # share of the rows up to which a device multiplies by copies of them
COPIED = 4096  # rows at a time


class NearRows:
    """Copies of recently used rows of a matrix on a device, stored contiguously.

    A device reads a whole matrix faster than scattered rows, and contiguous copies of the few rows in use faster still.
    """

    def __init__(self, K: Any) -> None:
        self.K = K
        room = 0.5 * free_bytes(K) / (K.itemsize * K.shape[1])
        self.copies = K.new_empty((int(min(FEW * K.shape[0], room)), K.shape[1]))
        self.rows = K.new_empty(len(self.copies)).long()  # of which the first ``count`` are copied
        self.is_near = K.new_empty(K.shape[0]).bool()
        self._forget()

    def _forget(self) -> None:
        self.count = 0
        self.is_near[:] = False

    def product(self, v: Any) -> Any:
        """``K v``, by the rows where v is not zero if they are few."""
        support = v.nonzero()[:, 0]
        if len(support) > len(self.copies):
            return self.K @ v
        if self.count > 2 * len(support):
            self._forget()
        missing = support[~self.is_near[support]]
        if self.count + len(missing) > len(self.copies):
            self._forget()
            missing = support
        self._copy(missing)
        return v[self.rows[: self.count]] @ self.copies[: self.count]

    def _copy(self, missing: Any) -> None:
        begin = self.count
        self.count += len(missing)
        for low in range(0, len(missing), COPIED):
            part = missing[low : low + COPIED]
            self.copies[begin + low : begin + low + len(part)] = self.K[part]
        self.rows[begin : self.count] = missing
        self.is_near[missing] = True
