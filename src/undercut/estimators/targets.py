"""Class labels as codes, class weights, and one problem per class against the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from undercut.errors import DataError, ParameterError
from undercut.estimators.inputs import checked_weight
from undercut.types import Array, FloatArray


class Problem(NamedTuple):
    """One class against the rest."""

    target: FloatArray  # 1.0 and -1.0, and 0.0 for a sample without a label
    start: FloatArray | None  # where the search starts
    title: str = ""  # what a display says
    name: str = ""  # what a trace and a checkpoint say

    def start_of(self) -> Problem:
        """The problem whose solution is a start for this one."""
        return self._replace(name=f"start of {self.name}" if self.name else "start")


def encode_classes(y: Array) -> tuple[Array, Array]:
    """The different labels in increasing order, and the code 0 ... K-1 of each sample's.

    >>> encode_classes(np.array(["b", "a", "b"]))
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1]))
    """
    check_classification_targets(y)
    classes = np.unique(y)
    if classes.size < 2:
        raise DataError(f"a classifier needs samples of at least 2 classes; got 1 class: {classes[0]}")
    return classes, np.searchsorted(classes, y)  # the inverse of ``np.unique`` would take a sort of all labels


def positive_codes(n_classes: int) -> list[int]:
    """The classes with a problem of their own: all, or the last of two."""
    return [1] if n_classes == 2 else list(range(n_classes))


def one_against_rest(classes: Array, codes: Array, starts: FloatArray | None = None) -> Iterator[Problem]:
    """The problems of all classes; a sample with a negative code has the target zero."""
    for at, code in enumerate(positive_codes(classes.size)):
        target = np.where(codes < 0, 0.0, np.where(codes == code, 1.0, -1.0))
        start = None if starts is None else starts[at]
        if classes.size == 2:
            yield Problem(target, start)
        else:
            title = f"class {at + 1} of {classes.size} ({classes[code]})"
            yield Problem(target, start, title, f"class {classes[code]}")


def class_factors(class_weight: Any, classes: Array, counts: FloatArray) -> FloatArray | None:
    """The weight of every class, given the summed weight of its samples; ``None`` where all are one.

    >>> class_factors("balanced", np.array([0, 1]), np.array([30.0, 10.0]))
    array([0.66666667, 2.        ])
    """
    if class_weight is None:
        return None
    if class_weight == "balanced":
        return np.asarray(counts.sum() / (classes.size * counts))
    _check_class_weight(class_weight)
    return np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])


def class_weighted(
    X: Any, y: Array, classes: Array, codes: Array, class_weight: Any, sample_weight: Any
) -> FloatArray | None:
    """Sample weights times class weights; ``None`` where there are neither."""
    if sample_weight is None and class_weight is None:
        return None
    weight = checked_weight(sample_weight, X)
    if class_weight is None:
        return weight
    _check_class_weight(class_weight)
    per_class = compute_class_weight(class_weight, classes=classes, y=y, sample_weight=weight)
    return np.asarray(weight * per_class[codes])


def _check_class_weight(class_weight: Any) -> None:
    """Refuse a weight that is no number, negative or not finite; "balanced" has none."""
    for label, weight in class_weight.items() if isinstance(class_weight, Mapping) else ():
        if not (isinstance(weight, Real) and 0.0 <= float(weight) < math.inf):
            raise ParameterError(f"class_weight must be finite and non-negative; got {weight!r} for class {label!r}")
