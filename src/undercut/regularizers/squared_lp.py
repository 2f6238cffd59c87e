"""Squared p-norms, between the square and the absolute value."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from undercut.contracts import DifferentiableRegularizer
from undercut.errors import require
from undercut.types import FloatArray


@dataclass(frozen=True)
class SquaredLp(DifferentiableRegularizer):
    """``lam/2 |w|_p^2`` for ``1 < p <= 2``; its dual is ``|z|_q^2 / (2 lam)`` with ``1/p + 1/q = 1``.

    Strong convexity is ``lam (p - 1)`` in the p-norm (Ball, Carlen, Lieb 1994), hence in the smaller Euclidean one.

    >>> reg = SquaredLp(1.0, p=1.5)
    >>> round(reg.value(np.array([1.0, 1.0])), 6), round(reg.conjugate(np.array([1.0, 1.0])), 6)
    (1.259921, 0.793701)
    """

    lam: float
    p: float = 1.5

    def __post_init__(self) -> None:
        require(0.0 < self.lam < math.inf, "`lam` must be positive and finite", self.lam)
        require(1.0 < self.p <= 2.0, "`p` must be in (1, 2]", self.p)

    @property
    def q(self) -> float:
        """The dual exponent ``p / (p - 1)``."""
        return self.p / (self.p - 1.0)

    @property
    @override
    def strong_convexity(self) -> float:
        return self.lam * (self.p - 1.0)

    @override
    def value(self, w: FloatArray) -> float:
        return 0.5 * self.lam * _norm(w, self.p) ** 2

    @override
    def gradient(self, w: FloatArray) -> FloatArray:
        return self.lam * _half_square_gradient(w, self.p)

    @override
    def conjugate(self, z: FloatArray) -> float:
        return 0.5 * _norm(z, self.q) ** 2 / self.lam

    @override
    def conjugate_argmax(self, z: FloatArray) -> FloatArray:
        return _half_square_gradient(z, self.q) / self.lam

    @override
    def conjugate_curvature(self, A: FloatArray, z: FloatArray) -> FloatArray:
        """With ``u = |z|_q^(q-1) d|z|_q / dz``: ``(q-1) diag(|z/|z|_q|^(q-2)) - (q-2) u u'``, over lam."""
        if not z.any():
            return np.zeros((A.shape[0], A.shape[0]))
        unit = np.abs(z) / _norm(z, self.q)
        along = A @ (np.sign(z) * unit ** (self.q - 1.0))
        scaled = A * ((self.q - 1.0) * unit ** (self.q - 2.0))
        return (scaled @ A.T - (self.q - 2.0) * np.outer(along, along)) / self.lam


def _norm(x: FloatArray, p: float) -> float:
    largest = float(np.abs(x).max(initial=0.0))
    return largest * float(np.sum((np.abs(x) / largest) ** p)) ** (1.0 / p) if largest > 0.0 else 0.0


def _half_square_gradient(x: FloatArray, p: float) -> FloatArray:
    """The gradient of ``|x|_p^2 / 2``, which is ``|x|_p sign(x) (|x| / |x|_p)^(p-1)``."""
    norm = _norm(x, p)
    gradient: FloatArray = norm * np.sign(x) * (np.abs(x) / (norm or 1.0)) ** (p - 1.0)
    return gradient
