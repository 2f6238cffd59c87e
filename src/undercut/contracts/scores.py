"""Functions of the scores ``X w``."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

from undercut.scalar import Point, minimize_convex
from undercut.types import FloatArray


class Evaluation(NamedTuple):
    """phi at some scores.

    slopes : float64 array of the shape of the scores, a subgradient in s with all weights included.  It may be scratch
        memory of the ``ScoreFunction``: valid until its next call, and not to be modified.

    >>> import numpy as np
    >>> at = Evaluation(value=1.5, slopes=np.array([-0.5, 0.5]))
    >>> kept = at.slopes.copy()  # what must survive the next evaluation is copied
    >>> at.value, at.intercept
    (1.5, 0.0)
    """

    value: float
    slopes: FloatArray
    intercept: float = 0.0  # to be added to the scores of new samples


class ScoreFunction(ABC):
    """``phi(s)`` of a float64 array s of scores, one per row of the design.

    ``evaluate`` is enough: ``ScoreRisk(design, phi)`` derives values, planes and an exact line search from it.  The
    scores are not modified and not kept.  Calls come from one thread at a time.

    >>> import numpy as np
    >>> from undercut import L2, minimize
    >>> from undercut.maps.design import as_design
    >>> from undercut.risks import ScoreRisk
    >>> from undercut.contracts import Evaluation, ScoreFunction
    >>> class LargestError(ScoreFunction):  # phi(s) = max_i |s_i - y_i|
    ...     def __init__(self, y):
    ...         self.y = y
    ...     def evaluate(self, scores):
    ...         errors = scores - self.y
    ...         worst = int(np.abs(errors).argmax())
    ...         slopes = np.zeros_like(scores)
    ...         slopes[worst] = np.sign(errors[worst])
    ...         return Evaluation(abs(float(errors[worst])), slopes)
    >>> X, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([0.0, 2.0, 2.0])
    >>> minimize(ScoreRisk(as_design(X), LargestError(y)), L2(1e-4)).w.round(2)
    array([0.5, 1. ])
    """

    @abstractmethod
    def evaluate(self, scores: FloatArray) -> Evaluation:
        """Value, subgradient and intercept; the value is infinite where it overflows."""

    def intercept(self, scores: FloatArray) -> float:
        """The intercept for new samples; where several are optimal, the preferred one."""
        return self.evaluate(scores).intercept

    def minimizer(
        self, scores: FloatArray, direction: FloatArray, slope: float, curvature: float, accuracy: float = 0.0
    ) -> float:
        """The t >= 0 that minimizes ``phi(scores + t direction) + slope t + curvature t^2 / 2``; see ``Line``."""
        return minimize_convex(lambda t: self.trial(scores, direction, t), slope, curvature, accuracy=accuracy)

    def trial(self, scores: FloatArray, direction: FloatArray, t: float) -> Point:
        """Value, first and second derivative (NaN where there is none) of ``phi(scores + t direction)`` in t."""
        value, slopes, _ = self.evaluate(scores + t * direction)
        return Point(value, float(slopes @ direction), math.nan)


class SortedScores(ScoreFunction):
    """A phi that sorts the scores, so that a trial point on a line costs as much as a plane.

    ``"auto"`` then takes a solver that makes a plane of every point it evaluates.

    >>> from undercut.risks import MultivariateRisk
    >>> isinstance(MultivariateRisk([[1.0], [2.0]], [1.0, -1.0], "f1").phi, SortedScores)
    True
    """
