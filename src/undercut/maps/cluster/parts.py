"""Parts on the workers of dask.distributed, and the questions that they are asked.

Every part is the result of a task that the scheduler knows, so a worker that dies takes nothing with it: its parts are
loaded again elsewhere and its questions are asked again.  Parts that were sent from memory are kept by the client
too, and sent again.  What a question leaves on a worker beside its answer is a cache, and may be missing at the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import nullcontext
from functools import reduce
from typing import TYPE_CHECKING, Any

import dask
from distributed.client import ClosedClientError
from distributed.scheduler import KilledWorker
from typing_extensions import override

from undercut.errors import ClusterError, DataError
from undercut.interrupts import requested
from undercut.maps.cluster import worker
from undercut.maps.cluster.sources import LOST, Crossed, Made, Source
from undercut.maps.parts import Delay, Parts, nbytes

if TYPE_CHECKING:
    from undercut.maps.cluster.clients import Cluster

FAN_IN = 4  # answers that are added in one task of the tree, and that the client receives
SHARED = 1 << 14  # bytes from which on an argument is sent to one worker, and from there to the others
ATTEMPTS = 4  # a question that was lost with its worker is asked this often
GONE = (CancelledError, ClosedClientError, OSError, TimeoutError)  # errors of a worker or scheduler that is not there
UNEQUAL = 2  # how many times as long as the others' a worker's answer may take before they wait for it


class ClusterParts(Parts):
    """Parts on the workers of a cluster; made by ``Cluster``."""

    def __init__(self, cluster: Cluster, sources: Sequence[Source], names: Sequence[str]) -> None:
        if not sources:
            raise DataError("a cluster needs at least one partition; got none")
        self.cluster, self.names = cluster, list(names)
        self.sources = list(sources)
        workers = cluster.workers()
        self.futures = [
            source.start(cluster.client, name, workers[k % len(workers)])
            for k, (source, name) in enumerate(zip(sources, self.names, strict=True))
        ]
        self._workers: dict[int, str] = {}  # the worker that answered for each part
        self._groups: list[list[int]] = []  # parts that one thread of a worker holds
        self._asked(worker.nothing, (), dict.fromkeys(range(len(self))), None)  # errors of loading are raised here

    @override
    def each(
        self,
        function: Callable[..., Any],
        *shared: Any,
        items: Sequence[Any] | None = None,
        which: Sequence[int] | None = None,
    ) -> list[Any]:
        wanted = list(range(len(self))) if which is None else list(which)
        given = [None] * len(wanted) if items is None else [(item,) for item in items]
        replies = self._answered(function, shared, dict(zip(wanted, given, strict=True)), None)
        answers = {k: answer for reply in replies for k, answer in reply.answer}
        return [answers[k] for k in wanted]

    @override
    def total(
        self, function: Callable[..., Any], *shared: Any, add: Callable[[Any, Any], Any], items: Any = None
    ) -> Any:
        given = dict(enumerate([None] * len(self) if items is None else [(item,) for item in items]))
        return reduce(add, (reply.answer for reply in self._answered(function, shared, given, add)))

    @override
    def remarks(self) -> list[str]:
        cluster = self.cluster
        where = [f"dashboard {cluster.dashboard}"] if cluster.dashboard else []
        return [f"{cluster.n_workers} workers", f"{sized(cluster.traffic.total)} moved", *where]

    @override
    def made(self, function: Callable[..., Any], *shared: Any, items: Sequence[Any] | None = None) -> ClusterParts:
        given = [shared if items is None else (*shared, items[k]) for k in range(len(self))]
        sources = [Made(self, k, function, given[k]) for k in range(len(self))]
        return ClusterParts(self.cluster, sources, self.names)

    @override
    def only(self, which: Sequence[int]) -> ClusterParts:
        if len(which) == len(self):
            return self
        sources = [Made(self, k, worker.same, ()) for k in which]
        return ClusterParts(self.cluster, sources, [self.names[k] for k in which])

    @override
    def crossed(self, function: Callable[[list[Any], int], Any]) -> ClusterParts:
        sources = [Crossed(self, k, function) for k in range(len(self))]
        return ClusterParts(self.cluster, sources, self.names)

    def submit(self, k: int, function: Callable[..., Any], *given: Any) -> Any:
        """Dask's future of ``function(part, *given)`` for part k; it does not wait."""
        traffic = self.cluster.traffic
        traffic.sent += nbytes(given)
        self.cluster.check_connected()
        with self._on_its_worker([k]):
            return self.cluster.client.submit(worker.single, self.futures[k], function, given, pure=False)

    @property
    @override
    def delay(self) -> Delay:
        n_threads = self.cluster.n_threads
        return Delay(n_threads, UNEQUAL * (n_threads - 1))

    @override
    def streamed(
        self,
        function: Callable[..., Any],
        draws: Sequence[int],
        now: Callable[[int], tuple[Any, ...]],
        take: Callable[[int, Any], None],
        delay: Delay,
    ) -> None:
        waiting, in_flight, n_asked = list(reversed(draws)), dict[Any, tuple[int, int]](), 0
        while in_flight or (waiting and requested() is None):
            while waiting and requested() is None and delay.allows(n_asked - left for _, left in in_flight.values()):
                k = waiting.pop()
                in_flight[self.submit(k, function, *now(k))] = k, n_asked
                n_asked += 1
            for future in self._arrived(list(in_flight)):
                k, _ = in_flight.pop(future)
                take(k, self._answer(future))

    def _arrived(self, futures: list[Any]) -> list[Any]:
        """The questions that are answered or lost; waits for the first of them."""
        try:
            return self.cluster.first_done(futures)
        except CancelledError:  # no worker runs them
            self.cluster.client.cancel(futures)
            return futures

    def _answer(self, future: Any) -> Any:
        """The answer of one question, ``None`` if it was lost with its worker."""
        try:
            answer = future.result()
        except GONE:
            self._renew()
            return None
        except KilledWorker as error:
            raise ClusterError(f"several workers died with the same partition: {error}") from error
        self.cluster.traffic.received += nbytes(answer)
        return answer

    def _answered(self, function: Any, shared: Any, given: dict[int, Any], add: Any) -> list[worker.Reply]:
        """Replies of parts that were there before: data that cannot be read again are a loss, not a wrong argument."""
        try:
            return self._asked(function, shared, given, add)
        except DataError as error:
            raise ClusterError(str(error)) from error

    def _asked(self, function: Any, shared: Any, given: dict[int, Any], add: Any) -> list[worker.Reply]:
        for _ in range(ATTEMPTS):
            try:
                return self._round(function, shared, given, add)
            except GONE:
                self._renew()
            except KilledWorker as error:
                raise ClusterError(f"several workers died with the same partition: {error}") from error
        raise ClusterError(f"a question was lost {ATTEMPTS} times, each time with the worker that it was asked")

    def _round(self, function: Any, shared: Any, given: dict[int, Any], add: Any) -> list[worker.Reply]:
        """One message to the scheduler with all tasks of a question, and one back."""
        client, traffic = self.cluster.client, self.cluster.traffic
        groups = [wanted for group in self._placed() if (wanted := [k for k in group if k in given])]
        ask, merge = dask.delayed(worker.answers, pure=False), dask.delayed(worker.merged, pure=False)
        size = nbytes(shared)
        sent = dask.delayed(worker.kept, pure=False)(shared) if size > SHARED and len(groups) > 1 else shared
        replies = []
        for group in groups:
            with self._on_its_worker(group):
                parts = [self.futures[k] for k in group]
                replies.append(ask(parts, group, function, sent, [given[k] for k in group], add))
        while add is not None and len(replies) > FAN_IN:
            replies = [merge(replies[at : at + FAN_IN], add) for at in range(0, len(replies), FAN_IN)]
        got: list[worker.Reply] = self.cluster.gathered(client.compute(replies, optimize_graph=False))
        traffic.rounds += 1
        traffic.sent += size * len(groups) + nbytes(list(given.values()))
        traffic.received += sum(reply.nbytes for reply in got)
        self._place([part for reply in got for part in reply.places])
        return got

    def _on_its_worker(self, group: list[int]) -> Any:
        """Where the task of these parts shall run while that worker lives: Dask may copy them to another one else."""
        places = {self._workers[k] for k in group if k in self._workers}
        return dask.annotate(workers=sorted(places), allow_other_workers=True) if len(places) == 1 else nullcontext()

    def _placed(self) -> list[list[int]]:
        """The parts by the thread that shall answer for them, as far as their places are known."""
        return self._groups or [[k] for k in range(len(self))]

    def _place(self, places: list[tuple[int, str]]) -> None:
        """Parts on the same worker answer together from now on."""
        self._workers.update(places)
        if self._groups and all(len({place for k, place in places if k in group}) <= 1 for group in self._groups):
            return
        self._groups = _by_thread(dict(places), self.cluster.client.nthreads())

    def _renew(self) -> None:
        """Send again what was lost."""
        client, workers = self.cluster.client, self.cluster.workers()
        for k, future in enumerate(self.futures):
            if future.status in LOST:
                self.futures[k] = self.sources[k].start(client, self.names[k], workers[k % len(workers)])
        self._groups = []
        self._workers = {}


def sized(n_bytes: float) -> str:
    """Bytes in the unit that suits them.

    >>> sized(950), sized(1.5e6), sized(2e10)
    ('950 B', '1.5 MB', '20 GB')
    """
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} GB"


def _by_thread(places: dict[int, str], nthreads: dict[str, int]) -> list[list[int]]:
    """Parts of a worker, dealt to its threads.

    >>> _by_thread({0: "a", 1: "b", 2: "a"}, {"a": 2, "b": 1})
    [[0], [2], [1]]
    """
    there: dict[str, list[int]] = defaultdict(list)
    for k, place in sorted(places.items()):
        there[place].append(k)
    return [parts[i :: nthreads.get(place, 1)] for place, parts in there.items() for i in range(nthreads.get(place, 1))]
