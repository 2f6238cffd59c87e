"""Planes of a risk that is not convex, lowered until they lie below it around the best point (Do and Artières 2012).

A tangent of such a risk may cut through it elsewhere.  Every plane carries its locality s, a distance from where it was
taken to the best point w* along the path the best points took, and must leave that much room there:

    R(w*) - <a, w*> - b  >=  s                                   (14)

The model is then a local underestimator, and its minimum says nothing about the risk far away.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from undercut.contracts import Cut, QuadraticRegularizer
from undercut.errors import NonfiniteError
from undercut.solvers.bounds import ROUNDING, cut_size
from undercut.solvers.bundle.bundle import Bundle, Model, PlaneModel
from undercut.solvers.bundle.plane_rows import PlaneRows
from undercut.types import FloatArray


class Trial(NamedTuple):
    """A point where the risk was evaluated."""

    w: FloatArray
    cut: Cut
    objective: float  # J(w)


class Kind(Enum):
    """What a new plane did."""

    DESCENT = "the best point moved"
    NULL = "the model got better around it"
    NULL2 = "the plane was of no use there and was replaced"


class LocalBundle(PlaneModel):
    """A quadratic bundle whose planes satisfy (14) at the best point."""

    def __init__(
        self, reg: QuadraticRegularizer, n_params: int, lower_bound: float, rows: PlaneRows | None = None
    ) -> None:
        self.reg = reg
        self.bundle = Bundle(reg, n_params, lower_bound, rows)
        self.planes = self.bundle.planes
        self.locality = np.zeros(self.planes.capacity)  # the flat plane lies below R everywhere: it keeps zero

    @override
    def minimize(self, tol: float) -> Model:
        return self.bundle.minimize(tol)

    @override
    def add(self, cut: Cut) -> None:
        """Take in the plane at the best point."""
        self._set_locality(self.planes.insert(cut.a, cut.b, cut_size(cut)), 0.0)

    @override
    def make_room(self, max_planes: int) -> None:
        """Drop planes until one more fits; the aggregated plane replaces one that still has weight."""
        while (slot := self.planes.surplus(max_planes)) is not None:
            if self.bundle.master.alpha[slot] > 0.0:
                self._stand_in()
            self.planes.free(np.array([slot]))

    def absorb(self, trial: Trial, best: Trial) -> Kind:
        """Take in the plane of a trial, and move the best point if the trial is better (Alg. 5)."""
        trial = self._as_stored(trial)
        distance = self._distance(trial.w, best.w)
        if not math.isfinite(distance):
            raise NonfiniteError("the way from the best point overflows: use a larger lambda")
        if trial.objective < best.objective:
            self._move(trial, distance)
            self._add(trial.cut.a, trial.cut.b, 0.0)
            return Kind.DESCENT
        room = self._room(trial.cut.a, best, distance)  # U in (17): the largest offset that satisfies (14)
        if trial.cut.b <= room:
            self._add(trial.cut.a, trial.cut.b, distance)
            return Kind.NULL
        return self._resolve_conflict(trial, best, distance, room)

    def aggregate(self) -> None:
        """Put the aggregated plane of the last minimization in place of the one before (Sec. 3.2.4).

        Its offset will be lowered on its own, hence less than those of the planes it is made of: it is not redundant.
        """
        planes, top = self.planes, self.planes.top
        alpha = self.bundle.master.alpha[:top]
        a, b, locality = planes.rows.combined(alpha), float(alpha @ planes.b[:top]), float(alpha @ self.locality[:top])
        last = planes.aggregate
        weight = 0.0 if last is None else alpha[last]
        self._set_locality(planes.insert_aggregate(a, b, abs(b)), locality)
        if weight > 0.0:  # else the planes themselves say the same, and the master can go on from them
            self._stand_in()

    def _stand_in(self) -> None:
        """Let the aggregated plane have all the weight: it has the same minimum as the planes it is made of."""
        self.bundle.master.reset(np.arange(self.planes.capacity) == self.planes.aggregate)

    def _as_stored(self, trial: Trial) -> Trial:
        """The trial with its plane as it is stored, which still touches the risk there."""
        a = self.planes.rows.rounded(trial.cut.a)
        if a is trial.cut.a:
            return trial
        return trial._replace(cut=Cut(a, trial.cut.value - float(a @ trial.w), trial.cut.value))

    def _resolve_conflict(self, trial: Trial, best: Trial, distance: float, room: float) -> Kind:
        """Lower the plane as far as the model still improves at the trial (Alg. 6), or replace it."""
        at_trial = best.objective - self.reg.value(trial.w)
        lowest = at_trial - float(trial.cut.a @ trial.w)  # L in (17): the model reaches J(w*) at the trial
        rounding = ROUNDING * (abs(best.objective) + abs(trial.objective) + abs(trial.cut.b))
        if lowest <= room + rounding:  # where the trial is all but w* itself they are equal
            self._add(trial.cut.a, min(lowest, room), distance)
            return Kind.NULL
        a = -self.reg.gradient(best.w)  # reg + plane is smallest at w*
        self._add(a, at_trial - float(a @ trial.w), distance)
        return Kind.NULL2

    def _move(self, to: Trial, distance: float) -> None:
        """Lower the planes that lie too high at the new best point."""
        planes = self.planes
        moved = planes.live[planes.live != planes.flat]
        self.locality[moved] += distance
        room = to.cut.value - planes.rows.products(to.w, planes.top)[moved] - self.locality[moved]
        self.bundle.lower(moved, np.minimum(planes.b[moved], room))

    def _room(self, a: FloatArray, best: Trial, distance: float) -> float:
        return best.cut.value - float(a @ best.w) - distance

    def _distance(self, v: FloatArray, w: FloatArray) -> float:
        """``1/2 (v - w)' M (v - w)``, the shape of the regularizer."""
        return 0.5 * self.reg.along(w, v - w)[1]

    def _add(self, a: FloatArray, b: float, locality: float) -> None:
        self._set_locality(self.planes.insert(a, b, abs(b)), locality)

    def _set_locality(self, slot: int, locality: float) -> None:
        if self.planes.capacity > self.locality.size:
            self.locality = np.pad(self.locality, (0, self.planes.capacity - self.locality.size))
        self.locality[slot] = locality
