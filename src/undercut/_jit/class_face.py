"""Conjugate gradients for the classes with a share strictly inside the simplex of their sample.

Entry e is class k of sample ``owner[e]``, for ``starts[k] <= e < starts[k + 1]``: class by class, because the weights
of one class fit into a cache where those of all do not.  The shares of a sample keep their sum, so that every vector
over the entries has mean zero for each sample.
"""

from __future__ import annotations

import numpy as np

from undercut._jit.class_blocks import project, scores, subtract
from undercut._jit.compile import njit
from undercut._jit.dual_coordinate import add_row, product
from undercut._jit.dual_face import conjugate_step
from undercut._jit.rows import row


@njit(cache=True, nogil=True)
def class_residual(dense, indptr, columns, values, constant, y, costs, owner, starts, counts, V, residual):
    """The derivatives of the dual, ``label_loss[y_i, k] + <V[:, k], x_i>``, less their mean for each sample.

    ``counts`` : how many entries every sample has.
    """
    width = np.uint64(columns.size)
    for k in range(starts.size - 1):
        along = V[:, k].copy()
        for e in range(starts[k], starts[k + 1]):
            start, stop, offset = row(dense, indptr, width, np.uint64(owner[e]))
            residual[e] = costs[y[owner[e]], k] + product(values, columns, start, stop, offset, constant, along)
    _center(owner, counts, residual)


@njit(cache=True, nogil=True)
def class_steps(
    dense, indptr, columns, values, constant, owner, starts, counts, change, residual, direction, along, goal, max_steps
):  # fmt: skip
    """Conjugate gradient steps with the matrix ``X_F X_F'`` of mean zero; updates the three vectors.

    ``along`` : float64 array of the weights of one class, overwritten.  Returns (steps taken, whether to end: the
    squared residual is at most ``goal``, or the matrix singular but for rounding).
    """
    image = np.empty(owner.size)
    size = np.dot(residual, residual)
    for step in range(max_steps):
        if size <= goal:
            return step, True
        _multiply(dense, indptr, columns, values, constant, owner, starts, direction, along, image)
        _center(owner, counts, image)
        moved, size = conjugate_step(image, change, residual, direction, size)
        if not moved:
            return step, True
    return max_steps, size <= goal


@njit(cache=True, nogil=True)
def _multiply(dense, indptr, columns, values, constant, owner, starts, direction, along, image):
    """``image = X_F X_F' direction``."""
    width = np.uint64(columns.size)
    for k in range(starts.size - 1):
        along[:] = 0.0
        for e in range(starts[k], starts[k + 1]):
            start, stop, offset = row(dense, indptr, width, np.uint64(owner[e]))
            add_row(values, columns, start, stop, offset, constant, direction[e], along)
        for e in range(starts[k], starts[k + 1]):
            start, stop, offset = row(dense, indptr, width, np.uint64(owner[e]))
            image[e] = product(values, columns, start, stop, offset, constant, along)


@njit(cache=True, nogil=True)
def _center(owner, counts, vector):
    """Subtract the mean of every sample's entries."""
    means = np.zeros(counts.size)
    for e in range(owner.size):
        means[owner[e]] += vector[e] / counts[owner[e]]
    for e in range(owner.size):
        vector[e] -= means[owner[e]]


@njit(cache=True, nogil=True)
def project_shares(counts, shares, change):
    """Move the shares by ``change`` and project those of each sample on the simplex of their sum; updates ``change``.

    Entries are ordered by samples here.
    """
    first = 0
    for i in range(counts.size):
        last = first + counts[i]
        if last > first:
            own = shares[first:last]
            project(change[first:last].copy(), own, own.size, 1.0, own.sum(), change[first:last])
        first = last


@njit(cache=True, nogil=True)
def add_class_rows(dense, indptr, columns, values, constant, owner, starts, shares, V):
    """``V[:, k] += shares_e x`` for the entries e of every class k."""
    width = np.uint64(columns.size)
    for k in range(starts.size - 1):
        along = V[:, k].copy()
        for e in range(starts[k], starts[k + 1]):
            start, stop, offset = row(dense, indptr, width, np.uint64(owner[e]))
            add_row(values, columns, start, stop, offset, constant, shares[e], along)
        V[:, k] = along


@njit(cache=True, nogil=True)
def lift_classes(dense, indptr, columns, values, constant, squares, y, costs, chosen, V):
    """Add multiples of the samples' rows to V until each, in its turn, has no loss.

    A sample moves the weights of its own class and of the one whose margin is violated most.
    """
    width, n_classes = np.uint64(columns.size), costs.shape[0]
    every, g, total = np.arange(n_classes).astype(np.int32), np.empty(n_classes), np.empty(n_classes)
    which, moved = np.empty(2, np.int32), np.empty(2)
    for i in chosen:
        start, stop, offset = row(dense, indptr, width, np.uint64(i))
        for k in range(n_classes):
            g[k] = costs[y[i], k] + constant * V[V.shape[0] - 1, k]
        scores(values, columns, start, stop, offset, every, n_classes, V, total, g)
        top = np.argmax(g)
        lack = g[top] - g[y[i]]
        if lack > 0.0 and squares[i] > 0.0:
            which[0], which[1] = top, y[i]
            moved[0], moved[1] = 0.5 * lack / squares[i], -0.5 * lack / squares[i]
            subtract(values, columns, start, stop, offset, constant, which, 2, moved, V)
