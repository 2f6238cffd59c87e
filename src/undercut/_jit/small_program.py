"""From the arrays of a small problem to its optimum: the rows of the penalty, the start, the path, and what it proves.

The penalty is ``sum_j l1_j |w_j| + l2_j/2 (w_j - center_j)^2`` where ``lower_j <= w_j <= upper_j``, or an entropy.
Absolute values and bounds are kinks (``solvers/newton/penalty_terms.py``).
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.central_path import OPTIONS, TINY, WALL, follow
from undercut._jit.compile import njit
from undercut._jit.equations import forward
from undercut._jit.pointwise import NO_LOSS, curve

ENDLESS = 1e30  # the slope beyond a bound
SMALLEST_GAP = 1e-6  # of the size of the losses: the gap at the start is assumed to be at least this
SPARSER = (1.0, 1e-2, 1e-4, 0.0)  # how readily parameters are taken to be at a kink, in the order of trial


@njit(**OPTIONS)
def optimum(X, has_intercept, data, terms, loss, x, gap, accuracy, max_steps):
    """(W, intercept, g, height, size) at the optimum, or as near to it as rounding lets the path come.

    data   left (n,), then places, caps and lengths of rounding of the kinks of the losses (K, n)
    terms  l1, l2, center, lower, upper: (d,); entropy, log prior (d,)
    loss   the number of a smooth loss, targets and weights (n,)
    x      the start; ``gap`` bounds its gap

    Returns several w, those with more parameters at zero or at a bound first; slopes g of the samples, whose sum is zero
    if the intercept is free and the loss is not smooth; and for these the plane ``<X'g, w> + height``, with the size of
    the numbers that make its height.
    """
    n, d = X.shape
    l1, l2, center, lower, upper, entropy, log_prior = terms
    signs, kinks = _with_penalty(n, data, terms, loss[2])
    penalty = (l1, l2, center, upper - lower, entropy, log_prior)
    rows = (X, has_intercept, signs)
    if signs == 2 and entropy == 0.0:
        _move_inside(X, lower, upper, x)
    scores = np.empty(kinks[0].size)
    forward(X, has_intercept, signs, x, scores)
    size, stiff = TINY, True
    for i in range(scores.size):
        for k in range(kinks[2].shape[0]):
            if kinks[2][k, i] < WALL:
                size += kinks[2][k, i] * (abs(scores[i]) + abs(kinks[1][k, i]))
    for j in range(d):
        stiff = stiff and entropy == 0.0 and (l2[j] > 0.0 or l1[j] > 0.0 or signs == 2)
    total = max(gap, SMALLEST_GAP * size)
    start = x.copy()
    x, u, v, is_solved = follow(rows, kinks, penalty, loss, x, total, stiff and n <= d, accuracy, max_steps)
    if stiff and n > d and not is_solved:  # equations between samples are more accurate
        x, u, v, is_solved = follow(rows, kinks, penalty, loss, start, total, True, accuracy, max_steps)
    W = np.empty((len(SPARSER), d))
    for at in range(len(SPARSER)):
        _at_kinks(n, signs, kinks, lower, upper, SPARSER[at], x, u, v, W[at])
    if has_intercept and loss[0] == NO_LOSS:
        _balance(data, u, v)
    g, height, size = _plane(data, u, v)
    if loss[0] != NO_LOSS:
        forward(X, has_intercept, signs, x, scores)
        curve(loss[0], loss[1], loss[2], scores, g, np.empty(n))
    return W, x[d] if has_intercept else 0.0, g, height, size


@njit(**OPTIONS)
def _with_penalty(n, data, terms, weight):
    """(signs, kinks): how many of I and -I the rows need, and the kinks of the losses and of the penalty."""
    l1, _, _, lower, upper, entropy, _ = terms
    d, K, signs = l1.size, data[1].shape[0], 0
    for j in range(d):
        if lower[j] > -math.inf or upper[j] < math.inf:
            signs = 2
        elif l1[j] > 0.0:
            signs = max(signs, 1)
    K = max(K, signs)
    left, places, caps = np.zeros(n + signs * d), np.zeros((K, n + signs * d)), np.zeros((K, n + signs * d))
    soft, share = np.zeros_like(caps), np.zeros_like(caps)
    left[:n] = data[0]
    usual, largest = 0.0, 0.0
    for i in range(n):
        largest = max(largest, weight[i])
        for k in range(data[1].shape[0]):
            places[k, i], caps[k, i], soft[k, i] = data[1][k, i], data[2][k, i], data[3][k, i]
            share[k, i] = caps[k, i]
            usual = max(usual, caps[k, i])
    usual = usual if usual > 0.0 else largest
    for j in range(d if signs else 0):
        left[n + j] = l1[j] if lower[j] >= 0.0 else -l1[j]
        caps[0, n + j] = 2.0 * l1[j] if lower[j] < 0.0 < upper[j] else 0.0
        if upper[j] < math.inf:
            places[1, n + j], caps[1, n + j] = upper[j], ENDLESS
        if lower[j] > -math.inf:
            places[0, n + d + j], caps[0, n + d + j] = -lower[j], ENDLESS
        for k in range(K):
            for at in range(n + j, n + signs * d, d):
                share[k, at] = usual if caps[k, at] > 0.0 else 0.0
    return signs, (left, places, caps, soft, share)


@njit(**OPTIONS)
def _move_inside(X, lower, upper, x):
    """Move w off its bounds, by a tenth of the way to the other bound at most."""
    n, d = X.shape
    for j in range(d):
        spread = 0.0
        for i in range(n):
            spread += X[i, j] * X[i, j]
        off = min(1.0 / (1.0 + math.sqrt(d * spread / n)), 0.1 * (upper[j] - lower[j]))
        x[j] = min(max(x[j], lower[j] + off), upper[j] - off)


@njit(**OPTIONS)
def _at_kinks(n, signs, kinks, lower, upper, share, x, u, v, w):
    """Fill w with x, exactly at those kinks of its own, zero or a bound, whose slopes u and v are both large."""
    _, places, caps, _, shares = kinks
    d, largest = w.size, 0.0
    for j in range(d):
        w[j] = min(max(x[j], lower[j]), upper[j])
        largest = max(largest, abs(w[j]))
    for k in range(caps.shape[0] if signs else 0):
        for j in range(d):
            for at in range(n + j, n + signs * d, d):
                slack = min(u[k, at], v[k, at])
                place = places[k, at] if at < n + d else -places[k, at]
                limit = min(0.5 * caps[k, at], shares[k, at])  # a bound is met at any slope above zero
                if slack > 0.0 and caps[k, at] > 0.0 and abs(w[j] - place) * limit <= share * largest * slack:
                    w[j] = place


@njit(**OPTIONS)
def _balance(data, u, v):
    """Scale u, or v = caps - u, so that the slopes of the samples sum to zero."""
    left, caps, n = data[0], data[2], data[0].size
    low, rise, fall = 0.0, 0.0, 0.0
    for i in range(n):
        low += left[i]
        for k in range(caps.shape[0]):
            rise += u[k, i]
            fall += v[k, i]
    total = low + rise
    if total > 0.0:
        share = total / rise
        for k in range(caps.shape[0]):
            for i in range(n):
                u[k, i] *= 1.0 - share
                v[k, i] = caps[k, i] - u[k, i]
    elif total < 0.0:
        share = -total / fall
        for k in range(caps.shape[0]):
            for i in range(n):
                v[k, i] *= 1.0 - share
                u[k, i] = caps[k, i] - v[k, i]


@njit(**OPTIONS)
def _plane(data, u, v):
    """(g, height, size): slopes and height of ``sum_i left_i (s_i - places_0i) + sum_ki u_ki (s_i - places_ki)``."""
    left, places, caps = data[0], data[1], data[2]
    g, height, size = left.copy(), 0.0, 0.0
    for i in range(left.size):
        own = left[i] * places[0, i]
        for k in range(caps.shape[0]):
            slope = min(max(u[k, i], 0.0), caps[k, i])
            g[i] += slope
            own += slope * places[k, i]
            size += abs(slope * places[k, i])
        height -= own
        size += abs(left[i] * places[0, i])
    return g, height, size
