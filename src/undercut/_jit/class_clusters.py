"""Steps of several samples of the Crammer-Singer loss together, where rows of different classes are nearly equal.

If x_i and x_j are a distance d apart, their dual variables grow to about ``1 / d^2``, and sweeps over one sample at a
time take as many visits.  The samples of a cluster see each other's moves through their inner products instead of X.
"""

from __future__ import annotations

import numpy as np

from undercut._jit.class_blocks import TINY, project, scores, subtract
from undercut._jit.compile import njit
from undercut._jit.dual_coordinate import add_row, product
from undercut._jit.rows import row

INNER = 100  # rounds over a cluster in one visit
FARTHEST = 1e4  # multiple of a round's move that a search may add: rounding grows as much
ENOUGH = 1e-3  # share of the growth of the first round, below which they end


@njit(cache=True, nogil=True)
def contradictions(dense, indptr, columns, values, constant, squares, y, chosen, cosine, largest, width):
    """The cluster of each of the ``chosen`` samples, named by the position of one of its members in them.

    Two samples belong together where ``|<x_i, x_j>| >= cosine |x_i| |x_j|`` and no w can fit both: nearly equal rows of
    different classes, or nearly opposite rows of the same.  No cluster has more than ``largest`` samples.
    ``width`` : number of features.
    """
    n_columns, along = np.uint64(columns.size), np.zeros(width)
    name, sizes = np.arange(chosen.size), np.ones(chosen.size, np.int64)
    for p in range(chosen.size):
        i = chosen[p]
        start, stop, offset = row(dense, indptr, n_columns, np.uint64(i))
        add_row(values, columns, start, stop, offset, constant, 1.0, along)
        for q in range(p + 1, chosen.size):
            j = chosen[q]
            first, last, skip = row(dense, indptr, n_columns, np.uint64(j))
            both = product(values, columns, first, last, skip, constant, along)
            if both == 0.0 or (both > 0.0) == (y[i] == y[j]) or both * both < cosine**2 * squares[i] * squares[j]:
                continue
            one, other = name[p], name[q]
            if one != other and sizes[one] + sizes[other] <= largest:
                sizes[one] += sizes[other]
                for r in range(chosen.size):
                    if name[r] == other:
                        name[r] = one
        along[:] = 0.0
    return name


@njit(cache=True, nogil=True)
def cluster_grams(dense, indptr, columns, values, constant, members, starts, width, grams):
    """Fill ``grams`` with the inner products of the rows of each cluster, one cluster after the other."""
    n_columns, along, at = np.uint64(columns.size), np.zeros(width), 0
    for c in range(starts.size - 1):
        mine = members[starts[c] : starts[c + 1]]
        for i in mine:
            start, stop, offset = row(dense, indptr, n_columns, np.uint64(i))
            add_row(values, columns, start, stop, offset, constant, 1.0, along)
            for j in mine:
                start, stop, offset = row(dense, indptr, n_columns, np.uint64(j))
                grams[at] = product(values, columns, start, stop, offset, constant, along)
                at += 1
            along[:] = 0.0


@njit(cache=True, nogil=True)
def sweep_clusters(
    dense, indptr, columns, values, constant, y, costs, cap, members, starts, offsets, grams, counts, A, V
):  # fmt: skip
    """Maximize the dual over the samples of one cluster after the other; updates A and V.

    All of their classes become active: ``counts`` is that of ``sweep_classes``.

    Returns the growth of the dual.
    """
    width, n_classes = np.uint64(columns.size), costs.shape[0]
    every, total = np.arange(n_classes).astype(np.int32), np.empty(n_classes)
    grown = 0.0
    for c in range(starts.size - 1):
        mine = members[starts[c] : starts[c + 1]]
        gram = grams[offsets[c] : offsets[c + 1]].reshape(mine.size, mine.size)
        g, q = np.empty((mine.size, n_classes)), np.empty((mine.size, n_classes))
        for m in range(mine.size):
            i = mine[m]
            for k in range(n_classes):
                g[m, k] = costs[y[i], k] + constant * V[V.shape[0] - 1, k]
                q[m, k] = (cap[i] if k == y[i] else 0.0) - A[i, k]
            start, stop, offset = row(dense, indptr, width, np.uint64(i))
            scores(values, columns, start, stop, offset, every, n_classes, V, total, g[m])
        last = q.copy()
        grown += _climb(gram, g, q, cap[mine])
        for m in range(mine.size):
            start, stop, offset = row(dense, indptr, width, np.uint64(mine[m]))
            last[m] -= q[m]
            A[mine[m]] += last[m]
            counts[mine[m]] = n_classes
            subtract(values, columns, start, stop, offset, constant, every, n_classes, -last[m], V)
    return grown


@njit(cache=True, nogil=True)
def _climb(gram, g, q, cap):
    """Maximize over the shares q; updates g and q, and returns the growth of the dual.

    Each round over the samples is followed by a search on the line that it moved on: the slow direction of two nearly
    equal rows is soon all that a round moves along.
    """
    size, n_classes = g.shape
    moved, before = np.empty(n_classes), np.empty_like(q)
    first, grown = 0.0, 0.0
    for _ in range(INNER):
        growth = 0.0
        before[:] = q
        for m in range(size):
            project(g[m], q[m], n_classes, max(gram[m, m], TINY), cap[m], moved)
            for k in range(n_classes):
                growth += moved[k] * (g[m, k] - 0.5 * gram[m, m] * moved[k])
            q[m] += moved
            for other in range(size):
                g[other] -= gram[m, other] * moved
        before -= q
        growth += _beyond(gram, before, g, q)
        grown += growth
        first = max(first, growth)
        if growth <= ENOUGH * first:
            break
    return grown


@njit(cache=True, nogil=True)
def _beyond(gram, back, g, q):
    """Go on by the best multiple of ``-back`` that leaves no share negative; updates all three, returns the growth."""
    size, n_classes = g.shape
    slope, bend, farthest = 0.0, 0.0, np.inf
    turned = np.zeros_like(g)
    for m in range(size):  # shares keep their sum, but for rounding, which a large multiple would make larger
        back[m, np.argmax(q[m])] -= back[m].sum()
    for m in range(size):
        for other in range(size):
            turned[m] += gram[m, other] * back[other]
        for k in range(n_classes):
            slope -= back[m, k] * g[m, k]
            bend += back[m, k] * turned[m, k]
            if back[m, k] > 0.0:
                farthest = min(farthest, q[m, k] / back[m, k])
    if not slope > 0.0:
        return 0.0
    far = min(farthest, FARTHEST, slope / bend if bend > 0.0 else FARTHEST)
    for m in range(size):
        for k in range(n_classes):
            q[m, k] = max(0.0, q[m, k] - far * back[m, k])
            g[m, k] += far * turned[m, k]
    return far * (slope - 0.5 * far * bend)
