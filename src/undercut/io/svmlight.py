"""SVMlight / LIBSVM files: one sample per line, ``label [qid:group] index:value ... [# comment]``.

The text is read and parsed in blocks of whole lines, so that memory holds the arrays and one block, never the file.
A malformed line is refused with its file, line, rule and value.
"""

from __future__ import annotations

import math
import operator
import os
import re
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_matrix

from undercut._jit import svmlight as kernel
from undercut._jit.svmlight import Rows, Rules
from undercut.errors import DataError, ParameterError
from undercut.io.text_blocks import ByteRange, lines_before, text_blocks, with_labels

BLOCK_BYTES = 4 << 20  # text read at a time; a block grows if a line is longer
MAX_INDEX = 2**31 - 1
MAX_DOUBLE = sys.float_info.max
_TOKEN = re.compile(rb"[^ \t\r\n#]*")

FilePath = str | os.PathLike[str]


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
    with closing(_Reader(path, first, base, n_features, dtype, labelled)) as reader:
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
    with closing(_Reader(path, base, base, n_features, dtype, labelled, part)) as reader:
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
    return _chunks(_Reader(path, base, base, n_features, dtype), chunk_rows, base, n_features)


def _chunks(reader: _Reader, chunk_rows: int, base: int, n_features: int | None) -> Iterator[SvmlightData]:
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
    with closing(_Reader(path, first, first, None, dtype, labelled)) as reader:
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


class _Reader:
    """Parses a file block by block, and knows the line number for errors.

    Indices are left as written: `first` is the smallest admitted one, `base` the one that `n_features` counts from.
    """

    def __init__(
        self,
        path: FilePath,
        first: int,
        base: int,
        n_features: int | None,
        dtype: DTypeLike,
        labelled: bool = True,
        part: ByteRange | None = None,
    ) -> None:
        self.name = os.fsdecode(path)
        self.part = part
        self.base = base
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float64, np.float32):
            raise ParameterError(f"dtype must be float64 or float32; got {self.dtype}")
        self.rules = Rules(first, MAX_INDEX, float(np.finfo(self.dtype).max))
        self.reason = ""  # why no larger index is admitted
        if n_features is not None:
            if n_features < 1:
                raise ParameterError(f"n_features must be at least 1; got {n_features}")
            self.limit_width(operator.index(n_features), f"n_features={n_features}")
        blocks = text_blocks(self.name, BLOCK_BYTES, part)
        self._blocks = blocks if labelled else with_labels(blocks)
        self._block = _Block(bytearray(), 0)
        self._lines_before = 0
        self._has_qid = -1

    def limit_width(self, n_features: int, reason: str) -> None:
        """From here on refuse an index beyond the last of `n_features` columns."""
        self.rules = self.rules._replace(max_index=min(n_features + self.base - 1, MAX_INDEX))
        self.reason = reason

    def close(self) -> None:
        self._blocks.close()

    def take(self, n_rows: int) -> list[Rows]:
        """The next `n_rows` rows in as many pieces as blocks they lie in; fewer at the end of the file."""
        pieces = []
        while n_rows > 0 and self._has_text():
            piece = self._parse(n_rows)
            if piece.y.size:
                pieces.append(piece)
                n_rows -= piece.y.size
        return pieces

    def take_block(self) -> list[Rows]:
        """The rows of the next block that holds any; none at the end of the file."""
        while self._has_text():
            piece = self._parse(sys.maxsize)
            if piece.y.size:
                return [piece]
        return []

    def _has_text(self) -> bool:
        """Whether text is left to parse; moves on to the next block if it has to."""
        if self._block.pos < self._block.text.size:
            return True
        self._lines_before += self._block.out.y.size
        raw, end = next(self._blocks, (bytearray(), 0))
        self._block = _Block(raw, end)
        return end > 0

    def _parse(self, n_rows: int) -> Rows:
        block = self._block
        out = block.room(n_rows)
        code, block.pos, n, k, n_hard, self._has_qid = kernel.parse_rows(
            block.text, block.pos, self._has_qid, self.rules, out, block.hard
        )
        if code != kernel.DONE:
            self._refuse(code, block.pos)
        if n_hard:
            self._convert(block.hard[:n_hard], out)
        block.n_rows += n
        block.n_stored += k
        counts = (n, n if self._has_qid > 0 else 0, n, k, k)
        piece = Rows(*[_head(array, count) for array, count in zip(out, counts, strict=True)])
        return piece._replace(values=piece.values.astype(self.dtype, copy=False))

    def _convert(self, hard: NDArray[np.int64], out: Rows) -> None:
        """Fill in the numbers that the kernel could not round with certainty; see `kernel.parse_rows`."""
        raw, slots = self._block.raw, hard[:, 0]
        numbers = np.array([float(raw[start:end].rpartition(b":")[2]) for _, start, end in hard.tolist()])
        is_label = slots < 0
        too_large = np.abs(numbers) > np.where(is_label, MAX_DOUBLE, self.rules.max_value)
        if too_large.any():
            i = int(too_large.argmax())
            self._refuse(kernel.BAD_LABEL if is_label[i] else kernel.BAD_FEATURE, int(hard[i, 1]))
        out.y[~slots[is_label]] = numbers[is_label]
        out.values[slots[~is_label]] = numbers[~is_label]

    def _refuse(self, code: int, pos: int) -> NoReturn:
        """Raise the error for the token at `pos`."""
        raw = self._block.raw
        line = lines_before(self.name, self.part) + self._lines_before + raw.count(b"\n", 0, pos) + 1
        if code == kernel.BAD_LABEL:
            why = _why_label(_token(raw, pos))
        elif code == kernel.BAD_QID:
            why = f"qid must be an integer of at most 18 digits; got {_show(_token(raw, pos))}"
        elif code == kernel.MIXED_QID:
            why = f"qid must be on every line or on none; got a line {'without' if self._has_qid else 'with'} it"
        elif code == kernel.BAD_ORDER:
            before = raw[raw.rfind(b"\n", 0, pos) + 1 : pos].split()[-1].decode()
            why = f"feature indices must increase within a line; got {_show(_token(raw, pos))} after {_show(before)}"
        else:
            why = _why_feature(_token(raw, pos), self.rules, self.base, self.reason)
        raise DataError(f"{self.name}:{line}: {why}")


