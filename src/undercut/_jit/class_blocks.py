"""Sweeps of dual coordinate descent for the Crammer-Singer loss: one sample's classes at a time (Keerthi et al. 2008).

``A[i, k] = cap_i [k = y_i] - q_k`` with ``q >= 0`` and ``sum_k q_k = cap_i``, and ``V = X' A`` holds the weights of all
classes, one row per feature.  The optimal q of one sample is the projection of ``q + g / |x_i|^2`` on that simplex,
where ``g_k = label_loss[y_i, k] + <V[:, k], x_i>``.
"""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit
from undercut._jit.dual_coordinate import ROW_COST
from undercut._jit.rows import row

TINY = 1e-300  # stands for the squared length of an empty row


@njit(cache=True, nogil=True)
def sweep_classes(
    dense, indptr, columns, values, constant, squares, y, costs, cap,
    order, begin, active, classes, counts, relax, budget, A, V,
):  # fmt: skip
    """Visit ``order[begin:active]`` until the work exceeds ``budget``; updates order, classes, counts, A and V.

    ``classes[i, :counts[i]]`` are the active classes of sample i; one without share of q and with a g below that of all
    that have some is left out, and a sample with one class left likewise.  ``relax`` : below 2; what the squared length
    of a row is divided by for a move.
    Returns (position, active, largest difference of g that a move can use, growth of the dual, the sum of what all
    visited samples could gain, work).
    """
    width, n_classes = np.uint64(columns.size), costs.shape[0]
    g, q, moved = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    which, total = np.empty(n_classes, np.int32), np.empty(n_classes)
    most, growth, gain, work, at = 0.0, 0.0, 0.0, 0, begin
    while at < active and work < budget:
        i = np.uint64(order[at])
        start, stop, offset = row(dense, indptr, width, i)
        count = counts[i]
        work += (ROW_COST + np.int64(stop - start)) * count
        mine = classes[i]
        for m in range(count):
            k = mine[m]
            g[m] = costs[y[i], k] + constant * V[V.shape[0] - 1, k]
            q[m] = (cap[i] if k == y[i] else 0.0) - A[i, k]
        scores(values, columns, start, stop, offset, mine, count, V, total, g)
        spread, floor, could_gain = _violation(g, q, count, cap[i])
        count = _drop(mine, g, q, count, floor)
        counts[i] = count
        if count <= 1:
            active -= 1
            order[at], order[active] = order[active], order[at]
            continue
        at += 1
        most = max(most, spread)
        gain += could_gain
        if spread > 0.0:
            project(g, q, count, max(squares[i] / relax, TINY), cap[i], moved)
            n_moved = 0
            for m in range(count):
                if moved[m] != 0.0:
                    growth += moved[m] * (g[m] - 0.5 * squares[i] * moved[m])
                    A[i, mine[m]] -= moved[m]
                    g[n_moved], which[n_moved] = moved[m], mine[m]
                    n_moved += 1
            subtract(values, columns, start, stop, offset, constant, which, n_moved, g, V)
    return at, active, most, growth, gain, work


@njit(cache=True, nogil=True)
def scores(values, columns, start, stop, offset, mine, count, V, total, g):
    """``g_m += <V[:, mine_m], x>``; overwrites ``total``."""
    if count == V.shape[1]:  # all classes, in whatever order: contiguous reads
        total[:] = 0.0
        for j in range(start, stop):
            x, at = np.float64(values[j]), np.uint64(columns[j - offset])
            for k in range(count):
                total[k] += x * V[at, k]
        for m in range(count):
            g[m] += total[mine[m]]
        return
    quads = count - count % 4
    for m in range(0, quads, 4):  # sums in registers need not wait for each other
        first, second, third, fourth = mine[m], mine[m + 1], mine[m + 2], mine[m + 3]
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for j in range(start, stop):
            x, at = np.float64(values[j]), np.uint64(columns[j - offset])
            a += x * V[at, np.uint64(first)]
            b += x * V[at, np.uint64(second)]
            c += x * V[at, np.uint64(third)]
            d += x * V[at, np.uint64(fourth)]
        g[m] += a
        g[m + 1] += b
        g[m + 2] += c
        g[m + 3] += d
    m = quads
    if count - m >= 2:  # the usual case after many sweeps: one class competes with the sample's own
        a, b = _two_products(values, columns, start, stop, offset, V, np.uint64(mine[m]), np.uint64(mine[m + 1]))
        g[m] += a
        g[m + 1] += b
        m += 2
    if m < count:
        g[m] += _one_product(values, columns, start, stop, offset, V, np.uint64(mine[m]))


