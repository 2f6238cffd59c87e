"""Sweeps of dual coordinate descent (Hsieh et al. 2008; Yu, Huang, Lin 2011) over rows of X.

The dual variable ``a_i`` of a sample is the weight of its row in ``v = center + sum_i a_i x_i``, and the scores are
those of ``w = soft(v, threshold)``.  One coordinate at a time minimizes

    1/2 |soft(v, threshold)|^2 - target_i a_i + zone |a_i| + ridge_i/2 a_i^2,      low_i <= a_i <= high_i

where the logistic loss has an entropy in place of the ridge.  A free intercept b is the multiplier of
``sum_i a_i = 0``; the augmented Lagrangian term ``rho/2 (sum_i a_i)^2`` moves it with every coordinate.
How a row is found is told in ``undercut.contracts.Rows``.
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.compile import njit
from undercut._jit.permute import permute
from undercut._jit.prefetch import prefetch
from undercut._jit.rows import row

TARGET, LOW, HIGH, RIDGE, CURVATURE = range(5)  # the columns of ``terms``
N_TERMS = 5
AHEAD = 6  # a row is fetched into the cache so many rows before its turn
ROW_COST = 8  # work of a row beyond its entries, in entries


@njit(cache=True, nogil=True)
def sweep(
    dense, indptr, columns, values, constant, terms, zone, logistic, threshold, rho,
    order, begin, active, at_zero, at_end, budget, a, v, b,
):  # fmt: skip
    """Visit ``order[begin:active]`` until the work exceeds ``budget``; updates order, a and v.

    A sample that cannot move, with a derivative steeper than ``at_zero`` where a is zero and than ``at_end`` elsewhere,
    is exchanged to the end of the active ones.
    Returns (position, active, b, largest derivative that a move away from zero can use, minus that of a move towards
    zero, the sum of what all visited samples could gain, and for the logistic loss have gained, work).
    """
    width, flat = np.uint64(columns.size), terms.reshape(-1)
    most, least, gain, work, at = 0.0, 0.0, 0.0, 0, begin
    while at < active and work < budget:
        if at + 2 * AHEAD < active:
            _fetch(dense, indptr, columns, values, flat, a, width, order[at + AHEAD], order[at + 2 * AHEAD])
        i = np.uint64(order[at])
        start, stop, offset = row(dense, indptr, width, i)
        work += ROW_COST + np.int64(stop - start)
        if threshold > 0.0:
            score = b + _soft_product(values, columns, start, stop, offset, constant, v, threshold)
        else:
            score = b + product(values, columns, start, stop, offset, constant, v)
        old, low, high, curvature = a[i], terms[i, LOW], terms[i, HIGH], terms[i, CURVATURE] + rho
        if logistic:
            usable, new = _entropic(score, old, low, high, curvature)
            possible = abs(usable * (new - old))
        else:
            slope = score - terms[i, TARGET] + terms[i, RIDGE] * old
            usable, possible, stuck = _move(slope, old, low, high, zone, terms[i, RIDGE])
            if stuck > (at_zero if old == 0.0 else at_end):
                active -= 1
                order[at], order[active] = order[active], order[at]
                continue
            reach = old * curvature - slope
            reach = math.copysign(max(0.0, abs(reach) - zone), reach) / curvature
            new = min(max(reach, low), high)
        at += 1
        most, least = max(most, usable), min(least, usable)
        if new != old:
            gain += possible
            a[i] = new
            b += rho * (new - old)
            add_row(values, columns, start, stop, offset, constant, new - old, v)
    return at, active, b, most, least, gain, work


@njit(cache=True, nogil=True)
def select(scores, b, terms, zone, at_zero, at_end, a, order):
    """Put the samples that ``sweep`` would visit, given all scores, first into ``order``, and the others behind them.

    Returns (how many come first, the sum of what all samples could gain).
    """
    gain, count, rest = 0.0, 0, order.size
    for i in range(order.size):
        old, ridge = a[i], terms[i, RIDGE]
        slope = scores[i] + b - terms[i, TARGET] + ridge * old
        _, possible, stuck = _move(slope, old, terms[i, LOW], terms[i, HIGH], zone, ridge)
        gain += possible
        if stuck > (at_zero if old == 0.0 else at_end):
            rest -= 1
            order[rest] = i
        else:
            order[count] = i
            count += 1
    return count, gain


@njit(cache=True, nogil=True, forceinline=True)
def _move(slope, old, low, high, zone, ridge):
    """(derivative that a move can use, negative towards zero; what it can gain; how steeply all moves are ruled out).

    The gain is the duality gap of the sample's loss and its conjugate at the present score, or a little more.
    """
    right = slope + zone if old >= 0.0 else slope - zone
    left = slope - zone if old <= 0.0 else slope + zone
    if right < 0.0 and old < high:
        return (-right if old >= 0.0 else right), _gain(-right, old, high, zone, ridge), -1.0
    if left > 0.0 and old > low:
        return (left if old <= 0.0 else -left), _gain(left, -old, -low, zone, ridge), -1.0
    return 0.0, 0.0, min(right if old < high else math.inf, -left if old > low else math.inf)


@njit(cache=True, nogil=True, forceinline=True)
def _gain(slope, old, end, zone, ridge):
    """A bound of the gain by an ascent of ``slope`` from old up to an end; it is less beyond a kink at zero."""
    gain = slope * (end - old)
    if zone > 0.0 and old < 0.0:
        gain = max(0.0, slope - 2.0 * zone) * end - slope * old
    return min(gain, 0.5 * slope * slope / ridge) if ridge > 0.0 else gain


@njit(cache=True, nogil=True)
def _fetch(dense, indptr, columns, values, flat_terms, a, width, soon, later):
    """Get the row that comes soon into the cache, and of a later one where it begins."""
    i = np.uint64(soon)
    start, stop, _ = row(dense, indptr, width, i)
    for k in range(start, min(stop, start + np.uint64(64)), np.uint64(8)):
        prefetch(values, k)
        if not dense:
            prefetch(columns, k)
    prefetch(flat_terms, i * np.uint64(N_TERMS))
    prefetch(a, i)
    if not dense:
        prefetch(indptr, np.uint64(later))


@njit(
    cache=True, nogil=True, fastmath={"reassoc", "contract"}, forceinline=True
)  # sums in any order, so that they need not wait for each other
def product(values, columns, start, stop, offset, constant, v):
    """``<v, x>``."""
    score = constant * v[np.uint64(v.size - 1)]
    for k in range(start, stop):
        score += np.float64(values[k]) * v[np.uint64(columns[k - offset])]
    return score


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _soft_product(values, columns, start, stop, offset, constant, v, threshold):
    """``<soft(v, threshold), x>``."""
    last = v[np.uint64(v.size - 1)]
    score = constant * (last - min(max(last, -threshold), threshold))
    for k in range(start, stop):
        at = v[np.uint64(columns[k - offset])]
        score += np.float64(values[k]) * (at - min(max(at, -threshold), threshold))
    return score


@njit(cache=True, nogil=True, forceinline=True)
def add_row(values, columns, start, stop, offset, constant, change, v):
    """``v += change x``."""
    v[np.uint64(v.size - 1)] += change * constant
    for k in range(start, stop):
        v[np.uint64(columns[k - offset])] += change * values[k]


@njit(cache=True, nogil=True)
def _entropic(score, old, low, high, curvature):
    """(derivative, new a) of the logistic loss: ``t = logit(a / cap)`` solves ``cap h (sigmoid(t) - old) + s + t = 0``.

    The left side rises at least as fast as t, which brackets its zero; Newton steps, bisection where they leave it.
    """
    sign, cap = (1.0, high) if high > 0.0 else (-1.0, -low)
    if cap <= 0.0:
        return 0.0, old
    share = min(max(sign * old / cap, 1e-300), 1.0 - 1e-16)
    t = math.log(share / (1.0 - share))
    steep, residual = cap * curvature, sign * score + t
    first, lower, upper = residual, t - max(residual, 0.0), t - min(residual, 0.0)
    for _ in range(50):
        sigmoid = 1.0 / (1.0 + math.exp(-t))
        residual = steep * (sigmoid - share) + sign * score + t
        if residual > 0.0:
            upper = t
        else:
            lower = t
        if abs(residual) <= 1e-3 * abs(first) or upper - lower <= 1e-15 * abs(t):
            break
        t -= residual / (1.0 + steep * sigmoid * (1.0 - sigmoid))
        if not lower < t < upper:
            t = 0.5 * (lower + upper)
    return sign * first, sign * cap / (1.0 + math.exp(-t))


@njit(cache=True, nogil=True)
def squared_norms(dense, indptr, columns, values, constant, out):
    """``out_i = |x_i|^2``."""
    width = np.uint64(columns.size)
    for i in range(out.size):
        start, stop, _ = row(dense, indptr, width, np.uint64(i))
        total = constant * constant
        for k in range(start, stop):
            total += np.float64(values[k]) ** 2
        out[i] = total


@njit(cache=True, nogil=True)
def shuffle(order, count, seed):
    """Permute ``order[:count]``, by a seed."""
    permute(order, count, np.uint64(2 * seed + 1) * np.uint64(0x9E3779B97F4A7C15))
