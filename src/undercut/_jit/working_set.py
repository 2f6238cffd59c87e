"""Coordinate descent on a few columns of X: extraction of columns, epochs on a quadratic model, Gram matrices."""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit
from undercut._jit.prefetch import prefetch

AHEAD = 4  # a column is fetched into the cache so many columns before its turn
ROUNDED = 1e-14  # share of a second derivative that is put down to rounding
OVER = 1.4  # length of a step of coordinate descent, in steps to the minimizer: below 2 each decreases the objective


@njit(cache=True, nogil=True)
def column_squares(indptr, indices, data, weight, out):
    """``out_j = sum_i weight_i x_ij^2``."""
    out[:] = 0.0
    for i in range(np.uint64(weight.size)):
        if weight[i] == 0.0:  # 0 * x^2 is NaN if the square overflows
            continue
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])):
            value = np.float64(data[k])
            out[np.uint64(indices[k])] += weight[i] * value * value


@njit(cache=True, nogil=True)
def dense_column_squares(X, weight, out):
    """Add ``sum_i weight_i x_ij^2`` to ``out_j``."""
    for i in range(weight.size):
        if weight[i] != 0.0:  # 0 * x^2 is NaN if the square overflows
            for j in range(out.size):
                out[j] += weight[i] * X[i, j] * X[i, j]


@njit(cache=True, nogil=True)
def take_columns(indptr, indices, data, slot, starts, columns, values):
    """Copy the entries of columns with a slot row by row; ``starts``, all 0, becomes where the rows start."""
    to = np.uint64(0)
    for i in range(np.uint64(indptr.size - 1)):
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])):
            at = slot[np.uint64(indices[k])]
            columns[to] = at  # overwritten where the column is not wanted: a branch would be slower
            values[to] = data[k]
            to += np.uint64(at >= 0)
        starts[i + np.uint64(1)] = to


@njit(cache=True, nogil=True)
def copy_columns(starts, rows, values, columns, places, to_starts, to_rows, to_values):
    """Copy columns to the given places of others, of which ``to_starts`` tells where they start."""
    for m in range(columns.size):
        to = np.uint64(to_starts[places[m]])
        for k in range(np.uint64(starts[columns[m]]), np.uint64(starts[columns[m] + 1])):
            to_rows[to] = rows[k]
            to_values[to] = values[k]
            to += np.uint64(1)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def dots(starts, rows, values, active, g, out):
    """``out_m = <x_j, g>`` for the columns ``j = active_m``."""
    for m in range(active.size):
        j = active[m]
        total = 0.0
        for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
            total += values[k] * g[np.uint64(rows[k])]
        out[m] = total


@njit(cache=True, nogil=True)
def bends(starts, rows, values, d, out):
    """``out_j = sum_i d_i x_ij^2``."""
    for j in range(out.size):
        total = 0.0
        for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
            total += values[k] * d[np.uint64(rows[k])] * values[k]  # in this order 0 * x^2 is 0
        out[j] = total


@njit(cache=True, nogil=True)
def add_scores(starts, rows, values, active, w, out):
    """Add ``sum_m w_m x_j`` over the columns ``j = active_m`` to ``out``."""
    for m in range(active.size):
        j = active[m]
        for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
            out[np.uint64(rows[k])] += values[k] * w[m]


@njit(cache=True, inline="always")
def minimizer(w, gradient, bend, l1, l2):
    """The minimizer of ``gradient (v - w) + bend/2 (v - w)^2 + l1 |v| + l2/2 v^2``."""
    total = bend + l2
    if total <= 0.0:
        return 0.0 if abs(gradient) <= l1 else w
    force = bend * w - gradient
    if force > l1:
        return (force - l1) / total
    if force < -l1:
        return (force + l1) / total
    return 0.0


