"""The master problem ``min 1/2 alpha' H alpha - b' alpha`` on the simplex.

Successive master problems differ by one plane, so an active-set method that starts from the last support solves them
in a few pivots; an interior point method (PIQP) takes over where rounding defeats the pivots.
"""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from undercut._jit.simplex_qp import enter, solve_warm, trade
from undercut.solvers.quadratic_program import simplex_solution
from undercut.types import Array, FloatArray

MAX_PIVOTS_PER_PLANE = 20


class Weights:
    """A feasible ``alpha`` over numbered slots, kept from one problem to the next."""

    def __init__(self, capacity: int) -> None:
        self.alpha = np.zeros(capacity)

    def grow(self, capacity: int) -> None:
        """Make room for more slots."""
        self.alpha = np.pad(self.alpha, (0, capacity - self.alpha.size))

    def reset(self, alpha: FloatArray) -> None:
        """Start from another feasible point."""
        self.alpha[:] = alpha

    def forget(self, slots: Array) -> None:
        """Some slots will hold other planes: they lose their weight."""
        self.alpha[slots] = 0.0


class Master(Weights):
    """Weights with the factor of their support, which makes the next master problem cheap."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._allocate(capacity)

    def _allocate(self, capacity: int) -> None:
        self._support = np.zeros(capacity, np.int64)
        self._size = 0
        self._factor = np.zeros((capacity, capacity))
        self._p = np.zeros(capacity)
        self._q = np.zeros(capacity)
        self._shift = 0.0

    @override
    def grow(self, capacity: int) -> None:
        """Make room for more slots; the factor is rebuilt at the next ``solve``."""
        super().grow(capacity)
        self._allocate(capacity)

    @override
    def reset(self, alpha: FloatArray) -> None:
        super().reset(alpha)
        self._size = 0

    @override
    def forget(self, slots: Array) -> None:
        """These slots will hold other planes: they lose their weight, and the factor is rebuilt if it uses them."""
        super().forget(slots)
        if np.isin(slots, self._support[: self._size]).any():
            self._size = 0

    def solve(self, H: FloatArray, b: FloatArray, live: Array, tol: float) -> None:
        """Improve ``alpha`` until its duality gap is at most ``tol``, if floating point allows."""
        if not self.improve(H, b, live, tol):
            self._start_over(H, b, live, tol)

    def improve(self, H: FloatArray, b: FloatArray, live: Array, tol: float) -> bool:
        """The same by pivots alone, which is cheap; whether the duality gap is at most ``tol``."""
        if self._size and self._pivot(H, b, live, tol) <= tol:
            return True
        self._refactor(H, b, live)
        return self._pivot(H, b, live, tol) <= tol

    def _start_over(self, H: FloatArray, b: FloatArray, live: Array, tol: float) -> None:
        """The interior point solution, and pivots from there; the best of all is kept."""
        candidates = [self.alpha.copy()]
        self.alpha[live] = _interior_point(H[np.ix_(live, live)], b[live], self.alpha[live])
        candidates.append(self.alpha.copy())
        self._refactor(H, b, live)
        self._pivot(H, b, live, tol)
        candidates.append(self.alpha.copy())
        best = max(candidates, key=lambda alpha: _dual(H, b, live, alpha[live]))
        if best is not candidates[-1]:
            self.reset(best)

    def _pivot(self, H: FloatArray, b: FloatArray, live: Array, tol: float) -> float:
        left = MAX_PIVOTS_PER_PLANE * live.size
        while True:
            self._size, residual, pivots, dependent = solve_warm(
                H,
                b,
                live,
                self.alpha,
                self._support,
                self._size,
                self._factor,
                self._p,
                self._q,
                self._shift,
                tol,
                left,
            )
            left -= pivots
            if dependent < 0:
                break
            self._enter(H, b, dependent)
            if self.alpha[dependent] == 0.0:  # no better than the support after all: the violation is rounding
                break
        total = float(self.alpha.sum())
        if not 0.0 < total < np.inf:  # rounding has destroyed the factor
            self.reset(np.eye(1, self.alpha.size, live[0]).ravel())
            return np.inf
        self.alpha /= total
        return float(residual)

    def _refactor(self, H: FloatArray, b: FloatArray, live: Array) -> None:
        """Factor the support of ``alpha`` from scratch, largest weights first."""
        largest = float(H[live, live].max())
        self._shift = largest if largest > 0.0 else 1.0
        self._size = 0
        for j in np.argsort(-self.alpha)[: np.count_nonzero(self.alpha)]:
            self._enter(H, b, j)
        self.alpha /= self.alpha.sum()

    def _enter(self, H: FloatArray, b: FloatArray, j: int) -> None:
        """Append plane ``j`` to the support; while it is an affine combination of the support, trade weight first.

        Weight moves to whichever of the two, ``j`` or the combination, is higher, until a plane is spent.
        """
        factor = (self._factor, self._p, self._q)
        while self.alpha[j] > 0.0:
            last, self._size = self._size, enter(H, b, self._support, self._size, *factor, self._shift, j)
            if self._size > last:
                return
            self._size = trade(b, self.alpha, self._support, self._size, *factor, j)


def _dual(H: FloatArray, b: FloatArray, live: Array, alpha: FloatArray) -> float:
    return float(alpha @ (b[live] - 0.5 * (H[np.ix_(live, live)] @ alpha)))


def _interior_point(H: FloatArray, b: FloatArray, start: FloatArray) -> FloatArray:
    """PIQP's solution, in units of the value at ``start``, made feasible."""
    scale = float(start @ (np.abs(b) + H @ start)) or float(np.abs(b).max()) or 1.0
    alpha = np.nan_to_num(np.maximum(simplex_solution(H, b, scale), 0.0))
    total = float(alpha.sum())
    return alpha / total if 0.0 < total < np.inf else start
