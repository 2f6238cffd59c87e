"""Sweeps for losses of one score."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from typing_extensions import override

from undercut._jit.dual_coordinate import TARGET, sweep
from undercut._jit.dual_face import lift
from undercut.regularizers import L2, ElasticNet
from undercut.risks import LinearRisk
from undercut.solvers.coordinate.descent import Descent
from undercut.solvers.coordinate.face import Face
from undercut.solvers.coordinate.pointwise_dual import PointwiseDual, pointwise_dual
from undercut.solvers.coordinate.start import End, best_start, halved
from undercut.types import FloatArray

LIFTS = 3  # sweeps that lift scores to their margins


@dataclass(eq=False, kw_only=True)
class PointwiseDescent(Descent[PointwiseDual]):
    """One number per sample, and the multiplier b of a free intercept."""

    rho: float  # of the augmented Lagrangian
    b: float = 0.0
    excess: float = math.inf  # |sum_i a_i| at the last change of the multiplier
    above: float = math.inf  # derivatives beyond these two shrink
    below: float = -math.inf
    face: Face = field(default_factory=Face)

    @override
    def settled(self) -> Self:
        if self.face.search is None:
            return self
        a, v = self.face.point(self)
        return replace(self, a=a, v=v)

    @override
    def lifted(self) -> FloatArray:
        dual = self.dual
        if not (self.face.has_begun and dual.has_margins):
            return self.v
        # where regularization is weak, margins that are missed by a little cost most of the gap
        v, target = self.v.copy(), dual.terms[:, TARGET]
        lack = target * (target - self.b - dual.risk.design.matvec(v)) > 0.0
        chosen = np.flatnonzero((lack | (self.a != 0.0)) & (np.abs(self.a) < dual.cap))
        for _ in range(LIFTS):
            lift(*dual.rows, dual.terms, chosen, self.b, v)
        return v

    @override
    def copy(self) -> Self:
        return replace(super().copy(), face=self.face.copy())

    def value(self, a: FloatArray, v: FloatArray, b: float) -> float:
        """The dual that the sweeps see, over m: with its constraint in the augmented Lagrangian."""
        value = float(self.dual.gains(a).sum()) - 0.5 * float(v @ v)
        if self.rho > 0.0:
            excess = float(a.sum())
            value -= (b - 0.5 * self.rho * excess) * excess
        return value

    @override
    def _advance(self, budget: int) -> None:
        if self.face.search is None:
            super()._advance(budget)
        else:
            self.face.go_on(self, self.face.search, budget)

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
        self.face.consider(self)

    @override
    def _restart(self) -> None:
        super()._restart()
        self.bring_back()
        if self.rho > 0.0:
            self._move_multiplier(float(self.a.sum()))

    def bring_back(self) -> None:
        """Let the next sweep visit every sample."""
        self.active, self.above, self.below = self.order.size, math.inf, -math.inf

    def _move_multiplier(self, excess: float) -> None:
        """The present b becomes the multiplier; a rho that has not halved the excess is too small."""
        if abs(excess) > 0.5 * self.excess:
            self.rho *= 2.0
        self.b += self.rho * excess
        self.excess = abs(excess)


def pointwise_descent(risk: LinearRisk, reg: L2 | ElasticNet, slopes: FloatArray) -> PointwiseDescent:
    """The sweeps for a problem that ``DualCoordinate.check`` let through, from ``weight_i u_i = -slopes_i``."""
    dual = pointwise_dual(risk, reg)
    a, z = halved(dual, np.clip(-slopes / dual.strength, dual.low, dual.high))
    return _descent(dual, a, z)


def followed_pointwise(
    risk: LinearRisk, reg: L2 | ElasticNet, last: PointwiseDescent, ends: tuple[End, End | None]
) -> PointwiseDescent:
    """The same after a run with another lambda, from the ends of the last two."""
    dual = pointwise_dual(risk, reg)
    a, z = best_start(dual, *ends)
    return replace(_descent(dual, a, z), b=last.b, face=last.face.followed())


def _descent(dual: PointwiseDual, a: FloatArray, z: FloatArray) -> PointwiseDescent:
    v = dual.kernel_vector(z)
    return PointwiseDescent(dual=dual, a=a, v=v, order=np.arange(a.size), active=a.size, rho=dual.rho)
