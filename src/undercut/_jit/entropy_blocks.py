"""Sweeps of dual coordinate descent for the softmax loss: the probabilities of one sample at a time (Yu et al. 2011).

``A[i, k] = cap_i ([k = y_i] - q_k)`` with ``q >= 0`` and ``sum_k q_k = 1``, and ``V = X' A`` holds the weights of all
classes, one row per feature.  With the scores ``s_k = b_k + <V[:, k], x_i>`` and ``c = cap_i |x_i|^2``, q maximizes

    -sum_k q_k log q_k + <s, q> - c/2 |q - last q|^2,      so that      log q_k + c q_k = s_k + c last q_k - level

for the one level at which q sums to one.  The sum is convex and falling in the level: after one Newton step the level
is too low, and rises from there.
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.compile import njit
from undercut._jit.dual_coordinate import ROW_COST
from undercut._jit.rows import row

TINY = 1e-300  # stands for c where it is zero, and for a probability in a logarithm
MAX_STEPS = 30
ACCURACY = 1e-3  # share of the change of the probabilities by which their sum may be off


@njit(cache=True, nogil=True)
def sweep_entropies(
    dense, indptr, columns, values, constant, squares, y, b, cap, order, begin, active, budget, A, V
):  # fmt: skip
    """Visit ``order[begin:active]`` until the work exceeds ``budget``; updates A and V.  ``b`` is added to all scores.

    Returns (position, largest change of a probability, work).
    """
    width, n_classes = np.uint64(columns.size), V.shape[1]
    s, q, moved = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    most, work, at = 0.0, 0, begin
    while at < active and work < budget:
        i = np.uint64(order[at])
        at += 1
        start, stop, offset = row(dense, indptr, width, i)
        work += (ROW_COST + np.int64(stop - start)) * n_classes
        if cap[i] <= 0.0:
            continue
        for k in range(n_classes):
            s[k] = b[k] + constant * V[V.shape[0] - 1, k]
            q[k] = max(0.0, -A[i, k] / cap[i] + (k == y[i]))
        _add_scores(values, columns, start, stop, offset, V, s)
        change = _balance(s, q, max(TINY, cap[i] * squares[i]), moved)
        most = max(most, change)
        if change > 0.0:
            for k in range(n_classes):
                moved[k] *= cap[i]
                A[i, k] -= moved[k]
            _subtract_row(values, columns, start, stop, offset, constant, moved, V)
    return at, most, work


@njit(cache=True, nogil=True)
def _add_scores(values, columns, start, stop, offset, V, s):
    """``s_k += <V[:, k], x>``."""
    one, step, j = np.uint64(1), np.uint64(4), start  # s is read and written once for four entries of x
    while j + step <= stop:
        at = j - offset
        x0, x1 = np.float64(values[j]), np.float64(values[j + one])
        x2, x3 = np.float64(values[j + np.uint64(2)]), np.float64(values[j + np.uint64(3)])
        v0, v1 = V[np.uint64(columns[at])], V[np.uint64(columns[at + one])]
        v2, v3 = V[np.uint64(columns[at + np.uint64(2)])], V[np.uint64(columns[at + np.uint64(3)])]
        for k in range(s.size):
            s[k] += x0 * v0[k] + x1 * v1[k] + x2 * v2[k] + x3 * v3[k]
        j += step
    for e in range(j, stop):
        x, v = np.float64(values[e]), V[np.uint64(columns[e - offset])]
        for k in range(s.size):
            s[k] += x * v[k]


@njit(cache=True, nogil=True)
def _subtract_row(values, columns, start, stop, offset, constant, moved, V):
    """``V[:, k] -= moved_k x``."""
    for k in range(moved.size):
        V[V.shape[0] - 1, k] -= moved[k] * constant
    for e in range(start, stop):
        x, v = np.float64(values[e]), V[np.uint64(columns[e - offset])]
        for k in range(moved.size):
            v[k] -= moved[k] * x


@njit(cache=True, nogil=True)
def _balance(s, q, c, moved):
    """``moved``: the optimal probabilities minus q.  Returns its largest entry; overwrites s."""
    level, top, shift = 0.0, -math.inf, math.log(c)
    for k in range(q.size):
        level += q[k] * (s[k] - math.log(max(q[k], TINY)))
        s[k] += c * q[k]
        top = max(top, s[k])
    level = max(level, top - c)  # at top - c the largest probability is 1
    change, total = 0.0, 1.0
    for _ in range(MAX_STEPS):
        total, slope, change = 0.0, 0.0, 0.0
        for k in range(q.size):
            omega = _omega(s[k] - level + shift)
            moved[k] = omega / c
            total += moved[k]
            slope += moved[k] / (1.0 + omega)
            change = max(change, abs(moved[k] - q[k]))
        if abs(total - 1.0) <= ACCURACY * change or slope <= 0.0:
            break
        level = max(level + (total - 1.0) / slope, top - c)
    change = 0.0
    for k in range(q.size):
        moved[k] = moved[k] / total - q[k]
        change = max(change, abs(moved[k]))
    return change


@njit(cache=True, nogil=True)
def _omega(x):
    """The omega with ``omega + log(omega) = x`` (Wright), to some ten digits, by Fritsch, Shafer and Crowley's step."""
    if x < -30.0:
        return math.exp(x)
    if x < 1.0:
        omega = math.exp(x)
        omega /= 1.0 + omega / (1.0 + 0.5 * omega)
    else:
        omega = x - math.log(x)
    for _ in range(2):
        rest, one = x - omega - math.log(omega), 1.0 + omega
        both = 2.0 * one * (one + 2.0 / 3.0 * rest)
        omega *= 1.0 + rest / one * (both - rest) / (both - 2.0 * rest)
    return omega
