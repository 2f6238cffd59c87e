"""The dual of ``m/2 |w|^2 + l1 |w|_1 + sum_i weight_i l(y_i, <w, x_i>)`` (m > 0; a center and weights of L2 likewise).

Every u_i in the interval of the loss's conjugate proves a lower bound; with ``a_i = weight_i u_i / m``

    D(a)  =  - reg*(m X' a) - sum_i weight_i l*(-u_i)

and a free intercept adds the constraint ``sum_i a_i = 0``.  It is the multiplier of that constraint, found by the
augmented Lagrangian method: b is added to all scores, every move of a coordinate moves it by ``rho`` times as much, and
where a is optimal for the present multiplier the next one is ``b + rho sum_i a_i``.  A bound is taken at the nearby
point that meets the constraint.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from scipy.special import entr

from undercut._jit.dual_coordinate import (
    CURVATURE,
    HIGH,
    LOW,
    N_TERMS,
    RIDGE,
    ROW_COST,
    TARGET,
    squared_norms,
)
from undercut.contracts import Regularizer, Rows, StoredDesign
from undercut.regularizers import L2, ElasticNet
from undercut.risks import LinearRisk
from undercut.solvers.bounds import ROUNDING
from undercut.solvers.coordinate.dual.conjugates import Conjugate, conjugate_of
from undercut.types import Array, FloatArray

MAX_SHIFTS = 20  # attempts to meet the constraint by the variables inside their intervals
FIRST_RHO = 0.3  # of the mean squared length of a row: larger ones shorten the moves, smaller ones slow the multiplier
SHORT_ROWS = 1e-4  # smallest rho, in units of m times the mean deviation of the targets
SMALLEST = 1e-300  # stands for the curvature of an empty row


@dataclass(frozen=True, eq=False)
class PointwiseDual:
    """The constants of one dual problem; no method changes it.

    ``terms`` : float64 array (n_samples, 5), in units of a: target, low, high, ridge, curvature.
    """

    risk: LinearRisk
    reg: Regularizer
    rows: Rows
    terms: FloatArray
    cap: FloatArray  # weight / m: how much of a is one unit of u
    strength: float  # m
    threshold: float  # l1 / m
    metric: FloatArray | float  # the kernel's v is metric * w
    zone: float
    logistic: bool
    rho: float  # at the start; 0 without a free intercept
    reach: float  # of v: ``1/2 |v|^2 <= 1/m sum_i weight_i l(y_i, 0)`` where the dual is not negative

    @cached_property
    def pass_work(self) -> int:
        return int(self.rows.values.size + ROW_COST * self.cap.size)

    @cached_property
    def is_quadratic(self) -> bool:
        """Whether the dual is a quadratic inside the intervals."""
        return not self.logistic and self.threshold == 0.0

    @cached_property
    def has_kinks(self) -> bool:
        """Whether the loss has kinks."""
        return not (self.logistic or self.has_squares)

    @cached_property
    def has_squares(self) -> bool:
        """Whether the conjugate of the loss has a square."""
        return bool(self.terms[:, RIDGE].any())

    @cached_property
    def has_margins(self) -> bool:
        """Whether the loss is zero beyond a margin and steep before it, and w a multiple of v."""
        one_sided = bool(((self.low == 0.0) | (self.high == 0.0)).all())
        return one_sided and self.is_quadratic and not self.has_squares and isinstance(self.metric, float)

    @property
    def low(self) -> FloatArray:
        return self.terms[:, LOW]

    @property
    def high(self) -> FloatArray:
        return self.terms[:, HIGH]

    def settled(self, a: FloatArray) -> FloatArray:
        """a itself: the sweeps keep it in its intervals."""
        return a

    def inside(self, a: FloatArray) -> FloatArray:
        a = np.clip(a, self.low, self.high)
        return self.feasible(a) if self.risk.fit_intercept else a

    def at_end(self, a: FloatArray) -> Array:
        return (a <= self.low) | (a >= self.high)

    def products(self, a: FloatArray) -> FloatArray:
        return self.risk.design.rmatvec(a)

    def kernel_vector(self, z: FloatArray) -> FloatArray:
        """``v = metric (center + z / metric^2)`` for ``z = X' a``."""
        v: FloatArray = z / self.metric
        center = self.reg.center if isinstance(self.reg, L2) else None
        return v if center is None else v + center * self.metric

    def primal(self, v: FloatArray) -> FloatArray:
        w: FloatArray = self.soft(v) / self.metric
        return w

    def scores(self, v: FloatArray) -> FloatArray:
        return self.risk.design.matvec(self.primal(v))

    def soft(self, v: FloatArray) -> FloatArray:
        """v, shortened by the threshold of the L1 part; v itself where there is none."""
        return v - np.clip(v, -self.threshold, self.threshold) if self.threshold > 0.0 else v

    def gains(self, a: FloatArray) -> FloatArray:
        """``-l*(-u_i) weight_i / m``."""
        if self.logistic:
            share = np.divide(np.abs(a), self.cap, out=np.zeros_like(a), where=self.cap > 0.0)
            return np.asarray(self.cap * (entr(share) + entr(np.maximum(0.0, 1.0 - share))))
        gains: FloatArray = a * self.terms[:, TARGET]
        if self.has_squares:
            gains -= 0.5 * self.terms[:, RIDGE] * a**2
        if self.zone > 0.0:
            gains -= self.zone * np.abs(a)
        return gains

    def value(self, a: FloatArray, z: FloatArray) -> float:
        """``D(a)``, given ``z = X' a``."""
        return self.strength * float(self.gains(a).sum()) - self._penalty(z)

    def _penalty(self, z: FloatArray) -> float:
        """``reg*(m z)``."""
        return 0.5 * self.strength * float(z @ z) if self._is_plain else self.reg.conjugate(self.strength * z)

    @property
    def _is_plain(self) -> bool:
        """Whether the penalty is ``m/2 |w|^2``: then ``z = w``, and fewer vectors of its length are needed."""
        return isinstance(self.reg, L2) and self.reg.center is None and self.reg.weights is None

    def on_ray(self, a: FloatArray, z: FloatArray) -> Callable[[float], float]:
        """``D(t a)`` as a function of t, given ``z = X' a``."""
        if not self._is_plain or self.logistic:
            return lambda t: self.value(t * a, t * z)
        squares = 0.5 * self.strength * float(self.terms[:, RIDGE] @ a**2) if self.has_squares else 0.0
        rise = self.strength * float(self.gains(a).sum()) + squares
        bend = squares + self._penalty(z)
        return lambda t: t * rise - t * t * bend

    def bound(self, a: FloatArray, z: FloatArray, drift: float) -> float:
        if self.risk.fit_intercept:
            a = self.feasible(a)
            z = self.products(a)
        gains, length = self.gains(a), float(np.linalg.norm(z))
        w = z if self._is_plain else self.reg.conjugate_argmax(self.strength * z)
        squares = length * float(np.linalg.norm(w))
        rounding = ROUNDING * (float(np.abs(gains).sum()) + squares) + drift * (length + drift)
        return self.strength * (float(gains.sum()) - rounding) - self._penalty(z)

    def feasible(self, a: FloatArray) -> FloatArray:
        """a with its sum made zero: first by the variables inside their intervals, which costs D least."""
        for _ in range(MAX_SHIFTS):
            excess = float(a.sum())
            room = self._room(a)
            total = float(room.sum())
            if excess == 0.0 or not 0.0 < total < np.inf:
                break
            a = np.clip(a - room * (excess / total), self.low, self.high)
        return _cancelled(a)

    def _room(self, a: FloatArray) -> FloatArray:
        ridge = self.terms[:, RIDGE]
        room = np.minimum(a - self.low, self.high - a)
        return np.minimum(room, np.divide(1.0, ridge, out=np.full_like(a, np.inf), where=ridge > 0.0))


