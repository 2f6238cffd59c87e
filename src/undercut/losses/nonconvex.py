"""Losses that are piecewise linear but not convex: some of their kinks bend down.

Dropping the tangents at those kinks in their place gives the convex function above the loss that touches it at a given
score, which is what the convex-concave procedure minimizes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from undercut.arrays import FloatArray
from undercut.errors import DataError, require
from undercut.losses.base import Loss, check_signs


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


@dataclass(frozen=True)
class Ramp(KinkedLoss):
    """``min(1 - floor, max(0, 1 - y s))``: the hinge, but no sample costs more than ``1 - floor``.

    Outliers beyond ``y s = floor`` have no influence on the solution.

    >>> Ramp(floor=-1.0).value_slope(np.array([1.0, 1.0]), np.array([0.5, -3.0]))
    (array([0.5, 2. ]), array([-1.,  0.]))
    """

    floor: float = -1.0

    def __post_init__(self) -> None:
        require(-math.inf < self.floor < 1.0, "`floor` must be finite and below 1", self.floor)

    @override
    def kinks(self, y: FloatArray) -> Kinks:
        constant = np.where(y > 0.0, 1.0 - self.floor, 0.0)
        at = np.stack([self.floor * y, y])
        return Kinks(constant, np.zeros_like(y), at, np.stack([-np.ones_like(y), np.ones_like(y)]))

    @override
    def check_target(self, y: FloatArray) -> None:
        check_signs(y)


@dataclass(frozen=True)
class TransductiveHinge(KinkedLoss):
    """``max(0, 1 - y s)`` where y is -1 or +1, and ``max(0, 1 - |s|)`` where y is 0: unlabelled.

    An unlabelled sample costs most on the decision boundary, whichever side it is on.

    >>> TransductiveHinge().value_slope(np.array([1.0, 0.0]), np.array([-0.5, -0.5]))
    (array([1.5, 0.5]), array([-1.,  1.]))
    """

    @override
    def kinks(self, y: FloatArray) -> Kinks:
        free = np.where(y == 0.0, 1.0, 0.0)
        positive = np.where(y > 0.0, 1.0, 0.0)
        at = np.stack([y - free, np.zeros_like(y), free])
        return Kinks(positive, -positive, at, np.stack([np.ones_like(y), -2.0 * free, free]))

    @override
    def check_target(self, y: FloatArray) -> None:
        wrong = np.flatnonzero((np.abs(y) != 1.0) & (y != 0.0))
        if wrong.size:
            raise DataError(f"targets must be -1, +1, or 0 for unlabelled; got {y[wrong[0]]} at sample {wrong[0]}")
