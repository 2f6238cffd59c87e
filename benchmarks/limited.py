"""Jobs of a benchmark, each in a process of its own with one thread and a limit of seconds, several at a time.

A job is a function of a module, called with a ``Report`` and its arguments.  Compiled code of another package cannot be
interrupted, so the process of a job that passes its limit is ended; what the job has told by then is kept.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

import numba
from threadpoolctl import threadpool_limits

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
LOOK = 1.0  # seconds between two looks at the limits
PREPARATION = 120.0  # more seconds for a job that has not begun to measure


@dataclass
class Report:
    """The way from a job to the table."""

    pipe: Connection

    def begin(self) -> None:
        """The limit counts from here; before it data are read and code is compiled."""
        self.pipe.send(("begin", None))

    def __call__(self, so_far: Any) -> None:
        """How far the job has come."""
        self.pipe.send(("so far", so_far))


@dataclass(frozen=True)
class Job:
    """What is to be computed, and a name for it."""

    key: tuple[Any, ...]
    work: Callable[..., Any]  # of a module, so that another process finds it
    args: tuple[Any, ...] = ()
    seconds: float = float("inf")


@dataclass
class Outcome:
    """The value of a job; without one, how far it came and what ended it."""

    key: tuple[Any, ...]
    value: Any = None
    so_far: Any = None
    failure: str = "not begun"

    @property
    def is_done(self) -> bool:
        return not self.failure


@dataclass
class _Running:
    job: Job
    outcome: Outcome
    process: Any
    pipe: Connection
    began: float = field(default_factory=lambda: time.time() + PREPARATION)

    @classmethod
    def start(cls, job: Job) -> _Running:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_run, args=(theirs, job.work, job.args), daemon=True)
        process.start()
        theirs.close()
        return cls(job, Outcome(job.key), process, ours)

    def read(self) -> bool:
        """Take one message; whether the job is over."""
        try:
            kind, what = self.pipe.recv()
        except EOFError:
            kind, what = "failed", "the process ended without a result"
        if kind == "begin":
            self.began = time.time()
        elif kind == "so far":
            self.outcome.so_far = what
        elif kind == "done":
            self.outcome.value, self.outcome.failure = what, ""
        else:
            self.outcome.failure = what
        return kind in ("done", "failed")

    def is_late(self, end: float) -> bool:
        """Whether the job is over because of a limit."""
        if time.time() < min(self.began + self.job.seconds, end):
            return False
        self.outcome.failure = f"over the limit of {self.seconds:.0f} s"
        return True

    def close(self) -> Outcome:
        self.process.kill()
        self.process.join()
        self.pipe.close()
        name = ", ".join(str(part) for part in self.outcome.key)
        print(f"{name}: {self.outcome.failure or 'done'}, {self.seconds:.0f} s", file=sys.stderr, flush=True)
        return self.outcome

    @property
    def seconds(self) -> float:
        return max(time.time() - self.began, 0.0)


def run_jobs(jobs: Sequence[Job], n_processes: int, end: float = float("inf")) -> dict[tuple[Any, ...], Outcome]:
    """Their outcomes by key; none begins after ``end``, and none goes on after it."""
    os.environ.update(dict.fromkeys(THREADS, "1"))
    found = {job.key: Outcome(job.key) for job in jobs}
    waiting, running = deque(jobs), list[_Running]()
    while waiting or running:
        while waiting and len(running) < n_processes and time.time() < end:
            running.append(_Running.start(waiting.popleft()))
        if not running:
            break
        over = _ended(running, end)
        found |= {each.job.key: each.close() for each in over}
        running = [each for each in running if each not in over]
    return found


def _ended(running: Iterable[_Running], end: float) -> list[_Running]:
    """Those that are over, after a wait for messages."""
    by_pipe = {each.pipe: each for each in running}
    told = [by_pipe[pipe] for pipe in wait(list(by_pipe), timeout=LOOK)]  # type: ignore[index]
    over = [each for each in told if each.read()]
    return over + [each for each in running if each not in over and each.is_late(end)]


def _run(pipe: Connection, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    numba.set_num_threads(1)
    with threadpool_limits(1):
        try:
            pipe.send(("done", work(Report(pipe), *args)))
        except Exception as error:  # one job must not end the benchmark
            pipe.send(("failed", in_one_line(error)))


def in_one_line(error: Exception) -> str:
    """Its type and the first line of its text, for a cell of a table."""
    first, *_ = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {first}".removesuffix(": ")
