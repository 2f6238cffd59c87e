"""Documents by query, and the grades that order the documents of a query."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from undercut.contracts import Evaluation, SortedScores
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


class MeanOverQueries(SortedScores):
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
        group = np.empty(y.size, np.int64)
        group[order] = np.repeat(np.arange(starts.size), sizes)
        first = np.searchsorted(owner, np.arange(queries.sizes.size))
        after = queries.starts[1:][owner] - (starts + sizes)  # documents of worse grade
        self.numbers = group - queries.spread(first)  # of documents, from 0 in each query
        self.n_pairs = np.bincount(owner, weights=sizes * after)  # of different grades, by query
