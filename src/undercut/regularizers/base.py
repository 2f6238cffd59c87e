"""What a regularizer answers about itself; lambda is inside."""

from __future__ import annotations

from abc import ABC, abstractmethod

from undercut.arrays import FloatArray


class Regularizer(ABC):
    """A convex ``reg(w) = lam * Omega(w)`` and its Fenchel dual ``reg*(z) = sup_w <z, w> - reg(w)``."""

    @property
    @abstractmethod
    def strong_convexity(self) -> float:
        """The largest m with ``reg(v) >= reg(w) + <reg'(w), v - w> + m/2 |v - w|^2``; 0 if there is none."""

    @abstractmethod
    def value(self, w: FloatArray) -> float:
        """``reg(w)``."""

    @abstractmethod
    def conjugate(self, z: FloatArray) -> float:
        """``reg*(z)``."""

    @abstractmethod
    def conjugate_argmax(self, z: FloatArray) -> FloatArray:
        """The w that attains ``reg*(z)``."""

    def check_size(self, n_params: int) -> None:  # noqa: B027  (most regularizers fit any length)
        """Raise ``DataError`` if a parameter vector of this length does not fit."""


class QuadraticRegularizer(Regularizer):
    """``reg*(z) = <c, z> + 1/2 z' M^-1 z``: the master problem over planes is then a quadratic program."""

    @abstractmethod
    def gradient(self, w: FloatArray) -> FloatArray:
        """``M (w - c)``."""

    @abstractmethod
    def add_hessian(self, H: FloatArray) -> None:
        """``H += M``."""

    @abstractmethod
    def dual_inner(self, A: FloatArray, a: FloatArray) -> FloatArray:
        """``A M^-1 a`` for one or several rows A."""

    @abstractmethod
    def at_center(self, a: FloatArray) -> float:
        """``<c, a>``."""

    @abstractmethod
    def along(self, w: FloatArray, direction: FloatArray) -> tuple[float, float]:
        """First and second derivative of ``t -> reg(w + t direction)`` at 0."""
