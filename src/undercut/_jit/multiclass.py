"""Losses of the K scores of a sample, one pass over n x K scores.

Crammer-Singer   max_k  costs[y, k] + s_k - s_y
softmax          log sum_k exp(s_k) - s_y
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.compile import njit
from undercut._jit.exponential import exp_of_fall

BLOCK = 64  # samples whose exponentials are taken together


@njit(cache=True, nogil=True)
def crammer_singer(S, y, costs, values, slopes):
    """Loss and a subgradient of every sample; among equal maxima the own class, else the first, is taken."""
    slopes[:] = 0.0
    for i in range(y.size):
        own, s, cost = y[i], S[i], costs[y[i]]
        best, most = own, s[own]
        for k in range(s.size):
            if cost[k] + s[k] > most:
                best, most = k, cost[k] + s[k]
        values[i] = cost[best] + (s[best] - s[own])
        slopes[i, best] += 1.0
        slopes[i, own] -= 1.0


@njit(cache=True, nogil=True)
def crammer_singer_along(S, D, t, y, costs, values, slopes):
    """Loss of every sample at ``S + t D`` and its derivative in t."""
    for i in range(y.size):
        own, s, d, cost = y[i], S[i], D[i], costs[y[i]]
        best, most = own, s[own] + t * d[own]
        for k in range(s.size):
            at = cost[k] + (s[k] + t * d[k])
            if at > most:
                best, most = k, at
        slopes[i] = d[best] - d[own]
        values[i] = cost[best] + ((s[best] - s[own]) + t * slopes[i])


@njit(cache=True, nogil=True, error_model="numpy")
def softmax(S, y, values, slopes):
    """Loss and gradient of every sample; no exponential overflows, and a tiny loss keeps its digits.

    The loss is infinite, and the gradient NaN, where a score is infinite, unless it is minus infinity for some classes.
    """
    for start in range(0, y.size, BLOCK):
        stop = min(start + BLOCK, y.size)
        for i in range(start, stop):
            s, p = S[i], slopes[i]
            values[i] = _largest(s) - s[y[i]]
            for k in range(s.size):
                p[k] = s[k]
        _exponentials(slopes, start, stop)
        for i in range(start, stop):
            p, own = slopes[i], y[i]
            mine, p[own] = p[own], 0.0
            others = 0.0
            for k in range(p.size):
                others += p[k]
            values[i] = _added(values[i], mine, others)
            for k in range(p.size):
                p[k] /= mine + others
            p[own] = -others / (mine + others)


@njit(cache=True, nogil=True, error_model="numpy")
def softmax_along(S, D, t, y, values, slopes, bends):
    """Loss of every sample at ``S + t D``, its first and its second derivative in t."""
    P = np.empty((BLOCK, S.shape[1]))
    for start in range(0, y.size, BLOCK):
        stop = min(start + BLOCK, y.size)
        for i in range(start, stop):
            s, d, p = S[i], D[i], P[i - start]
            for k in range(s.size):
                p[k] = s[k] + t * d[k]
            values[i] = _largest(p) - p[y[i]]
        _exponentials(P, 0, stop - start)
        for i in range(start, stop):
            d, p, own = D[i], P[i - start], y[i]
            mine, p[own] = p[own], 0.0
            others, first, second = 0.0, 0.0, 0.0
            for k in range(d.size):
                others += p[k]
                first += p[k] * (d[k] - d[own])
            total = mine + others
            first /= total
            for k in range(d.size):
                second += p[k] * (d[k] - d[own] - first) ** 2
            second += mine * first**2
            values[i] = _added(values[i], mine, others)
            slopes[i], bends[i] = first, second / total


@njit(cache=True, inline="always")
def _added(excess, mine, others):
    """The loss: the excess of the largest score over the own one, and the logarithm of the sum of exponentials."""
    value = excess + math.log1p((mine - 1.0) + others)  # the first is 0 where the own class has the largest score
    return np.inf if value != value else value  # NaN: infinite scores


@njit(cache=True, inline="always")
def _largest(s):
    top = s[0]
    for k in range(1, s.size):
        top = max(top, s[k])
    return top


@njit(cache=True, inline="always")
def _exponentials(P, start, stop):
    """Replace the rows of P by the exponentials of their differences from the largest number in each.

    All of them are taken in one loop, since vectors are longer than most rows.
    """
    for i in range(start, stop):
        p = P[i]
        top = _largest(p)
        for k in range(p.size):
            p[k] -= top
    part = P[start:stop].reshape(-1)
    for e in range(part.size):  # from 0 on: indices that may be negative prevent a vector loop
        part[e] = exp_of_fall(part[e])


@njit(cache=True, nogil=True)
def softmax_ahead(S, D, b, shift, y, values, slopes):
    """Slopes that a linear model at ``S + b`` predicts for a change of the scores by ``D + shift``, and ``l*`` of them.

    Probabilities that would be negative are zero, and the others scaled to sum to one.
    """
    for i in range(y.size):
        s, d, p = S[i], D[i], slopes[i]
        top = -np.inf
        for k in range(s.size):
            p[k] = s[k] + b[k]
            top = max(top, p[k])
        total, mean = 0.0, 0.0
        for k in range(s.size):
            p[k] = math.exp(p[k] - top)
            total += p[k]
            mean += p[k] * (d[k] + shift[k])
        mean /= total
        total = 0.0
        for k in range(s.size):
            p[k] = max(0.0, p[k] * (1.0 + (d[k] + shift[k] - mean)))
            total += p[k]
        values[i] = 0.0
        for k in range(s.size):
            p[k] /= total
            if p[k] > 0.0:
                values[i] += p[k] * math.log(p[k])
        p[y[i]] -= 1.0


@njit(cache=True, nogil=True)
def softmax_conjugate(slopes, weight, y, share, values):
    """``weight_i l*(share slopes_i / weight_i)`` of every sample; 0 for those without a weight."""
    for i in range(y.size):
        values[i] = 0.0
        if weight[i] <= 0.0:
            continue
        scale = share / weight[i]
        for k in range(slopes.shape[1]):
            q = scale * slopes[i, k] + (k == y[i])
            if q > 0.0:
                values[i] += weight[i] * q * math.log(q)


@njit(cache=True, nogil=True, error_model="numpy")
def softmax_shifted(slopes, weight, y, rises, out):
    """Slopes of the weighted softmax losses after a shift of the scores by the same b for all samples.

    ``rises[l, k]`` is ``exp(b_k - b_l) - 1``.  Returns the change of the sum of the losses; infinite, and ``out`` is
    not filled, where rounding leaves a sample no probability.
    """
    change = 0.0
    for i in range(y.size):
        own, u, v = y[i], slopes[i], out[i]
        rise = rises[own]
        if weight[i] <= 0.0:
            v[:] = 0.0
            continue
        more = 0.0
        for k in range(u.size):
            more += u[k] * rise[k]  # the own class has no rise
        more /= weight[i]
        if not more > -1.0:
            return np.inf
        change += weight[i] * math.log1p(more)
        scale, others = 1.0 / (1.0 + more), 0.0
        for k in range(u.size):
            v[k] = u[k] * (1.0 + rise[k]) * scale
            others += v[k] * (k != own)
        v[own] = -others
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def softmax_through(slopes, weight, y, D, shift, out):
    """``weight_i (diag(p_i) - p_i p_i') (d_i + shift)`` for every row of D, p the probabilities of the slopes."""
    for i in range(y.size):
        own, u, d, v = y[i], slopes[i], D[i], out[i]
        base, mean = d[own] + shift[own], 0.0
        for k in range(u.size):
            v[k] = (d[k] + shift[k]) - base
            mean += u[k] * v[k]
        mean = mean / weight[i] if weight[i] > 0.0 else 0.0
        for k in range(u.size):
            v[k] = u[k] * (v[k] - mean)
        v[own] = -(weight[i] + u[own]) * mean


@njit(cache=True, nogil=True, error_model="numpy")
def softmax_products(slopes, weight, y, C):
    """Add ``sum_i weight_i p_ik p_il`` to ``C[k, l]`` for ``l < k``, p the probabilities of the slopes."""
    p = np.empty(C.shape[0])
    for i in range(y.size):
        if weight[i] <= 0.0:
            continue
        u = slopes[i]
        for k in range(p.size):
            p[k] = u[k]
        p[y[i]] += weight[i]
        for k in range(1, p.size):
            row, share = C[k], p[k] / weight[i]
            for m in range(k):
                row[m] += share * p[m]
