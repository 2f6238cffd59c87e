"""Documents by query, and the grades that order the documents of a query."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from undercut.contracts import Evaluation, ScoreFunction
from undercut.errors import DataError
from undercut.types import Array, FloatArray


@dataclass(frozen=True)
class Queries:
    """The rows of X grouped by query: rows with equal ids are one query, contiguous or not.

    >>> queries = Queries.of(["b", "a", "b"], 3)
    >>> queries.order, queries.starts
    (array([1, 0, 2]), array([0, 1, 3]))
    """

    order: Array  # rows, query after query, in their original order within a query
    starts: Array  # query q is order[starts[q] : starts[q + 1]]

    @classmethod
    def of(cls, qid: Any, n: int) -> Queries:
        """The queries of n documents; ``qid=None`` makes them one query."""
        if qid is None:
            return cls(np.arange(n), np.array([0, n]))
        order, ids = _sorted_ids(qid, n)
        starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        return cls(order, np.append(starts, n))

    def __str__(self) -> str:
        return f"{self.order.size} documents in {self.sizes.size} queries"

    @property
    def sizes(self) -> Array:
        return np.diff(self.starts)

    def spread(self, values: Array) -> Array:
        """The value of each document's query, in grouped order."""
        return np.repeat(values, self.sizes)

    def places(self) -> FloatArray:
        """1, 2, ... within each query."""
        return np.arange(1.0, self.order.size + 1.0) - self.spread(self.starts[:-1])

    def sums(self, values: Array) -> Array:
        """The sum over each query of values in grouped order."""
        sums: Array = np.add.reduceat(values, self.starts[:-1])
        return sums

    def centered(self, scores: FloatArray) -> FloatArray:
        """Scores in grouped order, less the mean of their query: the same ranking with the least rounding."""
        grouped = scores[self.order]
        with np.errstate(over="ignore", invalid="ignore"):
            grouped -= self.spread(self.sums(grouped) / self.sizes)
        return grouped

    def ungrouped(self, values: FloatArray) -> FloatArray:
        """Values in grouped order, put back into the order of the rows of X."""
        rows = np.empty_like(values)
        rows[self.order] = values
        return rows


def _sorted_ids(qid: Any, n: int) -> tuple[Array, Array]:
    """A stable order of the ids, and the ids in it."""
    ids = np.asarray(qid)
    if ids.shape != (n,):
        raise DataError(f"qid must have one query id per row of X, shape ({n},); got shape {ids.shape}")
    try:
        missing = np.flatnonzero(ids != ids)  # NaN != NaN
        order = np.argsort(ids, kind="stable")
    except TypeError as error:
        raise DataError(f"qid must hold ids of one kind, integers or strings; {error}") from error
    if missing.size:
        raise DataError(f"qid must not be missing; it is NaN at row {missing[0]}")
    return order, ids[order]


def relevances(y: Any, n: int) -> FloatArray:
    """The relevance of n documents; ``DataError`` unless they are finite numbers, one per row of X."""
    y = np.asarray(y)
    if n == 0 or y.shape != (n,):
        raise DataError(f"y must have one relevance per row of X, and at least one; got shape {y.shape} for {n} rows")
    if y.dtype.kind not in "fiub":
        raise DataError(f"y must hold real numbers; got dtype {y.dtype}")
    relevance = np.asarray(y, dtype=np.float64)
    if (bad := np.flatnonzero(~np.isfinite(relevance))).size:
        raise DataError(f"y must be finite; it is {relevance[bad[0]]} at row {bad[0]}")
    return relevance


def non_negative(y: Any, n: int) -> FloatArray:
    """Relevances, none of them negative."""
    relevance = relevances(y, n)
    if (least := relevance.min()) < 0.0:
        raise DataError(f"a relevance must not be negative; got {least:g}: shift the grades so that 0 is irrelevant")
    return relevance


def query_weights(queries: Queries, sample_weight: Any, importance: Array) -> tuple[FloatArray, float]:
    """Weights of the queries that sum to 1, and their sum before: ``importance`` times the weight of the documents."""
    weight = np.asarray(importance, dtype=np.float64)
    if sample_weight is not None:
        weight = weight * _weight_of_queries(queries, sample_weight)
    total = float(weight.sum())
    if not 0.0 < total < math.inf:
        raise DataError(
            f"sample_weight must be positive in a query that can be ranked; the sum of weights is {total:g}"
        )
    return weight / total, total


def _weight_of_queries(queries: Queries, sample_weight: Any) -> FloatArray:
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != queries.order.shape or not np.isfinite(weight).all() or (weight < 0.0).any():
        raise DataError(
            f"sample_weight must hold a finite non-negative number for each of {queries.order.size} documents; "
            f"got shape {weight.shape}"
        )
    grouped = weight[queries.order]
    first = grouped[queries.starts[:-1]]
    shared = queries.spread(first)
    if (other := np.flatnonzero(grouped != shared)).size:
        at = other[0]
        raise DataError(
            f"sample_weight must be equal for all documents of a query, as queries are weighted; "
            f"row {queries.order[at]} has {grouped[at]:g} and another row of its query {shared[at]:g}"
        )
    return first


class MeanOverQueries(ScoreFunction):
    """``phi(s)``, a mean over queries; a constant added to the scores of a query does not change it."""

    def __init__(self, queries: Queries) -> None:
        self.queries = queries

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        grouped = self.queries.centered(scores)
        if not np.isfinite(grouped).all():
            return Evaluation(math.inf, np.zeros_like(scores))
        value, slopes = self.grouped(grouped)
        return Evaluation(max(value, 0.0), self.queries.ungrouped(slopes))

    @abstractmethod
    def grouped(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Value and subgradient in grouped order."""


class Grades:
    """The documents of a query by grade, the best first; ``y`` in grouped order."""

    def __init__(self, queries: Queries, y: FloatArray) -> None:
        query = queries.spread(np.arange(queries.sizes.size))
        order = np.lexsort((-y, query))
        changes = (query[order][1:] != query[order][:-1]) | (y[order][1:] != y[order][:-1])
        starts = np.flatnonzero(np.append(True, changes))  # of groups: one grade in one query
        sizes = np.diff(np.append(starts, y.size))
        owner = query[order][starts]  # the query of a group
        self._group = np.empty(y.size, np.int64)
        self._group[order] = np.repeat(np.arange(starts.size), sizes)
        first = np.searchsorted(owner, np.arange(queries.sizes.size))
        after = queries.starts[1:][owner] - (starts + sizes)  # documents of worse grade
        self.numbers = self._group - queries.spread(first)  # of documents, from 0 in each query
        self.n_pairs = np.bincount(owner, weights=sizes * after)  # of different grades, by query
        self._starts, self._sizes = starts, sizes

    def mean_over_places(self, values: FloatArray) -> FloatArray:
        """For each document the mean of ``values``, by place in grouped order, over the places of its grade."""
        means: FloatArray = np.add.reduceat(values, self._starts) / self._sizes
        return means[self._group]
