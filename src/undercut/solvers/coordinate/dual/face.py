"""Conjugate gradients on the face of the dual that the sweeps have found (Moré and Toraldo 1991).

Coordinate descent finds quickly which variables are at an end of their interval, but where the regularization is weak
it takes thousands of sweeps for the values of the others.  For those the dual is a quadratic, which conjugate gradients
maximize in far fewer passes; the end is projected on the domain, and accepted if the dual has grown.  How far it goes,
and how much it grew per unit of work, beside the sweeps before, decides how long the next attempt is and how soon it
comes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

from typing_extensions import override

from undercut.solvers.coordinate.dual.descent import D, Descent, Due
from undercut.types import FloatArray

MOST = 1000  # steps of conjugate gradients in one attempt
ACCURACY = 1e-2  # of the residual
SHORTER, MAX_TRIALS = 0.3, 8  # of the projected step
SOON = 4  # passes of sweeps before the first attempt, after a run with another lambda that needed one
FIRST_GAP = 0.1  # estimate, relative to the objective, at which the first certificate is worthwhile
SURPLUS = 10.0  # times too large that the estimate may be before the first certificate
SURE = 0.8  # share of the gap at which the run ends that the next certificate is to show
FAR = 0.5  # share of the way of a search that makes it a success


class Pace(NamedTuple):
    """When attempts come, and how long they are at least."""

    first: float  # passes of sweeps that show a problem to be hard (``is_hard``), after which attempts are considered
    sweeps: int  # between attempts, at least
    longest_wait: int  # sweeps between attempts that do not pay
    fewest: int  # steps of conjugate gradients in one attempt


@dataclass(frozen=True, eq=False, kw_only=True)
class Search:
    """Conjugate gradients under way; the sweeps wait for their end."""

    change: FloatArray  # of the variables on the face, so far
    residual: FloatArray
    direction: FloatArray
    product: int  # work of one step
    goal: float  # squared residual at which it ends
    left: int  # steps
    began: int  # work

    def copy(self) -> Self:
        """The same state in arrays of its own."""
        own = {name: getattr(self, name).copy() for name in ("change", "residual", "direction")}
        return replace(self, **own)


class Point(NamedTuple):
    """A dual point and what belongs to it."""

    value: float  # of the dual that the sweeps see, over m
    a: FloatArray
    v: FloatArray
    b: float = 0.0


@dataclass(eq=False)
class Face:
    """What earlier attempts say about the next one."""

    steps: int = 0  # of the next attempt, if more than the fewest
    wait: int = 0  # sweeps, if more than the fewest
    next_sweep: int = 0
    last_work: int = 0
    last_value: float = -math.inf
    is_followed: bool = False  # whether a run with another lambda has needed attempts
    search: Search | None = None

    def copy(self) -> Face:
        """The same state in arrays of its own."""
        return replace(self, search=self.search and self.search.copy())

    @property
    def has_begun(self) -> bool:
        """Whether the sweeps have taken so long that attempts are considered."""
        return self.last_value > -math.inf

    def followed(self) -> Face:
        """For the next lambda: where attempts were needed they come early."""
        return Face(is_followed=True) if self.has_begun else Face()

    def consider(self, at: FacedDescent[Any]) -> None:
        """Begin an attempt where its time has come."""
        first = SOON if self.is_followed else at.pace.first
        if not at.has_face or not at.is_hard(first) or at.sweeps < self.next_sweep:
            return
        if not self.has_begun:  # the sweeps' own rate is not known yet
            self._note(at, at.value())
        else:
            self.search = at.search(max(self.steps, at.pace.fewest))

    def go_on(self, at: FacedDescent[Any], search: Search, budget: int) -> None:
        """Continue an attempt, and end it where it has converged or had its steps."""
        taken, ends = at.follow(search, min(max(search.left, at.pace.fewest), 1 + budget // search.product))
        at.work += max(1, taken) * search.product
        self.search = replace(search, left=search.left - taken)
        if ends or self.search.left <= 0:
            self.search, is_over = at.renewed(self.search)
            if is_over:
                self._end(at, self.search)
                self.search = None

    def _end(self, at: FacedDescent[Any], search: Search) -> None:
        value = at.value()
        rate = (value - self.last_value) / max(1, search.began - self.last_work)
        gained, share = at.move(search, value)
        pays = gained > rate * (at.work - search.began)
        steps = max(self.steps, at.pace.fewest)
        if share <= FAR:
            self.steps = steps // 2
        elif search.left <= 0:
            self.steps = min(2 * steps, MOST)
        self.wait = 0 if pays else min(2 * max(self.wait, at.pace.sweeps), at.pace.longest_wait)
        self._note(at, value + gained)
        at.settle(search)

    def _note(self, at: FacedDescent[Any], value: float) -> None:
        self.next_sweep = at.sweeps + max(self.wait, at.pace.sweeps)
        self.last_work, self.last_value = at.work, value


@dataclass(eq=False, kw_only=True)
class FacedDescent(Descent[D]):
    """Sweeps with conjugate gradients between them."""

    pace: ClassVar[Pace]
    closer: ClassVar[float]  # share of the estimate at the last certificate at which the next is worthwhile

    first: float = FIRST_GAP  # estimate, relative to the objective, at which the first certificate is worthwhile
    face: Face = field(default_factory=Face)
    gain: float = 0.0  # what the samples of the present sweep could gain by themselves: an estimate of the gap over m
    last_gain: float = math.inf  # of the sweep before
    wanted: float = math.inf  # estimate at which a certificate is worthwhile; infinite before the first one

    @property
    @override
    def due(self) -> Due:
        """Later than elsewhere as long as sweeps alone estimate the gap."""
        return super().due if self.face.has_begun else Due(8, 1.0, 1.0)

    @property
    def surplus(self) -> float:
        """How many times too large the estimate may be before the first certificate."""
        return SURPLUS

    @property
    @abstractmethod
    def has_face(self) -> bool:
        """Whether the dual is a quadratic on a face."""

    def is_hard(self, first: float) -> bool:
        """Whether attempts are considered; ``first`` : passes after which they are."""
        return self.work >= first * self.dual.pass_work

    @abstractmethod
    def value(self) -> float:
        """The dual that the sweeps see, over m."""

    @abstractmethod
    def search(self, steps: int) -> Search | None:
        """The start of conjugate gradients on the present face; ``None`` where it is a point."""

    @abstractmethod
    def follow(self, search: Search, max_steps: int) -> tuple[int, bool]:
        """Take steps of a search, in its arrays; (steps taken, whether it is at its end)."""

    @abstractmethod
    def trial(self, search: Search, share: float) -> Point:
        """The projection of the point at a share of the way that a search has gone."""

    @abstractmethod
    def take(self, point: Point) -> None:
        """Move to a trial."""

    def renewed(self, search: Search) -> tuple[Search, bool]:
        """The next round of a search whose steps have ended, and whether there is none."""
        return search, True

    def move(self, search: Search, value: float) -> tuple[float, float]:
        """Go the way of a search as far as the dual grows; (growth, share of the way).

        ``value`` : the dual at the present point.  The end is projected, and the way shortened as long as it grows.
        """
        return _shortened(self, search, value)

    def settle(self, search: Search) -> None:
        """What follows the end of a search."""

    @override
    def settled(self) -> Self:
        if self.face.search is None:
            return self
        point = self.trial(self.face.search, 1.0)
        return replace(self, a=point.a, v=point.v, work=self.work + self.face.search.product)

    @override
    def copy(self) -> Self:
        return replace(super().copy(), face=self.face.copy())

    @override
    def _advance(self, budget: int) -> None:
        if self.face.search is None:
            super()._advance(budget)
        else:
            self.face.go_on(self, self.face.search, budget)

    @override
    def _end_sweep(self) -> None:
        super()._end_sweep()
        if not self.is_ripe:  # during a search a certificate tells the sweeps nothing
            self.face.consider(self)
        if self.gain <= self._wanted():
            self.is_ripe, self.wanted = True, self.closer * self.gain
        self.last_gain, self.gain = self.gain, 0.0

    def _wanted(self) -> float:
        return self.wanted if self.wanted < math.inf else self.first * (self.gain + self.value())

    @override
    def aim(self, goal: float) -> None:
        self.first = min(self.surplus * goal, FIRST_GAP) if goal > 0.0 else FIRST_GAP

    @override
    def seen(self, scores: FloatArray, gap: float, goal: float) -> None:
        share = min(SURE * goal / gap, 1.0) if goal > 0.0 and gap > 0.0 else self.closer
        self.wanted = share * self.look_around(scores, gap)

    def look_around(self, scores: FloatArray, gap: float) -> float:
        """The estimate of the gap, over m, at a point with these scores; samples may come back."""
        return self.last_gain


def _shortened(at: FacedDescent[Any], search: Search, value: float) -> tuple[float, float]:
    best, best_share, share = None, 0.0, 1.0
    for _ in range(MAX_TRIALS):
        point = at.trial(search, share)
        at.work += search.product // 2
        if point.value > (value if best is None else best.value):
            best, best_share = point, share
        elif best is not None:
            break
        share *= SHORTER
    if best is None:
        return 0.0, 0.0
    at.take(best)
    return best.value - value, best_share
