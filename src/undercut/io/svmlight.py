"""SVMlight / LIBSVM files: one sample per line, ``label [qid:group] index:value ... [# comment]``.

The text is read and parsed in blocks of whole lines, so that memory holds the arrays and one block, never the file.
A malformed line is refused with its file, line, rule and value.
"""

from __future__ import annotations

import operator
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_matrix

from undercut._jit.svmlight import Rows
from undercut.errors import DataError, ParameterError
from undercut.io.svmlight_reader import MAX_INDEX, SvmlightReader
from undercut.io.text_blocks import ByteRange
from undercut.types import FilePath


class SvmlightData(NamedTuple):
    """Samples: the rows of `X`, their labels `y` and, if the file has them, their groups `qid`."""

    X: csr_matrix
    y: NDArray[np.float64]
    qid: NDArray[np.int64] | None


def load_svmlight(
    path: FilePath,
    *,
    n_features: int | None = None,
    dtype: DTypeLike = np.float64,
    zero_based: bool | Literal["auto"] = "auto",
    labelled: bool = True,
    byte_range: tuple[int, int] | None = None,
) -> SvmlightData:
    """Read a whole file, plain or compressed by gzip, bzip2 or xz.

    Feature ``index:value`` goes to column ``index - 1``, or ``index`` if `zero_based`; "auto" is zero-based if index 0
    occurs.  `X` has `n_features` columns (default: as many as the indices need) and `dtype` float64 or float32.
    Numbers are rounded as by ``float()``; indices must increase within a line; zeros that are written are stored.
    Where the file is not `labelled`, its lines begin with the features, and `y` is zero.

    With a `byte_range` ``(start, stop)`` of a plain file only the lines are read whose first byte lies in it, possibly
    none; `byte_ranges` divides a file so that every line is read once.  "auto" is refused there, because ranges could
    disagree, and without `n_features` each is as wide as its own indices need.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data.svm")
    ...     _ = path.write_text("+1 1:0.5 3:2e-1  # first\\n-1 2:1\\n")
    ...     X, y, qid = load_svmlight(path)
    >>> X.toarray()
    array([[0.5, 0. , 0.2],
           [0. , 1. , 0. ]])
    >>> y
    array([ 1., -1.])
    """
    if zero_based not in (True, False, "auto"):
        raise ParameterError(f"zero_based must be True, False or 'auto'; got {zero_based!r}")
    if byte_range is not None:
        return _load_range(path, ByteRange(*byte_range), n_features, dtype, zero_based, labelled)
    first = 0 if zero_based else 1
    base = 1 if zero_based == "auto" else first  # until index 0 is seen
    with closing(SvmlightReader(path, first, base, n_features, dtype, labelled)) as reader:
        rows = reader.take(sys.maxsize)
    if not rows:
        raise DataError(f"{reader.name}: holds no sample")
    if zero_based == "auto" and any(piece.indices.size and piece.indices.min() == 0 for piece in rows):
        base = 0
        if n_features is not None and _width(rows, base) > n_features:
            # Only now is the last admitted index known to be too large; reading again names its line.
            return load_svmlight(path, n_features=n_features, dtype=dtype, zero_based=True, labelled=labelled)
    return _assemble(rows, base, n_features)


def _load_range(
    path: FilePath, part: ByteRange, n_features: int | None, dtype: DTypeLike, zero_based: Any, labelled: bool
) -> SvmlightData:
    if zero_based == "auto":
        raise ParameterError("zero_based must be True or False where a range of a file is read; got 'auto'")
    base = 0 if zero_based else 1
    with closing(SvmlightReader(path, base, base, n_features, dtype, labelled, part)) as reader:
        rows = reader.take(sys.maxsize)
    if not rows:
        return SvmlightData(csr_matrix((0, n_features or 0), dtype=dtype), np.empty(0), None)
    return _assemble(rows, base, n_features)


def iter_svmlight(
    path: FilePath,
    *,
    chunk_rows: int,
    n_features: int | None = None,
    dtype: DTypeLike = np.float64,
    zero_based: bool = False,
) -> Iterator[SvmlightData]:
    """Read a file `chunk_rows` samples at a time (fewer in the last chunk), in memory bounded by the chunk.

    Like `load_svmlight`, except for what a single pass cannot know: index 0 is refused unless `zero_based`, and without
    `n_features` a chunk is as wide as the largest index so far, so that later chunks may be wider than earlier ones.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data.svm")
    ...     _ = path.write_text("1 2:1\\n-1 1:3\\n1 1:1\\n")
    ...     [chunk.X.shape for chunk in iter_svmlight(path, chunk_rows=2)]
    [(2, 2), (1, 2)]
    """
    if operator.index(chunk_rows) < 1:
        raise ParameterError(f"chunk_rows must be at least 1; got {chunk_rows}")
    if zero_based not in (True, False):
        raise ParameterError(f"zero_based must be True or False where a file is read in chunks; got {zero_based!r}")
    base = 0 if zero_based else 1
    return _chunks(SvmlightReader(path, base, base, n_features, dtype), chunk_rows, base, n_features)


def _chunks(reader: SvmlightReader, chunk_rows: int, base: int, n_features: int | None) -> Iterator[SvmlightData]:
    with closing(reader):
        rows = reader.take(chunk_rows)
        if not rows:
            raise DataError(f"{reader.name}: holds no sample")
        width = n_features or 0
        while rows:
            width = max(width, _width(rows, base))
            yield _assemble(rows, base, width)
            rows = reader.take(chunk_rows)


def iter_rows(path: FilePath, *, first: int, dtype: DTypeLike, labelled: bool) -> Iterator[Rows]:
    """Read a file in pieces of one block of text each, with indices as they are written, ``first`` or larger."""
    with closing(SvmlightReader(path, first, first, None, dtype, labelled)) as reader:
        while rows := reader.take_block():
            yield from rows


def _width(rows: list[Rows], base: int) -> int:
    return max((int(piece.indices.max()) + 1 - base for piece in rows if piece.indices.size), default=0)


def _assemble(rows: list[Rows], base: int, n_features: int | None) -> SvmlightData:
    """Join pieces into one matrix; empties `rows`, and frees each array's pieces before it joins the next array's."""
    width = _width(rows, base) if n_features is None else n_features
    columns = deque(zip(*rows, strict=True))
    rows.clear()
    y, qid, sizes, indices, values = (np.concatenate(columns.popleft()) for _ in Rows._fields)
    index_dtype = np.int32 if max(indices.size, width) <= MAX_INDEX else np.int64
    indptr = np.zeros(y.size + 1, index_dtype)
    np.cumsum(sizes, out=indptr[1:], dtype=index_dtype)
    indices -= base
    X = csr_matrix((values, indices.astype(index_dtype, copy=False), indptr), shape=(y.size, width))
    X.has_canonical_format = True  # the parser has checked that indices increase
    return SvmlightData(X, y, qid if qid.size else None)
