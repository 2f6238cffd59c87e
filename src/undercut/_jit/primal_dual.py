"""Primal-dual steps on the saddle point problem of a piecewise-linear loss and an elastic net."""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def iterate(by_row, by_column, fixed, left, kinks, caps, l1, l2, tau, sigma, at, anchor, image, count, n_iterations):
    """Steps ``z <- (1 - b) (2 T(z) - z) + b anchor`` with ``b = 1 / (count + 2)``, where T is one primal-dual step.

    ``by_row`` and ``by_column`` hold X twice; ``at``, ``anchor`` and ``image`` are pairs (w, v), of which ``at`` and
    ``image``, the last ``T(z)``, are overwritten.  Returns the square of ``|T(z) - z|`` at the last z, in the norm in
    which T does not expand.
    """
    w, v = at
    to_w, to_v = image
    row_starts, columns, row_values = by_row
    column_starts, rows, column_values = by_column
    ahead = np.empty_like(w)
    for done in range(n_iterations):
        for j in range(w.size):
            slope = fixed[j]
            for k in range(np.uint64(column_starts[j]), np.uint64(column_starts[j + 1])):
                slope += column_values[k] * v[np.uint64(rows[k])]
            moved = w[j] - tau[j] * slope
            shrunk = max(abs(moved) - tau[j] * l1[j], 0.0) / (1.0 + tau[j] * l2[j])
            to_w[j] = shrunk if moved > 0.0 else -shrunk
            ahead[j] = 2.0 * to_w[j] - w[j]
        for i in range(v.size):
            score = 0.0
            for k in range(np.uint64(row_starts[i]), np.uint64(row_starts[i + 1])):
                score += row_values[k] * ahead[np.uint64(columns[k])]
            to_v[i] = _slope(v[i] + sigma[i] * score, sigma[i], left[i], kinks[:, i], caps[:, i])
        residual = _distance(by_row, tau, sigma, at, image) if done == n_iterations - 1 else 0.0
        share = 1.0 / (count + done + 2.0)
        for j in range(w.size):
            w[j] = (1.0 - share) * (2.0 * to_w[j] - w[j]) + share * anchor[0][j]
        for i in range(v.size):
            v[i] = (1.0 - share) * (2.0 * to_v[i] - v[i]) + share * anchor[1][i]
    return residual


@njit(cache=True, inline="always")
def _slope(moved, sigma, left, kinks, caps):
    """The minimizer of ``l*(u) + (u - moved)^2 / (2 sigma)``: a slope of the loss, between those beside a kink."""
    best, limit = left, left
    for k in range(kinks.size):
        limit += caps[k]
        best = max(best, min(moved - sigma * kinks[k], limit))
    return best


@njit(cache=True, nogil=True)
def _distance(by_row, tau, sigma, at, image):
    """``|dw|^2 / tau + |dv|^2 / sigma - 2 dv' X dw`` for the difference of two points."""
    row_starts, columns, row_values = by_row
    total = 0.0
    for j in range(tau.size):
        total += (image[0][j] - at[0][j]) ** 2 / tau[j]
    for i in range(sigma.size):
        change = image[1][i] - at[1][i]
        if change != 0.0:
            score = 0.0
            for k in range(np.uint64(row_starts[i]), np.uint64(row_starts[i + 1])):
                j = np.uint64(columns[k])
                score += row_values[k] * (image[0][j] - at[0][j])
            total += change * (change / sigma[i] - 2.0 * score)
    return max(total, 0.0)
