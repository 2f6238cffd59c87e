"""Where the scenarios of progressive hedging are: in this process, or beside their shards on the workers of a cluster.

On a cluster the client knows only the mean w of the points ``z_k``.  That is enough if some are lost with their worker:
``sum_k p_k z_k = w`` holds at every step, so what is missing of the sum is divided among the lost scenarios.  A single
one gets back exactly its point, and with several the prices still sum to zero, which is all that the bound and
convergence need.  Questions name the step they are about, so that one that is asked again is answered again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np
from typing_extensions import override

from undercut.contracts import Risk
from undercut.errors import ClusterError
from undercut.maps.parts import LocalParts, Parts, added
from undercut.risks.combined.sharded import ShardedRisk
from undercut.solvers.hedging.programs import Order, Programs, Scenario
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


@dataclass(frozen=True)
class StoreHere(Store):
    """Scenarios in this process."""

    risk: ShardedRisk
    scenarios: list[Scenario]

    @classmethod
    def begin(cls, risk: ShardedRisk, start: FloatArray) -> StoreHere:
        return cls(risk, [Scenario.at(start)] * risk.weights.size)

    @override
    def advanced(self, programs: Programs, order: Order) -> tuple[Store, FloatArray]:
        scenarios = self.risk.map(lambda shard, one: programs.advance(shard, one, order), self.scenarios)
        return StoreHere(self.risk, scenarios), self._averaged([programs.report(one) for one in scenarios])

    @override
    def mean(self, question: Question, order: Order, items: Sequence[Any]) -> FloatArray:
        return self._averaged(
            self.risk.map(lambda shard, one, item: question(shard, one, order, item), self.scenarios, items)
        )

    @override
    def each(self, question: Callable[..., Any], order: Order) -> list[Any]:
        return self.risk.map(lambda shard, one: question(shard, one, order), self.scenarios)

    def _averaged(self, answers: list[FloatArray]) -> FloatArray:
        return np.asarray(self.risk.weights @ np.stack(answers))


class Held(NamedTuple):
    """A scenario beside its shard, at two steps: the last one is asked for again if another worker is lost."""

    run: str
    step: int
    now: Scenario
    last: Scenario

    def at(self, run: str, step: int) -> Scenario | None:
        """The scenario after a step of a run, if it is known."""
        if run != self.run or step not in (self.step, self.step - 1):
            return None
        return self.now if step == self.step else self.last


_held: WeakKeyDictionary[Risk, Held] = WeakKeyDictionary()  # on a worker, for the shards that it has


@dataclass(frozen=True)
class StoreThere(Store):
    """Scenarios on the workers of a cluster."""

    parts: Parts
    weights: FloatArray
    center: FloatArray  # the mean of their points
    run: str
    step: int = 0

    @classmethod
    def begin(cls, parts: Parts, weights: FloatArray, start: FloatArray) -> StoreThere:
        return cls(parts, weights, start, uuid4().hex)

    @override
    def advanced(self, programs: Programs, order: Order) -> tuple[Store, FloatArray]:
        report = self._complete(lambda: self._total(_advance, programs, order))
        store = StoreThere(self.parts, self.weights, report[: self.center.size], self.run, self.step + 1)
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
        return StoreHere.begin(risk, start)
    return StoreThere.begin(risk.parts, risk.weights, start)


def _lost() -> ClusterError:
    return ClusterError(
        f"workers were lost {ATTEMPTS} times in one step of progressive hedging: look into the logs of the workers"
    )


def _scenario(shard: Risk, run: str, step: int) -> Scenario | None:
    held = _held.get(shard)
    return None if held is None else held.at(run, step)


def _begin(shard: Risk, run: str, step: int, z: FloatArray) -> None:
    _held[shard] = Held(run, step, Scenario.at(z), Scenario.at(z))


def _advance(
    shard: Risk, run: str, step: int, programs: Programs, order: Order, item: tuple[int, float]
) -> tuple[Any, list[int]]:
    k, weight = item
    after = _scenario(shard, run, step + 1)
    if after is None:
        before = _scenario(shard, run, step)
        if before is None:
            return 0.0, [k]
        after = programs.advance(shard, before, order)
        _held[shard] = Held(run, step + 1, after, before)
    return weight * programs.report(after), []


def _ask(
    shard: Risk, run: str, step: int, question: Question, order: Order, item: tuple[int, float, Any]
) -> tuple[Any, list[int]]:
    k, weight, given = item
    scenario = _scenario(shard, run, step)
    return (0.0, [k]) if scenario is None else (weight * question(shard, scenario, order, given), [])


def _tell(shard: Risk, run: str, step: int, question: Callable[..., Any], order: Order) -> Any:
    scenario = _scenario(shard, run, step)
    return None if scenario is None else question(shard, scenario, order)


def _point(shard: Risk, run: str, step: int, item: tuple[int, float]) -> tuple[Any, list[int]]:
    k, weight = item
    scenario = _scenario(shard, run, step)
    return (0.0, [k]) if scenario is None else (weight * scenario.z, [])
