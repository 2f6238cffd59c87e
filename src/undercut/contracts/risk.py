"""What a solver sees of a learning problem: values and supporting planes of a risk R(w)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from undercut.errors import NonfiniteError
from undercut.types import Array, FloatArray


@dataclass(frozen=True, slots=True)
class Cut:
    """The plane ``<a, v> + b`` that touches R at the w where it was taken and, if R is convex, lies below it.

    ``value`` is R(w).  A plane that is not finite raises ``NonfiniteError``.
    """

    a: FloatArray
    b: float
    value: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise NonfiniteError(f"the value of the risk is {self.value}")
        if not np.isfinite(self.a).all():
            raise NonfiniteError(f"the subgradient of the risk is not finite at parameter {_first_bad(self.a)}")
        if not math.isfinite(self.b):
            raise NonfiniteError(f"the offset of the plane is {self.b}")


def _first_bad(a: FloatArray) -> int:
    return int(np.flatnonzero(~np.isfinite(a))[0])


@runtime_checkable
class Risk(Protocol):
    """A function of w with a subgradient."""

    n_params: int
    lower_bound: float  # of R everywhere: 0.0 for non-negative losses, -inf if unknown
    is_convex: bool

    def value(self, w: FloatArray) -> float:
        """``R(w)``."""

    def cut(self, w: FloatArray) -> Cut:
        """The plane of R at w; w is not modified."""


class Line(Protocol):
    """R along ``w + t direction``, with everything cached that makes it cheap."""

    def minimizer(self, slope: float, curvature: float, accuracy: float = 0.0) -> float:
        """The t >= 0 that minimizes ``R(w + t direction) + slope t + curvature t^2 / 2``.

        ``accuracy`` is the share of the decrease that may be left where the exact t costs more.
        """

    def value(self, t: float) -> float:
        """``R(w + t direction)``; infinity where it overflows."""

    def cut(self, t: float) -> Cut:
        """The plane of R at ``w + t direction``."""

    def turn(self, t: float, direction: FloatArray) -> Line:
        """The line from ``w + t direction`` along a new direction."""


@runtime_checkable
class LineRisk(Risk, Protocol):
    """A risk with an exact line search."""

    def along(self, w: FloatArray, direction: FloatArray) -> Line:
        """The line from w along ``direction``."""


@runtime_checkable
class SmoothRisk(LineRisk, Protocol):
    """A differentiable risk with a line search and a (generalized) Hessian."""

    is_smooth: bool

    def hessian(self, w: FloatArray) -> FloatArray:
        """The second derivatives at w, an n_params x n_params matrix."""


@runtime_checkable
class BatchedRisk(Risk, Protocol):
    """A risk that is a mean over samples: what online solvers need."""

    n_samples: int
    is_batched: bool

    def batch(self, rows: Array) -> Risk:
        """The mean over some of the samples, scaled so that its expectation over uniform rows is R."""


@runtime_checkable
class MajorizedRisk(Risk, Protocol):
    """A risk that is convex plus concave, and can replace its concave part by a tangent."""

    def majorizer(self, w: FloatArray) -> Risk:
        """The convex risk that lies above this one everywhere and touches it at w."""


@runtime_checkable
class MinorizedRisk(Risk, Protocol):
    """A convex risk that remembers part of itself."""

    @property
    def minorant(self) -> Risk | None:
        """A convex risk below this one that costs little; it grows with every plane taken here."""
