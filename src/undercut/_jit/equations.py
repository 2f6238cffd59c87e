"""The linear equations of an interior point step on a small program, by a dense Cholesky factor.

    (diag(stiff) + A' diag(bend) A) dx  =  -(residual + A' pull),      ds = A dx

A has the rows of X, with a constant column if the intercept is free, then those of I and of -I (``signs`` of them).
The equations are solved in this form, or between samples (``solvers/newton/systems.py`` derives both); ``is_dual`` says
which.  The parameters may have to keep their sum (``is_simplex``).

    system   X, has_intercept, bend, stiff, is_dual, and the factor: L, scale, is_rough
"""

from __future__ import annotations

import math

import numpy as np

from undercut._jit.compile import njit

OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
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
    x[:] = 0.0
    for i in range(n):
        for j in range(d):
            x[j] += g[i] * X[i, j]
        if has_intercept:
            x[d] += g[i]
    for k in range(signs):
        for j in range(d):
            x[j] += g[n + k * d + j] if k == 0 else -g[n + k * d + j]


@njit(**OPTIONS)
def assemble(X, has_intercept, bend, stiff, is_dual):
    """The matrix of the equations; ``stiff`` holds all curvature of the parameters, bend that of the samples."""
    n, d = X.shape
    scaled = np.empty_like(X)
    if is_dual:
        for i in range(n):
            for j in range(d):
                scaled[i, j] = X[i, j] / math.sqrt(stiff[j])
        M = np.dot(scaled, scaled.T)
        for i in range(n):
            M[i, i] += 1.0 / max(bend[i], FLAT)
        return M
    size = d + 1 if has_intercept else d
    M = np.zeros((size, size))
    for i in range(n):
        root = math.sqrt(bend[i])
        for j in range(d):
            scaled[i, j] = X[i, j] * root
            if has_intercept:
                M[d, j] += bend[i] * X[i, j]
        if has_intercept:
            M[d, d] += bend[i]
    M[:d, :d] = np.dot(scaled.T, scaled)
    for j in range(d):
        M[j, j] += stiff[j]
        if has_intercept:
            M[j, d] = M[d, j]
    return M


@njit(**OPTIONS)
def factor(M, scale):
    """(L, is_rough): the Cholesky factor of M scaled to a unit diagonal, with the smallest ridge that lets it through.

    M is overwritten.  ``is_rough`` : the factor is too inaccurate to solve the equations by itself.
    """
    size = M.shape[0]
    for i in range(size):
        scale[i] = 1.0 / math.sqrt(max(M[i, i], 1e-300))
    for i in range(size):
        for j in range(size):
            M[i, j] *= scale[i] * scale[j]
    L, ridge = np.empty_like(M), RIDGE
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
                    L[i, i] = math.sqrt(rest) if rest > 0.0 else 1.0
            if not low > 0.0:
                break
        if low > 0.0 or not ridge < 1e10:  # NaN ends it too
            return L, low < ROUGH * high
        for i in range(size):
            M[i, i] += ridge
        ridge *= 100.0


@njit(**OPTIONS)
def _applied(L, scale, b):
    size = b.size
    x = np.empty(size)
    for i in range(size):
        rest = scale[i] * b[i]
        for k in range(i):
            rest -= L[i, k] * x[k]
        x[i] = rest / L[i, i]
    for i in range(size - 1, -1, -1):
        x[i] /= L[i, i]
        for k in range(i):
            x[k] -= x[i] * L[i, k]
    for i in range(size):
        x[i] *= scale[i]
    return x


@njit(**OPTIONS)
def _product(system, v):
    """The matrix of the equations times v, without the matrix: it is more accurate."""
    X, has_intercept, bend, stiff, is_dual = system[:5]
    n, d = X.shape
    out = np.empty_like(v)
    if is_dual:
        inner = np.empty(d)
        backward(X, False, np.int64(0), v, inner)
        for j in range(d):
            inner[j] /= stiff[j]
        forward(X, False, np.int64(0), inner, out)
        for i in range(n):
            out[i] += v[i] / max(bend[i], FLAT)
        return out
    inner = np.empty(n)
    forward(X, has_intercept, np.int64(0), v, inner)
    for i in range(n):
        inner[i] *= bend[i]
    backward(X, has_intercept, np.int64(0), inner, out)
    for j in range(d):
        out[j] += stiff[j] * v[j]
    return out


@njit(**OPTIONS)
def _solved(system, b):
    """The solution for a right-hand side b; where the factor is rough, by conjugate gradients."""
    L, scale, is_rough = system[5:]
    x = _applied(L, scale, b)
    if not is_rough:
        return x
    rest = b - _product(system, x)
    direction = _applied(L, scale, rest)
    left = rest @ direction
    limit = ACCURATE**2 * abs(b @ x)
    best, least = x.copy(), left
    for _ in range(MAX_ROUNDS):
        bent = _product(system, direction)
        along = direction @ bent
        if not (left > limit and along > 0.0):
            break
        for i in range(x.size):
            x[i] += left / along * direction[i]
            rest[i] -= left / along * bent[i]
        applied = _applied(L, scale, rest)
        last, left = left, rest @ applied
        for i in range(x.size):
            direction[i] = applied[i] + left / last * direction[i]
        if left < least:
            best[:] = x
            least = left
    return best


@njit(**OPTIONS)
def border(system, is_simplex):
    """The solution for the column of a free intercept between samples, or of a fixed sum of the parameters."""
    has_intercept, is_dual, size = system[1], system[4], system[5].shape[0]
    if not (is_simplex or (is_dual and has_intercept)):
        return np.zeros(size)
    b = np.ones(size)
    if is_simplex and has_intercept:
        b[size - 1] = 0.0
    return _solved(system, b)


@njit(**OPTIONS)
def newton_move(system, column, signs, residual, pull, dx, ds):
    """Fill dx and ds; ``column`` is what ``border`` returned."""
    X, has_intercept, bend, stiff, is_dual = system[:5]
    n, d = X.shape
    if not is_dual:
        backward(X, has_intercept, signs, pull, dx)
        for j in range(dx.size):
            dx[j] = -dx[j] - residual[j]
        dx[:] = _solved(system, dx)
        total, across = 0.0, 0.0
        for j in range(d):
            total += dx[j]
            across += column[j]
        if across != 0.0:  # the parameters keep their sum
            for j in range(dx.size):
                dx[j] -= total / across * column[j]
        forward(X, has_intercept, signs, dx, ds)
        return
    for j in range(d):
        dx[j] = residual[j]
        for k in range(signs):
            dx[j] += pull[n + k * d + j] if k == 0 else -pull[n + k * d + j]
    rest = dx[:d].copy()
    for j in range(d):
        dx[j] /= stiff[j]
    b = np.empty(n)
    forward(X, False, np.int64(0), dx, b)
    for i in range(n):
        b[i] = pull[i] / max(bend[i], FLAT) - b[i]
    slopes = _solved(system, b)
    shift = 0.0
    if has_intercept:
        shift = -(residual[d] + slopes.sum()) / column.sum()
        for i in range(n):
            slopes[i] += shift * column[i]
    backward(X, False, np.int64(0), slopes, dx)
    if has_intercept:
        dx[d] = shift
    for j in range(d):
        dx[j] = -(rest[j] + dx[j]) / stiff[j]
    for i in range(n):
        ds[i] = (slopes[i] - pull[i]) / max(bend[i], FLAT)
    for k in range(signs):
        for j in range(d):
            ds[n + k * d + j] = dx[j] if k == 0 else -dx[j]
