"""Files opened for reading: decompressed, and watched while they are read."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from typing_extensions import Buffer

from undercut.errors import DataError

STANDARD_INPUT = "-"
BUFFER_BYTES = 1 << 14
_MAGIC: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
_SUFFIX: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

Watcher = Callable[[int, int], object]  # called with the bytes read so far, as they are stored, and those there are
_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watch_reading(tell: Watcher) -> Iterator[None]:
    """Within it, ``tell`` is called while files are read.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data.txt")
    ...     _ = path.write_text("twelve bytes")
    ...     with watch_reading(lambda done, total: print(done, "of", total)), open_decompressed(str(path)) as file:
    ...         _ = file.read()
    12 of 12
    """
    token = _WATCHER.set(tell)
    try:
        yield
    finally:
        _WATCHER.reset(token)


class _WatchedFile(io.FileIO):
    """A file that tells how much of it was read."""

    def __init__(self, name: str, tell: Watcher) -> None:
        super().__init__(name)
        self._tell, self._done = tell, 0
        self._total = os.fstat(self.fileno()).st_size

    def readinto(self, buffer: Buffer) -> int | None:
        return self._count(super().readinto(buffer))

    def readall(self) -> bytes:
        content = super().readall()
        self._count(len(content))
        return content

    def _count(self, n: int | None) -> int | None:
        if n:
            self._done += n
            self._tell(self._done, self._total)
        return n


@contextmanager
def _opened(name: str) -> Iterator[io.BufferedReader[Any]]:
    """A file for reading; ``-`` is standard input."""
    if name == STANDARD_INPUT:
        yield sys.stdin.buffer  # type: ignore[misc]  # a BufferedReader, though it need not be
        return
    watcher = _WATCHER.get()
    raw = io.FileIO(name) if watcher is None else _WatchedFile(name, watcher)
    with io.BufferedReader(raw, BUFFER_BYTES) as file:
        yield file


@contextmanager
def open_decompressed(name: str) -> Iterator[io.BufferedIOBase]:
    """Open a file for reading, decompressed according to its first bytes or its suffix; ``-`` is standard input."""
    with _opened(name) as file:
        opener = _decompressor(name, file.peek(6))
        if opener is None:
            yield file
        else:
            with opener(file, "rb") as stream:
                yield stream


def first_line(name: str) -> str:
    """The first line of a file that is neither empty nor a comment."""
    with open_decompressed(name) as stream:
        lines = (line for line in stream if line.strip() and not line.startswith(b"#"))
        return next(lines, b"").decode(errors="replace")


def is_compressed(name: str) -> bool:
    """Whether ``open_decompressed`` decompresses this file."""
    with open(name, "rb") as file:
        return _decompressor(name, file.read(6)) is not None


def _decompressor(name: str, head: bytes) -> Callable[..., Any] | None:
    by_magic = (opener for magic, opener in _MAGIC.items() if head.startswith(magic))
    return next(by_magic, None) or _SUFFIX.get(os.path.splitext(name)[1].lower())


@contextmanager
def undamaged(name: str) -> Iterator[None]:
    """Turn an error of decompression into a ``DataError`` that names the file."""
    try:
        yield
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the disk, not of the data
        raise DataError(
            f"{name}: compressed data must be complete and undamaged; got {error}; download it again"
        ) from error
