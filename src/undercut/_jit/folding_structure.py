"""Single structures: the best one from a chart of ``MAX``, the loops of a given one, the one of best expected accuracy.

``partner[i]`` is the position that pairs with i, or 0; positions are 1 ... n.
"""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit
from undercut._jit.folding import MAX_LOOP, MIN_HAIRPIN, NO_PAIR, PAIR_TYPE

PAIRING, HAIRPIN, INTERNAL = 1, 2, 3  # the rules that a structure may break
CLOSED, SEVERAL = 0, 1  # what is traced next: the inside of a pair, or two branches or more


@njit(cache=True, nogil=True)
def trace(s, tables, tail, chart, partner):
    """The structure of the highest score; the chart is one of ``MAX``."""
    stack = np.empty((s.size, 3), np.int64)
    partner[:] = 0
    n_open = _trace_outermost(s, tables, chart, stack)
    while n_open > 0:
        n_open -= 1
        kind, i, j = stack[n_open]
        if kind == CLOSED:
            partner[i], partner[j] = j, i
            n_open = _trace_pair(i, j, s, tables, tail, chart, stack, n_open)
        else:
            n_open = _trace_many(i, j, s, tables, chart, stack, n_open)


@njit(cache=True, nogil=True)
def _push(stack, n_open, kind, i, j):
    stack[n_open, 0], stack[n_open, 1], stack[n_open, 2] = kind, i, j
    return n_open + 1


@njit(cache=True, nogil=True)
def _trace_outermost(s, tables, chart, stack):
    j, n_open = s.size - 2, 0
    while j > 0:
        best, begin = chart.prefix[j - 1] + tables.external[0], 0
        for i in range(1, j - MIN_HAIRPIN):
            t = PAIR_TYPE[s[i], s[j]]
            if t != NO_PAIR:
                stem = tables.dangles[t ^ 1, s[j + 1], s[i - 1]] + tables.external[1] + chart.pair[i, j]
                if chart.prefix[i - 1] + stem > best:
                    best, begin = chart.prefix[i - 1] + stem, i
        if begin:
            n_open = _push(stack, n_open, CLOSED, begin, j)
        j = begin - 1 if begin else j - 1
    return n_open


@njit(cache=True, nogil=True)
def _trace_pair(i, j, s, tables, tail, chart, stack, n_open):
    """Push what the pair closes."""
    t, a, b, length = PAIR_TYPE[s[i], s[j]], s[i + 1], s[j - 1], j - i - 1
    ends, outer = tables.ends[t, a, b], chart.outer
    best, k, end = ends + tables.hairpin[min(length, MAX_LOOP)] + tail[length], 0, 0
    for l1 in range(min(MAX_LOOP + 1, length - MIN_HAIRPIN - 1)):
        for l2 in range(min(MAX_LOOP - l1 + 1, length - MIN_HAIRPIN - 1 - l1)):
            first, last = i + 1 + l1, j - 1 - l2
            score = ends + _loop_length(l1, l2, a, b, tables) + outer[first, last]
            if l1 + l2 == 0:
                inward = PAIR_TYPE[a, b]
                score = -np.inf if inward == NO_PAIR else tables.stack[t, inward] + chart.pair[first, last]
            if score > best:
                best, k, end = score, first, last
    if tables.multi[0] + tables.multi[2] + tables.dangles[t, a, b] + chart.many[i + 1, j - 1] > best:
        return _push(stack, n_open, SEVERAL, i + 1, j - 1)
    return _push(stack, n_open, CLOSED, k, end) if k else n_open


@njit(cache=True, nogil=True)
def _loop_length(l1, l2, a, b, tables):
    """The score of the lengths, and of the letters where they count."""
    if max(l1, l2) > 1:
        return tables.inner[l1, l2]
    if l1 == l2:
        return tables.single[a, b]
    return tables.bulge[a if l1 == 1 else b]


@njit(cache=True, nogil=True)
def _trace_many(i, j, s, tables, chart, stack, n_open):
    """Push the last branch of i ... j, and what is before it."""
    best, k = -np.inf, 0
    for begin in range(i + 1, j + 1):
        if chart.any[i, begin - 1] + chart.branch[begin, j] > best:
            best, k = chart.any[i, begin - 1] + chart.branch[begin, j], begin
    n_open = _trace_branch(k, j, s, tables, chart, stack, n_open)
    if chart.many[i, k - 1] > chart.lead[i, k - 1]:
        return _push(stack, n_open, SEVERAL, i, k - 1)
    while chart.branch[i, k - 1] < chart.lead[i + 1, k - 1] + tables.multi[1]:
        i += 1
    return _trace_branch(i, k - 1, s, tables, chart, stack, n_open)


@njit(cache=True, nogil=True)
def _trace_branch(i, j, s, tables, chart, stack, n_open):
    """Push the pair of a branch that begins at i; positions up to j are unpaired behind it."""
    while True:
        t = PAIR_TYPE[s[i], s[j]]
        if t != NO_PAIR and j - i > MIN_HAIRPIN:
            stem = chart.pair[i, j] + (tables.dangles[t ^ 1, s[j + 1], s[i - 1]] + tables.multi[2])
            if stem >= chart.branch[i, j - 1] + tables.multi[1]:
                return _push(stack, n_open, CLOSED, i, j)
        j -= 1


