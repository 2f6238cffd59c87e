"""Conjugate gradients for the dual variables strictly inside their intervals."""

from __future__ import annotations

import numpy as np
from numba import njit

from undercut._jit.dual_coordinate import RIDGE, TARGET, add_row, product, row


@njit(cache=True)
def face_direction(dense, indptr, columns, values, constant, terms, zone, rho, face, a, v, b, max_steps, accuracy):
    """The change of ``a[face]`` that maximizes the dual without its bounds, by conjugate gradients.

    The residual is minus the derivative; the matrix ``X_F X_F' + rho 1 1' + diag(ridge_F)``.  Ends when the residual
    has shrunk to the share ``accuracy``, or after ``max_steps``.  Returns (change, number of steps).
    """
    width, n = np.uint64(columns.size), face.size
    change, residual, image = np.zeros(n), np.empty(n), np.empty(n)
    for m in range(n):
        i = np.uint64(face[m])
        start, stop, offset = row(dense, indptr, width, i)
        score = b + product(values, columns, start, stop, offset, constant, v)
        residual[m] = terms[i, TARGET] - score - terms[i, RIDGE] * a[i] - zone * np.sign(a[i])
    direction, along = residual.copy(), np.empty_like(v)
    size = np.dot(residual, residual)
    goal, steps = accuracy * accuracy * size, 0
    while steps < max_steps and size > goal:
        along[:] = 0.0
        add_rows(dense, indptr, columns, values, constant, face, direction, along)
        total = rho * direction.sum()
        for m in range(n):
            i = np.uint64(face[m])
            start, stop, offset = row(dense, indptr, width, i)
            image[m] = product(values, columns, start, stop, offset, constant, along)
            image[m] += total + terms[i, RIDGE] * direction[m]
        curvature = np.dot(direction, image)
        if not curvature > 0.0:  # rounding, or nothing but empty rows
            break
        far = size / curvature
        change += far * direction
        residual -= far * image
        last, size = size, np.dot(residual, residual)
        direction *= size / last
        direction += residual
        steps += 1
    return change, steps


@njit(cache=True)
def add_rows(dense, indptr, columns, values, constant, chosen, shares, v):
    """``v += sum_m shares_m x_chosen_m``."""
    width = np.uint64(columns.size)
    for m in range(chosen.size):
        start, stop, offset = row(dense, indptr, width, np.uint64(chosen[m]))
        add_row(values, columns, start, stop, offset, constant, shares[m], v)
