"""How good rankings are: measures of retrieval by name, a mean over queries with a relevant document.

The documents of a query are sorted by falling score; of those with equal scores the later row comes first, as
``trec_eval`` sorts by the names of documents, falling.  Documents with ``y > 0`` are relevant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from undercut.errors import DataError, ParameterError
from undercut.risks.ranking.gains import exponential_gain, linear_gain, log_discount
from undercut.risks.ranking.queries import Queries, non_negative
from undercut.types import FloatArray

EVERYWHERE = 2**62  # as many places as there are


def _dcg(ranked: FloatArray, k: int, gain: Callable[[FloatArray], FloatArray]) -> float:
    top = gain(ranked[:k])
    return float(top @ log_discount(np.arange(1.0, top.size + 1.0)))


def _ndcg(ranked: FloatArray, k: int, largest: float) -> float:
    return _dcg(ranked, k, linear_gain) / _dcg(np.sort(ranked)[::-1], k, linear_gain)


def _exponential_ndcg(ranked: FloatArray, k: int, largest: float) -> float:
    return _dcg(ranked, k, exponential_gain) / _dcg(np.sort(ranked)[::-1], k, exponential_gain)


def _average_precision(ranked: FloatArray, k: int, largest: float) -> float:
    places = 1.0 + np.flatnonzero(ranked[:k] > 0.0)
    return float((np.arange(1.0, places.size + 1.0) / places).sum()) / np.count_nonzero(ranked > 0.0)


def _reciprocal_rank(ranked: FloatArray, k: int, largest: float) -> float:
    places = np.flatnonzero(ranked[:k] > 0.0)
    return 1.0 / (1.0 + float(places[0])) if places.size else 0.0


def _precision(ranked: FloatArray, k: int, largest: float) -> float:
    return float(np.count_nonzero(ranked[:k] > 0.0)) / min(k, ranked.size)


def _expected_reciprocal_rank(ranked: FloatArray, k: int, largest: float) -> float:
    """A reader stops at a document with probability ``(2^y - 1) / 2^largest`` (Chapelle et al. 2009)."""
    stops = exponential_gain(ranked[:k]) / np.exp2(largest)
    reads = np.cumprod(np.append(1.0, 1.0 - stops[:-1]))
    return float((stops * reads / np.arange(1.0, stops.size + 1.0)).sum())


MEASURES: dict[str, Callable[[FloatArray, int, float], float]] = {
    "ndcg": _ndcg,
    "exponential_ndcg": _exponential_ndcg,
    "map": _average_precision,
    "mrr": _reciprocal_rank,
    "precision": _precision,
    "err": _expected_reciprocal_rank,
}


def ranking_score(name: str, y: Any, scores: FloatArray, qid: Any = None) -> float:
    """The mean over queries of a measure such as "ndcg@10", "map" or "err@5"; without a number all places count.

    "ndcg" has the relevance as its gain, "exponential_ndcg" ``2^y - 1``; "precision@k" divides by k, or by the number
    of documents where that is smaller.

    >>> ranking_score("mrr", [0, 1, 0], np.array([3.0, 2.0, 1.0]))
    0.5
    """
    measure, k = _parsed(name)
    y, queries = non_negative(y, scores.size), Queries.of(qid, scores.size)
    order = queries.order[::-1]  # the later row first
    query = np.repeat(np.arange(queries.sizes.size), queries.sizes)[::-1]
    ranked = y[order[np.lexsort((-scores[order], query))]]
    found = [
        measure(part, k, float(y.max()))
        for part in np.split(ranked, queries.starts[1:-1])
        if part.max(initial=0.0) > 0.0
    ]
    if not found:
        raise DataError(f"{name} needs a query with a relevant document; got {queries} without any")
    return float(np.mean(found))


def _parsed(name: str) -> tuple[Callable[[FloatArray, int, float], float], int]:
    measure, at, places = name.partition("@")
    if measure not in MEASURES or (at and not (places.isdecimal() and int(places) >= 1)):
        names = ", ".join(map(repr, MEASURES))
        raise ParameterError(
            f"a measure of rankings must be one of {names}, with @k for k places or without; got {name!r}"
        )
    return MEASURES[measure], int(places) if at else EVERYWHERE