def _head(array: Any, n: int) -> Any:
    """The first `n` entries, copied so that the others can be freed."""
    return array if n == array.size else array[:n].copy()


class _Block:
    """Whole lines of text, how far they are parsed, and output arrays large enough for all of them."""

    def __init__(self, raw: bytearray, end: int) -> None:
        self.raw = raw
        self.text = np.frombuffer(raw, np.uint8, end)
        self.pos = self.n_rows = self.n_stored = 0
        n_lines, n_colons = kernel.count_marks(self.text)
        self.out = Rows(
            np.empty(n_lines, np.float64),
            np.empty(n_lines, np.int64),
            np.empty(n_lines, np.int32),
            np.empty(n_colons, np.int32),
            np.empty(n_colons, np.float64),
        )
        self.hard = np.empty((n_lines + n_colons, 3), np.int64)

    def room(self, n_rows: int) -> Rows:
        """The unfilled part, for at most `n_rows` rows."""
        i, k, out = self.n_rows, self.n_stored, self.out
        rows = slice(i, min(i + n_rows, out.y.size))
        return Rows(out.y[rows], out.qid[rows], out.sizes[rows], out.indices[k:], out.values[k:])


def _token(raw: bytearray, pos: int) -> str:
    match = _TOKEN.match(raw, pos)
    return match[0].decode("utf-8", "replace") if match else ""


def _show(token: str) -> str:
    return repr(token if len(token) <= 40 else token[:40] + "...")


def _why_label(token: str) -> str:
    if "," in token:
        return f"label must be a single number; got {_show(token)}; multi-label files are not supported"
    if ":" in token:
        return f"label must be a number; got {_show(token)}; start every line with its label"
    return _why_number("label", token, MAX_DOUBLE)


def _why_feature(token: str, rules: Rules, base: int, reason: str) -> str:
    index, colon, value = token.partition(":")
    if not colon:
        return f"feature must be written index:value; got {_show(token)}"
    if index == "qid":
        return f"qid must occur once, right after the label; got {_show(token)}"
    if not (index.isascii() and index.isdigit()):
        return f"feature index must be an integer >= {rules.min_index}; got {_show(index)}"
    if len(index) > 18 or int(index) > MAX_INDEX:
        return f"feature index must be at most {MAX_INDEX}; got {_show(index)}"
    if int(index) < rules.min_index:
        return f"feature index must be an integer >= {rules.min_index}; got {index}; pass zero_based=True if 0 is meant"
    if int(index) > rules.max_index:
        rule = f"feature index must be at most {rules.max_index} ({reason})"
        return f"{rule}; got {index}; pass n_features={int(index) + 1 - base} or more"
    return _why_number("feature value", value, rules.max_value)


def _why_number(what: str, token: str, max_value: float) -> str:
    try:
        number = float(token)
    except ValueError:
        number = 0.0
    if not math.isfinite(number):
        return f"{what} must be finite; got {_show(token)}"
    if abs(number) > max_value:
        return f"{what} must be at most {max_value:.8g} in magnitude for float32; got {_show(token)}; pass dtype=float"
    return f"{what} must be a number such as 1, -0.5 or 2e-3; got {_show(token)}"
