"""Sharded linear risks with a free intercept: ``R(w) = min_b sum_k weight_k R_k(w, b)``.

The best b depends on all shards, so it is found in rounds: Newton steps for smooth losses, a search among the kinks
for piecewise-linear ones.  At the best b the slopes sum to zero, and the plane in w alone supports R.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from typing_extensions import override

from undercut.contracts import CurvedRisk, Cut, HessianOperator, LineRisk, SmoothRisk
from undercut.errors import NonfiniteError
from undercut.risks.combined import free_questions
from undercut.risks.combined.free_questions import Axis
from undercut.risks.combined.rounds import Found, Search, around
from undercut.risks.combined.sharded import ShardedHessian, ShardedRisk
from undercut.risks.combined.sharded_line import ShardedLine, kink_questions
from undercut.risks.scores.joint import Joint, Step, newton_in_both
from undercut.risks.scores.mean_loss import BALANCED, EPS, FLAT
from undercut.scalar import Point, minimize_convex
from undercut.types import FloatArray


class FreeShardedRisk(ShardedRisk, LineRisk):
    """With a free intercept, which is not penalized, is found exactly, and is returned by ``intercept(w)``."""

    fit_intercept = True
    hint = 0.0  # the last intercept: the next search starts there
    carried = ("hint",)  # part of a checkpoint

    @override
    def along(self, w: FloatArray, direction: FloatArray) -> FreeLine:
        return (KinkedFreeLine if self.is_piecewise else SmoothFreeLine).start(self, w, direction)

    def point(self, w: FloatArray) -> FreeLine:
        """The line that is w alone."""
        return self.along(w, np.zeros_like(w))

    @override
    def value(self, w: FloatArray) -> float:
        return self.point(w).value(0.0)

    @override
    def cut(self, w: FloatArray) -> Cut:
        return self.point(w).cut(0.0)

    def intercept(self, w: FloatArray) -> float:
        """The intercept that belongs to w; where several are optimal, their middle."""
        return self.point(w).intercept()


class SmoothFreeShardedRisk(FreeShardedRisk, SmoothRisk, CurvedRisk):
    """With a smooth loss: a Hessian and products with it."""

    @override
    def hessian(self, w: FloatArray) -> FloatArray:
        line = self.point(w)
        H, m, total = line.ask(free_questions.bent, line.settled(0.0).b)
        return np.asarray(H - np.outer(m, m) / total if total > 0.0 else H)

    @override
    def curvature(self, w: FloatArray) -> HessianOperator:
        return CenteredShardedHessian(self, w, self.point(w).settled(0.0).b)


class CenteredShardedHessian(ShardedHessian):
    """``X' diag(bend) X - m m' / sum bend`` with ``m = X' bend``."""

    def __init__(self, risk: ShardedRisk, w: FloatArray, b: float) -> None:
        super().__init__(risk, w, b)
        self._mixed, total, self._diagonal = self._asked(free_questions.mixed)
        self._total = max(float(total), 1e-300)

    @override
    def product(self, v: FloatArray) -> FloatArray:
        return np.asarray(super().product(v) - float(self._mixed @ v) / self._total * self._mixed)

    @override
    def diagonal(self) -> FloatArray:
        return np.asarray(np.maximum(self._diagonal - self._mixed**2 / self._total, 0.0))


class Settled:
    """The risk at one t and its best b."""

    def __init__(self, t: float, b: float, value: float, share: float | None, sums: Any = None) -> None:
        self.t, self.b, self.value, self.share, self.sums = t, b, value, share, sums


class FreeLine(ShardedLine):
    """R along a line, the intercept being the best one at every point."""

    risk: FreeShardedRisk
    _last: Settled | None = None

    def settled(self, t: float) -> Settled:
        """The best b at t."""
        if self._last is None or self._last.t != t:
            self._last = self._settle(t)
            self.risk.hint = self._last.b
        return self._last

    @abstractmethod
    def _settle(self, t: float) -> Settled:
        """The best b at a new t."""

    def intercept(self) -> float:
        """The intercept at the start of the line."""
        return self.settled(0.0).b

    @override
    def value(self, t: float) -> float:
        return self.settled(t).value

    @override
    def cut(self, t: float) -> Cut:
        at = self.settled(t)
        if not math.isfinite(at.value):
            raise NonfiniteError(f"the value of the risk is {at.value}")
        a, (value, offset, _, _) = self.ask(free_questions.plane_at, t, at.b, at.share)
        return Cut(a, float(offset), float(value))


