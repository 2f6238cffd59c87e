"""Sorting within compiled functions: NumPy's own sorts take Numba seconds to compile."""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit

FEW = 16  # so many are sorted by insertion
MOST_PARTS = 64  # that wait: the smaller part is sorted first, so that each is at least twice as long as the next


@njit(cache=True, nogil=True)
def rising(values):
    """The order in which the values rise, (n,) of int64; equal values are in any order (Hoare 1962)."""
    keys, order = np.empty(values.size), np.empty(values.size, np.int64)
    for i in range(values.size):
        keys[i], order[i] = values[i], i
    waiting, n_waiting, low, high = np.empty((MOST_PARTS, 2), np.int64), 0, 0, values.size - 1
    while True:
        while high - low >= FEW:
            left, right = _split(keys, order, low, high)
            if right - low < high - left:
                waiting[n_waiting, 0], waiting[n_waiting, 1] = left, high
                high = right
            else:
                waiting[n_waiting, 0], waiting[n_waiting, 1] = low, right
                low = left
            n_waiting += 1
        for i in range(low + 1, high + 1):
            key, number = keys[i], order[i]
            at = i
            while at > low and keys[at - 1] > key:
                keys[at], order[at] = keys[at - 1], order[at - 1]
                at -= 1
            keys[at], order[at] = key, number
        if n_waiting == 0:
            return order
        n_waiting -= 1
        low, high = waiting[n_waiting, 0], waiting[n_waiting, 1]


@njit(inline="always")
def _split(keys, order, low, high):
    """Exchange keys until none from ``low`` to ``right`` is above the median of three, and none from ``left`` below."""
    first, middle, last = keys[low], keys[(low + high) // 2], keys[high]
    pivot = max(min(first, middle), min(max(first, middle), last))
    left, right = low, high
    while left <= right:
        while keys[left] < pivot:
            left += 1
        while keys[right] > pivot:
            right -= 1
        if left <= right:
            keys[left], keys[right] = keys[right], keys[left]
            order[left], order[right] = order[right], order[left]
            left += 1
            right -= 1
    return left, right
