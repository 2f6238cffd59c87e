"""CoNLL column files: one token per line, columns separated by white space, an empty line between sentences."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from sys import intern
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undercut.errors import DataError
from undercut.io.reading import open_decompressed, undamaged
from undercut.types import FilePath

DOCUMENT = "-DOCSTART-"  # marks the start of a document in CoNLL-2003 files; not a token
BLANKS = re.compile(r"[ \t]+")  # no other white space: a token may hold a no-break space
_BOM = b"\xef\xbb\xbf"


class ConllData(NamedTuple):
    """The tokens of all sentences, concatenated, one list per column, and the number of tokens of each sentence."""

    columns: tuple[list[str], ...]
    lengths: NDArray[np.int64]

    def sentences(self, column: int) -> list[list[str]]:
        """One column, one list per sentence."""
        ends = np.cumsum(self.lengths).tolist()
        tokens = self.columns[column]
        return [tokens[end - length : end] for end, length in zip(ends, self.lengths.tolist(), strict=True)]


def as_conll(X: Any) -> ConllData:
    """Sentences as lists of tokens, each a text or a tuple of its columns, in the form of a file.

    >>> as_conll([[("the", "DT"), ("dog", "NN")], [("Yes", "UH")]]).columns
    (['the', 'dog', 'Yes'], ['DT', 'NN', 'UH'])
    """
    if isinstance(X, ConllData):
        return X
    rows, lengths = list[tuple[str, ...]](), list[int]()
    for s, sentence in enumerate(X):
        if isinstance(sentence, str) or len(sentence) == 0:
            raise DataError(f"a sentence must be a list of at least one token; sentence {s} is {sentence!r}")
        lengths.append(len(sentence))
        for t, token in enumerate(sentence):
            row = tuple(token) if isinstance(token, (tuple, list)) else (token,)
            if not _is_token(row, rows[:1]):
                raise DataError(
                    "tokens must be texts, or tuples of as many texts as the first one has; "
                    f"token {t} of sentence {s} is {token!r}"
                )
            rows.append(row)
    if not rows:
        raise DataError("there must be at least one sentence; got none")
    return ConllData(_columns(rows), np.array(lengths, np.int64))


def _is_token(row: tuple[Any, ...], first: list[tuple[str, ...]]) -> bool:
    same_length = all(len(other) == len(row) for other in first)
    return same_length and all(isinstance(part, str) for part in row)


def _columns(rows: list[Any]) -> tuple[list[str], ...]:
    return tuple(list(column) for column in zip(*rows, strict=True))


def load_conll(path: FilePath, *, n_columns: int | None = None, byte_range: tuple[int, int] | None = None) -> ConllData:
    """Read a file of UTF-8 text, plain or compressed by gzip, bzip2 or xz.

    Every line must have ``n_columns`` columns, by default as many as the first; lines that begin with ``-DOCSTART-``
    are skipped.  ``DataError`` names the file and the line that breaks a rule.  With a ``byte_range`` some sentences of
    a plain file are read, possibly none; all ranges of ``byte_ranges`` together give every sentence once.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "chunks.txt")
    ...     _ = path.write_text("He PRP B-NP\\nsleeps VBZ B-VP\\n\\nYes UH O\\n")
    ...     data = load_conll(path)
    >>> data.columns[0], data.lengths
    (['He', 'sleeps', 'Yes'], array([2, 1]))
    >>> data.sentences(2)
    [['B-NP', 'B-VP'], ['O']]
    """
    name = os.fsdecode(path)
    begin = 0 if byte_range is None else _boundary(name, byte_range[0])
    end = None if byte_range is None else _boundary(name, byte_range[1])
    rows, lengths = list[list[str]](), [0]
    for line, text in enumerate(_lines(name, begin, end), start=1):
        fields = _fields(text)
        if not fields or fields[0] == DOCUMENT:
            if lengths[-1]:
                lengths.append(0)
            continue
        if len(fields) != (n_columns or len(fields)):
            where = f"{name}:{line + _lines_before(name, begin)}"
            raise DataError(f"{where}: every token must have {n_columns} columns; got {len(fields)}: {text!r}")
        n_columns = len(fields)
        rows.append([intern(field) for field in fields])
        lengths[-1] += 1
    if not rows and byte_range is None:
        raise DataError(f"{name}: holds no token")
    return ConllData(_columns(rows), np.array(lengths if lengths[-1] else lengths[:-1], np.int64))


def _fields(text: str) -> list[str]:
    return text.split() if text.isascii() else [field for field in BLANKS.split(text) if field]


def _lines(name: str, begin: int, end: int | None) -> Iterator[str]:
    """The lines of a file from one position to another, of which both begin a line."""
    line = 0
    try:
        with open_decompressed(name) as stream, undamaged(name):
            left = math.inf if end is None else end - begin
            if begin:
                stream.seek(begin)
            for line, raw in enumerate(stream, start=1):
                if left <= 0:
                    return
                left -= len(raw)
                yield (raw.removeprefix(_BOM) if line == 1 else raw).decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        byte, line = error.object[error.start], line + _lines_before(name, begin)
        raise DataError(f"{name}:{line}: must be UTF-8 text; got byte {byte:#x}: convert the file") from error


def _boundary(name: str, at: int) -> int:
    """Where the first empty line from ``at`` on ends, so that a sentence may begin; 0 is the beginning of the file."""
    with open(name, "rb") as file:
        if at == 0:
            return 0
        file.seek(at - 1)
        file.readline()
        while line := file.readline():
            if not line.strip():
                break
        return file.tell()


def _lines_before(name: str, begin: int) -> int:
    with open(name, "rb") as file:
        return file.read(begin).count(b"\n") if begin else 0
