"""A text file becomes a cache of rows: parsed once, block by block, in memory for a few blocks.

The name of a cache is ``FILE.PATH.CONTENT.SETTINGS.rows``: checksums of where the file is, of its size, its times of
change and samples of its content, and of how it was read.  So a file that was changed has another cache.
"""

from __future__ import annotations

import ctypes
import glob
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from undercut._jit.svmlight import Rows
from undercut.errors import DataError, ParameterError
from undercut.io.rows.row_cache import INDEX_BYTES, VERSION, Layout, RowCache, is_complete, write_meta
from undercut.io.svmlight import iter_rows
from undercut.types import FilePath

ENDING = "rows"
SAMPLES, SAMPLE_BYTES = 64, 1 << 14  # of the content, for the checksum
COPY_BYTES = 1 << 23  # converted at a time
FLOATS = {"auto": np.float32, "float32": np.float32, "float64": np.float64}

Floats = Literal["auto", "float32", "float64"]


def cached_rows(
    path: FilePath,
    folder: FilePath | None = None,
    *,
    dtype: Floats = "auto",
    zero_based: bool | Literal["auto"] = "auto",
    labelled: bool = True,
) -> RowCache:
    """The cache of an SVMlight file, made now unless there is one; beside the file, or in ``folder``.

    With the `dtype` "auto" values are float32 where every number of the file is one exactly.  The other arguments are
    those of ``load_svmlight``.
    """
    if dtype not in FLOATS:
        raise ParameterError(f"dtype must be 'auto', 'float32' or 'float64'; got {dtype!r}")
    source = Path(os.fsdecode(path))
    home = source.parent if folder is None else Path(folder)
    name = _Name.of(source, (dtype, zero_based, labelled))
    cache = home / str(name)
    if not is_complete(cache):
        with _partial(home, source.name) as partial:
            writer = _Writer(partial, source, dtype, zero_based, labelled)
            layout = writer.write()
            if _Name.of(source, (dtype, zero_based, labelled)) != name:
                raise DataError(f"{source}: must not change while it is read; it did: start again")
            write_meta(partial, writer.digest.hexdigest(), layout)
            _give_name(partial, cache)
        name.remove_older(home)
        _give_back()
    return RowCache(cache)


