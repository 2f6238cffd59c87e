"""Workers of dask.distributed: started or connected to, watched while they are asked, and closed."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass
from typing import Any

from undercut.errors import CapabilityError, ClusterError, require
from undercut.maps.parts import numbered

try:
    from distributed import Client, LocalCluster, Nanny, get_client, wait as wait_for

    from undercut.maps.cluster.parts import ClusterParts
    from undercut.maps.cluster.sources import Computed, Loaded, Sent, side_by_side
except ImportError as error:
    raise CapabilityError("a cluster needs dask: pip install 'undercut[dask]'") from error

POLL = 5.0  # seconds between looks at the workers while an answer is awaited
PATIENCE = 60.0  # seconds to wait for the first worker, such as one that is being restarted
OWN_GROUP = ["import os; os.setpgrp()"]  # Ctrl-C in a terminal reaches the client alone, which ends the workers


@dataclass
class Traffic:
    """What has travelled between client and workers: numbers of arguments and answers, each transfer counted once."""

    rounds: int = 0
    sent: int = 0  # bytes to the workers
    received: int = 0  # bytes from the workers, sums on the way included

    @property
    def total(self) -> int:
        return self.sent + self.received


class Keeping(Nanny):  # type: ignore[misc]  # Dask has no types
    """A worker process that keeps freed memory.

    Dask's own gives all of it back to the system at once, and every evaluation asks for it again.
    """

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.pre_spawn_env.pop("MALLOC_TRIM_THRESHOLD_", None)


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
                worker_class=Keeping,
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
    def n_threads(self) -> int:
        """How many tasks can run at once; ``ClusterError`` if there is no worker."""
        self.workers()
        return sum(self.client.nthreads().values())

    @property
    def dashboard(self) -> str | None:
        """The address of Dask's dashboard, if there is one."""
        return self.client.dashboard_link or None

    def workers(self) -> list[str]:
        """The addresses of the workers; ``ClusterError`` if none appears, or if there is no scheduler."""
        self.check_connected()
        try:
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

    def check_connected(self) -> None:
        """``ClusterError`` if the connection to the scheduler is closed."""
        if self.client.status != "running":
            raise ClusterError(f"the scheduler at {self.address} does not answer: the connection is closed")

    def gathered(self, futures: list[Any]) -> list[Any]:
        """The results of tasks; ``ClusterError`` if no worker is left, ``CancelledError`` if none works on them.

        Dask forgets tasks with a preferred worker if all workers die at once: then none is being processed.  Answers
        can be lost after they were finished and before they arrive, so fetching them is watched too.
        """
        loop = self.client.loop.asyncio_loop
        answers = asyncio.run_coroutine_threadsafe(self.client.gather(futures, asynchronous=True), loop)
        watch = Watch(self)
        try:
            while _is_pending(answers, POLL):
                watch.look()
            results: list[Any] = answers.result()
        finally:
            answers.cancel()
        return results

    def first_done(self, futures: list[Any]) -> list[Any]:
        """The tasks that have ended, whatever became of them; at least one.  Errors as in ``gathered``."""
        watch = Watch(self)
        while not (done := [future for future in futures if future.status != "pending"]):
            try:
                wait_for(futures, timeout=POLL, return_when="FIRST_COMPLETED")
            except (TimeoutError, CancelledError, OSError):
                watch.look()
        return done

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


class Watch:
    """Looks at the workers while answers are awaited."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self._idle = cluster, 0

    def look(self) -> None:
        """Raise ``ClusterError`` if no worker is left, ``CancelledError`` if none has had a task, twice in a row."""
        self.cluster.workers()
        self._idle = 0 if any(self.cluster.client.processing().values()) else self._idle + 1
        if self._idle > 1:
            raise CancelledError


def _connected(address: str, security: Any) -> Client:
    """A client of a scheduler.

    One that could not connect is closed at once: left to the garbage collection, it may be closed in the thread that
    the next client starts, where it waits for a lock that is held until that thread runs.
    """
    try:
        return Client(address, security=security)
    except (OSError, TimeoutError, TypeError, ValueError) as error:  # TypeError: TLS without certificates
        message = f"no scheduler answers at {address}: {error}"
    gc.collect()
    raise ClusterError(message)


def _is_pending(answers: Future[Any], timeout: float) -> bool:
    """Whether they are still not there after so many seconds."""
    return bool(wait([answers], timeout).not_done)
