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


@njit(cache=True)
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
        left, right = _guess_bracket(kinks[:n], jumps[:n], slope, curvature)
        below, inside = 0.0, 0.0
        for i in range(n):
            if kinks[i] < left:
                below += jumps[i]
            elif kinks[i] <= right:
                inside += jumps[i]
        if slope + curvature * left + below >= 0.0:
            upper = left
            n = _keep(kinks, jumps, n, -math.inf, left, False)
        elif slope + curvature * right + below + inside < 0.0:
            slope += below + inside
            lower = right
            n = _keep(kinks, jumps, n, right, math.inf, False)
        elif left == right:
            return max(left, low)
        else:
            kept = _keep(kinks, jumps, n, left, right, True)
            lower, upper = max(lower, left), min(upper, right)
            slope += below
            if kept == n:
                break
            n = kept
    t = _crossing_sorted(kinks[:n], jumps[:n], slope, curvature, low)
    return max(low, min(upper, max(lower, t)))


@njit(cache=True)
def _guess_bracket(kinks, jumps, slope, curvature):
    """Two kinks that probably enclose the crossing, from an evenly spaced sample."""
    n = kinks.size
    stride = n // SAMPLE
    sample = kinks[: SAMPLE * stride : stride].copy()
    weight = jumps[: SAMPLE * stride : stride] * (n / SAMPLE)
    order = np.argsort(sample)
    at = 0
    while at < SAMPLE:
        slope += weight[order[at]]
        if slope + curvature * sample[order[at]] >= 0.0:
            break
        at += 1
    return sample[order[max(at - 4, 0)]], sample[order[min(at + 4, SAMPLE - 1)]]


@njit(cache=True)
def _keep(kinks, jumps, n, left, right, closed):
    """Move the kinks in (left, right), or [left, right] if ``closed``, to the front; how many they are."""
    kept = 0
    for i in range(n):
        t, jump = kinks[i], jumps[i]
        kinks[kept], jumps[kept] = t, jump
        kept += (t >= left and t <= right) if closed else (t > left and t < right)
    return kept


@njit(cache=True)
def _crossing_sorted(kinks, jumps, slope, curvature, low):
    order = np.argsort(kinks)
    last = -math.inf
    for i in order:
        if slope + curvature * kinks[i] >= 0.0:  # crosses on the straight piece before this kink
            return max(-slope / curvature if curvature > 0.0 else last, low)
        slope += jumps[i]
        last = kinks[i]
        if slope + curvature * last >= 0.0:
            return max(last, low)
    return max(-slope / curvature, low) if curvature > 0.0 else math.inf
