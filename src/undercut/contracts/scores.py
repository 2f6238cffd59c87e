"""Functions of the scores ``X w``."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

from undercut.scalar import Point, minimize_convex
from undercut.types import FloatArray


class Evaluation(NamedTuple):
    """phi at some scores."""

    value: float
    slopes: FloatArray  # a subgradient in s, weights included; valid until the next evaluation
    intercept: float = 0.0  # what is to be added to the scores of new samples


class ScoreFunction(ABC):
    """``phi(s)``."""

    @abstractmethod
    def evaluate(self, scores: FloatArray) -> Evaluation:
        """Value, subgradient and intercept."""

    def intercept(self, scores: FloatArray) -> float:
        """What to add to the scores of new samples, where several values are best the one to be preferred."""
        return self.evaluate(scores).intercept

    def minimizer(
        self, scores: FloatArray, direction: FloatArray, slope: float, curvature: float, accuracy: float = 0.0
    ) -> float:
        """The t >= 0 that minimizes ``phi(scores + t direction) + slope t + curvature t^2 / 2``; see ``Line``."""

        def point(t: float) -> Point:
            value, slopes, _ = self.evaluate(scores + t * direction)
            return Point(value, float(slopes @ direction), math.nan)

        return minimize_convex(point, slope, curvature, accuracy=accuracy)
