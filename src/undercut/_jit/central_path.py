"""A whole interior point method for a small program of kinks and smooth losses, in one call.

    min_x  q(w) + f(s) + sum_i left_i (s_i - kinks_0i) + sum_ki caps_ki max(0, s_i - kinks_ki),      s = A x

The steps are those of ``solvers/newton/mehrotra.py``: predictor, corrector (Mehrotra 1992), further corrections
(Gondzio 1996), and damping where the smooth functions differ from their quadratic model.  A step of a small program
takes some ten microseconds here, and a hundred times that from Python.

q is ``l2/2 (w - center)^2``, plus ``entropy w log(w / prior)`` on the simplex if ``entropy`` is positive.

    rows     X, whether the intercept is free, and how many of I, -I the matrix A ends with
    kinks    left (N,), then places, caps and lengths of rounding (K, N), then the shares of the kinks in the gap (K, N)
    penalty  l1, l2, center, width between the bounds: (d,); entropy, log prior (d,)
    loss     its number, targets and weights (n,)
    inside   slacks t, r and slopes u, v: (K, N)
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit import barrier
from undercut._jit.compile import njit
from undercut._jit.equations import assemble, backward, border, factor, forward, newton_move
from undercut._jit.pointwise import NO_LOSS, curve

SHORT_OF_BOUNDARY = 0.995  # share of the longest step: slacks and slopes stay positive
FURTHER, LEAST_GAIN = 0.3, 0.1  # what a correction should add to the length of a step, and the share it must add
BEYOND = 10.0  # products are corrected that differ from their aim by more than this factor
MAX_CORRECTIONS = 2
SHORT, LONG = 0.01, 0.9  # steps below the first are tried with less correction, steps beyond the second need none
TRUST, NOISE = 0.5, 1e-14  # allowed error of the quadratic model: share of the expected gain, and rounding
BEHIND = 0.1  # what is left of the products is at least this share of the gain expected of smooth losses
TRUSTED = 0.1  # share of a step that smooth losses must allow
FIRST_DAMPING, MOST_DAMPING = 1e-3, 1e8  # added curvature, relative to the slopes of the losses
LEAST = 1e-10  # shortest step that is tried
PATIENCE = 4  # steps without a smaller gap
TINY = 1e-200
WALL = 1e29  # caps beyond this are bounds
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**OPTIONS)
def follow(rows, kinks, penalty, loss, x, total, is_dual, accuracy, max_steps):
    """(x, u, v, is_solved): the best iterate of the path from x, which is overwritten; its gap is about ``total``."""
    n, size, shape = rows[0].shape[0], kinks[0].size, kinks[2].shape
    scores, slopes, curved = np.empty(size), np.zeros(n), np.zeros(n)
    inside = (np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape))
    other = (np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape))
    residual = np.empty(x.size)
    shares = kinks[4].sum()
    forward(rows[0], rows[1], rows[2], x, scores)
    barrier.center(scores, kinks[1], kinks[2], kinks[3], 0.5 * total / max(shares, TINY), kinks[4], *inside)
    total = total if shares > 0.0 else 0.0
    best = (x.copy(), inside[2].copy(), inside[3].copy())
    damping, idle, least = 0.0, 0, math.inf
    for step in range(max_steps + 1):
        smooth, whole, missing = _gradient(
            rows, kinks, penalty, loss, x, inside[2], inside[3], scores, slopes, curved, residual
        )  # fmt: skip
        gap = total + missing
        idle = 0 if gap < 0.9 * least else idle + 1
        if gap < least:
            least = gap
            best[0][:] = x
            best[1][:] = inside[2]
            best[2][:] = inside[3]
        is_solved = least <= accuracy * abs(whole)
        if is_solved or idle > PATIENCE or step == max_steps or not math.isfinite(gap):
            break
        damping = 0.1 * damping if damping > FIRST_DAMPING else 0.0
        while True:
            full, dx, change = _direction(
                rows, kinks, penalty, x, total, scores, inside, slopes, curved, residual, damping, loss[0], is_dual
            )  # fmt: skip
            reach = _trusted(rows, penalty, loss, x, total, scores, slopes, curved, residual, smooth, dx, full)
            if reach > TRUSTED * full or damping > MOST_DAMPING or loss[0] == NO_LOSS:
                break
            damping = max(10.0 * damping, FIRST_DAMPING)
        if shares > 0.0:
            total = barrier.advance(kinks[2], *inside, *change, reach, *other)
            inside, other = other, inside
        for j in range(x.size):
            x[j] += reach * dx[j]
        forward(rows[0], rows[1], rows[2], x, scores)
    return best[0], best[1], best[2], is_solved


@njit(**OPTIONS)
def _gradient(rows, kinks, penalty, loss, x, u, v, scores, slopes, curved, residual):
    """Fill the slopes of the smooth losses, their second derivatives, and the gradient of everything.

    Returns the value of the smooth functions, J, and by how much the slopes miss a bound because the gradient is not
    zero.
    """
    left, places, caps, soft = kinks[:4]
    _, l2, center, _, entropy, log_prior = penalty
    n, d = rows[0].shape
    smooth = curve(loss[0], loss[1], loss[2], scores, slopes, curved) if loss[0] != NO_LOSS else 0.0
    g, rise, whole = np.empty(scores.size), 0.0, 0.0
    for i in range(scores.size):
        g[i] = left[i]
        whole += left[i] * (scores[i] - places[0, i]) + (0.5 * soft[0, i] * left[i] ** 2 if i < n else 0.0)
        for k in range(caps.shape[0]):  # from v = caps - u where v is the more accurate one
            g[i] += caps[k, i] if u[k, i] > v[k, i] else 0.0
            z, cap, length = scores[i] - places[k, i], caps[k, i], soft[k, i]
            if z > 0.0 and cap < WALL:
                whole += cap * z - 0.5 * length * cap * cap if z > length * cap else 0.5 * z * z / length
        for k in range(caps.shape[0]):
            g[i] += -v[k, i] if u[k, i] > v[k, i] else u[k, i]
        if i < n:
            g[i] += slopes[i]
            rise += abs(g[i])
    backward(rows[0], rows[1], rows[2], g, residual)
    for j in range(d):
        residual[j] += l2[j] * (x[j] - center[j])
        whole += 0.5 * l2[j] * (x[j] - center[j]) ** 2
        if entropy > 0.0:
            apart = math.log(x[j]) - log_prior[j]
            smooth += entropy * x[j] * apart
            residual[j] += entropy * (apart + 1.0)
    whole += smooth
    return smooth, whole, _missing(residual, x, penalty, abs(whole), rise)


@njit(**OPTIONS)
def _missing(residual, x, penalty, value, rise):
    """By how much the slopes miss a bound because ``residual``, the gradient of everything, is not zero."""
    l1, l2, _, width, entropy, _ = penalty
    total, shift = 0.0, 0.0
    for j in range(l2.size if entropy > 0.0 else 0):
        shift += x[j] * residual[j]
    for j in range(l2.size):
        off = abs(residual[j] - shift)
        least = off * width[j] if width[j] < math.inf else math.inf
        if l2[j] > 0.0:
            least = min(least, 0.5 * off * off / l2[j])
        if l1[j] > 0.0:
            least = min(least, off * value / l1[j])
        if entropy > 0.0:
            least = min(off * x[j], 0.5 * off * off * x[j] / entropy)
        total += least
    if residual.size > l2.size:
        total += abs(residual[l2.size]) * value / max(rise, TINY)
    return total


@njit(**OPTIONS)
def _direction(rows, kinks, penalty, x, total, scores, inside, slopes, curved, residual, damping, number, is_dual):
    """(reach, dx, (dt, dr, du)): a predictor-corrector step, and how far it may go (at most 1)."""
    X, has_intercept, signs = rows
    (n, d), entropy, shape = X.shape, penalty[4], kinks[2].shape
    where = (scores, kinks[1], kinks[2], kinks[3], inside[0], inside[1], inside[2], inside[3])
    D, bend, pull, ds = np.empty(shape), np.empty(scores.size), np.empty(scores.size), np.empty(scores.size)
    barrier.predict(*where, D, bend, pull)
    stiff = penalty[1].copy()
    for i in range(n):
        bend[i] += curved[i] + damping * abs(slopes[i])
    for j in range(d):
        stiff[j] += entropy / x[j] if entropy > 0.0 else 0.0
        for k in range(signs):
            stiff[j] += bend[n + k * d + j]
    dual = is_dual and damping == 0.0
    M = assemble(X, has_intercept, bend, stiff, dual)
    scale = np.empty(M.shape[0])
    L, is_rough = factor(M, scale)
    system = (X, has_intercept, bend, stiff, dual, L, scale, is_rough)
    column = border(system, entropy > 0.0)
    dx = np.empty(x.size)
    newton_move(system, column, signs, residual, pull, dx, ds)
    shares = kinks[4].sum()
    if shares == 0.0:
        return 1.0, dx, (D, D, D)
    inverse, bent = barrier.reach(*where, D, ds)
    kept = max(0.0, total * (1.0 - 1.0 / inverse) + bent / inverse**2)
    mu = (kept / total) ** 3 * 0.5 * total / shares if total > 0.0 else 0.0
    if number != NO_LOSS or entropy > 0.0:  # no faster than smooth functions approach their optimum
        mu = max(mu, 0.5 * min(total, BEHIND * abs(residual @ dx)) / shares)
    return _corrected(where, D, system, column, signs, residual, ds, mu, kinks[4], 1.0 / inverse**2)


@njit(**OPTIONS)
def _corrected(where, D, system, column, signs, residual, first, mu, share, little):
    """The corrector, with further corrections where its step is short."""
    shape = D.shape
    pull, ds, dx, to_dx = np.empty(first.size), np.empty(first.size), np.empty(residual.size), np.empty(residual.size)
    p, q, to_p, to_q = np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape)
    change = (np.empty(shape), np.empty(shape), np.empty(shape))
    to_change = (np.empty(shape), np.empty(shape), np.empty(shape))
    reach = 0.0
    for trial in range(2 + MAX_CORRECTIONS):
        if trial == 1 and reach >= SHORT:
            continue
        if trial < 2:  # the second-order terms of a step that is much too long mislead
            allowed = 1.0 if trial == 0 else little
            barrier.correct(*where, D, first, mu, share, allowed, to_p, to_q, pull)
        else:
            ahead = min(1.0, reach + FURTHER)
            barrier.recenter(*where, D, p, q, *change, ahead, mu, BEYOND, share, to_p, to_q, pull)
        newton_move(system, column, signs, residual, pull, to_dx, ds)
        inverse = barrier.solve(*where, D, to_p, to_q, ds, *to_change)
        longer = min(1.0, SHORT_OF_BOUNDARY / max(inverse, SHORT_OF_BOUNDARY))
        gain = longer - reach
        if trial == 0 or gain > 0.0:
            reach = longer
            p, to_p, q, to_q, dx, to_dx = to_p, p, to_q, q, to_dx, dx
            change, to_change = to_change, change
        if reach > LONG or (trial >= 2 and gain < LEAST_GAIN * FURTHER):
            break
    return reach, dx, change


@njit(**OPTIONS)
def _trusted(rows, penalty, loss, x, total, scores, slopes, curved, residual, smooth, dx, reach):
    """How far a step may go: no further than smooth functions agree with their model, up to a share of the gain."""
    entropy, log_prior, (n, d) = penalty[4], penalty[5], rows[0].shape
    if loss[0] == NO_LOSS and entropy == 0.0:
        return reach
    ds, there, unused, more = np.empty(scores.size), np.empty(n), np.empty(n), np.empty(n)
    forward(rows[0], rows[1], rows[2], dx, ds)  # not those of the equations: rounding may differ
    slope, square, expected = 0.0, 0.0, abs(residual @ dx)
    for i in range(n):
        slope += slopes[i] * ds[i]
        square += curved[i] * ds[i] * ds[i]
    for j in range(d if entropy > 0.0 else 0):
        slope += entropy * (math.log(x[j]) - log_prior[j] + 1.0) * dx[j]
        square += entropy * dx[j] * dx[j] / x[j]
    while reach > LEAST:
        for i in range(n):
            there[i] = scores[i] + reach * ds[i]
        value = curve(loss[0], loss[1], loss[2], there, unused, more) if loss[0] != NO_LOSS else 0.0
        for j in range(d if entropy > 0.0 else 0):
            to = x[j] + reach * dx[j]
            value += entropy * to * (math.log(max(to, TINY)) - log_prior[j])
        error = abs(value - smooth - reach * slope - 0.5 * reach**2 * square)
        if error <= TRUST * (total + reach * expected) + NOISE * abs(smooth):
            break
        reach *= 0.5
    return reach
