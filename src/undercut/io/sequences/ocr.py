"""Handwritten words, the OCR set of Kassel (1995) in the form that Taskar et al. (2004) gave it: ``letter.data``.

One letter per line, tab-separated: ``id letter next_id word_id position fold p_0_0 ... p_15_7``.  ``next_id`` is the id
of the word's next letter, -1 at its end; the pixels are 0 or 1.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undercut.errors import DataError
from undercut.io.reading import open_decompressed
from undercut.types import FilePath, FloatArray

FIELDS = ("id", "letter", "next_id", "word_id", "position", "fold")
N_PIXELS = 128


class OcrWords(NamedTuple):
    """The letters of all words, concatenated."""

    X: FloatArray  # 16 x 8 pixels, row by row
    y: NDArray[np.str_]  # one letter each
    lengths: NDArray[np.int64]  # of the words
    folds: NDArray[np.int64]  # one per word

    def take(self, words: NDArray[np.bool_]) -> OcrWords:
        """Some of the words, by a mask."""
        letters = np.repeat(words, self.lengths)
        return OcrWords(self.X[letters], self.y[letters], self.lengths[words], self.folds[words])


class _Letter(NamedTuple):
    """A line of the file."""

    id: int
    letter: str
    next_id: int
    word_id: int
    position: int
    fold: int
    pixels: bytes


def load_ocr(path: FilePath) -> OcrWords:
    """Read ``letter.data``, plain or compressed; ``DataError`` names the file and the line that breaks a rule.

    >>> import pathlib, tempfile
    >>> pixels = "\\t".join("01" * 64)
    >>> lines = [f"1\\to\\t2\\t1\\t1\\t0\\t{pixels}", f"2\\tm\\t-1\\t1\\t2\\t0\\t{pixels}"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "letter.data")
    ...     _ = path.write_text("\\n".join(lines))
    ...     words = load_ocr(path)
    >>> words.X.shape, words.y.tolist(), words.lengths, words.folds
    ((2, 128), ['o', 'm'], array([2]), array([0]))
    """
    name = os.fsdecode(path)
    pixels, letters, folds, lengths = bytearray(), list[str](), list[int](), list[int]()
    last: _Letter | None = None  # the last letter, if its word continues
    line = 0
    for line, text in enumerate(_lines(name), start=1):
        where = f"{name}:{line}"
        at = _letter(where, text)
        if last is None:
            folds.append(at.fold)
            lengths.append(0)
        else:
            _check_follows(where, last, at)
        pixels += at.pixels
        letters.append(at.letter)
        lengths[-1] += 1
        last = None if at.next_id == -1 else at
    if not letters:
        raise DataError(f"{name}: holds no letter")
    if last is not None:
        raise DataError(
            f"{name}:{line}: the last word must end with next_id -1; got {last.next_id}: the file is truncated"
        )
    X = (np.frombuffer(pixels, np.uint8).reshape(-1, N_PIXELS) - ord("0")).astype(np.float64)
    return OcrWords(X, np.array(letters), np.array(lengths, np.int64), np.array(folds, np.int64))


def _lines(name: str) -> Iterator[str]:
    with open_decompressed(name) as stream:
        try:
            yield from (line.decode("ascii") for line in stream)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}: must be ASCII text, plain or compressed; got byte {error.object[error.start]:#x}"
            ) from error
        except (EOFError, zlib.error) as error:
            raise DataError(f"{name}: compressed data must be complete; got {error}: download it again") from error


def _letter(where: str, text: str) -> _Letter:
    fields = text.rstrip("\r\n\t").split("\t")
    expected = len(FIELDS) + N_PIXELS
    if len(fields) != expected:
        raise DataError(f"{where}: a line must have {expected} tab-separated fields; got {len(fields)}")
    numbers = {}
    for name, field in zip(FIELDS, fields, strict=False):
        if name == "letter":
            continue
        if not field.removeprefix("-").isdecimal():
            raise DataError(f"{where}: {name} must be an integer; got {field!r}")
        numbers[name] = int(field)
    if len(fields[1]) != 1:
        raise DataError(f"{where}: letter must be a single character; got {fields[1]!r}")
    pixels = fields[len(FIELDS) :]
    if bad := next((pixel for pixel in pixels if pixel not in ("0", "1")), None):
        raise DataError(f"{where}: pixels must be 0 or 1; got {bad!r}")
    return _Letter(letter=fields[1], pixels="".join(pixels).encode(), **numbers)


def _check_follows(where: str, last: _Letter, at: _Letter) -> None:
    """Check that a letter continues the word of the last line."""
    if at.id != last.next_id:
        raise DataError(f"{where}: id must be the next_id of the line before, {last.next_id}; got {at.id}")
    if (at.word_id, at.fold) != (last.word_id, last.fold):
        expected = f"word_id {last.word_id} and fold {last.fold}"
        raise DataError(f"{where}: a word has {expected} on all of its lines; got {at.word_id} and {at.fold}")
    if at.position != last.position + 1:
        raise DataError(f"{where}: position must be {last.position + 1} after {last.position}; got {at.position}")
