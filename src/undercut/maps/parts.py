"""Data in parts that stay where they are, in this process or on workers: questions travel, data do not.

A question is a function ``function(part, *shared)``.  It runs next to every part; ``shared`` is sent once to every
worker, and answers come back one by one (``each``) or added up on the way (``total``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from undercut.errors import DataError, UndercutError
from undercut.interrupts import requested


class Delay(NamedTuple):
    """How much questions may overlap."""

    at_once: int  # questions on their way together
    behind: int  # questions that leave while another one is on its way

    def allows(self, ages: Iterable[int]) -> bool:
        """Whether one more may leave; ``ages`` counts, for each on its way, the questions that left since, and it."""
        ages = list(ages)
        return len(ages) < self.at_once and all(age <= self.behind for age in ages)


class Parts(ABC):
    """Objects of one kind, such as the data or the risks of partitions, by what can be asked of them.

    names : what each part is called in errors, such as the file it was read from
    """

    names: Sequence[str]

    def remarks(self) -> list[str]:
        """What a line of progress says about where the parts are, most important first; nothing for this process."""
        return []

    def __len__(self) -> int:
        return len(self.names)

    @abstractmethod
    def each(
        self,
        function: Callable[..., Any],
        *shared: Any,
        items: Sequence[Any] | None = None,
        which: Sequence[int] | None = None,
    ) -> list[Any]:
        """``function(part, *shared)`` for every part, or ``function(part, *shared, item)`` with one item per part.

        ``which`` are the numbers of the parts to ask, all by default; items and answers are in that order.
        """

    @abstractmethod
    def total(
        self, function: Callable[..., Any], *shared: Any, add: Callable[[Any, Any], Any], items: Any = None
    ) -> Any:
        """The answers of all parts, combined by ``add``, which is associative up to rounding."""

    @abstractmethod
    def made(self, function: Callable[..., Any], *shared: Any, items: Sequence[Any] | None = None) -> Parts:
        """New parts ``function(part, *shared)``, or with one item per part, made and kept next to these."""

    @abstractmethod
    def only(self, which: Sequence[int]) -> Parts:
        """Some of the parts."""

    @abstractmethod
    def crossed(self, function: Callable[[list[Any], int], Any]) -> Parts:
        """New parts ``function(all parts, k)``, each made next to part k: the parts are exchanged for it once."""

    @abstractmethod
    def streamed(
        self,
        function: Callable[..., Any],
        draws: Sequence[int],
        now: Callable[[int], tuple[Any, ...]],
        take: Callable[[int, Any], None],
        delay: Delay,
    ) -> None:
        """``take(k, function(part, *now(k)))`` for each k of ``draws``, without waiting for one before the next.

        ``now`` is called when a question leaves, in the order of the draws, and ``take`` when its answer arrives.  When
        a question leaves does not depend on the draws that follow.  A question that is lost with its worker has the
        answer ``None``.  After Ctrl-C or SIGTERM no more questions leave.
        """

    @property
    @abstractmethod
    def delay(self) -> Delay:
        """How much ``streamed`` overlaps questions where that is useful."""


class LocalParts(Parts):
    """Parts in this process.

    >>> parts = LocalParts([np.ones(2), np.ones(3)])
    >>> parts.each(np.sum), parts.made(np.cumsum).total(np.sum, add=np.add)
    ([np.float64(2.0), np.float64(3.0)], np.float64(9.0))
    """

    def __init__(self, values: Sequence[Any], names: Sequence[str] | None = None) -> None:
        self.values = list(values)
        self.names = list(names) if names is not None else numbered(len(self.values))

    @override
    def each(
        self,
        function: Callable[..., Any],
        *shared: Any,
        items: Sequence[Any] | None = None,
        which: Sequence[int] | None = None,
    ) -> list[Any]:
        answers = []
        for at, k in enumerate(range(len(self)) if which is None else which):
            with naming(self.names[k]):
                answers.append(function(self.values[k], *shared, *([] if items is None else [items[at]])))
        return answers

    @override
    def total(
        self, function: Callable[..., Any], *shared: Any, add: Callable[[Any, Any], Any], items: Any = None
    ) -> Any:
        return reduce(add, self.each(function, *shared, items=items))

    @override
    def made(self, function: Callable[..., Any], *shared: Any, items: Sequence[Any] | None = None) -> LocalParts:
        return LocalParts(self.each(function, *shared, items=items), self.names)

    @override
    def only(self, which: Sequence[int]) -> LocalParts:
        return LocalParts([self.values[k] for k in which], [self.names[k] for k in which])

    @override
    def crossed(self, function: Callable[[list[Any], int], Any]) -> LocalParts:
        return LocalParts([function(self.values, k) for k in range(len(self))], self.names)

    delay = Delay(1, 0)

    @override
    def streamed(
        self,
        function: Callable[..., Any],
        draws: Sequence[int],
        now: Callable[[int], tuple[Any, ...]],
        take: Callable[[int, Any], None],
        delay: Delay,
    ) -> None:
        for k in draws:
            if requested() is not None:
                return
            with naming(self.names[k]):
                take(k, function(self.values[k], *now(k)))


def numbered(n: int) -> list[str]:
    """Names of parts that have none.

    >>> numbered(2)
    ['partition 0', 'partition 1']
    """
    return [f"partition {k}" for k in range(n)]


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Errors about the data of a part say which part it is.

    >>> with naming("part-3.svm"):
    ...     raise DataError("X must be finite")
    Traceback (most recent call last):
    undercut.errors.DataError: part-3.svm: X must be finite
    """
    try:
        yield
    except UndercutError as error:
        raise type(error)(f"{name}: {error}") from error
    except OSError as error:
        raise DataError(f"{name}: {error}") from error


def added(one: Sequence[Any], other: Sequence[Any]) -> tuple[Any, ...]:
    """Tuples of numbers and arrays, added entry by entry.

    >>> added((1.0, np.ones(2)), (2.0, np.ones(2)))
    (3.0, array([2., 2.]))
    """
    return tuple(a + b for a, b in zip(one, other, strict=True))


def nbytes(value: Any) -> int:
    """The size of the numbers in a value, which is what travels but for some hundred bytes of envelope.

    >>> nbytes((1.0, np.ones(3), None, [np.ones(2, dtype=np.float32)]))
    40
    """
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, tuple | list):
        return sum(map(nbytes, value))
    if isinstance(value, bool | int | float | np.generic):
        return 8
    return sum(map(nbytes, vars(value).values())) if hasattr(value, "__dict__") and not callable(value) else 0
