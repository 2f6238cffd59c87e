"""Where a piecewise-linear convex derivative crosses zero, in linear time.

    s(t) = slope + curvature * t + sum_{kinks[i] <= t} jumps[i],      jumps >= 0, curvature >= 0

is non-decreasing.  Exact line search and the exact intercept are both the search for the first t with s(t) >= 0.
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.compile import njit

SMALL = 128  # below this many kinks sorting is cheaper than selecting
SAMPLE = 61  # how many kinks guess the bracket


@njit(cache=True, nogil=True, error_model="numpy")
def crossing(kinks, jumps, slope, curvature, low):
    """First t >= low with ``s(t) >= 0``; ``inf`` if there is none.  Reorders both arrays.

    Selection by bracketing (Floyd and Rivest): a sorted sample guesses an interval around the crossing, one pass
    keeps the kinks inside it and adds up the jumps below, and a wrong guess still discards one side.
    """
    if slope + curvature * low >= 0.0:
        return low
    n = kinks.size
    lower, upper = -math.inf, math.inf  # sums in another order must not lose the bracket to rounding
    while n > SMALL:
        left, right = _guess_bracket(kinks, jumps, n, slope, curvature)
        below, inside = _sums(kinks, jumps, n, left, right)
        first, last, closed = left, right, False
        if slope + curvature * left + below >= 0.0:
            upper = left
            first, last = -math.inf, left
        elif slope + curvature * right + below + inside < 0.0:
            slope += below + inside
            lower = right
            first, last = right, math.inf
        elif left == right:
            return max(left, low)
        else:
            lower, upper = max(lower, left), min(upper, right)
            slope += below
            closed = True
        kept = _keep(kinks, jumps, n, first, last, closed)
        if kept == n:
            break
        n = kept
    _sort(kinks, jumps, n)
    t = _crossing_sorted(kinks, jumps, n, slope, curvature, low)
    return max(low, min(upper, max(lower, t)))


@njit(inline="always", error_model="numpy")
def _guess_bracket(kinks, jumps, n, slope, curvature):
    """Two kinks that probably enclose the crossing, from an evenly spaced sample."""
    stride = n // SAMPLE
    sample, weight = np.empty(SAMPLE), np.empty(SAMPLE)
    for i in range(SAMPLE):
        sample[i] = kinks[i * stride]
        weight[i] = jumps[i * stride] * (n / SAMPLE)
    _sort(sample, weight, sample.size)
    at = 0
    while at < SAMPLE:
        slope += weight[at]
        if slope + curvature * sample[at] >= 0.0:
            break
        at += 1
    return sample[max(at - 4, 0)], sample[min(at + 4, SAMPLE - 1)]


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _sums(kinks, jumps, n, left, right):
    """The sums of the jumps below ``left``, and from there to ``right``; a branch per kink would be slower."""
    below, inside = 0.0, 0.0
    for i in range(n):
        t, jump = kinks[i], jumps[i]
        below += jump if t < left else 0.0
        inside += jump if t >= left and t <= right else 0.0
    return below, inside


@njit(inline="always")
def _keep(kinks, jumps, n, left, right, closed):
    """Move the kinks in (left, right), or [left, right] if ``closed``, to the front; how many they are."""
    kept = 0
    for i in range(n):
        t, jump = kinks[i], jumps[i]
        kinks[kept], jumps[kept] = t, jump
        kept += (t >= left and t <= right) if closed else (t > left and t < right)
    return kept


@njit(cache=True, nogil=True)
def _sort(kinks, jumps, n):
    """Sort the first n kinks together with their jumps (Shell's method; NumPy's sort takes seconds to compile)."""
    gap = 1
    while 9 * gap < 4 * n:
        gap = 9 * gap // 4 + 1  # 1, 3, 7, 16, 37, 84, ...
    while gap > 0:
        for i in range(gap, n):
            t, jump = kinks[i], jumps[i]
            at = i
            while at >= gap and kinks[at - gap] > t:
                kinks[at], jumps[at] = kinks[at - gap], jumps[at - gap]
                at -= gap
            kinks[at], jumps[at] = t, jump
        gap = (4 * gap - 1) // 9 if gap > 1 else 0


@njit(inline="always", error_model="numpy")
def _crossing_sorted(kinks, jumps, n, slope, curvature, low):
    last = -math.inf
    for i in range(n):
        if slope + curvature * kinks[i] >= 0.0:  # crosses on the straight piece before this kink
            return max(-slope / curvature if curvature > 0.0 else last, low)
        slope += jumps[i]
        last = kinks[i]
        if slope + curvature * last >= 0.0:
            return max(last, low)
    return max(-slope / curvature, low) if curvature > 0.0 else math.inf
