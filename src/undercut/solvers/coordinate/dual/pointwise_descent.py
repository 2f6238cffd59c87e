"""Sweeps for losses of one score, and conjugate gradients for the variables strictly inside their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from typing_extensions import override

from undercut._jit.dual_coordinate import RIDGE, TARGET, select, sweep
from undercut._jit.dual_face import add_rows, face_residual, face_steps, lift
from undercut.regularizers import L2, ElasticNet
from undercut.risks import LinearRisk
from undercut.solvers.coordinate.dual.descent import row_work
from undercut.solvers.coordinate.dual.face import ACCURACY, MOST, FacedDescent, Pace, Point, Search
from undercut.solvers.coordinate.dual.pointwise_dual import PointwiseDual, pointwise_dual
from undercut.solvers.coordinate.dual.start import End, best_start, halved
from undercut.types import Array, FloatArray

ROUND = 0.1  # of the residual: then variables that left their intervals are fixed
RELEASES = 1  # in one attempt
CONSTRAINED = 0.3  # share of the gap: where samples could gain less, the multiplier moves ...
NOTHING = 1e-6  # ... or for the logistic loss have gained less
LIFTS = 3  # sweeps that lift scores to their margins
UNLIFTED = 15  # passes before the first of them: easy problems are solved by then
SMOOTH_SURPLUS = 30.0  # ``SURPLUS`` of smooth losses
SHORT = 0.005  # share of the slopes at w = 0 that is left at the start, below which zero is a better start


@dataclass(frozen=True, eq=False, kw_only=True)
class PointwiseSearch(Search):
    """Over some samples; those that leave their intervals are fixed at the end, and the others go on."""

    whole: Array  # the samples strictly inside their intervals at the beginning
    samples: Array  # those of them that are not fixed
    a: FloatArray  # where the present round began
    v: FloatArray
    until: float  # squared residual at which it ends
    released: int = 0  # how often fixed variables were set free again

    def is_over(self, last: PointwiseSearch) -> bool:
        """Whether the samples are those of the last round, and the residual is small or the steps are used up."""
        if not np.array_equal(self.samples, last.samples):
            return self.left <= -MOST or self.samples.size == 0
        return self.left <= 0 or float(self.residual @ self.residual) <= self.goal


@dataclass(eq=False, kw_only=True)
class PointwiseDescent(FacedDescent[PointwiseDual]):
    """One number per sample, and the multiplier b of a free intercept."""

    pace = Pace(first=15, sweeps=7, longest_wait=160, fewest=20)
    closer = 0.3

    rho: float  # of the augmented Lagrangian
    b: float = 0.0
    excess: float = math.inf  # |sum_i a_i| at the last change of the multiplier ...
    moved: int = -1  # ... and the work until then
    at_zero: float = math.inf  # a sample stuck at zero, or at the other end of its interval, by a steeper derivative
    at_end: float = math.inf  # ... is left out
    lowest: float = math.inf  # estimate of the gap when it was last halved ...
    halved: int = 0  # ... and the work until then

    @property
    @override
    def surplus(self) -> float:
        return super().surplus if self.dual.has_kinks else SMOOTH_SURPLUS

    @property
    @override
    def has_face(self) -> bool:
        return self.dual.is_quadratic

    @override
    def is_hard(self, first: float) -> bool:
        """Whether the sweeps have not halved the gap for ``first`` passes; what was hard once remains so.

        Squares, whose faces are found sooner, are hard after ``first`` passes.
        """
        since = 0 if self.dual.has_squares else self.halved
        return self.face.has_begun or self.work - since >= first * self.dual.pass_work

    @override
    def value(self) -> float:
        return self._point(self.a, self.v, self.b).value

    @override
    def search(self, steps: int) -> PointwiseSearch | None:
        dual = self.dual
        samples = _inside(dual, self.a)
        if samples.size == 0:
            return None
        residual = self._residual(samples, self.a, self.v)
        size = float(residual @ residual)
        return PointwiseSearch(
            whole=samples, samples=samples, a=self.a, v=self.v, change=np.zeros(samples.size), residual=residual,
            direction=residual.copy(), product=row_work(dual.rows, samples), until=ROUND**2 * size,
            goal=ACCURACY**2 * size, left=steps, began=self.work,
        )  # fmt: skip

    def _residual(self, samples: Array, a: FloatArray, v: FloatArray) -> FloatArray:
        """The derivatives of the dual for some samples, at any point."""
        residual, b = np.empty(samples.size), self.b + self.rho * float((a - self.a).sum())
        face_residual(*self.dual.rows, self.dual.terms, self.dual.zone, samples, a, v, b, residual)
        return residual

    @override
    def follow(self, search: Search, max_steps: int) -> tuple[int, bool]:
        assert isinstance(search, PointwiseSearch)
        dual, vectors = self.dual, (search.change, search.residual, search.direction)
        taken, ends = face_steps(
            *dual.rows, dual.terms, self.rho, search.samples, *vectors, np.empty_like(self.v), search.until, max_steps
        )
        return int(taken), bool(ends)

    @override
    def trial(self, search: Search, share: float) -> Point:
        assert isinstance(search, PointwiseSearch)
        samples, last = search.samples, search.a[search.samples]
        low, high = _interval(self.dual, self.a, samples)
        a, v = search.a.copy(), search.v.copy()
        a[samples] = np.clip(last + share * search.change, low, high)
        add_rows(*self.dual.rows, samples, a[samples] - last, v)
        return self._point(a, v, self.b + self.rho * float((a - self.a).sum()))

    @override
    def renewed(self, search: Search) -> tuple[Search, bool]:
        """Variables that have left their intervals are fixed; without any, those are released that point inside."""
        assert isinstance(search, PointwiseSearch)
        whole, point = search.whole, self.trial(search, 1.0)
        low, high = _interval(self.dual, self.a, whole)
        residual, a = self._residual(whole, point.a, point.v), point.a[whole]
        free, released = (low < a) & (a < high), search.released
        if int(free.sum()) == search.samples.size and released < RELEASES:
            released += 1
            free |= ((a <= low) & (residual > self.dual.zone)) | ((a >= high) & (residual < -self.dual.zone))
        samples, residual = whole[free], residual[free]
        product = row_work(self.dual.rows, samples)
        self.work += search.product
        new = replace(
            search, samples=samples, a=point.a, v=point.v, change=np.zeros(samples.size), residual=residual,
            direction=residual.copy(), until=max(ROUND**2 * float(residual @ residual), 0.5 * search.goal),
            released=released, product=max(product, 1),
        )  # fmt: skip
        return new, new.is_over(search)

    @override
    def move(self, search: Search, value: float) -> tuple[float, float]:
        """The end is feasible, and so is all of the way to it, along which the dual is a parabola."""
        assert isinstance(search, PointwiseSearch)
        dual, moved, turned = self.dual, search.a - self.a, search.v - self.v
        total, ridge = float(moved.sum()), dual.terms[:, RIDGE]
        slope = float((dual.terms[:, TARGET] - ridge * self.a - dual.zone * np.sign(self.a)) @ moved)
        slope -= float(turned @ self.v) + self.b * total
        curvature = float(turned @ turned) + float(ridge @ moved**2) + self.rho * total**2
        share = 1.0 if slope >= curvature else max(slope, 0.0) / curvature
        a = search.a if share == 1.0 else self.a + share * moved
        point = self._point(a, self.v + share * turned, self.b + share * self.rho * total)
        if not point.value > value:
            return 0.0, 0.0
        self.take(point)
        return point.value - value, share

    @override
    def settle(self, search: Search) -> None:
        """Samples that were left out may have to join the next face."""
        self.is_ripe = True

    @override
    def lifted(self, scores: FloatArray) -> FloatArray:
        dual = self.dual
        if self.work < UNLIFTED * dual.pass_work or not dual.has_margins:
            return self.v
        # where regularization is weak, margins that are missed by a little cost most of the gap
        v, target = self.v.copy(), dual.terms[:, TARGET]
        lack = target * (target - self.b - scores) > 0.0
        chosen = np.flatnonzero((lack | (self.a != 0.0)) & (np.abs(self.a) < dual.cap))
        for _ in range(LIFTS):
            lift(*dual.rows, dual.terms, chosen, self.b, v)
        return v

    @override
    def take(self, point: Point) -> None:
        _, self.a, self.v, self.b = point

    def _point(self, a: FloatArray, v: FloatArray, b: float) -> Point:
        """The dual has its constraint in the augmented Lagrangian."""
        soft = self.dual.soft(v)
        value = float(self.dual.gains(a).sum()) - 0.5 * float(soft @ soft)
        if self.rho > 0.0:
            excess = float(a.sum())
            value -= (b - 0.5 * self.rho * excess) * excess
        return Point(value, a, v, b)

    @override
    def _sweep(self, budget: int) -> int:
        dual = self.dual
        self.position, self.active, self.b, most, least, gain, work = sweep(
            *dual.rows, dual.terms, dual.zone, dual.logistic, dual.threshold, self.rho,
            self.order, self.position, self.active, self.at_zero, self.at_end, budget, self.a, self.v, self.b,
        )  # fmt: skip
        self.most, self.least = max(self.most, most), min(self.least, least)
        self.gain += gain
        return int(work)

    @override
    def _end_sweep(self) -> None:
        self.at_zero = -self.least if self.least < 0.0 else math.inf
        self.at_end = self.most if self.most > 0.0 else math.inf
        if self.gain <= 0.5 * self.lowest:
            self.lowest, self.halved = self.gain, self.work
        super()._end_sweep()

    @override
    def _restart(self) -> None:
        if 2 * self.active < self.order.size:
            self.is_ripe = True  # a certificate, which costs half a sweep over all samples, tells who is to come back
        else:
            super()._restart()
            self.at_zero = self.at_end = math.inf
        if self.rho > 0.0:
            self._move_multiplier(float(self.a.sum()))

    @override
    def look_around(self, scores: FloatArray, gap: float) -> float:
        is_logistic = self.dual.logistic  # then the estimate is what the last sweep has gained, which may be far less
        gain = super().look_around(scores, gap) if is_logistic else self._selected(scores)
        if self.rho > 0.0 and gain < (NOTHING if is_logistic else CONSTRAINED) * gap:
            self._move_multiplier(float(self.a.sum()))  # the rest of the gap is that of the constraint
        return gain if is_logistic else max(gain, gap)

    def _selected(self, scores: FloatArray) -> float:
        """What all samples could gain; those that are not stuck come back."""
        limits = self.at_zero, self.at_end
        self.active, gain = select(scores, self.b, self.dual.terms, self.dual.zone, *limits, self.a, self.order)
        if self.position > 0:
            self.begin_sweep()
            self.gain = 0.0
        return float(gain)

    def _move_multiplier(self, excess: float) -> None:
        """The present b becomes the multiplier; a rho that has not halved the excess is too small."""
        if self.work == self.moved:  # no sweep has shown what the last move does
            return
        self.moved = self.work
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
    longest = np.clip(-slopes / dual.strength, dual.low, dual.high)
    a, z = halved(dual, longest)
    if _tells_nothing(dual, longest) and np.abs(a).max() < SHORT * np.abs(longest).max():
        a, z = np.zeros_like(a), np.zeros_like(z)  # samples that meet their margin stay there, and cost no update
    return _descent(dual, a, z)


def _tells_nothing(dual: PointwiseDual, a: FloatArray) -> bool:
    """Whether all samples miss their margin, as they do at w = 0."""
    return dual.has_margins and np.array_equal(a, dual.low + dual.high)


def followed_pointwise(
    risk: LinearRisk, reg: L2 | ElasticNet, last: PointwiseDescent, ends: tuple[End, End | None]
) -> PointwiseDescent:
    """The same after a run with another lambda, from the ends of the last two."""
    dual = pointwise_dual(risk, reg)
    return replace(_descent(dual, *best_start(dual, *ends)), b=last.b, face=last.face.followed())


def _descent(dual: PointwiseDual, a: FloatArray, z: FloatArray) -> PointwiseDescent:
    v = dual.kernel_vector(z)
    return PointwiseDescent(dual=dual, a=a, v=v, order=np.arange(a.size), active=a.size, rho=dual.rho)
