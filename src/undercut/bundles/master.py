"""The master problem ``min 1/2 alpha' H alpha - b' alpha`` on the simplex.

Successive master problems differ by one plane, so an active-set method that starts from the last support solves them
in a few pivots; an interior point method (PIQP) takes over where rounding defeats the pivots.
"""

from __future__ import annotations

import numpy as np
import piqp

from undercut.arrays import Array, FloatArray
from undercut.kernels.simplex_qp import refactor, solve_warm

MAX_PIVOTS_PER_PLANE = 20


class Master:
    """A feasible ``alpha`` over numbered slots, kept from one master problem to the next."""

    def __init__(self, capacity: int) -> None:
        self.alpha = np.zeros(capacity)
        self._support = np.zeros(capacity, np.int64)
        self._size = 0
        self._factor = np.zeros((capacity, capacity))
        self._p = np.zeros(capacity)
        self._q = np.zeros(capacity)
        self._shift = 0.0

    def grown(self, capacity: int) -> Master:
        """The same weights with room for more slots; the factor is rebuilt at the next ``solve``."""
        larger = Master(capacity)
        larger.alpha[: self.alpha.size] = self.alpha
        return larger

    def reset(self, alpha: FloatArray) -> None:
        """Start from another feasible point."""
        self.alpha[:] = alpha
        self._size = 0

    def solve(self, H: FloatArray, b: FloatArray, live: Array, tol: float) -> None:
        """Improve ``alpha`` until its duality gap is at most ``tol``, if floating point allows."""
        residual = self._pivot(H, b, live, tol) if self._size else np.inf
        if residual > tol:
            self._refactor(H, b, live)
            residual = self._pivot(H, b, live, tol)
        if residual > tol:
            other = _interior_point(H[np.ix_(live, live)], b[live])
            if _dual(H, b, live, other) > _dual(H, b, live, self.alpha[live]):
                self.alpha[live] = other
                self._refactor(H, b, live)

    def _pivot(self, H: FloatArray, b: FloatArray, live: Array, tol: float) -> float:
        self._size, residual, _ = solve_warm(
            H, b, live, self.alpha, self._support, self._size, self._factor, self._p, self._q, self._shift, tol,
            MAX_PIVOTS_PER_PLANE * live.size,
        )  # fmt: skip
        self.alpha /= self.alpha.sum()
        return float(residual)

    def _refactor(self, H: FloatArray, b: FloatArray, live: Array) -> None:
        largest = float(H[live, live].max())
        self._shift = largest if largest > 0.0 else 1.0
        self._size = refactor(H, b, self.alpha, self._support, self._factor, self._p, self._q, self._shift)


def _dual(H: FloatArray, b: FloatArray, live: Array, alpha: FloatArray) -> float:
    return float(alpha @ (b[live] - 0.5 * (H[np.ix_(live, live)] @ alpha)))


def _interior_point(H: FloatArray, b: FloatArray) -> FloatArray:
    n, scale = b.size, max(float(H.diagonal().max()), float(np.abs(b).max()), 1e-300)
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = 1e-13
    solver.settings.eps_rel = 0.0
    solver.setup(H / scale, -b / scale, np.ones((1, n)), np.ones(1), None, None, None, np.zeros(n), None)
    solver.solve()
    alpha = np.nan_to_num(np.maximum(solver.result.x, 0.0))
    total = float(alpha.sum())
    return alpha / total if total > 0.0 else np.full(n, 1.0 / n)
