"""Class labels as codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from undercut.estimators.targets import encode_classes


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
