"""What a regularizer answers about itself; lambda is inside."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from typing_extensions import override

from undercut.types import FloatArray

DIFFERENCE = 1e-6  # relative step of a difference quotient


class Regularizer(ABC):
    """A convex ``reg(w) = lam * Omega(w)`` and its Fenchel dual ``reg*(z) = sup_w <z, w> - reg(w)``.

    A strongly convex one needs the four abstract methods only.  The others make a method faster, or stable where lambda
    is small.  One that is not strongly convex must be a ``ProximalRegularizer``, and must override ``has_finite_dual``
    and ``shrinkage`` where ``reg*`` is infinite.  ``undercut.testing.check_regularizer`` tests these rules.

    w, z : float64 arrays (n_params,), read-only and not kept.  Arrays that are returned are new and belong to the
    caller.  Regularizers are immutable, so any number of threads and runs may share one.

    >>> from undercut.contracts import Regularizer
    >>> class GroupNet(Regularizer):  # lam/2 |w|^2 + mu |w|, exactly zero where |z| <= mu
    ...     lam, mu, strong_convexity = 0.1, 0.5, 0.1
    ...     def value(self, w):
    ...         return 0.5 * self.lam * float(w @ w) + self.mu * float(np.linalg.norm(w))
    ...     def conjugate(self, z):
    ...         return max(float(np.linalg.norm(z)) - self.mu, 0.0) ** 2 / (2.0 * self.lam)
    ...     def conjugate_argmax(self, z):
    ...         norm = float(np.linalg.norm(z))
    ...         return z * max(1.0 - self.mu / norm, 0.0) / self.lam if norm > 0.0 else np.zeros_like(z)
    >>> from undercut import Hinge, LinearRisk, minimize
    >>> from undercut.testing import check_regularizer
    >>> check_regularizer(GroupNet(), n_params=2)
    >>> minimize(LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge()), GroupNet(), "cutting_plane").w.round(2)
    array([ 1., -1.])
    """

    @property
    @abstractmethod
    def strong_convexity(self) -> float:
        """The largest m with ``reg(v) >= reg(w) + <reg'(w), v - w> + m/2 |v - w|^2`` for all v and w; 0 if only 0."""

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
    def has_finite_dual(self) -> bool:
        """Whether ``reg*(z)`` is finite for every z; if not, a risk needs a finite ``lower_bound``."""
        return True

    def conjugate_curvature(self, A: FloatArray, z: FloatArray) -> FloatArray:
        """``A H A'`` with the second derivatives H of ``reg*`` at z, here by difference quotients of the argmax.

        A : float64 array (k, n_params); returns (k, k).
        """
        w = self.conjugate_argmax(z)
        rows = np.empty((A.shape[0], A.shape[0]))
        for at, a in enumerate(A):
            step = DIFFERENCE * (1.0 + float(np.abs(z).max())) / max(float(np.abs(a).max()), 1e-300)
            rows[at] = A @ ((self.conjugate_argmax(z + step * a) - w) / step)
        return 0.5 * (rows + rows.T)

    def shrinkage(self, z: FloatArray, slack: float) -> float:
        """The largest s in [0, 1] for which ``reg*`` is finite within ``s slack`` of every entry of ``s z``."""
        return 1.0

    def check_size(self, n_params: int) -> None:  # noqa: B027  (most regularizers fit any length)
        """Raise ``DataError`` if a parameter vector of this length does not fit."""


class ProximalRegularizer(Regularizer):
    """A regularizer that knows its proximal form; it need not be strongly convex.

    >>> from undercut import L1
    >>> near = L1(0.5).near(center=np.array([1.0, 0.0]), tau=2.0)
    >>> near.strong_convexity, near.conjugate_argmax(np.zeros(2)).tolist()
    (2.0, [0.75, 0.0])
    """

    @abstractmethod
    def near(self, center: FloatArray, tau: float) -> Regularizer:
        """``reg(w) + D(w)`` up to a constant, where D is zero at the center and ``D(w) >= tau/2 |w - center|^2``.

        The result is strongly convex with at least ``tau``, and keeps no reference to ``center``.
        """


class DifferentiableRegularizer(ProximalRegularizer):
    """A strongly convex regularizer with a gradient, whose proximal term is its own Bregman distance.

    >>> from undercut.regularizers import SquaredLp
    >>> SquaredLp(1.0, p=2.0).gradient(np.array([3.0, -1.0]))
    array([ 3., -1.])
    """

    @abstractmethod
    def gradient(self, w: FloatArray) -> FloatArray:
        """``reg'(w)``."""

    @override
    def near(self, center: FloatArray, tau: float) -> Regularizer:
        """``reg(w) + tau/m (reg(w) - reg(c) - <reg'(c), w - c>)`` with the strong convexity m."""
        return Tilted(self, self.gradient(center), tau / self.strong_convexity)


class Tilted(Regularizer):
    """``(1 + share) reg(w) - share <slope, w>``: reg plus ``share`` times its Bregman distance from a point.

    ``slope`` is the gradient of reg at that point.

    >>> from undercut import L2
    >>> Tilted(L2(1.0), slope=np.array([4.0]), share=1.0).conjugate_argmax(np.zeros(1))
    array([2.])
    """

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
    """``reg(w) = 1/2 (w - c)' M (w - c)``: the master problem over planes is then a quadratic program.

    Its dual is ``reg*(z) = <c, z> + 1/2 z' M^-1 z``, and M is positive definite.

    >>> from undercut import L2
    >>> L2(2.0).dual_inner(np.eye(2), np.array([4.0, 6.0]))
    array([2., 3.])
    """

    @override
    @abstractmethod
    def gradient(self, w: FloatArray) -> FloatArray:
        """``M (w - c)``."""

    @abstractmethod
    def add_hessian(self, H: FloatArray) -> None:
        """``H += M``: overwrites the float64 array H (n_params, n_params)."""

    def hessian_product(self, v: FloatArray) -> FloatArray:
        """``M v``."""
        return self.gradient(v) - self.gradient(np.zeros_like(v))

    def hessian_diagonal(self, n_params: int) -> FloatArray:
        """The diagonal of M or a positive approximation: float64, shape (n_params,)."""
        return np.full(n_params, self.strong_convexity)

    @override
    def conjugate(self, z: FloatArray) -> float:
        return 0.5 * float(self.dual_inner(z, z)) + self.at_center(z)

    @abstractmethod
    def dual_inner(self, A: FloatArray, a: FloatArray) -> FloatArray:
        """``A M^-1 a`` for A of shape (n_params,) or (k, n_params): a number or shape (k,)."""

    @override
    def conjugate_curvature(self, A: FloatArray, z: FloatArray) -> FloatArray:
        return np.stack([self.dual_inner(A, a) for a in A])

    def multiple_of(self, other: QuadraticRegularizer) -> float:
        """The number that makes this of ``other`` by a product; NaN where there is none, or it is not known."""
        return math.nan

    @abstractmethod
    def at_center(self, a: FloatArray) -> float:
        """``<c, a>``."""

    def along(self, w: FloatArray, direction: FloatArray) -> tuple[float, float]:
        """First and second derivative of ``t -> reg(w + t direction)`` at 0."""
        return float(self.gradient(w) @ direction), float(direction @ self.hessian_product(direction))
