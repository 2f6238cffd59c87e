"""Data in partitions: Dask arrays and dataframes, or files, whose rows never pass through this process.

The workers read and check the rows; numbers of rows and columns, classes and queries come back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from undercut.contracts import Risk
from undercut.errors import DataError
from undercut.estimators.cluster import blocks
from undercut.io.several import Source, load_numbered, matching
from undercut.io.text_blocks import byte_ranges
from undercut.maps.parts import Parts, added
from undercut.risks import ShardedRisk
from undercut.types import Array, FloatArray

if TYPE_CHECKING:
    from undercut.maps.cluster import Cluster

PARTS_PER_WORKER = 2  # of a plain file: a worker that ends early takes over what another has not begun
SMALLEST = 1 << 16  # bytes: a smaller file is not divided


def is_collection(X: Any) -> bool:
    """Whether X is one of Dask's: an array or a dataframe that is computed on workers."""
    return hasattr(X, "__dask_graph__")


def is_partitioned(X: Any) -> bool:
    """Whether X is one of Dask's collections, or names files.

    >>> is_partitioned("part-*.svm"), is_partitioned([Path("a.svm"), Path("b.svm")]), is_partitioned([[1.0]])
    (True, True, False)
    """
    if isinstance(X, PartitionedData):
        return True
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(each, str | Path) for each in X)
    return isinstance(X, str | Path) or is_collection(X)


@dataclass(frozen=True)
class PartitionedData:
    """Parts that each hold a block of rows, and what all of them have in common."""

    parts: Parts
    n_features: int
    sizes: list[int]  # rows of each part
    fields: tuple[str, ...]
    names: list[str] | None = None  # of the columns

    @property
    def n_samples(self) -> int:
        return sum(self.sizes)

    @classmethod
    def of(
        cls, X: Any, y: Any = None, *, qid: Any = None, sample_weight: Any = None, whole_files: bool = False
    ) -> PartitionedData:
        """From what a user gives to ``fit``; files are read as whole ones where their rows belong together."""
        if isinstance(X, PartitionedData):
            return X
        beside = {"y": y, "qid": qid, "sample_weight": sample_weight}
        given = {name: value for name, value in beside.items() if value is not None}
        if not is_collection(X):
            if given:
                raise DataError(f"files hold their own {', '.join(given)}: pass only the files")
            return cls.of_files(X, whole_files=whole_files)
        for name, value in given.items():
            if not is_collection(value):
                raise DataError(
                    f"{name} must be a Dask array or series like X; got {type(value).__name__}: use "
                    f"dask.array.from_array({name}, chunks=X.chunks[0])"
                )
        make = partial(blocks.checked_block, fields=("X", *given))
        parts = running_cluster().collected(make, X, *given.values())
        data = cls._measured(parts)
        columns = list(getattr(X, "columns", ()))
        named = bool(columns) and all(isinstance(name, str) for name in columns)
        return replace(data, names=columns) if named else data

    @classmethod
    def of_files(
        cls, files: Any, *, n_features: int | None = None, whole_files: bool = False, labelled: bool = True
    ) -> PartitionedData:
        """The rows of SVMlight files: patterns, or a list of names."""
        cluster = running_cluster()
        n_parts = 1 if whole_files else PARTS_PER_WORKER * cluster.n_workers
        sources = divided(matching(files), n_parts)
        read = partial(load_numbered, labelled=labelled)
        rows = cluster.load(read, sources, [str(source) for source in sources])
        from_zero = any(rows.each(blocks.is_from_zero))
        width = max(rows.each(blocks.width, from_zero)) if n_features is None else n_features
        return cls._measured(rows.made(blocks.placed, from_zero, width))

    @classmethod
    def _measured(cls, parts: Parts) -> PartitionedData:
        """The parts that have rows; a Dask block of another width is refused."""
        shapes = parts.each(blocks.shape)
        kept = [k for k, (n, _, _) in enumerate(shapes) if n > 0]
        if not kept:
            raise DataError(f"the data must hold at least one row; got none in {', '.join(parts.names)}")
        widths = [shapes[k][1] for k in kept]
        for k, width in zip(kept, widths, strict=True):
            if width != widths[0]:
                raise DataError(
                    f"all partitions must have the same columns; {parts.names[k]} has {width}, and "
                    f"{parts.names[kept[0]]} has {widths[0]}"
                )
            if shapes[k][2] != shapes[kept[0]][2]:
                raise DataError(f"{parts.names[k]} has {shapes[k][2]}, and {parts.names[kept[0]]} {shapes[kept[0]][2]}")
        sizes = [shapes[k][0] for k in kept]
        return cls(parts.only(kept), widths[0], sizes, tuple(shapes[kept[0]][2]))

    def require(self, name: str, remedy: str) -> None:
        """Refuse data without a field."""
        if name not in self.fields:
            raise DataError(f"`{name}` must be given for every row; got none: {remedy}")

    def classes(self) -> tuple[Array, FloatArray]:
        """The different labels in increasing order, and the summed weight of each."""
        self.require("y", "pass y")
        counted = self.parts.each(blocks.class_counts)
        classes, codes = np.unique(np.concatenate([labels for labels, _ in counted]), return_inverse=True)
        if classes.size < 2:
            raise DataError(f"a classifier needs samples of at least 2 classes; got 1 class: {classes[0]}")
        counts = np.bincount(codes, weights=np.concatenate([counts for _, counts in counted]))
        return classes, counts.astype(np.float64)

    def n_queries(self) -> int:
        """How many different queries there are."""
        self.check_queries()
        return sum(own.size for own in self.parts.each(blocks.queries))

    def with_parts(self, parts: Parts, n_features: int) -> PartitionedData:
        """The same rows with other columns."""
        return replace(self, parts=parts, n_features=n_features)

    def check_queries(self) -> None:
        """Refuse a query whose documents are in several partitions."""
        self.require("qid", "pass one number per row, or write qid:1 behind the target of each row of a file")
        found = self.parts.each(blocks.queries)
        values, counts = np.unique(np.concatenate(found), return_counts=True)
        twice = values[counts > 1]
        if twice.size:
            places = [name for name, own in zip(self.parts.names, found, strict=True) if twice[0] in own]
            raise DataError(
                f"the documents of a query must be in one partition; query {twice[0]} is in {' and '.join(places)}: "
                "divide the data between queries"
            )

    def gathered(self, name: str) -> Array:
        """One entry of all rows, in their order."""
        return np.concatenate(self.parts.each(blocks.entry, name))

    def rows(self, wanted: Array) -> list[Any]:
        """Some rows of X, by their increasing numbers, from each part."""
        starts = np.cumsum([0, *self.sizes])
        each = [wanted[(wanted >= low) & (wanted < high)] - low for low, high in pairwise(starts)]
        return self.parts.each(blocks.gathered_rows, items=each)

    def risk(self, make: Callable[..., Risk], **settings: Any) -> ShardedRisk:
        """The risk whose shards ``make(**block, **settings)`` makes next to their rows."""
        return ShardedRisk.of(self.parts, partial(make, **settings))


