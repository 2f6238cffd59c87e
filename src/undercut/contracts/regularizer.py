"""What a regularizer answers about itself; lambda is inside."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from typing_extensions import override

from undercut.errors import CapabilityError
from undercut.types import FloatArray

DIFFERENCE = 1e-6  # relative step of a difference quotient


class Regularizer(ABC):
    """A convex ``reg(w) = lam * Omega(w)`` and its Fenchel dual ``reg*(z) = sup_w <z, w> - reg(w)``.

    A strongly convex one needs the four abstract answers only.  The others make a method faster, or stable where lambda
    is small; one that is not strongly convex must answer ``near``, and ``shrinkage`` where ``reg*`` is infinite.
    """

    @property
    @abstractmethod
    def strong_convexity(self) -> float:
        """The largest m with ``reg(v) >= reg(w) + <reg'(w), v - w> + m/2 |v - w|^2``; 0 if there is none."""

    @abstractmethod
    def value(self, w: FloatArray) -> float:
        """``reg(w)``; infinite where w is not allowed."""

    @abstractmethod
    def conjugate(self, z: FloatArray) -> float:
        """``reg*(z)``."""

    @abstractmethod
    def conjugate_argmax(self, z: FloatArray) -> FloatArray:
        """The w that attains ``reg*(z)``."""

    @property
    def is_proximal(self) -> bool:
        """Whether it knows its proximal form ``near``."""
        return False

    @property
    def has_finite_dual(self) -> bool:
        """Whether ``reg*(z)`` is finite for every z."""
        return True

    def conjugate_curvature(self, A: FloatArray, z: FloatArray) -> FloatArray:
        """``A H A'`` with the second derivatives H of ``reg*`` at z, or what differences of the argmax say of them."""
        w = self.conjugate_argmax(z)
        rows = np.empty((A.shape[0], A.shape[0]))
        for at, a in enumerate(A):
            step = DIFFERENCE * (1.0 + float(np.abs(z).max())) / max(float(np.abs(a).max()), 1e-300)
            rows[at] = A @ ((self.conjugate_argmax(z + step * a) - w) / step)
        return 0.5 * (rows + rows.T)

    def shrinkage(self, z: FloatArray, slack: float) -> float:
        """The largest s in [0, 1] for which ``reg*`` is finite within ``s slack`` of every entry of ``s z``."""
        return 1.0

    def near(self, center: FloatArray, tau: float) -> Regularizer:
        """``reg(w) + D(w)`` up to a constant, where D is zero at the center and ``D(w) >= tau/2 |w - center|^2``."""
        raise CapabilityError(f"{type(self).__name__} does not know its proximal form: use CuttingPlane")

    def check_size(self, n_params: int) -> None:  # noqa: B027  (most regularizers fit any length)
        """Raise ``DataError`` if a parameter vector of this length does not fit."""


class DifferentiableRegularizer(Regularizer):
    """A strongly convex regularizer with a gradient, whose proximal term is its own Bregman distance."""

    @property
    @override
    def is_proximal(self) -> bool:
        return True

    @abstractmethod
    def gradient(self, w: FloatArray) -> FloatArray:
        """``reg'(w)``."""

    @override
    def near(self, center: FloatArray, tau: float) -> Regularizer:
        """``reg(w) + tau/m (reg(w) - reg(c) - <reg'(c), w - c>)`` with the strong convexity m."""
        return Tilted(self, self.gradient(center), tau / self.strong_convexity)


class Tilted(Regularizer):
    """``(1 + share) reg(w) - share <slope, w>``: reg and its Bregman distance from where it has that slope."""

    def __init__(self, reg: Regularizer, slope: FloatArray, share: float) -> None:
        self.reg, self.slope, self.share = reg, slope, share

    @property
    @override
    def strong_convexity(self) -> float:
        return (1.0 + self.share) * self.reg.strong_convexity

    @override
    def value(self, w: FloatArray) -> float:
        return (1.0 + self.share) * self.reg.value(w) - self.share * float(self.slope @ w)

    @override
    def conjugate(self, z: FloatArray) -> float:
        return (1.0 + self.share) * self.reg.conjugate(self._mixed(z))

    @override
    def conjugate_argmax(self, z: FloatArray) -> FloatArray:
        return self.reg.conjugate_argmax(self._mixed(z))

    @override
    def conjugate_curvature(self, A: FloatArray, z: FloatArray) -> FloatArray:
        return self.reg.conjugate_curvature(A, self._mixed(z)) / (1.0 + self.share)

    def _mixed(self, z: FloatArray) -> FloatArray:
        mixed: FloatArray = (z + self.share * self.slope) / (1.0 + self.share)
        return mixed


class QuadraticRegularizer(DifferentiableRegularizer):
    """``reg*(z) = <c, z> + 1/2 z' M^-1 z``: the master problem over planes is then a quadratic program."""

    @override
    @abstractmethod
    def gradient(self, w: FloatArray) -> FloatArray:
        """``M (w - c)``."""

    @abstractmethod
    def add_hessian(self, H: FloatArray) -> None:
        """``H += M``."""

    @abstractmethod
    def dual_inner(self, A: FloatArray, a: FloatArray) -> FloatArray:
        """``A M^-1 a`` for one or several rows A."""

    @override
    def conjugate_curvature(self, A: FloatArray, z: FloatArray) -> FloatArray:
        return np.stack([self.dual_inner(A, a) for a in A])

    @abstractmethod
    def at_center(self, a: FloatArray) -> float:
        """``<c, a>``."""

    @abstractmethod
    def along(self, w: FloatArray, direction: FloatArray) -> tuple[float, float]:
        """First and second derivative of ``t -> reg(w + t direction)`` at 0."""
