"""The weighted mean multiclass loss as a function of the n x K scores S, with or without free intercepts.

    fixed:  phi(S) = sum_i weight_i l(y_i, s_i)
    free:   phi(S) = min_b sum_i weight_i l(y_i, s_i + b),      b one number per class

At the minimizing b the slopes can be chosen so that those of each class sum to zero, and then the plane in S alone
supports phi: b is eliminated from the problem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from typing_extensions import override

from undercut._jit.transport import transport
from undercut.contracts import Evaluation, MulticlassLoss, ScoreFunction
from undercut.errors import NonfiniteError
from undercut.losses import CrammerSinger
from undercut.scalar import Point, minimize_convex
from undercut.types import Array, FloatArray

PATHS_PER_SAMPLE = 100  # an upper limit that only rounding errors can reach


def class_sums(by_sample: FloatArray) -> FloatArray:
    """The sum of every column, by BLAS."""
    return np.asarray(np.ones(by_sample.shape[0]) @ by_sample)


@dataclass(frozen=True, eq=False)
class Settled:
    """The mean loss at the best intercepts."""

    value: float
    slopes: FloatArray  # n x K, weights included
    b: FloatArray

    @cached_property
    def totals(self) -> FloatArray:
        """The sum of the slopes of every class."""
        return class_sums(self.slopes)

    @property
    def imbalance(self) -> float:
        """The largest of these by size."""
        return float(np.abs(self.totals).max())


class ClassScores(ScoreFunction):
    """No intercepts, any loss."""

    def __init__(self, loss: MulticlassLoss, y: Array, weight: FloatArray, n_classes: int) -> None:
        self.loss, self.y, self.weight, self.n_classes = loss, y, weight, n_classes

    def begin_at(self, b: FloatArray) -> None:
        """Begin the next search for the best intercepts here, if they are free."""

    def rows(self, scores: FloatArray) -> FloatArray:
        """The scores with one row per sample."""
        return scores.reshape(-1, self.n_classes)

    def settle(self, S: FloatArray) -> Settled:
        """The mean loss and its slopes at the best intercepts; infinite where scores overflow."""
        if not np.isfinite(S).all():
            return Settled(math.inf, np.full_like(S, np.nan), np.zeros(self.n_classes))
        return self._settle(S)

    def _settle(self, S: FloatArray) -> Settled:
        return self._at(S, np.zeros(self.n_classes))

    def _at(self, S: FloatArray, b: FloatArray) -> Settled:
        values, slopes = self.loss.value_slope(self.y, S + b if b.any() else S)
        slopes *= self.weight[:, None]
        return Settled(float(self.weight @ values), slopes, b)

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        at = self.settle(self.rows(scores))
        return Evaluation(at.value, at.slopes.reshape(-1))

    def intercepts(self, scores: FloatArray) -> FloatArray:
        """The intercepts to add to the scores of new samples, one per class; their sum is zero."""
        return self.settle(self.rows(scores)).b

    @override
    def trial(self, scores: FloatArray, direction: FloatArray, t: float) -> Point:
        along = self.loss.along(self.y, self.rows(scores), self.rows(direction), t)
        at = Point(*(float(self.weight @ part) for part in along))
        return at if math.isfinite(at.value) else Point(math.inf, math.nan, math.nan)


class FreeScores(ClassScores):
    """Free intercepts; the search starts from the last ones."""

    carried: ClassVar = ("_hint",)  # part of a checkpoint

    def __init__(self, loss: MulticlassLoss, y: Array, weight: FloatArray, n_classes: int) -> None:
        super().__init__(loss, y, weight, n_classes)
        self._share = np.bincount(y, weight, n_classes)  # of each class
        self._hint = np.zeros(n_classes)

    @override
    def begin_at(self, b: FloatArray) -> None:
        self._hint = np.asarray(b - b.mean())

    def _transport(self, utility: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Prices and flows between samples and classes, from the prices b."""
        prices, flow = b.copy(), np.empty_like(utility)
        max_paths = PATHS_PER_SAMPLE * (self.y.size + self.n_classes)
        if not transport(utility, self.weight, self._share, prices, flow, max_paths):
            raise NonfiniteError("rounding prevents exact intercepts: scale the features, or use a larger lambda")
        return prices, flow

    @override
    def minimizer(
        self, scores: FloatArray, direction: FloatArray, slope: float, curvature: float, accuracy: float = 0.0
    ) -> float:
        D, known = self.rows(direction), dict[float, FloatArray]()

        def point(t: float) -> Point:
            self._hint = _interpolated(known, t, self._hint)
            with np.errstate(over="ignore", invalid="ignore"):
                at = self.settle(self.rows(scores + t * direction))
                known[t] = at.b
                return Point(at.value, float((at.slopes * D).sum()), self._bend(at, D))

        return minimize_convex(point, slope, curvature, accuracy=accuracy)

    def _bend(self, at: Settled, D: FloatArray) -> float:
        """The second derivative along D; NaN where it does not exist."""
        return math.nan


class FreeCrammerSinger(FreeScores):
    """The Crammer-Singer loss with free intercepts: a transportation problem between samples and classes.

        phi(S) = max_q sum_ik q_ik (label_loss[y_i, k] + s_ik - s_iy)
                 over q >= 0 with sum_k q_ik = weight_i and sum_i q_ik = weight of class k

    The intercepts are its prices, and ``q_ik - weight_i [k = y_i]`` are the slopes: those of each class sum to zero.
    """

    def __init__(self, loss: CrammerSinger, y: Array, weight: FloatArray, n_classes: int) -> None:
        super().__init__(loss, y, weight, n_classes)
        self._costs = loss.costs(n_classes)

    @override
    def _settle(self, S: FloatArray) -> Settled:
        utility = self._costs[self.y]
        utility += S
        b, q = self._transport(utility, self._hint)
        self._hint = b
        utility += b
        rows = np.arange(self.y.size)
        values = utility.max(axis=1) - utility[rows, self.y]
        q[rows, self.y] -= self.weight
        return Settled(float(self.weight @ values), q, b)


def _interpolated(known: dict[float, FloatArray], t: float, last: FloatArray) -> FloatArray:
    """A guess of the intercepts at t from those at the two nearest points of a line."""
    if len(known) < 2:
        return last
    near, next_to = sorted(known, key=lambda at: abs(at - t))[:2]
    return np.asarray(known[near] + (t - near) / (next_to - near) * (known[next_to] - known[near]))
