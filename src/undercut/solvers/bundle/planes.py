"""Planes in numbered slots: what every bundle stands on.

Planes come and go, and nothing moves except when the capacity doubles.  A plane without dual weight ages, and the
oldest ones are dropped.  A plane that must go although it has weight is merged into the aggregate

    (sum_i alpha_i a_i,  sum_i alpha_i b_i) / sum_i alpha_i

so that the model keeps its minimum, hence the bound (Do and Artières 2012, Prop. 1).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from undercut.solvers.bundle.master import Weights
from undercut.solvers.bundle.plane_rows import FIRST_CAPACITY, PlaneRows
from undercut.types import Array, FloatArray


class Planes:
    """``<a_i, w> + b_i`` for the slots i in ``live``, and how long each has gone without weight.

    ``weights`` are the dual weights of the master problem and of the proximal one; they follow the slots.  ``couple``
    is called with every new slot after its plane is written and before the slot counts; it refuses by raising.
    """

    def __init__(self, rows: PlaneRows, weights: tuple[Weights, ...], couple: Callable[[int], None]) -> None:
        self.rows = rows
        self.b = np.zeros(FIRST_CAPACITY)
        self.norm = np.zeros(FIRST_CAPACITY)  # |a_i|
        self.size = np.zeros(FIRST_CAPACITY)  # of the numbers whose difference is b_i, for its rounding
        self.idle = np.zeros(FIRST_CAPACITY, np.int64)  # steps without weight
        self.used = np.zeros(FIRST_CAPACITY, bool)
        self.kept = np.zeros(FIRST_CAPACITY, bool)  # the flat plane and the aggregate
        self.live = np.empty(0, np.int64)  # the slots in use, ascending
        self.flat: int | None = None  # the slot of the risk's known lower bound
        self.aggregate: int | None = None
        self._weights = weights
        self._couple = couple

    def __len__(self) -> int:
        return int(self.live.size)

    @property
    def A(self) -> FloatArray:
        """The slopes, a row per slot, as they are stored."""
        A: FloatArray = self.rows.A
        return A

    @property
    def capacity(self) -> int:
        """How many planes fit before the arrays grow."""
        return int(self.b.size)

    @property
    def top(self) -> int:
        """One more than the last slot in use."""
        return int(self.live[-1]) + 1 if self.live.size else 0

    def insert(self, a: FloatArray, b: float, size: float) -> int:
        """Write a plane into the first free slot, without weight unless it is the only one."""
        if self.live.size == self.capacity:
            self._grow()
        slot = int(self.used.argmin())
        self.rows.put(slot, a)
        self.b[slot] = b
        self.size[slot] = size
        self.norm[slot] = np.linalg.norm(a)
        self._couple(slot)
        if not self.live.size:
            for weights in self._weights:
                weights.alpha[slot] = 1.0
        self.used[slot] = True
        self.idle[slot] = 0
        self.live = np.flatnonzero(self.used)
        return slot

    def insert_flat(self, height: float) -> None:
        """Take in the lower bound of the risk, which is never dropped."""
        self.flat = self.insert(np.zeros(self.A.shape[1]), height, 0.0)
        self.kept[self.flat] = True

    def insert_aggregate(self, a: FloatArray, b: float, size: float) -> int:
        """Take in the aggregated plane, which is never dropped, in place of the last one."""
        if self.aggregate is not None:
            self.free(np.array([self.aggregate]))
        self.aggregate = self.insert(a, b, size)
        self.kept[self.aggregate] = True
        return self.aggregate

    def free(self, slots: Array) -> None:
        """Forget the planes in these slots."""
        self.used[slots] = False
        self.kept[slots] = False
        self.live = np.flatnonzero(self.used)
        for weights in self._weights:
            weights.forget(slots)

    def age(self, alpha: FloatArray, years: int) -> None:
        """Planes with weight are young again, the others are older by ``years``."""
        self.idle[self.live] = np.where(alpha[self.live] > 0.0, 0, self.idle[self.live] + years)

    def drop_idle(self, max_idle: int) -> None:
        """Forget the planes that have gone without weight for more than ``max_idle`` steps."""
        idle = np.flatnonzero(self.used & (self.idle > max_idle) & ~self.kept)
        if idle.size:
            self.free(idle)

    def surplus(self, max_planes: int) -> int | None:
        """The slot to give up before one more plane fits, the longest without weight; ``None`` if there is room."""
        candidates = self.live[~self.kept[self.live]]
        if candidates.size < max_planes:
            return None
        return int(candidates[self.idle[candidates].argmax()])

    def make_room(self, max_planes: int) -> None:
        """Forget planes until one more fits; one that still has weight is merged into the aggregate."""
        while (slot := self.surplus(max_planes)) is not None:
            if self._weights[0].alpha[slot] > 0.0:
                self._merge(slot)
            else:
                self.free(np.array([slot]))

    def _merge(self, slot: int) -> None:
        """Merge a plane into the aggregate, which takes over its weight in the master problem."""
        master = self._weights[0]
        alpha = master.alpha.copy()
        weight, a, b, size = alpha[slot], self.rows.row(slot).copy(), float(self.b[slot]), float(self.size[slot])
        alpha[slot] = 0.0
        last = self.aggregate
        if last is not None and alpha[last] > 0.0:
            share = alpha[last] / (weight + alpha[last])
            a = share * self.rows.row(last) + (1.0 - share) * a
            b = share * float(self.b[last]) + (1.0 - share) * b
            size = max(size, float(self.size[last]))
            weight += alpha[last]
            alpha[last] = 0.0
        self.free(np.array([slot]))
        merged = self.insert_aggregate(a, b, size)
        alpha[merged] = weight
        master.reset(alpha)

    def _grow(self) -> None:
        more = self.capacity
        self.rows.grow()
        self.b = np.pad(self.b, (0, more))
        self.norm = np.pad(self.norm, (0, more))
        self.size = np.pad(self.size, (0, more))
        self.idle = np.pad(self.idle, (0, more))
        self.used = np.pad(self.used, (0, more))
        self.kept = np.pad(self.kept, (0, more))
        for weights in self._weights:
            weights.grow(self.capacity)
