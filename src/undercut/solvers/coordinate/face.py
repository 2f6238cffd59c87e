"""Conjugate gradients on the face of the dual that the sweeps have found (Moré and Toraldo 1991).

Coordinate descent finds quickly which variables are at an end of their interval, but where the regularization is weak
it takes thousands of sweeps for the values of the others.  For those the dual is a quadratic, which conjugate gradients
maximize in far fewer passes; the end is projected on the intervals, and accepted if the dual has grown.  How much it
grew per unit of work, beside the sweeps before, decides how long the next attempt is and how soon it comes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from undercut._jit.dual_face import add_rows, face_residual, face_steps
from undercut.solvers.coordinate.pointwise_dual import PointwiseDual
from undercut.types import Array, FloatArray

if TYPE_CHECKING:
    from undercut.solvers.coordinate.pointwise_descent import PointwiseDescent

FIRST = 15  # passes of sweeps before the first attempt: easy problems are solved by then
SWEEPS = 10  # between attempts, at least
FEWEST, MOST = 10, 1000  # steps of conjugate gradients in one attempt
LONGEST_WAIT = 160  # sweeps between attempts that do not pay
ACCURACY = 1e-2  # of the residual
SHORTER, MAX_TRIALS = 0.3, 8  # of the projected step


@dataclass(frozen=True, eq=False)
class Search:
    """Conjugate gradients under way; the sweeps wait for their end."""

    face: Array
    change: FloatArray  # of a[face], so far
    residual: FloatArray
    direction: FloatArray
    product: int  # work of one step
    goal: float  # squared residual at which it ends
    left: int  # steps
    began: int  # work

    def copy(self) -> Search:
        """The same state in arrays of its own."""
        own = {name: getattr(self, name).copy() for name in ("change", "residual", "direction")}
        return replace(self, **own)


@dataclass(eq=False)
class Face:
    """What earlier attempts say about the next one."""

    steps: int = FEWEST
    wait: int = SWEEPS
    next_sweep: int = 0
    last_work: int = 0
    last_value: float = -math.inf
    search: Search | None = None

    def copy(self) -> Face:
        """The same state in arrays of its own."""
        return replace(self, search=self.search and self.search.copy())

    def consider(self, at: PointwiseDescent) -> None:
        """Begin an attempt where its time has come."""
        if not at.dual.is_quadratic or at.work < FIRST * at.dual.pass_work or at.sweeps < self.next_sweep:
            return
        if self.last_value == -math.inf:  # the sweeps' own rate is not known yet
            self._note(at, at.value(at.a, at.v, at.b))
        else:
            self.search = _begin(at, self.steps)

    def go_on(self, at: PointwiseDescent, search: Search, budget: int) -> None:
        """Continue an attempt, and end it where it has converged or had its steps."""
        dual = at.dual
        max_steps = min(search.left, 1 + budget // search.product)
        vectors = search.change, search.residual, search.direction
        taken, ends = face_steps(
            *dual.rows, dual.terms, at.rho, search.face, *vectors, np.empty_like(at.v), search.goal, max_steps
        )
        at.work += max(1, taken) * search.product
        self.search = replace(search, left=search.left - taken)
        if ends or self.search.left <= 0:
            self.search = None
            self._end(at, search)

    def _end(self, at: PointwiseDescent, search: Search) -> None:
        value = at.value(at.a, at.v, at.b)
        rate = (value - self.last_value) / max(1, search.began - self.last_work)
        gained, share = _move(at, search, value)
        pays = gained > rate * (at.work - search.began)
        self.steps = min(2 * self.steps, MOST) if share == 1.0 else max(self.steps // 2, FEWEST)
        self.wait = SWEEPS if pays else min(2 * self.wait, LONGEST_WAIT)
        self._note(at, value + gained)

    def _note(self, at: PointwiseDescent, value: float) -> None:
        self.next_sweep = at.sweeps + self.wait
        self.last_work, self.last_value = at.work, value


def _begin(at: PointwiseDescent, steps: int) -> Search | None:
    face = _inside(at.dual, at.a)
    if face.size == 0:
        return None
    residual = np.empty(face.size)
    face_residual(*at.dual.rows, at.dual.terms, at.dual.zone, face, at.a, at.v, at.b, residual)
    goal = ACCURACY**2 * float(residual @ residual)
    work = at.dual.work_of(face)
    return Search(face, np.zeros(face.size), residual, residual.copy(), work, goal, steps, at.work)


def _move(at: PointwiseDescent, search: Search, value: float) -> tuple[float, float]:
    """Project the end of a search on the intervals and shorten it as long as the dual grows; (growth, share of it)."""
    dual, face = at.dual, search.face
    low, high = _interval(dual, at.a, face)
    old_a, old_v, old_b = at.a, at.v, at.b
    gained, best, share = 0.0, 0.0, 1.0
    for _ in range(MAX_TRIALS):
        moved = np.clip(old_a[face] + share * search.change, low, high) - old_a[face]
        a, v, b = old_a.copy(), old_v.copy(), old_b + at.rho * float(moved.sum())
        a[face] += moved
        add_rows(*dual.rows, face, moved, v)
        at.work += search.product // 2
        growth = at.value(a, v, b) - value
        if growth > gained:
            gained, best, at.a, at.v, at.b = growth, share, a, v, b
        elif gained > 0.0:
            break
        share *= SHORTER
    return gained, best


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
