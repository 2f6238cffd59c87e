"""What the weighted mean of a smooth loss answers, with or without a free intercept."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from typing_extensions import override

from undercut.contracts import ScoreFunction
from undercut.scalar import Point
from undercut.types import FloatArray


class Ahead(NamedTuple):
    """Slopes that a linear model predicts, and the conjugate of the mean loss there."""

    slopes: FloatArray  # of the shape of the scores, weights included
    conjugate: float
    size: float  # of the numbers whose sum is the conjugate


class SmoothMean(ScoreFunction):
    """The weighted mean of a smooth loss."""

    @abstractmethod
    def bend(self, scores: FloatArray) -> FloatArray:
        """Weighted second derivatives of the losses at their scores, the intercept included."""

    @abstractmethod
    def point(self, scores: FloatArray, direction: FloatArray) -> Point:
        """Value, first and second derivative along ``direction``."""

    @override
    def trial(self, scores: FloatArray, direction: FloatArray, t: float) -> Point:
        return self.point(scores + t * direction, direction)
