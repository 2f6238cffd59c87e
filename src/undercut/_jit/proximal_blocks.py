"""Dual sweeps for the Crammer-Singer loss with absolute values in the penalty: one sample's classes at a time.

``Q[i]`` is a point of the simplex ``{q >= 0, sum_k q_k = cap_i}``, and U holds the forces on the parameters, one row
per feature: ``w = scale soft(U, l1)`` with ``soft(u, l1) = sign(u) max(|u| - l1, 0)``.  With a positive ``constant``
the last row of U belongs to the free intercepts, for which l1 is zero.
"""

from __future__ import annotations

import numpy as np

from undercut._jit.class_blocks import project
from undercut._jit.compile import njit
from undercut._jit.dual_coordinate import ROW_COST
from undercut._jit.rows import row

TINY = 1e-300  # stands for the squared length of an empty row
SPARE = 0.05  # share of a row's square that is added to that of its parameters in use: others may join them in a move


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def sweep_soft(
    dense, indptr, columns, values, constant, squares, y, costs, cap, order, classes, counts, l1, scale, Q, U, total
):  # fmt: skip
    """Move the shares of the samples in ``order`` to their optima, one after the other; updates Q and U.

    A parameter that absolute values keep at zero does not bend the dual: the square of a row is that of its other
    entries.
    ``classes[i, :counts[i]]`` are the classes whose shares move, in ascending order; their shares are added to
    ``total``.  Returns the work.
    """
    width, n_classes = np.uint64(columns.size), costs.shape[0]
    g, q, moved, bends = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    which, work = np.empty(n_classes, np.int32), 0
    for i in order:
        start, stop, offset = row(dense, indptr, width, np.uint64(i))
        count, mine = counts[i], classes[i]
        work += (ROW_COST + np.int64(stop - start)) * count
        _scores(values, columns, start, stop, offset, mine, count, l1, U, g, bends)
        bend = SPARE * squares[i] + constant * constant
        bend = min(bend + bends[:count].max(), squares[i])
        for m in range(count):
            k = mine[m]
            if constant > 0.0:
                g[m] += constant * U[U.shape[0] - 1, k]
            g[m] = costs[y[i], k] + scale * g[m]
            q[m] = Q[i, k]
        project(g, q, count, max(scale * bend, TINY), cap[i], moved)
        n_moved = 0
        for m in range(count):
            k = mine[m]
            if moved[m] != 0.0:
                Q[i, k] = q[m] + moved[m]
                which[n_moved], moved[n_moved] = k, moved[m]
                n_moved += 1
            total[i, k] += Q[i, k]
        if n_moved:
            _push(values, columns, start, stop, offset, constant, which, n_moved, moved, U)
    return work


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _scores(values, columns, start, stop, offset, mine, count, l1, U, g, bends):
    """``g_m = <soft(U[:, mine_m], l1), x>``, and the square of the entries of x whose factor may move from zero."""
    if count == U.shape[1]:  # all classes: contiguous reads
        g[:count] = 0.0
        bends[:count] = 0.0
        for j in range(start, stop):
            x, at = np.float64(values[j]), np.uint64(columns[j - offset])
            for k in range(count):
                u = U[at, k]
                w = u - min(max(u, -l1), l1)
                g[k] += x * w
                bends[k] += x * x if abs(u) >= l1 else 0.0
        return
    for m in range(count):
        k, total, bend = np.uint64(mine[m]), 0.0, 0.0
        for j in range(start, stop):
            x, u = np.float64(values[j]), U[np.uint64(columns[j - offset]), k]
            w = u - min(max(u, -l1), l1)
            total += x * w
            bend += x * x if abs(u) >= l1 else 0.0
        g[m], bends[m] = total, bend


@njit(cache=True, nogil=True)
def _push(values, columns, start, stop, offset, constant, which, count, moved, U):
    """``U[:, which_m] -= moved_m x``."""
    if constant > 0.0:
        for m in range(count):
            U[U.shape[0] - 1, which[m]] -= moved[m] * constant
    for j in range(start, stop):
        x, at = np.float64(values[j]), np.uint64(columns[j - offset])
        for m in range(count):
            U[at, np.uint64(which[m])] -= moved[m] * x


@njit(cache=True, nogil=True)
def move_center(l1, scale, weight, length, C, U, total):
    """``C += length (w - C)``, and the forces with it; w is added to ``total``.

    ``l1`` and ``weight``, that of the square of ``w - C``, are one number per row.
    """
    for j in range(C.shape[0]):
        for k in range(C.shape[1]):
            u = U[j, k]
            w = scale * (u - min(max(u, -l1[j]), l1[j]))
            total[j, k] += w
            move = length * (w - C[j, k])
            U[j, k] += weight[j] * move
            C[j, k] += move


@njit(cache=True, nogil=True)
def average_shares(order, classes, counts, n_sweeps, Q, total):
    """Turn the sums over some sweeps into averages; shares that did not move are those of Q."""
    summed = np.empty(Q.shape[1])
    still = np.ones(Q.shape[0], np.bool_)
    still[order] = False
    for i in range(Q.shape[0]):
        summed[:] = total[i]
        total[i] = Q[i]
        if not still[i]:
            for m in range(counts[i]):
                k = classes[i, m]
                total[i, k] = summed[k] / n_sweeps


@njit(cache=True, nogil=True)
def choose_classes(G, Q, reach, classes, counts):
    """The classes with a share, and those whose g is at most ``reach_i`` below the largest one, in ascending order."""
    for i in range(G.shape[0]):
        low, count = G[i].max() - reach[i], 0
        for k in range(G.shape[1]):
            if Q[i, k] > 0.0 or G[i, k] >= low:
                classes[i, count] = k
                count += 1
        counts[i] = count


@njit(cache=True, nogil=True)
def row_peaks(V, norms, size, rounding, peaks):
    """``peaks_j = max_k |V_jk| + rounding norms_j size_k``."""
    for j in range(V.shape[0]):
        slack, peak = rounding * norms[j], 0.0
        for k in range(V.shape[1]):
            peak = max(peak, abs(V[j, k]) + slack * size[k])
        peaks[j] = peak


@njit(cache=True, nogil=True)
def square_beyond(V, norms, size, rounding, peaks, share, l1):
    """``sum_jk max(share (|V_jk| + rounding norms_j size_k) - l1, 0)^2``; rows within l1 are not read."""
    total = 0.0
    for j in range(V.shape[0]):
        if share * peaks[j] <= l1:
            continue
        slack, of_row = rounding * norms[j], 0.0
        for k in range(V.shape[1]):
            over = max(share * (abs(V[j, k]) + slack * size[k]) - l1, 0.0)
            of_row += over * over
        total += of_row
    return total


@njit(cache=True, nogil=True)
def column_sizes(indptr, indices, data, weight, out):
    """``out_j = sum_i weight_i |x_ij|``."""
    out[:] = 0.0
    for i in range(np.uint64(weight.size)):
        if weight[i] > 0.0:
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])):
                out[np.uint64(indices[k])] += weight[i] * abs(np.float64(data[k]))
