"""What a pointwise loss answers about itself.

A loss is a function of the score s = <w, x> + b of one sample with target y.  A ``MarginLoss`` has targets -1 and +1, a
``RegressionLoss`` finite numbers.  A loss that is also a ``SmoothLoss`` or a ``PiecewiseLinearLoss`` gets a faster
exact line search and intercept.

Arrays hold one entry per sample: ``y`` and ``scores`` are float64 of shape (n,), read-only and not kept.  What a method
returns is new memory, which the caller may overwrite.  Losses are immutable, so any number of threads may share one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from typing_extensions import override

from undercut._jit import piecewise
from undercut.errors import DataError
from undercut.types import Array, FloatArray


class CompiledSlope(NamedTuple):
    """How the compiled loops compute the slope of a loss: its number in ``_jit.pointwise``, and its one setting.

    >>> from undercut import Huber
    >>> Huber(width=0.5).compiled_slope.setting
    0.5
    """

    number: int
    setting: float = 0.0


class Loss(ABC):
    """``l(y, s)``, convex in s unless ``is_convex`` says otherwise.

    The two abstract methods are enough, without a free intercept.

    >>> from undercut.contracts import Loss
    >>> class Distance(Loss):  # sqrt(1 + (s - y)^2) - 1
    ...     def value_slope(self, y, scores):
    ...         root = np.sqrt(1.0 + (scores - y) ** 2)
    ...         return root - 1.0, (scores - y) / root
    ...     def check_target(self, y):
    ...         if not np.isfinite(y).all():
    ...             raise ValueError("targets must be finite")
    >>> from undercut import L2, LinearRisk, minimize
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 3.0])
    >>> minimize(LinearRisk(X, y, Distance()), L2(1e-6)).w.round(2)
    array([1.])
    """

    is_convex: ClassVar[bool] = True

    @property
    def lipschitz(self) -> float:
        """A bound on ``|slope|`` for all targets and scores; infinity where there is none or it is unknown."""
        return math.inf

    @property
    def compiled_slope(self) -> CompiledSlope | None:
        """The slope in compiled loops; ``None`` where loops must call ``value_slope``.

        Only losses registered in ``undercut.losses`` are asked: a subclass may define another ``value_slope``.
        """
        return None

    @abstractmethod
    def value_slope(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values and subgradients in s; infinity where a value overflows, without a warning."""

    @abstractmethod
    def check_target(self, y: FloatArray) -> None:
        """Raise ``DataError`` unless every target is in the domain of the loss."""

    def infimum(self, y: FloatArray) -> FloatArray:
        """``inf_s l(y, s)`` for each target; ``-inf`` where unknown."""
        return np.zeros_like(y)

    def predict(self, scores: FloatArray) -> FloatArray:
        """The prediction a score stands for: the score itself, or the mean it parametrizes."""
        return scores


class MarginLoss(Loss):
    """A loss ``l(y s)`` for classification: targets are -1 and +1.

    >>> from undercut.contracts import MarginLoss
    >>> class Perceptron(MarginLoss):  # max(0, -y s)
    ...     def value_slope(self, y, scores):
    ...         return np.maximum(0.0, -y * scores), np.where(y * scores < 0.0, -y, 0.0)
    >>> Perceptron().check_target(np.array([1.0, 0.0]))
    Traceback (most recent call last):
        ...
    undercut.errors.DataError: targets must be -1 or +1; got 0.0 at sample 1
    """

    @override
    def check_target(self, y: FloatArray) -> None:
        check_signs(y)


def check_signs(y: FloatArray) -> None:
    """Raise ``DataError`` unless every target is -1 or +1."""
    is_wrong = np.abs(y) != 1.0
    if is_wrong.any():
        first = int(is_wrong.argmax())
        raise DataError(f"targets must be -1 or +1; got {y[first]} at sample {first}")


