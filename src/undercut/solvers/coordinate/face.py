"""Conjugate gradients on the face of the dual that the sweeps have found (Moré and Toraldo 1991).

Coordinate descent finds quickly which variables are at an end of their interval, but where the regularization is weak
it takes thousands of sweeps for the values of the others.  For those the dual is a quadratic, which conjugate gradients
maximize in far fewer passes; the end is projected on the intervals, and accepted if the dual has grown.  How much it
grew per unit of work, beside the sweeps before, decides how long the next attempt is and how soon it comes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from undercut._jit.dual_face import add_rows, face_direction
from undercut.solvers.coordinate.pointwise_dual import PointwiseDual
from undercut.types import Array, FloatArray

if TYPE_CHECKING:
    from undercut.solvers.coordinate.pointwise_descent import PointwiseDescent

FIRST = 30  # passes of sweeps before the first attempt: easy problems are solved by then
SWEEPS = 5  # between attempts, at least
FEWEST, MOST = 10, 400  # steps of conjugate gradients in one attempt
LONGEST_WAIT = 160  # sweeps between attempts that do not pay
ACCURACY = 1e-2  # of the residual
SLICE = 15_000_000  # entries of X that one step may use: a fraction of a second
SHORTER, MAX_TRIALS = 0.3, 8  # of the projected step


@dataclass(eq=False)
class Face:
    """What earlier attempts say about the next one."""

    steps: int = FEWEST
    wait: int = SWEEPS
    next_sweep: int = 0
    last_work: int = 0
    last_value: float = -math.inf

    def improve(self, at: PointwiseDescent) -> None:
        """Make an attempt where its time has come."""
        dual = at.dual
        if not dual.is_quadratic or at.work < FIRST * dual.pass_work or at.sweeps < self.next_sweep:
            return
        value = _value(dual, at.a, at.v, at.b, at.rho)
        if self.last_value == -math.inf:  # the sweeps' own rate is not known yet
            self._note(at, value)
            return
        rate = (value - self.last_value) / max(1, at.work - self.last_work)
        before = at.work
        gained = self._attempt(at, value)
        pays = gained > rate * (at.work - before)
        self.steps = min(2 * self.steps, MOST) if pays else max(self.steps // 2, FEWEST)
        self.wait = SWEEPS if pays else min(2 * self.wait, LONGEST_WAIT)
        self._note(at, value + gained)

    def _note(self, at: PointwiseDescent, value: float) -> None:
        self.next_sweep = at.sweeps + self.wait
        self.last_work, self.last_value = at.work, value

    def _attempt(self, at: PointwiseDescent, value: float) -> float:
        """Move ``at`` along the direction of the face, as far as the dual grows; by how much it has grown."""
        dual, face = at.dual, _inside(at.dual, at.a)
        if face.size == 0:
            return 0.0
        product = dual.work_of(face)
        max_steps = min(self.steps, 1 + SLICE // (2 * product))
        change, steps = face_direction(
            *dual.rows, dual.terms, dual.zone, at.rho, face, at.a, at.v, at.b, max_steps, ACCURACY
        )
        at.work += (1 + 2 * steps) * product // 2
        gained, share = 0.0, 1.0
        low, high = _interval(dual, at.a, face)
        start = at.a[face]
        start_v, start_b = at.v, at.b
        for _ in range(MAX_TRIALS):
            moved = np.clip(start + share * change, low, high) - start
            a, v, b = at.a.copy(), start_v.copy(), start_b + at.rho * float(moved.sum())
            a[face] = start + moved
            add_rows(*dual.rows, face, moved, v)
            at.work += product // 2
            more = _value(dual, a, v, b, at.rho) - value
            if more > gained:
                gained, at.a, at.v, at.b = more, a, v, b
            elif gained > 0.0:
                break
            share *= SHORTER
        return gained


def _inside(dual: PointwiseDual, a: FloatArray) -> Array:
    """The samples strictly inside their intervals, and not at the kink at zero."""
    inside = (a > dual.low) & (a < dual.high)
    return np.flatnonzero(inside & (a != 0.0) if dual.zone > 0.0 else inside)


def _interval(dual: PointwiseDual, a: FloatArray, face: Array) -> tuple[FloatArray, FloatArray]:
    """The intervals of some samples, ended at zero where the dual has a kink there."""
    low, high = dual.low[face], dual.high[face]
    if dual.zone > 0.0:
        return np.where(a[face] > 0.0, 0.0, low), np.where(a[face] < 0.0, 0.0, high)
    return low, high


def _value(dual: PointwiseDual, a: FloatArray, v: FloatArray, b: float, rho: float) -> float:
    """The dual that the sweeps see, over m: with its constraint in the augmented Lagrangian."""
    value = float(dual.gains(a).sum()) - 0.5 * float(v @ v)
    if rho > 0.0:
        excess = float(a.sum())
        value -= (b - 0.5 * rho * excess) * excess
    return value
