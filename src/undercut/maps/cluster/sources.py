"""How parts come to the workers of a cluster, and come back if they are lost; ``client`` is Dask's ``Client``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from undercut.errors import DataError
from undercut.maps.cluster import worker

LOST = ("cancelled", "lost", "pending")  # of a part that was there before


class Source(ABC):
    """How a part comes to a worker."""

    @abstractmethod
    def start(self, client: Any, name: str, address: str) -> Any:
        """The future of the part ``name``, on the worker ``address`` if that can take it."""


@dataclass
class Sent(Source):
    """A value of this process."""

    value: Any

    @override
    def start(self, client: Any, name: str, address: str) -> Any:
        return client.scatter(worker.Held(self.value, name), workers=[address], hash=False)


@dataclass
class Loaded(Source):
    """What a function makes of a source, such as a file."""

    function: Callable[..., Any]
    source: Any

    @override
    def start(self, client: Any, name: str, address: str) -> Any:
        given = self.function, (self.source,), name
        return client.submit(worker.held, *given, pure=False, workers=[address], allow_other_workers=True)


@dataclass
class Computed(Source):
    """What a function makes of blocks of Dask's collections."""

    make: Callable[..., Any]
    blocks: tuple[Any, ...]

    @override
    def start(self, client: Any, name: str, address: str) -> Any:
        blocks = client.compute(list(self.blocks), workers=[address], allow_other_workers=True)
        given = self.make, blocks, name
        return client.submit(worker.held, *given, pure=False, workers=[address], allow_other_workers=True)


@dataclass
class Made(Source):
    """What a function makes of another part."""

    parent: Any  # ``ClusterParts``
    k: int
    function: Callable[..., Any]
    shared: tuple[Any, ...]

    @override
    def start(self, client: Any, name: str, address: str) -> Any:
        part = _alive(self.parent, self.k, client, address)
        return client.submit(worker.made, part, self.function, self.shared, pure=False)


@dataclass
class Crossed(Source):
    """What a function makes of all parts."""

    parent: Any  # ``ClusterParts``
    k: int
    function: Callable[..., Any]

    @override
    def start(self, client: Any, name: str, address: str) -> Any:
        parts = [_alive(self.parent, k, client, address) for k in range(len(self.parent))]
        given = parts, self.k, self.function
        return client.submit(worker.crossed, *given, pure=False, workers=[address], allow_other_workers=True)


def _alive(parent: Any, k: int, client: Any, address: str) -> Any:
    """A part that another is made of, started again if it is lost."""
    if parent.futures[k].status in LOST:
        parent.futures[k] = parent.sources[k].start(client, parent.names[k], address)
    return parent.futures[k]


def side_by_side(collections: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The delayed blocks of the same rows of Dask arrays or dataframes; other divisions of the rows are refused."""
    each = [_row_blocks(collection) for collection in collections]
    if len({len(blocks) for blocks in each}) > 1:
        counts = " and ".join(str(len(blocks)) for blocks in each)
        raise DataError(
            f"X and what is given beside it must have the same blocks of rows; got {counts} blocks: "
            "use y.rechunk(X.chunks[0]), or repartition the dataframes alike"
        )
    return list(zip(*each, strict=True))


def _row_blocks(collection: Any) -> list[Any]:
    """The delayed blocks of rows of a Dask array or dataframe; an array in several blocks of columns is refused."""
    blocks = collection.to_delayed()
    if isinstance(blocks, list):
        return blocks
    if blocks.ndim == 2 and blocks.shape[1] != 1:
        raise DataError(
            f"every block of a Dask array must have all columns; got {blocks.shape[1]} blocks of columns: "
            "use X.rechunk({1: -1})"
        )
    return list(blocks.reshape(-1))
