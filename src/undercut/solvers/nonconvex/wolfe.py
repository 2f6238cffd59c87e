"""An inexact line search of a few trials.

It looks for a t with both Wolfe conditions on ``f(t) = J(w + t direction)``,

    f(t) <= f(0) + DECREASE t f'(0),        f'(t) >= CURVATURE f'(0)

from a given first trial, by the secant of the slopes, and ends after a handful of trials whether it has found one or
not: the planes of all trials improve the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from undercut.solvers.nonconvex.local_bundle import Trial

DECREASE = 0.1
CURVATURE = 0.7
LEAST_GROWTH, MOST_GROWTH = 1.5, 10.0  # of t where f still falls steeply
MOST_CHANGE = 2.0  # of t from one search of a single trial to the next
MARGIN = 0.01  # of a bracket, at both of its ends


class Sample(NamedTuple):
    """f at one t."""

    t: float
    slope: float
    trial: Trial

    @property
    def value(self) -> float:
        return self.trial.objective


def search(sample: Callable[[float], Sample], start: Sample, first: float, max_trials: int) -> list[Sample]:
    """Samples at up to ``max_trials`` points of (0, 1], the first at ``first``; any of them may be the best."""
    low, high, samples = start, None, [sample(first if first < 1.0 - MARGIN else 1.0)]
    while len(samples) < max_trials:
        at = samples[-1]
        enough = at.value < start.value and at.value <= start.value + DECREASE * at.t * min(start.slope, 0.0)
        if enough and (at.slope >= -CURVATURE * abs(start.slope) or at.t > 1.0 - MARGIN):
            break
        if enough:
            low = at
        else:
            high = at
        samples.append(sample(_beyond(start, low) if high is None else _between(low, high)))
    return samples


def next_step(start: Sample, at: Sample) -> float:
    """The t of the next search that has one trial only: where the secant of the slopes vanishes, within a factor."""
    fall = -min(start.slope, 0.0)
    zero = at.t * fall / (at.slope + fall) if at.slope > -fall else math.inf
    return min(max(zero, at.t / MOST_CHANGE), MOST_CHANGE * at.t)


def _beyond(start: Sample, low: Sample) -> float:
    """Where the secant of the slopes vanishes to the right of ``low``, within bounds."""
    zero = low.t - low.slope * low.t / (low.slope - start.slope) if low.slope > start.slope else MOST_GROWTH * low.t
    return min(1.0, max(LEAST_GROWTH * low.t, min(zero, MOST_GROWTH * low.t)))


def _between(low: Sample, high: Sample) -> float:
    """Where the secant of the slopes vanishes between two points, or the middle where it does not."""
    width = high.t - low.t
    if not low.slope < 0.0 < high.slope:
        return low.t + 0.5 * width
    zero = low.t - low.slope * width / (high.slope - low.slope)
    return min(max(zero, low.t + MARGIN * width), high.t - MARGIN * width)