@njit(cache=True, inline="always")
def _relaxed(w, best):
    """A longer step than to the minimizer, unless one of both is zero or it would change the sign."""
    further = w + OVER * (best - w)
    return further if w * best > 0.0 and further * best > 0.0 else best


@njit(cache=True, nogil=True)
def _fetch(starts, rows, values, soon, later):
    """Get the column that comes soon into the cache, and of a later one where it begins."""
    start, stop = np.uint64(starts[soon]), np.uint64(starts[soon + 1])
    for k in range(start, min(stop, start + np.uint64(64)), np.uint64(8)):
        prefetch(values, k)
        prefetch(rows, k)
    prefetch(starts, np.uint64(later))


@njit(cache=True, inline="always")
def centered(bend, mean, unit):
    """The second derivative in a parameter where the intercept is the best for every value of it; 0 if constant."""
    own = bend - unit * mean * mean
    return own if own > ROUNDED * bend else 0.0


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def descend(starts, rows, values, d, z, gradient, bend, l1, l2, means, unit, w, active):
    """An epoch over the active parameters on ``<u, z> + 1/2 z' D z + reg(w)`` with ``z = X (w - w0) + b``.

    ``gradient``: ``X' u``; ``bend``: the diagonal of ``X' D X``; z and w are overwritten.  Returns the largest
    violation that was met.  A free b is the best for every parameter in turn, but is not added to z: ``means``:
    ``X' D 1``; ``unit``: ``1 / sum_i d_i``, or 0 where b is fixed.
    """
    violation, shift = 0.0, 0.0
    for m in range(active.size):
        if m + 2 * AHEAD < active.size:
            _fetch(starts, rows, values, active[m + AHEAD], active[m + 2 * AHEAD])
        j = active[m]
        slope = shift * means[j]
        for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
            i = np.uint64(rows[k])
            slope += values[k] * d[i] * z[i]
        own = centered(bend[j], means[j], unit)
        best = minimizer(w[j], gradient[j] + slope, own, l1, l2)
        violation = max(violation, abs(best - w[j]) * (own + l2))
        best = _relaxed(w[j], best)
        delta = best - w[j]
        if delta != 0.0:
            w[j] = best
            shift -= unit * means[j] * delta
            for k in range(np.uint64(starts[j]), np.uint64(starts[j + 1])):
                z[np.uint64(rows[k])] += values[k] * delta
    return violation


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def descend_dense(XT, d, z, gradient, bend, l1, l2, means, unit, w, active):
    """The same for dense columns, which are the rows of ``XT``."""
    violation, shift = 0.0, 0.0
    for j in active:
        x = XT[j]
        slope = shift * means[j]
        for i in range(z.size):
            slope += x[i] * d[i] * z[i]
        own = centered(bend[j], means[j], unit)
        best = minimizer(w[j], gradient[j] + slope, own, l1, l2)
        violation = max(violation, abs(best - w[j]) * (own + l2))
        best = _relaxed(w[j], best)
        delta = best - w[j]
        if delta != 0.0:
            w[j] = best
            shift -= unit * means[j] * delta
            for i in range(z.size):
                z[i] += x[i] * delta
    return violation


@njit(cache=True, nogil=True)
def descend_gram(H, gradient, l1, l2, w, n_epochs, tol):
    """Epochs on ``<gradient, v - w> + 1/2 (v - w)' H (v - w) + reg(v)``; w and its gradient are overwritten.

    Ends after ``n_epochs``, or when the largest violation of an epoch, which it returns, is at most ``tol``.
    """
    violation = 0.0
    for _ in range(n_epochs):
        violation = 0.0
        for j in range(w.size):
            best = minimizer(w[j], gradient[j], H[j, j], l1, l2)
            delta = best - w[j]
            if delta != 0.0:
                violation = max(violation, abs(delta) * (H[j, j] + l2))
                w[j] = best
                row = H[j]
                for m in range(w.size):
                    gradient[m] += row[m] * delta
        if violation <= tol:
            break
    return violation
