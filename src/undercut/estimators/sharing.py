"""How the problems of one fit share time and threads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Lock
from typing import TypeVar

from undercut.display import Display, Part
from undercut.errors import require
from undercut.interrupts import graceful
from undercut.threads import n_threads, one_thread

T = TypeVar("T")
P = TypeVar("P")

LEAST = 1e-9  # seconds: what a run gets after the limit, enough for a first point and its certificate


class Budget:
    """A limit for the time of all runs of a fit; each gets an equal share of what is left when it begins.

    >>> budget = Budget(math.inf, n_runs=3)
    >>> budget.share()
    inf
    """

    def __init__(self, seconds: float, n_runs: int = 1, n_at_once: int = 1) -> None:
        self._until = time.perf_counter() + seconds
        self._n_runs, self._n_at_once = n_runs, n_at_once
        self._lock = Lock()

    def share(self) -> float:
        """The seconds of the next run."""
        with self._lock:
            rounds = max(1, math.ceil(self._n_runs / self._n_at_once))
            self._n_runs -= 1
        return max((self._until - time.perf_counter()) / rounds, LEAST)


def effective_n_jobs(n_jobs: int | None) -> int:
    """How many problems are solved at once, as joblib counts them: -1 is one per core, ``None`` is one.

    >>> effective_n_jobs(None), effective_n_jobs(3)
    (1, 3)
    """
    require(n_jobs != 0, "`n_jobs` must not be 0", n_jobs)
    if n_jobs is None or n_jobs > 0:
        return n_jobs or 1
    return max(1, n_threads() + 1 + n_jobs)


def at_once(work: Callable[[P], T], problems: list[P], n_at_once: int, verbose: int) -> list[T]:
    """Some problems at the same time; the first error ends the others before they begin."""
    pool = ThreadPoolExecutor(n_at_once, thread_name_prefix="undercut-fit")
    try:
        with graceful(), one_thread():  # a run restores what it found, and must not find the setting of another
            futures = [pool.submit(copy_context().run, work, problem) for problem in problems]
            if not verbose:
                return [future.result() for future in futures]
            with Display("problems solved") as display:
                results = []
                for at, future in enumerate(futures, start=1):
                    results.append(future.result())
                    display.show([Part(f"{at} of {len(futures)}")], at / len(futures))
                return results
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
