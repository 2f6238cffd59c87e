"""A line whose values are expensive, one dynamic program per sequence: none is computed twice, and few are needed."""

from __future__ import annotations

import math
from typing import NamedTuple

from typing_extensions import override

from undercut.contracts import Line
from undercut.risks.scores.score_risk import ScoreLine, ScoreRisk
from undercut.scalar import Point, minimize_convex
from undercut.types import FloatArray

COARSE = 0.5  # an inexact search may leave this share of the decrease: a trial costs as much as a step
LEAST_REACH = 1e-4


class _Known(NamedTuple):
    """phi at one t."""

    t: float
    value: float
    slopes: FloatArray


class ChainLine(ScoreLine):
    """A ``ScoreLine`` that keeps the best point of its search; a search starts at the length of the last one."""

    def __init__(
        self, risk: ScoreRisk, scores: FloatArray, rise: FloatArray, reach: float = 1.0, known: _Known | None = None
    ) -> None:
        super().__init__(risk, scores, rise)
        self.reach, self._known = reach, known

    def _at(self, t: float) -> _Known:
        if self._known is not None and self._known.t == t:
            return self._known
        value, slopes, _ = self.risk.phi.evaluate(self.scores_at(t))
        return _Known(t, value, slopes)

    @override
    def minimizer(self, slope: float, curvature: float, accuracy: float = 0.0) -> float:
        best = self._lowest(slope, curvature, max(accuracy, COARSE) if accuracy > 0.0 else 0.0)
        if best == 0.0 and accuracy > 0.0:  # at a kink the first trial may rise although shorter steps decrease
            best = self._lowest(slope, curvature, accuracy)
        self.reach = min(max(best, LEAST_REACH), 1.0)
        return best

    def _lowest(self, slope: float, curvature: float, accuracy: float) -> float:
        """The best trial of a search, which is kept in ``_known``."""
        unit, lowest, best = self.reach, math.inf, 0.0

        def point(x: float) -> Point:
            nonlocal lowest, best
            at = self._at(unit * x)
            total = at.value + slope * at.t + 0.5 * curvature * at.t**2
            if total < lowest:
                lowest, best, self._known = total, at.t, at._replace(slopes=at.slopes.copy())
            return Point(at.value, unit * float(at.slopes @ self.rise), math.nan)

        minimize_convex(point, unit * slope, unit**2 * curvature, accuracy=accuracy)
        return best

    @override
    def value(self, t: float) -> float:
        return self._at(t).value

    @override
    def turn(self, t: float, direction: FloatArray) -> Line:
        known = self._known._replace(t=0.0) if self._known is not None and self._known.t == t else None
        return ChainLine(self.risk, self.scores_at(t), self.risk.design.matvec(direction), self.reach, known)
