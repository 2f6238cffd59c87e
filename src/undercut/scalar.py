"""Minimization of a convex function of one variable from values and slopes.

The tangents at the two ends of a bracket, plus the part of the curvature that is known exactly, bound the function
from below; their intersection is the next trial, so piecewise-linear functions are minimized exactly after finitely
many.  Where the function has a second derivative a Newton step comes first; elsewhere every other trial is the zero of
the secant of the slopes, which is faster where the pieces are short.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

FARTHEST = 1e18  # a function that still decreases here counts as unbounded
MAX_POINTS = 60


class Point(NamedTuple):
    """A convex function at one t."""

    value: float
    slope: float
    curvature: float  # NaN where it does not exist


class _Sample(NamedTuple):
    t: float
    value: float
    slope: float
    curvature: float

    @property
    def newton(self) -> float:
        """The Newton trial, NaN without a positive curvature."""
        return self.t - self.slope / self.curvature if self.curvature > 0.0 else math.nan


def minimize_convex(
    point: Callable[[float], Point],
    slope: float,
    curvature: float,
    *,
    accuracy: float = 0.0,
    slope_tol: float = 0.0,
) -> float:
    """The t >= 0 that minimizes ``F(t) = point(t) + slope t + curvature t^2 / 2``.

    Ends where ``|F'(t)| <= slope_tol``, where F still falls but with a slope of at most ``accuracy |F'(0)|``, or where
    the possible further decrease is at most the ``accuracy`` share of the decrease so far, or rounding.
    """

    def sample(t: float) -> _Sample:
        value, own_slope, own_curvature = point(t)
        total = value + slope * t + 0.5 * curvature * t * t
        return _Sample(t, total, own_slope + slope + curvature * t, own_curvature + curvature)

    low, high = sample(0.0), None
    last, start, width = low, low.value, math.inf
    flat = max(slope_tol, accuracy * abs(low.slope))
    for at in range(MAX_POINTS):
        if low.slope >= -flat or low.t > FARTHEST:
            return low.t
        if high is None:
            trial = _beyond(low)
        else:
            best = min(low, high, key=lambda end: end.value)
            slack = max(accuracy * (start - best.value), 1e-15 * abs(best.value))
            if _still_to_gain(low, high, curvature) <= slack:
                return best.t
            trial = _trial(low, high, last, curvature, secant=at % 2 == 0)
            if high.t - low.t > 0.9 * width:
                trial = 0.5 * (low.t + high.t)
            width = high.t - low.t
        last = sample(trial)
        left = last.slope * (last.t - low.t)  # how far F may be above its minimum, by its slope at the trial
        if abs(last.slope) <= flat and (last.slope <= slope_tol or left <= accuracy * (start - last.value)):
            return last.t
        if last.slope < 0.0:
            low = last
        else:
            high = last
    return min(low, high or low, key=lambda end: end.value).t


def _beyond(low: _Sample) -> float:
    """A trial to the right of a point where F decreases: a Newton step of limited length, else a fixed factor."""
    jump = max(1.0, 4.0 * low.t)
    return low.newton if low.t < low.newton <= 1e3 * jump else jump


def _trial(low: _Sample, high: _Sample, last: _Sample, curvature: float, *, secant: bool) -> float:
    """A trial inside the bracket: Newton's, else alternately the zero of the secant and the lower model's minimum."""
    trial = last.newton
    if not low.t < trial < high.t and secant and math.isfinite(low.slope) and math.isfinite(high.slope):
        trial = low.t - low.slope * (high.t - low.t) / (high.slope - low.slope)
    return trial if low.t < trial < high.t else _between(low, high, curvature)


def _between(low: _Sample, high: _Sample, curvature: float) -> float:
    """Where the lower model of F inside the bracket is smallest."""
    meet = _meet(low, high, curvature)
    if not low.t < meet < high.t:
        if curvature > 0.0 and math.isfinite(low.value) and math.isfinite(high.value):  # both ends on one parabola
            return min(max(low.t - low.slope / curvature, low.t), high.t)
        return low.t + (0.1 if high.value == math.inf else 0.5) * (high.t - low.t)
    from_low = low.t - low.slope / curvature if curvature > 0.0 else math.inf
    from_high = high.t - high.slope / curvature if curvature > 0.0 else -math.inf
    return min(from_low, max(from_high, meet))


def _meet(low: _Sample, high: _Sample, curvature: float) -> float:
    """Where the parabolas ``F(t_i) + F'(t_i) (t - t_i) + curvature/2 (t - t_i)^2`` of both ends intersect."""
    if not all(map(math.isfinite, (low.value, low.slope, high.value, high.slope))):
        return math.nan
    low_slope, high_slope = low.slope - curvature * low.t, high.slope - curvature * high.t
    low_rest = low.value - low.slope * low.t + 0.5 * curvature * low.t**2
    high_rest = high.value - high.slope * high.t + 0.5 * curvature * high.t**2
    return (low_rest - high_rest) / (high_slope - low_slope) if high_slope > low_slope else math.nan


def _still_to_gain(low: _Sample, high: _Sample, curvature: float) -> float:
    """How much lower than the better end of the bracket F can be."""
    if high.t - low.t <= 4e-16 * high.t:
        return 0.0
    if not (math.isfinite(low.value) and math.isfinite(high.value)):
        return math.inf
    t = _between(low, high, curvature)
    lowest = min(end.value + end.slope * (t - end.t) + 0.5 * curvature * (t - end.t) ** 2 for end in (low, high))
    return min(low.value, high.value) - lowest
