"""The model ``R_t(w) = max_i <a_i, w> + b_i`` that planes make of a risk.

    min_w reg(w) + R_t(w)  =  max_{alpha in simplex}  alpha' b - reg*(-A' alpha)

Every feasible alpha gives a lower bound on the left side, so the bound holds whatever the master solver did.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from undercut.contracts import Cut, QuadraticRegularizer
from undercut.errors import NonfiniteError
from undercut.solvers.bounds import ROUNDING, cut_size
from undercut.solvers.bundle.master import Master, Weights
from undercut.solvers.bundle.plane_rows import FIRST_CAPACITY, PlaneRows
from undercut.solvers.bundle.planes import Planes
from undercut.types import Array, FloatArray

TOO_STEEP = "a plane is too steep for this lambda: scale the features, or use a larger lambda"


class Model(NamedTuple):
    """The minimizer of the model and the lower bound it proves."""

    w: FloatArray
    lower_bound: float
    size: float  # of the numbers that make the bound, for their rounding


class ProximalStep(NamedTuple):
    """The minimizer of the model and a proximal term, and the model's value ``reg + R_t`` there."""

    w: FloatArray
    value: float


class _Slopes(NamedTuple):
    """``<a_i, w>`` of the planes in all slots."""

    w: FloatArray
    values: FloatArray


class PlaneModel(ABC):
    """Planes, a regularizer, and the minimum of the model that both make."""

    planes: Planes
    near: Weights  # of the proximal problem

    @abstractmethod
    def minimize(self, tol: float) -> Model:
        """Minimize ``reg + R_t`` to a duality gap of ``tol`` and count the steps each plane goes without weight."""

    def __len__(self) -> int:
        return len(self.planes)

    def add(self, cut: Cut) -> None:
        """Take in a plane, with no weight yet."""
        self.planes.insert(cut.a, cut.b, cut_size(cut))

    def drop_idle(self, max_idle: int) -> None:
        """Forget the planes that have gone without weight for more than ``max_idle`` steps."""
        self.planes.drop_idle(max_idle)

    def grow_older(self) -> None:
        """Count a step without a master problem for the planes that have no weight in the proximal one."""
        self.planes.age(self.near.alpha[: self.planes.top], 1)

    def make_room(self, max_planes: int) -> None:
        """Forget planes until one more fits, the longest without weight first; the bound stays."""
        self.planes.make_room(max_planes)