@njit(cache=True, nogil=True)
def _two_products(values, columns, start, stop, offset, V, first, second):
    """``<V[:, first], x>`` and ``<V[:, second], x>``, each from two sums that need not wait for each other."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    one, j = np.uint64(1), start
    while j + one < stop:
        x, at = np.float64(values[j]), np.uint64(columns[j - offset])
        z, then = np.float64(values[j + one]), np.uint64(columns[j + one - offset])
        a += x * V[at, first]
        b += x * V[at, second]
        c += z * V[then, first]
        d += z * V[then, second]
        j += np.uint64(2)
    if j < stop:
        x, at = np.float64(values[j]), np.uint64(columns[j - offset])
        a += x * V[at, first]
        b += x * V[at, second]
    return a + c, b + d


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _one_product(values, columns, start, stop, offset, V, k):
    """``<V[:, k], x>``, a sum in any order."""
    total = 0.0
    for j in range(start, stop):
        total += np.float64(values[j]) * V[np.uint64(columns[j - offset]), k]
    return total


@njit(cache=True, nogil=True)
def select_classes(S, intercepts, y, costs, cap, order, classes, counts, A):
    """Leave active what ``sweep_classes`` would, given all scores; updates order, classes and counts.

    Returns (how many samples are active, the sum of what all samples could gain).
    """
    n, n_classes = A.shape
    g, q = np.empty(n_classes), np.empty(n_classes)
    gain, active, rest = 0.0, 0, n
    for i in range(n):
        mine = classes[i]
        for k in range(n_classes):
            mine[k] = k
            g[k] = costs[y[i], k] + S[i, k] + intercepts[k]
            q[k] = (cap[i] if k == y[i] else 0.0) - A[i, k]
        _, floor, could_gain = _violation(g, q, n_classes, cap[i])
        gain += could_gain
        counts[i] = _drop(mine, g, q, n_classes, floor)
        if counts[i] <= 1:
            rest -= 1
            order[rest] = i
        else:
            order[active] = i
            active += 1
    return active, gain


@njit(cache=True, nogil=True)
def _violation(g, q, count, cap):
    """(how far the largest g is above the least one that has a share, that least one, what the sample could gain)."""
    top, floor, mean = -np.inf, np.inf, 0.0
    for m in range(count):
        top = max(top, g[m])
        if q[m] > 0.0:
            floor = min(floor, g[m])
            mean += q[m] * g[m]
    return top - floor, floor, cap * top - mean


@njit(cache=True, nogil=True)
def _drop(mine, g, q, count, floor):
    """Exchange classes without a share and with g below ``floor`` to the end; how many are left."""
    m = 0
    while m < count:
        if q[m] <= 0.0 and g[m] < floor:
            count -= 1
            mine[m], mine[count] = mine[count], mine[m]
            g[m], g[count] = g[count], g[m]
            q[m], q[count] = q[count], q[m]
        else:
            m += 1
    return count


@njit(cache=True, nogil=True)
def project(g, q, count, square, cap, moved):
    """``moved = projection(q + g / square) - q`` on ``{q >= 0, sum q = cap}`` (Michelot 1986)."""
    total, used = 0.0, count
    for m in range(count):
        moved[m] = q[m] * square + g[m]
        total += moved[m]
    level = (total - cap * square) / used
    while True:
        inside, total = 0, 0.0
        for m in range(count):
            if moved[m] > level:
                inside += 1
                total += moved[m]
        if inside >= used or inside == 0:  # more of them are rounding: the level would go up and down without end
            break
        used = inside
        level = (total - cap * square) / used
    total, top = 0.0, 0
    for m in range(count):
        if moved[m] > moved[top]:
            top = m
    for m in range(count):
        moved[m] = max(0.0, moved[m] - level)
        total += moved[m]
    if total <= 0.0:  # rounding has eaten the shares: all of it to the largest
        moved[top], total = 1.0, 1.0
    for m in range(count):
        moved[m] = moved[m] * (cap / total) - q[m]


@njit(cache=True, nogil=True)
def subtract(values, columns, start, stop, offset, constant, which, count, moved, V):
    """``V[:, which_m] -= moved_m x``."""
    for m in range(count):
        V[V.shape[0] - 1, which[m]] -= moved[m] * constant
    for j in range(start, stop):
        x, at = np.float64(values[j]), np.uint64(columns[j - offset])
        for m in range(count):
            V[at, np.uint64(which[m])] -= moved[m] * x


@njit(cache=True, nogil=True)
def class_products(dense, indptr, columns, values, constant, A, V):
    """``V = X' A``; classes without a share of a sample cost nothing."""
    width, n_classes = np.uint64(columns.size), A.shape[1]
    which, moved = np.empty(n_classes, np.int32), np.empty(n_classes)
    V[:] = 0.0
    for i in range(A.shape[0]):
        count = np.int64(0)
        for k in range(n_classes):
            which[count], moved[count] = k, -A[i, k]
            count += A[i, k] != 0.0
        start, stop, offset = row(dense, indptr, width, np.uint64(i))
        subtract(values, columns, start, stop, offset, constant, which, count, moved, V)