class SmoothFreeLine(FreeLine):
    """Newton steps in b from the last one, in t and b together along the line."""

    @override
    def _settle(self, t: float) -> Settled:
        return self._by_newton(t) or self._by_search(t)

    def _sums(self, t: float, b: float) -> list[float]:
        sums: list[float] = self.ask(free_questions.sums, t, b)[0].tolist()
        return sums

    def _by_newton(self, t: float) -> Settled | None:
        """The b where the slopes sum to zero up to rounding; ``None`` if Newton steps do not halve the sum."""
        b, last = self.risk.hint, math.inf
        while True:
            value, _, total, size, bend, _, _ = sums = self._sums(t, b)
            if abs(total) <= BALANCED * size < math.inf:
                return Settled(t, b, value, None, sums)
            if not abs(total) < 0.5 * last:
                return None
            step = total / (bend or math.nan)
            if abs(step) <= EPS * abs(b):
                return Settled(t, b, value, None, sums)
            b, last = b - step, abs(total)

    def _by_search(self, t: float) -> Settled:
        """The same from any start."""
        b = self.risk.hint
        away = -math.copysign(1.0, self._sums(t, b)[2])

        def point(x: float) -> Point:
            value, _, total, _, bend, _, _ = self._sums(t, b + away * x)
            return Point(value, away * total, bend)

        b += away * minimize_convex(point, 0.0, 0.0)
        sums = self._sums(t, b)
        return Settled(t, b, sums[0], None, sums)

    @override
    def minimizer(self, slope: float, curvature: float, accuracy: float = 0.0) -> float:
        def joint(t: float, b: float) -> Joint:
            value, own, both, _, total, bend_d, bend_dd = self._sums(t, b)
            own += slope + curvature * t

            def newton() -> Step:
                mean = bend_d / (total or math.nan)
                reduced = own - mean * both
                dt = -reduced / ((bend_dd - mean * bend_d + curvature) or math.nan)
                db = -both / (total or math.nan) - mean * dt
                return Step(reduced, dt, db, -0.5 * (own * dt + both * db))

            return Joint(t, b, value + slope * t + 0.5 * curvature * t * t, newton)

        found = newton_in_both(joint, self.risk.hint, accuracy)
        if found is None:
            return minimize_convex(self._point, slope, curvature, accuracy=accuracy)
        self.risk.hint = found.b
        return found.t

    @override
    def _point(self, t: float) -> Point:
        value, own, _, _, total, bend_d, bend_dd = self.settled(t).sums
        return Point(value, own, bend_dd - bend_d**2 / max(total, 1e-300))


class KinkedFreeLine(FreeLine):
    """The best b is a kink, found in rounds; the line search asks for it at every trial point."""

    _scale = 1.0  # how far the last search moved b

    @override
    def _settle(self, t: float) -> Settled:
        found = self._search(Axis(self.key, t), self.risk.hint, 0.0)
        share = min(1.0, max(0.0, -found.below / found.tied)) if found.tied > 0.0 else 0.0
        value = found.value
        if not math.isfinite(value):
            value = float(self.ask(free_questions.value_at, t, found.at)[0])
        return Settled(t, found.at, value, share)

    def _search(self, axis: Axis, start: float, slope: float) -> Found:
        return Search(*kink_questions(self.ask, axis), slope, 0.0).first(around(start, 1.0), -math.inf)

    @override
    def minimizer(self, slope: float, curvature: float, accuracy: float = 0.0) -> float:
        return minimize_convex(self._point, slope, curvature, accuracy=accuracy)

    @override
    def _point(self, t: float) -> Point:
        at = self.settled(t)
        own = float(self.ask(free_questions.slope_at, t, at.b, at.share)[0])
        return Point(at.value, own, math.nan)

    @override
    def intercept(self) -> float:
        left = self._search(Axis(self.key, 0.0), self.risk.hint, FLAT).at
        right = -self._search(Axis(self.key, 0.0, mirrored=True), -self.risk.hint, FLAT).at
        return 0.5 * (left + right)
