"""Lines of an SVMlight / LIBSVM file as arrays, block by block; a malformed line is refused with its number."""

from __future__ import annotations

import math
import operator
import os
import re
import sys
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from undercut._jit import svmlight as kernel
from undercut._jit.svmlight import Rows, Rules
from undercut.errors import DataError, ParameterError
from undercut.io.text_blocks import ByteRange, lines_before, text_blocks, with_labels
from undercut.types import FilePath

BLOCK_BYTES = 4 << 20  # text read at a time; a block grows if a line is longer
MAX_INDEX = 2**31 - 1
MAX_DOUBLE = sys.float_info.max
_TOKEN = re.compile(rb"[^ \t\r\n#]*")


class SvmlightReader:
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
            last = operator.index(n_features) + base - 1
            self.rules = self.rules._replace(max_index=min(last, MAX_INDEX))
            self.reason = f"n_features={n_features}"
        blocks = text_blocks(self.name, BLOCK_BYTES, part)
        self._blocks = blocks if labelled else with_labels(blocks)
        self._block = _Block(bytearray(), 0)
        self._lines_before = 0
        self._has_qid = -1

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