def _cancelled(a: FloatArray) -> FloatArray:
    """a with the heavier sign scaled down to the weight of the other; zero is in every interval."""
    positive, negative = float(a[a > 0.0].sum()), -float(a[a < 0.0].sum())
    least, most = min(positive, negative), max(positive, negative)
    if most > least:
        a = np.where(a > 0.0 if positive > negative else a < 0.0, a * (least / most), a)
    return a


def pointwise_dual(risk: LinearRisk, reg: L2 | ElasticNet) -> PointwiseDual:
    """The dual of a problem that ``DualCoordinate.check`` let through."""
    conjugate = conjugate_of(risk.loss, risk.y)
    strength, l1 = reg.strong_convexity, 0.0
    metric: FloatArray | float = 1.0
    if isinstance(reg, ElasticNet):
        l1 = float(reg.terms.l1)
    elif reg.weights is not None:
        strength, metric = reg.lam, reg.weights
    rows = _scaled(cast(StoredDesign, risk.design).rows(), metric)
    squares = np.empty(risk.n_samples)
    squared_norms(*rows, squares)
    cap = risk.weight / strength
    terms = _terms(conjugate, cap, squares)
    rho = _first_rho(risk, strength, terms, squares) if risk.fit_intercept else 0.0
    return PointwiseDual(
        risk, reg, rows, terms, cap, strength, l1 / strength, metric, conjugate.zone, conjugate.logistic, rho,
        _reach(risk, reg),
    )  # fmt: skip


def _first_rho(risk: LinearRisk, strength: float, terms: FloatArray, squares: FloatArray) -> float:
    """A multiple of the squared lengths; where rows are short or empty, what moves b from one target to another."""
    target = terms[:, TARGET]
    spread = float(risk.weight @ np.abs(target - risk.weight @ target))
    return max(FIRST_RHO * float(risk.weight @ squares), SHORT_ROWS * strength * spread, SMALLEST)


def _reach(risk: LinearRisk, reg: L2 | ElasticNet) -> float:
    if risk.fit_intercept or not isinstance(reg, L2) or reg.center is not None or reg.weights is not None:
        return math.inf
    return math.sqrt(2.0 * risk.phi.evaluate(np.zeros(risk.n_samples)).value / reg.lam)


def _terms(conjugate: Conjugate, cap: FloatArray, squares: FloatArray) -> FloatArray:
    """The rows of ``PointwiseDual.terms``; a sample without weight, or too long to be squared, stays at zero."""
    terms, used = np.zeros((cap.size, N_TERMS)), (cap > 0.0) & np.isfinite(squares)
    terms[:, TARGET] = conjugate.target
    np.multiply(cap, conjugate.low, out=terms[:, LOW], where=used)
    np.multiply(cap, conjugate.high, out=terms[:, HIGH], where=used)
    np.divide(conjugate.ridge, cap, out=terms[:, RIDGE], where=used)
    terms[:, CURVATURE] = np.where(used, np.maximum(squares + terms[:, RIDGE], SMALLEST), 1.0)
    return terms


def _scaled(rows: Rows, metric: FloatArray | float) -> Rows:
    """The rows divided by the metric: a copy of X, where the regularizer has weights."""
    if isinstance(metric, float):
        return rows
    width = rows.columns.size
    entries = np.tile(metric[:width], rows.values.size // width) if rows.dense else metric[rows.columns]
    return rows._replace(values=rows.values / entries, constant=rows.constant / float(metric[-1]))
