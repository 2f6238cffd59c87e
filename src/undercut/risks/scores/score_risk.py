"""Risks that see w through scores alone: ``R(w) = phi(X w)``.

A new risk needs only its phi.  Along a line in w the scores move along a line too, so trial points need no product
with X.
"""

from __future__ import annotations

import math

import numpy as np
from typing_extensions import override

from undercut.contracts import Cut, Design, Evaluation, Line, LineRisk, ScoreFunction
from undercut.errors import NonfiniteError
from undercut.types import FloatArray


class ScoreRisk(LineRisk):
    """``R(w) = phi(X w)``; ``lower_bound`` is a lower bound of phi."""

    def __init__(self, design: Design, phi: ScoreFunction, *, lower_bound: float = 0.0, is_convex: bool = True) -> None:
        self.design, self.phi, self.lower_bound, self.is_convex = design, phi, lower_bound, is_convex
        self.n_params = design.shape[1]
        self.scratch = np.empty(design.shape[0])  # for scores that are not kept
        self._cut_at_zero: Cut | None = None

    @override
    def value(self, w: FloatArray) -> float:
        return self.phi.evaluate(self.scores(w)).value

    @override
    def cut(self, w: FloatArray) -> Cut:
        scores = self.design.matvec(w)
        return self.plane(scores, self.phi.evaluate(scores))

    @property
    def cut_at_zero(self) -> Cut:
        """The plane at w = 0, which tells whether zero is optimal under L1; kept."""
        if self._cut_at_zero is None:
            scores = np.zeros(self.design.shape[0])
            self._cut_at_zero = self.plane(scores, self.phi.evaluate(scores))
        return self._cut_at_zero

    @override
    def along(self, w: FloatArray, direction: FloatArray) -> Line:
        return ScoreLine(self, self.scores(w), self.scores(direction))

    def scores(self, w: FloatArray) -> FloatArray:
        """``X w``, in an array of its own; without a pass over X where w is zero, as most runs start."""
        return self.design.matvec(w) if np.any(w) else np.zeros(self.design.shape[0])

    def intercept(self, w: FloatArray) -> float:
        """The intercept that belongs to w; 0 where the risk has none."""
        return self.phi.intercept(self.design.matvec(w))

    def plane(self, scores: FloatArray, at: Evaluation) -> Cut:
        """The plane of an evaluation at ``scores = X w``: ``<a, w> = <slopes, scores>``, so w itself is not needed."""
        if not math.isfinite(at.value):
            raise NonfiniteError(f"the value of the risk is {at.value}")
        return Cut(self.design.rmatvec(at.slopes), at.value - float(at.slopes @ scores), at.value)


class ScoreLine(Line):
    """R along a line, from two vectors of scores."""

    def __init__(self, risk: ScoreRisk, scores: FloatArray, rise: FloatArray) -> None:
        self.risk, self.scores, self.rise = risk, scores, rise  # X w and X direction
        self._last = 0.0, scores

    def scores_at(self, t: float) -> FloatArray:
        """The scores at t, kept for the next call with the same t."""
        if t != self._last[0]:
            scores = t * self.rise
            scores += self.scores
            self._last = t, scores
        return self._last[1]

    @override
    def minimizer(self, slope: float, curvature: float, accuracy: float = 0.0) -> float:
        return self.risk.phi.minimizer(self.scores, self.rise, slope, curvature, accuracy)

    @override
    def value(self, t: float) -> float:
        return self.risk.phi.evaluate(self.scores_at(t)).value

    @override
    def cut(self, t: float) -> Cut:
        scores = self._last[1]
        if t != self._last[0]:  # do not replace the kept scores, which are those of the best point
            scores = np.multiply(self.rise, t, out=self.risk.scratch)
            scores += self.scores
        return self.risk.plane(scores, self.risk.phi.evaluate(scores))

    @override
    def turn(self, t: float, direction: FloatArray) -> Line:
        return type(self)(self.risk, self.scores_at(t), self.risk.design.matvec(direction))

    def toward(self, t: float, scores: FloatArray) -> ScoreLine:
        """The line from the point at t to one with the given scores, which is at 1 on it."""
        here = self.scores_at(t)
        return type(self)(self.risk, here, scores - here)
