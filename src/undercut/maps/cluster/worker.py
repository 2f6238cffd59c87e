"""What runs on a worker of a cluster: the tasks that load parts, ask them and add up their answers."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from distributed import get_worker

from undercut.errors import ClusterError, UndercutError
from undercut.maps.parts import naming, nbytes


@dataclass
class Held:
    """A part on its worker."""

    value: Any
    name: str

    def __sizeof__(self) -> int:
        """The bytes that moving it to another worker would take: Dask weighs them against waiting."""
        sizes: list[int] = []
        try:
            rest = pickle.dumps(self.value, protocol=5, buffer_callback=lambda block: sizes.append(block.raw().nbytes))
        except Exception:  # a value that cannot be moved stays where it is
            return sys.getsizeof(self.value)
        return len(rest) + sum(sizes)


@dataclass
class Reply:
    """The answer of one group, or of several, with what it takes to send it."""

    answer: Any
    nbytes: int
    places: list[tuple[int, str]]  # where each part was when it answered


def held(function: Callable[..., Any], given: Sequence[Any], name: str) -> Held:
    """A part that a function makes."""
    return Held(_called(function, given, name), name)


def _called(function: Callable[..., Any], given: Sequence[Any], name: str) -> Any:
    """The answer of a function, whose errors say where they happened."""
    where = f"{name} on worker {get_worker().address}"
    with naming(where), np.errstate(over="ignore", invalid="ignore"):
        try:
            return function(*given)
        except (UndercutError, OSError):
            raise
        except Exception as error:
            raise ClusterError(f"{type(error).__name__}: {error}") from error


def made(part: Held, function: Callable[..., Any], shared: tuple[Any, ...]) -> Held:
    """A part made from another."""
    return held(function, (part.value, *shared), part.name)


def crossed(parts: list[Held], k: int, function: Callable[..., Any]) -> Held:
    """A new part from all parts."""
    return held(function, ([part.value for part in parts], k), parts[k].name)


def same(value: Any) -> Any:
    """The value of a part."""
    return value


def single(part: Held, function: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    """What one part answers."""
    return _called(function, (part.value, *given), part.name)


def kept(shared: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments on one worker, from which the others fetch them."""
    return shared


def answers(parts: list[Held], numbers: list[int], function: Any, shared: Any, items: list[Any], add: Any) -> Reply:
    """What the parts of one group answer: a list of pairs of number and answer, or their sum."""
    found = [single(part, function, (*shared, *(item or ()))) for part, item in zip(parts, items, strict=True)]
    places = [(number, get_worker().address) for number in numbers]
    if add is None:
        return Reply(list(zip(numbers, found, strict=True)), nbytes(found), places)
    answer = reduce(add, found)
    return Reply(answer, nbytes(answer), places)


def merged(replies: list[Reply], add: Callable[[Any, Any], Any]) -> Reply:
    """The sum of several replies."""
    answer = reduce(add, (reply.answer for reply in replies))
    places = [place for reply in replies for place in reply.places]
    return Reply(answer, sum(reply.nbytes for reply in replies), places)


def nothing(part: Any) -> None:
    """A question whose answer is that the part is there."""
