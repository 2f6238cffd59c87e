"""Newton's method in the length t of a step and the free intercepts b at once, for smooth losses.

    F(t, b) = phi(scores + t direction + b) + slope t + curvature t^2 / 2

A search for the best b at every trial t would take several evaluations per trial.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

SHARES = (1.0, 0.5, 0.1, 0.01, 0.001)  # of a Newton step that are tried: small lambdas make steps far too long
MAX_STEPS = 12  # the quadratic phase needs three or four
ROUNDING = 1e-15  # of F, relative


class Step(NamedTuple):
    """The Newton step from a point."""

    slope: float  # in t, at the best b of the quadratic model
    dt: float
    db: Any
    gain: float  # the decrease that the quadratic model predicts


class Joint(NamedTuple):
    """F at one point; b is a number, or an array with one per class."""

    t: float
    b: Any
    value: float
    newton: Callable[[], Step]  # second derivatives are needed only where F has decreased


def newton_in_both(joint: Callable[[float, Any], Joint], b: Any, accuracy: float) -> Joint | None:
    """The minimum of F over ``t >= 0`` and b by damped Newton steps from (0, b); ``None`` if they do not get there.

    ``accuracy`` is the share of the decrease that may be left.
    """
    start = at = joint(0.0, b)
    step = start.newton()
    if step.slope >= 0.0:  # t = 0 is best, or b is far from the best one
        return None
    for _ in range(MAX_STEPS):
        if not math.isfinite(step.gain):
            return None
        if step.gain <= max(accuracy * (start.value - at.value), ROUNDING * abs(at.value)):
            return at
        better = _better(joint, at, step)
        if better is None:
            return None
        at, step = better, better.newton()
    return None


def _better(joint: Callable[[float, Any], Joint], at: Joint, step: Step) -> Joint | None:
    """A point along the Newton step where F is smaller by enough."""
    for share in SHARES:
        t = at.t + share * step.dt
        if t >= 0.0:
            trial = joint(t, at.b + share * step.db)
            if trial.value < at.value - 1e-4 * share * step.gain:
                return trial
    return None
