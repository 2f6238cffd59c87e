"""One compiled pass of projected subgradient steps (Do, Le, Foo 2009, Alg. 1-3) over rows of X.

The iterate is ``w = scale * v``: shrinking it, projecting it on a ball and keeping its norm cost O(1), a subgradient of
a sparse row O(nonzeros).  The sum of iterates is ``weight_v * v + u``, which the same updates keep.
``undercut.contracts.Rows`` describes the storage of a row.
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.compile import njit
from undercut._jit.permute import permute
from undercut._jit.pointwise import slope as loss_slope
from undercut._jit.prefetch import prefetch
from undercut._jit.rows import row

PEGASOS, ADAPTIVE, PROXIMAL, FIXED = range(4)  # how tau_t is chosen

SCALE, NORM2, T, TAU_SUM, R, G, WEIGHT_V, N_SUMMED, PHASES, DONE = range(10)  # the entries of ``state``
N_STATE = 10
AHEAD = 3  # a row is prefetched this many steps before its use
LARGE = 1_000_000  # entries of X from which on this pays: fewer stay in a cache
FETCHED = 64  # values of a row that are prefetched; the processor itself fetches what follows in sequence


@njit(cache=True, nogil=True)
def run_pass(
    dense, indptr, columns, values, constant, y, weight, order, batch, kind, setting,
    method, lam, learning, radius, tau_one, growing, opening, epsilon, length_cap, length_per_r2, averaging,
    v, u, state,
):  # fmt: skip
    """Steps t+1, t+2, ... over mini-batches ``order[0:batch], order[batch:2*batch], ...``; updates v, u and state.

    ``learning`` says that G is not known, and is the largest subgradient seen.  With ``growing`` a new phase starts
    where the norm has come close to R, and the pass ends where a phase has become long enough.
    """
    first, done = np.int64(0), False
    while first < order.size and not done:
        r = state[R]
        near2 = near_squared(r, epsilon, lam) if growing else math.inf
        longest = min(length_cap, length_per_r2 * r * r) if growing else math.inf
        first = _phase(
            dense, indptr, columns, values, constant, y, weight, order, first, batch, kind, setting,
            method, lam, learning, radius, tau_one, near2, longest, averaging, v, u, state,
        )  # fmt: skip
        if growing and state[NORM2] >= near2:
            state[R], state[T], state[TAU_SUM] = next_phase(
                r, state[T], state[TAU_SUM], state[G], opening, epsilon, lam, state[NORM2]
            )
            state[PHASES] += 1.0
            if averaging:
                u[:] = 0.0
                state[WEIGHT_V], state[N_SUMMED] = (state[SCALE], 1.0) if opening == 0.0 else (0.0, 0.0)
        elif growing and state[T] >= longest:
            state[DONE], done = 1.0, True


@njit(cache=True, nogil=True)
def _phase(
    dense, indptr, columns, values, constant, y, weight, order, first, batch, kind, setting,
    method, lam, learning, radius, tau_one, near2, longest, averaging, v, u, state,
):  # fmt: skip
    """Steps over ``order[first:]`` until ``|w|^2 >= near2`` or ``t >= longest``; returns where the next one begins.

    Plain variables stay in registers; the entries of ``state`` would go through memory at every step.
    """
    scale, norm2, t, tau_sum, r = state[SCALE], state[NORM2], state[T], state[TAU_SUM], state[R]
    g, weight_v, n_summed = state[G], state[WEIGHT_V], state[N_SUMMED]
    slopes, width, is_large = np.empty(batch), np.uint64(columns.size), values.size > LARGE
    steep = steepness(method, r, g)
    while first < order.size:
        count = min(batch, order.size - first)

        # 1. A subgradient of the mini-batch's loss: its slopes at the current iterate, and a bound on its norm.
        bound, score, size2 = 0.0, 0.0, 0.0
        for m in range(count):
            i = np.uint64(order[first + m])
            start, stop, offset = row(dense, indptr, width, i)
            score, size2 = _products(values, columns, start, stop, offset, constant, v)
            slopes[m] = weight[i] / count * loss_slope(kind, setting, y[i], scale * score)
            if learning:
                bound += abs(slopes[m]) * math.sqrt(size2)
        if learning and bound + lam * math.sqrt(norm2) > g:  # a branch: the step size need not wait for the norm
            g = bound + lam * math.sqrt(norm2)
            steep = steepness(method, r, g)

        if is_large:  # here rather than before the subgradient: measured
            _fetch(dense, indptr, columns, values, y, weight, width, order, first + AHEAD)

        # 2. The step size, and the pull of the regularizer.
        t += 1.0
        tau, step_size, shrink = step_sizes(method, lam, t, tau_sum, steep, tau_one)
        tau_sum += tau
        scale *= shrink
        norm2 *= shrink * shrink
        if abs(scale) < (1e-4 if averaging else 1e-100):  # before it underflows, or the sum of iterates loses digits
            _rescale(v, u, scale, weight_v)
            score *= scale
            scale, weight_v = 1.0, 0.0

        # 3. The step, row by row, with the norm of w kept; the sum of iterates does not change with v.
        for m in range(count):
            if slopes[m] == 0.0:
                continue
            start, stop, offset = row(dense, indptr, width, np.uint64(order[first + m]))
            if count > 1:  # w has moved since the score was taken
                score, size2 = _products(values, columns, start, stop, offset, constant, v)
            change = -step_size * slopes[m]
            norm2 = max(0.0, norm2 + change * (2.0 * scale * score + change * size2))
            change /= scale
            _add_row(values, columns, start, stop, offset, constant, change, v)
            if averaging and weight_v != 0.0:
                _add_row(values, columns, start, stop, offset, constant, -weight_v * change, u)

        # 4. Projection on the ball, and the running sum.
        if norm2 > radius * radius:
            scale, norm2 = scale * radius / math.sqrt(norm2), radius * radius
        if averaging:
            weight_v += scale
            n_summed += 1.0
        first += batch
        if norm2 >= near2 or t >= longest:
            break
    state[SCALE], state[NORM2], state[T], state[TAU_SUM] = scale, norm2, t, tau_sum
    state[G], state[WEIGHT_V], state[N_SUMMED] = g, weight_v, n_summed
    return first


@njit(cache=True, nogil=True)
def _rescale(v, u, scale, weight_v):
    """Make ``scale`` one and ``weight_v`` zero: w and ``weight_v * v + u`` stay as they are."""
    for j in range(v.size):
        if weight_v != 0.0:
            u[j] += weight_v * v[j]
        v[j] *= scale


@njit(cache=True, forceinline=True)
def _add_row(values, columns, start, stop, offset, constant, factor, v):
    """``v += factor * x``."""
    for k in range(start, stop):
        v[np.uint64(columns[k - offset])] += factor * values[k]
    v[np.uint64(v.size - 1)] += factor * constant


@njit(cache=True, nogil=True, forceinline=True)
def _fetch(dense, indptr, columns, values, y, weight, width, order, at):
    """Get the row ``order[at]`` into the cache, and of a later one where it begins."""
    if at + AHEAD >= order.size:
        return
    soon, later = order[at], order[at + AHEAD]
    start, stop, _ = row(dense, indptr, width, np.uint64(soon))
    stop = min(stop, start + np.uint64(FETCHED))
    for k in range(start, stop, np.uint64(8)):  # a line of the cache holds 8 doubles or 16 indices
        prefetch(values, k)
    prefetch(y, np.uint64(soon))
    prefetch(weight, np.uint64(soon))
    if not dense:
        for k in range(start, stop, np.uint64(16)):
            prefetch(columns, k)
        prefetch(indptr, np.uint64(later))


@njit(
    cache=True, nogil=True, fastmath={"reassoc", "contract"}, forceinline=True
)  # sums in any order, so that they need not wait for each other
def _products(values, columns, start, stop, offset, constant, v):
    """``<v, x>`` and ``|x|^2``."""
    score, size2 = constant * v[np.uint64(v.size - 1)], constant * constant
    for k in range(start, stop):
        x = np.float64(values[k])
        score += x * v[np.uint64(columns[k - offset])]
        size2 += x * x
    return score, size2


@njit(cache=True, nogil=True, forceinline=True)
def steepness(method, r, g):
    """What ``step_sizes`` needs of G and R: ``G / R`` for PROXIMAL, ``sqrt(8/3) G / R`` for ADAPTIVE."""
    if method == ADAPTIVE:
        return math.sqrt(8.0 / 3.0) * g / r
    return g / r if method == PROXIMAL else 0.0


@njit(cache=True, nogil=True, forceinline=True)
def step_sizes(method, lam, t, tau_sum, steep, tau_one):
    """Round t's (tau_t, step size, factor by which w shrinks).

    PROXIMAL: 2 tau R^2 = G^2 / (2 (lambda_{1:t} + tau_{1:t})); ADAPTIVE: 3 tau R^2 = 2 G^2 / (lambda_{1:t} + tau_{1:t})

    Both are solved by ``tau = (hypot(before, steep) - before) / 2`` with ``before = lambda_{1:t} + tau_{1:t-1}``.
    """
    before = lam * t + tau_sum
    tau = 0.0
    if method in (PROXIMAL, ADAPTIVE):
        tau = 0.5 * (math.hypot(before, steep) - before)
    elif method == FIXED and t == 1.0:
        tau = tau_one
    step_size = 1.0 / (before + tau)
    own = lam + tau if method == ADAPTIVE else lam  # Adaptive adds tau/2 |w|^2, whose gradient is not zero at w_t
    return tau, step_size, 1.0 - step_size * own


@njit(cache=True, nogil=True)
def next_phase(r, t, tau_sum, g, opening, epsilon, lam, norm2):
    """(R, t, tau_{1:t}) at the start of a phase: as printed with ``opening = 0``.

    There t and tau start from zero, and R grows until w is well inside its ball, as the regret bound requires of the
    first iterate; the first steps, 2 R long, throw w out of ball after ball.  Else t goes on, and the curvature is what
    a larger R would have gathered, but lets the first step go ``R / opening`` far.
    """
    r *= math.sqrt(2.0)
    if opening == 0.0:
        while norm2 >= near_squared(r, epsilon, lam):
            r *= math.sqrt(2.0)
        return r, 0.0, 0.0
    return r, t, min(tau_sum / math.sqrt(2.0), opening * g / r)


@njit(cache=True, nogil=True)
def near_squared(r, epsilon, lam):
    """The ``|w|^2`` from which on R is too small a guess: ``|w| >= R - sqrt(2 epsilon / lam)`` (Alg. 3)."""
    return max(0.0, r - math.sqrt(2.0 * epsilon / lam)) ** 2


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def largest_row(dense, indptr, columns, values, constant, weight):
    """``max_i weight_i |x_i|``."""
    largest, width = 0.0, np.uint64(columns.size)
    for i in range(np.uint64(weight.size)):  # unsigned indices need no wrap-around test
        start, stop, _ = row(dense, indptr, width, i)
        size2 = constant * constant
        for k in range(start, stop):
            x = np.float64(values[k])
            size2 += x * x
        largest = max(largest, weight[i] * math.sqrt(size2))
    return largest


@njit(cache=True, nogil=True)
def shuffled(n, seed):
    """The numbers 0 ... n-1 in random order."""
    order = np.arange(n)
    permute(order, n, np.uint64(seed) | np.uint64(1))
    return order
