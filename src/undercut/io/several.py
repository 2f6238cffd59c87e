"""Rows of several SVMlight files, or of several ranges of one.

Whether feature indices begin at 0 or at 1 is a property of all of them together: index 0 may occur in one and not in
another.  So each is read by itself first, and renumbered if one of the others has index 0.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from undercut.errors import DataError
from undercut.io.svmlight import SvmlightData, load_svmlight
from undercut.types import FilePath


class Source(NamedTuple):
    """A file, or the lines of it that begin between two positions."""

    path: str
    byte_range: tuple[int, int] | None = None

    def __str__(self) -> str:
        if self.byte_range is None:
            return self.path
        return f"{self.path} (bytes {self.byte_range[0]} to {self.byte_range[1]})"


class Numbered(NamedTuple):
    """Rows whose indices were taken to begin at 0 if index 0 occurs among them, else at 1."""

    source: Source
    data: SvmlightData
    labelled: bool
    from_zero: bool

    def width(self, from_zero: bool) -> int:
        """The number of columns that they need where indices begin there."""
        return int(self.data.X.shape[1]) + int(from_zero and not self.from_zero)

    def placed(self, from_zero: bool, n_features: int) -> SvmlightData:
        """The rows with that many columns, where indices begin there; ``DataError`` if a row has too many."""
        if self.width(from_zero) > n_features:
            load_svmlight(  # reading again names the line
                self.source.path, n_features=n_features, zero_based=from_zero, labelled=self.labelled,
                byte_range=self.source.byte_range,
            )  # fmt: skip
        X = self.data.X
        indices = X.indices + X.indices.dtype.type(1) if from_zero and not self.from_zero else X.indices
        return self.data._replace(X=_matrix(X.data, indices, X.indptr, n_features))


def load_numbered(source: Source, *, labelled: bool = True) -> Numbered:
    """Read a file or a range of one; a range may hold no row."""
    X, y, qid = load_svmlight(source.path, zero_based=True, byte_range=source.byte_range, labelled=labelled)
    from_zero = bool(X.indices.size and X.indices.min() == 0)
    if not from_zero:
        X.indices -= 1
        X = _matrix(X.data, X.indices, X.indptr, max(X.shape[1] - 1, 0))
    return Numbered(source, SvmlightData(X, y, qid), labelled, from_zero)


def load_several(paths: Sequence[FilePath], *, n_features: int | None = None, labelled: bool = True) -> SvmlightData:
    """The rows of several files, in their order.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, text in (("a.svm", "1 1:3\\n"), ("b.svm", "-1 0:2 1:5\\n")):
    ...         _ = pathlib.Path(folder, name).write_text(text)
    ...     load_several(matching(f"{folder}/*.svm")).X.toarray()
    array([[0., 3.],
           [2., 5.]])
    """
    parts = [load_numbered(Source(os.fspath(path)), labelled=labelled) for path in paths]
    check_queries(parts)
    from_zero = any(part.from_zero for part in parts)
    width = max(part.width(from_zero) for part in parts) if n_features is None else n_features
    placed = [part.placed(from_zero, width) for part in parts]
    qid = None if placed[0].qid is None else np.concatenate([part.qid for part in placed])
    return SvmlightData(sp.vstack([part.X for part in placed], format="csr"), _joined(placed), qid)


def check_queries(parts: Sequence[Numbered]) -> None:
    """Refuse files with query ids beside files without."""
    first = parts[0]
    for part in parts:
        if (part.data.qid is None) != (first.data.qid is None):
            words = {True: "none", False: "query ids"}
            has, other = words[part.data.qid is None], words[first.data.qid is None]
            raise DataError(
                f"qid must be in every file or in none; {part.source} has {has}, and {first.source} has {other}"
            )


def _joined(parts: Sequence[SvmlightData]) -> Any:
    return np.concatenate([part.y for part in parts])


def _matrix(data: Any, indices: Any, indptr: Any, width: int) -> sp.csr_matrix:
    X = sp.csr_matrix((data, indices, indptr), shape=(indptr.size - 1, width))
    X.has_canonical_format = True  # the parser has checked that indices increase
    return X


def matching(files: Any) -> list[str]:
    """The files that some names and patterns stand for, in the order of their names; a plain name need not exist.

    >>> matching("no-such-file-*.svm")
    Traceback (most recent call last):
        ...
    undercut.errors.DataError: a pattern must match at least one file; 'no-such-file-*.svm' matches none ...
    """
    patterns: Sequence[Any] = files if isinstance(files, list | tuple) else [files]
    found: list[str] = []
    for pattern in map(os.fspath, patterns):
        is_name = os.path.exists(pattern) or not glob.has_magic(pattern)
        some = [pattern] if is_name else sorted(glob.glob(pattern, recursive=True))
        if not some:
            raise DataError(f"a pattern must match at least one file; {pattern!r} matches none in {os.getcwd()}")
        found.extend(some)
    return found
