"""Conjugate gradients for the dual variables strictly inside their intervals."""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit
from undercut._jit.dual_coordinate import CURVATURE, RIDGE, TARGET, add_row, product
from undercut._jit.rows import row


@njit(cache=True, nogil=True)
def face_residual(dense, indptr, columns, values, constant, terms, zone, face, a, v, b, residual):
    """Minus the derivative of the dual's negative for the samples ``face``."""
    width = np.uint64(columns.size)
    for m in range(face.size):
        i = np.uint64(face[m])
        start, stop, offset = row(dense, indptr, width, i)
        score = b + product(values, columns, start, stop, offset, constant, v)
        residual[m] = terms[i, TARGET] - score - terms[i, RIDGE] * a[i] - zone * np.sign(a[i])


@njit(cache=True, nogil=True)
def face_steps(
    dense, indptr, columns, values, constant, terms, rho, face, change, residual, direction, along, goal, max_steps
):
    """Conjugate gradient steps with the matrix ``X_F X_F' + rho 1 1' + diag(ridge_F)``; updates the three vectors.

    ``along`` : float64 array of the length of v, overwritten.  Returns (steps taken, whether to end: the squared
    residual is at most ``goal``, or the matrix singular but for rounding).
    """
    width = np.uint64(columns.size)
    image = np.empty(face.size)
    size = np.dot(residual, residual)
    for step in range(max_steps):
        if size <= goal:
            return step, True
        along[:] = 0.0
        add_rows(dense, indptr, columns, values, constant, face, direction, along)
        total = rho * direction.sum()
        for m in range(face.size):
            i = np.uint64(face[m])
            start, stop, offset = row(dense, indptr, width, i)
            image[m] = product(values, columns, start, stop, offset, constant, along)
            image[m] += total + terms[i, RIDGE] * direction[m]
        moved, size = conjugate_step(image, change, residual, direction, size)
        if not moved:
            return step, True
    return max_steps, size <= goal


@njit(cache=True, nogil=True)
def conjugate_step(image, change, residual, direction, size):
    """One step of conjugate gradients, given the matrix times ``direction``; updates the three vectors.

    Returns (whether it moved: not where the matrix is singular but for rounding, squared residual).
    """
    curvature = np.dot(direction, image)
    if not curvature > 0.0:
        return False, size
    far = size / curvature
    change += far * direction
    residual -= far * image
    rest = np.dot(residual, residual)
    direction *= rest / size
    direction += residual
    return True, rest


@njit(cache=True, nogil=True)
def add_rows(dense, indptr, columns, values, constant, chosen, shares, v):
    """``v += sum_m shares_m x_chosen_m``."""
    width = np.uint64(columns.size)
    for m in range(chosen.size):
        start, stop, offset = row(dense, indptr, width, np.uint64(chosen[m]))
        add_row(values, columns, start, stop, offset, constant, shares[m], v)


@njit(cache=True, nogil=True)
def lift(dense, indptr, columns, values, constant, terms, chosen, b, v):
    """Add multiples of the samples' rows to v until each, in its turn, has the score of its target at least.

    For targets of either sign "at least" means in the direction of the sign.
    """
    width = np.uint64(columns.size)
    for m in range(chosen.size):
        i = np.uint64(chosen[m])
        start, stop, offset = row(dense, indptr, width, i)
        lack = terms[i, TARGET] - b - product(values, columns, start, stop, offset, constant, v)
        if lack * terms[i, TARGET] > 0.0:
            add_row(values, columns, start, stop, offset, constant, lack / terms[i, CURVATURE], v)
