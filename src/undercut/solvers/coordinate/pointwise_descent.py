"""Sweeps for losses of one score, and conjugate gradients for the variables strictly inside their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from undercut._jit.dual_coordinate import sweep
from undercut._jit.dual_face import add_rows, face_residual, face_steps
from undercut.regularizers import L2, ElasticNet
from undercut.risks import LinearRisk
from undercut.solvers.coordinate.descent import row_work
from undercut.solvers.coordinate.face import ACCURACY, FacedDescent, Pace, Point, Search
from undercut.solvers.coordinate.pointwise_dual import PointwiseDual, pointwise_dual
from undercut.solvers.coordinate.start import halved
from undercut.types import Array, FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class PointwiseSearch(Search):
    """Over some samples."""

    samples: Array


@dataclass(eq=False, kw_only=True)
class PointwiseDescent(FacedDescent[PointwiseDual]):
    """One number per sample, and the multiplier b of a free intercept."""

    pace = Pace(first=15, sweeps=10, longest_wait=160, fewest=10)

    rho: float  # of the augmented Lagrangian
    b: float = 0.0
    excess: float = math.inf  # |sum_i a_i| at the last change of the multiplier
    above: float = math.inf  # derivatives beyond these two shrink
    below: float = -math.inf

    @property
    @override
    def has_face(self) -> bool:
        return self.dual.is_quadratic

    @override
    def value(self) -> float:
        return self._point(self.a, self.v, self.b).value

    @override
    def search(self, steps: int) -> PointwiseSearch | None:
        dual = self.dual
        samples = _inside(dual, self.a)
        if samples.size == 0:
            return None
        residual = np.empty(samples.size)
        face_residual(*dual.rows, dual.terms, dual.zone, samples, self.a, self.v, self.b, residual)
        return PointwiseSearch(
            samples=samples, change=np.zeros(samples.size), residual=residual, direction=residual.copy(),
            product=row_work(dual.rows, samples), goal=ACCURACY**2 * float(residual @ residual), left=steps,
            began=self.work,
        )  # fmt: skip

    @override
    def follow(self, search: Search, max_steps: int) -> tuple[int, bool]:
        assert isinstance(search, PointwiseSearch)
        dual, vectors = self.dual, (search.change, search.residual, search.direction)
        taken, ends = face_steps(
            *dual.rows, dual.terms, self.rho, search.samples, *vectors, np.empty_like(self.v), search.goal, max_steps
        )
        return int(taken), bool(ends)

    @override
    def trial(self, search: Search, share: float) -> Point:
        assert isinstance(search, PointwiseSearch)
        dual, samples = self.dual, search.samples
        low, high = _interval(dual, self.a, samples)
        moved = np.clip(self.a[samples] + share * search.change, low, high) - self.a[samples]
        a, v = self.a.copy(), self.v.copy()
        a[samples] += moved
        add_rows(*dual.rows, samples, moved, v)
        return self._point(a, v, self.b + self.rho * float(moved.sum()))

    @override
    def take(self, point: Point) -> None:
        _, self.a, self.v, self.b = point

    def _point(self, a: FloatArray, v: FloatArray, b: float) -> Point:
        """The dual has its constraint in the augmented Lagrangian."""
        value = float(self.dual.gains(a).sum()) - 0.5 * float(v @ v)
        if self.rho > 0.0:
            excess = float(a.sum())
            value -= (b - 0.5 * self.rho * excess) * excess
        return Point(value, a, v, b)

    @override
    def _sweep(self, budget: int) -> int:
        dual = self.dual
        self.position, self.active, self.b, most, least, work = sweep(
            *dual.rows, dual.terms, dual.zone, dual.logistic, dual.threshold, self.rho,
            self.order, self.position, self.active, self.above, self.below, budget, self.a, self.v, self.b,
        )  # fmt: skip
        self.most, self.least = max(self.most, most), min(self.least, least)
        return int(work)

    @override
    def _end_sweep(self) -> None:
        self.above = self.most if self.most > 0.0 else math.inf
        self.below = self.least if self.least < 0.0 else -math.inf
        super()._end_sweep()

    @override
    def _restart(self) -> None:
        super()._restart()
        self.above, self.below = math.inf, -math.inf
        if self.rho > 0.0:
            self._move_multiplier(float(self.a.sum()))

    def _move_multiplier(self, excess: float) -> None:
        """The present b becomes the multiplier; a rho that has not halved the excess is too small."""
        if abs(excess) > 0.5 * self.excess:
            self.rho *= 2.0
        self.b += self.rho * excess
        self.excess = abs(excess)


def _inside(dual: PointwiseDual, a: FloatArray) -> Array:
    """The samples strictly inside their intervals, and not at the kink at zero."""
    inside = (a > dual.low) & (a < dual.high)
    return np.flatnonzero(inside & (a != 0.0) if dual.zone > 0.0 else inside)


def _interval(dual: PointwiseDual, a: FloatArray, samples: Array) -> tuple[FloatArray, FloatArray]:
    """The intervals of some samples, ended at zero where the dual has a kink there."""
    low, high = dual.low[samples], dual.high[samples]
    if dual.zone > 0.0:
        return np.where(a[samples] > 0.0, 0.0, low), np.where(a[samples] < 0.0, 0.0, high)
    return low, high


def pointwise_descent(risk: LinearRisk, reg: L2 | ElasticNet, slopes: FloatArray) -> PointwiseDescent:
    """The sweeps for a problem that ``DualCoordinate.check`` let through, from ``weight_i u_i = -slopes_i``."""
    dual = pointwise_dual(risk, reg)
    a, z = halved(dual, np.clip(-slopes / dual.strength, dual.low, dual.high))
    v = dual.kernel_vector(z)
    return PointwiseDescent(dual=dual, a=a, v=v, order=np.arange(a.size), active=a.size, rho=dual.rho)
