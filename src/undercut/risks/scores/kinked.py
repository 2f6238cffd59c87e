"""The weighted sum of piecewise-linear losses, convex or not, as a function of the scores."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from undercut.contracts import Evaluation, Kinks, ScoreFunction
from undercut.types import FloatArray

TIED = 1e-13  # relative: kinks closer than this are equal


class FixedKinked(ScoreFunction):
    """``phi(s) = sum_i weight_i l_i(s_i)``."""

    def __init__(self, kinks: Kinks, weight: FloatArray) -> None:
        self.kinks, self.weight = kinks, weight

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        values, slopes = self.kinks.value_slope(scores)
        return Evaluation(float(self.weight @ values), self.weight * slopes)

    def majorized(self, scores: FloatArray) -> FixedKinked:
        """The convex function above phi that touches it at ``scores``."""
        return type(self)(self.kinks.majorized(scores + self.evaluate(scores).intercept), self.weight)


class FreeKinked(FixedKinked):
    """``phi(s) = min_b sum_i weight_i l_i(s_i + b)``, the global minimum, which a kink in b attains.

    At a solution many samples have a kink at the same b up to rounding, so kinks within ``TIED`` of it count as equal.
    """

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        b = self._intercept(scores)
        value = super().evaluate(scores + b).value
        from_b = self.kinks.at - scores - b
        same = TIED * (np.abs(scores) + np.abs(self.kinks.at) + abs(b))
        below = self.weight * (self.kinks.left + (self.kinks.jumps * (from_b < -same)).sum(axis=0))
        tied = self.weight * (self.kinks.jumps * (np.abs(from_b) <= same)).sum(axis=0)
        # At the best b the slopes change sign: with one share of the jumps their sum is zero, and b is eliminated.
        total = float(tied.sum())
        share = min(1.0, max(0.0, -float(below.sum()) / total)) if total > 0.0 else 0.0
        return Evaluation(value, below + share * tied, b)

    def _intercept(self, scores: FloatArray) -> float:
        bends = (self.kinks.jumps != 0.0) & (self.weight > 0.0)
        at = (self.kinks.at - scores)[bends]
        if at.size == 0:
            return 0.0
        rise = (self.kinks.jumps * self.weight)[bends]
        order = np.argsort(at)
        at, slopes = at[order], float(self.weight @ self.kinks.left) + np.cumsum(rise[order])
        values = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(at))])
        return float(at[values.argmin()])


class Balanced(ScoreFunction):
    """``phi(s + b)`` with the b that makes the mean score of some samples ``target``.

    The constraint is linear, so shifting all scores by b satisfies it, and b is eliminated.
    """

    def __init__(self, phi: FixedKinked, share: FloatArray, target: float) -> None:
        self.phi, self.share, self.target = phi, share, target  # share: weights of the mean, with sum one

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        b = self.target - float(self.share @ scores)
        value, slopes, _ = self.phi.evaluate(scores + b)
        return Evaluation(value, slopes - float(slopes.sum()) * self.share, b)

    def majorized(self, scores: FloatArray) -> Balanced:
        """The convex function above phi that touches it at ``scores``."""
        moved = scores + (self.target - float(self.share @ scores))
        return Balanced(self.phi.majorized(moved), self.share, self.target)
