"""The structured hinge of ranking measures: the maximum over rankings of loss plus score.

    phi(s) = mean_q max_pi  Delta_q(pi) + sum_i (c[pi(i)] - c[ideal(i)]) s_i

``undercut.risks.ranking.ranking`` defines c.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from typing_extensions import override

from undercut._jit import ranking as kernel
from undercut.contracts import SortedScores
from undercut.errors import DataError
from undercut.risks.ranking.queries import MeanOverQueries, Queries, query_weights
from undercut.types import Array, FloatArray

SHORT = 64  # documents of a query that are assigned as a whole


class WorstRanking(MeanOverQueries, SortedScores):
    """``phi`` over the queries with a relevant document."""

    def __init__(self, queries: Queries, gains: FloatArray, sample_weight: Any = None) -> None:
        """``gains`` are non-negative and in grouped order."""
        super().__init__(queries)
        largest = np.maximum.reduceat(gains, queries.starts[:-1])
        self.counts = largest > 0.0
        if not self.counts.any():
            raise DataError(f"a query must have a relevant document to be ranked; got {queries} without any")
        self._ideal = gains / queries.spread(np.where(self.counts, largest, 1.0))
        self._weight, self.mass = query_weights(queries, sample_weight, self.counts)

    @override
    def grouped(self, scores: FloatArray) -> tuple[float, FloatArray]:
        weights, losses = self.worst(scores)
        slopes = (weights - self._ideal) * self.queries.spread(self._weight)
        return float(self._weight @ losses) + float(slopes @ scores), slopes

    @abstractmethod
    def worst(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The weights ``c[pi(i)]`` of the documents and the losses of the queries in the maximizing rankings."""


