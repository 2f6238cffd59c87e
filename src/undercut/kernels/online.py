"""One compiled pass of projected subgradient steps (Do, Le, Foo 2009, Alg. 1-3) over rows of X.

The iterate is ``w = scale * v``: shrinking it, projecting it on a ball and keeping its norm cost O(1), a subgradient of
a sparse row O(nonzeros).  The sum of iterates is ``weight_v * v + u``, which the same updates keep.
How a row is found is told in ``undercut.data.design.Rows``.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from undercut.kernels.pointwise import slope as loss_slope

PEGASOS, ADAPTIVE, PROXIMAL, FIXED = range(4)  # how tau_t is chosen

SCALE, NORM2, T, TAU_SUM, R, G, WEIGHT_V, N_SUMMED, PHASES, DONE = range(10)  # the entries of ``state``
N_STATE = 10


@njit(cache=True)
def run_pass(
    dense, indptr, columns, values, constant, y, weight, order, batch, kind, setting,
    method, lam, radius, tau_one, growing, opening, epsilon, length_cap, length_per_r2, averaging, v, u, state,
):  # fmt: skip
    """Steps t+1, t+2, ... over mini-batches ``order[0:batch], order[batch:2*batch], ...``; updates v, u and state."""
    # Plain variables stay in registers; the entries of ``state`` would go through memory at every step.
    scale, norm2, t, tau_sum, r = state[SCALE], state[NORM2], state[T], state[TAU_SUM], state[R]
    g, weight_v, n_summed = state[G], state[WEIGHT_V], state[N_SUMMED]
    slopes = np.empty(batch)
    for first in range(0, order.size, batch):
        rows = order[first : first + batch]

        # 1. A subgradient of the mini-batch's loss: its slopes at the current iterate, and a bound on its norm.
        bound, score, size2 = _find_slopes(
            dense, indptr, columns, values, constant, y, weight, rows, kind, setting, v, scale, slopes
        )
        g = max(g, bound + lam * math.sqrt(norm2))

        # 2. The step size, and the pull of the regularizer.
        t += 1.0
        tau, step_size, shrink = step_sizes(method, lam, t, tau_sum, r, g, tau_one)
        tau_sum += tau
        scale *= shrink
        norm2 *= shrink * shrink
        if abs(scale) < 1e-100 or abs(scale) > 1e100:  # before it under- or overflows
            u += weight_v * v
            v *= scale
            score *= scale
            scale, weight_v = 1.0, 0.0

        # 3. The step, row by row, with the norm of w kept.
        kept = weight_v if averaging else 0.0
        norm2 = _add_rows(
            dense, indptr, columns, values, constant, rows, slopes, -step_size, score, size2, v, u, scale, kept, norm2
        )

        # 4. Projection on the ball, the running sum, and a new phase where the norm has come close to R.
        if norm2 > radius * radius:
            scale *= radius / math.sqrt(norm2)
            norm2 = radius * radius
        if averaging:
            weight_v += scale
            n_summed += 1.0
        if growing:
            if is_close(norm2, r, epsilon, lam):
                r, t, tau_sum = next_phase(r, t, tau_sum, g, opening)
                state[PHASES] += 1.0
                if averaging:
                    u[:] = 0.0
                    weight_v, n_summed = 0.0, 0.0
            elif t >= min(length_cap, length_per_r2 * r * r):
                state[DONE] = 1.0
                break
    state[SCALE], state[NORM2], state[T], state[TAU_SUM], state[R] = scale, norm2, t, tau_sum, r
    state[G], state[WEIGHT_V], state[N_SUMMED] = g, weight_v, n_summed


@njit(cache=True)
def _find_slopes(dense, indptr, columns, values, constant, y, weight, rows, kind, setting, v, scale, slopes):
    """Fill ``slopes`` of the mini-batch's mean loss; (bound on its subgradient, <v, x> and |x|^2 of the last row)."""
    width, last = np.uint64(columns.size), np.uint64(v.size - 1)
    bound, score, size2 = 0.0, 0.0, 0.0
    for m in range(rows.size):
        i = np.uint64(rows[m])
        start = i * width if dense else np.uint64(indptr[i])
        stop = start + width if dense else np.uint64(indptr[i + np.uint64(1)])
        offset = start if dense else np.uint64(0)
        score, size2 = constant * v[last], constant * constant
        for k in range(start, stop):
            x = values[k]
            score += x * v[np.uint64(columns[k - offset])]
            size2 += x * x
        slopes[m] = weight[i] / rows.size * loss_slope(kind, setting, y[i], scale * score)
        bound += abs(slopes[m]) * math.sqrt(size2)
    return bound, score, size2


