"""Several quantiles at once, which cannot cross."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from undercut.contracts import Evaluation, ScoreFunction
from undercut.errors import require
from undercut.losses import Quantile
from undercut.maps.design import as_design
from undercut.risks.checks import normalized_weights, real_targets
from undercut.risks.scores.mean_loss import mean_loss
from undercut.risks.scores.score_risk import ScoreRisk
from undercut.types import FloatArray


class MeanOfQuantiles(ScoreFunction):
    """``phi(s) = mean_k min_b sum_i weight_i quantile_loss_k(y_i, s_i + b)``."""

    def __init__(self, y: FloatArray, weight: FloatArray, quantiles: Sequence[float]) -> None:
        self.parts = [mean_loss(Quantile(q), y, weight, fit_intercept=True) for q in quantiles]

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        parts = [part.evaluate(scores) for part in self.parts]
        slopes = np.mean([part.slopes for part in parts], axis=0)
        return Evaluation(float(np.mean([part.value for part in parts])), slopes)

    def intercepts(self, scores: FloatArray) -> FloatArray:
        """One per quantile, in ascending order."""
        found = [part.evaluate(scores).intercept for part in self.parts]
        return np.maximum.accumulate(found)  # ascending but for rounding


class CompositeQuantileRisk(ScoreRisk):
    """``R(w) = mean_k min_{b_k} sum_i weight_i max(q_k r_ik, (q_k - 1) r_ik)`` with ``r_ik = y_i - <w, x_i> - b_k``.

    Composite quantile regression (Zou and Yuan 2008): the quantiles ``<w, x> + b_k`` share one w, and each b_k is a
    quantile of the same residuals, so they cannot cross, wherever x is.  (Two linear functions that never cross are
    parallel.)  The intercepts are not penalized, are found exactly, and are read off with ``intercepts(w)``.

    >>> from undercut import L2, minimize
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, 3.0, 3.0, 5.0])
    >>> risk = CompositeQuantileRisk(X, y, quantiles=(0.1, 0.9))
    >>> w = minimize(risk, L2(1e-3)).w
    >>> w.round(3), risk.intercepts(w).round(3)
    (array([1.]), array([1., 2.]))
    """

    def __init__(self, X: Any, y: Any, quantiles: Sequence[float] = (0.1, 0.9), sample_weight: Any = None) -> None:
        ascending = len(quantiles) > 0 and bool((np.diff(quantiles) > 0.0).all())
        require(ascending, "`quantiles` must be ascending, and at least one", quantiles)
        design = as_design(X)
        y = real_targets(y, design.shape)
        Quantile().check_target(y)
        self.phi: MeanOfQuantiles
        self.quantiles = tuple(quantiles)
        super().__init__(design, MeanOfQuantiles(y, normalized_weights(sample_weight, y.size), quantiles))

    def intercepts(self, w: FloatArray) -> FloatArray:
        """The intercepts that belong to w, one per quantile."""
        return self.phi.intercepts(self.design.matvec(w))
