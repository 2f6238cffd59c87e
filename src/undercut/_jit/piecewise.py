"""Sums of piecewise-linear losses along a line, in one pass over the samples.

Sample i has the loss  ``left_i (s - p_i0) + sum_k jump_k max(0, s - p_ik)``  with kinks ``p_i0 <= p_i1 <= ...``
in the score s, zero at ``p_i0``.
"""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit


@njit(cache=True, nogil=True)
def value_slope(left, kinks, jumps, scores, values, slopes):
    """Loss and right derivative of every sample at its score."""
    for i in range(scores.size):
        value, slope = left[i] * (scores[i] - kinks[0, i]), left[i]
        for k in range(jumps.size):
            beyond = scores[i] - kinks[k, i]
            reached = beyond >= 0.0
            value += jumps[k] * beyond * reached
            slope += jumps[k] * reached
        values[i], slopes[i] = value, slope


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def along_line(left, kinks, jumps, weight, scores, direction, at, rise):
    """Derivative of ``t -> sum_i weight_i loss_i(scores_i + t direction_i)`` at 0+, and its kinks beyond 0.

    Fills ``at`` with the kinks t > 0 and ``rise`` with the increase of the derivative there; returns
    (derivative, number of kinks).
    """
    derivative, count = 0.0, np.uint64(0)
    for i in range(scores.size):
        derivative += weight[i] * direction[i] * left[i]
    for k in range(jumps.size):
        for i in range(scores.size):  # without a branch: which samples have a kink ahead is anybody's guess
            ahead, d = kinks[k, i] - scores[i], direction[i]
            pull = jumps[k] * weight[i] * d
            derivative += pull * ((ahead < 0.0) | ((ahead == 0.0) & (d > 0.0)))
            at[count] = ahead / d
            rise[count] = abs(pull)
            count += np.uint64(ahead * d > 0.0)
    return derivative, count


@njit(cache=True, nogil=True)
def intercept_kinks(kinks, jumps, weight, scores, at, rise):
    """The kinks of ``b -> sum_i weight_i loss_i(scores_i + b)`` and the increase of its derivative there."""
    n = scores.size
    for k in range(jumps.size):
        for i in range(n):
            at[k * n + i] = kinks[k, i] - scores[i]
            rise[k * n + i] = jumps[k] * weight[i]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def at_intercept(left, kinks, jumps, weight, scores, b, slopes):
    """The weighted sum of losses at intercept ``b``; fills ``slopes`` with weighted subgradients.

    Samples with a kink exactly at b take one common share of its jump, which brings the sum of the subgradients as
    close to zero as it can be: to zero, where b is the best intercept.
    """
    n = scores.size
    value, below, tied = 0.0, 0.0, 0.0
    for i in range(n):
        slopes[i] = 0.0
    for k in range(jumps.size):  # the innermost loop runs over samples, which the processor handles several at a time
        jump, own, first = jumps[k], kinks[k], 1.0 if k == 0 else 0.0
        for i in range(n):
            kink = own[i] - scores[i]
            slope = first * left[i] + jump * (kink < b)
            slopes[i] += weight[i] * slope
            value += weight[i] * slope * (b - kink)
            below += weight[i] * slope
            tied += weight[i] * jump * (kink == b)
    share = min(1.0, max(0.0, -below / tied)) if tied > 0.0 else 0.0
    if share == 0.0:
        return value
    for k in range(jumps.size):
        for i in range(n):
            slopes[i] += share * weight[i] * jumps[k] * (kinks[k, i] - scores[i] == b)
    return value
