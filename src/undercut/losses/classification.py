"""Margin losses ``l(y s)`` for targets y in {-1, +1}."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from undercut._jit import pointwise
from undercut.contracts import CompiledSlope, MarginLoss, Pieces, PiecewiseLinearLoss, SmoothLoss
from undercut.errors import require
from undercut.losses.registry import registered
from undercut.types import FloatArray


@registered("hinge")
@dataclass(frozen=True)
class Hinge(MarginLoss, PiecewiseLinearLoss):
    """``max(0, 1 - y s)``, the loss of the support vector machine.

    >>> Hinge().value_slope(np.array([1.0, -1.0]), np.array([0.5, -3.0]))
    (array([0.5, 0. ]), array([-1.,  0.]))
    """

    lipschitz = 1.0
    compiled_slope = CompiledSlope(pointwise.HINGE)

    @override
    def pieces(self, y: FloatArray) -> Pieces:
        return Pieces(-0.5 * (y + 1.0), y[None, :], np.ones(1))


@registered("squared_hinge")
@dataclass(frozen=True)
class SquaredHinge(MarginLoss, SmoothLoss):
    """``max(0, 1 - y s)^2``.

    >>> SquaredHinge().value_slope(np.array([1.0]), np.array([0.5]))
    (array([0.25]), array([-1.]))
    """

    compiled_slope = CompiledSlope(pointwise.SQUARED_HINGE)

    @override
    def value_slope(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        slack = np.maximum(0.0, 1.0 - y * scores)
        with np.errstate(over="ignore"):
            return slack**2, -2.0 * y * slack

    @override
    def curvature(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        return np.where(y * scores < 1.0, 2.0, 0.0)


@registered("huber_hinge")
@dataclass(frozen=True)
class HuberHinge(MarginLoss, SmoothLoss):
    """The hinge with its kink rounded over ``1 - width <= y s <= 1 + width``.

    ``(1 + width - y s)^2 / (4 width)`` there, 0 above, ``1 - y s`` below.

    >>> HuberHinge(width=0.5).value_slope(np.array([1.0]), np.array([1.0]))
    (array([0.125]), array([-0.5]))
    """

    lipschitz = 1.0

    width: float = 0.5

    def __post_init__(self) -> None:
        require(0.0 < self.width < math.inf, "`width` must be positive and finite", self.width)

    @override
    def value_slope(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        reach = np.clip((1.0 + self.width - y * scores) / (2.0 * self.width), 0.0, None)
        inside = np.minimum(reach, 1.0)
        return self.width * inside**2 + 2.0 * self.width * (reach - inside), -y * inside

    @override
    def curvature(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        return np.where(np.abs(1.0 - y * scores) < self.width, 0.5 / self.width, 0.0)

    @property
    @override
    def compiled_slope(self) -> CompiledSlope:
        return CompiledSlope(pointwise.HUBER_HINGE, self.width)


@registered("logistic")
@dataclass(frozen=True)
class Logistic(MarginLoss, SmoothLoss):
    """``log(1 + exp(-y s))``: the score is the log-odds of the class +1.

    >>> value, slope = Logistic().value_slope(np.array([1.0]), np.array([0.0]))
    >>> float(value[0].round(6)), float(slope[0])
    (0.693147, -0.5)
    """

    lipschitz = 1.0
    compiled_slope = CompiledSlope(pointwise.LOGISTIC)

    @override
    def value_slope(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        margin = y * scores
        with np.errstate(under="ignore"):
            small = np.exp(-np.abs(margin))  # one exponential serves both, and cannot overflow
            value = np.log1p(small) + np.maximum(-margin, 0.0)
            return value, -y * np.where(margin > 0.0, small, 1.0) / (1.0 + small)

    @override
    def curvature(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        with np.errstate(under="ignore"):
            small = np.exp(-np.abs(scores))
            return small / (1.0 + small) ** 2


@registered("exponential")
@dataclass(frozen=True)
class Exponential(MarginLoss, SmoothLoss):
    """``exp(-y s)``, the loss of boosting.

    >>> Exponential().value_slope(np.array([-1.0]), np.array([0.0]))
    (array([1.]), array([1.]))
    """

    compiled_slope = CompiledSlope(pointwise.EXPONENTIAL)

    @override
    def value_slope(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        with np.errstate(over="ignore", under="ignore"):
            value = np.exp(-y * scores)
        return value, -y * value

    @override
    def curvature(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        return self.value_slope(y, scores)[0]
