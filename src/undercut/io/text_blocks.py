"""Text files in blocks of whole lines, whole or between two positions.

A line belongs to the range of bytes that its first byte lies in.  So ranges that follow each other without a hole give
every line exactly once, wherever the cuts are.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Generator
from contextlib import closing, suppress
from itertools import pairwise
from typing import NamedTuple

from undercut.errors import DataError, ParameterError, require
from undercut.io.reading import STANDARD_INPUT, is_compressed, open_decompressed, undamaged
from undercut.types import FilePath

SCAN_BYTES = 1 << 16  # read at a time to find or count line ends
_BOM = b"\xef\xbb\xbf"
_SAMPLE = re.compile(rb"(?m)^(?=[ \t]*[^ \t\r\n#])")  # where a line that holds a sample begins

Blocks = Generator[tuple[bytearray, int]]


class ByteRange(NamedTuple):
    """The lines of a plain file whose first byte is at ``start`` or later and before ``stop``."""

    start: int
    stop: int


def byte_ranges(path: FilePath, n_parts: int) -> list[ByteRange | None]:
    """Divide a plain file into ranges of equal size; a compressed file stays whole, as ``[None]``.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data.svm")
    ...     _ = path.write_text("1 2:1\\n-1 1:3\\n1 1:1\\n")
    ...     byte_ranges(path, 2)
    [ByteRange(start=0, stop=9), ByteRange(start=9, stop=19)]
    """
    require(n_parts >= 1, "`n_parts` must be at least 1", n_parts)
    name = os.fsdecode(path)
    if is_compressed(name):
        return [None]
    size = os.path.getsize(name)
    edges = [size * at // n_parts for at in range(n_parts + 1)]
    return [ByteRange(start, stop) for start, stop in pairwise(edges)]


def text_blocks(name: str, block_bytes: int, part: ByteRange | None = None) -> Blocks:
    """Yield ``(raw, end)``: ``raw[:end]`` is whole lines and ends in a newline.  The next block overwrites `raw`."""
    begin, left = (0, None) if part is None else _whole_lines(name, part)
    raw, filled, n_read = bytearray(block_bytes), 0, begin
    with open_decompressed(name) as stream:
        if begin:
            stream.seek(begin)
        while n := _fill(stream, memoryview(raw)[filled:][:left], name):
            if (nul := raw.find(0, filled, filled + n)) >= 0:
                where = f"byte {n_read + nul - filled} is zero, as in binary and UTF-16 files"
                raise DataError(f"{name}: must be text, plain or in gzip, bzip2 or xz; {where}")
            if n_read == 0 and raw.startswith(_BOM):
                raw[:3] = b"   "
            n_read += n
            filled += n
            left = None if left is None else left - n
            if end := raw.rfind(b"\n", filled - n, filled) + 1:
                yield raw, end
                filled -= end
                raw[:filled] = raw[end : end + filled]
            if filled == len(raw):
                raw = raw + bytes(filled)
    if filled:
        raw[filled] = ord("\n")
        yield raw, filled + 1


def with_labels(blocks: Blocks) -> Blocks:
    """The same blocks with the label 0 before every sample."""
    with closing(blocks):
        for raw, end in blocks:
            text = bytearray(_SAMPLE.sub(rb"0 ", raw[:end]))
            yield text, len(text)


def lines_before(name: str, part: ByteRange | None) -> int:
    """How many lines come before the range."""
    if part is None:
        return 0
    left, count = _whole_lines(name, part)[0], 0
    with open(name, "rb") as file:
        while chunk := file.read(min(left, SCAN_BYTES)):
            count += chunk.count(b"\n")
            left -= len(chunk)
    return count


def _whole_lines(name: str, part: ByteRange) -> tuple[int, int]:
    """Where the first line of the range begins, and how many bytes its lines have."""
    if not 0 <= part.start <= part.stop:
        raise ParameterError(f"a range of bytes must have 0 <= start <= stop; got {tuple(part)}")
    if name == STANDARD_INPUT or is_compressed(name):
        what = "standard input" if name == STANDARD_INPUT else "a compressed file"
        raise DataError(f"{name}: only a plain file can be read between two positions; got {what}: read it whole")
    with open(name, "rb") as file:
        begin = _next_line(file, part.start)
        return begin, _next_line(file, part.stop) - begin


def _next_line(file: io.BufferedReader, at: int) -> int:
    """The first position from ``at`` on where a line begins, or the end of the file."""
    at = min(at, file.seek(0, os.SEEK_END))
    if at == 0:
        return 0
    file.seek(at - 1)
    position = at - 1
    while chunk := file.read(SCAN_BYTES):
        with suppress(ValueError):
            return position + chunk.index(b"\n") + 1
        position += len(chunk)
    return position


def _fill(stream: io.BufferedIOBase, buffer: memoryview, name: str) -> int:
    with undamaged(name):
        return stream.readinto(buffer)