class RegressionLoss(Loss):
    """A loss for regression: targets are finite numbers.

    >>> from undercut import Absolute
    >>> from undercut.contracts import RegressionLoss
    >>> isinstance(Absolute(), RegressionLoss)
    True
    """

    @override
    def check_target(self, y: FloatArray) -> None:
        is_finite = np.isfinite(y)
        if not is_finite.all():
            first = int(is_finite.argmin())
            raise DataError(f"targets must be finite; got {y[first]} at sample {first}")


class SmoothLoss(Loss):
    """A loss whose derivative is continuous, and differentiable except at finitely many points.

    >>> from undercut.contracts import RegressionLoss, SmoothLoss
    >>> class LogCosh(RegressionLoss, SmoothLoss):  # log cosh(s - y)
    ...     def value_slope(self, y, scores):
    ...         off = np.abs(scores - y)
    ...         return off + np.log1p(np.exp(-2.0 * off)) - np.log(2.0), np.tanh(scores - y)
    ...     def curvature(self, y, scores):
    ...         return 1.0 - np.tanh(scores - y) ** 2
    >>> from undercut import L2, LinearRisk, minimize
    >>> X, y = np.array([[1.0], [2.0]]), np.array([3.0, 5.0])
    >>> risk = LinearRisk(X, y, LogCosh(), fit_intercept=True)
    >>> w = minimize(risk, L2(1e-6), "newton").w
    >>> w.round(2), round(risk.intercept(w), 2)
    (array([2.]), 1.0)
    """

    @abstractmethod
    def curvature(self, y: FloatArray, scores: FloatArray) -> FloatArray:
        """Second derivatives in s; any value between the one-sided ones where they differ."""


class Pieces(NamedTuple):
    """``l_i(s) = left_i (s - kinks_0i) + sum_k jumps_k max(0, s - kinks_ki)``; float64 arrays, not modified.

    >>> Pieces(left=-np.ones(3), kinks=np.zeros((1, 3)), jumps=np.array([2.0])).kinks.shape  # |s| of three samples
    (1, 3)
    """

    left: FloatArray  # slope below the first kink, one per sample
    kinks: FloatArray  # one row per kink, ascending; one column per sample
    jumps: FloatArray  # increase of the slope at each kink


