"""Class labels as codes, weights of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from undercut.errors import ParameterError
from undercut.estimators import LinearClassifier
from undercut.estimators.targets import class_factors, encode_classes


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        ([2, -1, 2, 7, -1], np.int8),
        ([True, False, True], bool),
        ([0.0, 3.0, 1.0, 3.0], np.float32),
        (["b", "a", "é", "a"], str),
        (["b", "a", "é", "a"], object),
    ],
)
def test_codes_of_any_labels_give_them_back_and_are_in_their_order(labels: list[Any], dtype: Any) -> None:
    y = np.array(labels, dtype=dtype)
    classes, codes = encode_classes(y)
    assert classes.tolist() == sorted(set(labels))
    assert np.array_equal(classes[codes], y)


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, "2"])
def test_a_weight_that_no_class_can_have_is_refused_by_the_name_of_the_class(weight: Any) -> None:
    X, y = [[0.0], [1.0], [2.0]], ["a", "b", "b"]
    with pytest.raises(ParameterError, match=r"class_weight must be finite and non-negative; got .* for class 'b'"):
        LinearClassifier(class_weight={"a": 1, "b": weight}).fit(X, y)
    with pytest.raises(ParameterError, match="for class 'b'"):
        class_factors({"b": weight}, np.array(["a", "b"]), np.ones(2))


def test_weights_of_classes_may_be_whole_numbers_of_any_kind() -> None:
    weights = {0: np.int32(2), 1: np.float32(0.5)}
    assert class_factors(weights, np.array([0, 1]), np.ones(2)).tolist() == [2.0, 0.5]
