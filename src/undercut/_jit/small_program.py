"""Before and after the path of ``central_path``: the start, the optimum and what it proves.

The penalty is ``sum_j l1_j |w_j| + l2_j/2 (w_j - center_j)^2`` where ``lower_j <= w_j <= upper_j``, or an entropy.
Absolute values and bounds are kinks (``solvers/newton/interior/penalty_terms.py``).
"""

from __future__ import annotations

import math

from undercut._jit.central_path import OPTIONS
from undercut._jit.compile import njit


@njit(**OPTIONS)
def move_inside(A, terms, x):
    """Move w off its bounds, by a tenth of the way to the other bound at most."""
    n, d = A.shape[0], terms.shape[1]
    for j in range(d):
        spread = 0.0
        for i in range(n):
            spread += A[i, j] * A[i, j]
        off = min(1.0 / (1.0 + math.sqrt(d * spread / n)), 0.1 * (terms[4, j] - terms[3, j]))
        x[j] = min(max(x[j], terms[3, j] + off), terms[4, j] - off)


@njit(**OPTIONS)
def at_kinks(n, size, kinks, terms, shares, x, inside, W):
    """Fill rows of W with w, exactly at those kinks of its own, zero or a bound, whose slopes are both large.

    ``size`` scores have kinks, n of them those of samples.  ``shares`` : for every row, the relative distance that
    counts as none where the slopes are equal.
    """
    d = W.shape[1]
    for row in range(shares.size):
        largest = 0.0
        for j in range(d):
            W[row, j] = min(max(x[j], terms[3, j]), terms[4, j])
            largest = max(largest, abs(W[row, j]))
        for first in range(n, kinks.shape[1], size):
            for i in range(size - n):
                at, j = first + i, i if i < d else i - d
                slack, place = min(inside[2, at], inside[3, at]), kinks[0, at] if i < d else -kinks[0, at]
                limit = min(0.5 * kinks[1, at], kinks[3, at])  # a bound is met at any slope above zero
                if slack > 0.0 and abs(W[row, j] - place) * limit <= shares[row] * largest * slack:
                    W[row, j] = place


@njit(**OPTIONS)
def plane(has_intercept, left, kinks, inside, g):
    """(height, size) of the plane of the slopes of the losses, which fill g, with the size of the numbers in it.

    The plane is ``sum_i left_i (s_i - places_0i) + sum_ki u_ki (s_i - places_ki)``.  With a free intercept u, or
    ``v = caps - u``, is shortened until the slopes sum to zero.
    """
    low, rise, fall, height, size = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(g.size):
        low += left[i]
        for at in range(i, kinks.shape[1], left.size):
            rise += inside[2, at]
            fall += inside[3, at]
    excess = low + rise if has_intercept else 0.0
    for i in range(g.size):
        g[i] = left[i]
        own = left[i] * kinks[0, i]
        size += abs(own)
        for at in range(i, kinks.shape[1], left.size):
            u = inside[2, at]
            if excess > 0.0:
                u *= 1.0 - excess / rise
            elif excess < 0.0:
                u = kinks[1, at] - inside[3, at] * (1.0 + excess / fall)
            u = min(max(u, 0.0), kinks[1, at])
            g[i] += u
            own += u * kinks[0, at]
            size += abs(u * kinks[0, at])
        height -= own
    return height, size
