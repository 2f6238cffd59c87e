"""Rows of a file in memory-mapped arrays: what is read of them is memory that the system can take back at any time.

A cache is a folder:

    y       float64, one target per row
    qid     int64, one group per row, where the file has them
    indptr  int64, and columns int32, values float32 or float64: CSR
    values  float32 or float64 row by row, without the other two, where that takes no more room

The folder appears under its name when it is complete, so a cache that can be opened is whole.
"""

from __future__ import annotations

import json
import mmap
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from undercut.types import Array

VERSION = 1
META = "meta.json"
INDEX_BYTES = 4  # a column of CSR
PAGE = mmap.ALLOCATIONGRANULARITY


class Layout(NamedTuple):
    """What the arrays of a cache are."""

    n_rows: int
    n_features: int
    n_stored: int
    dtype: str  # of the values
    dense: bool
    has_qid: bool

    def sizes(self) -> dict[str, int]:
        """The bytes of every file."""
        width = np.dtype(self.dtype).itemsize
        sizes = {"y": 8 * self.n_rows} | ({"qid": 8 * self.n_rows} if self.has_qid else {})
        if self.dense:
            return sizes | {"values": width * self.n_rows * self.n_features}
        csr = {"indptr": 8 * (self.n_rows + 1), "columns": INDEX_BYTES * self.n_stored}
        return sizes | csr | {"values": width * self.n_stored}

    @property
    def row_bytes(self) -> int:
        """Of a dense row, or of an entry of CSR."""
        width = np.dtype(self.dtype).itemsize
        return width * max(self.n_features, 1) if self.dense else width + INDEX_BYTES


class Mapped:
    """A file as a read-only array."""

    def __init__(self, path: Path, dtype: Any) -> None:
        self._map: mmap.mmap | None = None
        self.array: Array = np.empty(0, dtype)
        if path.stat().st_size:
            with open(path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.array = np.frombuffer(self._map, dtype)

    def advise(self, start: int, stop: int, advice: str) -> None:
        """Tell the system about the pages of the entries ``start : stop``, where it can be told."""
        flag = getattr(mmap, advice, None)
        if self._map is None or flag is None:
            return
        width = self.array.itemsize
        first, last = start * width // PAGE * PAGE, min(stop * width, len(self._map))
        if last > first:
            self._map.madvise(flag, first, last - first)


class RowCache:
    """The rows of a cache; ``key`` is a checksum of them."""

    def __init__(self, folder: Path) -> None:
        meta = json.loads((folder / META).read_text(encoding="utf-8"))
        self.folder, self.key, self.layout = folder, str(meta["key"]), Layout(**meta["layout"])
        self.shape = (self.layout.n_rows, self.layout.n_features)
        self._values = Mapped(folder / "values", self.layout.dtype)
        if not self.layout.dense:
            self._indptr = Mapped(folder / "indptr", np.int64)
            self._columns = Mapped(folder / "columns", np.int32)

    def targets(self) -> tuple[Array, Array | None]:
        """The targets and the groups of all rows, in memory."""
        qid = np.fromfile(self.folder / "qid", np.int64) if self.layout.has_qid else None
        return np.fromfile(self.folder / "y", np.float64), qid

    def rows(self, start: int, stop: int) -> Any:
        """Some rows as an array or a CSR matrix whose entries are not copied."""
        first, last = self._entries(start, stop)
        values = self._values.array[first:last]
        if self.layout.dense:
            return values.reshape(stop - start, self.layout.n_features)
        indptr = (self._indptr.array[start : stop + 1] - first).astype(np.int32)
        X = csr_matrix((values, self._columns.array[first:last], indptr), shape=(stop - start, self.shape[1]))
        X.has_canonical_format = True
        return X

    def advise(self, start: int, stop: int, advice: str) -> None:
        """Tell the system that some rows are needed next, or no longer."""
        first, last = self._entries(start, stop)
        self._values.advise(first, last, advice)
        if not self.layout.dense:
            self._columns.advise(first, last, advice)
            self._indptr.advise(start, stop, advice)

    def blocks(self, block_bytes: int) -> list[slice]:
        """All rows in slices of about that many bytes, and of at least one row."""
        n = self.layout.n_rows
        step = max(1, block_bytes // self.layout.row_bytes)  # entries of CSR
        if self.layout.dense:
            edges = np.arange(0, n + step, step)
        else:
            by_entries = np.searchsorted(self._indptr.array, np.arange(0, self.layout.n_stored + step, step))
            edges = np.concatenate([by_entries, np.arange(0, n, max(1, block_bytes // 8))])
        edges = np.unique(np.append(np.minimum(edges, n), [0, n]))
        return [slice(int(low), int(high)) for low, high in pairwise(edges)]

    @property
    def n_bytes(self) -> int:
        """Of the arrays that are mapped."""
        return sum(size for name, size in self.layout.sizes().items() if name not in ("y", "qid"))

    def _entries(self, start: int, stop: int) -> tuple[int, int]:
        if self.layout.dense:
            return start * self.layout.n_features, stop * self.layout.n_features
        return int(self._indptr.array[start]), int(self._indptr.array[stop])


def is_complete(folder: Path) -> bool:
    """Whether there is a cache of this version whose files have their sizes."""
    try:
        meta = json.loads((folder / META).read_text(encoding="utf-8"))
        sizes = Layout(**meta["layout"]).sizes()
        return meta["version"] == VERSION and all((folder / name).stat().st_size == sizes[name] for name in sizes)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def write_meta(folder: Path, key: str, layout: Layout) -> None:
    """Write what ``RowCache`` reads first."""
    meta = {"version": VERSION, "key": key, "layout": layout._asdict()}
    (folder / META).write_text(json.dumps(meta), encoding="utf-8")
