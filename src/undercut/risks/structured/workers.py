"""Who asks the model about which examples: this thread, several threads, or processes.

Examples are dealt once.  What depends on w alone is prepared once per evaluation, or once per process.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_all_start_methods, get_context
from typing import Any, TypeAlias

import numpy as np

from undercut.contracts import Labeling
from undercut.errors import CapabilityError
from undercut.risks.structured.decoding import Point, Share, point_at
from undercut.threads import one_thread
from undercut.types import Array, FloatArray

Question: TypeAlias = Callable[[Share, Point], Any]


class Workers:
    """Decoding of all shares, in this thread or in one thread per share."""

    def __init__(self, shares: list[Share], use_threads: bool) -> None:
        self._shares = shares
        self._pool: Executor | None = ThreadPoolExecutor(len(shares)) if use_threads and len(shares) > 1 else None

    def ask(self, question: Question, w: FloatArray) -> list[Any]:
        """The answer of each share."""
        point = point_at(self._shares[0].model, w)
        if self._pool is None:
            return [question(share, point) for share in self._shares]
        return list(self._pool.map(question, self._shares, [point] * len(self._shares)))


class Processes(Workers):
    """One process per share, which keeps its examples as long as this object lives; only w is sent at each call."""

    def __init__(self, make: Callable[..., Share], arguments: list[tuple[Any, ...]]) -> None:
        context = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
        context.set_forkserver_preload([__name__])  # imported once for all processes
        self._pools = [ProcessPoolExecutor(1, mp_context=context, initializer=_prepare_worker) for _ in arguments]
        loads = [pool.submit(_hold, _pickled((make, some))) for pool, some in zip(self._pools, arguments, strict=True)]
        for load in loads:
            _result(load)

    def ask(self, question: Question, w: FloatArray) -> list[Any]:
        answers = [pool.submit(_answer, question, w) for pool in self._pools]
        return [_result(answer) for answer in answers]


_held: list[Share] = []  # in a worker process, its share


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the driver handles Ctrl-C
    one_thread().__enter__()  # for the life of the process: the other cores run other workers


def _pickled(thing: Any) -> bytes:
    try:
        return pickle.dumps(thing)
    except Exception as error:
        raise CapabilityError(f"n_jobs > 1 sends model, X and Y to processes: they {_REMEDY}; got {error}") from error


def _hold(load: bytes) -> None:
    try:
        make, arguments = pickle.loads(load)
    except (AttributeError, ImportError) as error:
        raise CapabilityError(f"n_jobs > 1 sends the model to processes: it {_REMEDY}; got {error}") from error
    _held[:] = [make(*arguments)]


def _result(future: Future[Any]) -> Any:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise CapabilityError(
            "a process that decodes has died: it may have run out of memory; a script that uses n_jobs > 1 must keep "
            "its work under `if __name__ == '__main__':`; use n_jobs=1 to see the model's own error"
        ) from error


def _answer(question: Question, w: FloatArray) -> Any:
    return question(_held[0], point_at(_held[0].model, w))


_REMEDY = (
    "must be picklable and defined in a module that can be imported there; move it there, use n_jobs=1, or set "
    "releases_gil = True on the model to use threads"
)


def start_workers(
    make: Callable[..., Share],
    model: Any,
    X: Sequence[Any],
    Y: Sequence[Labeling],
    weight: FloatArray,
    n_jobs: int,
) -> tuple[Workers, list[Array]]:
    """Workers for the examples, each with a share that ``make`` makes, and which examples each has.

    Examples of weight zero are left out, unless all are.
    """
    weighted = np.flatnonzero(weight) if weight.any() else np.arange(len(weight))
    n_jobs = min(n_jobs if n_jobs > 0 else os.cpu_count() or 1, weighted.size)
    rows = dealt(weighted, [_length(X[int(i)]) for i in weighted], n_jobs)
    arguments = [(model, [X[i] for i in some], [Y[i] for i in some], weight[some], some.tolist()) for some in rows]
    use_threads = bool(getattr(model, "releases_gil", False))
    if n_jobs > 1 and not use_threads:
        return Processes(make, arguments), rows
    return Workers([make(*some) for some in arguments], use_threads), rows


def dealt(examples: Array, lengths: Sequence[int], n_hands: int) -> list[Array]:
    """Examples for each worker, from long to short and back and forth, so that all have about the same work.

    >>> dealt(np.arange(6), [9, 1, 8, 1, 7, 1], 2)
    [array([0, 1, 3]), array([2, 4, 5])]
    """
    order = np.argsort([-length for length in lengths], kind="stable")
    turn = np.arange(order.size) % (2 * n_hands)
    hand = np.minimum(turn, 2 * n_hands - 1 - turn)
    return [np.sort(examples[order[hand == k]]) for k in range(n_hands)]


def _length(x: Any) -> int:
    """How long an example is, where that can be asked."""
    try:
        return len(x)
    except TypeError:
        return 1
