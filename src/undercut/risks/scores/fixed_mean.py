"""The weighted mean of a loss without intercept.

Smooth losses of this library are evaluated by one compiled pass, which fills slopes and second derivatives at once.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

import numpy as np
from typing_extensions import override

from undercut._jit import pointwise
from undercut.contracts import CompiledSlope, Evaluation, Loss, ScoreFunction, SmoothLoss
from undercut.losses import compiled_slope
from undercut.risks.scores.smooth_mean import Expanded, Expansion, SmoothMean
from undercut.scalar import Point, minimize_convex
from undercut.types import Array, FloatArray


class Fixed(ScoreFunction):
    """Any loss."""

    def __init__(self, loss: Loss, y: FloatArray, weight: FloatArray) -> None:
        self.loss, self.y, self.weight = loss, y, weight

    @cached_property
    def _unused(self) -> Array:
        """Samples without a weight, whose losses may overflow."""
        return np.flatnonzero(self.weight == 0.0)

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        values, slopes = self.loss.value_slope(self.y, scores)
        values[self._unused] = slopes[self._unused] = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            return Evaluation(float(self.weight @ values), self.weight * slopes, 0.0)


class FixedSmooth(Fixed, SmoothMean):
    """A smooth loss: the line search takes Newton steps."""

    loss: SmoothLoss

    @override
    def expand(self, scores: FloatArray) -> Expansion:
        value, slopes, _ = self.evaluate(scores)
        return Expansion(value, slopes, self.bend(scores))

    @override
    def bend(self, scores: FloatArray) -> FloatArray:
        bend = self.loss.curvature(self.y, scores)
        bend[self._unused] = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            return self.weight * bend


class FixedCompiled(FixedSmooth):
    """A smooth loss that compiled code knows."""

    numbers: ClassVar[tuple[int, ...]]  # of its losses

    def __init__(self, loss: SmoothLoss, compiled: CompiledSlope, y: FloatArray, weight: FloatArray) -> None:
        super().__init__(loss, y, weight)
        self._compiled = compiled

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        at = self.expand(scores)
        return Evaluation(at.value, at.slopes, 0.0)

    @override
    def bend(self, scores: FloatArray) -> FloatArray:
        return self.expand(scores).bend


class FixedLogistic(FixedCompiled):
    """The logistic loss."""

    numbers = (pointwise.LOGISTIC,)

    @override
    def expand(self, scores: FloatArray) -> Expansion:
        with np.errstate(under="ignore"):
            small = np.abs(scores)
            np.negative(small, out=small)
            np.exp(small, out=small)
            logs = np.log1p(small)
        slopes, bend = np.empty((2, scores.size))
        value = pointwise.logistic(self.y, self.weight, scores, small, logs, slopes, bend)
        return Expansion(float(value), slopes, bend)


class FixedParabolas(FixedCompiled):
    """Pieces of parabolas: trial points of a line search are sums of one compiled pass."""

    numbers = pointwise.QUADRATIC

    @override
    def expand(self, scores: FloatArray) -> Expansion:
        slopes, bend = np.empty((2, scores.size))
        value = pointwise.parabolas(*self._compiled, self.y, self.weight, scores, slopes, bend)
        return Expansion(float(value), slopes, bend)

    @override
    def search(self, line: Expanded, slope: float, curvature: float, accuracy: float) -> float:
        def point(t: float) -> Point:
            found = pointwise.parabolas_along(*self._compiled, self.y, self.weight, line.scores, line.rise, t)
            return Point(*found) if math.isfinite(found[0]) else Point(math.inf, math.nan, math.nan)

        return minimize_convex(point, slope, curvature, accuracy=accuracy)


def fixed_smooth(loss: SmoothLoss, y: FloatArray, weight: FloatArray) -> FixedSmooth:
    """The mean of a smooth loss, compiled where it can be."""
    named = compiled_slope(loss)
    for kind in (FixedLogistic, FixedParabolas):
        if named is not None and named.number in kind.numbers:
            return kind(loss, named, y, weight)
    return FixedSmooth(loss, y, weight)
