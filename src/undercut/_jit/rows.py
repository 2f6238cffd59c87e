"""Where a row lies in the arrays of ``undercut.contracts.Rows``."""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit


@njit(cache=True, nogil=True)
def row(dense, indptr, width, i):
    """(start, stop, offset) of row i; unsigned indices need no wrap-around test."""
    if dense:
        return i * width, i * width + width, i * width
    return np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)]), np.uint64(0)
