"""Risks of rankings: the documents of every query are to be sorted by their scores ``s = X w``.

Pairwise (Joachims 2002; Airola, Pahikkala, Salakoski 2011 for the counting):

    R(w) = sum_q weight_q mean_{y_i > y_j in q} max(0, 1 - s_i + s_j)

Structured (Le and Smola 2007; Chapelle, Le, Smola 2007), for a loss Delta of the ranking pi, zero where it sorts by
relevance, and decreasing weights c of the places:

    R(w) = mean_q max_pi  Delta_q(pi) + sum_i (c[pi(i)] - c[ideal(i)]) s_i

weighted by ``sample_weight``, which is equal for the documents of a query.

Sorting by s maximizes ``sum_i c[pi(i)] s_i``, so R bounds the mean loss of the model's own rankings from above.  The
papers do not specify c.  Here ``c`` is the sequence of gains in an ideal ranking, divided by the largest: then
``c[ideal(i)] = gain_i / max gain`` is the same in all ideal rankings.  A strictly decreasing c would have to choose one
of them, and would penalize different scores of equally relevant documents.

A limitation of the structured hinge: with many irrelevant documents and noise some of them score higher than the
relevant ones for every w, R is never below its value at w = 0, and w = 0 is optimal.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from typing_extensions import override

from undercut._jit import ranking as kernel
from undercut.contracts import SortedScores
from undercut.errors import DataError, require
from undercut.maps.design import as_design
from undercut.risks.ranking.gains import Vectorized, gains_of, linear_gain, log_discount
from undercut.risks.ranking.queries import Grades, MeanOverQueries, Queries, non_negative, query_weights, relevances
from undercut.risks.ranking.worst_ranking import WorstCount, WorstNdcg, precision_losses, reciprocal_rank_losses
from undercut.risks.scores.score_risk import ScoreRisk
from undercut.types import FloatArray

WEIGHTINGS = {"query": 0.0, "root": 0.5, "pair": 1.0}  # the power of its pairs that a query weighs


class PairwiseHinge(MeanOverQueries, SortedScores):
    """``sum_q weight_q sum_{y_i > y_j in q} max(0, 1 - s_i + s_j)`` over the queries that have such a pair."""

    def __init__(self, queries: Queries, grades: Grades, weight: FloatArray) -> None:
        super().__init__(queries)
        self.grades, self.weight = grades.numbers, weight

    @override
    def grouped(self, scores: FloatArray) -> tuple[float, FloatArray]:
        slopes = np.empty_like(scores)
        value = kernel.pairwise_hinge(self.queries.starts, self.grades, self.weight, scores, slopes)
        return value, slopes


class ExchangeHinge(PairwiseHinge):
    """The same with every pair weighted by ``(gain_i - gain_j) (discount_i - discount_j)``."""

    def __init__(
        self, queries: Queries, grades: Grades, weight: FloatArray, gains: FloatArray, discounts: FloatArray
    ) -> None:
        super().__init__(queries, grades, weight)
        self._gains, self._discounts = gains, discounts

    @override
    def grouped(self, scores: FloatArray) -> tuple[float, FloatArray]:
        slopes = np.empty_like(scores)
        value = kernel.weighted_pairs(
            self.queries.starts, self.grades, self._gains, self._discounts, self.weight, scores, slopes
        )
        return value, slopes


class PairwiseRisk(ScoreRisk):
    """``R(w) = sum_q weight_q mean_{y_i > y_j in q} max(0, 1 - <w, x_i - x_j>)`` over the queries that have a pair.

    Only the order of the relevances matters.  Documents with equal ids in ``qid`` are one query; without ``qid`` all
    documents are.  Queries with one document or one grade contribute nothing.  An evaluation takes O(m log m) time and
    O(m) memory for m documents, independent of the number of pairs.

    weighting : "query", "root" or "pair"
        The weight of a query: equal, the root of its number of pairs, or that number, so that all pairs weigh the same.
    sample_weight : array, optional
        Further weights, equal for the documents of a query.

    >>> X, y, qid = np.eye(4), [2, 1, 0, 0], [7, 7, 7, 8]
    >>> PairwiseRisk(X, y, qid).cut(np.zeros(4)).a.round(3)
    array([-0.667,  0.   ,  0.667,  0.   ])
    """

    def __init__(self, X: Any, y: Any, qid: Any = None, *, weighting: str = "root", sample_weight: Any = None) -> None:
        design = as_design(X)
        n = design.shape[0]
        y, queries = relevances(y, n), Queries.of(qid, n)
        grades = Grades(queries, y[queries.order])
        weight, self.mass = _of_pairs(queries, grades.n_pairs.astype(np.float64), weighting, sample_weight)
        super().__init__(design, PairwiseHinge(queries, grades, weight))


class WeightedPairwiseRisk(ScoreRisk):
    """Pairs weighted by what their exchange costs in the ideal ranking: the hinge of pairs that knows of NDCG.

        weight of (i, j) = (gain_i - gain_j) (discount_i - discount_j)

    with the mean discount of the places that the documents of a grade have in an ideal ranking.  Time for an evaluation
    grows with the number of grades.  The other arguments are those of ``PairwiseRisk``.

    >>> X, y = np.eye(3), [2, 1, 0]
    >>> WeightedPairwiseRisk(X, y).cut(np.zeros(3)).a.round(3)
    array([-0.913,  0.159,  0.754])
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        qid: Any = None,
        gain: Vectorized = linear_gain,
        *,
        weighting: str = "root",
        sample_weight: Any = None,
    ) -> None:
        design = as_design(X)
        n = design.shape[0]
        queries = Queries.of(qid, n)
        y = non_negative(y, n)[queries.order]
        grades, gains = Grades(queries, y), gains_of(gain, y)
        discounts = grades.mean_over_places(log_discount(queries.places()))
        sums = queries.sums
        totals = queries.sizes * sums(gains * discounts) - sums(gains) * sums(discounts)  # over the pairs of a query
        weight, self.mass = _of_pairs(
            queries, np.where(grades.n_pairs > 0.0, np.maximum(totals, 0.0), 0.0), weighting, sample_weight
        )
        super().__init__(design, ExchangeHinge(queries, grades, weight, gains, discounts))