class PartitionedRows:
    """The rows of X in partitions, of which some can be fetched: what a kernel machine asks of its samples."""

    def __init__(self, data: PartitionedData) -> None:
        self.data, self.shape = data, (data.n_samples, data.n_features)

    @property
    def parts(self) -> Parts:
        """X alone."""
        return self.data.parts.made(blocks.samples)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Array) -> Any:
        some = self.data.rows(np.asarray(rows))
        return (sp.vstack if sp.issparse(some[0]) else np.concatenate)(some)

    def variance(self) -> float:
        """Of all entries."""
        total, squares, n = self.data.parts.total(blocks.moments, add=added)
        return float(squares / n - (total / n) ** 2)


def filled(parts: Parts) -> Parts:
    """The parts that hold anything: a Dask bag may have empty partitions."""
    kept = [k for k, is_there in enumerate(parts.each(_is_filled)) if is_there]
    if not kept:
        raise DataError(f"the data must hold at least one element; got none in {', '.join(parts.names)}")
    return parts.only(kept)


def _is_filled(part: Any) -> bool:
    return part is not None


def divided(paths: Sequence[str], n_parts: int) -> list[Source]:
    """The files in parts of similar size: plain ones by ranges of bytes, compressed ones as a whole."""
    total = sum(os.path.getsize(path) for path in paths)
    share = max(total // max(n_parts, 1), SMALLEST)
    sources: list[Source] = []
    for path in paths:
        n = max(1, round(os.path.getsize(path) / share)) if n_parts > 1 else 1
        ranges = byte_ranges(path, n) if n > 1 else [None]
        sources += [Source(os.path.abspath(path), each) for each in ranges]
    return sources


def running_cluster() -> Cluster:
    """The cluster of the client that is connected in this process."""
    return cluster_class().current()


def cluster_class() -> type[Cluster]:
    """``Cluster``, loaded when it is needed; ``CapabilityError`` where Dask is not installed."""
    from undercut.maps.cluster import Cluster

    return Cluster
