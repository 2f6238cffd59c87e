"""Files of labelled sequences.

| file | sequences |
|---|---|
| ``letter.data`` | words, their letters as labels |
| SVMlight with ``qid:`` | rows of one query id, in the order of the file |
| any other | CoNLL columns, the label in the last one |
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from undercut.errors import DataError
from undercut.io.reading import first_line
from undercut.io.sequences.conll import ConllData, load_conll
from undercut.io.sequences.ocr import FIELDS, N_PIXELS, load_ocr
from undercut.io.several import Numbered, Source, load_numbered
from undercut.types import Array, FilePath, FloatArray

LETTERS, TEXT, ROWS = "letter.data", "CoNLL files", "SVMlight files"


@dataclass(frozen=True)
class LabelledSequences:
    """What a file holds: X and y as ``SequenceLabeler`` takes them, with lengths where X is a matrix."""

    X: Any
    y: list[Any]
    lengths: Array
    kind: str  # of the file
    rows: Numbered | None = None  # of SVMlight files, until it is known where their indices begin

    @property
    def is_text(self) -> bool:
        """Whether X are columns of words, not a matrix."""
        return self.kind == TEXT

    @property
    def options(self) -> dict[str, Any]:
        """What else a labeler must know of X."""
        return {} if self.is_text else {"lengths": self.lengths}

    @property
    def targets(self) -> list[Any]:
        """y in the form that belongs to X."""
        return np.split(np.array(self.y, object), np.cumsum(self.lengths)[:-1]) if self.is_text else self.y

    @property
    def from_zero(self) -> bool:
        """Whether index 0 occurs in an SVMlight file."""
        return self.rows is not None and self.rows.from_zero

    def width(self, from_zero: bool) -> int:
        """How many features a token has, where the indices of SVMlight files begin there."""
        return int(self.X.shape[1]) if self.rows is None else self.rows.width(from_zero)

    def placed(self, from_zero: bool, n_features: int) -> LabelledSequences:
        """SVMlight rows with that many columns, where indices begin there; other sequences as they are."""
        return self if self.rows is None else replace(self, X=self.rows.placed(from_zero, n_features).X, rows=None)


def labels(y: FloatArray) -> Array:
    """Class labels of a file: texts, or integers where all of them are."""
    if y.dtype.kind == "U":
        return y
    whole = y.astype(np.int64)
    return whole if np.array_equal(whole, y) else y


def kind_of(path: FilePath) -> str:
    """Which of the three kinds a file is."""
    first = first_line(os.fsdecode(path))
    if len(first.rstrip("\n").rstrip("\t").split("\t")) == len(FIELDS) + N_PIXELS:
        return LETTERS
    return ROWS if first.split()[1:2] and first.split()[1].startswith("qid:") else TEXT


def load_sequences(
    path: FilePath,
    *,
    folds: Sequence[int] | None = None,
    labelled: bool = True,
    byte_range: tuple[int, int] | None = None,
) -> LabelledSequences:
    """The sequences of a file, or of a range of CoNLL columns.

    The last column of CoNLL columns that need not be ``labelled`` is a column.
    """
    kind = kind_of(path)
    if kind == LETTERS:
        words = load_ocr(path)
        words = words if folds is None else words.take(np.isin(words.folds, folds))
        if not words.lengths.size:
            raise DataError(f"{os.fsdecode(path)} has no word in the folds {', '.join(map(str, folds or ()))}")
        return LabelledSequences(words.X, words.y.tolist(), words.lengths, LETTERS)
    if kind == ROWS:
        return _by_query(load_numbered(Source(os.fsdecode(path))))
    data = load_conll(path, byte_range=byte_range)
    if not data.columns:
        return LabelledSequences(data, [], data.lengths, TEXT)
    if labelled and len(data.columns) < 2:
        raise DataError(f"{os.fsdecode(path)} must have a column of tokens and one of labels; it has one column")
    seen = ConllData(data.columns[:-1], data.lengths) if labelled else data
    return LabelledSequences(seen, data.columns[-1], data.lengths, TEXT)


def _by_query(rows: Numbered) -> LabelledSequences:
    """Rows of one query are a sequence."""
    qid = np.asarray(rows.data.qid)
    starts = np.flatnonzero(np.concatenate([[True], qid[1:] != qid[:-1]]))
    runs, counts = np.unique(qid[starts], return_counts=True)
    if counts.max() > 1:
        raise DataError(f"the rows of a sequence must stand together; those of qid:{runs[counts.argmax()]} do not")
    lengths = np.diff(np.append(starts, qid.size))
    return LabelledSequences(rows.data.X, labels(rows.data.y).tolist(), lengths, ROWS, rows)


def joined(parts: Sequence[LabelledSequences], n_features: int | None = None) -> LabelledSequences:
    """The sequences of several files of one kind, in their order."""
    kinds = sorted({part.kind for part in parts})
    if len(kinds) > 1:
        raise DataError(f"all files must be of one kind; got {' and '.join(kinds)}")
    y, lengths = [label for part in parts for label in part.y], np.concatenate([part.lengths for part in parts])
    if kinds[0] == TEXT:
        return LabelledSequences(_joined_text([part.X for part in parts]), y, lengths, TEXT)
    from_zero = any(part.from_zero for part in parts)
    width = max(part.width(from_zero) for part in parts) if n_features is None else n_features
    X = [part.placed(from_zero, width).X for part in parts]
    stacked = sp.vstack(X, format="csr") if sp.issparse(X[0]) else np.concatenate(X)
    return LabelledSequences(stacked, y, lengths, kinds[0])


def _joined_text(parts: Sequence[ConllData]) -> ConllData:
    widths = {len(part.columns) for part in parts}
    if len(widths) > 1:
        raise DataError(f"all files must have the same columns; got {' and '.join(map(str, sorted(widths)))} columns")
    columns = zip(*(part.columns for part in parts), strict=True)
    joint = tuple([token for column in same for token in column] for same in columns)
    return ConllData(joint, np.concatenate([part.lengths for part in parts]))
