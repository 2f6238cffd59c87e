"""The linear equations of an interior point step on a small program, by a dense Cholesky factor.

    (diag(stiff) + tilt tilt' + A' diag(bend) A) dx  =  -(residual + A' pull),      ds = A dx

A has the rows of X, with a constant column if the intercept is free, then those of I and of -I (``signs`` of them).
The equations are solved in this form, or between samples (``solvers/newton/systems.py`` derives both); ``is_dual`` says
which.  ``tilt`` may be None, and the parameters have to keep their sum unless ``entropy`` is None.
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.compile import INNER_ONLY, njit

OPTIONS = INNER_ONLY | {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
INLINED = OPTIONS | {"inline": "always"}  # for one caller
RIDGE = 1e-15  # of a matrix with unit diagonal: the first that is tried
ROUGH = 1e-10  # ratio of pivots from which the factor is a preconditioner only
ACCURATE = 1e-12  # relative size of what conjugate gradients leave
MAX_ROUNDS = 25
FLAT = 1e-100  # smallest curvature of a sample's loss


@njit(**OPTIONS)
def forward(X, has_intercept, signs, x, scores):
    """``A x`` into ``scores``."""
    n, d = X.shape
    for i in range(n):
        score = x[d] if has_intercept else 0.0
        for j in range(d):
            score += X[i, j] * x[j]
        scores[i] = score
    for k in range(signs):
        for j in range(d):
            scores[n + k * d + j] = x[j] if k == 0 else -x[j]


@njit(**OPTIONS)
def backward(X, has_intercept, signs, g, x):
    """``A' g`` into ``x``."""
    n, d = X.shape
    for j in range(x.size):
        x[j] = 0.0
    for i in range(n):
        for j in range(d):
            x[j] += g[i] * X[i, j]
        if has_intercept:
            x[d] += g[i]
    for k in range(signs):
        for j in range(d):
            x[j] += g[n + k * d + j] if k == 0 else -g[n + k * d + j]


@njit(**OPTIONS)
def _unbent(stiff, tilt, v):
    """Overwrite v with ``(diag(stiff) + tilt tilt')^-1 v``."""
    if tilt is not None:
        along, across = 0.0, 1.0
        for j in range(stiff.size):
            along += tilt[j] * v[j] / stiff[j]
            across += tilt[j] * tilt[j] / stiff[j]
        for j in range(stiff.size):
            v[j] -= tilt[j] * along / across
    for j in range(stiff.size):
        v[j] /= stiff[j]


@njit(**OPTIONS)
def assemble(X, has_intercept, bend, stiff, tilt, is_dual):
    """The lower half of the matrix of the equations.

    ``stiff`` holds all curvature of the parameters, bend that of the samples.
    """
    n, d = X.shape
    size, length = (n, d) if is_dual else (d + 1 if has_intercept else d, n)
    R = np.empty((size, length))
    if is_dual:
        roots = np.empty(d)
        for j in range(d):
            roots[j] = math.sqrt(stiff[j])
        for i in range(n):
            for j in range(d):
                R[i, j] = X[i, j] / roots[j]
    else:
        for i in range(n):
            root = math.sqrt(bend[i])
            for j in range(d):
                R[j, i] = X[i, j] * root
            if has_intercept:
                R[d, i] = root
    M = np.empty((size, size))
    for i in range(0, size, 2):  # four products at a time: a number that is read serves twice
        last = min(i + 1, size - 1)
        for j in range(0, i + 1, 2):
            right = min(j + 1, size - 1)
            one, two, three, four = 0.0, 0.0, 0.0, 0.0
            for k in range(length):
                one += R[i, k] * R[j, k]
                two += R[i, k] * R[right, k]
                three += R[last, k] * R[j, k]
                four += R[last, k] * R[right, k]
            M[i, j], M[i, right], M[last, j], M[last, right] = one, two, three, four
    for i in range(n if is_dual else d):
        M[i, i] += 1.0 / max(bend[i], FLAT) if is_dual else stiff[i]
    if tilt is not None:
        _add_tilt(X, stiff, tilt, is_dual, M)
    return M


@njit(**OPTIONS)
def _add_tilt(X, stiff, tilt, is_dual, M):
    """Add what ``tilt tilt'`` adds to the matrix."""
    n, d = X.shape
    size, sign, turned = n if is_dual else d, 1.0, tilt
    if is_dual:
        across, inner, turned = 1.0, np.empty(d), np.empty(n)
        for j in range(d):
            across += tilt[j] * tilt[j] / stiff[j]
            inner[j] = tilt[j] / stiff[j]
        forward(X, size < n, np.int64(0), inner, turned)
        sign = -1.0 / across
    for i in range(size):
        for j in range(i + 1):
            M[i, j] += sign * turned[i] * turned[j]


@njit(**OPTIONS)
def factor(M):
    """(L, is_rough): the Cholesky factor of M scaled to a unit diagonal, with the smallest ridge that lets it through.

    M is overwritten.  The last row of L is the scale.  ``is_rough`` : the factor is too inaccurate to solve the
    equations by itself.
    """
    size = M.shape[0]
    L, ridge = np.empty((size + 1, size)), RIDGE
    for i in range(size):
        L[size, i] = 1.0 / math.sqrt(max(M[i, i], 1e-300))
        for j in range(i + 1):
            M[i, j] *= L[size, i] * L[size, j]
    while True:
        low, high = math.inf, 0.0
        for i in range(size):
            for j in range(i + 1):
                rest = M[i, j]
                for k in range(j):
                    rest -= L[i, k] * L[j, k]
                if j < i:
                    L[i, j] = rest / L[j, j]
                else:
                    low, high = min(low, rest), max(high, rest)
                    L[i, i] = math.sqrt(max(rest, 1e-300))
            if not low > 0.0:
                break
        if low > 0.0 or not ridge < 1e10:  # the second one where M is not finite
            return L, low < ROUGH * high
        for i in range(size):
            M[i, i] += ridge
        ridge *= 100.0


