"""The intercept of some samples of a linear risk as a variable of its own, or at a price.

For a part of the samples, such as a shard, with ``R(w, b) = sum_i weight_i l(y_i, <w, x_i> + b)``,

    joint     R(w, b) as a risk of the parameters (w, b)
    priced    min_b R(w, b) + beta b  =  <beta/W X' weight, w> - beta/W sum_i weight_i o_i  subtracted from the risk of
              the losses ``l + beta/W (s - o)`` with a free intercept, W the sum of the weights
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undercut.contracts import PiecewiseLinearLoss
from undercut.errors import CapabilityError
from undercut.maps.design import WithConstant
from undercut.maps.matrix import Matrix
from undercut.risks.scores.linear import LinearRisk
from undercut.risks.scores.tilted_loss import tilted
from undercut.types import FloatArray

FAR = 30.0  # beyond all targets: slopes of the logistic loss are there 1e-13 from their limits


class Priced(NamedTuple):
    """``min_b R(w, b) + beta b = risk(w) + <tilt, w> + constant``."""

    risk: LinearRisk
    tilt: FloatArray
    constant: float


def joint(part: LinearRisk) -> LinearRisk:
    """``R(w, b)`` with b as the last parameter.

    >>> from undercut import Hinge
    >>> joint(LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge())).value(np.array([0.0, 0.0, 1.0]))
    1.0
    """
    return part.like(WithConstant(_matrix(part)), part.loss, fit_intercept=False)


def priced(part: LinearRisk, beta: float) -> Priced:
    """``min_b R(w, b) + beta b`` as a risk of w; beta must be minus a value within ``slope_range``."""
    tilt = beta / float(part.weight.sum())
    loss = tilted(part.loss, tilt)
    constant = tilt * float(part.weight @ loss.origin(part.y))
    risk = part.like(part.design, loss, fit_intercept=True)
    return Priced(risk, -tilt * part.design.rmatvec(part.weight), constant)


def slope_range(part: LinearRisk) -> tuple[float, float]:
    """Between which values the derivative of ``b -> R(w, b)`` lies for any w, or a little inside of them."""
    y, weight = part.y, part.weight
    if isinstance(part.loss, PiecewiseLinearLoss):
        left, _, jumps = part.loss.pieces(y)
        low = float(weight @ left)
        return low, low + float(weight.sum() * jumps.sum())
    far = np.full_like(y, FAR + float(np.abs(y).max()))
    with np.errstate(over="ignore"):
        ends = [float(weight @ np.clip(part.loss.value_slope(y, sign * far)[1], -1e300, 1e300)) for sign in (-1.0, 1.0)]
    return min(ends), max(ends)


def _matrix(part: LinearRisk) -> Matrix:
    if not isinstance(part.design, Matrix):
        raise CapabilityError(
            f"a shared intercept needs X as a dense or sparse matrix; got {type(part.design).__name__}: use "
            "fit_intercept=False, and append a constant feature to X"
        )
    return part.design
