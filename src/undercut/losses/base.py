"""What a pointwise loss answers about itself.

A loss is a function of the score s = <w, x> + b of one sample with target y.  A loss that is also a
``SmoothLoss`` or a ``PiecewiseLinearLoss`` gets a faster exact line search and intercept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from typing_extensions import override

from undercut.arrays import FloatArray
from undercut.errors import DataError
from undercut.kernels import piecewise


class Loss(ABC):
    """``l(y, s)``, convex in s unless ``is_convex`` says otherwise."""

    is_convex: ClassVar[bool] = True

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


def check_signs(y: FloatArray) -> None:
    """Binary targets inside a risk are -1 and +1."""
    wrong = np.flatnonzero(np.abs(y) != 1.0)
    if wrong.size:
        raise DataError(f"targets must be -1 or +1; got {y[wrong[0]]} at sample {wrong[0]}")


def check_finite(y: FloatArray) -> None:
    """Regression targets are finite numbers."""
    wrong = np.flatnonzero(~np.isfinite(y))
    if wrong.size:
        raise DataError(f"targets must be finite; got {y[wrong[0]]} at sample {wrong[0]}")
