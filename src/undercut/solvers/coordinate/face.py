"""Conjugate gradients on the face of the dual that the sweeps have found (Moré and Toraldo 1991).

Coordinate descent finds quickly which variables are at an end of their interval, but where the regularization is weak
it takes thousands of sweeps for the values of the others.  For those the dual is a quadratic, which conjugate gradients
maximize in far fewer passes.  Variables that leave their intervals are fixed at the end, and the others go on; once,
those that point inside are set free again.  An attempt ends at the maximum of the dual on the way to where it came; how
far that is, and how much the dual grew beside the sweeps before, decides how long and how soon the next one is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from undercut._jit.dual_coordinate import RIDGE, TARGET
from undercut._jit.dual_face import add_rows, face_residual, face_steps
from undercut.solvers.coordinate.pointwise_dual import PointwiseDual
from undercut.types import Array, FloatArray

if TYPE_CHECKING:
    from undercut.solvers.coordinate.pointwise_descent import PointwiseDescent

FIRST = 15  # passes of sweeps before the first attempt: easy problems are solved by then
SOON = 2  # the same, after a run with another lambda that needed conjugate gradients
SWEEPS = 7  # between attempts, at least
FEWEST, MOST = 20, 1000  # steps of conjugate gradients in one attempt
RELEASES = 1  # in one attempt
LONGEST_WAIT = 160  # sweeps between attempts that do not pay
ROUND = 0.1  # of the residual: then variables that left their intervals are fixed
ACCURACY = 1e-2  # the same at the end of an attempt


@dataclass(frozen=True, eq=False)
class Search:
    """Conjugate gradients under way; the sweeps wait for their end."""

    whole: Array  # the samples that were inside their intervals at the beginning
    face: Array  # those of them that are not fixed at an end
    a: FloatArray  # the point that the present conjugate gradients began from, in arrays of its own
    v: FloatArray
    change: FloatArray  # of a[face], so far
    residual: FloatArray
    direction: FloatArray
    until: float  # squared residual at which the round ends
    goal: float  # and the attempt
    left: int  # steps
    began: int  # work
    released: int = 0  # how often variables were set free again

    def is_over(self, last: Search) -> bool:
        """Whether the face is that of the last round, and the residual is small or the steps are used up."""
        if not np.array_equal(self.face, last.face):
            return self.left <= -MOST or self.face.size == 0
        return self.left <= 0 or float(self.residual @ self.residual) <= self.goal

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
    first: float = field(default_factory=lambda: FIRST)  # passes of sweeps before the first attempt
    search: Search | None = None

    def copy(self) -> Face:
        """The same state in arrays of its own."""
        return replace(self, search=self.search and self.search.copy())

    @property
    def has_begun(self) -> bool:
        """Whether the sweeps have taken so long that attempts are considered."""
        return self.last_value > -math.inf

    def followed(self) -> Face:
        """For the next lambda: where attempts were worthwhile they come early and are as long as the last ones."""
        return Face(max(self.steps // 4, FEWEST), first=SOON) if self.has_begun else Face()

    def consider(self, at: PointwiseDescent) -> None:
        """Begin an attempt where its time has come."""
        if not at.dual.is_quadratic or at.work < self.first * at.dual.pass_work or at.sweeps < self.next_sweep:
            return
        if not self.has_begun:  # the sweeps' own rate is not known yet
            self._note(at, at.value(at.a, at.v, at.b))
        else:
            self.search = _begin(at, self.steps)

    def point(self, at: PointwiseDescent) -> tuple[FloatArray, FloatArray]:
        """The feasible a that an attempt has come to, and its v."""
        if self.search is None:
            return at.a, at.v
        a, v, _ = _projected(at, self.search)
        return a, v

    def go_on(self, at: PointwiseDescent, search: Search, budget: int) -> None:
        """Continue an attempt; variables that leave their intervals are fixed at the end, and the others go on."""
        dual, product = at.dual, at.dual.work_of(search.face)
        max_steps = min(max(search.left, FEWEST), 1 + budget // product)
        vectors = search.change, search.residual, search.direction
        taken, ends = face_steps(
            *dual.rows, dual.terms, at.rho, search.face, *vectors, np.empty_like(at.v), search.until, max_steps
        )
        at.work += max(1, taken) * product
        self.search = replace(search, left=search.left - taken)
        if ends or (self.search.left <= 0 and taken == max_steps):
            at.work += product
            self.search = _fixed(at, self.search)
            if self.search.is_over(search):
                self._end(at, self.search)
                self.search, at.is_ripe = None, True
                at.bring_back()

    def _end(self, at: PointwiseDescent, search: Search) -> None:
        value = at.value(at.a, at.v, at.b)
        rate = (value - self.last_value) / max(1, search.began - self.last_work)
        gained, share = _move(at, search, value)
        pays = share > 0.5 or gained > rate * (at.work - search.began)
        if share <= 0.5:
            self.steps = max(self.steps // 2, FEWEST)
        elif search.left <= 0:
            self.steps = min(2 * self.steps, MOST)
        self.wait = SWEEPS if pays else min(2 * self.wait, LONGEST_WAIT)
        self._note(at, value + gained)

    def _note(self, at: PointwiseDescent, value: float) -> None:
        self.next_sweep = at.sweeps + self.wait
        self.last_work, self.last_value = at.work, value


def _begin(at: PointwiseDescent, steps: int) -> Search | None:
    face = _inside(at.dual, at.a)
    if face.size == 0:
        return None
    residual = _residual(at, face, at.a, at.v)
    size = float(residual @ residual)
    return Search(
        face, face, at.a, at.v, np.zeros(face.size), residual, residual.copy(), ROUND**2 * size, ACCURACY**2 * size,
        steps, at.work,
    )  # fmt: skip


def _residual(at: PointwiseDescent, face: Array, a: FloatArray, v: FloatArray) -> FloatArray:
    """The derivatives of the dual for some samples, at a point that the sweeps have not reached."""
    residual, b = np.empty(face.size), at.b + at.rho * float((a - at.a).sum())
    face_residual(*at.dual.rows, at.dual.terms, at.dual.zone, face, a, v, b, residual)
    return residual


def _fixed(at: PointwiseDescent, search: Search) -> Search:
    """The next round, from the point that the last one has found.

    Variables that have left their intervals are fixed at the end; where there are none, those are set free again whose
    derivative points inside.
    """
    a, v, has_left = _projected(at, search)
    whole = search.whole
    low, high = _interval(at.dual, at.a, whole)
    residual = _residual(at, whole, a, v)
    free = (low < a[whole]) & (a[whole] < high)
    released = search.released
    if not has_left and released < RELEASES:
        released += 1
        free |= ((a[whole] <= low) & (residual > at.dual.zone)) | ((a[whole] >= high) & (residual < -at.dual.zone))
    residual = residual[free]
    until = max(ROUND**2 * float(residual @ residual), 0.5 * search.goal)
    face = whole[free]
    return replace(
        search, face=face, a=a, v=v, change=np.zeros(face.size), residual=residual, direction=residual.copy(),
        until=until, released=released,
    )  # fmt: skip


def _projected(at: PointwiseDescent, search: Search) -> tuple[FloatArray, FloatArray, bool]:
    """a with the change of a search in its intervals, its v, and whether a variable had left its own."""
    low, high = _interval(at.dual, at.a, search.face)
    end = search.a[search.face] + search.change
    a, v = search.a.copy(), search.v.copy()
    a[search.face] = np.clip(end, low, high)
    add_rows(*at.dual.rows, search.face, a[search.face] - search.a[search.face], v)
    return a, v, bool(((end < low) | (end > high)).any())


def _move(at: PointwiseDescent, search: Search, value: float) -> tuple[float, float]:
    """Move to the maximum of the dual on the way to the end of a search; (growth, share of the way)."""
    dual, moved, turned = at.dual, search.a - at.a, search.v - at.v
    total = float(moved.sum())
    slope = float((dual.terms[:, TARGET] - dual.terms[:, RIDGE] * at.a - dual.zone * np.sign(at.a)) @ moved)
    slope -= float(turned @ at.v) + at.b * total
    curvature = float(turned @ turned) + float(dual.terms[:, RIDGE] @ moved**2) + at.rho * total**2
    share = 1.0 if slope >= curvature else slope / curvature
    if not share > 0.0:
        return 0.0, 0.0
    a, v, b = at.a + share * moved, at.v + share * turned, at.b + share * at.rho * total
    if share == 1.0:
        a = search.a
    gained = at.value(a, v, b) - value
    if not gained > 0.0:  # rounding
        return 0.0, 0.0
    at.a, at.v, at.b = a, v, b
    return gained, share


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