@njit(cache=True, nogil=True)
def balance_shares(q, missing):
    """Move shares between the classes of the samples, until all of q has ``missing_k`` more of each class k.

    First between classes that both have a share of a sample, which costs the dual least.  Changes both arrays.
    """
    n, n_classes = q.shape
    room, part = np.zeros((n_classes, n_classes)), np.zeros((n_classes, n_classes))
    which, old = np.empty(n_classes, np.int64), np.empty(n_classes)
    for i in range(n):
        count = _held(q[i], which)
        for first in which[:count]:
            for second in which[:count]:
                room[first, second] += min(q[i, first], q[i, second]) / count
    for giver in range(n_classes):
        for taker in range(n_classes):
            amount = min(-missing[giver], missing[taker], room[giver, taker])
            if amount > 0.0:
                part[giver, taker] = amount / room[giver, taker]
                missing[giver] += amount
                missing[taker] -= amount
    for i in range(n):
        count = _held(q[i], which)
        old[:] = q[i]
        for giver in which[:count]:
            for taker in which[:count]:
                amount = part[giver, taker] * min(old[giver], old[taker]) / count
                q[i, giver] -= amount
                q[i, taker] += amount
    _hand_over(q, missing)


@njit(cache=True, nogil=True)
def _held(shares, which):
    """Fill ``which`` with the classes that have a share; how many."""
    count = 0
    for k in range(shares.size):
        which[count] = k
        count += shares[k] > 0.0
    return count


@njit(cache=True, nogil=True)
def _hand_over(q, missing):
    """Classes that have too much give it to those that lack it, whatever samples it comes from."""
    wanted = np.maximum(missing, 0.0)
    total = wanted.sum()
    for k in range(missing.size):
        held = q[:, k].sum()
        if missing[k] < 0.0 and total > 0.0 and held > 0.0:
            part = min(1.0, -missing[k] / held)
            for i in range(q.shape[0]):
                amount = part * q[i, k]
                q[i, k] -= amount
                for taker in range(missing.size):
                    q[i, taker] += amount * (wanted[taker] / total)
