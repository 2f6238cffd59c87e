"""Losses of the residual ``s - y``, and the Poisson loss for counts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy
from typing_extensions import override

from undercut._jit import pointwise
from undercut.contracts import CompiledSlope, Pieces, PiecewiseLinearLoss, RegressionLoss, SmoothLoss
from undercut.errors import DataError, require
from undercut.losses.registry import registered
from undercut.types import FloatArray


@registered("squared")
@dataclass(frozen=True)
class Squared(RegressionLoss, SmoothLoss):
    """``(s - y)^2 / 2``.

    >>> Squared().value_slope(np.array([1.0]), np.array([3.0]))
    (array([2.]), array([2.]))
    """

    compiled_slope = CompiledSlope(pointwise.SQUARED)

    @override
    def value_slope(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        residual = scores - y
        with np.errstate(over="ignore"):
            return 0.5 * residual**2, residual

    @override
    def curvature(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        return np.ones_like(scores)


@registered("absolute")
@dataclass(frozen=True)
class Absolute(RegressionLoss, PiecewiseLinearLoss):
    """``|s - y|``: the score estimates the median.

    >>> Absolute().value_slope(np.array([1.0, 1.0]), np.array([3.0, 0.0]))
    (array([2., 1.]), array([ 1., -1.]))
    """

    lipschitz = 1.0
    compiled_slope = CompiledSlope(pointwise.ABSOLUTE)

    @override
    def pieces(self, y: FloatArray) -> Pieces:
        return Pieces(np.full_like(y, -1.0), y[None, :], np.array([2.0]))


@registered("epsilon_insensitive")
@dataclass(frozen=True)
class EpsilonInsensitive(RegressionLoss, PiecewiseLinearLoss):
    """``max(0, |s - y| - epsilon)``, the loss of support vector regression.

    >>> EpsilonInsensitive(epsilon=0.5).value_slope(np.array([0.0, 0.0]), np.array([2.0, 0.1]))
    (array([1.5, 0. ]), array([1., 0.]))
    """

    lipschitz = 1.0

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        require(0.0 <= self.epsilon < math.inf, "`epsilon` must be non-negative and finite", self.epsilon)

    @override
    def pieces(self, y: FloatArray) -> Pieces:
        return Pieces(np.full_like(y, -1.0), np.stack([y - self.epsilon, y + self.epsilon]), np.ones(2))

    @property
    @override
    def compiled_slope(self) -> CompiledSlope:
        return CompiledSlope(pointwise.EPSILON_INSENSITIVE, self.epsilon)


@registered("quantile")
@dataclass(frozen=True)
class Quantile(RegressionLoss, PiecewiseLinearLoss):
    """``max(quantile (y - s), (1 - quantile) (s - y))``: the score estimates that quantile.

    >>> Quantile(quantile=0.9).value_slope(np.array([1.0, 1.0]), np.array([3.0, 0.0]))
    (array([0.2, 0.9]), array([ 0.1, -0.9]))
    """

    quantile: float = 0.5

    def __post_init__(self) -> None:
        require(0.0 < self.quantile < 1.0, "`quantile` must lie between 0 and 1", self.quantile)

    @override
    def pieces(self, y: FloatArray) -> Pieces:
        return Pieces(np.full_like(y, -self.quantile), y[None, :], np.ones(1))

    @property
    @override
    def lipschitz(self) -> float:
        return max(self.quantile, 1.0 - self.quantile)

    @property
    @override
    def compiled_slope(self) -> CompiledSlope:
        return CompiledSlope(pointwise.QUANTILE, self.quantile)


@registered("huber")
@dataclass(frozen=True)
class Huber(RegressionLoss, SmoothLoss):
    """``(s - y)^2 / 2`` where ``|s - y| <= width``, ``width (|s - y| - width / 2)`` beyond.

    >>> Huber(width=1.0).value_slope(np.array([0.0, 0.0]), np.array([0.5, -3.0]))
    (array([0.125, 2.5  ]), array([ 0.5, -1. ]))
    """

    width: float = 1.35

    def __post_init__(self) -> None:
        require(0.0 < self.width < math.inf, "`width` must be positive and finite", self.width)

    @override
    def value_slope(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        residual = scores - y
        slope = np.clip(residual, -self.width, self.width)
        return slope * (residual - 0.5 * slope), slope

    @override
    def curvature(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        return np.where(np.abs(scores - y) <= self.width, 1.0, 0.0)

    @property
    @override
    def lipschitz(self) -> float:
        return self.width

    @property
    @override
    def compiled_slope(self) -> CompiledSlope:
        return CompiledSlope(pointwise.HUBER, self.width)


@registered("poisson")
@dataclass(frozen=True)
class Poisson(RegressionLoss, SmoothLoss):
    """``exp(s) - y s``, the negative log-likelihood of a count y with mean exp(s), up to ``log y!``.

    >>> Poisson().value_slope(np.array([2.0]), np.array([0.0]))
    (array([1.]), array([-1.]))
    """

    compiled_slope = CompiledSlope(pointwise.POISSON)

    @override
    def value_slope(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = self.predict(scores)
        return mean - y * scores, mean - y

    @override
    def curvature(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        return self.predict(scores)

    @override
    def infimum(self, y: FloatArray) -> FloatArray:
        return np.asarray(y - xlogy(y, y))

    @override
    def predict(self, scores: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(scores)

    @override
    def check_target(self, y: FloatArray) -> None:
        super().check_target(y)
        wrong = np.flatnonzero(y < 0.0)
        if wrong.size:
            raise DataError(f"Poisson targets must be non-negative; got {y[wrong[0]]} at sample {wrong[0]}")
