"""Sweeps on the shares of several classes, one sample at a time."""

import numpy as np
import pytest

from undercut._jit.proximal_blocks import SPARE, sweep_soft
from undercut.maps.dense import DenseDesign


@pytest.mark.parametrize("n_used", [1, 30, 100])
def test_a_move_is_as_long_as_the_parameters_that_are_not_zero_ask_for(n_used):
    before, after = lead_moved(1000.0, n_used, 1003.0)  # the others stay far within l1
    used = n_used / 100
    assert after == pytest.approx(before * (1.0 - used / min(used + SPARE, 1.0)), abs=1e-9)


@pytest.mark.parametrize("n_used", [0, 30])
def test_without_absolute_values_all_parameters_count_even_at_zero(n_used):
    assert lead_moved(0.0, n_used, 3.0)[1] == pytest.approx(0.0, abs=1e-9)


def lead_moved(l1, n_used, force):
    """The lead of the second class of one sample, before and after its shares move."""
    x = np.full((1, 100), 0.1)  # of length 1
    costs, cap, y = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1e4]), np.zeros(1, np.int32)
    Q, U, total = np.array([[5e3, 5e3]]), np.zeros((100, 2)), np.zeros((1, 2))
    U[:n_used] = force, -force

    def lead():
        w = np.sign(U) * np.maximum(np.abs(U) - l1, 0.0)
        return float(np.diff(costs[0] + x[0] @ w)[0])

    before, order, classes = lead(), np.zeros(1, np.int64), np.array([[0, 1]], np.int32)
    sweep_soft(
        *DenseDesign(x).rows(), np.array([1.0]), y, costs, cap, order, classes, np.array([2], np.int32), l1,
        1.0, Q, U, total,
    )  # fmt: skip
    assert Q.sum() == pytest.approx(1e4)
    return before, lead()