class WorstCount(WorstRanking):
    """Gains 0 and 1: c is 1 for the first n places of n relevant documents, so only the set of documents there matters.

    ``loss(n, m)`` are the worst losses of n relevant documents among m, h = 0 ... n of them in the first n places.
    """

    def __init__(
        self,
        queries: Queries,
        gains: FloatArray,
        loss: Callable[[int, int], FloatArray],
        sample_weight: Any = None,
    ) -> None:
        super().__init__(queries, gains, sample_weight)
        self._is_relevant = gains > 0.0
        n_relevant = queries.sums(self._is_relevant.astype(np.int64))
        parts = [loss(n, m) for n, m in zip(n_relevant.tolist(), queries.sizes.tolist(), strict=True) if n]
        self._losses = np.concatenate(parts)
        self._starts = np.append(0, np.cumsum(n_relevant + (n_relevant > 0)))  # of a query's losses

    @override
    def worst(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        weights, losses = np.empty_like(scores), np.zeros(self.counts.size)
        starts = self.queries.starts
        kernel.worst_counts(starts, self._is_relevant, self._starts, self._losses, scores, weights, losses)
        return weights, losses


def precision_losses(n: int, m: int, k: int) -> FloatArray:
    """Worst ``1 - hits in the first k places / most hits``, h of n relevant documents in the first n places."""
    h, k = np.arange(n + 1), min(k, m)
    hits = np.maximum(h, k - (m - n)) if k >= n else np.maximum(h - (n - k), 0)
    return np.asarray(1.0 - hits / min(k, n))


def reciprocal_rank_losses(n: int, m: int) -> FloatArray:
    """Worst ``1 - 1 / place of the first relevant document``, h of n relevant documents in the first n places."""
    place = n + 1.0 - np.arange(n + 1)
    place[0] = m - n + 1.0
    return np.asarray(1.0 - 1.0 / place)


def ndcg_losses(n: int, m: int, discounts: FloatArray) -> FloatArray:
    """Worst ``1 - NDCG``: h of n relevant documents end the first n places, the others end the ranking."""
    dcg = np.append(0.0, np.cumsum(discounts[:m]))  # of the first places
    k = dcg.size - 1
    others = np.minimum(n - np.arange(n + 1), m - n)  # at most as many exchanges as there are irrelevant documents
    best = dcg[min(n, k)]
    worst = best - dcg[np.minimum(others, k)] + dcg[k] - dcg[np.minimum(m - others, k)]
    return np.asarray(1.0 - worst / best)


class WorstNdcg(WorstCount):
    """``Delta = 1 - DCG / ideal DCG``: counts where a query has one positive gain, else assigns documents to places."""

    def __init__(self, queries: Queries, gains: FloatArray, discounts: FloatArray, sample_weight: Any = None) -> None:
        """``discounts`` of the first places."""
        super().__init__(queries, gains, lambda n, m: ndcg_losses(n, m, discounts), sample_weight)
        self._assigned: list[tuple[int, slice, PlaceAssignment]] = []
        for q in np.flatnonzero(self.counts).tolist():
            mine = slice(queries.starts[q], queries.starts[q + 1])
            if np.unique(gains[mine][gains[mine] > 0.0]).size > 1:
                self._assigned.append((q, mine, PlaceAssignment(gains[mine], discounts)))

    @override
    def worst(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        weights, losses = super().worst(scores)
        for q, mine, assignment in self._assigned:
            weights[mine], losses[q] = assignment.worst(scores[mine])
        return weights, losses


class PlaceAssignment:
    """One query's ``max_pi 1 - DCG(pi) / ideal DCG + sum_i c[pi(i)] s_i``, a linear assignment problem.

    Document i at place j is worth ``c_j s_i - discount_j gain_i / ideal DCG``.  Only k places have a discount.  By
    exchange of two documents, some best ranking fills these with candidates, the k best scores of each gain, and sorts
    all others by score behind them.  If r scores are higher, a document there has one of the places
    ``max(r, k) ... r + k``.  Where c is constant on these, its weight is known; the rest is assigned, about 2k
    documents for each gain.  A short query is assigned as a whole, which is faster.
    """

    def __init__(self, gains: FloatArray, discounts: FloatArray) -> None:
        falling = np.sort(gains)[::-1]
        self._k = min(discounts.size, gains.size)
        self._table = falling / falling[0]  # c
        self._discounts = np.append(discounts[: self._k], np.zeros(gains.size - self._k))
        self._gains = gains / float(falling @ self._discounts)
        if gains.size <= SHORT:
            self._n_places = max(self._k, np.count_nonzero(gains))
            self._cost = np.outer(self._discounts[: self._n_places], self._gains)
        else:
            self._prepare_levels(gains)

    def _prepare_levels(self, gains: FloatArray) -> None:
        """What is known about ranks and places for all scores; the largest gain is level 0."""
        k, rank = self._k, np.arange(gains.size)
        gain, self._level, sizes = np.unique(-gains, return_inverse=True, return_counts=True)
        self._level_weights = gain / gain[0]
        self._level_of_place = np.repeat(np.arange(gain.size), sizes)
        self._room = np.bincount(self._level_of_place[k:], minlength=gain.size)  # places of a level without discount
        lowest, highest = (self._level_of_place[np.minimum(at, rank[-1])] for at in (np.maximum(rank, k), rank + k))
        self._is_settled = lowest == highest  # by rank
        self._is_candidate = rank - np.repeat(np.cumsum(sizes) - sizes, sizes) < k  # sorted by level, then score

    def worst(self, scores: FloatArray) -> tuple[FloatArray, float]:
        """The weights of the documents and the loss in the maximizing ranking."""
        return self._worst_short(scores) if scores.size <= SHORT else self._worst_long(scores)

    def _worst_short(self, scores: FloatArray) -> tuple[FloatArray, float]:
        table = self._table[: self._n_places]
        place, document = linear_sum_assignment(table[:, None] * scores - self._cost, maximize=True)
        weights = np.zeros_like(scores)
        weights[document] = table[place]
        return weights, 1.0 - float(self._cost[place, document].sum())

    def _worst_long(self, scores: FloatArray) -> tuple[FloatArray, float]:
        order = np.argsort(-scores, kind="stable")
        is_open = np.empty(scores.size, bool)
        is_open[order] = ~self._is_settled
        is_open[np.lexsort((-scores, self._level))] |= self._is_candidate
        settled = np.flatnonzero(~is_open[order])  # ranks
        levels = self._level_of_place[np.maximum(settled, self._k)]
        weights = np.zeros_like(scores)
        weights[order[settled]] = self._level_weights[levels]
        room = self._room - np.bincount(levels, minlength=self._room.size)
        return weights, self._assign(np.flatnonzero(is_open), room, scores, weights)

    def _assign(self, documents: Array, room: Array, scores: FloatArray, weights: FloatArray) -> float:
        """Fill in the weights of these documents, which share the first k places and the room behind; the loss."""
        behind = np.repeat(self._level_weights, np.where(self._level_weights > 0.0, room, 0))
        table = np.append(self._table[: self._k], behind)
        discounts = np.append(self._discounts[: self._k], np.zeros(behind.size))
        gains = self._gains[documents]
        place, column = linear_sum_assignment(
            np.outer(table, scores[documents]) - np.outer(discounts, gains), maximize=True
        )
        weights[documents[column]] = table[place]
        return 1.0 - float(discounts[place] @ gains[column])
