"""The weighted mean of the Poisson loss: one exponential function gives value, slopes and second derivatives.

    fixed:  phi(s) = sum_i m_i - sum_i weight_i y_i s_i                 m_i = weight_i exp(s_i + b), b = 0
    free:   the same at s + b, with the best b = log(sum_i weight_i y_i / sum_i weight_i exp(s_i)) in closed form

The slopes are ``m_i - weight_i y_i`` and the second derivatives ``m_i``.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from typing_extensions import override

from undercut.risks.scores.smooth_mean import Ahead, Expansion, SmoothMean
from undercut.scalar import Point
from undercut.types import FloatArray


class FixedPoisson(SmoothMean):
    """No intercept."""

    def __init__(self, y: FloatArray, weight: FloatArray) -> None:
        self.weight, self.counts = weight, weight * y
        self._unused = np.flatnonzero(weight == 0.0)  # may overflow without counting

    @override
    def expand(self, scores: FloatArray) -> Expansion:
        b, means = self._settled(scores)
        with np.errstate(over="ignore", invalid="ignore"):
            return Expansion(self._value(scores + b, means), means - self.counts, means, b)

    @override
    def bend(self, scores: FloatArray) -> FloatArray:
        return self._settled(scores)[1]

    @override
    def along(self, at: Expansion, direction: FloatArray) -> Point:
        with np.errstate(over="ignore", invalid="ignore"):
            curvature = float(at.bend @ self._centered(direction, at.bend) ** 2)
            return Point(at.value, float(at.slopes @ direction), curvature)

    def ahead(self, scores: FloatArray, rise: FloatArray) -> Ahead | None:
        """The slopes that a linear model at ``scores`` predicts for ``scores + rise``.

        ``None`` unless the predicted means m are positive.  The conjugate is ``sum_i m_i log(m_i / weight_i) - m_i``.
        """
        b, means = self._settled(scores)
        with np.errstate(over="ignore", invalid="ignore"):
            factors = self._centered(rise, means)
            factors += 1.0
            factors[self._unused] = 1.0
            if not float(factors.min()) > 0.0:
                return None
            means *= factors
            logs = np.log(factors)
            logs += scores
            logs += b - 1.0
            logs *= means
            return Ahead(means - self.counts, float(logs.sum()), float(np.abs(logs).sum()))

    def _value(self, scores: FloatArray, means: FloatArray) -> float:
        return float(means.sum()) - float(self.counts @ scores)

    def _settled(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """The best b, and the weighted means there."""
        return 0.0, self._means(scores)

    def _centered(self, direction: FloatArray, means: FloatArray) -> FloatArray:
        """How fast the scores change along a direction, the best intercept included; new memory."""
        return direction.copy()

    def _means(self, scores: FloatArray) -> FloatArray:
        """``weight_i exp(s_i)``."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            means = np.exp(scores)
            means *= self.weight
        means[self._unused] = 0.0
        return means


class FreePoisson(FixedPoisson):
    """Free intercept, at least one positive count: phi is a function of one variable along a line."""

    def __init__(self, y: FloatArray, weight: FloatArray) -> None:
        super().__init__(y, weight)
        self._y = y
        self._used = np.flatnonzero(weight)
        self._total = float(self.counts.sum())

    @cached_property
    @override
    def fixed(self) -> SmoothMean:
        return FixedPoisson(self._y, self.weight)

    @override
    def _settled(self, scores: FloatArray) -> tuple[float, FloatArray]:
        used = scores if self._used.size == scores.size else scores[self._used]
        top = float(used.max())  # subtracted so that nothing overflows
        with np.errstate(invalid="ignore"):
            means = self._means(scores - top)
        share = self._total / float(means.sum())
        means *= share
        return math.log(share) - top, means

    @override
    def _centered(self, direction: FloatArray, means: FloatArray) -> FloatArray:
        return direction - float(means @ direction) / self._total
