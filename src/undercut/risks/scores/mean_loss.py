"""The weighted mean loss as a function of the scores, with or without a free intercept.

    fixed:  phi(s) = sum_i weight_i l_i(s_i)
    free:   phi(s) = min_b sum_i weight_i l_i(s_i + b)

Both are convex in s.  At the minimizing b the slopes ``g_i`` can be chosen to sum to zero, and then
``phi(s') >= phi(s) + <g, s' - s>`` for the free intercept too: b is eliminated from the problem.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from typing_extensions import override

from undercut._jit import piecewise, pointwise
from undercut._jit.crossing import crossing
from undercut.contracts import Evaluation, KinkedLoss, Loss, PiecewiseLinearLoss, ScoreFunction, SmoothLoss
from undercut.errors import CapabilityError
from undercut.losses import compiled_slope
from undercut.risks.scores.fixed_mean import Fixed, fixed_smooth
from undercut.risks.scores.joint import Joint, Step, newton_in_both
from undercut.risks.scores.kinked import FixedKinked, FreeKinked
from undercut.risks.scores.poisson_mean import FixedPoisson, FreePoisson
from undercut.risks.scores.smooth_mean import Expanded, Expansion, SmoothMean
from undercut.scalar import Point, minimize_convex
from undercut.types import FloatArray

BALANCED = 1e-14  # slopes count as summing to zero up to this share of their absolute sum
FLAT = 1e-12  # a slope in b below this is zero up to rounding; the weights sum to one
MAX_RESTARTS = 30
FAR = 800.0  # from here on exponential functions are zero
EPS = float(np.finfo(float).eps)


class FixedPiecewise(ScoreFunction):
    """No intercept, piecewise-linear loss: the line search is one selection among the kinks."""

    def __init__(self, loss: PiecewiseLinearLoss, y: FloatArray, weight: FloatArray) -> None:
        self.pieces = loss.pieces(y)
        self.weight = weight
        self._at = np.empty(self.pieces.kinks.size)
        self._rise = np.empty(self.pieces.kinks.size)
        self._slopes = np.empty_like(weight)  # reused: allocating it would cost more than the evaluation

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        return self._at_intercept(scores, 0.0)

    def _at_intercept(self, scores: FloatArray, b: float) -> Evaluation:
        value = piecewise.at_intercept(*self.pieces, self.weight, scores, b, self._slopes)
        return Evaluation(value, self._slopes, b)

    @override
    def minimizer(
        self, scores: FloatArray, direction: FloatArray, slope: float, curvature: float, accuracy: float = 0.0
    ) -> float:
        own, at, rise = self.kinks_along(scores, direction)
        return float(crossing(at, rise, own + slope, curvature, 0.0))

    def kinks_along(self, scores: FloatArray, direction: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """The slope at t = 0, the kinks t > 0 along a line, and by how much the slope rises there; scratch memory."""
        own, n = piecewise.along_line(*self.pieces, self.weight, scores, direction, self._at, self._rise)
        return own, self._at[:n], self._rise[:n]

    def kinks_in_b(self, scores: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """The slope at b = -inf, the kinks in an intercept b, and by how much the slope rises there; scratch memory."""
        left, kinks, jumps = self.pieces
        piecewise.intercept_kinks(kinks, jumps, self.weight, scores, self._at, self._rise)
        return float(self.weight @ left), self._at, self._rise

    def shared_slopes(self, scores: FloatArray, b: float, share: float) -> FloatArray:
        """Weighted subgradients at ``scores + b``: samples with a kink there take this share of its jump."""
        left, kinks, jumps = self.pieces
        at = kinks - scores
        slopes = left + jumps @ (at < b) + share * (jumps @ (at == b))
        return np.asarray(self.weight * slopes)


class FreePiecewise(FixedPiecewise):
    """Free intercept, piecewise-linear loss: b is a weighted quantile of the kinks."""

    @override
    def evaluate(self, scores: FloatArray) -> Evaluation:
        kinks = self.pieces.kinks
        start, at, rise = self.kinks_in_b(scores)
        b = crossing(at, rise, start, 0.0, -math.inf)
        if not math.isfinite(b):  # every b beyond the first or last kink is optimal, or rounding makes it look so
            b = float((kinks - scores).min() if b < 0.0 else (kinks - scores).max())
        return self._at_intercept(scores, b)

    @override
    def intercept(self, scores: FloatArray) -> float:
        """The middle of the interval of optimal b."""
        left, kinks, jumps = self.pieces
        ends = []
        for sign, slope in ((1.0, float(self.weight @ left)), (-1.0, -float(self.weight @ (left + jumps.sum())))):
            piecewise.intercept_kinks(kinks, jumps, self.weight, scores, self._at, self._rise)
            ends.append(sign * crossing(sign * self._at, self._rise, slope + FLAT, 0.0, -math.inf))
        middle = 0.5 * (ends[0] + ends[1])
        return middle if math.isfinite(middle) else self.evaluate(scores).intercept

    @override
    def minimizer(
        self, scores: FloatArray, direction: FloatArray, slope: float, curvature: float, accuracy: float = 0.0
    ) -> float:
        return ScoreFunction.minimizer(self, scores, direction, slope, curvature, accuracy)


class FreeSmooth(SmoothMean):
    """Free intercept, smooth loss: Newton steps in b from the last one, in t and b together along a line.

    Where a Newton step fails, safeguarded searches in one variable take over.
    """

    carried: ClassVar = ("_hint",)  # part of a checkpoint

    def __init__(self, loss: SmoothLoss, y: FloatArray, weight: FloatArray) -> None:
        self._fixed = fixed_smooth(loss, y, weight)
        self._hint = 0.0

    @property
    @override
    def fixed(self) -> SmoothMean:
        return self._fixed

    def search_from(self, b: float) -> None:
        """Start the next search for the best b here."""
        self._hint = b

    @override
    def expand(self, scores: FloatArray) -> Expansion:
        at = self._by_newton(scores) or self._far_out(scores) or self._by_search(scores)
        self._hint = at.intercept
        return at

    @override
    def along(self, at: Expansion, direction: FloatArray) -> Point:
        with np.errstate(over="ignore", invalid="ignore"):
            centered = direction - (at.bend @ direction) / max(float(at.bend.sum()), 1e-300)
            return Point(at.value, float(at.slopes @ direction), float(at.bend @ centered**2))

    @override
    def search(self, line: Expanded, slope: float, curvature: float, accuracy: float) -> float:
        def joint(t: float, b: float) -> Joint:
            at = line.start
            if at is None or t != 0.0 or b != at.intercept:
                at = self._at(line.scores + t * line.rise, b)

            def newton() -> Step:
                with np.errstate(all="ignore"):
                    total, mean = at.bend.sum(), (at.bend @ line.rise) / at.bend.sum()
                    own, both = at.slopes @ line.rise + slope + curvature * t, at.slopes.sum()
                    reduced = own - mean * both
                    dt = -reduced / (at.bend @ (line.rise - mean) ** 2 + curvature)
                    db = -both / total - mean * dt
                    gain = -0.5 * (own * dt + both * db)
                return Step(float(reduced), float(dt), float(db), float(gain))

            return Joint(t, b, at.value + slope * t + 0.5 * curvature * t * t, newton)

        found = newton_in_both(joint, self._hint, accuracy)
        if found is None:
            return super().search(line, slope, curvature, accuracy)
        self._hint = found.b
        return found.t

    def _at(self, scores: FloatArray, b: float) -> Expansion:
        return self._fixed.expand(scores + b)._replace(intercept=b)

    def _by_newton(self, scores: FloatArray) -> Expansion | None:
        """phi at the b where the slopes sum to zero up to rounding; ``None`` if Newton steps do not halve the sum.

        One step may go too far, as the first one does where losses grow exponentially.
        """
        b, last, overshot = self._hint, math.inf, False
        while True:
            at = self._at(scores, b)
            with np.errstate(all="ignore"):
                total, size = float(at.slopes.sum()), float(np.abs(at.slopes).sum())
                step = total / float(at.bend.sum() or math.nan)
            if abs(total) <= BALANCED * size < math.inf:
                return at
            has_turned = last < math.inf and total * last < 0.0
            is_closer = abs(total) < 0.5 * abs(last) or (has_turned and not overshot)
            overshot = overshot or has_turned
            if not is_closer or (abs(total) == size and last < math.inf and not overshot):
                return at if abs(step) <= EPS * float(np.abs(scores + b).max()) else None  # scores are rounded
            if abs(step) <= EPS * abs(b):  # no better b is a float
                return at
            b, last = b - step, total

    def _far_out(self, scores: FloatArray) -> Expansion | None:
        """phi where all losses are flat, as those of one class are far out; ``None`` if they are not flat there."""
        slopes = self._at(scores, self._hint).slopes
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(slopes.sum())
        if math.isnan(total):
            return None
        b = self._hint - math.copysign(FAR + float(np.abs(scores + self._hint).max()), total)
        at = self._at(scores, b)
        return None if at.slopes.any() else at

    def _by_search(self, scores: FloatArray) -> Expansion:
        """phi at the b where the slopes sum to zero, up to rounding, from any start."""
        b = self._hint
        for _ in range(MAX_RESTARTS):
            at = self._at(scores, b)
            with np.errstate(over="ignore", invalid="ignore"):
                total, size = float(at.slopes.sum()), float(np.abs(at.slopes).sum())
            if abs(total) <= BALANCED * size < math.inf or math.isnan(total):
                return at
            shift = self._shift(scores + b, -math.copysign(1.0, total), BALANCED * size)
            if shift == 0.0:
                return at
            b += shift
        return self._at(scores, b)

    def _shift(self, start: FloatArray, away: float, slope_tol: float) -> float:
        """How far b must move in direction ``away``."""

        def point(t: float) -> Point:
            at = self._at(start, away * t)
            with np.errstate(over="ignore", invalid="ignore"):
                return Point(at.value, away * float(at.slopes.sum()), float(at.bend.sum()))

        tol = slope_tol if math.isfinite(slope_tol) else 0.0
        return away * minimize_convex(point, 0.0, 0.0, slope_tol=tol)


def mean_loss(loss: Loss, y: FloatArray, weight: FloatArray, *, fit_intercept: bool) -> ScoreFunction:
    """The phi of a loss; its type depends on the kind of the loss."""
    if isinstance(loss, KinkedLoss):
        return (FreeKinked if fit_intercept else FixedKinked)(loss.kinks(y), weight)
    if isinstance(loss, PiecewiseLinearLoss):
        return (FreePiecewise if fit_intercept else FixedPiecewise)(loss, y, weight)
    named = compiled_slope(loss)
    if named is not None and named.number == pointwise.POISSON and not (fit_intercept and weight @ y == 0.0):
        return (FreePoisson if fit_intercept else FixedPoisson)(y, weight)
    if not fit_intercept:
        return fixed_smooth(loss, y, weight) if isinstance(loss, SmoothLoss) else Fixed(loss, y, weight)
    if isinstance(loss, SmoothLoss) and loss.is_convex:
        return FreeSmooth(loss, y, weight)
    raise CapabilityError(
        f"an exact intercept needs a convex SmoothLoss, a PiecewiseLinearLoss or a KinkedLoss, and "
        f"{type(loss).__name__} is not one: derive it from one of them, or append a constant feature to X"
    )
