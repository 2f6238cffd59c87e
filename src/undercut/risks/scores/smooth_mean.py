"""What the weighted mean of a smooth loss answers, with or without a free intercept."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple, Protocol

from typing_extensions import override

from undercut.contracts import Evaluation, ScoreFunction
from undercut.scalar import Point, minimize_convex
from undercut.types import FloatArray


class Ahead(NamedTuple):
    """Slopes that a linear model predicts, and the conjugate of the mean loss there."""

    slopes: FloatArray  # of the shape of the scores, weights included
    conjugate: float
    size: float  # of the numbers whose sum is the conjugate


class Expansion(NamedTuple):
    """The mean loss at some scores, to second order; the arrays belong to the caller."""

    value: float
    slopes: FloatArray  # weights included
    bend: FloatArray  # weighted second derivatives of the losses at their scores, the intercept included
    intercept: float = 0.0


class Expanded(Protocol):
    """A line of scores ``scores + t rise`` that keeps the last expansion on it."""

    scores: FloatArray
    rise: FloatArray
    start: Expansion | None  # the one at t = 0, if it is known

    def expansion(self, t: float) -> Expansion:
        """The expansion at t."""


class Alone:
    """A line of scores that keeps nothing."""

    start: Expansion | None = None

    def __init__(self, phi: SmoothMean, scores: FloatArray, rise: FloatArray) -> None:
        self.phi, self.scores, self.rise = phi, scores, rise

    def expansion(self, t: float) -> Expansion:
        return self.phi.expand(self.scores + t * self.rise)


class SmoothMean(ScoreFunction):
    """The weighted mean of a smooth loss."""

    @property
    def fixed(self) -> SmoothMean:
        """The mean at scores that include the intercept."""
        return self

    @abstractmethod
    def expand(self, scores: FloatArray) -> Expansion:
        """Value, slopes and second derivatives."""

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        at = self.expand(scores)
        return Evaluation(at.value, at.slopes, at.intercept)

    def bend(self, scores: FloatArray) -> FloatArray:
        """Weighted second derivatives of the losses at their scores, the intercept included."""
        return self.expand(scores).bend

    def along(self, at: Expansion, direction: FloatArray) -> Point:
        """Value, first and second derivative along ``direction``."""
        return Point(at.value, float(at.slopes @ direction), float(at.bend @ direction**2))

    def search(self, line: Expanded, slope: float, curvature: float, accuracy: float) -> float:
        """What ``minimizer`` returns for a line."""

        def point(t: float) -> Point:
            return self.along(line.expansion(t), line.rise)

        return minimize_convex(point, slope, curvature, accuracy=accuracy)

    @override
    def minimizer(
        self, scores: FloatArray, direction: FloatArray, slope: float, curvature: float, accuracy: float = 0.0
    ) -> float:
        return self.search(Alone(self, scores, direction), slope, curvature, accuracy)

    @override
    def trial(self, scores: FloatArray, direction: FloatArray, t: float) -> Point:
        return self.along(self.expand(scores + t * direction), direction)
