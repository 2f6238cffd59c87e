"""A whole interior point method for a small program of kinks and smooth losses, in one call.

    min_x  q(w) + f(s) + sum_i left_i (s_i - kinks_0i) + sum_ki caps_ki max(0, s_i - kinks_ki),      s = A x

The steps are those of ``solvers/newton/interior/mehrotra.py``: predictor, corrector (Mehrotra 1992), further
corrections (Gondzio 1996), and damping where the smooth functions differ from their quadratic model.  A step of a small
program takes some ten microseconds here, and a hundred times that from Python.

q is ``l2/2 (w - center)^2``, plus ``entropy w log(w / prior)`` on the simplex unless ``entropy`` is None, plus
``strength/2 |w|_p^2`` unless ``power``, the dual exponent of p, is None.  That one is linearized by its dual, which has
continuous second derivatives: w is to be the gradient of q* at ``z = -A' g``, and ``E = (q*'')^-1`` there stands for
q''.  E is ``diag(base) + tilt tilt'``, and ``tilt`` is None for any other q.  Numba leaves out branches for what is
None, so that a first fit without these two penalties does not compile them.

    A        the rows of X, with a constant column if the intercept is free; At is the transpose.  In the formula these
             are followed by the rows of I and of -I, as far as there are scores for them
    left     (N,); kinks (4, K N): places, caps, lengths of rounding, and shares in the gap, as in ``barrier.py``
    penalty  (5, d): l1, l2, center, width between the bounds, log prior
    targets  (2, n): targets and weights of a smooth loss, whose number is ``NO_LOSS`` if there is none
    inside   (4, K N): slacks t, r and slopes u, v

Arrays are of two dimensions, and few are allocated: indices of three, and every other form of ``np.empty``, take long
to compile.  So ``rows`` holds scores, bend, pull, ds and slopes, ``columns`` the residual and two directions, ``own``
base, stiff and tilt, and ``samples`` the slopes and second derivatives of smooth losses.
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit import barrier
from undercut._jit.compile import INNER_ONLY, njit
from undercut._jit.equations import add_mirrored, assemble, factor, inner, mirror, newton_move, solved, times
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
MOST_EQUATIONS = 270  # up to here damped steps, which need accurate equations, have them of the size of x
LEAST = 1e-10  # shortest step that is tried
CLOSER = 0.9  # share of the gap, or of the products, that is left by a step that counts
FIRST_PATIENCE, PATIENCE, NEAR = 15, 2, 1e-4  # steps that do not count, at first and with a relative gap below the last
TINY = 1e-200
SMALLEST_GAP = 1e-6  # of the size of the losses: the gap at the start is assumed to be at least this
SMALLEST_UNIT = 1e-8  # share of a norm, of entries that count as zero
WALL = 1e29  # caps beyond this are bounds
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}
INNER = OPTIONS | INNER_ONLY
INLINED = OPTIONS | {"inline": "always"}  # for one caller, which else would compile all that they call once more


@njit(**OPTIONS)
def follow(
    A, At, left, kinks, penalty, entropy, power, strength, number, targets, x, best_x, best, gap, is_dual, accuracy,
    max_steps,
):  # fmt: skip
    """Fill ``best_x`` and ``best`` with the best iterate of the path from x, which is overwritten.

    ``gap`` is that of x or less.
    """
    n, d, size, count = A.shape[0], penalty.shape[1], left.size, kinks.shape[1]
    rows, columns, own, samples = np.empty((5, size)), np.empty((3, x.size)), np.empty((3, d)), np.empty((2, n))
    inside, other, scores = np.empty((4, count)), np.empty((4, count)), rows[0]
    tilt = None if power is None else own[2]
    times(A, x, scores)
    mirror(d, x, scores, n)
    shares, scale = 0.0, TINY
    for at in range(count):
        shares += kinks[3, at]
        if kinks[1, at] < WALL:
            scale += kinks[1, at] * (abs(scores[at % size]) + abs(kinks[0, at]))
    gap = max(gap, SMALLEST_GAP * scale)
    barrier.center(scores, kinks, 0.5 * gap / max(shares, TINY), inside)
    total = gap if shares > 0.0 else 0.0
    damping, idle, least, last_total = 0.0, 0, math.inf, math.inf
    for step in range(max_steps + 1):
        # 1. Where we are.
        smooth, whole, gap = _gradient(
            At, left, kinks, penalty, entropy, power, strength, number, targets, x, inside, rows, columns, own, samples,
            tilt,
        )  # fmt: skip
        enough = accuracy * abs(whole)
        is_closer = gap < CLOSER * least or enough < total < CLOSER * last_total
        idle, last_total = 0 if is_closer else idle + 1, total
        if gap < least or step == 0:
            least = gap
            _copy(x, inside, best_x, best)
        patience = PATIENCE if least < NEAR * abs(whole) else FIRST_PATIENCE
        if least <= enough or idle > patience or step == max_steps or not gap < math.inf:
            break

        # 2. A direction, with as much damping as smooth losses need.
        reach, damping, dx, change = _direction(
            A, At, kinks, penalty, entropy, number, targets, x, total, shares, is_dual, damping, rows, columns, own,
            samples, smooth, inside, other, tilt,
        )  # fmt: skip

        # 3. The move.
        if shares > 0.0:
            total = barrier.advance(inside, change, reach, other)
            inside, other = other, inside
        for j in range(x.size):
            x[j] += reach * dx[j]
        times(A, x, scores)
        mirror(d, x, scores, n)


@njit(**INNER)
def _copy(x, inside, to_x, to):
    for j in range(x.size):
        to_x[j] = x[j]
    for k in range(inside.shape[0]):
        for at in range(inside.shape[1]):
            to[k, at] = inside[k, at]


@njit(**INLINED)
def _direction(
    A, At, kinks, penalty, entropy, number, targets, x, total, shares, is_dual, damping, rows, columns, own, samples,
    smooth, inside, other, tilt,
):  # fmt: skip
    """(reach, damping, dx, change): how far to go along a direction, with how much damping it was found, and itself."""
    n, d, m = A.shape[0], penalty.shape[1], x.size
    scores, bend, ds, stiff = rows[0], rows[1], rows[3], own[1]
    weights, room = np.empty((2, kinks.shape[1])), np.empty((11, n + m + 1))
    ridge, ones, column = room[8], room[9], room[10]
    damping = 0.1 * damping if damping > FIRST_DAMPING else 0.0
    while True:
        # 1. The equations, and the solution for their border: a free intercept between samples, or a constant sum.
        barrier.weigh(scores, kinks, inside, weights, bend)
        for i in range(n):
            bend[i] += samples[1, i] + damping * abs(samples[0, i])
        for j in range(d):
            stiff[j] = own[0, j]
        for i in range(n, bend.size):
            stiff[i - n if i < n + d else i - n - d] += bend[i]
        dual = is_dual and (damping == 0.0 or d > MOST_EQUATIONS)
        size, length = (n, d) if dual else (m, n if tilt is None else n + 1)
        R, M, L = np.empty((size, length)), np.empty((size, size)), np.empty((size + 1, size))
        assemble(A, At, bend, stiff, tilt, dual, ridge, R, M, room[0])
        is_rough = factor(M, L)
        is_bordered = entropy is not None or (dual and m > d)
        for i in range(size):
            ones[i] = 1.0 if dual or i < d else 0.0
            column[i] = 0.0
        if is_bordered:
            solved(ridge, R, L, is_rough, ones, column, room)

        # 2. A step on these, as far as smooth functions agree with their quadratic model.
        full, dx, change = _longest(
            A, At, stiff, tilt, dual, ridge, R, L, is_rough, ones, column, rows, columns, room, kinks, inside, other,
            weights, total, shares, number, entropy,
        )  # fmt: skip
        reach = full
        if number != NO_LOSS or entropy is not None:
            times(A, dx, ds)  # not those of the equations: rounding may differ
            reach = _trusted(
                penalty, entropy, number, targets, x, total, scores, samples[0], samples[1], columns[0], smooth, dx, ds,
                full, room,
            )  # fmt: skip
        if reach > TRUSTED * full or damping > MOST_DAMPING or number == NO_LOSS:
            return reach, damping, dx, change
        damping = max(10.0 * damping, FIRST_DAMPING)


@njit(**INLINED)
def _longest(
    A, At, stiff, tilt, dual, ridge, R, L, is_rough, ones, column, rows, columns, room, kinks, inside, other, weights,
    total, shares, number, entropy,
):  # fmt: skip
    """(reach, dx, change) of a predictor and a corrector, with further corrections where that step is short."""
    count, residual, pull, ds, dx, to_dx = kinks.shape[1], columns[0], rows[2], rows[3], columns[1], columns[2]
    aim, to_aim = np.empty((2, count)), np.empty((2, count))
    first, change, to_change = np.empty((3, count)), np.empty((3, count)), np.empty((3, count))
    reach, mu, inverse = 0.0, 0.0, 1.0
    for at in range(count):
        first[0, at] = first[1, at] = first[2, at] = 0.0
    for trial in range(3 + MAX_CORRECTIONS):
        if trial == 2 and reach >= SHORT:
            continue
        if trial < 3:  # the second-order terms of a step that is much too long mislead
            allowed = 0.0 if trial == 0 else 1.0 if trial == 1 else 1.0 / inverse**2
            barrier.aim_at(kinks, inside, first, mu, allowed, to_aim)
        else:
            ahead = min(1.0, reach + FURTHER)
            barrier.recenter(kinks, inside, change, aim, ahead, mu, BEYOND, to_aim)
        barrier.attract(inside, weights, to_aim, to_change, pull)
        newton_move(
            A, At, stiff, tilt, dual, ridge, R, L, is_rough, ones, column, residual, pull, to_dx, ds, room
        )  # fmt: skip
        longest = barrier.solve(inside, weights, to_aim, ds, to_change)
        if trial == 0 and shares > 0.0:
            inverse = max(longest, 1.0)
            kept = max(barrier.advance(inside, to_change, 1.0 / inverse, other), 0.0)
            mu = (kept / total) ** 3 * 0.5 * total / shares if total > 0.0 else 0.0
            if number != NO_LOSS or entropy is not None:  # no faster than smooth functions approach their optimum
                mu = max(mu, 0.5 * min(total, BEHIND * abs(inner(residual, to_dx))) / shares)
            first, to_change = to_change, first
            continue
        longer = min(1.0, SHORT_OF_BOUNDARY / max(longest, SHORT_OF_BOUNDARY))
        gain = longer - reach
        if trial <= 1 or gain > 0.0:
            reach = longer
            aim, to_aim = to_aim, aim
            dx, to_dx = to_dx, dx
            change, to_change = to_change, change
        if reach > LONG or (trial >= 3 and gain < LEAST_GAIN * FURTHER):
            break
    return reach, dx, change


@njit(**INNER)
def _gradient(
    At, left, kinks, penalty, entropy, power, strength, number, targets, x, inside, rows, columns, own, samples, tilt
):  # fmt: skip
    """Fill the slopes of the smooth losses, their second derivatives, and the gradient of everything.

    Returns the value of the smooth functions, J, and the gap: by how much the losses are above the planes of the slopes
    u, ``sum u max(0, -z) + v max(0, z)`` for sharp kinks, and what the slopes miss because the gradient is not zero.
    """
    d, n = penalty.shape[1], At.shape[1]
    scores, g, residual, base = rows[0], rows[4], columns[0], own[0]
    for i in range(n):
        samples[0, i] = samples[1, i] = 0.0
    smooth = curve(number, targets, scores, samples[0], samples[1]) if number != NO_LOSS else 0.0
    whole, gap = _at_kinks(n, left, kinks, inside, scores, samples[0], g)
    rise, shift = 0.0, 0.0
    for i in range(n):
        rise += abs(g[i])
    times(At, g, residual)
    add_mirrored(d, g, residual, n)
    for j in range(d):
        off, base[j] = x[j] - penalty[2, j], penalty[1, j]
        if power is None:
            residual[j] += penalty[1, j] * off
        whole += 0.5 * penalty[1, j] * off * off
        if entropy is not None:
            apart = math.log(x[j]) - penalty[4, j]
            base[j] = entropy / x[j]
            smooth += entropy * x[j] * apart
            residual[j] += entropy * (apart + 1.0)
            shift += x[j] * residual[j]
    whole += smooth
    if power is not None:
        value, missing = _by_dual(power, strength, x, residual, base, tilt)
        return smooth, whole + value, gap + missing
    gap += abs(residual[d]) * abs(whole) / max(rise, TINY) if x.size > d else 0.0
    for j in range(d):
        off = abs(residual[j] - shift)
        least = off * penalty[3, j] if penalty[3, j] < math.inf else math.inf
        if penalty[1, j] > 0.0:
            least = min(least, 0.5 * off * off / penalty[1, j])
        if penalty[0, j] > 0.0:
            least = min(least, off * abs(whole) / penalty[0, j])
        if entropy is not None:
            least = min(off * x[j], 0.5 * off * off * x[j] / entropy)
        gap += least
    return smooth, whole, gap


@njit(**INLINED)
def _at_kinks(n, left, kinks, inside, scores, slopes, g):
    """(value, gap) of the kinked functions at the scores; fill g, the slopes of all functions."""
    whole, gap = 0.0, 0.0
    for i in range(scores.size):
        high, low = left[i], 0.0  # added last: it is small where kinks are far from their middle
        whole += left[i] * (scores[i] - kinks[0, i])
        if i < n:
            whole += 0.5 * kinks[2, i] * left[i] ** 2
            low = slopes[i]
        for at in range(i, kinks.shape[1], scores.size):
            z, cap, soft, u, v = scores[i] - kinks[0, at], kinks[1, at], kinks[2, at], inside[2, at], inside[3, at]
            high += cap if u > v else 0.0
            low += -v if u > v else u
            if cap >= WALL:
                gap += u * abs(z)
            elif soft == 0.0:
                whole += cap * max(z, 0.0)
                gap += v * max(z, 0.0) + u * max(-z, 0.0)
            else:
                best = min(max(z / soft, 0.0), cap)  # the slope at z
                whole += best * (z - 0.5 * soft * best)
                gap += (best - u) * (z - 0.5 * soft * (best + u))
        g[i] = high + low
    return whole, gap


@njit(**INNER)
def _by_dual(power, strength, x, residual, base, tilt):
    """(q(w), q(w) + q*(z) - z'w) of a squared norm at ``z = -residual``; fill E and ``residual = E (w - q*'(z))``."""
    d, p = base.size, power / (power - 1.0)
    largest, widest, norm, size, along = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(d):
        largest, widest = max(largest, abs(residual[j])), max(widest, abs(x[j]))
        along += x[j] * residual[j]
    for j in range(d):
        norm += (abs(residual[j]) / max(largest, TINY)) ** power
        size += (abs(x[j]) / max(widest, TINY)) ** p
    norm, size = largest * norm ** (1.0 / power), widest * size ** (1.0 / p)
    value = 0.5 * strength * size * size
    gap = value + 0.5 * norm * norm / strength + along
    inner = 0.0
    for j in range(d):
        unit = max(abs(residual[j]) / max(norm, TINY), SMALLEST_UNIT)
        sign = -1.0 if residual[j] > 0.0 else 1.0
        base[j] = strength * unit ** (2.0 - power) / (power - 1.0)
        tilt[j] = math.sqrt(strength * (power - 2.0) / (power - 1.0)) * sign * unit
        residual[j] = x[j] - sign * unit ** (power - 1.0) * norm / strength
        inner += tilt[j] * residual[j]
    for j in range(d):
        residual[j] = base[j] * residual[j] + tilt[j] * inner
    return value, gap


@njit(**INNER)
def _trusted(
    penalty, entropy, number, targets, x, total, scores, slopes, curved, residual, smooth, dx, ds, reach, room
):  # fmt: skip
    """How far a step may go: no further than smooth functions agree with their model, up to a share of the gain."""
    n, d = slopes.size, penalty.shape[1]
    there, unused, more = room[0], room[1], room[2]
    slope, square, expected = 0.0, 0.0, abs(inner(residual, dx))
    for i in range(n):
        slope += slopes[i] * ds[i]
        square += curved[i] * ds[i] * ds[i]
    if entropy is not None:
        for j in range(d):
            slope += entropy * (math.log(x[j]) - penalty[4, j] + 1.0) * dx[j]
            square += entropy * dx[j] * dx[j] / x[j]
    while reach > LEAST:
        for i in range(n):
            there[i] = scores[i] + reach * ds[i]
        value = curve(number, targets, there, unused, more) if number != NO_LOSS else 0.0
        if entropy is not None:
            for j in range(d):
                to = x[j] + reach * dx[j]
                value += entropy * to * (math.log(max(to, TINY)) - penalty[4, j])
        error = abs(value - smooth - reach * slope - 0.5 * reach**2 * square)
        if error <= TRUST * (total + reach * expected) + NOISE * abs(smooth):
            break
        reach *= 0.5
    return reach