@njit(cache=True, nogil=True)
def first_fault(s, partner):
    """The first pair (i, j) that breaks a rule, 0 if none does, and the pair inside a loop that is too long."""
    for i in range(1, s.size - 1):
        j = partner[i]
        if j < i:
            continue
        if PAIR_TYPE[s[i], s[j]] == NO_PAIR:
            return PAIRING, i, j, 0, 0
        k, n_branches, unpaired, first = i + 1, 0, 0, 0
        while k < j and n_branches < 2:
            if partner[k] == 0:
                unpaired += 1
                k += 1
            else:
                first, k, n_branches = k, partner[k] + 1, n_branches + 1
        if n_branches == 0 and unpaired < MIN_HAIRPIN:
            return HAIRPIN, i, j, 0, 0
        if n_branches == 1 and unpaired > MAX_LOOP:
            return INTERNAL, i, j, first, partner[first]
    return 0, 0, 0, 0, 0


@njit(cache=True, nogil=True)
def count_loops(s, partner, counts):
    """Add all that scores in a structure of the grammar to ``counts``."""
    n = s.size - 2
    n_branches, unpaired, _ = _count_branches(s, 0, n + 1, partner, counts.dangles)
    counts.external[0] += unpaired
    counts.external[1] += n_branches
    for i in range(1, n + 1):
        if partner[i] > i:
            _count_loop(s, i, partner[i], partner, counts)


@njit(cache=True, nogil=True)
def _count_branches(s, i, j, partner, dangles):
    """The number of pairs directly between i and j, of unpaired positions, and the last pair; counts their dangles."""
    n_branches, unpaired, first, k = 0, 0, 0, i + 1
    while k < j:
        end = partner[k]
        if end == 0:
            unpaired += 1
            k += 1
        else:
            dangles[PAIR_TYPE[s[end], s[k]], s[end + 1], s[k - 1]] += 1.0
            n_branches += 1
            first, k = k, end + 1
    return n_branches, unpaired, first


@njit(cache=True, nogil=True)
def _count_loop(s, i, j, partner, counts):
    """The loop that the pair (i, j) closes."""
    t, a, b = PAIR_TYPE[s[i], s[j]], s[i + 1], s[j - 1]
    counts.base[t] += 1.0
    dangles = np.zeros((NO_PAIR, 5, 5))
    n_branches, unpaired, first = _count_branches(s, i, j, partner, dangles)
    if n_branches == 0:
        counts.hairpin[min(unpaired, MAX_LOOP)] += 1.0
        counts.ends[t, a, b] += 1.0
    elif n_branches == 1:
        _count_internal(s, i, j, first, partner[first], counts)
    else:
        counts.dangles[t, a, b] += 1.0
        counts.dangles[:] += dangles
        counts.multi[0] += 1.0
        counts.multi[1] += unpaired
        counts.multi[2] += n_branches + 1


@njit(cache=True, nogil=True)
def _count_internal(s, i, j, k, end, counts):
    """A stacked pair, a bulge or an internal loop between (i, j) and (k, end)."""
    t, a, b = PAIR_TYPE[s[i], s[j]], s[i + 1], s[j - 1]
    l1, l2 = k - i - 1, j - end - 1
    if l1 == 0 and l2 == 0:
        counts.stack[t, PAIR_TYPE[a, b]] += 1.0
        return
    if max(l1, l2) > 1:
        counts.inner[l1, l2] += 1.0
    elif l1 == l2:
        counts.single[a, b] += 1.0
    else:
        counts.bulge[a if l1 == 1 else b] += 1.0
    counts.ends[t, a, b] += 1.0
    counts.ends[PAIR_TYPE[s[end], s[k]], s[end + 1], s[k - 1]] += 1.0


@njit(cache=True, nogil=True)
def best_accuracy(probability, gamma, partner):
    """The nested structure that maximizes ``gamma * 2 sum_pairs p_ij + sum_unpaired (1 - sum_j p_ij)``.

    ``probability`` of shape (n + 2, n + 2) holds p_ij for i < j.
    """
    n = partner.size - 2
    alone = np.ones(n + 2)
    for i in range(1, n + 1):
        for j in range(i + 1, n + 1):
            alone[i] -= probability[i, j]
            alone[j] -= probability[i, j]
    best, choice = np.zeros((n + 3, n + 2)), np.zeros((n + 3, n + 2), np.int64)
    likely = np.empty(n + 2, np.int64)
    for i in range(n, 0, -1):
        n_likely = 0
        for k in range(i + MIN_HAIRPIN + 1, n + 1):
            if 2.0 * gamma * probability[i, k] > alone[i] + alone[k]:  # else both are better unpaired
                likely[n_likely] = k
                n_likely += 1
        for j in range(i, n + 1):
            best[i, j] = best[i + 1, j] + alone[i]
            for at in range(n_likely):
                k = likely[at]
                if k > j:
                    break
                value = 2.0 * gamma * probability[i, k] + best[i + 1, k - 1] + best[k + 1, j]
                if value > best[i, j]:
                    best[i, j], choice[i, j] = value, k
    _trace_accuracy(choice, partner)


@njit(cache=True, nogil=True)
def _trace_accuracy(choice, partner):
    n = partner.size - 2
    partner[:] = 0
    stack, n_open = np.empty((n + 2, 2), np.int64), 1
    stack[0, 0], stack[0, 1] = 1, n
    while n_open:
        n_open -= 1
        i, j = stack[n_open]
        while i <= j:
            k = choice[i, j]
            if k == 0:
                i += 1
                continue
            partner[i], partner[k] = k, i
            stack[n_open, 0], stack[n_open, 1] = i + 1, k - 1
            n_open += 1
            i = k + 1
