"""Ordinal regression: one score, and a threshold between every two neighbouring grades (Shashua and Levin 2003).

    R(w) = min_b  sum_k sum_i weight_ik max(0, 1 - z_ik (s_i - b_k)),       z_ik = +1 if y_i > g_k, else -1

for grades ``g_1 < ... < g_G`` and thresholds ``b_1 ... b_{G-1}``.  Every sample meets all thresholds (Chu and Keerthi
2005), and each is the intercept of a separate hinge risk: grades above it against the others.  Both sides of a
threshold weigh the same: else, where few documents are relevant, calling all irrelevant is optimal, that is w = 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from undercut.contracts import Evaluation, SortedScores
from undercut.errors import DataError
from undercut.losses import Hinge
from undercut.maps.design import as_design
from undercut.risks.ranking.queries import Queries, query_weights, relevances
from undercut.risks.scores.mean_loss import FreePiecewise
from undercut.risks.scores.score_risk import ScoreRisk
from undercut.types import FloatArray


class AllThresholds(SortedScores):
    """``min_b sum_k sum_i weight_ik max(0, 1 - z_ik (s_i - b_k))``, z the sign of ``y_i > g_k``."""

    def __init__(self, y: FloatArray, weight: FloatArray) -> None:
        self.y, self.weight = y, weight
        self.grades = np.unique(y)
        if self.grades.size < 2:
            raise DataError(f"ordinal regression needs at least 2 grades; got only {self.grades[0]:g}")

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        value, slopes = 0.0, np.zeros_like(scores)
        for k in range(self.grades.size - 1):
            part = self._threshold(k).evaluate(scores)
            value += part.value
            slopes += part.slopes
        return Evaluation(value, slopes)

    def thresholds(self, scores: FloatArray) -> FloatArray:
        """The best b."""
        return np.array([-self._threshold(k).intercept(scores) for k in range(self.grades.size - 1)])

    def _threshold(self, k: int) -> FreePiecewise:
        """Made at every evaluation: keeping all would take memory for every pair of sample and threshold."""
        is_above = self.y > self.grades[k]
        above = float(self.weight @ is_above)
        share = np.where(is_above, 0.5 / above, 0.5 / (float(self.weight.sum()) - above))
        return FreePiecewise(Hinge(), np.where(is_above, 1.0, -1.0), self.weight * share)


class OrdinalRisk(ScoreRisk):
    """The all-threshold hinge, minimized over the thresholds: they are returned by ``thresholds(w)``.

    A sample of grade ``g_k`` is expected between thresholds k - 1 and k, at a distance of 1 from both, and pays for
    every threshold that it is on the wrong side of.  The mean is over documents, and with ``qid`` over the documents of
    a query, then over queries, which ``sample_weight`` weighs; the thresholds are common to all.

    >>> risk = OrdinalRisk(np.array([[0.0], [3.0], [6.0]]), [0, 1, 2])
    >>> risk.value(np.ones(1)), risk.thresholds(np.ones(1))
    (0.0, array([1.5, 4.5]))
    """

    phi: AllThresholds

    def __init__(self, X: Any, y: Any, qid: Any = None, *, sample_weight: Any = None) -> None:
        design = as_design(X)
        n = design.shape[0]
        y, queries = relevances(y, n), Queries.of(qid, n)
        of_queries, _ = query_weights(queries, sample_weight, np.ones(queries.sizes.size))
        super().__init__(design, AllThresholds(y, queries.ungrouped(queries.spread(of_queries / queries.sizes))))

    def thresholds(self, w: FloatArray) -> FloatArray:
        """The thresholds that belong to w, one between every two neighbouring grades, in order."""
        return self.phi.thresholds(self.design.matvec(w))
