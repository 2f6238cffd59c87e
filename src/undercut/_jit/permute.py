"""Random orders that are the same on every machine."""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit


@njit(cache=True, nogil=True)
def permute(order, count, x):
    """Permute ``order[:count]`` (Fisher and Yates) with Marsaglia's xorshift from the bits x, which are not zero."""
    for i in range(count - 1, 0, -1):
        x ^= x >> np.uint64(12)
        x ^= x << np.uint64(25)
        x ^= x >> np.uint64(27)
        high = (x * np.uint64(2685821657736338717)) >> np.uint64(32)
        j = (high * np.uint64(i + 1)) >> np.uint64(32)
        order[i], order[j] = order[j], order[i]
