"""The folds of a cross-validation: rows that are checked, and errors and scores that tell which fold they are of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from undercut.errors import DataError
from undercut.selection.cross_validation import Fold
from undercut.types import Array, FloatArray


class Split(NamedTuple):
    """The rows of a fold to train on, and those held out."""

    train: Array
    held_out: Array
    name: str  # such as "fold 1 of 5"


def checked_splits(splits: Iterable[tuple[Any, Any]], n: int) -> list[Split]:
    """The folds that a splitter makes of n samples; refused where one is empty or has rows that there are not.

    >>> checked_splits([([0, 1], [2]), ([False, True, True], [True, False, False])], 3)[1]
    Split(train=array([1, 2]), held_out=array([0]), name='fold 2 of 2')
    """
    folds = list(splits)
    if not folds:
        raise DataError("`cv` must have at least one fold; got none")
    names = [f"fold {number} of {len(folds)}" for number in range(1, len(folds) + 1)]
    return [
        Split(_rows(train, n, f"{name} to train on"), _rows(held_out, n, f"{name} to hold out"), name)
        for name, (train, held_out) in zip(names, folds, strict=True)
    ]


def _rows(given: Any, n: int, what: str) -> Array:
    """The numbers of rows, which may be given by a mask."""
    rows = np.asarray(given)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.size == 0:
        raise DataError(f"`cv` must leave samples for each part of a fold; {what}: none")
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n:
        raise DataError(f"`cv` must name rows from 0 to {n - 1}; {what}: {np.array2string(rows, threshold=6)}")
    return rows


def named_fold(make: Callable[[], Fold], name: str) -> Fold:
    """A fold whose errors tell which one it is, and whose scores are numbers."""
    with _named(name):
        fold = make()

    def score(solutions: list[FloatArray]) -> float:
        with _named(name):
            value = fold.score(solutions)
            if not math.isfinite(value):
                raise DataError(
                    f"the score of the held-out samples must be finite; got {value}: use another `scoring`, or folds "
                    "that it is defined for (several samples, and of each class)"
                )
        return value

    return replace(fold, score=score)


@contextmanager
def _named(fold: str) -> Iterator[None]:
    """Errors within it begin with the name of the fold."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{fold}: {error}") from error