class Bundle(PlaneModel):
    """Planes with their Gram matrix in the metric of a quadratic regularizer.

    Adding a plane costs one product with the planes there are.  A known lower bound of the risk is the flat plane
    ``a = 0``, which is never dropped.
    """

    def __init__(
        self,
        reg: QuadraticRegularizer,
        n_params: int,
        lower_bound: float = -math.inf,
        rows: PlaneRows | None = None,
    ) -> None:
        self.reg = reg
        self.master = Master(FIRST_CAPACITY)
        self.near: Master = Master(FIRST_CAPACITY)
        self.H = np.zeros((FIRST_CAPACITY, FIRST_CAPACITY))  # <a_i, M^-1 a_j>
        self._linear = np.zeros(FIRST_CAPACITY)  # b_i + <a_i, center>
        self._known: tuple[_Slopes, ...] = ()  # <a_i, w> at the center of the last proximal step and at its minimizer
        self.planes = Planes(rows or PlaneRows(n_params), (self.master, self.near), self._couple)
        if math.isfinite(lower_bound):
            self.planes.insert_flat(lower_bound)

    @property
    def alpha(self) -> FloatArray:
        """The weights of the live planes."""
        return self.master.alpha[self.planes.live]

    @override
    def minimize(self, tol: float) -> Model:
        planes, top = self.planes, self.planes.top
        self.master.solve(self.H, self._linear, planes.live, tol)
        planes.age(self.master.alpha[:top], 1)
        return self.proved()

    def proved(self) -> Model:
        """What the weights of the last minimization prove."""
        planes, top = self.planes, self.planes.top
        alpha = self.master.alpha[:top]
        with np.errstate(over="ignore", invalid="ignore"):  # a model whose minimizer is out of reach proves nothing
            z, b = planes.rows.combined(alpha), float(alpha @ planes.b[:top])
            w = self.reg.conjugate_argmax(-z)
            size = float(alpha @ planes.size[:top]) + float(alpha @ planes.norm[:top]) * float(np.linalg.norm(w))
            bound = b - self.reg.conjugate(-z) - ROUNDING * size
        return Model(w, bound if bound < np.inf else -np.inf, size)

    def regularize(self, reg: QuadraticRegularizer) -> None:
        """Keep the planes and their weights, and take another regularizer."""
        last, live, self.reg = self.reg, self.planes.live, reg
        ratio = reg.multiple_of(last)
        if math.isfinite(ratio):
            self.H /= ratio
        else:
            A = self.planes.A[live]
            self.H[np.ix_(live, live)] = reg.conjugate_curvature(A, np.zeros(A.shape[1]))
        if not np.isfinite(self.H).all():
            raise NonfiniteError(TOO_STEEP)
        self._linear[live] = self.planes.b[live] + [reg.at_center(a) for a in self.planes.A[live]]
        for weights in (self.master, self.near):
            weights.reset(weights.alpha)

    def minimize_near(self, center: FloatArray, tau: float, tol: float) -> ProximalStep:
        """Minimize ``reg + R_t + tau/2 (w - center)' M (w - center)`` where ``reg = 1/2 (w - c)' M (w - c)``.

        The metric stays, and the Gram matrix is divided by ``1 + tau``.
        """
        planes, live, top = self.planes, self.planes.live, self.planes.top
        shrink = 1.0 / (1.0 + tau)
        origin = self.reg.conjugate_argmax(np.zeros_like(center))  # c
        middle = origin + (1.0 - shrink) * (center - origin)
        at_center = self._slopes_at(center)
        at_middle = planes.b + shrink * (self._linear - planes.b) + (1.0 - shrink) * at_center.values
        self.near.solve(self.H, at_middle / shrink, live, tol / shrink)
        alpha = self.near.alpha[:top]
        planes.age(alpha, 0)
        w = middle + shrink * (self.reg.conjugate_argmax(-planes.rows.combined(alpha)) - origin)
        self._known = ()
        at_w = self._slopes_at(w)
        self._known = (at_center, at_w)
        return ProximalStep(w, self.reg.value(w) + float((at_w.values + planes.b)[live].max()))

    def _slopes_at(self, w: FloatArray) -> _Slopes:
        """``<a_i, w>`` of every slot, which is known where w is a point of the last proximal step."""
        for known in self._known:
            if known.w is w:
                return known
        values = np.zeros(self.planes.capacity)
        values[: self.planes.top] = self.planes.rows.products(w, self.planes.top)
        return _Slopes(w, values)

    def lower(self, slots: Array, b: FloatArray) -> None:
        """Lower planes to the offsets ``b``."""
        self._linear[slots] += b - self.planes.b[slots]
        self.planes.b[slots] = b
        self.master.reset(self.master.alpha)

    def _couple(self, slot: int) -> None:
        """What the quadratic program needs to know of a new plane: its products with the planes there are."""
        planes, a = self.planes, self.planes.rows.row(slot)
        if planes.capacity > self._linear.size:
            more = planes.capacity - self._linear.size
            self._linear = np.pad(self._linear, (0, more))
            self.H = np.pad(self.H, (0, more))
            self._known = tuple(_Slopes(w, np.pad(values, (0, more))) for w, values in self._known)
        top = max(planes.top, slot + 1)
        self._linear[slot] = planes.b[slot] + self.reg.at_center(a)
        with np.errstate(over="ignore", invalid="ignore"):
            row = planes.rows.dual_products(self.reg, a, top)
        if not np.isfinite(row).all():
            raise NonfiniteError(TOO_STEEP)
        for known in self._known:
            known.values[slot] = float(a @ known.w)
        self.H[slot, :top] = row
        self.H[:top, slot] = row
