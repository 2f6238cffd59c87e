"""From a point near the end of the central path to the optimum itself, where it is known which kinks are met.

A kink is met if its slope is between its limits and its slack is zero; else its slope is one of the limits.  What is
left are linear equations for the parameters w_F that are at no kink of their own, the intercept b, and the slopes u of
the kinks that are met:

    l2_F (w_F - center_F) + (A' g)_F = 0,      sum g = 0,      A_k x - soft_k u_k = kink_k       (g = left + sum_k u_k)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lstsq

from undercut.solvers.newton.interior.kinked_program import KinkedProgram
from undercut.solvers.newton.interior.mehrotra import Iterate
from undercut.types import Array, FloatArray

MANY = 1000  # parameters with a square above which they are eliminated: dense equations would take seconds
RANK = 1e-13  # relative size of what counts as zero in the equations


class Met(NamedTuple):
    """Which kinks are met, and the slopes of all: those of met kinks as they are, the others at their limit."""

    which: Array  # (K, N) bool
    u: FloatArray  # (K, N)
    v: FloatArray  # (K, N), caps - u


def crossed(program: KinkedProgram, at: Iterate) -> Iterate | None:
    """The iterate that solves the equations; ``None`` where X is not at hand as an array."""
    if program.dense_rows is None:
        return None
    met = _met(program, at)
    x = _at_kinks(program, at.x, met)
    return _solved(program, at, x, met, program.dense_rows)


def n_free(program: KinkedProgram, at: Iterate) -> int:
    """How many parameters are at no kink of their own."""
    return int(_free(program, _met(program, at)).sum())


def _free(program: KinkedProgram, met: Met) -> Array:
    return np.asarray(~program.rows.on_parameters(np.asarray(met.which.any(axis=0))).any(axis=0))


def _met(program: KinkedProgram, at: Iterate) -> Met:
    caps, (t, r, u, v) = program.kinks.caps, at.inside
    size = np.full(at.scores.size, float(np.abs(at.scores[: program.rows.n]).max(initial=0.0)))
    size[program.rows.n :] = float(np.abs(at.scores[program.rows.n :]).max(initial=0.0))
    limits = np.minimum(caps, program.share.max(initial=0.0))  # a bound is met at any slope above zero
    which = (caps > 0.0) & (np.minimum(u, v) * size > np.maximum(t, r) * limits)
    if program.kinks.soft.any():
        which |= (program.kinks.soft > 0.0) & (np.minimum(u, v) > 1e-6 * caps)
    return Met(which, *(np.where(which, own, np.where(own > other, caps, 0.0)) for own, other in ((u, v), (v, u))))


def _at_kinks(program: KinkedProgram, x: FloatArray, met: Met) -> FloatArray:
    """x with the parameters at the kinks of their own that are met."""
    rows, x = program.rows, x.copy()
    for k in range(met.which.shape[0]):
        own, places = rows.on_parameters(met.which[k]), rows.on_parameters(program.kinks.kinks[k])
        for sign, here, place in zip(rows.signs, own, places, strict=True):
            x[: rows.d][here] = sign * place[here]
    return x


def _solved(program: KinkedProgram, at: Iterate, x: FloatArray, met: Met, X: FloatArray) -> Iterate:
    rows, n, d = program.rows, program.rows.n, program.rows.d
    k, i = np.nonzero(met.which[:, :n])
    columns = np.append(np.flatnonzero(_free(program, met)), [d] if rows.fit_intercept else []).astype(np.intp)
    A = np.column_stack([X, np.ones(n)])[np.ix_(i, columns)] if i.size else np.zeros((0, columns.size))

    # The equations at x and u, in units in which slopes are as large as parameters.
    g = program.slopes(met.u, met.v)
    force = (program.gradient(x) + rows.rmatvec(g))[columns]
    miss = rows.matvec(x)[i] - program.kinks.kinks[k, i] - program.kinks.soft[k, i] * met.u[k, i]
    unit = float(np.abs(met.u[k, i]).max(initial=0.0)) or 1.0
    squares, soft = np.append(program.squares, 0.0)[columns] / unit, program.kinks.soft[k, i] * unit
    dx, du = _least_change(A, squares, soft, force / unit, miss)
    x[columns] -= dx
    u, v, change = met.u.copy(), met.v.copy(), -unit * du
    u[k, i] = np.clip(u[k, i] + change, 0.0, program.kinks.caps[k, i])
    v[k, i] = np.clip(v[k, i] - change, 0.0, program.kinks.caps[k, i])
    return at._replace(x=x, scores=rows.matvec(x), inside=np.array([*at.inside[:2], u, v]))


def _least_change(
    A: FloatArray, squares: FloatArray, soft: FloatArray, force: FloatArray, miss: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The shortest solution of ``squares dx + A' du = force`` and ``A dx - soft du = miss``."""
    if not squares.any() and not soft.any():
        return _shortest(A, miss), _shortest(A.T, force)
    if np.count_nonzero(squares) > MANY:
        return _least_change_of_few(A, squares, soft, force, miss)
    M = np.block([[np.diag(squares), A.T], [A, -np.diag(soft)]])
    both = _shortest(M, np.concatenate([force, miss]))
    return both[: squares.size], both[squares.size :]


def _least_change_of_few(
    A: FloatArray, squares: FloatArray, soft: FloatArray, force: FloatArray, miss: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The same without the parameters that have a square, which follow from du: ``dx = (force - A' du) / squares``."""
    own, few = squares > 0.0, squares == 0.0
    scaled = A[:, own] / squares[own]
    M = np.block(
        [[np.zeros((few.sum(), few.sum())), A[:, few].T], [A[:, few], -(scaled @ A[:, own].T) - np.diag(soft)]]
    )
    both = _shortest(M, np.concatenate([force[few], miss - scaled @ force[own]]))
    dx, du = np.empty_like(squares), both[np.count_nonzero(few) :]
    dx[few] = both[: np.count_nonzero(few)]
    dx[own] = (force[own] - A[:, own].T @ du) / squares[own]
    return dx, du


def _shortest(M: FloatArray, b: FloatArray) -> FloatArray:
    if not M.size:
        return np.zeros(M.shape[1])
    found: FloatArray = lstsq(M, b, cond=RANK, lapack_driver="gelsy", check_finite=False)[0]
    return found
