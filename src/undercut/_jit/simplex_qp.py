"""Active-set steps for the master problem ``min 1/2 alpha' H alpha - b' alpha`` on the simplex, warm from the last one.

The support S carries the factor L L' = G_SS of ``G = H + shift * 1 1'``, which equals H on the simplex up to a
constant and is positive definite whenever the planes of S are affinely independent.  With p = L^-1 b_S and
q = L^-1 1 the minimizer on the affine hull of S is ``x = L^-T (p + nu q)``, ``nu = (1 - q'p) / q'q``
(Wolfe 1976; Kiwiel 1986).  A plane enters or leaves S in O(|S|^2).
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.compile import njit

DEPENDENT = 1e-14  # relative pivot below which a plane counts as an affine combination of the support
FAST = {"reassoc", "contract"}  # lets sums be vectorized; NaN and signed zero keep their meaning
DUST = 1e-14  # a weight below this leaves the support

# In place of 0 and -1, for which as arguments Numba would compile the called functions once more.
NONE = np.int64(0)
NOWHERE = np.int64(-1)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def solve_warm(H, b, live, alpha, support, size, L, p, q, shift, tol, max_pivots):
    """Improve a feasible ``alpha`` in place until ``alpha'g - min g <= tol`` for the gradient ``g = H alpha - b``.

    ``live`` lists the slots in use, ``support[:size]`` those with weight.  Returns (size, residual, pivots, plane):
    ends early where a ``plane`` with a little weight would enter and is an affine combination of the support, else -1.
    """
    residual = math.inf
    pivots = NONE
    for i in range(size):  # b may have changed since the last problem
        value = b[support[i]]
        for k in range(i):
            value -= L[i, k] * p[k]
        p[i] = value / L[i, i]
    while True:
        size, pivots = _to_hull_minimum(alpha, support, size, L, p, q, pivots)
        entering, residual = _most_violated(H, b, live, alpha)
        is_full = size >= support.size  # rounding may let a plane in twice
        if residual <= tol or pivots >= max_pivots or alpha[entering] > 0.0 or is_full:
            return size, residual, pivots, NOWHERE
        alpha[entering] = DUST  # it has weight from now on, if only dust
        pivots += 1
        last, size = size, enter(H, b, support, size, L, p, q, shift, entering)
        if size == last:
            return size, residual, pivots, entering


@njit(inline="always", fastmath=FAST, error_model="numpy")
def _most_violated(H, b, live, alpha):
    """The plane highest above the model at its minimizer, and the duality gap of ``alpha``."""
    level, lowest, at, top = 0.0, math.inf, live[0], live[-1] + 1
    for j in live:
        row, g = H[j], -b[j]
        for k in range(top):
            g += row[k] * alpha[k]
        level += alpha[j] * g
        if g < lowest:
            lowest, at = g, j
    return at, level - lowest


@njit(inline="always", fastmath=FAST, error_model="numpy")
def _to_hull_minimum(alpha, support, size, L, p, q, pivots):
    """Walk to the minimizer on the affine hull of the support; a weight that would turn negative leaves it."""
    while True:
        qq, qp = 0.0, 0.0
        for i in range(size):
            qq += q[i] * q[i]
            qp += q[i] * p[i]
        nu = (1.0 - qp) / qq
        x = np.empty(size)
        for i in range(size):
            x[i] = p[i] + nu * q[i]
        _solve_upper(L, x, size)
        step, blocking = 1.0, NOWHERE
        for i in range(size):
            now = alpha[support[i]]
            if x[i] < DUST and now - x[i] > 0.0 and now < step * (now - x[i]):
                step, blocking = now / (now - x[i]), i
        for i in range(size):
            alpha[support[i]] = max(0.0, alpha[support[i]] + step * (x[i] - alpha[support[i]]))
        if blocking < 0:
            return size, pivots
        alpha[support[blocking]] = 0.0
        size = _leave(support, size, L, p, q, blocking)
        pivots += 1


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def enter(H, b, support, size, L, p, q, shift, j):
    """Append plane ``j`` to the support, unless it is an affine combination of the support; the new size.

    Fills ``L[size]`` either way, from which `trade` takes that combination.
    """
    row = L[size]
    own = H[j, j] + shift
    pivot = own
    for i in range(size):
        value = H[j, support[i]] + shift
        for k in range(i):
            value -= row[k] * L[i, k]
        row[i] = value / L[i, i]
        pivot -= row[i] * row[i]
    if pivot <= DEPENDENT * own and size > 0:
        return size
    pivot = math.sqrt(pivot) if pivot > 0.0 else 1.0
    L[size, size] = pivot
    pj, qj = b[j], 1.0
    for i in range(size):
        pj -= row[i] * p[i]
        qj -= row[i] * q[i]
    p[size], q[size], support[size] = pj / pivot, qj / pivot, j
    return size + 1


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def trade(b, alpha, support, size, L, p, q, j):
    """Move weight between plane ``j`` and the equal combination x of the support, towards the higher one.

    It ends when a plane is spent: ``j``, or one of the support, which it leaves.  Returns the size of the support.
    """
    x = L[size, :size].copy()
    _solve_upper(L, x, size)
    rise = b[j]
    for i in range(size):
        rise -= x[i] * b[support[i]]
    gain = 1.0 if rise > 0.0 else -1.0
    step, blocking = math.inf if gain > 0.0 else alpha[j], NOWHERE
    for i in range(size):
        if gain * x[i] > 0.0 and alpha[support[i]] < step * gain * x[i]:
            step, blocking = alpha[support[i]] / (gain * x[i]), i
    if step == math.inf:
        step, blocking = 0.0, size - 1
    for i in range(size):
        alpha[support[i]] = max(0.0, alpha[support[i]] - gain * step * x[i])
    alpha[j] += gain * step
    if blocking < 0:
        alpha[j] = 0.0
        return size
    alpha[j] = max(alpha[j], DUST)
    alpha[support[blocking]] = 0.0
    return _leave(support, size, L, p, q, blocking)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _solve_upper(L, x, size):
    """``x <- L^-T x``, by columns of L' = rows of L."""
    for i in range(size - 1, -1, -1):
        x[i] /= L[i, i]
        value = x[i]
        row = L[i]
        for k in range(i):
            x[k] -= row[k] * value


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _leave(support, size, L, p, q, at):
    """Delete position ``at`` of the support; Givens rotations restore the triangle and carry p and q along."""
    for i in range(at, size - 1):
        support[i] = support[i + 1]
        for k in range(i + 2):
            L[i, k] = L[i + 1, k]
    last = size - 1
    for i in range(at, last):
        below = L[i, i + 1]
        radius = math.hypot(L[i, i], below)
        cos, sin = L[i, i] / radius, below / radius
        L[i, i], L[i, i + 1] = radius, 0.0
        for k in range(i + 1, last):
            left, right = L[k, i], L[k, i + 1]
            L[k, i], L[k, i + 1] = cos * left + sin * right, cos * right - sin * left
        p[i], p[i + 1] = cos * p[i] + sin * p[i + 1], cos * p[i + 1] - sin * p[i]
        q[i], q[i + 1] = cos * q[i] + sin * q[i + 1], cos * q[i + 1] - sin * q[i]
    return last