class PiecewiseLinearLoss(Loss):
    """A convex loss given by its kinks, and zero at the first of them.

    >>> from undercut.contracts import Pieces, PiecewiseLinearLoss, RegressionLoss
    >>> class Distance(RegressionLoss, PiecewiseLinearLoss):  # |s - y|
    ...     def pieces(self, y):
    ...         return Pieces(left=np.full_like(y, -1.0), kinks=y[None, :], jumps=np.array([2.0]))
    >>> Distance().value_slope(np.array([1.0, 1.0]), np.array([3.0, 0.0]))
    (array([2., 1.]), array([ 1., -1.]))
    """

    @abstractmethod
    def pieces(self, y: FloatArray) -> Pieces:
        """The kinks of every sample's loss."""

    @override
    def value_slope(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, slopes = np.empty_like(scores), np.empty_like(scores)
        piecewise.value_slope(*self.pieces(y), scores, values, slopes)
        return values, slopes


class Kinks(NamedTuple):
    """``l_i(s) = constant_i + left_i s + sum_k jumps_ki max(0, s - at_ki)``; a jump of zero is no kink.

    >>> at = np.array([[0.0], [1.0]])  # max(0, s) - max(0, s - 1) of one sample: a ramp from 0 to 1
    >>> Kinks(np.zeros(1), np.zeros(1), at, np.array([[1.0], [-1.0]])).value_slope(np.array([0.25]))
    (array([0.25]), array([1.]))
    """

    constant: FloatArray
    left: FloatArray
    at: FloatArray  # one row per kink, one column per sample
    jumps: FloatArray

    def value_slope(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Loss and right derivative of every sample at its score."""
        passed = np.where(scores >= self.at, self.jumps, 0.0)
        slopes = self.left + passed.sum(axis=0)
        with np.errstate(over="ignore"):  # one line per piece, so that nothing cancels on a flat one
            return self.constant - (passed * self.at).sum(axis=0) + slopes * scores, slopes

    def majorized(self, scores: FloatArray) -> Kinks:
        """The convex kinks as they are, the others replaced by their tangents at ``scores``."""
        tangent = np.where((self.jumps < 0.0) & (scores >= self.at), self.jumps, 0.0)
        constant = self.constant - (tangent * self.at).sum(axis=0)
        return Kinks(constant, self.left + tangent.sum(axis=0), self.at, np.maximum(self.jumps, 0.0))


class KinkedLoss(Loss):
    """A continuous piecewise-linear loss, convex or not, given by its kinks.

    A ``LinearRisk`` with it is a ``MajorizedRisk``, and has an exact intercept.

    >>> from undercut.contracts import KinkedLoss, Kinks, RegressionLoss
    >>> class Capped(RegressionLoss, KinkedLoss):  # min(|s - y|, 1)
    ...     def kinks(self, y):
    ...         at = np.stack([y - 1.0, y, y + 1.0])
    ...         jumps = np.repeat([[-1.0], [2.0], [-1.0]], y.size, axis=1)
    ...         return Kinks(np.ones_like(y), np.zeros_like(y), at, jumps)
    >>> Capped().value_slope(np.zeros(3), np.array([0.5, 3.0, -3.0]))
    (array([0.5, 1. , 1. ]), array([1., 0., 0.]))
    """

    is_convex = False

    @abstractmethod
    def kinks(self, y: FloatArray) -> Kinks:
        """The kinks of every sample's loss."""

    @override
    def value_slope(self, y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.kinks(y).value_slope(scores)


class Motion(NamedTuple):
    """``t -> l(y_i, s_i + t d_i)`` at one t: float64 arrays of shape (n,).

    >>> Motion(values=np.array([0.5]), slopes=np.array([1.0]), bends=np.array([np.nan])).slopes
    array([1.])
    """

    values: FloatArray
    slopes: FloatArray
    bends: FloatArray  # second derivatives; NaN where there are none


class MulticlassLoss(ABC):
    """``l(y, s)``, non-negative and convex in the K scores s of a sample of class y.

    y : int64 array (n,) of classes 0 ... K-1;  S, D : float64 arrays (n, K), read-only

    >>> from undercut.contracts import Motion, MulticlassLoss
    >>> class SumOfHinges(MulticlassLoss):  # sum over k != y of max(0, 1 + s_k - s_y)
    ...     def value_slope(self, y, S):
    ...         own = np.arange(y.size), y
    ...         margins = 1.0 + S - S[own][:, None]
    ...         margins[own] = 0.0
    ...         slopes = (margins > 0.0).astype(np.float64)
    ...         slopes[own] = -slopes.sum(axis=1)
    ...         return np.maximum(margins, 0.0).sum(axis=1), slopes
    ...     def along(self, y, S, D, t):
    ...         values, slopes = self.value_slope(y, S + t * D)
    ...         return Motion(values, (slopes * D).sum(axis=1), np.full(y.size, np.nan))
    >>> from undercut import L2, MulticlassRisk, minimize
    >>> minimize(MulticlassRisk(np.eye(3), [0, 1, 2], SumOfHinges()), L2(0.01)).w.reshape(3, 3).argmax(axis=0)
    array([0, 1, 2])
    """

    @abstractmethod
    def value_slope(self, y: Array, S: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values (n,), and a subgradient in s for every row of S, (n, K); the caller may overwrite both."""

    @abstractmethod
    def along(self, y: Array, S: FloatArray, D: FloatArray, t: float) -> Motion:
        """The losses at ``S + t D``, as functions of t."""

    def check_classes(self, n_classes: int) -> None:  # noqa: B027  (most losses fit any number)
        """Raise ``DataError`` if the loss is made for another number of classes."""
