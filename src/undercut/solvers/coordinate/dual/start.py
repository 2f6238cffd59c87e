"""Where a dual method starts: from the slopes at a w0, or from the ends of runs with other lambdas.

With ``w = X' a`` the optimal a is piecewise linear in 1 / lam for kinked losses, and smooth in log lam for smooth ones.
So the secant through the ends of two runs predicts the next one; variables at an end of their interval move with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from undercut.types import Array, FloatArray

HALVINGS = 60


@dataclass(frozen=True, eq=False)
class End:
    """The dual point of a run that has ended, and the strong convexity m of its regularizer."""

    strength: float
    a: FloatArray
    at_end: Array  # variables at an end of their interval, whose length is proportional to 1 / m


class Scalable(Protocol):
    """A concave dual whose domain contains zero and, with a point, all shorter ones."""

    @property
    def strength(self) -> float:
        """m."""

    def inside(self, a: FloatArray) -> FloatArray:
        """A feasible point near a."""

    def at_end(self, a: FloatArray) -> Array:
        """Which variables are at an end of their interval; of the shape of a, or one that is broadcast to it."""

    def products(self, a: FloatArray) -> FloatArray:
        """``z = X' a``."""

    def value(self, a: FloatArray, z: FloatArray) -> float:
        """The dual at a, given ``z = X' a``."""

    def on_ray(self, a: FloatArray, z: FloatArray) -> Callable[[float], float]:
        """The dual at multiples of a."""


def halved(dual: Scalable, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """a and ``X' a``, shortened as long as the dual grows: the slopes at a poor w0 are too long by far."""
    z = dual.products(a)
    value_at = dual.on_ray(a, z)
    best, share = value_at(1.0), 1.0
    for _ in range(HALVINGS):
        half = value_at(0.5 * share)
        if not half > best:
            break
        top = share * _top(half, best)
        best, share = half, 0.5 * share
        if 0.0 < top < share and (value := value_at(top)) > best:
            best, share = value, top
    return (share * a, share * z) if np.isfinite(best) else (np.zeros_like(a), np.zeros_like(z))


def _top(half: float, whole: float) -> float:
    """Where the parabola through zero at 0 and two values at 1/2 and 1 is largest; 0 where it has no top."""
    bend = 4.0 * half - 2.0 * whole
    return 0.5 * (whole + bend) / bend if 0.0 < bend < math.inf else 0.0


def best_start(dual: Scalable, last: End, before: End | None) -> tuple[FloatArray, FloatArray]:
    """The best a and ``X' a`` that the ends of runs with other lambdas suggest."""
    points = [dual.inside(a) for a in _continued(dual.strength, last, before)]
    scaled = halved(dual, dual.inside(last.a * (last.strength / dual.strength)))
    starts = [scaled, *((a, dual.products(a)) for a in points)]
    return max(starts, key=lambda start: dual.value(*start))


def _continued(strength: float, last: End, before: End | None) -> Iterator[FloatArray]:
    """The same w; the ends moved; and the secant through the ends of two runs, in 1 / m and in log m."""
    ratio = last.strength / strength
    moved = np.where(last.at_end, ratio, 1.0) * last.a
    yield last.a
    yield moved
    if before is None or before.strength == last.strength:
        return
    earlier = before.strength / last.strength
    for step in ((ratio - 1.0) / (1.0 - 1.0 / earlier), math.log(ratio) / math.log(earlier)):
        yield np.where(last.at_end, moved, last.a + step * (last.a - before.a))
