"""Coordinate descent on a few columns of X with a parameter for every class, for the softmax loss.

The model has the matrix ``D_i = weight_i (diag(p_i) - p_i p_i') + ridge_i I`` for sample i.
"""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit

SWEEPS = 3  # over the classes of a feature


@njit(cache=True, nogil=True)
def through(P, weight, ridge, Z, out):
    """``out_i = D_i z_i``."""
    for i in range(P.shape[0]):
        mean = 0.0
        for k in range(P.shape[1]):
            mean += P[i, k] * Z[i, k]
        for k in range(P.shape[1]):
            out[i, k] = weight[i] * P[i, k] * (Z[i, k] - mean) + ridge[i] * Z[i, k]


@njit(cache=True, nogil=True)
def row_sizes(A, out):
    """The largest ``|a_jk|`` of every row j; NaN where an entry is."""
    for j in range(A.shape[0]):
        most = 0.0
        for k in range(A.shape[1]):
            own = abs(A[j, k])
            if own > most or own != own:
                most = own
                if own != own:
                    break
        out[j] = most


@njit(cache=True, nogil=True)
def dots(starts, rows, values, features, G, out):
    """``out_jk = sum_i x_ij g_ik`` for the features j."""
    for j in features:
        total = out[j]
        for e in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
            g = G[np.uint64(rows[e])]
            for k in range(g.size):
                total[k] += values[e] * g[k]


@njit(cache=True, nogil=True)
def add_scores(starts, rows, values, W, out):
    """Add ``sum_j x_ij w_jk`` to ``out_ik``."""
    for j in range(W.shape[0]):
        w = W[j]
        if w.any():
            for e in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
                scores = out[np.uint64(rows[e])]
                for k in range(w.size):
                    scores[k] += values[e] * w[k]


@njit(cache=True, nogil=True)
def bends(starts, rows, values, P, weight, ridge, out):
    """``out_jk = sum_i weight_i p_ik x_ij^2``, and in the last columns the sums of ``weight x^2`` and ``ridge x^2``."""
    n_classes = P.shape[1]
    for j in range(out.shape[0]):
        total = out[j]
        for e in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
            i = np.uint64(rows[e])
            square = values[e] * weight[i] * values[e]  # in this order 0 * x^2 is 0
            for k in range(n_classes):
                total[k] += square * P[i, k]
            total[n_classes] += square
            total[n_classes + 1] += values[e] * ridge[i] * values[e]


@njit(cache=True, nogil=True)
def descend(starts, rows, values, P, weight, ridge, Z, gradient, bend, l1, l2, W, features):
    """An epoch over the features on ``<U, Z> + 1/2 sum_i z_i' D_i z_i + reg(W)`` with ``Z = X (W - W0) + b``.

    ``gradient``: ``X' U``; ``bend``: what ``bends`` returns.  Each feature is moved to the minimum of an upper model
    with the matrix ``diag(a + ridge) - a a' / total``, a being the first columns of ``bend``.  Z and W are overwritten.
    Returns the largest violation that was met.
    """
    n_classes = P.shape[1]
    means = np.empty(P.shape[0])  # <p_i, z_i>
    for i in range(P.shape[0]):
        mean = 0.0
        for k in range(n_classes):
            mean += P[i, k] * Z[i, k]
        means[i] = mean
    slopes, change = np.empty(n_classes), np.empty(n_classes)
    violation = 0.0
    for j in features:
        slopes[:] = gradient[j]
        for e in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
            i = np.uint64(rows[e])
            own, extra = values[e] * weight[i], values[e] * ridge[i]
            for k in range(n_classes):
                slopes[k] += own * P[i, k] * (Z[i, k] - means[i]) + extra * Z[i, k]
        violation = max(violation, _move(slopes, bend[j], l1, l2, W[j], change))
        if change.any():
            for e in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
                i = np.uint64(rows[e])
                mean = 0.0
                for k in range(n_classes):
                    Z[i, k] += values[e] * change[k]
                    mean += P[i, k] * change[k]
                means[i] += values[e] * mean
    return violation


@njit(cache=True, nogil=True)
def violation_at(slope, w, l1, l2):
    """How far 0 is from the subgradients of one parameter."""
    return abs(slope + l2 * w + l1 * np.sign(w)) if w != 0.0 else abs(slope) - l1


@njit(cache=True, nogil=True)
def best_at(slope, w, curvature, l1, l2):
    """Where the parabola with this slope at w, and the penalty, are smallest."""
    if w == 0.0 and abs(slope) <= l1:  # most of them: it stays zero
        return 0.0
    if curvature + l2 > 0.0:
        force = curvature * w - slope
        return np.sign(force) * max(abs(force) - l1, 0.0) / (curvature + l2)
    return 0.0 if abs(slope) <= l1 else w


@njit(cache=True, nogil=True)
def _move(slopes, bend, l1, l2, w, change):
    """Coordinate descent over the classes of one feature; w is overwritten.  Returns the violation at its start."""
    n_classes = w.size
    total, ridge = bend[n_classes], bend[n_classes + 1]
    change[:] = 0.0
    violation, joint = 0.0, 0.0  # joint: <a, change>
    for sweep in range(SWEEPS):
        moves = False
        for k in range(n_classes):
            a = bend[k]
            slope = slopes[k] + (a + ridge) * change[k]
            if joint != 0.0 and total > 0.0:
                slope -= a * joint / total
            if sweep == 0:
                violation = max(violation, violation_at(slopes[k], w[k], l1, l2))
            if w[k] == 0.0 and abs(slope) <= l1:  # most of them: it stays zero
                continue
            best = best_at(slope, w[k], a + ridge - (a * a / total if total > 0.0 else 0.0), l1, l2)
            delta = best - w[k]
            moves |= delta != 0.0
            change[k] += delta
            joint += a * delta
            w[k] = best
        if not moves:
            break
    return violation
