"""The linear equations of an interior point step on a small program, by a dense Cholesky factor.

    (E + A' diag(bend) A) dx  =  -(residual + A' pull),      ds = A dx,      E = diag(stiff) + tilt tilt'

A has the rows of X, with a constant column if the intercept is free, then those of I and of -I.  Its first rows and
their transpose are both given, and ``stiff`` holds the curvature of the rows of I and -I.  The equations are solved in
this form, or between samples (``solvers/newton/interior/systems.py`` derives both); ``is_dual`` says which.  The matrix
of either is ``diag(ridge) + R R'``, where R has the rows of A' or of A, weighted.  ``tilt`` may be None.
"""

from __future__ import annotations

import math

from undercut._jit.compile import INNER_ONLY, njit

OPTIONS = INNER_ONLY | {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
FIRST_SHIFT = 1e-15  # of a matrix with unit diagonal: the first that is tried
ROUGH = 1e-10  # ratio of pivots from which the factor is a preconditioner only
ACCURATE = 1e-12  # relative size of what conjugate gradients leave
MAX_ROUNDS = 25
FLAT = 1e-100  # smallest curvature of a sample's loss


@njit(**OPTIONS)
def times(M, v, out):
    """``M v`` into the first entries of ``out``."""
    for i in range(M.shape[0]):
        total = 0.0
        for j in range(M.shape[1]):
            total += M[i, j] * v[j]
        out[i] = total


@njit(**OPTIONS)
def inner(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@njit(**OPTIONS)
def mirror(d, w, scores, n):
    """The first d entries of w into those of ``scores`` after the first n, then minus these, as far as it goes."""
    for i in range(n, scores.size):
        scores[i] = w[i - n] if i < n + d else -w[i - n - d]


@njit(**OPTIONS)
def add_mirrored(d, g, x, n):
    """Add to x what ``mirror`` would give its slopes g."""
    for i in range(n, g.size):
        if i < n + d:
            x[i - n] += g[i]
        else:
            x[i - n - d] -= g[i]


@njit(**OPTIONS)
def _unbent(stiff, tilt, v):
    """Overwrite v with ``E^-1 v``."""
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
def assemble(A, At, bend, stiff, tilt, is_dual, ridge, R, M, roots):
    """Fill ridge, R and the lower half of the matrix; ``bend`` is the curvature of the samples."""
    rows, width, (size, length) = A if is_dual else At, stiff.size if is_dual else A.shape[0], R.shape
    for k in range(width):
        roots[k] = 1.0 / math.sqrt(stiff[k]) if is_dual else math.sqrt(bend[k])
    for i in range(size):
        if is_dual:
            ridge[i] = 1.0 / (bend[i] if bend[i] > FLAT else FLAT)
        else:
            ridge[i] = stiff[i] if i < stiff.size else 0.0
        for k in range(width):
            R[i, k] = rows[i, k] * roots[k]
    if tilt is not None:
        _tilted(stiff, tilt, is_dual, roots, R)
    for i in range(0, size, 2):  # four products at a time: a number that is read serves twice
        last = i + 1 if i + 1 < size else i
        for j in range(0, i + 1, 2):
            right = j + 1 if j + 1 < size else j
            one, two, three, four = 0.0, 0.0, 0.0, 0.0
            for k in range(length):
                one += R[i, k] * R[j, k]
                two += R[i, k] * R[right, k]
                three += R[last, k] * R[j, k]
                four += R[last, k] * R[right, k]
            M[i, j], M[i, right], M[last, j], M[last, right] = one, two, three, four
    for i in range(size):
        M[i, i] += ridge[i]


@njit(**OPTIONS)
def _tilted(stiff, tilt, is_dual, roots, R):
    """Let ``R R'`` have ``tilt tilt'`` in it, in a last column, or ``E^-1`` instead of ``diag(stiff)^-1``.

    With ``h = diag(stiff)^-1/2 tilt`` and ``q = h'h`` the root of ``(I + h h')^-1`` is ``I - h h' / (q + 1 + root)``
    where ``root = sqrt(1 + q)``.
    """
    d, (size, length) = stiff.size, R.shape
    square = 0.0
    for j in range(d):
        square += tilt[j] * tilt[j] / stiff[j]
    share = 1.0 / (1.0 + square + math.sqrt(1.0 + square))
    for i in range(size):
        if is_dual:
            along = 0.0
            for j in range(d):
                along += R[i, j] * tilt[j] * roots[j]
            for j in range(d):
                R[i, j] -= share * along * tilt[j] * roots[j]
        else:
            R[i, length - 1] = tilt[i] if i < d else 0.0


@njit(**OPTIONS)
def factor(M, L):
    """Fill L with the Cholesky factor of M scaled to a unit diagonal, with the smallest shift that lets it through.

    M is overwritten.  The last row of L is the scale.  Returns whether the factor is too inaccurate to solve the
    equations by itself.
    """
    size, shift = M.shape[0], FIRST_SHIFT
    for i in range(size):
        L[size, i] = 1.0 / math.sqrt(M[i, i] if M[i, i] > 1e-300 else 1e-300)
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
                    low, high = rest if rest < low else low, rest if rest > high else high
                    L[i, i] = math.sqrt(rest if rest > 1e-300 else 1e-300)
            if not low > 0.0:
                break
        if low > 0.0 or not shift < 1e10:  # the second one where M is not finite
            return low < ROUGH * high
        for i in range(size):
            M[i, i] += shift
        shift *= 100.0


@njit(**OPTIONS)
def _applied(L, b, x):
    """``M^-1 b`` into x, by the factor."""
    size = L.shape[1]
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
def _product(ridge, R, v, inner, out):
    """``(diag(ridge) + R R') v`` into out: without the matrix it is more accurate."""
    for k in range(R.shape[1]):
        inner[k] = 0.0
    for i in range(R.shape[0]):
        for k in range(R.shape[1]):
            inner[k] += R[i, k] * v[i]
    times(R, inner, out)
    for i in range(R.shape[0]):
        out[i] += ridge[i] * v[i]


@njit(**OPTIONS)
def solved(ridge, R, L, is_rough, b, x, room):
    """The solution for a right-hand side b into x; where the factor is rough, by conjugate gradients."""
    size = L.shape[1]
    _applied(L, b, x)
    if not is_rough:
        return
    rest, direction, more, best, inner = room[0], room[1], room[2], room[3], room[4]
    least, limit, left = math.inf, 0.0, 0.0
    for turn in range(MAX_ROUNDS + 1):
        _product(ridge, R, x if turn == 0 else direction, inner, more)
        along = 0.0
        for i in range(size):
            along += direction[i] * more[i] if turn > 0 else 0.0
        if turn > 0 and not (left > limit and along > 0.0):
            break
        for i in range(size):
            if turn == 0:
                rest[i] = b[i] - more[i]
                limit += ACCURATE**2 * b[i] * x[i]
            else:
                x[i] += left / along * direction[i]
                rest[i] -= left / along * more[i]
        _applied(L, rest, more)
        last, left = left, 0.0
        for i in range(size):
            left += rest[i] * more[i]
        for i in range(size):
            direction[i] = more[i] + (left / last * direction[i] if turn > 0 else 0.0)
            best[i] = x[i] if turn == 0 or left < least else best[i]
        least = left if left < least else least
    for i in range(size):
        x[i] = best[i]


@njit(**OPTIONS)
def newton_move(
    A, At, stiff, tilt, is_dual, ridge, R, L, is_rough, ones, column, residual, pull, dx, ds, room
):  # fmt: skip
    """Fill dx and ds.

    ``column`` is the solution for ``ones``, the column of a free intercept between samples, or of the sum of the
    parameters where that stays as it is; zero where there is no such column.
    """
    n, d, size = A.shape[0], stiff.size, L.shape[1]
    b, x, rest = room[5], room[6], room[7]
    for j in range(dx.size):
        rest[j] = residual[j]
    add_mirrored(d, pull, rest, n)
    if is_dual:
        for j in range(dx.size):
            dx[j] = rest[j] if j < d else 0.0
        _unbent(stiff, tilt, dx)
        times(A, dx, b)
        for i in range(n):
            b[i] = pull[i] * ridge[i] - b[i]
    else:
        times(At, pull, b)
        for j in range(size):
            b[j] = -rest[j] - b[j]
    solved(ridge, R, L, is_rough, b, x, room)

    total, across = rest[d] if is_dual and dx.size > d else 0.0, 0.0
    for i in range(size):
        total += ones[i] * x[i]
        across += ones[i] * column[i]
    shift = -total / across if across != 0.0 else 0.0
    for i in range(size):
        x[i] += shift * column[i]

    if is_dual:
        times(At, x, dx)
        for j in range(d):
            dx[j] = -(rest[j] + dx[j])
        _unbent(stiff, tilt, dx)
        if dx.size > d:
            dx[d] = shift
        for i in range(n):
            ds[i] = (x[i] - pull[i]) * ridge[i]
    else:
        for j in range(size):
            dx[j] = x[j]
        times(A, dx, ds)
    mirror(d, dx, ds, n)
