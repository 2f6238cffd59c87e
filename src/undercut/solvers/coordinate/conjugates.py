"""Fenchel conjugates ``l*(v) = sup_s v s - l(y, s)`` of the smooth losses, infinite outside their domain.

Every domain contains 0 and is an interval, so a multiple ``t v`` with 0 <= t <= 1 of a point inside is inside too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

from undercut import losses
from undercut.contracts import Loss
from undercut.types import Array, FloatArray


class Conjugate(NamedTuple):
    """The conjugate of one loss, and the largest second derivative of the loss."""

    values: Callable[[FloatArray, FloatArray], FloatArray]  # of targets and slopes v
    smoothness: float


def _inside(holds: Array, values: FloatArray) -> FloatArray:
    return np.where(holds, values, math.inf)


def _squared(y: FloatArray, v: FloatArray) -> FloatArray:
    return np.asarray(v * (y + 0.5 * v))


def _huber(width: float) -> Callable[[FloatArray, FloatArray], FloatArray]:
    return lambda y, v: _inside(np.abs(v) <= width, v * (y + 0.5 * v))


def _logistic(y: FloatArray, v: FloatArray) -> FloatArray:
    share = -y * v
    inside = (share >= 0.0) & (share <= 1.0)
    share = np.where(inside, share, 0.0)
    return _inside(inside, xlogy(share, share) + xlogy(1.0 - share, 1.0 - share))


def _squared_hinge(y: FloatArray, v: FloatArray) -> FloatArray:
    share = -y * v
    return _inside(share >= 0.0, share * (0.25 * share - 1.0))


def _huber_hinge(width: float) -> Callable[[FloatArray, FloatArray], FloatArray]:
    def values(y: FloatArray, v: FloatArray) -> FloatArray:
        share = -y * v
        return _inside((share >= 0.0) & (share <= 1.0), share * (width * share - 1.0 - width))

    return values


def _exponential(y: FloatArray, v: FloatArray) -> FloatArray:
    share = -y * v
    inside = share >= 0.0
    share = np.where(inside, share, 0.0)
    return _inside(inside, xlogy(share, share) - share)


def _poisson(y: FloatArray, v: FloatArray) -> FloatArray:
    return _exponential(-np.ones_like(y), y + v)


def conjugate(loss: Loss) -> Conjugate | None:
    """The conjugate of a loss of this library, ``None`` for a loss without a known one."""
    known: dict[type[Loss], Callable[[Any], Conjugate]] = {
        losses.Squared: lambda loss: Conjugate(_squared, 1.0),
        losses.Huber: lambda loss: Conjugate(_huber(loss.width), 1.0),
        losses.Logistic: lambda loss: Conjugate(_logistic, 0.25),
        losses.SquaredHinge: lambda loss: Conjugate(_squared_hinge, 2.0),
        losses.HuberHinge: lambda loss: Conjugate(_huber_hinge(loss.width), 0.5 / loss.width),
        losses.Exponential: lambda loss: Conjugate(_exponential, math.inf),
        losses.Poisson: lambda loss: Conjugate(_poisson, math.inf),
    }
    make = known.get(type(loss))
    return make(loss) if make else None
