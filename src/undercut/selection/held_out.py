"""What the optimum of a fit can predict for held-out samples, before its gap is closed.

A strongly convex objective pins its minimizer down: ``|w - w*|^2 <= 2 gap / m``.  So no score moves by more than
``|x_i| radius`` with ``radius = sqrt(2 gap / m)`` from here to the optimum, and no difference of two scores of one
problem by more than ``sqrt(2) |x_i| radius``.  A free intercept falls where scores rise, and by as much as all of them
do, so it moves by no more than the training score that moves most.  A label that cannot change is decided, and an error
lies between those of the two ends of its prediction.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from undercut.contracts import Design
from undercut.maps.matrix import Matrix
from undercut.risks import LinearRisk, MulticlassRisk
from undercut.types import Array, FloatArray

SLACK = 1.0 + 1e-9  # for the rounding of lengths


class Interval(NamedTuple):
    """The least and the largest value of every sample."""

    low: FloatArray
    high: FloatArray


class HeldOut(ABC):
    """The held-out samples of a fold: a value of each, whose mean is the score of the fold."""

    @abstractmethod
    def values(self, solutions: list[FloatArray]) -> FloatArray:
        """The value of every sample for the solutions of all problems."""

    def score(self, solutions: list[FloatArray]) -> float:
        """The mean of the values."""
        return float(self.values(solutions).mean())

    @abstractmethod
    def interval(self, solutions: list[FloatArray], radii: list[float]) -> Interval:
        """The values that the optimum can have, each problem's within a radius of its solution."""


@dataclass
class Scored:
    """The scores of held-out samples in one linear problem.

    Those of the last w are remembered: a step of one problem leaves the w of the others as they are.
    """

    risk: LinearRisk
    held_out: Design
    norms: FloatArray  # of the held-out samples
    longest: float  # the largest norm of a training sample
    _last: tuple[FloatArray, FloatArray] | None = field(default=None, init=False)

    def scores(self, w: FloatArray) -> FloatArray:
        """Scores, the intercept included."""
        if self._last is None or self._last[0] is not w:
            self._last = w, self.held_out.matvec(w) + (self.risk.intercept(w) if self.risk.fit_intercept else 0.0)
        return self._last[1]

    def interval(self, w: FloatArray, radius: float) -> Interval:
        """The scores that the optimum can have."""
        reach = radius * SLACK * (self.norms + (self.longest if self.risk.fit_intercept else 0.0))
        return Interval(self.scores(w) - reach, self.scores(w) + reach)


@dataclass(frozen=True)
class TwoClasses(HeldOut):
    """The accuracy of one problem; ``right`` : +1 where the sample belongs to the positive class, else -1."""

    problem: Scored
    right: FloatArray

    @override
    def values(self, solutions: list[FloatArray]) -> FloatArray:
        return np.where((self.problem.scores(solutions[0]) > 0.0) == (self.right > 0.0), 1.0, 0.0)

    @override
    def interval(self, solutions: list[FloatArray], radii: list[float]) -> Interval:
        low, high = self.problem.interval(solutions[0], radii[0])
        return _labels(np.where(self.right > 0.0, low, -high), np.where(self.right > 0.0, high, -low))


@dataclass(frozen=True)
class OneAgainstRest(HeldOut):
    """The accuracy of the largest score, each of a problem of its own; ``right`` : the numbers of the classes."""

    problems: list[Scored]
    right: Array

    @override
    def values(self, solutions: list[FloatArray]) -> FloatArray:
        scores = [problem.scores(w) for problem, w in zip(self.problems, solutions, strict=True)]
        return np.asarray(np.argmax(scores, axis=0) == self.right, dtype=np.float64)

    @override
    def interval(self, solutions: list[FloatArray], radii: list[float]) -> Interval:
        ends = [each.interval(w, r) for each, w, r in zip(self.problems, solutions, radii, strict=True)]
        low, high = np.array([each.low for each in ends]), np.array([each.high for each in ends])
        at = self.right, np.arange(self.right.size)
        own_low, own_high = low[at].copy(), high[at].copy()
        low[at], high[at] = -np.inf, -np.inf
        return _labels(own_low - high.max(axis=0), own_high - low.max(axis=0))


@dataclass(frozen=True)
class JointClasses(HeldOut):
    """The accuracy of one problem of several classes; ``right`` : the numbers of the classes.

    Nothing is proved about it where the problem has intercepts: how far they can move is not known.
    """

    risk: MulticlassRisk
    held_out: Matrix
    norms: FloatArray
    right: Array

    def _scores(self, W: FloatArray) -> FloatArray:
        """Scores by sample and class, the intercepts included."""
        return np.asarray(self.held_out.matmat(W.reshape(self.risk.n_classes, -1)) + self.risk.intercepts(W))

    def _leads(self, W: FloatArray) -> FloatArray:
        """The score of the right class less the largest of the others."""
        scores = self._scores(W)
        at = np.arange(self.right.size), self.right
        own = scores[at].copy()
        scores[at] = -np.inf
        return np.asarray(own - scores.max(axis=1))

    @override
    def values(self, solutions: list[FloatArray]) -> FloatArray:
        return np.asarray(self._scores(solutions[0]).argmax(axis=1) == self.right, dtype=np.float64)

    @override
    def interval(self, solutions: list[FloatArray], radii: list[float]) -> Interval:
        if self.risk.fit_intercept:
            return Interval(np.zeros(self.right.size), np.ones(self.right.size))
        lead, reach = self._leads(solutions[0]), math.sqrt(2.0) * radii[0] * self.norms * SLACK
        return _labels(lead - reach, lead + reach)


@dataclass(frozen=True)
class Errors(HeldOut):
    """``offset - |error|^power / unit`` of the predictions of one problem."""

    problem: Scored
    y: FloatArray
    power: int
    unit: float = 1.0
    offset: float = 0.0

    def _of(self, errors: FloatArray) -> FloatArray:
        return np.asarray(self.offset - np.abs(errors) ** self.power / self.unit)

    @override
    def values(self, solutions: list[FloatArray]) -> FloatArray:
        return self._of(self.problem.scores(solutions[0]) - self.y)

    @override
    def interval(self, solutions: list[FloatArray], radii: list[float]) -> Interval:
        low, high = self.problem.interval(solutions[0], radii[0])
        above, below = high - self.y, low - self.y
        nearest = np.where((below <= 0.0) & (above >= 0.0), 0.0, np.minimum(np.abs(above), np.abs(below)))
        return Interval(self._of(np.maximum(np.abs(above), np.abs(below))), self._of(nearest))


def _labels(least_lead: FloatArray, largest_lead: FloatArray) -> Interval:
    """1 where the right label leads for sure, and 0 to 1 where it may."""
    return Interval(np.where(least_lead > 0.0, 1.0, 0.0), np.where(largest_lead < 0.0, 0.0, 1.0))
