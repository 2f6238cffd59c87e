"""Products with a CSR matrix of any index and float width, accumulated in float64."""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit


@njit(cache=True, nogil=True)
def matvec(indptr, indices, data, w, out):
    """``out = X w``."""
    for i in range(np.uint64(out.size)):  # unsigned indices need no wrap-around test
        total = 0.0
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])):
            total += data[k] * w[np.uint64(indices[k])]
        out[i] = total


@njit(cache=True, nogil=True)
def half_gram(indptr, indices, data, g, start, stop, out, diagonal):
    """``X' diag(g) X`` of the rows ``start : stop`` is ``out + out' + diag(diagonal)``, each product counted once."""
    out[:] = 0.0
    diagonal[:] = 0.0
    for i in range(np.uint64(start), np.uint64(stop)):
        if g[i] == 0.0:
            continue
        first = np.uint64(indptr[i])
        for k in range(first, np.uint64(indptr[i + np.uint64(1)])):
            column, weight = np.uint64(indices[k]), data[k] * g[i]
            row = out[column]
            for m in range(first, k):
                row[np.uint64(indices[m])] += weight * data[m]
            diagonal[column] += weight * data[k]


@njit(cache=True, nogil=True)
def partial_half_gram(indptr, indices, data, g, slot, start, stop, out, diagonal):
    """The same for the columns with a slot, which is where they stand in the result; -1 for all others."""
    longest = 0
    for i in range(start, stop):
        longest = max(longest, indptr[i + 1] - indptr[i])
    places, values = np.empty(longest + 1, np.uint64), np.empty(longest + 1)
    out[:] = 0.0
    diagonal[:] = 0.0
    for i in range(np.uint64(start), np.uint64(stop)):
        if g[i] == 0.0:
            continue
        count = np.uint64(0)
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])):
            at = slot[np.uint64(indices[k])]
            places[count] = np.uint64(at)  # overwritten where the column has no slot: a branch would be slower
            values[count] = data[k]
            count += np.uint64(at >= 0)
        for k in range(count):
            column, weight = places[k], values[k] * g[i]
            row = out[column]
            for m in range(k):
                row[places[m]] += weight * values[m]
            diagonal[column] += weight * values[k]


@njit(cache=True, nogil=True)
def gram_product(indptr, indices, data, g, v, out):
    """``out = X' diag(g) X v``; a row is read from memory once, and not at all where ``g = 0``."""
    out[:] = 0.0
    for i in range(np.uint64(g.size)):
        weight = g[i]
        if weight == 0.0:
            continue
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])
        total = 0.0
        for k in range(start, stop):
            total += data[k] * v[np.uint64(indices[k])]
        total *= weight
        for k in range(start, stop):
            out[np.uint64(indices[k])] += data[k] * total


@njit(cache=True, nogil=True)
def squared_rmatvec(indptr, indices, data, g, out):
    """``out_j = sum_i g_i x_ij^2``."""
    out[:] = 0.0
    for i in range(np.uint64(g.size)):
        weight = g[i]
        if weight == 0.0:
            continue
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])):
            out[np.uint64(indices[k])] += weight * data[k] * data[k]


@njit(cache=True, nogil=True)
def rmatvec(indptr, indices, data, g, rows, out):
    """``out = X' g``; rows with ``g = 0`` are not read, which is most of them where a margin loss is zero.

    ``rows`` is room for their numbers.
    """
    count = np.uint64(0)
    for i in range(np.uint64(g.size)):  # a branch per row would cost more than this list
        rows[count] = i
        count += np.uint64(g[i] != 0.0)
    out[:] = 0.0
    for r in range(count):
        i = rows[r]
        weight = g[i]
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])):
            out[np.uint64(indices[k])] += data[k] * weight


@njit(cache=True, nogil=True)
def matmat(indptr, indices, data, W, out):
    """``out = X W`` for a W with as many rows as X has columns."""
    one, step = np.uint64(1), np.uint64(4)  # a row of scores is read and written once for four entries of X
    out[:] = 0.0
    for i in range(np.uint64(out.shape[0])):
        row = out[i]
        k, stop = np.uint64(indptr[i]), np.uint64(indptr[i + one])
        while k + step <= stop:
            v0, v1, v2, v3 = data[k], data[k + one], data[k + np.uint64(2)], data[k + np.uint64(3)]
            w0, w1 = W[np.uint64(indices[k])], W[np.uint64(indices[k + one])]
            w2, w3 = W[np.uint64(indices[k + np.uint64(2)])], W[np.uint64(indices[k + np.uint64(3)])]
            for c in range(row.size):
                row[c] += v0 * w0[c] + v1 * w1[c] + v2 * w2[c] + v3 * w3[c]
            k += step
        for e in range(k, stop):
            value, w = data[e], W[np.uint64(indices[e])]
            for c in range(row.size):
                row[c] += value * w[c]


@njit(cache=True, nogil=True)
def rmatmat(indptr, indices, data, G, out):
    """``out = X' G``; only the entries of G that are not zero are visited, of which a margin loss has few."""
    columns = np.empty(G.shape[1], np.uint64)
    out[:] = 0.0
    for i in range(np.uint64(G.shape[0])):
        g = G[i]
        count = np.uint64(0)
        for c in range(np.uint64(g.size)):
            columns[count] = c
            count += np.uint64(g[c] != 0.0)
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])
        if count == g.size:  # a loop without a list is a vector loop
            for k in range(start, stop):
                value, row = data[k], out[np.uint64(indices[k])]
                for c in range(g.size):
                    row[c] += value * g[c]
        elif count == 2:  # the own class and the worst one
            first, second = columns[0], columns[1]
            up, down = g[first], g[second]
            for k in range(start, stop):
                value, at = data[k], np.uint64(indices[k])
                out[at, first] += value * up
                out[at, second] += value * down
        elif count > 0:
            for k in range(start, stop):
                value, row = data[k], out[np.uint64(indices[k])]
                for m in range(count):
                    row[columns[m]] += value * g[columns[m]]


@njit(cache=True, nogil=True)
def count_columns(indices, counts):
    """Add the number of entries of every column to ``counts``."""
    for column in indices:
        counts[np.uint64(column)] += 1


@njit(cache=True, nogil=True)
def fill_columns(indptr, indices, data, position, rows, values):
    """Copy X by columns; ``position`` holds where the next entry of each column goes, and is overwritten."""
    for i in range(np.uint64(indptr.size - 1)):
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + np.uint64(1)])):
            at = np.uint64(indices[k])
            to = np.uint64(position[at])
            rows[to] = i
            values[to] = data[k]
            position[at] = to + np.uint64(1)
