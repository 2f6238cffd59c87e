"""A cache of planes: those of labelings that once attained the loss of their example.

    R_W(w) = sum_i weight_i max(0, max_{k in W_i} <a_k, w> + b_k)  <=  R(w)

R_W is a maximum over rows of one sparse matrix: it costs two products and no decoding.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from typing_extensions import override

from undercut.contracts import Cut, Risk
from undercut.errors import DataError
from undercut.risks.structured.decoding import Planes, Sum, weighted_sum
from undercut.types import Array, FloatArray

ROUNDING = 1e-9  # relative: by how much a decoder's answer may be worse than a cached one


class Remembered(Risk):
    """At most ``capacity`` planes for each of the examples ``numbers``, the least recently used dropped first."""

    lower_bound = 0.0
    is_convex = True
    carried: ClassVar = ("planes", "owner", "_used", "_now")  # part of a checkpoint

    def __init__(self, n_params: int, weight: FloatArray, capacity: int, numbers: Array) -> None:
        self.n_params, self.weight, self.capacity, self.numbers = n_params, weight, capacity, numbers
        self.planes = Planes(sp.csr_matrix((0, n_params)), np.empty(0))
        self.owner = np.empty(0, np.int64)  # the example of each plane, in increasing order
        self._used = np.empty(0, np.int64)  # when each plane last attained the maximum of its example
        self._now = 0

    @override
    def value(self, w: FloatArray) -> float:
        return self._sum(w).value

    @override
    def cut(self, w: FloatArray) -> Cut:
        return Cut(*self._sum(w))

    def _sum(self, w: FloatArray) -> Sum:
        scores = self.planes.at(w)
        best = self._best_rows(scores)
        self._now += 1
        self._used[best] = self._now
        chosen = Planes(self.planes.A[best], self.planes.b[best])
        return weighted_sum(chosen, scores[best], self.weight[self.owner[best]])

    def _best_rows(self, scores: FloatArray) -> Array:
        """The row of the largest score of each example with cached planes."""
        order = np.lexsort((scores, self.owner))
        return order[np.flatnonzero(np.diff(self.owner, append=-1))]

    def cut_after(self, decoded: Planes, w: FloatArray) -> Cut:
        """The plane of the full risk at w from the ``decoded`` planes of all examples, which enter the cache.

        A plane is new if its value at w exceeds that of all cached planes of its example.
        """
        scores, known = decoded.at(w), np.zeros(self.weight.size)
        ours = self.planes.at(w)
        best = self._best_rows(ours)
        known[self.owner[best]] = np.maximum(0.0, ours[best])
        size = np.maximum(1.0, np.abs(known))
        self._check_decoder(scores, known, size)
        self._now += 2
        self._used[best] = self._now - 1  # older than the new planes, which are larger here
        self._add(decoded, np.flatnonzero(scores > known + ROUNDING * size))
        return Cut(*weighted_sum(decoded, scores, self.weight))

    def _check_decoder(self, scores: FloatArray, known: FloatArray, size: FloatArray) -> None:
        behind = np.flatnonzero((known > 0.0) & (scores < known - ROUNDING * size))
        if behind.size:
            k = behind[0]
            raise DataError(
                f"example {self.numbers[k]}: decode must return the labeling of the largest loss; it found {scores[k]} "
                f"where an earlier answer is worth {known[k]} (a wrong log_partition does the same); see "
                "undercut.testing.check_structured_model"
            )

    def _add(self, planes: Planes, new: Array) -> None:
        owner = np.concatenate([self.owner, new])
        used = np.concatenate([self._used, np.full(new.size, self._now)])
        order = np.lexsort((-used, owner))  # the most recently used of an example first
        first = np.searchsorted(owner[order], owner[order])
        keep = order[np.arange(order.size) - first < self.capacity]
        A = sp.csr_matrix(sp.vstack([self.planes.A, planes.A[new]]))
        self.planes = Planes(A[keep], np.concatenate([self.planes.b, planes.b[new]])[keep])
        self.owner, self._used = owner[keep], used[keep]
