"""Word errors: how far a recognized sequence of words is from the one that was said (Levenshtein 1966)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from undercut.errors import DataError


def edit_distance(truth: Sequence[Any], predicted: Sequence[Any]) -> int:
    """The least number of words to insert, to leave out and to exchange.

    >>> edit_distance(["one", "two", "six"], ["one", "six", "six", "six"])
    2
    """
    row = list(range(len(predicted) + 1))
    for i, word in enumerate(truth, start=1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(predicted, start=1):
            best = min(diagonal + (word != other), row[j] + 1, row[j - 1] + 1)
            diagonal, row[j] = row[j], best
    return row[-1]


def word_error_rate(truths: Sequence[Sequence[Any]], predictions: Sequence[Sequence[Any]]) -> float:
    """Edit distances of all sequences, divided by the number of true words; may exceed 1.

    >>> word_error_rate([["one", "two"], ["six"]], [["one"], ["six"]])
    0.3333333333333333
    """
    if len(truths) != len(predictions):
        raise DataError(f"there must be one prediction per truth; got {len(predictions)} for {len(truths)}")
    n_words = sum(len(truth) for truth in truths)
    if n_words == 0:
        raise DataError("the truths must hold at least one word; got none")
    pairs = zip(truths, predictions, strict=True)
    return sum(edit_distance(list(truth), list(predicted)) for truth, predicted in pairs) / n_words