def _of_pairs(queries: Queries, totals: FloatArray, weighting: str, sample_weight: Any) -> tuple[FloatArray, float]:
    """The weight of one pair in each query, and the sum of the queries' weights before they were scaled to 1.

    ``totals`` are the pairs' own weights, summed by query.
    """
    require(weighting in WEIGHTINGS, f"`weighting` must be one of {', '.join(map(repr, WEIGHTINGS))}", weighting)
    counts = totals > 0.0
    if not counts.any():
        raise DataError(f"a query must have documents of at least 2 grades to be ranked; got {queries} without")
    importance = np.where(counts, np.where(counts, totals, 1.0) ** WEIGHTINGS[weighting], 0.0)
    weight, mass = query_weights(queries, sample_weight, importance)
    return weight / np.where(counts, totals, 1.0), mass


class NdcgRisk(ScoreRisk):
    """The structured hinge for ``Delta = 1 - NDCG@k``, defined above: the mean over queries with a gain.

        DCG@k(pi) = sum_i gain(y_i) discount(pi(i)) over places 1 <= pi(i) <= k,      NDCG = DCG / largest DCG

    ``gain`` maps an array of relevances to non-negative gains, ``discount`` an array of places 1 ... k to non-negative
    numbers that do not rise.  Queries without a relevant document contribute nothing; negative relevances are refused.
    An evaluation costs a sort, and for every query with more than one positive gain an assignment problem of about 2k
    documents for each gain.

    >>> X, y, qid = np.eye(5), [2, 1, 0, 1, 0], [7, 7, 7, 8, 8]
    >>> risk = NdcgRisk(X, y, qid, k=2)
    >>> round(risk.value(np.zeros(5)), 3), risk.value(np.array([2.0, 1.0, 0.0, 1.0, 0.0]))
    (0.565, 0.0)
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        qid: Any = None,
        k: int = 10,
        gain: Vectorized = linear_gain,
        discount: Vectorized = log_discount,
        *,
        sample_weight: Any = None,
    ) -> None:
        require(k >= 1, "`k` must be at least 1", k)
        design = as_design(X)
        n = design.shape[0]
        y, queries = non_negative(y, n), Queries.of(qid, n)
        places = np.arange(1.0, min(k, int(queries.sizes.max())) + 1.0)
        phi = WorstNdcg(queries, gains_of(gain, y)[queries.order], _discounts(discount, places), sample_weight)
        super().__init__(design, phi)
        self.mass = phi.mass


class PrecisionAtRisk(ScoreRisk):
    """The structured hinge for ``Delta = 1 - hits / most hits possible``, hits being relevant ones of the first k.

    Documents with ``y > 0`` are relevant.  Queries without one contribute nothing; negative y are refused.

    >>> PrecisionAtRisk(np.eye(3), [1, 0, 0], k=1).cut(np.array([0.0, 0.0, 0.5]))
    Cut(a=array([-1.,  0.,  1.]), b=1.0, value=1.5)
    """

    def __init__(self, X: Any, y: Any, qid: Any = None, k: int = 10, *, sample_weight: Any = None) -> None:
        require(k >= 1, "`k` must be at least 1", k)
        design = as_design(X)
        n = design.shape[0]
        y, queries = non_negative(y, n), Queries.of(qid, n)
        is_relevant = (y[queries.order] > 0.0).astype(np.float64)
        loss = partial(precision_losses, k=k)
        phi = WorstCount(queries, is_relevant, loss, sample_weight)
        super().__init__(design, phi)
        self.mass = phi.mass


class ReciprocalRankRisk(ScoreRisk):
    """The structured hinge for ``Delta = 1 - 1 / place of the first relevant document`` (MRR).

    Documents with ``y > 0`` are relevant.  Queries without one contribute nothing; negative y are refused.

    >>> risk = ReciprocalRankRisk(np.eye(3), [1, 0, 0])
    >>> round(risk.value(np.zeros(3)), 3), risk.value(np.array([1.0, 0.0, 0.0]))
    (0.667, 0.0)
    """

    def __init__(self, X: Any, y: Any, qid: Any = None, *, sample_weight: Any = None) -> None:
        design = as_design(X)
        n = design.shape[0]
        y, queries = non_negative(y, n), Queries.of(qid, n)
        is_relevant = (y[queries.order] > 0.0).astype(np.float64)
        phi = WorstCount(queries, is_relevant, reciprocal_rank_losses, sample_weight)
        super().__init__(design, phi)
        self.mass = phi.mass


def _discounts(discount: Vectorized, places: FloatArray) -> FloatArray:
    discounts = np.asarray(discount(places), dtype=np.float64)
    fits = discounts.shape == places.shape and np.isfinite(discounts).all() and discounts[-1] >= 0.0
    if not (fits and discounts[0] > 0.0 and (np.diff(discounts) <= 0.0).all()):
        raise DataError(
            f"discount must map the places 1 ... {places.size} to finite non-negative numbers that do not rise, "
            f"the first positive; got {discounts}"
        )
    return discounts
