"""The risk of a one-class support vector machine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from typing_extensions import override

from undercut._jit.crossing import crossing
from undercut.contracts import Evaluation, ScoreFunction
from undercut.errors import DataError, require
from undercut.maps.design import as_design
from undercut.risks.checks import normalized_weights
from undercut.risks.scores.score_risk import ScoreRisk
from undercut.types import FloatArray


class LowestShare(ScoreFunction):
    """``phi(s) = min_rho 1/nu sum_i weight_i max(0, rho - s_i) - rho``, minus the mean of the lowest share nu of s.

        phi(s) = max_q - sum_i q_i s_i      over 0 <= q_i <= weight_i / nu,  sum_i q_i = 1

    The best rho is the nu-quantile of the scores; scores equal to it share the rest of q.  phi is positively
    homogeneous: its planes pass through the origin.
    """

    def __init__(self, weight: FloatArray, nu: float) -> None:
        self.weight, self.nu = weight, nu
        self._most = weight / nu  # of q

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        rho = float(crossing(scores.copy(), self._most.copy(), -1.0, 0.0, -math.inf))
        if not math.isfinite(rho):  # nu = 1, up to rounding
            rho = float(scores[self.weight > 0.0].max())
        q = np.where(scores < rho, self._most, 0.0)
        tied = np.flatnonzero(scores == rho)
        room = float(self._most[tied].sum())
        if room > 0.0:
            q[tied] = self._most[tied] * min(1.0, max(0.0, (1.0 - float(q.sum())) / room))
        return Evaluation(-float(q @ scores), -q, -rho)


class NoveltyRisk(ScoreRisk):
    """``R(w) = min_rho 1/nu sum_i weight_i max(0, rho - <w, x_i>) - rho``, the weights scaled to sum to one.

    With L2 this is the one-class support vector machine (Schölkopf et al. 2001): a hyperplane ``<w, x> = rho`` far from
    the origin with all but a share nu of the samples beyond it.  The margin rho is not penalized, is found exactly, and
    is returned by ``margin(w)``.

    R is positively homogeneous, so it is bounded from below only where the origin lies among the samples, and the
    optimal w for lambda is that for 1 divided by lambda.

    >>> from undercut import L2, minimize
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    >>> risk = NoveltyRisk(X, nu=0.5)
    >>> w = minimize(risk, L2(1.0)).w
    >>> w.round(3), round(risk.margin(w), 3)
    (array([0.5, 0.5]), 0.5)
    """

    def __init__(self, X: Any, nu: float = 0.5, sample_weight: Any = None) -> None:
        require(0.0 < nu <= 1.0, "`nu` must be positive and at most 1", nu)
        design = as_design(X)
        if design.shape[0] == 0:
            raise DataError(f"X must have at least one row; got shape {design.shape}")
        self.nu, self.weight = nu, normalized_weights(sample_weight, design.shape[0])
        super().__init__(design, LowestShare(self.weight, nu), lower_bound=-math.inf)

    def margin(self, w: FloatArray) -> float:
        """The rho that belongs to w: scores below it are novel."""
        return -self.intercept(w)
