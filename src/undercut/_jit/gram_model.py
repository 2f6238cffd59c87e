"""Quadratic models of few parameters by their Gram matrix H: optimality conditions, and Newton steps on the support.

The model at w is ``<gradient, v - w> + 1/2 (v - w)' H (v - w) + l1 |v|_1 + l2/2 |v|^2``.
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.compile import njit


@njit(cache=True, nogil=True)
def violations(w, gradient, l1, l2, out):
    """Fill ``out`` with what ``Penalty.violation`` says; returns the largest, NaN if one is."""
    total, used = 0.0, 0
    for j in range(w.size):
        total += abs(w[j])
        used += w[j] != 0.0
    mean = max(total / max(used, 1), 1e-300)
    most = 0.0
    for j in range(w.size):
        own = max(abs(gradient[j]) - l1, 0.0)
        if w[j] != 0.0:
            size = abs(w[j])
            moving = abs(gradient[j] + math.copysign(l1, w[j]) + l2 * w[j]) * min(1.0, size / mean)
            own = max(moving, own - l2 * size)
        out[j] = own
        if own > most or own != own:
            most = own
    return most


@njit(cache=True, nogil=True)
def penalty_value(w, l1, l2):
    """``l1 |w|_1 + l2/2 |w|^2``."""
    total, squares = 0.0, 0.0
    for j in range(w.size):
        total += abs(w[j])
        squares += w[j] * w[j]
    return l1 * total + 0.5 * l2 * squares


@njit(cache=True, nogil=True)
def penalty_slope(w, change, l1, l2):
    """Its derivative along ``change``; to the right where a parameter is zero."""
    total = 0.0
    for j in range(w.size):
        total += change[j] * (math.copysign(l1, w[j] if w[j] != 0.0 else change[j]) + l2 * w[j])
    return total


@njit(cache=True, nogil=True)
def expected_gap(w, gradient, l1, l2, spread):
    """About the gap that slopes u with ``X' u = gradient`` prove at w; ``spread`` is ``sum_i u_i^2 / (2 d_i)``.

    With squares it is ``sum_j reg_j(w_j) + reg_j*(-gradient_j) + gradient_j w_j``.  Without, the slopes are scaled by s
    until ``|s gradient_j| <= l1``, and it is ``l1 |w|_1 + s <gradient, w> + (1 - s)^2 spread`` to second order.
    """
    size, product, squares, most, excess = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(w.size):
        size += abs(w[j])
        product += gradient[j] * w[j]
        squares += w[j] * w[j]
        over = max(abs(gradient[j]) - l1, 0.0)
        excess += over * over
        if over > most or over != over:
            most = over
    if l2 > 0.0:
        return l1 * size + product + 0.5 * l2 * squares + 0.5 * excess / l2
    share = l1 / (l1 + most)
    return l1 * size + share * product + (1.0 - share) ** 2 * spread


@njit(cache=True, nogil=True)
def steepest(slopes, weight, gradient, alive, norms, rounding):
    """The largest ``|gradient_j|`` of features that are alive, with the rounding error of ``gradient = X' slopes``.

    That is ``rounding`` times the norms of the column and of the slopes, both weighted.
    """
    squares, most = 0.0, 0.0
    for i in range(slopes.size):
        if weight[i] > 0.0:
            squares += slopes[i] * slopes[i] / weight[i]
    size = rounding * math.sqrt(squares)
    for j in range(gradient.size):
        if alive[j]:
            own = abs(gradient[j]) + size * norms[j]
            if own > most or own != own:
                most = own
    return most


@njit(cache=True, nogil=True)
def excess(gradient, alive, share, l1):
    """``sum_j max(0, share |gradient_j| - l1)^2`` over the features that are alive."""
    total = 0.0
    for j in range(gradient.size):
        if alive[j]:
            over = max(share * abs(gradient[j]) - l1, 0.0)
            total += over * over
    return total


@njit(cache=True, nogil=True)
def screened(w, gradient, norms, share, radius, l1, out):
    """Fill ``out`` with whether w is zero, and ``share |gradient_j| + radius norms_j`` is below l1."""
    for j in range(w.size):
        out[j] = w[j] == 0.0 and (share * abs(gradient[j]) + radius * norms[j]) * (1.0 + 1e-9) < l1


@njit(cache=True, nogil=True)
def support_system(H, gradient, w, l1, l2):
    """The parameters that are not zero, their part of H, and minus the derivative in each."""
    size = 0
    for j in range(w.size):
        size += w[j] != 0.0
    support, matrix, right = np.empty(size, np.int64), np.empty((size, size)), np.empty(size)
    at = 0
    for j in range(w.size):
        if w[j] != 0.0:
            support[at] = j
            at += 1
    for a in range(size):
        i = support[a]
        right[a] = -gradient[i] - math.copysign(l1, w[i]) - l2 * w[i]
        for b in range(size):
            matrix[a, b] = H[i, support[b]]
    return support, matrix, right


@njit(cache=True, inline="always")
def _change(matrix, slopes, at, step, zeros, share, l1, l2, change):
    """Fill ``change`` with the share of a step in which parameters stop at zero; returns the model after it."""
    energy = 0.0
    for a in range(at.size):
        change[a] = -at[a] if zeros[a] <= share else share * step[a]
    for a in range(at.size):
        product = 0.0
        for b in range(at.size):
            product += matrix[a, b] * change[b]
        v = at[a] + change[a]
        energy += change[a] * (slopes[a] + 0.5 * product) + l1 * abs(v) + 0.5 * l2 * v * v
    return energy


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def move_support(H, matrix, support, step, l1, l2, w, gradient):
    """Take the part of a step that reduces the model most; parameters that would change their signs become zero.

    The step is halved until the model is smaller than before, and then as long as that reduces it further; w and its
    gradient are overwritten.
    """
    size, best, least = support.size, 0.0, 1.0
    at, slopes, zeros, change, found = np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.zeros(size)
    for a in range(size):
        at[a], slopes[a] = w[support[a]], gradient[support[a]]
        zeros[a] = -at[a] / step[a] if at[a] * step[a] < 0.0 else math.inf
        least = min(least, zeros[a])
        best += l1 * abs(at[a]) + 0.5 * l2 * at[a] * at[a]
    is_found, share = False, 1.0
    while True:
        energy = _change(matrix, slopes, at, step, zeros, share, l1, l2, change)
        if energy < best:
            best, is_found = energy, True
            for a in range(size):
                found[a] = change[a]
        elif is_found:
            break
        if not share > least:
            break
        share = max(0.5 * share, least)
    for a in range(at.size):
        if found[a] != 0.0:
            i = support[a]
            w[i] = 0.0 if found[a] == -at[a] else at[a] + found[a]
            for j in range(w.size):
                gradient[j] += found[a] * H[i, j]
