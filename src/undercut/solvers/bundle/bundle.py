"""The planes of a risk and the model ``R_t(w) = max_i <a_i, w> + b_i`` they make.

    min_w reg(w) + R_t(w)  =  max_{alpha in simplex}  alpha' b - reg*(-A' alpha)

Every feasible alpha gives a lower bound on the left side, so the bound holds whatever the master solver did.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from undercut.contracts import Cut, QuadraticRegularizer
from undercut.errors import NonfiniteError
from undercut.solvers.bounds import ROUNDING
from undercut.solvers.bundle.master import Master
from undercut.types import Array, FloatArray

FIRST_CAPACITY = 32


class Model(NamedTuple):
    """The minimizer of the model and the lower bound it proves."""

    w: FloatArray
    lower_bound: float


class ProximalStep(NamedTuple):
    """The minimizer of the model and a proximal term, and the model's value ``reg + R_t`` there."""

    w: FloatArray
    value: float


class Bundle:
    """Planes in numbered slots, their Gram matrix in the metric of the regularizer, and their dual weights.

    Adding a plane costs one product with the planes there are; nothing moves but when the capacity doubles.
    A known lower bound of the risk is the flat plane ``a = 0``, which is never dropped.
    """

    def __init__(self, reg: QuadraticRegularizer, n_params: int, lower_bound: float = -math.inf) -> None:
        self.reg = reg
        self.A = np.zeros((FIRST_CAPACITY, n_params))
        self.b = np.zeros(FIRST_CAPACITY)
        self._H = np.zeros((FIRST_CAPACITY, FIRST_CAPACITY))
        self._linear = np.zeros(FIRST_CAPACITY)  # b_i + <a_i, center>
        self._norm = np.zeros(FIRST_CAPACITY)  # |a_i|
        self._size = np.zeros(FIRST_CAPACITY)  # of the numbers whose difference is b_i, for its rounding
        self._idle = np.full(FIRST_CAPACITY, -1)  # steps without weight; -1 marks a free slot
        self._kept = np.zeros(FIRST_CAPACITY, bool)  # the flat plane and the aggregate
        self._live = np.empty(0, np.int64)  # the slots in use
        self._flat = self._aggregate = -1
        self._master = Master(FIRST_CAPACITY)
        self._near = Master(FIRST_CAPACITY)  # the weights of the proximal problem
        if math.isfinite(lower_bound):
            self._flat = self._insert(np.zeros(n_params), lower_bound, 0.0)
            self._kept[self._flat] = True

    def __len__(self) -> int:
        return int(self._live.size)

    @property
    def alpha(self) -> FloatArray:
        """The weights of the live planes."""
        return self._master.alpha[self._live]

    def add(self, cut: Cut) -> None:
        """Take in a plane, with no weight yet."""
        self._insert(cut.a, cut.b, abs(cut.b) + abs(cut.value))

    def minimize(self, tol: float) -> Model:
        """Minimize ``reg + R_t`` to a duality gap of ``tol`` and count the steps each plane goes without weight."""
        live, top = self._live, self._live[-1] + 1
        self._master.solve(self._H, self._linear, live, tol)
        alpha = self._master.alpha[:top]
        self._idle[live] = np.where(alpha[live] > 0.0, 0, self._idle[live] + 1)
        with np.errstate(over="ignore", invalid="ignore"):  # a model whose minimizer is out of reach proves nothing
            z, b = alpha @ self.A[:top], float(alpha @ self.b[:top])
            w = self.reg.conjugate_argmax(-z)
            size = float(alpha @ self._size[:top]) + float(alpha @ self._norm[:top]) * float(np.linalg.norm(w))
            bound = b - self.reg.conjugate(-z) - ROUNDING * size
        return Model(w, bound if bound < np.inf else -np.inf)

    def minimize_near(self, center: FloatArray, tau: float, tol: float) -> ProximalStep:
        """Minimize ``reg + R_t + tau/2 (w - center)' M (w - center)`` where ``reg = 1/2 (w - c)' M (w - c)``.

        The metric stays, and the Gram matrix is divided by ``1 + tau``.
        """
        live, top = self._live, self._live[-1] + 1
        shrink = 1.0 / (1.0 + tau)
        origin = self.reg.conjugate_argmax(np.zeros_like(center))  # c
        middle = origin + (1.0 - shrink) * (center - origin)
        linear = self.b[:top] + self.A[:top] @ middle
        self._near.solve(self._H, np.pad(linear / shrink, (0, self.b.size - top)), live, tol / shrink)
        alpha = self._near.alpha[:top]
        self._idle[live] = np.where(alpha[live] > 0.0, 0, self._idle[live])
        z = alpha @ self.A[:top]
        w = middle + shrink * (self.reg.conjugate_argmax(-z) - origin)
        value = self.reg.value(w) + float((self.A[live] @ w + self.b[live]).max())
        return ProximalStep(w, value)

    def drop_idle(self, max_idle: int) -> None:
        """Forget the planes that have gone without weight for more than ``max_idle`` steps."""
        idle = np.flatnonzero((self._idle > max_idle) & ~self._kept)
        if idle.size:
            self._free(idle)

    def make_room(self, max_planes: int) -> None:
        """Forget planes until one more fits, the longest without weight first.

        One that still has weight is merged with the aggregated plane, which takes over its weight: the model keeps its
        minimum, hence the bound (Do and Artières 2012, Prop. 1).
        """
        while self._live.size - self._kept.sum() >= max_planes:
            slot = int(np.argmax(np.where(self._kept, -1, self._idle)))
            if self._master.alpha[slot] > 0.0:
                self._merge_into_aggregate(slot)
            else:
                self._free(np.array([slot]))

    def _merge_into_aggregate(self, slot: int) -> None:
        alpha = self._master.alpha.copy()
        weight, a, b, size = alpha[slot], self.A[slot].copy(), float(self.b[slot]), float(self._size[slot])
        alpha[slot] = 0.0
        old = self._aggregate
        if old >= 0 and alpha[old] > 0.0:
            share = alpha[old] / (weight + alpha[old])
            a, b = share * self.A[old] + (1.0 - share) * a, share * float(self.b[old]) + (1.0 - share) * b
            size = max(size, float(self._size[old]))
            weight += alpha[old]
            alpha[old] = 0.0
        self._free(np.array([slot, old] if old >= 0 else [slot]))
        self._aggregate = self._insert(a, b, size)
        self._kept[self._aggregate] = True
        alpha[self._aggregate] = weight
        self._master.reset(alpha)

    def _free(self, slots: Array) -> None:
        self._idle[slots], self._kept[slots] = -1, False
        self._live = np.flatnonzero(self._idle >= 0)
        for master in (self._master, self._near):
            master.forget(slots)

    def _insert(self, a: FloatArray, b: float, size: float) -> int:
        if self._live.size == self.b.size:
            self._grow()
        slot = int(self._idle.argmin())
        top = int(self._live[-1]) + 1 if self._live.size else 0
        self.A[slot], self.b[slot], self._size[slot], self._norm[slot] = a, b, size, np.linalg.norm(a)
        self._couple(slot, max(top, slot + 1))
        self._idle[slot] = 0
        self._live = np.flatnonzero(self._idle >= 0)
        if top == 0:
            self._master.alpha[slot] = self._near.alpha[slot] = 1.0
        return slot

    def _couple(self, slot: int, top: int) -> None:
        """What the quadratic program needs to know of a new plane: its products with the planes there are."""
        a = self.A[slot]
        self._linear[slot] = self.b[slot] + self.reg.at_center(a)
        with np.errstate(over="ignore", invalid="ignore"):
            row = self.reg.dual_inner(self.A[:top], a)
        if not np.isfinite(row).all():
            raise NonfiniteError("a plane is too steep for this lambda: scale the features, or use a larger lambda")
        self._H[slot, :top] = row
        self._H[:top, slot] = row

    def _grow(self) -> None:
        capacity = 2 * self.b.size
        more = capacity - self.b.size
        self.A = np.concatenate([self.A, np.zeros((more, self.A.shape[1]))])
        self.b = np.concatenate([self.b, np.zeros(more)])
        self._linear = np.concatenate([self._linear, np.zeros(more)])
        self._norm = np.concatenate([self._norm, np.zeros(more)])
        self._size = np.concatenate([self._size, np.zeros(more)])
        self._idle = np.concatenate([self._idle, np.full(more, -1)])
        self._kept = np.concatenate([self._kept, np.zeros(more, bool)])
        self._H = np.pad(self._H, (0, more))
        self._master = self._master.grown(capacity)
        self._near = self._near.grown(capacity)
