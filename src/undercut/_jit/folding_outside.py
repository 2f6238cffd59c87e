"""Expected counts of everything that scores in a structure: the derivatives of log Z, by reversing ``inside``.

A cell is a sum of products.  With ``share`` the derivative of log Z in the logarithm of the cell, which is the expected
number of its uses, a product contributes ``share * product / cell`` to each of its factors.  All shares are
probabilities or small counts, whatever the scale of the cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undercut._jit.compile import njit
from undercut._jit.folding import MAX_LOOP, MIN_HAIRPIN, NO_PAIR, PAIR_TYPE, pair_bonus
from undercut._jit.rings import FAST, amount, over, times

NEGLIGIBLE = 1e-18  # a share below rounding


class Shares(NamedTuple):
    """The derivatives of log Z in the logarithms of the cells; ``lead`` and ``prefix`` have one row."""

    pair: np.ndarray
    outer: np.ndarray  # of pairs inside an internal loop
    branch: np.ndarray
    lead: np.ndarray
    many: np.ndarray
    any: np.ndarray
    prefix: np.ndarray


@njit(cache=True, nogil=True, fastmath=FAST)
def outside(ring, s, tables, bonus, tail, chart, shares, counts):
    """Add the expected counts to ``counts``, after ``inside``; ``shares.pair`` are the probabilities of pairs."""
    n = s.size - 2
    _clear(shares, n)
    _outermost(ring, s, tables, chart, shares, counts)
    weight, around = np.empty(n + 2), np.empty(n + 2)
    for i in range(1, n + 1):
        _multi_loops(ring, i, s, tables, chart, shares, counts)
        for j in range(n + 2):
            weight[j], around[j] = 0.0, ring.zero
        if _pairs(ring, i, s, tables, bonus, tail, chart, shares, counts, weight, around):
            _internal_loops(ring, tables.inner, chart.outer, i, n, weight, around, shares.outer, counts.inner)


@njit(cache=True, nogil=True)
def _clear(shares, n):
    pair, outer, branch, lead, many, either, prefix = shares
    for i in range(n + 2):
        lead[i] = 0.0
        prefix[i] = 0.0
        for j in range(n + 2):
            pair[i, j] = 0.0
            outer[i, j] = 0.0
            branch[i, j] = 0.0
            many[i, j] = 0.0
            either[i, j] = 0.0


@njit(cache=True, nogil=True, fastmath=FAST)
def _outermost(ring, s, tables, chart, shares, counts):
    pair, prefix, dangles, external = chart.pair, chart.prefix, tables.dangles, tables.external
    pair_shares, prefix_shares = shares.pair, shares.prefix
    dangle_counts, external_counts = counts.dangles, counts.external
    n = s.size - 2
    prefix_shares[n] = 1.0
    for j in range(n, 0, -1):
        per = prefix_shares[j]
        part = per * amount(ring, over(ring, times(ring, prefix[j - 1], external[0]), prefix[j]))
        prefix_shares[j - 1] += part
        external_counts[0] += part
        for i in range(1, j - MIN_HAIRPIN):
            t = PAIR_TYPE[s[i], s[j]]
            if t != NO_PAIR:
                stem = times(ring, dangles[t ^ 1, s[j + 1], s[i - 1]], external[1])
                product = times(ring, prefix[i - 1], times(ring, stem, pair[i, j]))
                part = per * amount(ring, over(ring, product, prefix[j]))
                prefix_shares[i - 1] += part
                pair_shares[i, j] += part
                external_counts[1] += part
                dangle_counts[t ^ 1, s[j + 1], s[i - 1]] += part


@njit(cache=True, nogil=True, fastmath=FAST)
def _multi_loops(ring, i, s, tables, chart, shares, counts):
    """The cells of multi-loops of row i; a cell is complete when those behind it are."""
    dangles, multi, multi_counts, dangle_counts = tables.dangles, tables.multi, counts.multi, counts.dangles
    pair, _, branch, lead, many, either, _ = chart
    pair_shares, _, branch_shares, lead_shares, many_shares, either_shares, _ = shares
    n = s.size - 2
    weight, around = np.zeros(n + 2), np.full(n + 2, ring.zero)
    for j in range(n, i + MIN_HAIRPIN, -1):
        if either[i, j] != ring.zero:
            either_shares[i, j] += _split(ring, either[i, j], branch, j + 1, weight, around, branch_shares, n)
        per, per_lead = either_shares[i, j], lead_shares[j]
        lead_shares[j] = 0.0
        if per > 0.0:
            per_lead += per * amount(ring, over(ring, lead[i, j], either[i, j]))
            many_shares[i, j] += per * amount(ring, over(ring, many[i, j], either[i, j]))
        if many_shares[i, j] > NEGLIGIBLE:
            weight[j], around[j] = many_shares[i, j], over(ring, ring.one, many[i, j])
        per_branch = branch_shares[i, j]
        if per_lead > 0.0:
            per_branch += per_lead * amount(ring, over(ring, branch[i, j], lead[i, j]))
            later = times(ring, lead[i + 1, j], multi[1])
            part = per_lead * amount(ring, over(ring, later, lead[i, j]))
            lead_shares[j] = part  # of lead[i + 1, j]
            multi_counts[1] += part
        if per_branch > 0.0:
            part = per_branch * amount(ring, over(ring, times(ring, branch[i, j - 1], multi[1]), branch[i, j]))
            branch_shares[i, j - 1] += part
            multi_counts[1] += part
            t = PAIR_TYPE[s[i], s[j]]
            if t != NO_PAIR:
                stem = times(ring, times(ring, dangles[t ^ 1, s[j + 1], s[i - 1]], multi[2]), pair[i, j])
                part = per_branch * amount(ring, over(ring, stem, branch[i, j]))
                pair_shares[i, j] += part
                multi_counts[2] += part
                dangle_counts[t ^ 1, s[j + 1], s[i - 1]] += part


@njit(cache=True, nogil=True, fastmath=FAST)
def _split(ring, factor, branch, k, weight, around, branch_shares, n):
    """The share of ``factor`` in all ``many[i, j] += factor branch[k, j]``; adds those of the branches."""
    total = 0.0
    k = np.uint64(k)
    for j in range(k, np.uint64(n + 1)):
        part = weight[j] * amount(ring, times(ring, around[j], times(ring, factor, branch[k, j])))
        branch_shares[k, j] += part
        total += part
    return total


@njit(cache=True, nogil=True, fastmath=FAST)
def _pairs(ring, i, s, tables, bonus, tail, chart, shares, counts, weight, around):
    """What the pairs of row i close, except internal loops with long sides, for which it fills the last two arguments.

    ``weight[j]`` is the share of a pair, and ``around[j]`` what multiplies its internal loops, divided by the cell.
    """
    base, stack, ends, dangles, hairpin, _, bulge, single, multi, _ = tables
    each, right, partner = bonus
    pair, outer, many = chart.pair, chart.outer, chart.many
    pair_shares, outer_shares, many_shares = shares.pair, shares.outer, shares.many
    base_counts, stack_counts, ends_counts, dangle_counts, hairpin_counts, _, bulge_counts, _, _, _ = counts
    single_counts, multi_counts = counts.single, counts.multi
    found = False
    for j in range(i + MIN_HAIRPIN + 1, s.size - 1):
        t = PAIR_TYPE[s[i], s[j]]
        if t == NO_PAIR:
            continue
        ends_counts[t ^ 1, s[j + 1], s[i - 1]] += outer_shares[i, j]
        pair_shares[i, j] += outer_shares[i, j]
        share = pair_shares[i, j]
        if share <= NEGLIGIBLE:
            continue
        found = True
        a, b, length = s[i + 1], s[j - 1], j - i - 1
        base_counts[t] += share
        own = times(ring, base[t], pair_bonus(ring, i, j, each, right, partner))
        own = over(ring, own, pair[i, j])
        rest = share  # what is neither a stacked pair nor a multi-loop has these ends
        if PAIR_TYPE[a, b] != NO_PAIR:
            stacked = times(ring, stack[t, PAIR_TYPE[a, b]], pair[i + 1, j - 1])
            part = share * amount(ring, times(ring, own, stacked))
            stack_counts[t, PAIR_TYPE[a, b]] += part
            pair_shares[i + 1, j - 1] += part
            rest -= part
        closing = times(ring, times(ring, multi[0], multi[2]), dangles[t, a, b])
        part = share * amount(ring, times(ring, own, times(ring, closing, many[i + 1, j - 1])))
        many_shares[i + 1, j - 1] += part
        dangle_counts[t, a, b] += part
        multi_counts[0] += part
        multi_counts[2] += part
        ends_counts[t, a, b] += rest - part
        own = times(ring, own, ends[t, a, b])
        weight[j], around[j] = share, own
        closed = times(ring, hairpin[min(length, MAX_LOOP)], tail[length])
        hairpin_counts[min(length, MAX_LOOP)] += share * amount(ring, times(ring, own, closed))
        part = share * amount(ring, times(ring, own, times(ring, bulge[a], outer[i + 2, j - 1])))
        bulge_counts[a] += part
        outer_shares[i + 2, j - 1] += part
        part = share * amount(ring, times(ring, own, times(ring, bulge[b], outer[i + 1, j - 2])))
        bulge_counts[b] += part
        outer_shares[i + 1, j - 2] += part
        part = share * amount(ring, times(ring, own, times(ring, single[a, b], outer[i + 2, j - 2])))
        single_counts[a, b] += part
        outer_shares[i + 2, j - 2] += part
    return found


@njit(cache=True, nogil=True, fastmath=FAST)
def _internal_loops(ring, inner, outer, i, n, weight, around, outer_shares, inner_counts):
    for l1 in range(min(MAX_LOOP + 1, n - i - MIN_HAIRPIN - 1)):
        k = np.uint64(i + 1 + l1)
        for l2 in range(MAX_LOOP + 1 - l1):
            length, total, back = inner[l1, l2], 0.0, np.uint64(l2 + 1)
            if length == ring.zero:
                continue
            for j in range(k + np.uint64(MIN_HAIRPIN + 1) + back, np.uint64(n + 1)):
                at = j - back
                part = weight[j] * amount(ring, times(ring, around[j], times(ring, length, outer[k, at])))
                outer_shares[k, at] += part
                total += part
            inner_counts[l1, l2] += total
