"""Sweeps over the samples of a dual problem, with shrinking (Hsieh et al. 2008, Alg. 3).

A sample that a sweep finds stuck at an end of its interval, by more than the largest move of the sweep before, is left
out of the next ones.  Where the derivatives of the others are below a tolerance every sample comes back, and the
tolerance is lowered: no decision is final.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from undercut._jit.dual_coordinate import shuffle, sweep
from undercut.solvers.coordinate.face import Face
from undercut.solvers.coordinate.pointwise_dual import PointwiseDual
from undercut.types import Array, FloatArray

LOWER = 0.3  # the tolerance is multiplied by this when it is met


@dataclass(eq=False)
class Descent:
    """A point of the dual and how far the sweeps over it have come."""

    a: FloatArray
    v: FloatArray  # center + X' a, as the sweeps keep it
    order: Array  # the samples; the active ones come first
    active: int
    b: float = 0.0
    work: int = 0  # entries of X used
    sweeps: int = 0
    position: int = 0  # of the next sample in ``order``
    above: float = math.inf  # derivatives beyond these two shrink
    below: float = -math.inf
    most: float = 0.0  # derivatives that the present sweep could use
    least: float = 0.0
    tolerance: float = math.inf
    face: Face = field(default_factory=Face)

    def copy(self) -> Descent:
        """The same state in arrays of its own."""
        arrays = {name: getattr(self, name).copy() for name in ("a", "v", "order")}
        return replace(self, **arrays, face=replace(self.face))

    def run(self, dual: PointwiseDual, budget: int) -> None:
        """Sweep until the work exceeds ``budget``."""
        end = self.work + budget
        while self.work < end:
            if self.position == 0:
                shuffle(self.order, self.active, self.sweeps)
            self._sweep(dual, end - self.work)
            if self.position >= self.active:
                self._end_sweep(dual)
                self.face.improve(dual, self)

    def _sweep(self, dual: PointwiseDual, budget: int) -> None:
        self.position, self.active, self.b, most, least, work = sweep(
            *dual.rows, dual.terms, dual.zone, dual.logistic, dual.threshold, dual.rho,
            self.order, self.position, self.active, self.above, self.below, budget, self.a, self.v, self.b,
        )  # fmt: skip
        self.most, self.least = max(self.most, most), min(self.least, least)
        self.work += work + 1  # a sweep over no sample counts too

    def _end_sweep(self, dual: PointwiseDual) -> None:
        spread = self.most - self.least
        if self.sweeps == 0:
            self.tolerance = LOWER * spread
        self.above = self.most if self.most > 0.0 else math.inf
        self.below = self.least if self.least < 0.0 else -math.inf
        if spread <= self.tolerance:
            self._restart(dual)
        self.sweeps += 1
        self.position, self.most, self.least = 0, 0.0, 0.0

    def _restart(self, dual: PointwiseDual) -> None:
        """Bring every sample back, ask for more, and let a free intercept be the multiplier that it has become."""
        self.tolerance *= LOWER
        self.active, self.above, self.below = self.order.size, math.inf, -math.inf
        self.b += dual.rho * float(np.sum(self.a))
