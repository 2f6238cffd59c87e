"""The dual of ``lam/2 |W|^2 + sum_i weight_i l(y_i, W x_i)`` by blocks of classes.

With p_i a distribution over the classes and ``A_ik = weight_i / lam ([k = y_i] - p_ik)``,

    D(A)  =  sum_i weight_i gain_i(p_i) - lam/2 |X' A|^2

    Crammer-Singer   gain_i(p) = sum_k p_k label_loss[y_i, k]
    softmax          gain_i(p) = -sum_k p_k log p_k

Free intercepts add the constraints ``sum_i A_ik = 0``.  They are the multipliers b of these in the augmented Lagrangian

    D(A) - lam sum_k (b_k s_k + rho/2 s_k^2),      s_k = sum_i A_ik

which is the same dual with b_k added to the score of class k and a constant feature ``sqrt(rho)``.  A bound is taken at
a nearby point that meets the constraints.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np
from scipy.special import xlog1py, xlogy
from typing_extensions import override

from undercut._jit.class_blocks import balance_shares, class_products
from undercut._jit.dual_coordinate import ROW_COST, squared_norms
from undercut.contracts import Rows
from undercut.losses import CrammerSinger
from undercut.maps.matrix import Matrix
from undercut.regularizers import L2
from undercut.risks import MulticlassRisk
from undercut.risks.scores.classes.softmax_scores import SoftmaxScores
from undercut.solvers.bounds import ROUNDING
from undercut.types import Array, FloatArray


@dataclass(frozen=True, eq=False)
class ClassDual(ABC):
    """The constants of one dual problem; no method changes it."""

    risk: MulticlassRisk
    strength: float  # lambda
    rows: Rows
    squares: FloatArray  # |x_i|^2
    cap: FloatArray  # weight / lam
    lengths: FloatArray  # |x_i|^2, without the constant feature
    b: FloatArray  # multipliers of free intercepts, one per class
    rho: float  # positive with free intercepts: the square of the constant feature in ``rows``

    def shifted(self, rho: float, b: FloatArray) -> Self:
        """With another ``rho`` and other multipliers, all from the same numbers: a resumed run is the same run."""
        rows = self.rows._replace(constant=math.sqrt(rho))
        return replace(self, rows=rows, squares=self.lengths + rho, b=b, rho=rho)

    @abstractmethod
    def gain(self, a: FloatArray) -> float:
        """``sum_i cap_i gain_i(p_i)``, the multipliers' part included."""

    @abstractmethod
    def own_gain(self, a: FloatArray) -> tuple[float, float]:
        """The same without the multipliers' part, and the sum of the absolute values of its terms."""

    @abstractmethod
    def feasible(self, a: FloatArray) -> FloatArray | None:
        """A point near a whose sums of classes are zero but for rounding; ``None`` where rounding prevents that."""

    @property
    def reach(self) -> float:
        """No bound is known: rounding in the shares of a sample is not limited by D."""
        return math.inf

    @property
    def pass_work(self) -> int:
        return int((self.rows.values.size + ROW_COST * self.cap.size) * self.risk.n_classes)

    @abstractmethod
    def products(self, a: FloatArray) -> FloatArray:
        """``X' A``, one row per feature: the classes of a feature are read together."""

    def kernel_vector(self, z: FloatArray) -> FloatArray:
        return z.copy()

    @property
    def width(self) -> int:
        """The number of rows of v."""
        return self.risk.features.shape[1] + (self.rho > 0.0)

    def primal(self, v: FloatArray) -> FloatArray:
        return self._weights(v).flatten()

    def scores(self, v: FloatArray) -> FloatArray:
        return cast(Matrix, self.risk.features).matmat(self._weights(v)).reshape(-1)

    def _weights(self, v: FloatArray) -> FloatArray:
        """Those of the features, one row per class."""
        return v[: self.risk.features.shape[1]].T

    def value(self, a: FloatArray, z: FloatArray) -> float:
        """``D(A)``, given ``z = X' A``."""
        return self.strength * (self.gain(a) - 0.5 * float(np.vdot(z, z)))

    def on_ray(self, a: FloatArray, z: FloatArray) -> Callable[[float], float]:
        """``D(t A)`` as a function of t, given ``z = X' A``."""
        square = float(np.vdot(z, z))
        return lambda t: self.strength * (self.gain(t * a) - 0.5 * t * t * square)

    def shares(self, a: FloatArray) -> FloatArray:
        """``cap_i p_i``, an array of its own; rounding may make entries negative."""
        shares = -a
        shares[np.arange(self.cap.size), self.risk.y] += self.cap
        return shares

    def settled(self, a: FloatArray) -> FloatArray:
        """a with every p_i a distribution again, but for the rounding of one division."""
        shares = np.maximum(self.shares(a), 0.0)
        at = np.arange(self.cap.size), self.risk.y
        total = shares.sum(axis=1)
        empty = total <= 0.0
        shares[at] += np.where(empty, self.cap, 0.0)
        shares *= np.divide(self.cap, total, out=np.ones_like(total), where=~empty)[:, None]
        shares[at] -= self.cap
        return -shares

    def inside(self, a: FloatArray) -> FloatArray:
        return self.settled(a)

    def at_end(self, a: FloatArray) -> Array:
        """The samples whose p is one class alone."""
        return np.asarray(self.shares(a).max(axis=1) >= self.cap)[:, None]

    def bound(self, a: FloatArray, z: FloatArray, drift: float) -> float:
        if self.rho > 0.0:
            feasible = self.feasible(a)
            return -math.inf if feasible is None else self._bound_at(feasible)
        square, gain = float(np.vdot(z, z)), self.gain(a)
        rounding = ROUNDING * (gain + square) + drift * (math.sqrt(square) + drift)
        return self.strength * (gain - 0.5 * square - rounding)

    def _bound_at(self, a: FloatArray) -> float:
        """The bound of a point whose sums of classes are zero but for rounding, where multipliers have no part in D."""
        z, sizes = self.products(a)[:-1], np.abs(a)
        square, (gain, rounding) = float(np.vdot(z, z)), self.own_gain(a)
        rounding += square + math.sqrt(square) * float(np.sqrt(self.lengths) @ sizes.sum(axis=1))
        intercepts = np.abs(self.b) + math.sqrt(square * float(self.lengths.max(initial=0.0)))  # at most, of the best
        unmet = float(intercepts @ np.abs(a.sum(axis=0)))
        return self.strength * (gain - 0.5 * square - ROUNDING * rounding - unmet)


