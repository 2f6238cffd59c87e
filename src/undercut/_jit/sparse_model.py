"""Quadratic models of sparse columns in one call: cyclic coordinate descent, extrapolation, and the gap.

    min_w  <gradient, w - w0> + total b + 1/2 |q|^2 + l1 |w|_1 + l2/2 |w|^2,      q = sqrt(D) (X (w - w0) + b)

with ``gradient = X' u`` and ``total = sum_i u_i``.  The columns are scaled by ``sqrt(D)``, so that a visit gathers from
one array.  Visits in a fixed order make a linear recursion once the signs have settled, of which a few iterates tell
the limit (Anderson 1965; Bertrand and Massias 2021).

``columns``: ``starts, rows, values, bends, means``, the scaled columns, their squares and ``X' D 1``; ``unit``:
``1 / sum_i d_i``, or 0 where b is fixed.
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.compile import INNER_ONLY, njit
from undercut._jit.working_set import centered, minimizer

EPOCHS = 5  # before an extrapolation
RIDGE = 1e-12  # of its equations, relative to their trace
SLOW = 0.5  # share of the last decrease of the model: if there is more, so are epochs
LEAST_DECREASE = 1e-14  # relative to the model; smaller ones are rounding


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def scale(starts, rows, values, root, scaled, bends, means):
    """Fill ``scaled`` with the columns times ``root``, and what ``columns`` say of them."""
    for j in range(bends.size):
        square, mean = 0.0, 0.0
        for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
            own = root[np.uint64(rows[k])]
            value = values[k] * own
            scaled[k] = value
            square += value * value
            mean += value * own
        bends[j], means[j] = square, mean


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, **INNER_ONLY)
def _recenter(q, root, total, unit):
    """Move the intercept to the minimum; by how much."""
    moved = total
    for i in range(q.size):
        moved += root[i] * q[i]
    moved *= -unit
    for i in range(q.size):
        q[i] += moved * root[i]
    return moved


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, **INNER_ONLY)
def _epoch(columns, gradient, unit, l1, l2, w, q, active, n_active):
    """Minimize over one active parameter after the other, the intercept being the best for every value of it."""
    starts, rows, values, bends, means = columns
    shift = 0.0
    for m in range(n_active):
        j = active[m]
        start, stop = np.uint64(starts[j]), np.uint64(starts[j + 1])
        slope = gradient[j] + shift * means[j]
        for k in range(start, stop):
            slope += values[k] * q[np.uint64(rows[k])]
        delta = minimizer(w[j], slope, centered(bends[j], means[j], unit), l1, l2) - w[j]
        if delta != 0.0:
            w[j] += delta
            shift -= unit * means[j] * delta
            for k in range(start, stop):
                q[np.uint64(rows[k])] += values[k] * delta


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, **INNER_ONLY)
def _fill_slopes(columns, gradient, q, alive, n_alive, slopes):
    """The gradient without the penalty, of parameters that may be other than zero."""
    starts, rows, values = columns[:3]
    for m in range(n_alive):
        j = alive[m]
        slope = gradient[j]
        for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
            slope += values[k] * q[np.uint64(rows[k])]
        slopes[j] = slope


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, **INNER_ONLY)
def _terms(gradient, total, l1, l2, start, w, q, b):
    """The linear term of the model, ``|q|^2``, and the penalty."""
    linear, square, penalty = total * b, 0.0, 0.0
    for j in range(w.size):
        linear += gradient[j] * (w[j] - start[j])
        penalty += l1 * abs(w[j]) + 0.5 * l2 * w[j] * w[j]
    for i in range(q.size):
        square += q[i] * q[i]
    return linear, square, penalty


@njit(cache=True, nogil=True, **INNER_ONLY)
def _bound(slopes, start, linear, square, size, l1, l2, alive, n_alive):
    """What the slopes ``u + D z`` prove, and their share that is within the limits; 1 with squares in the penalty.

    ``size``: ``sum_i u_i^2 / d_i``.
    """
    steepest, at, excess = 0.0, 0.0, 0.0
    for m in range(n_alive):
        j = alive[m]
        own = abs(slopes[j])
        steepest = max(steepest, own)
        at += slopes[j] * start[j]
        excess += max(own - l1, 0.0) ** 2
    if l2 > 0.0:
        return -0.5 * square - at - 0.5 * excess / l2, 1.0
    share = l1 / steepest if steepest > l1 else 1.0
    less = share - 1.0
    return -0.5 * (less * less * size + 2.0 * share * less * linear + share * share * square) - share * at, share


@njit(cache=True, nogil=True, **INNER_ONLY)
def _screen(bends, slopes, start, w, share, radius, l1, alive, n_alive):
    """Leave out parameters that are zero at every minimum, because the best dual point is within ``radius``."""
    count = 0
    for m in range(n_alive):
        j = alive[m]
        alive[count] = j
        steepest = (share * abs(slopes[j]) + radius * math.sqrt(bends[j])) * (1.0 + 1e-9)
        count += w[j] != 0.0 or start[j] != 0.0 or not steepest < l1
    return count


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, **INNER_ONLY)
def _shares(history, active, n_active):
    """Weights of the last iterates, which sum to 1: those with the least sum of their changes."""
    n = history.shape[0] - 1
    G, shares = np.zeros((n, n)), np.ones(n)
    trace = 0.0
    for a in range(n):
        for c in range(a + 1):
            total = 0.0
            for m in range(n_active):
                j = active[m]
                total += (history[a + 1, j] - history[a, j]) * (history[c + 1, j] - history[c, j])
            G[a, c] = G[c, a] = total
        trace += G[a, a]
    for a in range(n):
        G[a, a] += RIDGE * trace
    for a in range(n):  # of a positive definite matrix no pivots need to be searched
        for c in range(a + 1, n):
            share = G[c, a] / G[a, a] if G[a, a] > 0.0 else 0.0
            shares[c] -= share * shares[a]
            for e in range(a, n):
                G[c, e] -= share * G[a, e]
    total = 0.0
    for a in range(n - 1, -1, -1):
        for e in range(a + 1, n):
            shares[a] -= G[a, e] * shares[e]
        shares[a] = shares[a] / G[a, a] if G[a, a] > 0.0 else 0.0
        total += shares[a]
    for a in range(n):
        shares[a] = shares[a] / total if total != 0.0 else 0.0
    return shares


@njit(cache=True, nogil=True, **INNER_ONLY)
def _extrapolate(columns, history, active, n_active, w, q):
    """Overwrite w with the limit that its last values tell, where that has the same signs, and q with its."""
    starts, rows, values = columns[:3]
    shares = _shares(history, active, n_active)
    for m in range(n_active):
        j = active[m]
        limit = 0.0
        for a in range(shares.size):
            limit += shares[a] * history[a + 1, j]
        delta = (limit if limit * w[j] > 0.0 else 0.0) - w[j]
        if delta != 0.0:
            w[j] += delta
            for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
                q[np.uint64(rows[k])] += values[k] * delta


@njit(cache=True, nogil=True)
def descend(columns, root, gradient, total, unit, size, l1, l2, start, share, base, n_rounds, w, q):
    """Minimize the model from q = 0 until its gap is at most ``share`` of ``base`` and its value; w is overwritten.

    Whether that is so, or may be after more rounds; not where the model decreases slowly.  There is one at least.
    """
    slopes, active, alive, n_alive = np.empty(w.size), np.empty(w.size, np.int64), np.arange(w.size), w.size
    history, before, last_w, last_q = np.empty((EPOCHS + 1, w.size)), np.inf, w.copy(), q.copy()
    b = _recenter(q, root, total, unit) if unit > 0.0 else 0.0
    linear, square, penalty = _terms(gradient, total, l1, l2, start, w, q, b)
    for done in range(n_rounds + 1):
        # 1. What the slopes prove: the end, or which parameters stay zero.
        value = linear + 0.5 * square + penalty
        _fill_slopes(columns, gradient, q, alive, n_alive, slopes)
        bound, inside = _bound(slopes, start, linear, square, size, l1, l2, alive, n_alive)
        gap = max(value - bound, 0.0)
        if done == n_rounds or (done and gap <= share * (base + value)):
            return True
        n_alive = _screen(columns[3], slopes, start, w, inside, math.sqrt(2.0 * gap), l1, alive, n_alive)

        # 2. Epochs over the parameters that are not zero or would not stay so.
        n_active = 0
        for m in range(n_alive):
            j = alive[m]
            active[n_active] = j
            n_active += w[j] != 0.0 or abs(slopes[j]) > l1
        history[0] = w
        for epoch in range(EPOCHS):
            _epoch(columns, gradient, unit, l1, l2, w, q, active, n_active)
            b += _recenter(q, root, total, unit) if unit > 0.0 else 0.0
            history[epoch + 1] = w
        linear, square, penalty = _terms(gradient, total, l1, l2, start, w, q, b)

        # 3. Their limit, if the model is smaller there.
        last_w[:], last_q[:] = w, q
        _extrapolate(columns, history, active, n_active, w, q)
        moved = _recenter(q, root, total, unit) if unit > 0.0 else 0.0
        terms = _terms(gradient, total, l1, l2, start, w, q, b + moved)
        if terms[0] + 0.5 * terms[1] + terms[2] < linear + 0.5 * square + penalty:
            (linear, square, penalty), b = terms, b + moved
        else:
            w[:], q[:] = last_w, last_q
        decrease = value - (linear + 0.5 * square + penalty)
        if decrease > SLOW * before or not decrease > LEAST_DECREASE * (base + value):
            return False
        before = decrease
