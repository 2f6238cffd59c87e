"""The line of a sharded risk: its scores stay with the shards, and only t and sums travel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import numpy as np
from typing_extensions import override

from undercut.contracts import Cut, Line
from undercut.maps.parts import added
from undercut.risks.combined import free_questions, questions
from undercut.risks.combined.free_questions import Axis
from undercut.risks.combined.rounds import FIRST, Search
from undercut.risks.combined.shard import Answer, How, Start, Turn, joined
from undercut.scalar import Point, minimize_convex
from undercut.types import FloatArray

if TYPE_CHECKING:
    from undercut.risks.combined.sharded import ShardedRisk


def new_key() -> str:
    """A name under which shards keep something."""
    return uuid4().hex


class Asked:
    """Questions about something that the shards keep.

    The first question tells them how to make it; a shard that has lost it since is asked again with ``again``.
    """

    def __init__(self, risk: ShardedRisk, key: str, how: How | None, again: How) -> None:
        self.risk, self.key, self._how, self.again = risk, key, how, again

    def __call__(self, question: Callable[..., tuple[Any, ...]], *given: Any) -> tuple[Any, ...]:
        """The weighted mean of all shards' answers; lists are joined."""
        parts, mass = self.risk.parts, self.risk.mass
        sums, lost = parts.total(questions.recalled, self.key, self._how, question, *given, add=joined)
        self._how = None
        if lost:
            rest: list[Answer] = parts.each(questions.recalled, self.key, self.again, question, *given, which=lost)
            for answer in rest:
                sums = answer.sums if sums is None else added(sums, answer.sums or ())
        return tuple(part if isinstance(part, list) else part / mass for part in sums)


class ShardedLine(Line):
    """R along a line without a free intercept."""

    def __init__(self, risk: ShardedRisk, w: FloatArray, direction: FloatArray, key: str, how: How) -> None:
        self.risk, self.w, self.direction, self.key = risk, w, direction, key
        self.ask = Asked(risk, key, how, Start(w, direction))
        self._known: tuple[float, float] | None = None  # t and the value there

    @classmethod
    def start(cls, risk: ShardedRisk, w: FloatArray, direction: FloatArray) -> Self:
        """The line from w."""
        w, direction = w.copy(), direction.copy()
        return cls(risk, w, direction, new_key(), Start(w, direction if direction.any() else None))

    @override
    def minimizer(self, slope: float, curvature: float, accuracy: float = 0.0) -> float:
        if not self.risk.is_piecewise:
            return minimize_convex(self._point, slope, curvature, accuracy=accuracy)
        axis = Axis(self.key, None)
        found = Search(*kink_questions(self.ask, axis), slope, curvature).first(FIRST, 0.0)
        self._known = found.at, found.value
        return found.at

    def _point(self, t: float) -> Point:
        point = Point(*self.ask(questions.trials, np.array([t]))[0][0].tolist())
        self._known = t, point.value
        return point

    @override
    def value(self, t: float) -> float:
        if self._known is None or self._known[0] != t:
            self._known = t, float(self.ask(questions.line_value, t)[0])
        return self._known[1]

    @override
    def cut(self, t: float) -> Cut:
        a, b, value = self.ask(questions.line_plane, t)
        return Cut(a, float(b), float(value))

    @override
    def turn(self, t: float, direction: FloatArray) -> Line:
        direction = direction.copy()
        return type(self)(self.risk, self.w + t * self.direction, direction, new_key(), Turn(self.key, t, direction))


def kink_questions(ask: Asked, axis: Axis) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What a search by rounds asks; numbers of kinks are counts, not means."""

    def sums(points: FloatArray) -> tuple[Any, ...]:
        own, rises, counts = ask(free_questions.kink_sums, axis, points)
        return float(own), rises, np.rint(counts * ask.risk.mass).astype(np.int64)

    def inside(low: float, high: float) -> tuple[Any, ...]:
        kinks, rises, value = ask(free_questions.kinks_inside, axis, low, high)
        return kinks, [some / ask.risk.mass for some in rises], float(value)

    return sums, inside