@dataclass(frozen=True, eq=False)
class MarginDual(ClassDual):
    """Of the Crammer-Singer loss."""

    label_loss: FloatArray
    costs: FloatArray  # label_loss, with the multipliers added

    @override
    def shifted(self, rho: float, b: FloatArray) -> Self:
        return replace(super().shifted(rho, b), costs=self.label_loss + b)

    @property
    @override
    def reach(self) -> float:
        """``1/2 |v|^2`` is at most the largest gain where ``D >= 0``; not less than what one sample can add to v."""
        if self.rho > 0.0:  # the point of a bound differs from that of the sweeps
            return math.inf
        largest = math.sqrt(2.0 * float(self.cap @ self.costs.max(axis=1)[self.risk.y]))
        return max(largest, float((self.cap * np.sqrt(self.squares)).max()))

    @override
    def gain(self, a: FloatArray) -> float:
        return -float(np.vdot(a, self.costs[self.risk.y]))  # the diagonal of ``label_loss`` is zero

    @override
    def own_gain(self, a: FloatArray) -> tuple[float, float]:
        label_loss = self.label_loss[self.risk.y]
        return -float(np.vdot(a, label_loss)), float(np.vdot(np.abs(a), label_loss))

    @override
    def products(self, a: FloatArray) -> FloatArray:
        z = np.empty((self.width, self.risk.n_classes))
        class_products(*self.rows, a, z)
        return z

    @override
    def feasible(self, a: FloatArray) -> FloatArray:
        shares = np.maximum(self.shares(a), 0.0)
        balance_shares(shares, a.sum(axis=0))
        shares[np.arange(self.cap.size), self.risk.y] -= self.cap
        return self.settled(-shares)

    @override
    def bound(self, a: FloatArray, z: FloatArray, drift: float) -> float:
        if drift > 0.0:  # z is not that of the feasible point, whose shares differ by rounding
            feasible = self.settled(a)
            drift += float(np.sqrt(self.squares) @ np.abs(feasible - a).sum(axis=1)) * (1.0 + ROUNDING)
            return super().bound(feasible, z, drift)
        return super().bound(a, z, drift)


@dataclass(frozen=True, eq=False)
class EntropyDual(ClassDual):
    """Of the softmax loss."""

    @override
    def gain(self, a: FloatArray) -> float:
        return self.own_gain(a)[0] - float(a.sum(axis=0) @ self.b)

    @override
    def own_gain(self, a: FloatArray) -> tuple[float, float]:
        used = np.flatnonzero(self.cap > 0.0)
        own, rows = self.risk.y[used], np.arange(used.size)
        cap, shares = self.cap[used], np.maximum(self.shares(a)[used], 0.0)
        terms = xlogy(shares, shares / cap[:, None])
        terms[rows, own] = xlog1py(shares[rows, own], np.maximum(-a[used, own] / cap, -1.0))  # accurate next to 1
        entropy = -float(terms.sum())
        return entropy, entropy

    @override
    def products(self, a: FloatArray) -> FloatArray:
        z = np.empty((self.width, self.risk.n_classes))
        z[: self.risk.features.shape[1]] = cast(Matrix, self.risk.features).rmatmat(a).T
        if self.rho > 0.0:
            z[-1] = math.sqrt(self.rho) * a.sum(axis=0)
        return z

    @override
    def feasible(self, a: FloatArray) -> FloatArray | None:
        assert isinstance(self.risk.phi, SoftmaxScores)
        slopes = self.risk.phi.nearest(-self.strength * a)
        return None if slopes is None else slopes / -self.strength


def class_dual(risk: MulticlassRisk, reg: L2) -> ClassDual:
    """The dual of a problem that ``DualCoordinate.check`` let through."""
    rows, squares = cast(Matrix, risk.features).rows(), np.empty(risk.n_samples)
    squared_norms(*rows, squares)
    shared = risk, reg.lam, rows, squares, risk.weight / reg.lam, squares, np.zeros(risk.n_classes), 0.0
    if isinstance(risk.loss, CrammerSinger):
        costs = risk.loss.costs(risk.n_classes)
        return MarginDual(*shared, label_loss=costs, costs=costs)
    return EntropyDual(*shared)