@njit(cache=True)
def _add_rows(
    dense, indptr, columns, values, constant, rows, slopes, factor, score, size2, v, u, scale, weight_v, norm2
):  # fmt: skip
    """``w <- w + factor * slope_i x_i`` for the rows; the new ``|w|^2``.  The sum of iterates stays what it was."""
    width, last = np.uint64(columns.size), np.uint64(v.size - 1)
    for m in range(rows.size):
        if slopes[m] == 0.0:
            continue
        i = np.uint64(rows[m])
        start = i * width if dense else np.uint64(indptr[i])
        stop = start + width if dense else np.uint64(indptr[i + np.uint64(1)])
        offset = start if dense else np.uint64(0)
        if rows.size > 1:  # w has moved since the score was taken
            score, size2 = constant * v[last], constant * constant
            for k in range(start, stop):
                score += values[k] * v[np.uint64(columns[k - offset])]
                size2 += values[k] * values[k]
        change = factor * slopes[m]
        norm2 = max(0.0, norm2 + change * (2.0 * scale * score + change * size2))
        change /= scale
        for k in range(start, stop):
            v[np.uint64(columns[k - offset])] += change * values[k]
        v[last] += change * constant
        if weight_v != 0.0:
            for k in range(start, stop):
                u[np.uint64(columns[k - offset])] -= weight_v * change * values[k]
            u[last] -= weight_v * change * constant
    return norm2


@njit(cache=True)
def step_sizes(method, lam, t, tau_sum, r, g, tau_one):
    """Round t's (tau_t, step size, factor by which w shrinks)."""
    before = lam * t + tau_sum
    tau = 0.0
    if method == PROXIMAL:  # 2 tau R^2 = G^2 / (2 (lambda_{1:t} + tau_{1:t}))
        tau = 0.5 * (math.sqrt(before * before + (g / r) ** 2) - before)
    elif method == ADAPTIVE:  # 3 tau R^2 = 2 G^2 / (lambda_{1:t} + tau_{1:t})
        tau = 0.5 * (math.sqrt(before * before + 8.0 / 3.0 * (g / r) ** 2) - before)
    elif method == FIXED and t == 1.0:
        tau = tau_one
    step_size = 1.0 / (before + tau)
    own = lam + tau if method == ADAPTIVE else lam  # Adaptive adds tau/2 |w|^2, whose gradient is not zero at w_t
    return tau, step_size, 1.0 - step_size * own


@njit(cache=True)
def next_phase(r, t, tau_sum, g, opening):
    """(R, t, tau_{1:t}) at the start of a phase: as printed with ``opening = 0``.

    There t and tau start from zero, and the first steps, 2 R long, throw w out of ball after ball.  Else t goes on, and
    the curvature is what a larger R would have gathered, but lets the first step go ``R / opening`` far.
    """
    r *= math.sqrt(2.0)
    if opening == 0.0:
        return r, 0.0, 0.0
    return r, t, min(tau_sum / math.sqrt(2.0), opening * g / r)


@njit(cache=True)
def is_close(norm2, r, epsilon, lam):
    """Whether ``|w| >= R - sqrt(2 epsilon / lam)``: then R was too small a guess (Alg. 3)."""
    return math.sqrt(norm2) >= r - math.sqrt(2.0 * epsilon / lam)


@njit(cache=True)
def largest_row(dense, indptr, columns, values, constant, weight):
    """``max_i weight_i |x_i|``."""
    largest = 0.0
    for i in range(weight.size):
        start = i * columns.size if dense else indptr[i]
        stop = start + columns.size if dense else indptr[i + 1]
        size2 = constant * constant
        for k in range(start, stop):
            size2 += values[k] * values[k]
        largest = max(largest, weight[i] * math.sqrt(size2))
    return largest
