"""How many threads work on an array.

For a short vector, waking the threads of BLAS takes longer than the computation.  So a run limits BLAS to one thread,
and uses all threads only for large products.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import cache
from threading import Lock, RLock, local
from typing import Any, Generic, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")

WORTH_THREADS = 1000  # from this number of rows on, they are divided among threads
LARGE = 4_000_000  # entries: from this size on, a matrix product uses all threads


@cache
def _blas() -> tuple[ThreadpoolController, int]:
    blas = ThreadpoolController().select(user_api="blas")
    return blas, max((library["num_threads"] for library in blas.info()), default=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS on one thread; much cheaper than threadpoolctl's own ``limit``, which describes every library first."""
    several = [(each, count) for each in _blas()[0].lib_controllers if (count := each.num_threads) not in (None, 1)]
    for each, _ in several:
        each.set_num_threads(1)
    try:
        yield
    finally:
        for each, count in several:
            each.set_num_threads(count)


def all_threads(size: int) -> AbstractContextManager[Any]:
    """BLAS on its initial number of threads if the matrix of the product has many entries."""
    blas, n_threads = _blas()
    return blas.limit(limits=n_threads) if size >= LARGE and n_threads > 1 else nullcontext()


@cache
def _workers(process: int) -> ThreadPoolExecutor:
    """The pool of this process: threads do not survive a fork, so a child makes its own."""
    return ThreadPoolExecutor(n_threads(), thread_name_prefix="undercut")


def in_threads(work: Callable[[int], T], n: int) -> list[T]:
    """``[work(0), ..., work(n - 1)]`` on the initial threads of BLAS; for work that releases the interpreter."""
    if n == 1 or n_threads() == 1:
        return [work(i) for i in range(n)]
    contexts = [copy_context() for _ in range(n)]  # with the deadline of the run
    return list(_workers(os.getpid()).map(lambda i: contexts[i].run(work, i), range(n)))


def n_threads() -> int:
    """How many threads may work at once: the initial number of BLAS threads."""
    return _blas()[1]


def each(function: Callable[[Any], None], items: Sequence[Any]) -> None:
    """Call a function that releases the interpreter once for every item, on all threads."""
    in_threads(lambda at: function(items[at]), len(items))


def span_edges(size: int) -> list[int]:
    """Where ``range(size)`` is divided among threads, both ends included; not at all if it is short."""
    return [size * at // n_threads() for at in range(n_threads() + 1)] if size >= WORTH_THREADS else [0, size]


def spans(function: Callable[[int, int], None], size: int) -> None:
    """Call a function that releases the interpreter for ``range(low, high)`` that cover ``range(size)``."""
    edges = span_edges(size)
    each(lambda at: function(edges[at], edges[at + 1]), range(len(edges) - 1))


class PerThread(Generic[T]):
    """An object that each thread makes for itself when it first asks, such as scratch memory; it is never pickled.

    >>> scratch = PerThread(list)
    >>> scratch.get().append(1)
    >>> scratch.get(), in_threads(lambda i: scratch.get() is scratch.get(), 1)
    ([1], [True])
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made = local()

    def get(self) -> T:
        """The object of this thread."""
        if not hasattr(self._made, "it"):
            self._made.it = self._make()
        made: T = self._made.it
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return PerThread, (self._make,)


class _Claim:
    """The lock of an object and how many threads hold it or wait for it."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.count = 0


_CLAIMS: dict[int, _Claim] = {}  # by the identity of objects in use
_CLAIMS_LOCK = Lock()


@contextmanager
def exclusive(thing: object) -> Iterator[None]:
    """Keep other threads out of blocks with the same object; the same thread may enter again."""
    with _CLAIMS_LOCK:
        claim = _CLAIMS.setdefault(id(thing), _Claim())
        claim.count += 1
    try:
        with claim.lock:
            yield
    finally:
        with _CLAIMS_LOCK:
            claim.count -= 1
            if claim.count == 0:
                del _CLAIMS[id(thing)]
