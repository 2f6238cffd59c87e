"""Where a piecewise-linear convex function that is spread over shards has its minimum, in a few rounds.

    s(x) = slope + curvature x + sum_{kinks <= x} rises        over the kinks of all shards

In each round every shard adds up its kinks below many trial points at once, and the interval where s crosses zero
shrinks to the one between two neighbours.  When it holds few kinks they are gathered, and the crossing is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from undercut._jit.crossing import crossing
from undercut.types import FloatArray

TRIALS = 64  # points per round and shard: three numbers each
GATHERED = 2048  # kinks that may be gathered, 16 bytes each
FIRST = 2.0 ** np.linspace(-24.0, 12.0, TRIALS)  # where the first round looks


class Found(NamedTuple):
    """Where s crosses zero, and what is known there."""

    at: float
    value: float  # of the sum over shards, without the slope and curvature that were given
    below: float  # s just before
    tied: float  # the rise at this very point


class Search:
    """A search over one axis; ``sums(points)`` and ``inside(low, high)`` ask the shards."""

    def __init__(
        self,
        sums: Callable[[FloatArray], tuple[Any, ...]],
        inside: Callable[[float, float], tuple[Any, ...]],
        slope: float,
        curvature: float,
    ) -> None:
        self._sums, self._inside, self.slope, self.curvature = sums, inside, slope, curvature

    def first(self, points: FloatArray, low: float) -> Found:
        """The first x >= low where s(x) >= 0, from the first trial points; the last kink if there is none."""
        while True:
            own, rises, counts = self._sums(points)
            start = self.slope + own
            if math.isfinite(low) and points[0] > low and start + self.curvature * low >= 0.0:
                return Found(low, self._inside(low, low)[2], start + self.curvature * low, 0.0)
            beyond = start + self.curvature * points + rises[:-1] >= 0.0
            at = int(beyond.argmax()) if beyond.any() else points.size
            at = max(at, int(points[0] == low))  # s(low) < 0 is known, whatever rounding makes of it now
            high = float(points[at]) if at < points.size else math.inf
            below, passed = (float(rises[at - 1]), counts[at - 1]) if at else (0.0, 0)
            low = float(points[at - 1]) if at else low
            if counts[at] - passed <= GATHERED or _is_empty(low, high):
                return self._exact(low, high, start + below)
            points = _between(low, high)

    def _exact(self, low: float, high: float, below: float) -> Found:
        """The crossing among the kinks in ``(low, high]``; ``below`` is s at low without its curvature."""
        kinks, rises, value = self._inside(low, high)
        kinks, rises = np.concatenate(kinks), np.concatenate(rises)
        at = min(crossing(kinks.copy(), rises.copy(), below, self.curvature, low), high)
        if not math.isfinite(at):  # s is zero beyond the outermost kink, or rounding makes it look so
            ends = (kinks.min(), kinks.max()) if kinks.size else (high, low)
            at = ends[int(at > 0.0)]
        passed, tied = kinks < at, float(rises[kinks == at].sum())
        risen = float((rises * (at - kinks))[passed].sum())
        value = value + (below - self.slope) * (at - low) + risen if math.isfinite(low) else math.nan
        return Found(float(at), float(value), below + self.curvature * at + float(rises[passed].sum()), tied)


def _is_empty(low: float, high: float) -> bool:
    """Whether no number lies between these."""
    return math.isfinite(low) and math.isfinite(high) and not low < 0.5 * (low + high) < high


def _between(low: float, high: float) -> FloatArray:
    """Trial points from one end of an interval to the other, ever farther apart where it has only one."""
    if math.isfinite(low) and math.isfinite(high):
        return np.linspace(low, high, TRIALS)
    reach = np.concatenate([[0.0], 2.0 ** np.arange(1.0, TRIALS)])
    return low + (abs(low) + 1.0) * reach if math.isfinite(low) else (high - (abs(high) + 1.0) * reach)[::-1]


def around(center: float, scale: float) -> FloatArray:
    """Trial points on both sides of a guess, ever farther away."""
    steps = scale * 2.0 ** np.linspace(-20.0, 12.0, TRIALS // 2)
    return np.concatenate([center - steps[::-1], center + steps])
