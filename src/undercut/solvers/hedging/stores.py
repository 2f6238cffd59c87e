"""Where the scenarios of progressive hedging are: in this process, or beside their shards on the workers of a cluster.

On a cluster the client knows only the mean w of the points ``z_k``.  That is enough if some are lost with their worker:
``sum_k p_k z_k = w`` holds at every step, so what is missing of the sum is divided among the lost scenarios.  A single
one gets back exactly its point, and with several the prices still sum to zero, which is all that the bound and
convergence need.  Questions name the step they are about, so that one that is asked again is answered again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np
from typing_extensions import override

from undercut.errors import ClusterError
from undercut.maps.parts import Delay, LocalParts, Parts, added
from undercut.risks.combined.sharded import ShardedRisk
from undercut.solvers.hedging.programs import Order, Programs, Scenario
from undercut.threads import exclusive
from undercut.types import FloatArray

ATTEMPTS = 10  # questions that find some scenarios lost, one after the other

Question = Callable[..., FloatArray]  # of a shard, its scenario and more


class Store(ABC):
    """The scenarios of a run after a step; immutable."""

    @abstractmethod
    def advanced(self, programs: Programs, order: Order) -> tuple[Store, FloatArray]:
        """The scenarios after one more step, and the mean of their reports."""

    @abstractmethod
    def mean(self, question: Question, order: Order, items: Sequence[Any]) -> FloatArray:
        """The weighted mean of ``question(shard, scenario, order, item)``."""

    @abstractmethod
    def each(self, question: Callable[..., Any], order: Order) -> list[Any]:
        """``question(shard, scenario, order)`` of every scenario."""

    @abstractmethod
    def drawn(
        self, programs: Programs, order: Order, draws: Sequence[int], delay: Delay
    ) -> tuple[Store, FloatArray, float]:
        """Advance one scenario after the other, each by the mean known then; the last mean, and the evaluations."""


@dataclass(frozen=True)
class LocalStore(Store):
    """Scenarios in this process."""

    risk: ShardedRisk
    scenarios: list[Scenario]

    @classmethod
    def begin(cls, risk: ShardedRisk, start: FloatArray) -> LocalStore:
        return cls(risk, [Scenario.at(start)] * risk.weights.size)

    @override
    def advanced(self, programs: Programs, order: Order) -> tuple[Store, FloatArray]:
        scenarios = self.risk.map(lambda shard, one: programs.advance(shard, one, order), self.scenarios)
        return LocalStore(self.risk, scenarios), self._averaged([programs.report(one) for one in scenarios])

    @override
    def mean(self, question: Question, order: Order, items: Sequence[Any]) -> FloatArray:
        return self._averaged(
            self.risk.map(lambda shard, one, item: question(shard, one, order, item), self.scenarios, items)
        )

    @override
    def each(self, question: Callable[..., Any], order: Order) -> list[Any]:
        return self.risk.map(lambda shard, one: question(shard, one, order), self.scenarios)

    @override
    def drawn(
        self, programs: Programs, order: Order, draws: Sequence[int], delay: Delay
    ) -> tuple[Store, FloatArray, float]:
        scenarios, mean = list(self.scenarios), RunningMean(order, self.risk.weights)

        def advance(shard: Any, now: Order, k: int, n_moves: int) -> Scenario:
            scenarios[k] = programs.advance(shard.risk, scenarios[k], now)
            return scenarios[k]

        self.risk.parts.streamed(advance, draws, mean.now, mean.take, delay)
        center = np.asarray(self.risk.weights @ np.stack([one.z for one in scenarios]))
        return LocalStore(self.risk, scenarios), center, mean.spent

    def _averaged(self, answers: list[FloatArray]) -> FloatArray:
        return np.asarray(self.risk.weights @ np.stack(answers))


class RunningMean:
    """The mean of the points while scenarios move one by one."""

    def __init__(self, order: Order, weights: FloatArray) -> None:
        self.order, self.weights, self.spent = order, weights, 0.0
        self.moves = Counter[int]()  # of each scenario that are part of the mean

    def now(self, k: int) -> tuple[Order, int, int]:
        """What scenario k is told: the mean, and how many of its own moves that includes."""
        return self.order, k, self.moves[k]

    def take(self, k: int, moved: Scenario | None) -> None:
        """Move the mean with scenario k, unless that was lost."""
        if moved is not None:
            self.moves[k] += 1
            self.order = self.order._replace(center=self.order.center + self.weights[k] * moved.move)
            self.spent += float(self.weights[k]) * moved.spent


class Held(NamedTuple):
    """A scenario beside its shard, at two steps: the last one is asked for again if another worker is lost."""

    run: str
    step: int
    now: Scenario
    last: Scenario
    moves: tuple[Scenario, ...] = ()  # after each move of an asynchronous step

    def at(self, run: str, step: int) -> Scenario | None:
        """The scenario after a step of a run, if it is known."""
        if run != self.run or step not in (self.step, self.step - 1):
            return None
        return self.now if step == self.step else self.last


_held: WeakKeyDictionary[Any, Held] = WeakKeyDictionary()  # on a worker, for the shards that it has


@dataclass(frozen=True)
class ClusterStore(Store):
    """Scenarios on the workers of a cluster."""

    parts: Parts
    weights: FloatArray
    center: FloatArray  # the mean of their points
    run: str
    step: int = 0

    @classmethod
    def begin(cls, parts: Parts, weights: FloatArray, start: FloatArray) -> ClusterStore:
        return cls(parts, weights, start, uuid4().hex)

    @override
    def advanced(self, programs: Programs, order: Order) -> tuple[Store, FloatArray]:
        report = self._complete(lambda: self._total(_advance, programs, order))
        store = ClusterStore(self.parts, self.weights, report[: self.center.size], self.run, self.step + 1)
        return store, report

    @override
    def mean(self, question: Question, order: Order, items: Sequence[Any]) -> FloatArray:
        return self._complete(lambda: self._total(_ask, question, order, items=items))

    @override
    def each(self, question: Callable[..., Any], order: Order) -> list[Any]:
        for _ in range(ATTEMPTS):
            answers = self.parts.each(_tell, self.run, self.step, question, order)
            if all(answer is not None for answer in answers):
                return answers
            self._restore()
        raise _lost()

    @override
    def drawn(
        self, programs: Programs, order: Order, draws: Sequence[int], delay: Delay
    ) -> tuple[Store, FloatArray, float]:
        mean = RunningMean(order, self.weights)
        self._complete(lambda: self._total(_point))
        self.parts.streamed(partial(_draw, self.run, self.step, programs), draws, mean.now, mean.take, delay)
        after = replace(self, center=mean.order.center)
        center = after._complete(lambda: after._total(_settle))
        return replace(after, center=center, step=self.step + 1), center, mean.spent

    def _total(self, function: Callable[..., Any], *shared: Any, items: Sequence[Any] = ()) -> Any:
        """The weighted sum of the answers, and the numbers of the scenarios that are lost."""
        given = [(k, float(weight), *items[k : k + 1]) for k, weight in enumerate(self.weights)]
        return self.parts.total(function, self.run, self.step, *shared, add=added, items=given)

    def _complete(self, ask: Callable[[], Any]) -> FloatArray:
        """The answer of all scenarios, the lost ones restored."""
        for _ in range(ATTEMPTS):
            answer, lost = ask()
            if not lost:
                return np.asarray(answer)
            self._restore()
        raise _lost()

    def _restore(self) -> None:
        """Give the lost scenarios what is missing of the mean."""
        known, lost = self._total(_point)
        if lost:
            z = (self.center - known) / self.weights[lost].sum()
            self.parts.each(_begin, self.run, self.step, z, which=lost)


def stored(risk: ShardedRisk, start: FloatArray) -> Store:
    """Scenarios beside the shards of a risk, all at the same point."""
    if isinstance(risk.parts, LocalParts):
        return LocalStore.begin(risk, start)
    return ClusterStore.begin(risk.parts, risk.weights, start)


def _lost() -> ClusterError:
    return ClusterError(
        f"workers were lost {ATTEMPTS} times in one step of progressive hedging: look into the logs of the workers"
    )


def _scenario(shard: Any, run: str, step: int) -> Scenario | None:
    held = _held.get(shard)
    return None if held is None else held.at(run, step)


def _begin(shard: Any, run: str, step: int, z: FloatArray) -> None:
    _held[shard] = Held(run, step, Scenario.at(z), Scenario.at(z))


def _advance(
    shard: Any, run: str, step: int, programs: Programs, order: Order, item: tuple[int, float]
) -> tuple[Any, list[int]]:
    k, weight = item
    after = _scenario(shard, run, step + 1)
    if after is None:
        before = _scenario(shard, run, step)
        if before is None:
            return 0.0, [k]
        after = programs.advance(shard.risk, before, order)
        _held[shard] = Held(run, step + 1, after, before)
    return weight * programs.report(after), []


def _ask(
    shard: Any, run: str, step: int, question: Question, order: Order, item: tuple[int, float, Any]
) -> tuple[Any, list[int]]:
    k, weight, given = item
    scenario = _scenario(shard, run, step)
    return (0.0, [k]) if scenario is None else (weight * question(shard.risk, scenario, order, given), [])


def _draw(run: str, step: int, programs: Programs, shard: Any, now: Order, k: int, n_moves: int) -> Scenario | None:
    """Solve the program at the point that belongs to the mean, and add its move to whatever the point is now."""
    with exclusive(shard):
        latest = _scenario(shard, run, step)
        if latest is None:
            return None
        before = _held[shard].moves or (latest,)
        moved = programs.advance(shard.risk, before[min(n_moves, len(before) - 1)], now)
        after = replace(moved, z=latest.z + moved.move)
        _held[shard] = Held(run, step, after, after, (*before, after))
    return replace(moved, z=moved.z[:0], copy=moved.copy[:0])  # only the move travels


def _settle(shard: Any, run: str, step: int, item: tuple[int, float]) -> tuple[Any, list[int]]:
    """The point, which counts as that of the next step."""
    k, weight = item
    scenario = _scenario(shard, run, step + 1) or _scenario(shard, run, step)
    if scenario is None:
        return 0.0, [k]
    _held[shard] = Held(run, step + 1, scenario, scenario)
    return weight * scenario.z, []


def _tell(shard: Any, run: str, step: int, question: Callable[..., Any], order: Order) -> Any:
    scenario = _scenario(shard, run, step)
    return None if scenario is None else question(shard.risk, scenario, order)


def _point(shard: Any, run: str, step: int, item: tuple[int, float]) -> tuple[Any, list[int]]:
    k, weight = item
    scenario = _scenario(shard, run, step)
    return (0.0, [k]) if scenario is None else (weight * scenario.z, [])
