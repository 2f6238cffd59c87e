"""Sequences in the forms that users have: a list with one array per sequence, or one matrix with lengths."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from undercut.devices import library, on_host, to_host
from undercut.errors import DataError


class Sequences(NamedTuple):
    """All tokens in one matrix, dense or CSR, and how many of them each sequence has."""

    X: Any
    lengths: NDArray[np.int64]


def stack_sequences(X: Any, lengths: Any = None) -> Sequences:
    """The concatenated sequences; ``DataError`` names the one that breaks a rule.

    >>> stack_sequences([np.ones((2, 3)), np.zeros((1, 3))]).lengths
    array([2, 1])
    >>> stack_sequences(np.ones((3, 3)), lengths=[2, 1]).X.shape
    (3, 3)
    """
    if lengths is None:
        return _checked(_stacked(X))
    if on_host(X):
        X = X.tocsr() if sp.issparse(X) else np.asarray(X)
    elif X.layout != library(X).strided:
        raise DataError(f"X must be a dense tensor, or a sparse matrix of SciPy; got a tensor with {X.layout}")
    if X.ndim != 2:
        raise DataError(f"X must be a matrix of all tokens where `lengths` is given; got shape {X.shape}")
    counts = np.asarray(lengths)
    if counts.ndim != 1 or counts.dtype.kind not in "iu":
        raise DataError(f"`lengths` must be a list of integers; got dtype {counts.dtype} and shape {counts.shape}")
    if int(counts.sum()) != X.shape[0]:
        raise DataError(f"`lengths` must sum to the number of rows of X; got {counts.sum()} and {X.shape[0]} rows")
    return _checked(Sequences(X, counts.astype(np.int64)))


def _stacked(X: Any) -> Sequences:
    if sp.issparse(X) or getattr(X, "ndim", 1) == 2:
        raise DataError(f"X must be a list of sequences; got one matrix of shape {X.shape}: pass its `lengths`")
    parts = [part.tocsr() if sp.issparse(part) else np.asarray(part) for part in X]
    if not parts:
        raise DataError("X must hold at least one sequence; got none")
    for s, part in enumerate(parts):
        _check_part(s, part, parts[0])
    lengths = np.array([part.shape[0] for part in parts], np.int64)
    sparse = any(sp.issparse(part) for part in parts)
    return Sequences(sp.vstack(parts, format="csr") if sparse else np.concatenate(parts), lengths)


def _check_part(s: int, part: Any, first: Any) -> None:
    if part.ndim > 0 and part.shape[0] == 0:
        raise DataError(f"a sequence must have at least one token; sequence {s} has none: leave it out")
    if part.ndim != 2:
        raise DataError(f"a sequence must have one row of features per token; sequence {s} has shape {part.shape}")
    if part.shape[1] != first.shape[1]:
        raise DataError(
            f"all sequences must have the same features; sequence 0 has {first.shape[1]} and sequence {s} has "
            f"{part.shape[1]}"
        )


def _checked(sequences: Sequences) -> Sequences:
    """The same with real, finite entries and no empty sequence."""
    X, lengths = sequences
    if lengths.size == 0:
        raise DataError("X must hold at least one sequence; got none")
    if (lengths < 1).any():
        raise DataError(f"a sequence must have at least one token; sequence {lengths.argmin()} has {lengths.min()}")
    if X.is_complex() if not on_host(X) else X.dtype.kind not in "fiub":
        raise DataError(f"X must hold real numbers; got dtype {X.dtype}")
    row = _unusable_row(X)
    if row is not None:
        s, t = place(row, lengths)
        raise DataError(f"X must be finite; token {t} of sequence {s} contains NaN or infinity: drop or impute it")
    return sequences


def _unusable_row(X: Any) -> int | None:
    """The first row with an entry that is not finite."""
    if not on_host(X):
        unusable = to_host(~X.isfinite().all(1))
        return int(unusable.argmax()) if unusable.any() else None
    finite = np.isfinite(X.data if sp.issparse(X) else X)
    if finite.all():
        return None
    bad = int(np.flatnonzero(~finite.reshape(-1))[0])
    return int(np.searchsorted(X.indptr, bad, side="right") - 1 if sp.issparse(X) else bad // X.shape[1])


def place(row: int, lengths: NDArray[np.int64]) -> tuple[int, int]:
    """The number of the sequence of a row, and the position in it."""
    ends = np.cumsum(lengths)
    s = int(np.searchsorted(ends, row, side="right"))
    return s, row - int(ends[s] - lengths[s])


def stack_labels(y: Any, lengths: NDArray[np.int64], *, flat: bool) -> list[Any]:
    """The labels of all tokens in one list, from one list per sequence or a ``flat`` one."""
    if flat:
        labels = _listed(y)
        if len(labels) != int(lengths.sum()):
            raise DataError(f"y must have one label per row of X; got {len(labels)} labels and {lengths.sum()} rows")
        return labels
    parts = [_listed(part, s) for s, part in enumerate(y)]
    if len(parts) != lengths.size:
        raise DataError(f"y must have one list of labels per sequence; got {len(parts)} for {lengths.size} sequences")
    for s, (part, length) in enumerate(zip(parts, lengths.tolist(), strict=True)):
        if len(part) != length:
            raise DataError(f"y must have one label per token; sequence {s} has {length} tokens and {len(part)} labels")
    return [label for part in parts for label in part]


def _listed(labels: Any, s: int | None = None) -> list[Any]:
    if hasattr(labels, "tolist") and getattr(labels, "ndim", 1) == 1:
        return list(labels.tolist())  # plain numbers and strings, also from NumPy and pandas
    if not hasattr(labels, "__iter__") or getattr(labels, "ndim", 1) != 1:
        where = "y" if s is None else f"y of sequence {s}"
        raise DataError(f"{where} must be a list of labels; got {labels!r}")
    return list(labels)


def label_codes(y: Any, lengths: NDArray[np.int64], *, flat: bool) -> NDArray[np.int64]:
    """Labels given as the numbers 0, 1, ..., K - 1."""
    codes = np.asarray(stack_labels(y, lengths, flat=flat))
    if codes.dtype.kind not in "iu" or codes.ndim != 1 or (codes < 0).any():
        raise DataError(f"y must hold labels 0, 1, ..., K - 1; got {codes[:5]} ... of dtype {codes.dtype}")
    return codes.astype(np.int64)


def label_count(codes: NDArray[np.int64], n_labels: int | None) -> int:
    """How many labels there are: as given, or one more than the largest code."""
    if n_labels is None:
        return int(codes.max()) + 1
    if n_labels <= codes.max():
        raise DataError(f"`n_labels` must exceed every label in y; got {n_labels} and a label {codes.max()}")
    return n_labels
