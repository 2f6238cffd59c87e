"""A design whose rows stay on disk: every product reads them block by block, within a bound of memory.

The rows are a memory-mapped cache of a file (``io/rows``).  The pages of a block are given back to the system
after use unless all of them fit, so the resident memory of the process is bounded, not only what it allocates.  Vectors
with one entry per row, such as targets and scores, are in memory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from typing_extensions import override

from undercut.contracts import BlockDesign, GramProductDesign, WeightedGramDesign
from undercut.errors import DataError, ParameterError, require
from undercut.io.rows.row_cache import RowCache
from undercut.io.rows.row_cache_writer import Floats, cached_rows
from undercut.maps.design import trusted_design
from undercut.maps.matrix import Matrix
from undercut.types import Array, FilePath, FloatArray

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
TARGET_BYTES = 16  # of the target and the group of a row
ROW_BYTES = 200  # of vectors with an entry per row: targets, weights, scores along a line; measured, the most of 8 fits
CLASS_BYTES = 80  # more for every class after the second
PLANES = 8  # one part in so many of the memory is for planes,
BLOCKS = 64  # and one for a block of rows: neither depends on what the process has now, so that runs can be repeated
MOST_BLOCK = 1 << 26
LEAST_PLANES = 60  # vectors of the size of the parameters that must fit


class StreamedData(NamedTuple):
    """Samples whose `X` stays on disk; targets `y` and groups `qid`, if the file has them, are in memory."""

    X: StreamedDesign
    y: FloatArray
    qid: Array | None


def stream_svmlight(
    path: FilePath,
    *,
    memory: str | float = "1GB",
    cache: FilePath | None = None,
    n_features: int | None = None,
    dtype: Floats = "auto",
    zero_based: bool | Literal["auto"] = "auto",
    labelled: bool = True,
) -> StreamedData:
    """Open a file that need not fit in memory; a risk or a linear estimator takes its `X` as it takes a matrix.

    The first call converts the file, plain or compressed, into a memory-mapped cache beside it or in the folder
    `cache`; later calls use that as long as the file does not change.  `memory` bounds the resident memory of the
    process, mapped pages included: what it has now, the vectors of a fit with an entry per row (200 bytes a row, and
    80 more for every class after the second), the planes of a bundle and some blocks of rows.  The other arguments are
    those of ``load_svmlight``; with `dtype` "auto" values are float32 where every number of the file is one exactly.

    >>> import tempfile, pathlib
    >>> from undercut import LinearClassifier
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data.svm")
    ...     _ = path.write_text("+1 1:0.5 3:2\\n-1 2:1\\n")
    ...     X, y, _ = stream_svmlight(path, memory="8GB")
    ...     LinearClassifier(lam=0.01).fit(X, y).predict(X)
    array([ 1., -1.])
    """
    limit = memory_size(memory)
    rows = cached_rows(path, cache, dtype=dtype, zero_based=zero_based, labelled=labelled)
    n_features = _checked_width(rows, n_features, path)
    X = StreamedDesign(rows, n_features, limit)
    y, qid = rows.targets()
    return StreamedData(X, y, qid)


class StreamedDesign(BlockDesign, WeightedGramDesign, GramProductDesign):
    """The rows of a cache with `n_features` columns, those of the file first, in at most `memory` bytes.

    It has no ``take`` and no ``rows``: solvers that copy X or visit its rows in any order refuse it.
    """

    ndim = 2

    def __init__(self, cache: RowCache, n_features: int, memory: int) -> None:
        self.shape = (cache.shape[0], n_features)
        self.key = cache.key
        self.memory = memory
        self._cache = cache
        self.plane_bytes = max(memory // PLANES, 8 * LEAST_PLANES * n_features)
        block_bytes = min(memory // BLOCKS, MOST_BLOCK)
        self._blocks = cache.blocks(block_bytes)
        _compile(cache)  # before the memory is counted
        self._other_bytes = resident_bytes() + self.plane_bytes + 4 * block_bytes  # two are mapped, and widened
        self.check_room(TARGET_BYTES)
        self._stays = cache.n_bytes <= memory - self._other_bytes - ROW_BYTES * self.shape[0]

    def has_room(self, row_bytes: int) -> bool:
        """Whether vectors of so many bytes for every row take at most half of the memory."""
        return 2 * row_bytes * self.shape[0] <= self.memory

    def check_room(self, row_bytes: int) -> None:
        """Refuse a task with vectors of so many bytes for every row where they do not fit."""
        missing = self._other_bytes + row_bytes * self.shape[0] - self.memory
        if missing > 0:
            needed = self.memory + missing * PLANES // (PLANES - 2)  # some of what is added is for planes and blocks
            raise DataError(
                f"`memory` must be at least {-(-needed // 10**6)}MB for {self.shape[0]} rows and {self.shape[1]} "
                f"features, whose vectors are in memory; got {self.memory // 10**6}MB"
            )

    @property
    def dtype(self) -> Any:
        """Of the stored values."""
        return np.dtype(self._cache.layout.dtype)

    @property
    def is_dense(self) -> bool:
        """Whether zeros are stored."""
        return self._cache.layout.dense

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Slices of rows and these rows, as an array or a CSR matrix that is valid until the next one."""
        for at in range(len(self._blocks)):
            with self._opened(at) as X:
                yield self._blocks[at], _resized(X, self.shape[1])

    def resized(self, n_features: int) -> StreamedDesign:
        """The same rows with that many columns; entries beyond them are left out."""
        return StreamedDesign(self._cache, n_features, self.memory)

    @override
    def matvec(self, w: FloatArray) -> FloatArray:
        out = np.empty(self.shape[0])
        for rows, X in self._matrices():
            out[rows] = X.matvec(self._inside(w))
        return out

    @override
    def rmatvec(self, g: FloatArray) -> FloatArray:
        out = np.zeros(self._cache.shape[1])
        for rows, X in self._matrices(g):
            out += X.rmatvec(g[rows])
        return self._outside(out)

    @override
    def matmat(self, W: FloatArray) -> FloatArray:
        out = np.empty((self.shape[0], W.shape[0]))
        for rows, X in self._matrices():
            out[rows] = X.matmat(self._inside(W))
        return out

    @override
    def rmatmat(self, G: FloatArray) -> FloatArray:
        out = np.zeros((G.shape[1], self._cache.shape[1]))
        for rows, X in self._matrices(G):
            out += X.rmatmat(G[rows])
        return self._outside(out)

    @override
    def weighted_gram(self, g: FloatArray) -> FloatArray:
        out = np.zeros((self._cache.shape[1], self._cache.shape[1]))
        for rows, X in self._matrices(g):
            out += X.weighted_gram(g[rows])
        return self._outside(self._outside(out).T)

    @override
    def gram_product(self, g: FloatArray, v: FloatArray) -> FloatArray:
        out = np.zeros(self._cache.shape[1])
        for rows, X in self._matrices(g):
            out += X.gram_product(g[rows], self._inside(v))
        return self._outside(out)

    @override
    def squared_rmatvec(self, g: FloatArray) -> FloatArray:
        out = np.zeros(self._cache.shape[1])
        for rows, X in self._matrices(g):
            out += X.squared_rmatvec(g[rows])
        return self._outside(out)

    def __matmul__(self, other: Any) -> FloatArray:
        """``X other`` for a vector, or for a matrix of a few columns, which may be sparse."""
        other = other.toarray() if hasattr(other, "toarray") else np.asarray(other, dtype=np.float64)
        return self.matvec(other) if other.ndim == 1 else self.matmat(np.ascontiguousarray(other.T))

    def _matrices(self, weights: FloatArray | None = None) -> Iterator[tuple[slice, Matrix]]:
        """The blocks as designs, without those whose rows all have weight zero."""
        for at, rows in enumerate(self._blocks):
            if weights is None or weights[rows].any():
                with self._opened(at) as X:
                    yield rows, trusted_design(X)

    @contextmanager
    def _opened(self, at: int) -> Iterator[Any]:
        """A block; the next one is fetched in the meantime, and the pages are given back after use."""
        rows = self._blocks[at]
        if at + 1 < len(self._blocks):
            self._cache.advise(self._blocks[at + 1].start, self._blocks[at + 1].stop, "MADV_WILLNEED")
        yield self._cache.rows(rows.start, rows.stop)
        if not self._stays:
            self._cache.advise(rows.start, rows.stop, "MADV_DONTNEED")

    def _inside(self, w: FloatArray) -> FloatArray:
        """The parameters of the columns of the file, with zeros for those that are left out."""
        width, own = self._cache.shape[1], self.shape[1]
        if width <= own:
            return np.ascontiguousarray(w[..., :width])
        return np.pad(w, [(0, 0)] * (w.ndim - 1) + [(0, width - own)])

    def _outside(self, a: FloatArray) -> FloatArray:
        """A gradient of the columns of the file as one of this design's columns."""
        width, own = self._cache.shape[1], self.shape[1]
        if width >= own:
            return np.ascontiguousarray(a[..., :own])
        return np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, own - width)])

    def unseen(self, n_features: int) -> int:
        """How many columns from ``n_features`` on have an entry."""
        if self._cache.shape[1] <= n_features:
            return 0
        seen = np.zeros(self._cache.shape[1], bool)
        for at in range(len(self._blocks)):
            with self._opened(at) as X:
                seen[X.indices if sp.issparse(X) else X.any(axis=0)] = True
        return int(seen[n_features:].sum())

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (str(self._cache.folder), self.shape[1], self.memory)


