"""Labels of any hashable type, and the numbers that stand for them inside a risk."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undercut.errors import DataError
from undercut.maps.sequences import Sequences, place
from undercut.types import Array


def encoded(labels: list[Any]) -> tuple[Array, NDArray[np.int64]]:
    """The different labels, and the number of each token's."""
    plain = [_plain(label) for label in labels]
    classes = ordered(distinct_labels(plain))
    codes = {label: code for code, label in enumerate(classes)}
    return class_array(classes), np.array([codes[label] for label in plain], np.int64)


def distinct_labels(labels: list[Any]) -> list[Any]:
    """The different labels, in the order in which they appear."""
    return list(dict.fromkeys(map(_plain, labels)))


def ordered(distinct: list[Any]) -> list[Any]:
    """Different labels in increasing order, or, where they have no order, in that of their appearance."""
    if len(distinct) < 2:
        raise DataError(f"a labeler needs at least 2 different labels; got 1: {distinct[0]!r}")
    with suppress(TypeError):
        return sorted(distinct)
    return distinct


def _plain(label: Any) -> Hashable:
    label = label.item() if isinstance(label, np.generic) else label
    if not isinstance(label, Hashable) or label != label:
        raise DataError(f"labels must be hashable and equal to themselves; got {label!r}")
    return label


def class_array(labels: Iterable[Any]) -> Array:
    """Labels as an array, of a type of its own where they are all text or all numbers."""
    labels = list(labels)
    kinds = {type(label) for label in labels}
    if any(kinds <= alike for alike in ({str}, {bool}, {int, float})):
        return np.array(labels)
    array = np.empty(len(labels), object)
    for at, label in enumerate(labels):  # NumPy would unfold tuples
        array[at] = label
    return array


def codes_of(labels: list[Any], classes: Array, sequences: Sequences) -> NDArray[np.int64]:
    codes = {label: code for code, label in enumerate(classes.tolist())}
    numbers = [codes.get(_plain(label), -1) for label in labels]
    if -1 in numbers:
        s, t = place(numbers.index(-1), sequences.lengths)
        raise DataError(
            f"y must hold labels of the fit; token {t} of sequence {s} has the unknown label "
            f"{labels[numbers.index(-1)]!r}; known labels are {', '.join(map(repr, codes))}"
        )
    return np.array(numbers, np.int64)
