"""Fenchel conjugates ``l*(v) = sup_s v s - l(y, s)`` of the pointwise losses, infinite outside an interval around 0.

Most have one form, which dual coordinate descent needs.  With u minus a slope of the loss, ``low <= u <= high``,

    l*(-u)  =  -target u + zone |u| + ridge/2 u^2          or  |u| log |u| + (1 - |u|) log(1 - |u|)   (logistic)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from undercut import losses
from undercut._jit import pointwise
from undercut.contracts import CompiledSlope, Loss
from undercut.types import Array, FloatArray


@dataclass(frozen=True)
class Conjugate:
    """``l*(-u)`` of every sample; ``target``, ``low`` and ``high`` are float64 arrays (n_samples,)."""

    target: FloatArray
    low: FloatArray
    high: FloatArray
    ridge: float = 0.0
    zone: float = 0.0
    logistic: bool = False

    def values(self, u: FloatArray) -> FloatArray:
        """``l*(-u)`` for a u of shape (n_samples,)."""
        if self.logistic:
            share = np.abs(u)
            values = _entropy(share) + _entropy(1.0 - share)
        else:
            values = u * (0.5 * self.ridge * u - self.target) + self.zone * np.abs(u)
        return np.where((self.low <= u) & (u <= self.high), values, np.inf)

    @property
    def smoothness(self) -> float:
        """The largest second derivative of the loss."""
        if self.logistic:
            return 0.25
        return 1.0 / self.ridge if self.ridge > 0.0 else np.inf


def _entropy(p: FloatArray) -> FloatArray:
    """``p log p``, 0 where p is 0, and meaningless where it is negative; much faster than ``xlogy``."""
    return np.asarray(p * np.log(np.maximum(p, np.finfo(float).tiny)))


def _margin(y: FloatArray, limit: float, **rest: Any) -> Conjugate:
    """The slopes of a margin loss have the sign of -y."""
    return Conjugate(y, np.where(y > 0.0, 0.0, -limit), np.where(y > 0.0, limit, 0.0), **rest)


def _residual(y: FloatArray, low: float, high: float, **rest: Any) -> Conjugate:
    return Conjugate(y, np.full(y.shape, low), np.full(y.shape, high), **rest)


def _huber_hinge(loss: losses.HuberHinge, y: FloatArray) -> Conjugate:
    plain = _margin(y, 1.0, ridge=2.0 * loss.width)
    return Conjugate((1.0 + loss.width) * y, plain.low, plain.high, plain.ridge)


_KNOWN: dict[type[Loss], Callable[[Any, FloatArray], Conjugate]] = {
    losses.Hinge: lambda loss, y: _margin(y, 1.0),
    losses.SquaredHinge: lambda loss, y: _margin(y, np.inf, ridge=0.5),
    losses.HuberHinge: _huber_hinge,
    losses.Logistic: lambda loss, y: _margin(y, 1.0, logistic=True),
    losses.Squared: lambda loss, y: _residual(y, -np.inf, np.inf, ridge=1.0),
    losses.Absolute: lambda loss, y: _residual(y, -1.0, 1.0),
    losses.EpsilonInsensitive: lambda loss, y: _residual(y, -1.0, 1.0, zone=loss.epsilon),
    losses.Quantile: lambda loss, y: _residual(y, loss.quantile - 1.0, loss.quantile),
    losses.Huber: lambda loss, y: _residual(y, -loss.width, loss.width, ridge=1.0),
}
KNOWN_LOSSES = ", ".join(kind.__name__ for kind in _KNOWN)


def has_conjugate(loss: Any) -> bool:
    """Whether ``conjugate_of`` knows the loss."""
    return type(loss) in _KNOWN


def conjugate_of(loss: Loss, y: FloatArray) -> Conjugate:
    """The conjugate of a loss at every target."""
    return _KNOWN[type(loss)](loss, y)


class SmoothConjugate(NamedTuple):
    """The conjugate of one smooth loss, as functions of targets and slopes v."""

    loss: CompiledSlope
    is_slope: Callable[[FloatArray, FloatArray], Array] | None  # whether v is a slope of the loss; ``None``: always
    smoothness: float  # the largest second derivative of the loss

    def weighted(self, y: FloatArray, weight: FloatArray, slopes: FloatArray, share: float = 1.0) -> FloatArray:
        """``weight l*(share slopes / weight)``, infinite where that is no slope of the loss; weights are positive."""
        out = np.empty(y.size)
        if self.loss.number in pointwise.QUADRATIC:
            pointwise.parabola_conjugates(*self.loss, y, weight, slopes, share, out)
            return out
        p = np.empty((2 if self.loss.number == pointwise.LOGISTIC else 1, y.size))
        pointwise.conjugate_shares(self.loss.number, y, weight, slopes, share, p)
        pointwise.entropies(self.loss.number, weight, p, np.log(p), out)
        return out


def _falls(y: FloatArray, v: FloatArray) -> Array:
    """Whether v may be a slope of a margin loss."""
    return y * v <= 0.0


def _falls_slowly(y: FloatArray, v: FloatArray) -> Array:
    """The same, of at most 1."""
    return (y * v <= 0.0) & (np.abs(v) <= 1.0)


_SMOOTH: dict[type[Loss], Callable[[Any, CompiledSlope], SmoothConjugate]] = {
    losses.Squared: lambda loss, named: SmoothConjugate(named, None, 1.0),
    losses.SquaredHinge: lambda loss, named: SmoothConjugate(named, _falls, 2.0),
    losses.HuberHinge: lambda loss, named: SmoothConjugate(named, _falls_slowly, 0.5 / loss.width),
    losses.Logistic: lambda loss, named: SmoothConjugate(named, _falls_slowly, 0.25),
    losses.Exponential: lambda loss, named: SmoothConjugate(named, _falls, np.inf),
    losses.Huber: lambda loss, named: SmoothConjugate(named, lambda y, v: np.abs(v) <= loss.width, 1.0),
    losses.Poisson: lambda loss, named: SmoothConjugate(named, lambda y, v: y + v >= 0.0, np.inf),
}


def smooth_conjugate(loss: Loss) -> SmoothConjugate | None:
    """The conjugate of a smooth loss of this library, ``None`` for any other."""
    make, named = _SMOOTH.get(type(loss)), losses.compiled_slope(loss)
    return None if make is None or named is None else make(loss, named)
