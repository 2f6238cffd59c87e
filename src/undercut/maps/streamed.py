"""A design whose rows stay on disk: every product reads them block by block, within a bound of memory.

The rows are a memory-mapped cache of a file (``io/row_cache.py``).  The pages of a block are given back to the system
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
from typing_extensions import override

from undercut.contracts import BlockDesign, GramProductDesign, WeightedGramDesign
from undercut.errors import DataError, ParameterError, require
from undercut.io.row_cache import RowCache
from undercut.io.row_cache_writer import Floats, cached_rows
from undercut.maps.design import trusted_design
from undercut.maps.matrix import Matrix
from undercut.types import Array, FloatArray

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
ROW_BYTES = 200  # of vectors with an entry per row: targets, weights, scores along a line, room for their search
LEAST_PLANES = 40  # that must fit, of 8 bytes a feature
BLOCK_BYTES = (1 << 20, 1 << 26)  # at least and at most
BLOCKS = 16  # in the memory that is left


class StreamedData(NamedTuple):
    """Samples whose `X` stays on disk; targets `y` and groups `qid`, if the file has them, are in memory."""

    X: StreamedDesign
    y: FloatArray
    qid: Array | None


def stream_svmlight(
    path: str | os.PathLike[str],
    *,
    memory: str | float = "1GB",
    cache: str | os.PathLike[str] | None = None,
    n_features: int | None = None,
    dtype: Floats = "auto",
    zero_based: bool | Literal["auto"] = "auto",
    labelled: bool = True,
) -> StreamedData:
    """Open a file that need not fit in memory; a risk or a linear estimator takes its `X` as it takes a matrix.

    The first call converts the file, plain or compressed, into a memory-mapped cache beside it or in the folder
    `cache`; later calls use that as long as the file does not change.  `memory` bounds the resident memory of the
    process, mapped pages included: what it has now, vectors with an entry per row (about 200 bytes a row, for every
    class of a fit one against the rest), the planes of a bundle and some blocks of rows.  The other arguments are those
    of ``load_svmlight``; with `dtype` "auto" values are float32 where every number of the file is one exactly.

    >>> import tempfile, pathlib
    >>> from undercut import LinearClassifier
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data.svm")
    ...     _ = path.write_text("+1 1:0.5 3:2\\n-1 2:1\\n")
    ...     X, y, _ = stream_svmlight(path, memory="1GB")
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

    def __init__(self, cache: RowCache, n_features: int, memory: int) -> None:
        self.shape = (cache.shape[0], n_features)
        self.key = cache.key
        self.memory = memory
        self._cache = cache
        left = memory - resident_bytes() - self._vectors()
        if left < BLOCKS * BLOCK_BYTES[0]:
            raise DataError(_too_little(memory, memory - left + BLOCKS * BLOCK_BYTES[0], self.shape))
        self._blocks = cache.blocks(int(np.clip(left // BLOCKS, *BLOCK_BYTES)))
        self._stays = cache.n_bytes <= left // 2
        self.max_planes = LEAST_PLANES + left // 4 // (8 * max(n_features, 1))  # a quarter: they are copied to grow

    def _vectors(self) -> int:
        return ROW_BYTES * self.shape[0] + 8 * LEAST_PLANES * self.shape[1]

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
                yield self._blocks[at], X

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
        seen = np.zeros(self._cache.shape[1], bool)
        for _, X in self.blocks():
            seen[X.indices if hasattr(X, "indices") else np.flatnonzero(X.any(axis=0))] = True
        return int(seen[n_features:].sum())

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (str(self._cache.folder), self.shape[1], self.memory)


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


def _too_little(memory: int, needed: int, shape: tuple[int, int]) -> str:
    return (
        f"`memory` must be at least {-(-needed // 10**6)}MB for {shape[0]} rows and {shape[1]} features, whose vectors "
        f"are in memory; got {memory // 10**6}MB"
    )


def _checked_width(rows: RowCache, n_features: int | None, path: Any) -> int:
    if n_features is None:
        return rows.shape[1]
    if n_features < rows.shape[1]:
        raise DataError(
            f"{os.fsdecode(path)}: features must be among the first {n_features} (n_features={n_features}); "
            f"got one in column {rows.shape[1]}: pass n_features={rows.shape[1]} or more"
        )
    return n_features
