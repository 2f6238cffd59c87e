"""Sweeps on the shares of several classes, one sample at a time."""

import numpy as np
import pytest

from undercut._jit.proximal_blocks import SPARE, sweep_soft
from undercut.maps.dense import DenseDesign


@pytest.mark.parametrize("n_used", [1, 30, 100])
def test_a_move_is_as_long_as_the_parameters_that_are_not_zero_ask_for(n_used):
    x, l1 = np.full((1, 100), 0.1), 1000.0  # of length 1
    costs, cap, y = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1e4]), np.zeros(1, np.int32)
    Q, U, total = np.array([[5e3, 5e3]]), np.zeros((100, 2)), np.zeros((1, 2))
    U[:n_used] = 1003.0, -1003.0  # the others stay far within l1

    def lead():
        w = np.sign(U) * np.maximum(np.abs(U) - l1, 0.0)
        return float(np.diff(costs[0] + x[0] @ w)[0])

    before, order, classes = lead(), np.zeros(1, np.int64), np.array([[0, 1]], np.int32)
    sweep_soft(
        *DenseDesign(x).rows(), np.array([1.0]), y, costs, cap, order, classes, np.array([2], np.int32), l1,
        1.0, Q, U, total,
    )  # fmt: skip
    used = n_used / 100
    assert Q.sum() == pytest.approx(1e4)
    assert lead() == pytest.approx(before * (1.0 - used / min(used + SPARE, 1.0)), abs=1e-9)
