"""What a pointwise loss answers about itself.

A loss is a function of the score s = <w, x> + b of one sample with target y.  A ``MarginLoss`` has targets -1 and +1, a
``RegressionLoss`` finite numbers.  A loss that is also a ``SmoothLoss`` or a ``PiecewiseLinearLoss`` gets a faster
exact line search and intercept.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from typing_extensions import override

from undercut._jit import piecewise
from undercut.errors import DataError
from undercut.types import Array, FloatArray


class CompiledSlope(NamedTuple):
    """How the compiled loops compute the slope of a loss: its number in ``_jit.pointwise``, and its one setting."""

    number: int
    setting: float = 0.0


class Loss(ABC):
    """``l(y, s)``, convex in s unless ``is_convex`` says otherwise."""

    is_convex: ClassVar[bool] = True

    @property
    def lipschitz(self) -> float:
        """A bound on ``|slope|`` for all targets and scores; infinity where there is none or it is unknown."""
        return math.inf

    @property
    def compiled_slope(self) -> CompiledSlope | None:
        """The slope in compiled loops; ``None`` where loops must call ``value_slope``.

        Only losses registered in ``undercut.losses`` are asked: a subclass may define another ``value_slope``.
        """
        return None

    @abstractmethod
    def value_slope(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values and subgradients in s; infinity where a value overflows, without a warning."""

    @abstractmethod
    def check_target(self, y: FloatArray) -> None:
        """Raise ``DataError`` unless every target is in the domain of the loss."""

    def infimum(self, y: FloatArray) -> FloatArray:
        """``inf_s l(y, s)`` for each target; ``-inf`` where unknown."""
        return np.zeros_like(y)

    def predict(self, scores: FloatArray) -> FloatArray:
        """The prediction a score stands for: the score itself, or the mean it parametrizes."""
        return scores


class MarginLoss(Loss):
    """A loss ``l(y s)`` for classification: targets are -1 and +1."""

    @override
    def check_target(self, y: FloatArray) -> None:
        wrong = np.flatnonzero(np.abs(y) != 1.0)
        if wrong.size:
            raise DataError(f"targets must be -1 or +1; got {y[wrong[0]]} at sample {wrong[0]}")


class RegressionLoss(Loss):
    """A loss for regression: targets are finite numbers."""

    @override
    def check_target(self, y: FloatArray) -> None:
        wrong = np.flatnonzero(~np.isfinite(y))
        if wrong.size:
            raise DataError(f"targets must be finite; got {y[wrong[0]]} at sample {wrong[0]}")


class SmoothLoss(Loss):
    """A loss whose derivative is continuous and, but for finitely many points, differentiable."""

    @abstractmethod
    def curvature(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        """Second derivatives in s; any value between the one-sided ones where they differ."""


class Pieces(NamedTuple):
    """``l_i(s) = left_i (s - kinks_0i) + sum_k jumps_k max(0, s - kinks_ki)``."""

    left: FloatArray  # slope below the first kink, one per sample
    kinks: FloatArray  # one row per kink, ascending; one column per sample
    jumps: FloatArray  # increase of the slope at each kink


class PiecewiseLinearLoss(Loss):
    """A loss given by its kinks, and zero at the first of them."""

    @abstractmethod
    def pieces(self, y: FloatArray) -> Pieces:
        """The kinks of every sample's loss."""

    @override
    def value_slope(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, slopes = np.empty_like(scores), np.empty_like(scores)
        piecewise.value_slope(*self.pieces(y), scores, values, slopes)
        return values, slopes


class Kinks(NamedTuple):
    """``l_i(s) = constant_i + left_i s + sum_k jumps_ki max(0, s - at_ki)``; a kink with a jump of zero is none."""

    constant: FloatArray
    left: FloatArray
    at: FloatArray  # one row per kink, one column per sample
    jumps: FloatArray

    def value_slope(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Loss and right derivative of every sample at its score."""
        passed = np.where(scores >= self.at, self.jumps, 0.0)
        slopes = self.left + passed.sum(axis=0)
        with np.errstate(over="ignore"):  # as a line per piece: nothing cancels where it is level
            return self.constant - (passed * self.at).sum(axis=0) + slopes * scores, slopes

    def majorized(self, scores: FloatArray) -> Kinks:
        """The convex kinks as they are, the others replaced by their tangents at ``scores``."""
        tangent = np.where((self.jumps < 0.0) & (scores >= self.at), self.jumps, 0.0)
        constant = self.constant - (tangent * self.at).sum(axis=0)
        return Kinks(constant, self.left + tangent.sum(axis=0), self.at, np.maximum(self.jumps, 0.0))


class KinkedLoss(Loss):
    """A continuous piecewise-linear loss, convex or not, given by its kinks."""

    is_convex = False

    @abstractmethod
    def kinks(self, y: FloatArray) -> Kinks:
        """The kinks of every sample's loss."""

    @override
    def value_slope(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.kinks(y).value_slope(scores)


class Motion(NamedTuple):
    """``t -> l(y_i, s_i + t d_i)`` at one t: one entry per sample."""

    values: FloatArray
    slopes: FloatArray
    bends: FloatArray  # second derivatives; NaN where there are none


class MulticlassLoss(ABC):
    """``l(y, s)``, non-negative and convex in the K scores s."""

    @abstractmethod
    def value_slope(self, y: Array, S: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values, and a subgradient in s for every row of S."""

    @abstractmethod
    def along(self, y: Array, S: FloatArray, D: FloatArray, t: float) -> Motion:
        """The losses at ``S + t D``, as functions of t."""

    def check_classes(self, n_classes: int) -> None:  # noqa: B027  (most losses fit any number)
        """Raise ``DataError`` if the loss is made for another number of classes."""
