"""Parts on the workers of dask.distributed: the one home of Dask.

Every part is the result of a task that the scheduler knows, so a worker that dies takes nothing with it: its parts are
loaded again elsewhere and its questions are asked again.  Parts that were sent from memory are kept by the client
too, and sent again.  What a question leaves on a worker beside its answer is a cache, and may be missing at the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import Any

from typing_extensions import override

from undercut.errors import CapabilityError, ClusterError, DataError, require
from undercut.maps.parts import Parts, nbytes, numbered

try:
    import dask
    from distributed import Client, LocalCluster, as_completed, get_client
    from distributed.client import ClosedClientError
    from distributed.scheduler import KilledWorker

    from undercut.maps.cluster import worker
    from undercut.maps.cluster.sources import LOST, Computed, Crossed, Loaded, Made, Sent, Source, side_by_side
except ImportError as error:
    raise CapabilityError("a cluster needs dask: pip install 'undercut[dask]'") from error

FAN_IN = 4  # answers that are added in one task of the tree, and that the client receives
SHARED = 1 << 14  # bytes from which on an argument is sent to one worker, and from there to the others
POLL = 5.0  # seconds between looks at the workers while an answer is awaited
PATIENCE = 60.0  # seconds to wait for the first worker, such as one that is being restarted
OWN_GROUP = ["import os; os.setpgrp()"]  # Ctrl-C in a terminal reaches the client alone, which ends the workers
ATTEMPTS = 4  # a question that was lost with its worker is asked this often


@dataclass
class Traffic:
    """What has travelled between client and workers: numbers of arguments and answers, each transfer counted once."""

    rounds: int = 0
    sent: int = 0  # bytes to the workers
    received: int = 0  # bytes from the workers, sums on the way included

    @property
    def total(self) -> int:
        return self.sent + self.received


class Cluster:
    """Workers of dask.distributed: those of a ``Client``, of the scheduler at an address, or new local processes.

    An integer starts that many processes on this machine, which listen on the loopback interface only, as the
    dashboard does; their script must be guarded by ``if __name__ == "__main__":``.  ``security`` is Dask's ``Security``
    object with TLS settings.
    What was started or connected here is closed by ``close`` or at the end of a ``with`` block.

    >>> with Client(processes=False, dashboard_address="127.0.0.1:0") as client:
    ...     Cluster(client).load(abs, [-1, 2]).each(float)
    [1.0, 2.0]
    """

    def __init__(
        self, where: Client | str | int, *, security: Any = None, dashboard_address: str = "127.0.0.1:0"
    ) -> None:
        self._local: LocalCluster | None = None
        self._owned = not isinstance(where, Client)
        self.traffic = Traffic()
        if isinstance(where, int):
            self._n_processes = where
            require(where >= 1, "the number of worker processes must be at least 1", where)
            self._local = LocalCluster(
                n_workers=where,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=dashboard_address,
                security=security,
                preload=OWN_GROUP,
                silence_logs=logging.CRITICAL,  # faults are survived, or raised with partition and worker
            )
            where = Client(self._local, security=security)
        self.client = where if isinstance(where, Client) else _connected(where, security)
        self.address: str = self.client.scheduler.address

    @classmethod
    def current(cls) -> Cluster:
        """The workers of the client that was connected last in this process."""
        try:
            return cls(get_client())
        except ValueError as error:
            raise ClusterError(
                "data in partitions need a cluster, and no client is connected: "
                "client = distributed.Client(ADDRESS), or Client() for workers on this machine"
            ) from error

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect, and end the processes that were started here."""
        if self._owned:
            self.client.close()
        if self._local is not None:
            self._local.close()

    @property
    def n_workers(self) -> int:
        """How many workers there are; 0 while the scheduler does not answer."""
        try:
            return len(self.client.nthreads()) if self.client.status == "running" else 0
        except (OSError, TimeoutError):
            return 0

    @property
    def dashboard(self) -> str | None:
        """The address of Dask's dashboard, if there is one."""
        return self.client.dashboard_link or None

    def workers(self) -> list[str]:
        """The addresses of the workers; ``ClusterError`` if none appears, or if there is no scheduler."""
        try:
            if self.client.status != "running":
                raise OSError("the connection is closed")
            if self._local is not None:
                self._local.scale(self._n_processes)  # Dask gives a process up that is slow to restart
            self.client.wait_for_workers(1, timeout=PATIENCE)
            return sorted(self.client.nthreads())
        except TimeoutError as error:
            raise ClusterError(
                f"the cluster at {self.address} has no workers: start some with `dask worker`"
            ) from error
        except OSError as error:
            raise ClusterError(f"the scheduler at {self.address} does not answer: {error}") from error

    def gathered(self, futures: list[Any]) -> list[Any]:
        """The results of tasks; ``ClusterError`` if there is nobody to run them, ``CancelledError`` if nobody does.

        Dask forgets tasks with a preferred worker if all workers die at once: then none is being processed.  Answers
        can be lost after they were finished and before they arrive, so fetching them is watched too.
        """
        loop = self.client.loop.asyncio_loop
        answers = asyncio.run_coroutine_threadsafe(self.client.gather(futures, asynchronous=True), loop)
        idle = 0
        try:
            while _is_pending(answers, POLL):
                self.workers()
                idle = 0 if any(self.client.processing().values()) else idle + 1
                if idle > 1:
                    raise CancelledError
            results: list[Any] = answers.result()
        finally:
            answers.cancel()
        return results

    def keep(self, values: Iterable[Any], names: Sequence[str] | None = None) -> ClusterParts:
        """Values in memory as parts: sent to the workers once, and again if a worker is lost."""
        kept = list(values)
        return ClusterParts(self, [Sent(value) for value in kept], names or numbered(len(kept)))

    def load(
        self, function: Callable[..., Any], sources: Iterable[Any], names: Sequence[str] | None = None
    ) -> ClusterParts:
        """``function(source)`` as parts, called on the workers: nothing but the sources passes through the client."""
        given = list(sources)
        named = names or [str(source) for source in given]
        return ClusterParts(self, [Loaded(function, source) for source in given], named)

    def collected(
        self, make: Callable[..., Any], *collections: Any, names: Sequence[str] | None = None
    ) -> ClusterParts:
        """``make(*blocks)`` for the blocks of rows of Dask arrays or dataframes, which are computed on the workers."""
        blocks = side_by_side(collections)
        return ClusterParts(self, [Computed(make, some) for some in blocks], names or numbered(len(blocks)))


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
        self._homes: dict[int, str] = {}  # the worker that answered for each part
        self._hands: list[list[int]] = []  # parts that one thread of a worker holds
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
        with self._at_home([k]):
            return self.cluster.client.submit(worker.single, self.futures[k], function, given, pure=False)

    @property
    @override
    def longest_delay(self) -> int:
        return sum(self.cluster.client.nthreads().values())

    @override
    def streamed(
        self,
        function: Callable[..., Any],
        draws: Sequence[int],
        now: Callable[[int], tuple[Any, ...]],
        take: Callable[[int, Any], None],
    ) -> None:
        waiting, asked, n_answers = list(reversed(draws)), dict[str, tuple[int, int]](), 0
        delay, flying = self.longest_delay, as_completed()

        def ask() -> None:
            while waiting and len(asked) < delay:
                if any(n_answers - left >= delay for _, left in asked.values()):
                    return  # a slow answer is waited for
                k = waiting.pop()
                future = self.submit(k, function, *now(k))
                asked[future.key] = k, n_answers
                flying.add(future)

        ask()
        for future in flying:
            k, _ = asked.pop(future.key)
            n_answers += 1
            take(k, self._answer(future))
            ask()

    def _answer(self, future: Any) -> Any:
        """The answer of one question, ``None`` if it was lost with its worker."""
        try:
            answer = future.result()
        except CancelledError:
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
            except (CancelledError, ClosedClientError, OSError, TimeoutError):
                self._renew()
            except KilledWorker as error:
                raise ClusterError(f"several workers died with the same partition: {error}") from error
        raise ClusterError(f"a question was lost {ATTEMPTS} times, each time with the worker that it was asked")

    def _round(self, function: Any, shared: Any, given: dict[int, Any], add: Any) -> list[worker.Reply]:
        """One message to the scheduler with all tasks of a question, and one back."""
        client, traffic = self.cluster.client, self.cluster.traffic
        hands = [wanted for hand in self._placed() if (wanted := [k for k in hand if k in given])]
        ask, merge = dask.delayed(worker.answers, pure=False), dask.delayed(worker.merged, pure=False)
        size = nbytes(shared)
        sent = dask.delayed(worker.kept, pure=False)(shared) if size > SHARED and len(hands) > 1 else shared
        replies = []
        for hand in hands:
            with self._at_home(hand):
                parts = [self.futures[k] for k in hand]
                replies.append(ask(parts, hand, function, sent, [given[k] for k in hand], add))
        while add is not None and len(replies) > FAN_IN:
            replies = [merge(replies[at : at + FAN_IN], add) for at in range(0, len(replies), FAN_IN)]
        got: list[worker.Reply] = self.cluster.gathered(client.compute(replies, optimize_graph=False))
        traffic.rounds += 1
        traffic.sent += size * len(hands) + nbytes(list(given.values()))
        traffic.received += sum(reply.nbytes for reply in got)
        self._place([part for reply in got for part in reply.homes])
        return got

    def _at_home(self, hand: list[int]) -> Any:
        """Where the task of these parts shall run while that worker lives: Dask may copy them to another one else."""
        homes = {self._homes[k] for k in hand if k in self._homes}
        return dask.annotate(workers=sorted(homes), allow_other_workers=True) if len(homes) == 1 else nullcontext()

    def _placed(self) -> list[list[int]]:
        """The parts by the thread that shall answer for them, as far as their places are known."""
        return self._hands or [[k] for k in range(len(self))]

    def _place(self, homes: list[tuple[int, str]]) -> None:
        """Parts on the same worker answer together from now on."""
        self._homes.update(homes)
        if self._hands and all(len({home for k, home in homes if k in hand}) <= 1 for hand in self._hands):
            return
        self._hands = _by_thread(dict(homes), self.cluster.client.nthreads())

    def _renew(self) -> None:
        """Send again what was lost."""
        client, workers = self.cluster.client, self.cluster.workers()
        for k, future in enumerate(self.futures):
            if future.status in LOST:
                self.futures[k] = self.sources[k].start(client, self.names[k], workers[k % len(workers)])
        self._hands = []
        self._homes = {}


def _connected(address: str, security: Any) -> Client:
    try:
        return Client(address, security=security)
    except (OSError, TimeoutError, TypeError, ValueError) as error:  # TypeError: TLS without certificates
        raise ClusterError(f"no scheduler answers at {address}: {error}") from error


def _is_pending(answers: Future[Any], timeout: float) -> bool:
    """Whether they are still not there after so many seconds."""
    return bool(wait([answers], timeout).not_done)


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


def _by_thread(homes: dict[int, str], nthreads: dict[str, int]) -> list[list[int]]:
    """Parts of a worker, dealt to its threads.

    >>> _by_thread({0: "a", 1: "b", 2: "a"}, {"a": 2, "b": 1})
    [[0], [2], [1]]
    """
    there: dict[str, list[int]] = defaultdict(list)
    for k, home in sorted(homes.items()):
        there[home].append(k)
    return [parts[i :: nthreads.get(home, 1)] for home, parts in there.items() for i in range(nthreads.get(home, 1))]
