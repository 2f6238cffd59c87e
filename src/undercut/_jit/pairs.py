"""Products with the features of tokens where a feature has weights for some labels only.

The weights of feature j are ``w[p]`` for ``starts[j] <= p < starts[j + 1]``, each that of the label ``labels[p]``; the
tokens are the rows of a CSR matrix.  Both loops release the interpreter's lock and write to entries of their own.
"""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit


@njit(cache=True, nogil=True)
def scores(indptr, indices, data, starts, labels, w, first, last, out):
    """``out[t, k] = sum_j x_tj W[k, j]`` for the tokens ``first <= t < last``."""
    for t in range(np.uint64(first), np.uint64(last)):  # unsigned indices need no wrap-around test
        row = out[t]
        row[:] = 0.0
        for i in range(np.uint64(indptr[t]), np.uint64(indptr[t + np.uint64(1)])):
            j, x = np.uint64(indices[i]), data[i]
            for p in range(np.uint64(starts[j]), np.uint64(starts[j + np.uint64(1)])):
                row[np.uint64(labels[p])] += x * w[p]


@njit(cache=True, nogil=True)
def gradient(indptr, indices, data, starts, labels, slopes, first, last, out):
    """``out[p] = sum_t x_tj slopes[t, labels[p]]`` for the weights of the features ``first <= j < last``."""
    out[starts[first] : starts[last]] = 0.0
    for t in range(np.uint64(slopes.shape[0])):
        row = slopes[t]
        if not row.any():  # most tokens where a margin loss is zero
            continue
        for i in range(np.uint64(indptr[t]), np.uint64(indptr[t + np.uint64(1)])):
            j, x = indices[i], data[i]
            if j < first or j >= last:
                continue
            at = np.uint64(j)
            for p in range(np.uint64(starts[at]), np.uint64(starts[at + np.uint64(1)])):
                out[p] += x * row[np.uint64(labels[p])]