def _give_back() -> None:
    """Give freed memory back to the system, which the C library of Linux does when it is asked."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


class _Name(NamedTuple):
    """The name of a cache, in parts."""

    file: str
    path: str
    content: str
    settings: str

    @classmethod
    def of(cls, source: Path, settings: tuple[Any, ...]) -> _Name:
        return cls(
            source.name,
            _digest(str(source.resolve()).encode(), 4),
            _content(source),
            _digest(repr((VERSION, settings)).encode(), 4),
        )

    def __str__(self) -> str:
        return ".".join([*self, ENDING])

    def remove_older(self, home: Path) -> None:
        """Remove the caches of earlier contents of the file; processes that have them open keep them."""
        same, suffix = f"{self.file}.{self.path}.", f"{self.file}.{self.path}.{self.content}."
        for folder in home.glob(f"{glob.escape(same)}*.{ENDING}"):
            if not folder.name.startswith(suffix):
                shutil.rmtree(folder, ignore_errors=True)


def _digest(content: bytes, size: int) -> str:
    return hashlib.blake2b(content, digest_size=size).hexdigest()


def _content(source: Path) -> str:
    """A checksum that another content of the file does not have: its ctime changes even where its mtime is set back."""
    about = source.stat()
    digest = hashlib.blake2b(repr((about.st_size, about.st_mtime_ns, about.st_ctime_ns)).encode(), digest_size=8)
    with open(source, "rb") as file:
        for at in sorted({about.st_size * k // SAMPLES for k in range(SAMPLES)}):
            file.seek(at)
            digest.update(file.read(SAMPLE_BYTES))
        file.seek(max(0, about.st_size - SAMPLE_BYTES))
        digest.update(file.read())
    return digest.hexdigest()


@contextmanager
def _partial(home: Path, name: str) -> Iterator[Path]:
    """A hidden folder beside the caches, which is removed unless it was renamed."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        folder = home / f".{name}.{secrets.token_hex(8)}"
        folder.mkdir()
    except OSError as error:
        raise DataError(
            f"{name} is converted into a cache, and {home} cannot be written to ({error.strerror}): "
            "name another folder by `cache`"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _give_name(partial: Path, cache: Path) -> None:
    """Rename a finished cache; an incomplete one there goes, and one that another process finished first stays."""
    if not is_complete(cache):
        shutil.rmtree(cache, ignore_errors=True)
        with suppress(OSError):  # another process was faster
            partial.rename(cache)
    if not is_complete(cache):
        raise DataError(f"{cache}: the cache must be written as a whole, and is not: is the disk full?")


class _Writer:
    """The arrays of a cache, growing row by row."""

    def __init__(self, folder: Path, source: Path, dtype: Floats, zero_based: Any, labelled: bool) -> None:
        self.folder, self.source, self.labelled, self.zero_based = folder, source, labelled, zero_based
        self.is_open_to_double = dtype == "auto"
        self.dtype = np.dtype(FLOATS[dtype])
        self.n_rows = self.n_stored = 0
        self.least, self.largest = 1, -1  # indices as they are written
        self.has_qid = False
        self.digest = hashlib.blake2b(digest_size=12)  # of the rows, whatever the file is called

    def write(self) -> Layout:
        """Convert the file."""
        self._append("indptr", np.zeros(1, np.int64))
        first = 1 if self.zero_based is False else 0
        numbers = np.float64 if self.is_open_to_double else self.dtype
        for rows in iter_rows(self.source, first=first, dtype=numbers, labelled=self.labelled):
            self._take(rows)
        if self.n_rows == 0:
            raise DataError(f"{self.source}: holds no sample")
        base = 0 if self.zero_based is True or (self.zero_based == "auto" and self.least == 0) else 1
        if base == 1:
            self._convert("columns", np.int32, np.int32, -1)
        return self._smaller(Layout(*self._counts(base), self.dtype.str, dense=False, has_qid=self.has_qid))

    def _counts(self, base: int) -> tuple[int, int, int]:
        return self.n_rows, max(self.largest + 1 - base, 0), self.n_stored

    def _take(self, rows: Rows) -> None:
        if rows.indices.size:
            self.least = min(self.least, int(rows.indices.min()))
            self.largest = max(self.largest, int(rows.indices.max()))
        if self.is_open_to_double and (rows.values.astype(np.float32) != rows.values).any():
            self._widen()
        self._append("y", rows.y)
        self._append("indptr", self.n_stored + np.cumsum(rows.sizes, dtype=np.int64))
        self._append("columns", rows.indices)
        self._append("values", rows.values.astype(self.dtype, copy=False))
        self.n_rows += rows.y.size
        self.n_stored += rows.indices.size
        self.has_qid = rows.qid.size > 0
        if self.has_qid:
            self._append("qid", rows.qid)

    def _append(self, name: str, array: Any) -> None:
        self.digest.update(array.tobytes())
        with open(self.folder / name, "ab") as file:
            array.tofile(file)

    def _widen(self) -> None:
        """Go on in float64, in which what was written is exact too."""
        if self.n_stored:
            self._convert("values", np.float32, np.float64, 0)
        self.dtype, self.is_open_to_double = np.dtype(np.float64), False

    def _convert(self, name: str, before: Any, after: Any, shift: int) -> None:
        """Rewrite an array in another type, with a number added."""
        old, new = self.folder / name, self.folder / f"{name}.new"
        with open(old, "rb") as source, open(new, "wb") as target:
            while (part := np.fromfile(source, before, COPY_BYTES // 8)).size:
                (part + np.asarray(shift, before)).astype(after).tofile(target)
        new.replace(old)

    def _smaller(self, layout: Layout) -> Layout:
        """The dense layout where it takes no more room than CSR."""
        width = self.dtype.itemsize
        if not 0 < width * layout.n_rows * layout.n_features <= (width + INDEX_BYTES) * layout.n_stored:
            return layout
        write_meta(self.folder, "", layout)
        sparse = RowCache(self.folder)
        with open(self.folder / "dense", "wb") as target:
            for rows in sparse.blocks(COPY_BYTES):
                sparse.rows(rows.start, rows.stop).toarray().tofile(target)
                sparse.advise(rows.start, rows.stop, "MADV_DONTNEED")
        for name in ("indptr", "columns"):
            (self.folder / name).unlink()
        (self.folder / "dense").replace(self.folder / "values")
        return layout._replace(dense=True)
