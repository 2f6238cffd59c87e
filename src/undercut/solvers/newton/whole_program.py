"""A small ``KinkedProgram`` as one quadratic program for a library.

    min_{x, e, p}  q(w) + left' A x + sum_k caps_k e_k + p_k^2 / (2 soft_k)       A_k x - kink_k <= e_k + p_k,  e_k >= 0

has variables e for every kink k, and p for those that are rounded.  A kink with an endless cap is a bound of a variable
instead.  The multipliers of the inequalities are the slopes u of the kinks, those of ``e >= 0`` are ``v = caps - u``.
The library takes less time for all of a small program than Python takes for a step.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from undercut.solvers.newton.kinked_program import KinkedProgram
from undercut.solvers.newton.mehrotra import Inside, Iterate
from undercut.solvers.newton.penalty_terms import ENDLESS
from undercut.solvers.quadratic_program import Program
from undercut.types import Array, FloatArray

MOST_WORK = 500_000  # products of entries of X in a step of the library
ACCURACY, LEAST_ACCURACY = 1e-10, 1e-16  # of the residuals, relative to the weakest term of the penalty, and absolute


def is_small(program: KinkedProgram) -> bool:
    """Whether the program is quadratic and small enough for the library."""
    n, d = program.rows.n, program.rows.d
    return program.smooth is None and n * d * min(n, d) <= MOST_WORK and program.dense_rows is not None


def solved(program: KinkedProgram) -> Iterate | None:
    """The iterate at the optimum, as accurate as the library gets; ``None`` where it finds none."""
    caps, places = program.kinks.caps, program.kinks.kinks
    k, i = np.nonzero((caps > 0.0) & (caps < ENDLESS))
    own, soft = caps[k, i], program.kinks.soft[k, i]
    size, count = program.curvature.shape[0], k.size
    quadratic = _quadratic(program, i, own, soft, places[k, i])
    weakest = min(own.min(initial=1.0), program.squares[program.squares > 0.0].min(initial=1.0))
    found = quadratic.solution(max(ACCURACY * float(weakest), LEAST_ACCURACY))
    if found is None:
        return None
    x = found.x[:size]
    scores = program.rows.matvec(x)
    u, v = np.zeros_like(caps), np.where(caps >= ENDLESS, caps, 0.0)
    u[k, i], v[k, i] = _slopes(found.above, found.at_lower[size : size + count], own)
    z = np.where(caps > 0.0, scores - places, 0.0)
    return Iterate(x, scores, Inside(np.maximum(z, 0.0), np.maximum(-z, 0.0), u, v), 0.0)


def _quadratic(program: KinkedProgram, i: Array, caps: FloatArray, soft: FloatArray, places: FloatArray) -> Program:
    """The program of the kinks of the rows i of A."""
    rows, curvature = program.rows, program.curvature
    size, count = curvature.shape[0], i.size
    rounded = np.flatnonzero(soft > 0.0)
    start = np.zeros(size)
    linear = rows.rmatvec(program.kinks.left) + program.gradient(start)
    cost = np.concatenate([linear, caps, np.zeros(rounded.size)])
    lower = np.concatenate([np.full(size, -np.inf), np.zeros(count), np.full(rounded.size, -np.inf)])
    upper = np.full(cost.size, np.inf)
    if program.terms is not None:
        lower[: rows.d], upper[: rows.d] = program.terms.lower, program.terms.upper
    G = _compressed(_rows(program)[:, i], np.concatenate([np.arange(count), rounded]), -1.0, (count, cost.size))
    bends = np.concatenate([np.zeros(count), 1.0 / soft[rounded]])
    P = _compressed(curvature, np.arange(size, cost.size), bends, (cost.size, cost.size))
    return Program(P, cost, G, places, lower, upper)


def _rows(program: KinkedProgram) -> FloatArray:
    """The transpose of A."""
    rows, X = program.rows, program.dense_rows
    assert X is not None
    parts = [np.hstack([X, np.ones((rows.n, 1))]) if rows.fit_intercept else X]
    parts += [sign * np.eye(rows.d, rows.d + rows.fit_intercept) for sign in rows.signs]
    return np.vstack(parts).T


def _compressed(left: FloatArray, below: Array, values: FloatArray | float, shape: tuple[int, int]) -> sp.csc_matrix:
    """A matrix whose first columns are the rows of ``left``; each other one has one entry, in a row of ``below``."""
    column, row = np.nonzero(left)
    starts = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=left.shape[0]))])
    indptr = np.concatenate([starts, starts[-1] + np.arange(1, below.size + 1)]).astype(np.int32)
    indices = np.concatenate([row, below]).astype(np.int32)
    data = np.concatenate([left[column, row], np.broadcast_to(values, below.shape)])
    return sp.csc_matrix((data, indices, indptr), shape=shape)


def _slopes(u: FloatArray, v: FloatArray, caps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Slopes that sum to their caps; the smaller one of a pair is taken as it is."""
    is_high = u > v
    small = np.clip(np.where(is_high, v, u), 0.0, caps)
    return np.where(is_high, caps - small, small), np.where(is_high, small, caps - small)
