"""The quadratic penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from undercut.contracts import QuadraticRegularizer
from undercut.errors import DataError, require
from undercut.types import FloatArray


@dataclass(frozen=True)
class L2(QuadraticRegularizer):
    """``lam/2 |(w - center) * weights|^2``.

    >>> reg = L2(0.5)
    >>> reg.value(np.array([2.0, 0.0])), reg.conjugate(np.array([1.0, 0.0]))
    (1.0, 1.0)
    """

    lam: float
    center: FloatArray | None = None
    weights: FloatArray | None = None

    def __post_init__(self) -> None:
        require(0.0 < self.lam < math.inf, "`lam` must be positive and finite", self.lam)
        if self.center is not None:
            object.__setattr__(self, "center", np.asarray(self.center, dtype=np.float64))
            require(bool(np.isfinite(self.center).all()), "`center` must be finite", self.center)
        if self.weights is not None:
            object.__setattr__(self, "weights", np.asarray(self.weights, dtype=np.float64))
            positive = bool((np.isfinite(self.weights) & (self.weights > 0.0)).all())
            require(positive, "`weights` must be positive and finite", self.weights)

    @override
    def check_size(self, n_params: int) -> None:
        for name, array in (("center", self.center), ("weights", self.weights)):
            if array is not None and array.shape != (n_params,):
                raise DataError(f"`{name}` must have shape ({n_params},) like w; got {array.shape}")

    @property
    @override
    def strong_convexity(self) -> float:
        return self.lam if self.weights is None else self.lam * float(self.weights.min()) ** 2

    @override
    def value(self, w: FloatArray) -> float:
        shifted = self._shifted(w) if self.weights is None else self._shifted(w) * self.weights
        return 0.5 * self.lam * float(shifted @ shifted)

    @override
    def gradient(self, w: FloatArray) -> FloatArray:
        scaled = self.lam * self._shifted(w)
        return scaled if self.weights is None else scaled * self.weights**2

    @override
    def add_hessian(self, H: FloatArray) -> None:
        H.flat[:: H.shape[1] + 1] += self.lam if self.weights is None else self.lam * self.weights**2

    @override
    def hessian_product(self, v: FloatArray) -> FloatArray:
        return self.lam * v if self.weights is None else self.lam * self.weights**2 * v

    @override
    def hessian_diagonal(self, n_params: int) -> FloatArray:
        return self.hessian_product(np.ones(n_params))

    @override
    def conjugate_argmax(self, z: FloatArray) -> FloatArray:
        step = self._unscaled(z)
        return step if self.center is None else self.center + step

    @override
    def dual_inner(self, A: FloatArray, a: FloatArray) -> FloatArray:
        return A @ self._unscaled(a)

    @override
    def at_center(self, a: FloatArray) -> float:
        return 0.0 if self.center is None else float(a @ self.center)

    @override
    def along(self, w: FloatArray, direction: FloatArray) -> tuple[float, float]:
        if self.weights is None:
            return self.lam * float(self._shifted(w) @ direction), self.lam * float(direction @ direction)
        scaled = direction * self.weights
        return float(self.gradient(w) @ direction), self.lam * float(scaled @ scaled)

    @override
    def multiple_of(self, other: QuadraticRegularizer) -> float:
        if isinstance(other, L2) and self.center is other.center and self.weights is other.weights:
            return self.lam / other.lam
        return math.nan

    def _unscaled(self, z: FloatArray) -> FloatArray:
        """``M^-1 z``; infinite where that overflows."""
        with np.errstate(over="ignore"):
            return z / self.lam if self.weights is None else z / (self.lam * self.weights**2)

    def _shifted(self, w: FloatArray) -> FloatArray:
        return w if self.center is None else w - self.center
