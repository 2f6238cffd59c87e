"""Average precision by the pairs that a ranking inverts (Yue, Finley, Radlinski, Joachims 2007, SVM-map).

    R(w) = mean_q max_pi  Delta_q(pi) + mean over pairs of  [pi inverts (i, j)] (s_j - s_i)

i relevant and j irrelevant.  For a model that knows nothing the most violated ranking inverts every pair, so any w that
scores relevant documents higher on average lowers R, however many irrelevant documents there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from undercut._jit.interleave import worst_average_precision
from undercut.contracts import SortedScores
from undercut.errors import DataError
from undercut.maps.design import as_design
from undercut.risks.ranking.queries import MeanOverQueries, Queries, non_negative, query_weights
from undercut.risks.scores.score_risk import ScoreRisk
from undercut.types import Array, FloatArray


class WorstInterleaving(MeanOverQueries, SortedScores):
    """``phi`` over the queries with a relevant document."""

    def __init__(self, queries: Queries, is_relevant: Array, weight: FloatArray) -> None:
        super().__init__(queries)
        self._query, self._is_other = queries.spread(np.arange(queries.sizes.size)), ~is_relevant
        self._n_good, self._weight = queries.sums(is_relevant.astype(np.int64)), weight

    @override
    def grouped(self, scores: FloatArray) -> tuple[float, FloatArray]:
        order = np.lexsort((-scores, self._is_other, self._query))
        ordered, losses = np.empty_like(scores), np.empty_like(self._weight)
        worst_average_precision(self.queries.starts, self._n_good, scores[order], ordered, losses)
        slopes = np.empty_like(scores)
        slopes[order] = ordered * self.queries.spread(self._weight)
        return float(self._weight @ losses) + float(slopes @ scores), slopes


class AveragePrecisionRisk(ScoreRisk):
    """The hinge of pairs for ``Delta = 1 - average precision`` (MAP), the mean of i / place of the i-th relevant one.

    Documents with ``y > 0`` are relevant.  Queries without one contribute nothing; negative y are refused.  An
    evaluation takes time in the number of pairs, and memory in the number of documents.

    >>> risk = AveragePrecisionRisk(np.eye(3), [1, 0, 0])
    >>> round(risk.value(np.zeros(3)), 3), risk.value(np.array([2.0, 0.0, 0.0]))
    (0.667, 0.0)
    """

    def __init__(self, X: Any, y: Any, qid: Any = None, *, sample_weight: Any = None) -> None:
        design = as_design(X)
        n = design.shape[0]
        y, queries = non_negative(y, n), Queries.of(qid, n)
        is_relevant = y[queries.order] > 0.0
        counts = queries.sums(is_relevant.astype(np.int64)) > 0
        if not counts.any():
            raise DataError(f"a query must have a relevant document to be ranked; got {queries} without any")
        weight, self.mass = query_weights(queries, sample_weight, counts)
        super().__init__(design, WorstInterleaving(queries, is_relevant, weight))
