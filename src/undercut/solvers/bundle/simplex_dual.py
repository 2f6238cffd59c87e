"""The master problem of any regularizer: maximize ``D(alpha) = alpha' b - reg*(-A' alpha)`` on the simplex.

D is smooth and concave where reg is strongly convex, and its slope is the height of each plane at w:

    D'(alpha) = b + A w,        w = argmax_v <z, v> - reg(v),        z = -A' alpha

A Newton step is a quadratic program on the simplex, which the active-set method of the quadratic master problem
solves, and a line search along it costs no product with the planes.  Where the second derivative jumps, as with
absolute values, this is the semismooth Newton method: every step knows exactly which parameters are zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from undercut.contracts import Regularizer
from undercut.deadline import expired
from undercut.solvers.bundle.master import Master
from undercut.types import Array, FloatArray

RIDGE = 1e-8  # a step is penalized by at most this share of the gap, for directions without curvature
NEWTON_ACCURACY = 0.1  # share of the gap to which a Newton step is computed
LINE_ACCURACY = 1e-3  # share of a step by which the line search may be off
LINE_TRIALS = 40
FIRST_SHRINK = 0.1  # of a step while no ascent is known
DUST = 1e-15  # a weight below this is zero
SPARSE = 0.25  # share of the parameters up to which it pays to multiply by the others only


class DualPoint(NamedTuple):
    """A feasible alpha and what belongs to it."""

    alpha: FloatArray
    z: FloatArray  # -A' alpha
    w: FloatArray
    heights: FloatArray  # of the planes at w
    gap: float  # reg(w) + max(heights) - D(alpha): how far w and alpha are from the optimum, at most


class SimplexDual:
    """D over the planes ``A, b``, of which only those numbered in ``live`` count."""

    def __init__(self, reg: Regularizer, A: FloatArray, b: FloatArray, live: Array) -> None:
        self.reg, self.A, self.b, self.live = reg, A, b, live

    def climb(self, alpha: FloatArray, tol: float, max_steps: int) -> tuple[DualPoint, int]:
        """Improve ``alpha`` until its duality gap is at most ``tol``, if floating point and the limits allow.

        The second number is how many steps it took.
        """
        at = self._point(alpha, -(alpha @ self.A))
        for step in range(max_steps):
            if at.gap <= tol or expired():
                return at, step
            trial = self._towards(at, self._newton(at, tol)) or self._towards(at, self._highest(at))
            if trial is None:
                return at, step + 1
            at = trial
        return at, max_steps

    def _point(self, alpha: FloatArray, z: FloatArray) -> DualPoint:
        w = self.reg.conjugate_argmax(z)
        heights = self.b + product(self.A, w)
        gap = float(heights[self.live].max()) - float(alpha @ heights)
        return DualPoint(alpha, z, w, heights, gap)

    def _newton(self, at: DualPoint, tol: float) -> FloatArray:
        """The maximizer on the simplex of the quadratic model of D."""
        H = self.reg.conjugate_curvature(self.A, at.z)
        H[np.diag_indices_from(H)] += RIDGE * at.gap
        master = Master(self.b.size)
        master.reset(at.alpha)
        master.improve(H, at.heights + H @ at.alpha, self.live, max(NEWTON_ACCURACY * at.gap, 0.3 * tol))
        return master.alpha

    def _highest(self, at: DualPoint) -> FloatArray:
        """All weight on the highest plane: a direction of ascent wherever there is one."""
        return np.eye(1, self.b.size, self.live[at.heights[self.live].argmax()]).ravel()

    def _towards(self, at: DualPoint, target: FloatArray) -> DualPoint | None:
        """The best point on the way to ``target``; ``None`` if there is no better one."""
        step = target - at.alpha
        rise, turn = float(self.b @ step), -(step @ self.A)

        def slope(t: float) -> float:
            return rise - float(turn @ self.reg.conjugate_argmax(at.z + t * turn))

        t = _last_ascent(slope)
        if t == 0.0:
            return None
        alpha = at.alpha + t * step
        alpha[alpha < DUST] = 0.0
        total = float(alpha.sum())
        return self._point(alpha / total, (at.z + t * turn) / total)


def product(A: FloatArray, w: FloatArray) -> FloatArray:
    """``A w``, by the nonzero entries of w alone where they are few."""
    nonzero = np.flatnonzero(w)
    if nonzero.size > SPARSE * w.size:
        return np.asarray(A @ w)
    return np.asarray(A[:, nonzero] @ w[nonzero])


def _middle(low: float, high: float) -> float:
    """The geometric mean: the last ascent may be orders of magnitude nearer than the end."""
    return math.sqrt(low * high) if low > 0.0 else FIRST_SHRINK * high


def _last_ascent(slope: Callable[[float], float]) -> float:
    """A t in [0, 1] up to which a concave function rises, near the last one."""
    low, high, at_low, at_high = 0.0, 1.0, slope(0.0), slope(1.0)
    if at_low <= 0.0:
        return 0.0
    if at_high >= 0.0:
        return 1.0
    for trial in range(LINE_TRIALS):
        if high - low <= LINE_ACCURACY * high:
            break
        secant = low + (high - low) * at_low / (at_low - at_high)
        t = secant if trial % 2 == 0 else _middle(low, high)
        at = slope(t)
        if at >= 0.0:
            low, at_low = t, at
        else:
            high, at_high = t, at
    return low
