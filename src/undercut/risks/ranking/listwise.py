"""Listwise risks: a distribution over the documents of a query, and the softmax of their scores.

    R(w) = sum_q weight_q  sum_i p_i (log sum_j exp(s_j) - s_i),      p_i proportional to gain(y_i)

Cross-entropy, smooth, and an upper bound of ``-log NDCG`` up to a constant (Bruch, Wang, Bendersky, Najork 2019).  It
never asks for a margin that noise makes impossible, so it learns where the structured hinge of NDCG is minimized by
w = 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from undercut.contracts import CurvedRisk, GramProductDesign, HessianOperator
from undercut.errors import DataError
from undercut.kinds import Kinded
from undercut.maps.design import as_design
from undercut.risks.ranking.gains import Vectorized, gains_of, linear_gain
from undercut.risks.ranking.queries import MeanOverQueries, Queries, non_negative, query_weights
from undercut.risks.scores.score_risk import ScoreRisk
from undercut.types import FloatArray


class Listwise(MeanOverQueries):
    """``phi``: cross-entropy of ``shares``, which sum to 1 in queries that count, and the softmax of the scores."""

    def __init__(self, queries: Queries, shares: FloatArray, weight: FloatArray) -> None:
        super().__init__(queries)
        self.shares, self.weight = shares, weight

    @override
    def grouped(self, scores: FloatArray) -> tuple[float, FloatArray]:
        likely, logs = self._softmax(scores)
        values = logs - self.queries.sums(self.shares * scores)
        return float(self.weight @ values), (likely - self.shares) * self.queries.spread(self.weight)

    def likely(self, scores: FloatArray) -> FloatArray:
        """The softmax in each query, in grouped order."""
        return self._softmax(self.queries.centered(scores))[0]

    def _softmax(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The softmax, and the logarithm of the sum of exponentials by query."""
        queries = self.queries
        top = np.maximum.reduceat(scores, queries.starts[:-1])
        raised = np.exp(scores - queries.spread(top))
        sums = queries.sums(raised)
        return raised / queries.spread(sums), top + np.log(sums)


class ListwiseRisk(Kinded, ScoreRisk):
    """The softmax cross-entropy of each query's documents, weighted by the root of the query's total gain.

    ``gain`` maps an array of relevances to non-negative gains.  Queries without a relevant document contribute
    nothing; negative relevances are refused.

    >>> X, y, qid = np.eye(5), [2, 1, 0, 1, 0], [7, 7, 7, 8, 8]
    >>> round(ListwiseRisk(X, y, qid).value(np.zeros(5)), 3)
    0.95
    """

    phi: Listwise

    def __init__(
        self, X: Any, y: Any, qid: Any = None, gain: Vectorized = linear_gain, *, sample_weight: Any = None
    ) -> None:
        design = as_design(X)
        n = design.shape[0]
        queries = Queries.of(qid, n)
        y = non_negative(y, n)[queries.order]
        gains = np.where(queries.spread(queries.sums(y) > 0.0), gains_of(gain, y), 0.0)
        totals = queries.sums(gains)
        if not totals.any():
            raise DataError(f"a query must have a relevant document to be ranked; got {queries} without any")
        weight, self.mass = query_weights(queries, sample_weight, np.sqrt(totals))
        shares = gains / queries.spread(np.where(totals > 0.0, totals, 1.0))
        super().__init__(design, Listwise(queries, shares, weight))
        if isinstance(design, GramProductDesign):
            self.take_kinds(CurvedListwiseRisk)


class CurvedListwiseRisk(ListwiseRisk, CurvedRisk):
    """A listwise risk with products with its Hessian."""

    design: GramProductDesign

    @override
    def curvature(self, w: FloatArray) -> HessianOperator:
        return ListwiseHessian(self.design, self.phi, self.phi.likely(self.design.matvec(w)))


class ListwiseHessian:
    """``X' (diag(p) - p p' within each query) X``, times the weights of the queries; p in grouped order."""

    def __init__(self, design: GramProductDesign, phi: Listwise, likely: FloatArray) -> None:
        self._design, self._queries, self._likely = design, phi.queries, likely
        self._weighted = likely * phi.queries.spread(phi.weight)

    def product(self, v: FloatArray) -> FloatArray:
        """``H v``."""
        queries = self._queries
        rise = self._design.matvec(v)[queries.order]
        rise -= queries.spread(queries.sums(self._likely * rise))
        return self._design.rmatvec(queries.ungrouped(self._weighted * rise))

    def diagonal(self) -> FloatArray:
        """An upper bound of the diagonal, without the second term."""
        return self._design.squared_rmatvec(self._queries.ungrouped(self._weighted))
