"""A loss plus a multiple of the score: what a price of the intercept makes of a loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from undercut.contracts import Loss, Pieces, PiecewiseLinearLoss, SmoothLoss
from undercut.errors import CapabilityError
from undercut.types import FloatArray


@dataclass(frozen=True)
class Tilted(Loss):
    """``l(y, s) + tilt (s - origin)``, the origin of a sample where its loss has the first kink, else zero."""

    loss: Loss
    tilt: float

    @override
    def check_target(self, y: FloatArray) -> None:
        self.loss.check_target(y)

    @override
    def infimum(self, y: FloatArray) -> FloatArray:
        return self.loss.infimum(y) if self.tilt == 0.0 else np.full_like(y, -np.inf)

    def origin(self, y: FloatArray) -> FloatArray:
        """Where the tilt adds nothing."""
        return np.zeros_like(y)


@dataclass(frozen=True)
class TiltedPieces(Tilted, PiecewiseLinearLoss):
    """A piecewise-linear loss plus a multiple of the score."""

    loss: PiecewiseLinearLoss

    @override
    def pieces(self, y: FloatArray) -> Pieces:
        left, kinks, jumps = self.loss.pieces(y)
        return Pieces(left + self.tilt, kinks, jumps)

    @override
    def origin(self, y: FloatArray) -> FloatArray:
        return np.asarray(self.loss.pieces(y).kinks[0])


@dataclass(frozen=True)
class TiltedSmooth(Tilted, SmoothLoss):
    """A smooth loss plus a multiple of the score."""

    loss: SmoothLoss

    @override
    def value_slope(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, slopes = self.loss.value_slope(y, scores)
        return values + self.tilt * scores, slopes + self.tilt

    @override
    def curvature(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        return self.loss.curvature(y, scores)


def tilted(loss: Loss, tilt: float) -> Tilted:
    """The loss plus ``tilt`` times the score, with the exact intercept of its kind.

    >>> from undercut import Hinge
    >>> tilted(Hinge(), 0.5).value_slope(np.array([1.0]), np.array([3.0]))
    (array([1.]), array([0.5]))
    """
    if isinstance(loss, PiecewiseLinearLoss):
        return TiltedPieces(loss, tilt)
    if isinstance(loss, SmoothLoss) and loss.is_convex:
        return TiltedSmooth(loss, tilt)
    raise CapabilityError(
        f"a shared intercept needs a convex SmoothLoss or a PiecewiseLinearLoss; got {type(loss).__name__}: "
        "use fit_intercept=False, and append a constant feature to X"
    )
