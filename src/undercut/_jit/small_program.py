"""Before and after the path of ``central_path``: the rows of the penalty and the start, the optimum and what it proves.

The penalty is ``sum_j l1_j |w_j| + l2_j/2 (w_j - center_j)^2`` where ``lower_j <= w_j <= upper_j``, or an entropy.
Absolute values and bounds are kinks (``solvers/newton/penalty_terms.py``).
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.central_path import OPTIONS
from undercut._jit.compile import njit
from undercut._jit.equations import forward
from undercut._jit.pointwise import NO_LOSS, curve

ENDLESS = 1e30  # the slope beyond a bound


@njit(**OPTIONS)
def with_penalty(own_left, own, terms, largest):
    """(signs, left, kinks): how many of I and -I the rows need, and the kinks of the losses, then of the penalty.

    own      (3, K, n): places, caps and lengths of rounding of the losses
    terms    (5, d): l1, l2, center, lower, upper
    largest  the largest weight of a sample
    """
    n, d, K, signs = own_left.size, terms.shape[1], own.shape[1], np.int64(0)
    for j in range(d):
        if terms[3, j] > -math.inf or terms[4, j] < math.inf:
            signs = np.int64(2)
        elif terms[0, j] > 0.0:
            signs = max(signs, np.int64(1))
    left, kinks, usual = np.zeros(n + signs * d), np.zeros((4, max(K, signs), n + signs * d)), 0.0
    for i in range(n):
        left[i] = own_left[i]
        for k in range(K):
            kinks[0, k, i], kinks[1, k, i], kinks[2, k, i] = own[0, k, i], own[1, k, i], own[2, k, i]
            kinks[3, k, i] = own[1, k, i]
            usual = max(usual, own[1, k, i])
    usual = usual if usual > 0.0 else largest
    for j in range(d if signs else 0):
        l1, lower, upper = terms[0, j], terms[3, j], terms[4, j]
        left[n + j] = l1 if lower >= 0.0 else -l1
        kinks[1, 0, n + j] = 2.0 * l1 if lower < 0.0 < upper else 0.0
        if upper < math.inf:
            kinks[0, 1, n + j], kinks[1, 1, n + j] = upper, ENDLESS
        if lower > -math.inf:
            kinks[0, 0, n + d + j], kinks[1, 0, n + d + j] = -lower, ENDLESS
        for k in range(kinks.shape[1]):
            for at in range(n + j, n + signs * d, d):
                kinks[3, k, at] = usual if kinks[1, k, at] > 0.0 else 0.0
    return signs, left, kinks


@njit(**OPTIONS)
def move_inside(X, terms, x):
    """Move w off its bounds, by a tenth of the way to the other bound at most."""
    n, d = X.shape
    for j in range(d):
        spread = 0.0
        for i in range(n):
            spread += X[i, j] * X[i, j]
        off = min(1.0 / (1.0 + math.sqrt(d * spread / n)), 0.1 * (terms[4, j] - terms[3, j]))
        x[j] = min(max(x[j], terms[3, j] + off), terms[4, j] - off)


@njit(**OPTIONS)
def at_kinks(n, signs, kinks, terms, shares, x, inside, W):
    """Fill rows of W with w, exactly at those kinks of its own, zero or a bound, whose slopes are both large.

    ``shares`` : for every row, the relative distance that counts as none where the slopes are equal.
    """
    d = W.shape[1]
    for row in range(shares.size):
        largest = 0.0
        for j in range(d):
            W[row, j] = min(max(x[j], terms[3, j]), terms[4, j])
            largest = max(largest, abs(W[row, j]))
        for k in range(kinks.shape[1]):
            for at in range(n, n + signs * d):
                slack, j = min(inside[2, k, at], inside[3, k, at]), (at - n) % d
                place = kinks[0, k, at] if at < n + d else -kinks[0, k, at]
                limit = min(0.5 * kinks[1, k, at], kinks[3, k, at])  # a bound is met at any slope above zero
                if slack > 0.0 and abs(W[row, j] - place) * limit <= shares[row] * largest * slack:
                    W[row, j] = place


@njit(**OPTIONS)
def slopes_and_plane(X, has_intercept, left, kinks, number, targets, x, inside):
    """(g, height, size): slopes of the losses, and the height of their plane, with the size of the numbers in it.

    The plane is ``sum_i left_i (s_i - places_0i) + sum_ki u_ki (s_i - places_ki)``.  With a free intercept u, or
    ``v = caps - u``, is shortened until the slopes sum to zero.  Smooth losses have no plane here.
    """
    n = X.shape[0]
    g, height, size = np.empty(n), 0.0, 0.0
    if number != NO_LOSS:
        scores = np.empty(n)
        forward(X, has_intercept, np.int64(0), x, scores)
        curve(number, targets, scores, g, np.empty(n))
        return g, height, size
    low, rise, fall = 0.0, 0.0, 0.0
    for i in range(n):
        low += left[i]
        for k in range(kinks.shape[1]):
            rise += inside[2, k, i]
            fall += inside[3, k, i]
    excess = low + rise if has_intercept else 0.0
    for i in range(n):
        g[i] = left[i]
        own = left[i] * kinks[0, 0, i]
        size += abs(own)
        for k in range(kinks.shape[1]):
            u = inside[2, k, i]
            if excess > 0.0:
                u *= 1.0 - excess / rise
            elif excess < 0.0:
                u = kinks[1, k, i] - inside[3, k, i] * (1.0 + excess / fall)
            u = min(max(u, 0.0), kinks[1, k, i])
            g[i] += u
            own += u * kinks[0, k, i]
            size += abs(u * kinks[0, k, i])
        height -= own
    return g, height, size
