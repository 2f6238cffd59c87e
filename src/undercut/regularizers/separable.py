"""Sums of one function per parameter: absolute values, squares and bounds."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple, TypeAlias

import numpy as np
from typing_extensions import override

from undercut.contracts import ProximalRegularizer
from undercut.types import Array, FloatArray

Numbers: TypeAlias = float | FloatArray  # one for all parameters, or one each


class Terms(NamedTuple):
    """``sum_j l1_j |w_j| + l2_j/2 (w_j - center_j)^2`` where ``lower_j <= w_j <= upper_j``, else infinity."""

    l1: Numbers = 0.0
    l2: Numbers = 0.0  # positive everywhere, or the number 0.0
    center: Numbers = 0.0
    lower: Numbers = -math.inf
    upper: Numbers = math.inf

    @property
    def is_bounded(self) -> bool:
        """Whether there may be a bound: an array of them may hold infinities only."""
        return _may_differ(self.lower, -math.inf) or _may_differ(self.upper, math.inf)


class SeparableRegularizer(ProximalRegularizer):
    """A regularizer made of ``Terms``.  With ``soft(x, l1) = sign(x) max(|x| - l1, 0)`` its dual is attained at

        w_j = clip(soft(z_j + l2_j center_j, l1_j) / l2_j,  lower_j, upper_j)

    so w_j is exactly zero wherever ``|z_j + l2_j center_j| <= l1_j``.  Without squares it is
    attained at zero for ``|z_j| <= l1_j`` and else at a bound; ``reg*`` is infinite if that bound is.
    """

    @property
    @abstractmethod
    def terms(self) -> Terms:
        """The coefficients and bounds, for all parameters or for each."""

    @property
    @override
    def strong_convexity(self) -> float:
        return _least(self.terms.l2)

    @property
    @override
    def has_finite_dual(self) -> bool:
        t = self.terms
        return _least(t.l2) > 0.0 or (_is_finite(t.lower) and _is_finite(t.upper))

    @override
    def value(self, w: FloatArray) -> float:
        t = self.terms
        if t.is_bounded and not ((w >= t.lower) & (w <= t.upper)).all():
            return math.inf
        absolute = _dot(t.l1, np.abs(w)) if _may_differ(t.l1, 0.0) else 0.0
        return absolute + 0.5 * _dot(t.l2, (w - t.center) ** 2) if _may_differ(t.l2, 0.0) else absolute

    @override
    def conjugate(self, z: FloatArray) -> float:
        t = self.terms
        if not t.is_bounded and not _may_differ(t.l2, 0.0):
            return 0.0 if (np.abs(z) <= t.l1).all() else math.inf
        w = self.conjugate_argmax(z)
        return float(z @ w) - self.value(w) if np.isfinite(w).all() else math.inf

    @override
    def conjugate_argmax(self, z: FloatArray) -> FloatArray:
        t = self.terms
        force = z + t.l2 * t.center if _may_differ(t.center, 0.0) else z
        beyond = force - np.minimum(np.maximum(force, -t.l1), t.l1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            free = beyond / t.l2 if _may_differ(t.l2, 0.0) else np.where(beyond == 0.0, 0.0, beyond / t.l2)
        return np.minimum(np.maximum(free, t.lower), t.upper) if t.is_bounded else free

    @override
    def conjugate_curvature(self, A: FloatArray, z: FloatArray) -> FloatArray:
        t = self.terms
        w = self.conjugate_argmax(z)
        moves = (w != 0.0) if np.any(t.l1) else np.ones(w.shape, bool)
        moves &= (w > t.lower) & (w < t.upper)
        part = A[:, moves]
        return (part / (t.l2 if np.ndim(t.l2) == 0 else np.asarray(t.l2)[moves])) @ part.T

    @override
    def shrinkage(self, z: FloatArray, slack: float) -> float:
        if self.has_finite_dual:
            return 1.0
        t = self.terms
        size = np.abs(z) + slack
        beyond = size > t.l1
        if t.is_bounded:
            beyond &= np.where(z > 0.0, np.isinf(t.upper), np.isinf(t.lower))
        return float((t.l1 / np.maximum(size, 1e-300))[beyond].min()) if beyond.any() else 1.0

    @override
    def near(self, center: FloatArray, tau: float) -> SeparableRegularizer:
        """``reg(w) + tau/2 |w - center|^2``, up to a constant."""
        t = self.terms
        middle = (t.l2 * t.center + tau * center) / (t.l2 + tau)
        return Termwise(t._replace(l2=t.l2 + tau, center=middle))

    def active(self, z: FloatArray, margin: float = 0.0) -> Array:
        """Which parameters are not zero at the argmax, or would not be if l1 were smaller by the share ``margin``."""
        t = self.terms
        zero = (np.abs(z + t.l2 * t.center) <= (1.0 - margin) * t.l1) & (t.lower <= 0.0) & (t.upper >= 0.0)
        return np.asarray(~zero)

    def take(self, which: Array) -> SeparableRegularizer:
        """The sum over some of the parameters."""
        return Termwise(Terms(*(term if np.ndim(term) == 0 else np.asarray(term)[which] for term in self.terms)))


class Termwise(SeparableRegularizer):
    """Any sum of terms."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms

    @property
    @override
    def terms(self) -> Terms:
        return self._terms


# A number for all parameters is the usual case, and NumPy takes microseconds for what Python does at once.


def _may_differ(term: Numbers, number: float) -> bool:
    return isinstance(term, np.ndarray) or term != number


def _least(term: Numbers) -> float:
    return float(term.min()) if isinstance(term, np.ndarray) else float(term)


def _is_finite(term: Numbers) -> bool:
    return bool(np.isfinite(term).all()) if isinstance(term, np.ndarray) else math.isfinite(term)


def _dot(term: Numbers, values: FloatArray) -> float:
    """``sum_j term_j values_j``."""
    return float(term @ values) if isinstance(term, np.ndarray) else float(term * values.sum())
