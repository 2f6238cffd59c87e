"""The sort within compiled functions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from undercut._jit.sorting import rising


@given(st.lists(st.floats(-1e6, 1e6) | st.integers(-3, 3).map(float), max_size=300))
@settings(deadline=None)
def test_values_rise_in_the_order_and_each_is_in_it_once(values):
    values = np.array(values)
    order = rising(values)
    assert np.array_equal(np.sort(order), np.arange(values.size))
    assert np.array_equal(values[order], np.sort(values))


@pytest.mark.parametrize("values", [np.arange(1e5), -np.arange(1e5), np.zeros(100_000), np.arange(1e5) % 7])
def test_many_sorted_or_equal_values_are_sorted(values):
    assert np.array_equal(values[rising(values)], np.sort(values))
