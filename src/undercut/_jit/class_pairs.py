"""Coordinate descent on pairs of a feature j and a class k, for the softmax loss.

Matrices with a row per sample are stored column by column: a visit of a pair reads one column, which fits in the cache.
``columns`` and ``classes`` hold j and k of every pair.  For sample i the model has the matrix
``D_i = weight_i (diag(p_i) - p_i p_i') + ridge_i I``.
"""

from __future__ import annotations

import numpy as np

from undercut._jit.class_working_set import best_at, violation_at
from undercut._jit.compile import njit


@njit(cache=True, nogil=True)
def through(P, weight, ridge, Z, out):
    """``out_i = D_i z_i``."""
    means = _means(P, Z)
    for k in range(P.shape[1]):
        for i in range(P.shape[0]):
            z = Z[i, k]
            out[i, k] = weight[i] * P[i, k] * (z - means[i]) + ridge[i] * z


@njit(cache=True, nogil=True)
def _means(P, Z):
    """``<p_i, z_i>``."""
    means = np.zeros(P.shape[0])
    for k in range(P.shape[1]):
        for i in range(P.shape[0]):
            means[i] += P[i, k] * Z[i, k]
    return means


@njit(cache=True, nogil=True)
def dots(starts, rows, values, columns, classes, active, G, out):
    """``out_a = sum_i x_ij g_ik`` for the active pairs."""
    for a in range(active.size):
        at = np.uint64(active[a])
        j, k, total = np.uint64(columns[at]), np.uint64(classes[at]), 0.0
        for e in range(np.uint64(starts[j]), np.uint64(starts[j + np.uint64(1)])):
            total += values[e] * G[np.uint64(rows[e]), k]
        out[a] = total


@njit(cache=True, nogil=True)
def add_scores(starts, rows, values, columns, classes, active, w, out):
    """Add ``x_ij w_a`` to ``out_ik`` for the active pairs."""
    for a in range(active.size):
        at = np.uint64(active[a])
        j, k = np.uint64(columns[at]), np.uint64(classes[at])
        for e in range(np.uint64(starts[j]), np.uint64(starts[j + np.uint64(1)])):
            out[np.uint64(rows[e]), k] += values[e] * w[a]


@njit(cache=True, nogil=True)
def bends(starts, rows, values, columns, classes, P, weight, ridge, out):
    """The diagonal of ``X' D X``: ``out_a = sum_i (weight_i p_ik (1 - p_ik) + ridge_i) x_ij^2``."""
    for a in range(columns.size):
        j, k, total = np.uint64(columns[a]), np.uint64(classes[a]), 0.0
        for e in range(np.uint64(starts[j]), np.uint64(starts[j + np.uint64(1)])):
            i = np.uint64(rows[e])
            p = P[i, k]
            total += values[e] * (weight[i] * p * max(1.0 - p, 0.0) + ridge[i]) * values[e]
        out[a] = total


@njit(cache=True, nogil=True)
def descend(starts, rows, values, columns, classes, P, weight, ridge, Z, gradient, bend, l1, l2, w, active):
    """An epoch over the active pairs on ``<U, Z> + 1/2 sum_i z_i' D_i z_i + reg(w)`` with ``Z = X (w - w0) + b``.

    ``gradient``: ``X' U``; ``bend``: what ``bends`` returns.  Z and w are overwritten.  Returns the largest violation
    that was met.
    """
    means = _means(P, Z)
    violation = 0.0
    for index in active:
        at = np.uint64(index)
        j, k = np.uint64(columns[at]), np.uint64(classes[at])
        start, stop, slope = np.uint64(starts[j]), np.uint64(starts[j + np.uint64(1)]), gradient[at]
        for e in range(start, stop):
            i = np.uint64(rows[e])
            z = Z[i, k]
            slope += values[e] * (weight[i] * P[i, k] * (z - means[i]) + ridge[i] * z)
        violation = max(violation, violation_at(slope, w[at], l1, l2))
        change = best_at(slope, w[at], bend[at], l1, l2) - w[at]
        if change != 0.0:
            w[at] += change
            for e in range(start, stop):
                i = np.uint64(rows[e])
                Z[i, k] += values[e] * change
                means[i] += values[e] * change * P[i, k]
    return violation
