"""Losses that are piecewise linear but not convex: some of their kinks bend down.

Dropping the tangents at those kinks in their place gives the convex function above the loss that touches it at a given
score, which is what the convex-concave procedure minimizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from undercut.contracts import KinkedLoss, Kinks, MarginLoss
from undercut.errors import DataError, require
from undercut.losses.registry import registered
from undercut.types import FloatArray


@registered("ramp")
@dataclass(frozen=True)
class Ramp(MarginLoss, KinkedLoss):
    """``min(1 - floor, max(0, 1 - y s))``: the hinge, but no sample costs more than ``1 - floor``.

    Outliers beyond ``y s = floor`` have no influence on the solution.

    >>> Ramp(floor=-1.0).value_slope(np.array([1.0, 1.0]), np.array([0.5, -3.0]))
    (array([0.5, 2. ]), array([-1.,  0.]))
    """

    lipschitz = 1.0

    floor: float = -1.0

    def __post_init__(self) -> None:
        require(-math.inf < self.floor < 1.0, "`floor` must be finite and below 1", self.floor)

    @override
    def kinks(self, y: FloatArray) -> Kinks:
        constant = np.where(y > 0.0, 1.0 - self.floor, 0.0)
        at = np.stack([self.floor * y, y])
        return Kinks(constant, np.zeros_like(y), at, np.stack([-np.ones_like(y), np.ones_like(y)]))


@registered("transductive_hinge")
@dataclass(frozen=True)
class TransductiveHinge(KinkedLoss):
    """``max(0, 1 - y s)`` where y is -1 or +1, and ``max(0, 1 - |s|)`` where y is 0: unlabelled.

    An unlabelled sample costs most on the decision boundary, whichever side it is on.

    >>> TransductiveHinge().value_slope(np.array([1.0, 0.0]), np.array([-0.5, -0.5]))
    (array([1.5, 0.5]), array([-1.,  1.]))
    """

    lipschitz = 1.0

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