def _compile(cache: RowCache) -> None:
    """Compile, or load, what multiplies the rows."""
    X = trusted_design(cache.rows(0, 1))
    X.rmatvec(X.matvec(np.zeros(cache.shape[1])))


def _resized(X: Any, n_features: int) -> Any:
    """Rows with that many columns."""
    if X.shape[1] >= n_features:
        return X[:, :n_features] if X.shape[1] > n_features else X
    if sp.issparse(X):
        return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))
    return np.pad(X, [(0, 0), (0, n_features - X.shape[1])])


def _reopened(folder: str, n_features: int, memory: int) -> StreamedDesign:
    return StreamedDesign(RowCache(Path(folder)), n_features, memory)


def memory_size(memory: str | float) -> int:
    """Bytes from a number or a text such as 500MB, 2GB or 1.5GiB.

    >>> memory_size("2GB"), memory_size("1.5 GiB"), memory_size(1e9)
    (2000000000, 1610612736, 1000000000)
    """
    match = re.fullmatch(r"(?i)\s*(\d+\.?\d*(?:e\+?\d+)?)\s*((?:[KMGT]I?)?)B?\s*", str(memory))
    if match is None:
        raise ParameterError(f"`memory` must be a number of bytes, or a text such as 500MB or 2GB; got {memory!r}")
    size = int(float(match[1]) * UNITS[match[2].upper()])
    require(size > 0, "`memory` must be positive", memory)
    return size


def resident_bytes() -> int:
    """The memory that the process has now; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _checked_width(rows: RowCache, n_features: int | None, path: Any) -> int:
    if n_features is None:
        return rows.shape[1]
    if n_features < rows.shape[1]:
        raise DataError(
            f"{os.fsdecode(path)}: features must be among the first {n_features} (n_features={n_features}); "
            f"got one in column {rows.shape[1]}: pass n_features={rows.shape[1]} or more"
        )
    return n_features
