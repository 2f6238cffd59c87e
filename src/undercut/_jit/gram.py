"""Products with a symmetric matrix that is large: sums in float64 whatever the matrix holds, zeros cost nothing."""

from __future__ import annotations

from undercut._jit.compile import njit


@njit(cache=True, nogil=True)
def add_rows(K, rows, v, out, low, high):
    """``out[low:high] += sum_j v[rows[j]] K[rows[j], low:high]``, four rows at a time to read ``out`` less often."""
    whole = rows.size - rows.size % 4
    for at in range(0, whole, 4):
        i, j, k, m = rows[at], rows[at + 1], rows[at + 2], rows[at + 3]
        vi, vj, vk, vm = v[i], v[j], v[k], v[m]
        for c in range(low, high):
            out[c] += vi * K[i, c] + vj * K[j, c] + vk * K[k, c] + vm * K[m, c]
    for at in range(whole, rows.size):
        i = rows[at]
        for c in range(low, high):
            out[c] += v[i] * K[i, c]


@njit(cache=True, nogil=True)
def gather(K, rows, out, low, high):
    """``out[low:high] = K[rows[low:high]][:, rows]``."""
    for i in range(low, high):
        source = K[rows[i]]
        for j in range(rows.size):
            out[i, j] = source[rows[j]]
