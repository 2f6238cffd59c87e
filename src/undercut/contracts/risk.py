"""What a solver sees of a learning problem: values and supporting planes of a risk R(w).

Rules that hold for every method of every contract here:

- ``w`` and ``direction`` are float64 arrays of shape ``(n_params,)``.  They are read, never modified, and not kept
  after the call: the caller may overwrite them.
- What is returned belongs to the caller: later calls do not change it.  ``Evaluation.slopes`` is the one exception.
- Calls on one object come from one thread at a time.  Risks keep scratch memory between calls, so two threads must not
  evaluate the same object at once; two objects may be evaluated at once, also if they share the array X.  ``minimize``
  holds a lock per risk for the length of a run.
- The capabilities are types: a class that cannot answer a question does not have the method.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from undercut.errors import NonfiniteError
from undercut.kinds import Capability
from undercut.types import Array, FloatArray


@dataclass(frozen=True, slots=True)
class Cut:
    """The plane ``<a, v> + b`` that touches R at the w where it was taken and, if R is convex, lies below it.

    a : float64 array (n_params,), owned by the cut and not modified after its creation
    b : the height of the plane at v = 0
    value : ``R(w) = <a, w> + b``

    A plane that is not finite raises ``NonfiniteError``.

    >>> plane = Cut(a=np.array([2.0, 0.0]), b=-1.0, value=1.0)  # of w_1^2 at w = (1, 0)
    >>> float(plane.a @ np.array([1.0, 0.0])) + plane.b == plane.value
    True
    """

    a: FloatArray
    b: float
    value: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise NonfiniteError(f"the value of the risk is {self.value}")
        if not np.isfinite(self.a).all():
            at = int(np.flatnonzero(~np.isfinite(self.a))[0])
            raise NonfiniteError(f"the subgradient of the risk is not finite at parameter {at}")
        if not math.isfinite(self.b):
            raise NonfiniteError(f"the offset of the plane is {self.b}")


@runtime_checkable
class Risk(Protocol, metaclass=Capability):
    """A function of w with a subgradient.

    ``is_convex`` states that every plane lies below R: bounds and certificates are computed from it, and are wrong
    if it does not hold.  ``undercut.testing.check_risk`` tests these rules.

    >>> from undercut.contracts import Cut
    >>> class Distance:  # R(w) = |w - 1|
    ...     n_params, lower_bound, is_convex = 3, 0.0, True
    ...     def value(self, w):
    ...         return float(np.linalg.norm(w - 1.0))
    ...     def cut(self, w):
    ...         value = self.value(w)
    ...         a = (w - 1.0) / value if value > 0.0 else np.zeros(3)
    ...         return Cut(a, value - float(a @ w), value)
    >>> from undercut import L2, minimize
    >>> result = minimize(Distance(), L2(0.1))
    >>> result.w.round(2), result.certificate
    (array([1., 1., 1.]), 'global')
    """

    n_params: int
    lower_bound: float  # of R everywhere: 0.0 for non-negative losses, -inf if unknown
    is_convex: bool

    def value(self, w: FloatArray) -> float:
        """``R(w)``; infinity or NaN where it overflows."""

    def cut(self, w: FloatArray) -> Cut:
        """The plane of R at w."""


class Line(Protocol):
    """R along ``w + t direction`` for t >= 0, with everything cached that makes it cheap.

    A line is valid as long as its risk; it keeps its own copies of what it needs of ``w`` and ``direction``.

    >>> from undercut.contracts import Cut
    >>> class BowlLine:  # of R(w) = |w - 1|^2 / 2
    ...     def __init__(self, w, direction):
    ...         self.w, self.direction = w.copy(), direction.copy()
    ...     def minimizer(self, slope, curvature, accuracy=0.0):
    ...         slope += float((self.w - 1.0) @ self.direction)
    ...         curvature += float(self.direction @ self.direction)
    ...         return max(0.0, -slope / curvature) if curvature > 0.0 else 0.0
    ...     def value(self, t):
    ...         off = self.w + t * self.direction - 1.0
    ...         return 0.5 * float(off @ off)
    ...     def cut(self, t):
    ...         w = self.w + t * self.direction
    ...         return Cut(w - 1.0, self.value(t) - float((w - 1.0) @ w), self.value(t))
    ...     def turn(self, t, direction):
    ...         return BowlLine(self.w + t * self.direction, direction)
    >>> BowlLine(np.zeros(2), np.ones(2)).minimizer(slope=0.0, curvature=0.0)
    1.0
    """

    def minimizer(self, slope: float, curvature: float, accuracy: float = 0.0) -> float:
        """The t >= 0 that minimizes ``R(w + t direction) + slope t + curvature t^2 / 2``.

        ``accuracy`` is the share of the decrease that may be given up where the exact t is expensive.
        """

    def value(self, t: float) -> float:
        """``R(w + t direction)``; infinity where it overflows."""

    def cut(self, t: float) -> Cut:
        """The plane of R at ``w + t direction``."""

    def turn(self, t: float, direction: FloatArray) -> Line:
        """The line from ``w + t direction`` along a new direction; this line stays valid."""


@runtime_checkable
class LineRisk(Risk, Protocol):
    """A risk with an exact line search.

    The example uses the line of a ``LinearRisk``; ``Line`` shows how to write one.

    >>> from undercut import Hinge, LinearRisk
    >>> risk = LinearRisk(np.array([[2.0], [1.0]]), np.array([1.0, -1.0]), Hinge())
    >>> line = risk.along(np.zeros(1), np.ones(1))
    >>> line.minimizer(slope=0.0, curvature=0.1), line.value(0.5)
    (0.5, 0.75)
    """

    def along(self, w: FloatArray, direction: FloatArray) -> Line:
        """The line from w along ``direction``."""


@runtime_checkable
class SmoothRisk(LineRisk, Protocol):
    """A convex differentiable risk with a line search and a (generalized) Hessian.

    >>> from undercut import Hinge, LinearRisk, Squared
    >>> X, y = np.eye(2), np.array([1.0, -1.0])
    >>> from undercut.contracts import SmoothRisk
    >>> isinstance(LinearRisk(X, y, Squared()), SmoothRisk), isinstance(LinearRisk(X, y, Hinge()), SmoothRisk)
    (True, False)
    >>> LinearRisk(X, y, Squared()).hessian(np.zeros(2))
    array([[0.5, 0. ],
           [0. , 0.5]])
    """

    def hessian(self, w: FloatArray) -> FloatArray:
        """The second derivatives at w: a float64 array (n_params, n_params) that the caller may overwrite."""


class HessianOperator(Protocol):
    """The (generalized) Hessian H of a risk at one point, by its products; valid as long as its risk.

    >>> from undercut import LinearRisk, Squared
    >>> hessian = LinearRisk(np.array([[2.0, 0.0], [0.0, 1.0]]), np.ones(2), Squared()).curvature(np.zeros(2))
    >>> hessian.product(np.ones(2)), hessian.diagonal()
    (array([2. , 0.5]), array([2. , 0.5]))
    """

    def product(self, v: FloatArray) -> FloatArray:
        """``H v``: float64, shape (n_params,); v is not modified."""

    def diagonal(self) -> FloatArray:
        """The diagonal of H or a non-negative approximation: float64, shape (n_params,).  It scales the parameters."""


Inverse: TypeAlias = Callable[[FloatArray], FloatArray]


@runtime_checkable
class InvertibleHessian(HessianOperator, Protocol):
    """A Hessian with an approximate inverse, which reduces the number of products that a linear system takes.

    >>> from undercut import LinearRisk, Squared
    >>> hessian = LinearRisk(np.array([[2.0, 0.0], [0.0, 1.0]]), np.ones(2), Squared()).curvature(np.zeros(2))
    >>> isinstance(hessian, InvertibleHessian), hessian.inverse(np.zeros(2))(np.ones(2))
    (True, array([0.5, 2. ]))
    """

    def inversion_cost(self) -> float:
        """The work of ``inverse``, in products with the Hessian; infinite where there is none."""

    def inverse(self, ridge: FloatArray) -> Inverse:
        """v to about ``(H + diag(ridge))^-1 v``: linear, symmetric and positive definite."""


@runtime_checkable
class CurvedRisk(LineRisk, Protocol):
    """A convex differentiable risk with a line search and products with its Hessian, which need not be formed.

    >>> from undercut import L2, minimize
    >>> from undercut.contracts import Cut
    >>> class Bowl:  # R(w) = |w - 1|^2 / 2; ``Line`` shows how to write a line
    ...     n_params, lower_bound, is_convex = 2, 0.0, True
    ...     def value(self, w):
    ...         return 0.5 * float((w - 1.0) @ (w - 1.0))
    ...     def cut(self, w):
    ...         return Cut(w - 1.0, self.value(w) - float((w - 1.0) @ w), self.value(w))
    ...     def along(self, w, direction):
    ...         ...
    ...     def curvature(self, w):
    ...         return Identity()
    >>> class Identity:
    ...     def product(self, v):
    ...         return v.copy()
    ...     def diagonal(self):
    ...         return np.ones(2)
    >>> from undercut.contracts import CurvedRisk
    >>> isinstance(Bowl(), CurvedRisk)
    True
    """

    def curvature(self, w: FloatArray) -> HessianOperator:
        """The second derivatives at w."""


@runtime_checkable
class BatchedRisk(Risk, Protocol):
    """A risk that is a mean over samples: what online solvers and shards need.

    >>> from undercut.contracts import Cut
    >>> class Center:  # R(w) = mean of |w - x_i|^2 / 2
    ...     lower_bound, is_convex = 0.0, True
    ...     def __init__(self, X):
    ...         self.X, (self.n_samples, self.n_params) = X, X.shape
    ...     def value(self, w):
    ...         return 0.5 * float(((self.X - w) ** 2).sum(axis=1).mean())
    ...     def cut(self, w):
    ...         a = w - self.X.mean(axis=0)
    ...         return Cut(a, self.value(w) - float(a @ w), self.value(w))
    ...     def batch(self, rows):
    ...         return Center(self.X[rows])
    >>> from undercut import L2, minimize
    >>> from undercut.solvers.online import Pegasos
    >>> risk = Center(np.array([[0.0], [2.0]]))
    >>> minimize(risk, L2(1.0), Pegasos(n_passes=200, batch_size=2)).w.round(2)
    array([0.5])
    """

    n_samples: int

    def batch(self, rows: Array) -> Risk:
        """The mean over some of the samples, scaled so that its expectation over uniform rows is R.

        rows : integer array of sample numbers, 0 ... n_samples - 1; may repeat, not modified
        """


@runtime_checkable
class DeviceRisk(Risk, Protocol):
    """A risk whose data may be on a device: what a solver stores beside them in single precision goes there too.

    Parameters, values and cuts are in main memory as those of any risk.

    >>> from undercut.contracts import DeviceRisk
    >>> from undercut.risks import CRF, NetworkChainRisk
    >>> risk = NetworkChainRisk([[[0.0], [1.0]]], [[0, 1]], CRF(), hidden=(2,))
    >>> isinstance(risk, DeviceRisk), risk.home.shape
    (True, (2, 1))
    """

    home: Any  # an array or tensor that is where the data are


@runtime_checkable
class MajorizedRisk(Risk, Protocol):
    """A risk with a convex majorizer: it is convex plus concave, and can replace its concave part by a tangent.

    >>> from undercut import FunctionRisk, L2, minimize
    >>> from undercut.solvers import ConvexConcave
    >>> class Wells:  # R(w) = 1 + w^2 - 2 |w|, with minima at -1 and +1
    ...     n_params, lower_bound, is_convex = 1, 0.0, False
    ...     def value(self, w):
    ...         return float((abs(w[0]) - 1.0) ** 2)
    ...     def cut(self, w):
    ...         return self.majorizer(w).cut(w)
    ...     def majorizer(self, w):
    ...         slope = 2.0 * np.sign(w)
    ...         return FunctionRisk(lambda v: (1.0 + v @ v - slope @ v, 2.0 * v - slope), n_params=1)
    >>> minimize(Wells(), L2(1e-6), ConvexConcave(), w0=np.array([3.0])).w.round(2)
    array([1.])
    """

    def majorizer(self, w: FloatArray) -> Risk:
        """The convex risk that lies above this one everywhere and touches it at w; later calls do not change it."""


@runtime_checkable
class MinorizedRisk(Risk, Protocol):
    """A convex risk with a cheap convex risk below it, such as a cache of planes.

    >>> from undercut import FunctionRisk, L2, minimize
    >>> from undercut.contracts import MinorizedRisk
    >>> from undercut.solvers import CachedCuttingPlane
    >>> class Bowl(FunctionRisk):  # R(w) = |w - 1|^2 / 2, with half of it as the cheap part
    ...     minorant = FunctionRisk(lambda w: (0.25 * (w - 1.0) @ (w - 1.0), 0.5 * (w - 1.0)), 2, lower_bound=0.0)
    >>> risk = Bowl(lambda w: (0.5 * (w - 1.0) @ (w - 1.0), w - 1.0), 2, lower_bound=0.0)
    >>> isinstance(risk, MinorizedRisk), minimize(risk, L2(1.0), CachedCuttingPlane()).w.round(1)
    (True, array([0.5, 0.5]))
    """

    @property
    def minorant(self) -> Risk:
        """A convex risk below this one that is cheap to evaluate; each call of ``cut`` on this risk may raise it."""
