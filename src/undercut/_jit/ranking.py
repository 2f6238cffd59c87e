"""Sums over pairs and rankings of the documents of a query, query by query.

Documents stand query after query: those of query q are ``starts[q] : starts[q + 1]``.
"""

from __future__ import annotations

import numpy as np

from undercut._jit.compile import njit
from undercut._jit.sorting import rising


@njit(cache=True)
def pairwise_hinge(starts, grades, weight, scores, slopes):
    """``sum_q weight_q sum_{i above j in q} max(0, 1 - s_i + s_j)``; fills ``slopes`` with its subgradient.

    ``grades`` number the grades of each query from 0, the best.  A pair counts if ``s_i - 1 < s_j``: sorted by score,
    the i that count against j are a growing set, and a Fenwick tree over grades counts those above j in it.
    """
    tree = np.empty(_largest(grades) + 2, np.int64)
    value = 0.0
    for i in range(slopes.size):
        slopes[i] = 0.0
    for q in range(weight.size):
        if weight[q] > 0.0:
            mine = slice(starts[q], starts[q + 1])
            value += weight[q] * _pairs_of_query(grades[mine], scores[mine], tree, slopes[mine])
            for i in range(starts[q], starts[q + 1]):
                slopes[i] *= weight[q]
    return value


@njit(inline="always")
def _largest(grades):
    largest = 0
    for i in range(grades.size):
        largest = max(largest, grades[i])
    return largest


@njit(cache=True)
def _pairs_of_query(grades, scores, tree, slopes):
    order = rising(scores)
    tree = tree[: _largest(grades) + 2]
    _count_above(order, grades, scores, tree, slopes)
    n_pairs = _count_below(order, grades, scores, tree, slopes)
    value = float(n_pairs)
    for i in range(scores.size):
        value += slopes[i] * scores[i]
    return value


@njit(cache=True)
def _count_above(order, grades, scores, tree, slopes):
    """Add to each slope the documents of better grade that do not beat it by 1."""
    reached = 0
    for at in range(tree.size):
        tree[at] = 0
    for j in order:
        while reached < order.size and scores[order[reached]] - 1.0 < scores[j]:
            _insert(tree, grades[order[reached]])
            reached += 1
        slopes[j] += _count_up_to(tree, grades[j] - 1)


@njit(cache=True)
def _count_below(order, grades, scores, tree, slopes):
    """Subtract from each slope the documents of worse grade that it does not beat by 1; how many pairs there are."""
    n_pairs, n_reached = 0, 0
    for at in range(tree.size):
        tree[at] = 0
    for at in range(order.size - 1, -1, -1):
        i = order[at]
        while n_reached < order.size and scores[i] - 1.0 < scores[order[order.size - 1 - n_reached]]:
            _insert(tree, grades[order[order.size - 1 - n_reached]])
            n_reached += 1
        count = n_reached - _count_up_to(tree, grades[i])
        slopes[i] -= count
        n_pairs += count
    return n_pairs


@njit(cache=True)
def _insert(tree, grade):
    at = grade + 1
    while at < tree.size:
        tree[at] += 1
        at += at & -at


@njit(cache=True)
def _count_up_to(tree, grade):
    at, count = grade + 1, 0
    while at > 0:
        count += tree[at]
        at -= at & -at
    return count


@njit(cache=True)
def weighted_pairs(starts, grades, gain, discount, weight, scores, slopes):
    """``sum_q weight_q sum_{i above j in q} (gain_i - gain_j) (discount_i - discount_j) max(0, 1 - s_i + s_j)``.

    As ``pairwise_hinge``; gains and discounts are equal within a grade, so the documents that count against j are
    counted by grade, and one of the grade of j adds nothing.
    """
    count = np.empty(_largest(grades) + 1, np.int64)
    level, place = np.empty(count.size), np.empty(count.size)  # gain and discount by grade
    value = 0.0
    for q in range(weight.size):
        mine = slice(starts[q], starts[q + 1])
        slopes[mine] = 0.0
        if weight[q] > 0.0:
            mine_grades = grades[mine]
            n = _largest(mine_grades) + 1
            for i in range(mine_grades.size):
                level[mine_grades[i]], place[mine_grades[i]] = gain[mine][i], discount[mine][i]
            order = rising(scores[mine])
            total = _weigh(order, mine_grades, scores[mine], level[:n], place[:n], count[:n], 1.0, slopes[mine])
            _weigh(order[::-1], mine_grades, scores[mine], level[:n], place[:n], count[:n], -1.0, slopes[mine])
            slopes[mine] *= weight[q]
            value += weight[q] * total
    for i in range(scores.size):
        value += slopes[i] * scores[i]
    return value


@njit(cache=True)
def _weigh(order, grades, scores, level, place, count, sign, slopes):
    """Add to each slope the weight of the pairs it loses (sign 1, order rising) or wins by too little (-1, falling)."""
    count[:] = 0
    reached, total = 0, 0.0
    for j in order:
        while reached < order.size and sign * (scores[order[reached]] - scores[j]) < 1.0:
            count[grades[order[reached]]] += 1
            reached += 1
        own = grades[j]
        first, last = (0, own) if sign > 0.0 else (own + 1, count.size)
        for g in range(first, last):
            part = count[g] * (level[g] - level[own]) * (place[g] - place[own])
            slopes[j] += sign * part
            total += part
    return total


@njit(cache=True)
def worst_counts(starts, is_relevant, table, losses, scores, weights, worst):
    """For each query the number h of relevant documents among its first ``n`` places, n as many as are relevant, that

        maximizes  loss(h) + sum of the h best relevant scores + sum of the n - h best irrelevant scores.

    ``losses[table[q] : table[q + 1]]`` are those of query q for h = 0 ... n, and nothing if it does not count.  Marks
    these documents by 1 in ``weights`` and fills ``worst`` with their loss.
    """
    weights[:] = 0.0
    for q in range(worst.size):
        n = table[q + 1] - table[q] - 1
        if n < 1:
            continue
        first = starts[q]
        order = first + rising(-scores[first : starts[q + 1]])
        good, bad = order[is_relevant[order]], order[~is_relevant[order]]
        h = _worst_count(losses[table[q] : table[q + 1]], scores[good], scores[bad])
        worst[q] = losses[table[q] + h]
        weights[good[:h]] = 1.0
        weights[bad[: n - h]] = 1.0


@njit(cache=True)
def _worst_count(losses, good, bad):
    """Moves one document at a time from good to bad, best scores first in both."""
    n = good.size
    gain, best, best_h = 0.0, losses[n], n
    for h in range(n - 1, max(n - bad.size, 0) - 1, -1):
        gain += bad[n - h - 1] - good[h]
        if losses[h] + gain > best:
            best, best_h = losses[h] + gain, h
    return best_h
