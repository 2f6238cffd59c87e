"""The dual of ``lam/2 |W|^2 + sum_i weight_i max_k label_loss[y_i, k] + <w_k - w_y_i, x_i>`` by blocks of classes.

With p_i a distribution over the classes and ``A_ik = weight_i / lam ([k = y_i] - p_ik)``,

    D(A)  =  sum_i weight_i sum_k p_ik label_loss[y_i, k] - lam/2 |X' A|^2
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np
from typing_extensions import override

from undercut._jit.class_blocks import sweep_classes
from undercut._jit.dual_coordinate import ROW_COST, squared_norms
from undercut.contracts import Rows
from undercut.losses import CrammerSinger
from undercut.maps.matrix import Matrix
from undercut.regularizers import L2
from undercut.risks import MulticlassRisk
from undercut.solvers.bounds import ROUNDING
from undercut.solvers.coordinate.descent import Descent
from undercut.solvers.coordinate.start import halved
from undercut.types import Array, FloatArray


@dataclass(frozen=True, eq=False)
class ClassDual:
    """The constants of one dual problem; no method changes it."""

    risk: MulticlassRisk
    strength: float  # lambda
    rows: Rows
    squares: FloatArray  # |x_i|^2
    cap: FloatArray  # weight / lam
    costs: FloatArray  # label_loss

    @property
    def reach(self) -> float:
        """None is given: the shares of a sample are rounded too."""
        return math.inf

    @property
    def pass_work(self) -> int:
        return int((self.rows.values.size + ROW_COST * self.cap.size) * self.costs.shape[0])

    def products(self, a: FloatArray) -> FloatArray:
        return cast(Matrix, self.risk.features).rmatmat(a)

    def kernel_vector(self, z: FloatArray) -> FloatArray:
        """One row per feature: the classes of a feature are read together."""
        return np.array(z.T, order="C")

    def primal(self, v: FloatArray) -> FloatArray:
        return v.T.reshape(-1)

    def value(self, a: FloatArray, z: FloatArray) -> float:
        """``D(A)``, given ``z = A' X``."""
        return self.strength * (self.gain(a) - 0.5 * float(np.vdot(z, z)))

    def gain(self, a: FloatArray) -> float:
        """``sum_i cap_i sum_k p_ik label_loss[y_i, k]``; the diagonal of label_loss is zero."""
        return -float(np.vdot(a, self.costs[self.risk.y]))

    def settled(self, a: FloatArray) -> FloatArray:
        """a with every p_i a distribution again, but for the rounding of one division."""
        shares = -a
        at = np.arange(self.cap.size), self.risk.y
        shares[at] += self.cap
        np.maximum(shares, 0.0, out=shares)
        total = shares.sum(axis=1)
        empty = total <= 0.0
        shares[at] += np.where(empty, self.cap, 0.0)
        shares *= np.divide(self.cap, total, out=np.ones_like(total), where=~empty)[:, None]
        shares[at] -= self.cap
        return -shares

    def bound(self, a: FloatArray, z: FloatArray, drift: float) -> float:
        square = float(np.vdot(z, z))
        rounding = ROUNDING * (float(np.vdot(np.abs(a), self.costs[self.risk.y])) + square)
        return self.value(a, z) - self.strength * (rounding + drift * (math.sqrt(square) + drift))


@dataclass(eq=False, kw_only=True)
class ClassDescent(Descent[ClassDual]):
    """Sweeps that leave out samples, and classes of samples."""

    classes: Array  # int32 (n_samples, n_classes); the active ones of a sample come first
    counts: Array  # int32 (n_samples,): how many those are

    @override
    def copy(self) -> Self:
        return replace(super().copy(), classes=self.classes.copy(), counts=self.counts.copy())

    @override
    def _sweep(self, budget: int) -> int:
        dual = self.dual
        self.position, self.active, most, work = sweep_classes(
            *dual.rows, dual.squares, dual.risk.y, dual.costs, dual.cap,
            self.order, self.position, self.active, self.classes, self.counts, budget, self.a, self.v,
        )  # fmt: skip
        self.most = max(self.most, most)
        return int(work)

    @override
    def _restart(self) -> None:
        super()._restart()
        self.counts[:] = self.classes.shape[1]


def class_dual(risk: MulticlassRisk, reg: L2) -> ClassDual:
    """The dual of a problem that ``DualCoordinate.check`` let through."""
    assert isinstance(risk.loss, CrammerSinger)
    rows, squares = cast(Matrix, risk.features).rows(), np.empty(risk.n_samples)
    squared_norms(*rows, squares)
    return ClassDual(risk, reg.lam, rows, squares, risk.weight / reg.lam, risk.loss.costs(risk.n_classes))


def class_descent(risk: MulticlassRisk, reg: L2, slopes: FloatArray) -> ClassDescent:
    """The sweeps over such a problem, from ``lam A = -slopes``."""
    dual = class_dual(risk, reg)
    a, z = halved(dual, dual.settled(-slopes.reshape(risk.n_samples, -1) / reg.lam))
    n, n_classes = a.shape
    return ClassDescent(
        dual=dual,
        a=a,
        v=dual.kernel_vector(z),
        order=np.arange(n),
        active=n,
        classes=np.tile(np.arange(n_classes, dtype=np.int32), (n, 1)),
        counts=np.full(n, n_classes, dtype=np.int32),
    )
