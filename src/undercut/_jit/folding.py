"""Sums over all nested structures of a sequence, in any semiring (McCaskill 1990; loops as in CONTRAfold 2).

Positions are 1 ... n; ``s`` holds the letters 0 ... 3 (A C G U), 4 for any other, and 4 at both ends, 0 and n + 1.  A
pair (i, j) closes a hairpin, a stacked pair, a bulge or internal loop, or a loop with branches:

    pair[i, j]    structures of i ... j in which i and j pair
    outer[i, j]   the same, with the junction seen from an internal loop around it
    branch[i, j]  a branch of a multi-loop that begins at i, and unpaired positions up to j
    lead[i, j]    unpaired positions and then one branch
    many[i, j]    two branches or more
    any[i, j]     lead + many
    prefix[j]     the outermost loop up to j

Rows are filled from the last to the first.  The two expensive sums, over internal loops and over the places where a
multi-loop is split, add one row to another, so that they are vectorized in every ring.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undercut._jit.compile import njit
from undercut._jit.rings import FAST, plus, times

MIN_HAIRPIN = 3  # unpaired positions
MAX_LOOP = 30  # unpaired positions of an internal loop or bulge; longer hairpins score like this length
NO_PAIR = 6
TINY, HUGE = 1e-140, 1e140  # between them products of two cells of ``SUM`` neither overflow nor vanish

# The pair of letters (a, b) as 0 ... 5: AU UA CG GC GU UG, so that t ^ 1 is the pair read from the other side.
PAIR_TYPE = np.full((5, 5), NO_PAIR, np.int64)
for _t, (_a, _b) in enumerate(((0, 3), (3, 0), (1, 2), (2, 1), (2, 3), (3, 2))):
    PAIR_TYPE[_a, _b] = _t


class Tables(NamedTuple):
    """Scores by type of pair and letters, as the ring stores them, or their expected counts.

    A junction is a pair beside a loop, seen from the loop: the letters are those behind its first base and before its
    second one, on the side of the loop.
    """

    base: np.ndarray  # (6,) every pair
    stack: np.ndarray  # (6, 6) a pair and the one inside it
    ends: np.ndarray  # (6, 5, 5) junction with a hairpin or internal loop
    dangles: np.ndarray  # (6, 5, 5) junction with a multi-loop or the outermost loop
    hairpin: np.ndarray  # (31,) by length
    inner: np.ndarray  # (31, 32) by lengths l1 and l2; zero outside the grammar and where a letter counts too:
    bulge: np.ndarray  # (5,) lengths (0, 1) and (1, 0), by the letter
    single: np.ndarray  # (5, 5) lengths (1, 1), by the letters
    multi: np.ndarray  # (3,) loop, unpaired, paired
    external: np.ndarray  # (2,) unpaired, paired


class Chart(NamedTuple):
    """The cells of a sequence, with at least n + 2 rows and columns."""

    pair: np.ndarray
    outer: np.ndarray
    branch: np.ndarray
    lead: np.ndarray
    many: np.ndarray
    any: np.ndarray
    prefix: np.ndarray


class Bonus(NamedTuple):
    """What a pair (i, j) gains beside its score: ``each[i] each[j]``, times ``right`` for a pair of the truth."""

    each: np.ndarray
    right: float
    partner: np.ndarray


@njit(cache=True, nogil=True, fastmath=FAST)
def inside(ring, s, tables, bonus, tail, chart):
    """Fill the chart; whether all of its cells are in the safe range of ``SUM``.

    ``tail[l]`` is multiplied to a hairpin of length l; it carries the scale of its positions.
    """
    n = s.size - 2
    loops = np.empty(n + 2)
    for i in (n + 1, 0):
        _clear(ring, i, n, chart)
    safe = True
    for i in range(n, 0, -1):
        _clear(ring, i, n, chart)
        internal_loops(ring, tables.inner, chart.outer, i, n, loops)
        safe &= _pairs(ring, i, s, tables, bonus, tail, loops, chart)
        safe &= _multi_loops(ring, i, s, tables, chart)
    _outermost(ring, s, tables, chart)
    return safe and TINY < chart.prefix[n] < HUGE


@njit(cache=True, nogil=True)
def _clear(ring, i, n, chart):
    pair, outer, branch, lead, many, either, _ = chart
    for j in range(n + 2):
        pair[i, j] = ring.zero
        outer[i, j] = ring.zero
        branch[i, j] = ring.zero
        lead[i, j] = ring.zero
        many[i, j] = ring.zero
        either[i, j] = ring.zero


@njit(cache=True, nogil=True, fastmath=FAST)
def internal_loops(ring, inner, outer, i, n, loops):
    """``loops[j]``: all bulges and internal loops that (i, j) may close, without the junction of (i, j).

    Four lengths l2 at a time; the table is zero where there are fewer.  Indices are unsigned, because those that could
    be negative are not vectorized.
    """
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    for j in range(n + 2):
        loops[j] = ring.zero
    end = np.uint64(n + 1)
    for l1 in range(min(MAX_LOOP + 1, n - i - MIN_HAIRPIN - 1)):
        k = np.uint64(i + 1 + l1)
        for l2 in range(0, MAX_LOOP + 1 - l1, 4):
            t0, t1, t2, t3 = inner[l1, l2], inner[l1, l2 + 1], inner[l1, l2 + 2], inner[l1, l2 + 3]
            shift = np.uint64(l2)
            for j in range(k + four + one + shift, end):
                at = j - shift
                first = plus(ring, times(ring, t0, outer[k, at - one]), times(ring, t1, outer[k, at - two]))
                last = plus(ring, times(ring, t2, outer[k, at - three]), times(ring, t3, outer[k, at - four]))
                loops[j] = plus(ring, loops[j], plus(ring, first, last))


@njit(cache=True, nogil=True, inline="always")
def pair_bonus(ring, i, j, each, right, partner):
    """What the loss adds to a pair."""
    both = times(ring, each[i], each[j])
    return times(ring, both, right) if partner[i] == j else both


@njit(cache=True, nogil=True, fastmath=FAST)
def _pairs(ring, i, s, tables, bonus, tail, loops, chart):
    """The pairs of row i."""
    base, stack, ends, dangles, hairpin, _, bulge, single, multi, _ = tables
    each, right, partner = bonus
    pair, outer, many = chart.pair, chart.outer, chart.many
    closing, safe = times(ring, multi[0], multi[2]), True
    for j in range(i + MIN_HAIRPIN + 1, s.size - 1):
        t = PAIR_TYPE[s[i], s[j]]
        if t == NO_PAIR:
            continue
        a, b = s[i + 1], s[j - 1]
        length = j - i - 1
        total = plus(ring, loops[j], times(ring, hairpin[min(length, MAX_LOOP)], tail[length]))
        total = plus(ring, total, times(ring, bulge[a], outer[i + 2, j - 1]))
        total = plus(ring, total, times(ring, bulge[b], outer[i + 1, j - 2]))
        total = plus(ring, total, times(ring, single[a, b], outer[i + 2, j - 2]))
        total = times(ring, total, ends[t, a, b])
        branches = times(ring, times(ring, closing, dangles[t, a, b]), many[i + 1, j - 1])
        total = plus(ring, total, branches)
        inward = PAIR_TYPE[a, b]
        if inward != NO_PAIR:
            total = plus(ring, total, times(ring, stack[t, inward], pair[i + 1, j - 1]))
        cell = times(ring, times(ring, base[t], pair_bonus(ring, i, j, each, right, partner)), total)
        pair[i, j] = cell
        outer[i, j] = times(ring, cell, ends[t ^ 1, s[j + 1], s[i - 1]])
        safe &= TINY < cell < HUGE  # not zero: a hairpin is always there
    return safe


@njit(cache=True, nogil=True, fastmath=FAST)
def _multi_loops(ring, i, s, tables, chart):
    """The cells of multi-loops of row i, once its pairs are known."""
    n, dangles, multi = s.size - 2, tables.dangles, tables.multi
    pair, branch, lead, many, either = chart.pair, chart.branch, chart.lead, chart.many, chart.any
    safe = True
    for j in range(i + MIN_HAIRPIN + 1, n + 1):
        cell = times(ring, branch[i, j - 1], multi[1])
        t = PAIR_TYPE[s[i], s[j]]
        if t != NO_PAIR:
            stem = times(ring, dangles[t ^ 1, s[j + 1], s[i - 1]], multi[2])
            cell = plus(ring, cell, times(ring, pair[i, j], stem))
        branch[i, j] = cell
        lead[i, j] = plus(ring, cell, times(ring, lead[i + 1, j], multi[1]))
        either[i, j] = plus(ring, lead[i, j], many[i, j])
        if either[i, j] != ring.zero:
            _add_products(ring, either[i, j], branch, j + 1, many, i, n)
        safe &= _in_range(cell) and _in_range(many[i, j]) and _in_range(lead[i, j])
    return safe


@njit(cache=True, nogil=True, inline="always")
def _in_range(cell):
    return cell == 0.0 or TINY < cell < HUGE


@njit(cache=True, nogil=True, fastmath=FAST)
def _add_products(ring, factor, branch, k, many, i, n):
    """``many[i, j] += factor branch[k, j]`` for all j."""
    k, i = np.uint64(k), np.uint64(i)
    for j in range(k, np.uint64(n + 1)):
        many[i, j] = plus(ring, many[i, j], times(ring, factor, branch[k, j]))


@njit(cache=True, nogil=True, fastmath=FAST)
def _outermost(ring, s, tables, chart):
    pair, prefix, dangles, external = chart.pair, chart.prefix, tables.dangles, tables.external
    prefix[0] = ring.one
    for j in range(1, s.size - 1):
        total = times(ring, prefix[j - 1], external[0])
        for i in range(1, j - MIN_HAIRPIN):
            t = PAIR_TYPE[s[i], s[j]]
            if t != NO_PAIR:
                stem = times(ring, dangles[t ^ 1, s[j + 1], s[i - 1]], external[1])
                total = plus(ring, total, times(ring, prefix[i - 1], times(ring, stem, pair[i, j])))
        prefix[j] = total
