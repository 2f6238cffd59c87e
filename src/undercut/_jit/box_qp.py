"""Quadratic programs of support vector machines, two variables at a time.

With signs y, a kernel matrix K and the coefficients ``x = y a``, ``0 <= a_i <= cap_i``:

    box:       min_a  1/2 x' (scale K + ridge 1 1') x - sum_i q_i a_i
    balanced:  min_a  1/2 x' K x - sum_i a_i,      sum_i x_i = 0

The pair is the largest violator and the partner with which it gains most (Fan, Chen, Lin 2005; Steinwart, Hush, Scovel
2011).  ``own = K x`` is kept up to date in float64, so the caller gets the product with K for nothing;
``diagonal`` is K's, apart because a walk down the diagonal of K would touch all its memory.
"""

from __future__ import annotations

from undercut._jit.compile import njit

FLAT = 1e-12  # a curvature below this share of its parts is zero up to rounding


@njit(cache=True, nogil=True)
def solve_box(K, diagonal, y, cap, q, scale, ridge, x, own, tol, max_pairs):
    """Improve ``x`` until no derivative violates its bounds by more than ``tol``; the number of pairs it took."""
    total = x.sum()
    for count in range(max_pairs):
        i = _most_violating(diagonal, y, cap, q, scale, ridge, x, own, total, tol)
        if i < 0:
            return count
        j = _partner(K, diagonal, y, cap, q, scale, ridge, x, own, total, i)
        gi = y[i] * (scale * own[i] + ridge * total) - q[i]
        kii = scale * diagonal[i] + ridge
        ai = y[i] * x[i]
        if j < 0:
            di, dj = _line_step(gi, kii, ai, cap[i]), 0.0
            j = i
        else:
            gj = y[j] * (scale * own[j] + ridge * total) - q[j]
            kjj = scale * diagonal[j] + ridge
            kij = y[i] * y[j] * (scale * K[i, j] + ridge)
            di, dj = _plane_step(gi, gj, kii, kjj, kij, ai, y[j] * x[j], cap[i], cap[j])
        di *= y[i]
        dj *= y[j]
        x[i] += di
        if j != i:
            x[j] += dj
        total += di + dj
        for k in range(x.size):
            own[k] += di * K[i, k] + dj * K[j, k]
    return max_pairs


@njit(cache=True, nogil=True, inline="always")
def _open(g, a, cap):
    """Whether a may move downhill."""
    return (g < 0.0 and a < cap) or (g > 0.0 and a > 0.0)


@njit(cache=True, nogil=True)
def _most_violating(diagonal, y, cap, q, scale, ridge, x, own, total, tol):
    at, most = -1, 0.0
    for k in range(x.size):
        g = y[k] * (scale * own[k] + ridge * total) - q[k]
        if abs(g) > tol and _open(g, y[k] * x[k], cap[k]):
            gain = g * g / max(scale * diagonal[k] + ridge, FLAT)
            if gain > most:
                at, most = k, gain
    return at


@njit(cache=True, nogil=True)
def _partner(K, diagonal, y, cap, q, scale, ridge, x, own, total, i):
    """The variable with which i gains most if bounds are forgotten; -1 if it is best alone."""
    gi = y[i] * (scale * own[i] + ridge * total) - q[i]
    kii = scale * diagonal[i] + ridge
    at, most = -1, gi * gi / max(kii, FLAT)
    for k in range(x.size):
        g = y[k] * (scale * own[k] + ridge * total) - q[k]
        if k != i and _open(g, y[k] * x[k], cap[k]):
            kkk = scale * diagonal[k] + ridge
            kik = y[i] * y[k] * (scale * K[i, k] + ridge)
            det = kii * kkk - kik * kik
            if det > FLAT * kii * kkk:
                gain = (gi * gi * kkk - 2.0 * gi * g * kik + g * g * kii) / det
                if gain > most:
                    at, most = k, gain
    return at


@njit(cache=True, nogil=True, inline="always")
def _line_step(g, curvature, a, cap):
    if curvature <= 0.0:
        return cap - a if g < 0.0 else -a
    return min(max(a - g / curvature, 0.0), cap) - a


@njit(cache=True, nogil=True)
def _plane_step(gi, gj, kii, kjj, kij, ai, aj, ci, cj):
    """The best step in two variables: the free one, or the best on the four sides of the box."""
    det = kii * kjj - kij * kij
    di, dj = (gj * kij - gi * kjj) / det, (gi * kij - gj * kii) / det
    if 0.0 <= ai + di <= ci and 0.0 <= aj + dj <= cj:
        return di, dj
    best, bi, bj = 0.0, 0.0, 0.0
    for side in range(4):
        if side < 2:
            di = -ai if side == 0 else ci - ai
            dj = _line_step(gj + kij * di, kjj, aj, cj)
        else:
            dj = -aj if side == 2 else cj - aj
            di = _line_step(gi + kij * dj, kii, ai, ci)
        value = gi * di + gj * dj + 0.5 * (kii * di * di + kjj * dj * dj) + kij * di * dj
        if value < best:
            best, bi, bj = value, di, dj
    return bi, bj


@njit(cache=True, nogil=True)
def solve_balanced(K, diagonal, y, cap, x, own, tol, max_pairs):
    """Improve ``x`` until no pair violates by more than ``tol``; the number of pairs it took."""
    for count in range(max_pairs):
        i, top = -1, 0.0
        for k in range(x.size):
            g = y[k] - own[k]
            if (x[k] < cap[k] if y[k] > 0.0 else x[k] < 0.0) and (i < 0 or g > top):
                i, top = k, g
        if i < 0:
            return count
        j, most, violation = -1, 0.0, 0.0
        for k in range(x.size):
            difference = top - (y[k] - own[k])
            if difference > 0.0 and (x[k] > 0.0 if y[k] > 0.0 else x[k] > -cap[k]):
                violation = max(violation, difference)
                gain = difference * difference / max(diagonal[i] + diagonal[k] - 2.0 * K[i, k], FLAT)
                if gain > most:
                    j, most = k, gain
        if violation <= tol:
            return count
        up = cap[i] - x[i] if y[i] > 0.0 else -x[i]
        down = x[j] if y[j] > 0.0 else x[j] + cap[j]
        t = (top - (y[j] - own[j])) / max(diagonal[i] + diagonal[j] - 2.0 * K[i, j], FLAT)
        t = min(t, up, down)
        x[i] = (cap[i] if y[i] > 0.0 else 0.0) if t == up else x[i] + t
        x[j] = (0.0 if y[j] > 0.0 else -cap[j]) if t == down else x[j] - t
        for k in range(x.size):
            own[k] += t * (K[i, k] - K[j, k])
    return max_pairs