@njit(**OPTIONS)
def _applied(L, b, x):
    """``M^-1 b`` into x, by the factor."""
    size = b.size
    for i in range(size):
        rest = L[size, i] * b[i]
        for k in range(i):
            rest -= L[i, k] * x[k]
        x[i] = rest / L[i, i]
    for i in range(size - 1, -1, -1):
        x[i] /= L[i, i]
        for k in range(i):
            x[k] -= x[i] * L[i, k]
        x[i] *= L[size, i]


@njit(**OPTIONS)
def _product(X, has_intercept, bend, stiff, tilt, is_dual, v, out):
    """The matrix of the equations times v, without the matrix: it is more accurate."""
    n, d = X.shape
    inner, is_free = np.empty(d if is_dual else n), has_intercept and not is_dual
    if is_dual:
        backward(X, is_free, np.int64(0), v, inner)
        _unbent(stiff, tilt, inner)
        forward(X, is_free, np.int64(0), inner, out)
        for i in range(n):
            out[i] += v[i] / max(bend[i], FLAT)
    else:
        forward(X, is_free, np.int64(0), v, inner)
        for i in range(n):
            inner[i] *= bend[i]
        backward(X, is_free, np.int64(0), inner, out)
        for j in range(d):
            out[j] += stiff[j] * v[j]
        if tilt is not None:
            along = 0.0
            for j in range(d):
                along += tilt[j] * v[j]
            for j in range(d):
                out[j] += tilt[j] * along


@njit(**INLINED)
def _solved(X, has_intercept, bend, stiff, tilt, is_dual, L, is_rough, b, x):
    """The solution for a right-hand side b into x; where the factor is rough, by conjugate gradients."""
    size = b.size
    _applied(L, b, x)
    if not is_rough:
        return
    rest, direction, more, best = np.empty(size), np.empty(size), np.empty(size), x.copy()
    limit, left = 0.0, 0.0
    _product(X, has_intercept, bend, stiff, tilt, is_dual, x, rest)
    for i in range(size):
        rest[i] = b[i] - rest[i]
        limit += ACCURATE**2 * b[i] * x[i]
    _applied(L, rest, direction)
    for i in range(size):
        left += rest[i] * direction[i]
    least = left
    for _ in range(MAX_ROUNDS):
        along = 0.0
        _product(X, has_intercept, bend, stiff, tilt, is_dual, direction, more)
        for i in range(size):
            along += direction[i] * more[i]
        if not (left > limit and along > 0.0):
            break
        for i in range(size):
            x[i] += left / along * direction[i]
            rest[i] -= left / along * more[i]
        _applied(L, rest, more)
        last, left = left, 0.0
        for i in range(size):
            left += rest[i] * more[i]
        for i in range(size):
            direction[i] = more[i] + left / last * direction[i]
            best[i] = x[i] if left < least else best[i]
        least = min(left, least)
    for i in range(size):
        x[i] = best[i]


@njit(**OPTIONS)
def newton_move(X, has_intercept, signs, bend, stiff, tilt, is_dual, entropy, L, is_rough, residual, pull, dx, ds):
    """Fill dx and ds."""
    n, d = X.shape
    size, is_free = L.shape[1], has_intercept and not is_dual
    b, x, ones, column, rest = np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(dx.size)
    if is_dual:
        for j in range(d):
            rest[j] = residual[j]
            for k in range(signs):
                rest[j] += pull[n + k * d + j] if k == 0 else -pull[n + k * d + j]
            dx[j] = rest[j]
        _unbent(stiff, tilt, dx)
        forward(X, is_free, np.int64(0), dx, b)
        for i in range(n):
            b[i] = pull[i] / max(bend[i], FLAT) - b[i]
    else:
        backward(X, is_free, signs, pull, rest)
        for j in range(size):
            b[j] = -rest[j] - residual[j]

    # The column of a free intercept between samples, or of the sum of the parameters, which stays as it is.
    is_bordered = entropy is not None or (is_dual and has_intercept)
    for i in range(size):
        ones[i] = 0.0 if i == d and not is_dual else 1.0
        column[i] = 0.0
    for side in range(2 if is_bordered else 1):
        _solved(
            X, has_intercept, bend, stiff, tilt, is_dual, L, is_rough, b if side == 0 else ones,
            x if side == 0 else column,
        )  # fmt: skip
    shift = 0.0
    if is_bordered:
        total, across = residual[d] if is_dual else 0.0, 0.0
        for i in range(size):
            total += ones[i] * x[i]
            across += ones[i] * column[i]
        shift = -total / across
    for i in range(size):
        x[i] += shift * column[i]

    if not is_dual:
        for j in range(size):
            dx[j] = x[j]
        forward(X, is_free, signs, dx, ds)
        return
    backward(X, is_free, np.int64(0), x, dx)
    if has_intercept:
        dx[d] = shift
    for j in range(d):
        dx[j] = -(rest[j] + dx[j])
    _unbent(stiff, tilt, dx)
    for i in range(n):
        ds[i] = (x[i] - pull[i]) / max(bend[i], FLAT)
    for k in range(signs):
        for j in range(d):
            ds[n + k * d + j] = dx[j] if k == 0 else -dx[j]
