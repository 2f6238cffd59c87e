"""Pairs of variables solve the programs of support vector machines to any accuracy: Karush, Kuhn and Tucker say so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from undercut._jit.box_qp import solve_balanced, solve_box
from undercut._jit.gram import add_rows, gather


def problem(seed, n, rank, zero_rows):
    """A Gram matrix of any rank, labels of both classes, bounds some of which are zero."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((n, rank))
    F[:zero_rows] = 0.0
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    cap = rng.uniform(0.1, 3.0, n) * (rng.random(n) < 0.9)
    return F @ F.T, y, cap, rng


shapes = {
    "seed": st.integers(0, 10_000),
    "n": st.integers(2, 15),
    "rank": st.integers(1, 15),
    "zero_rows": st.integers(0, 2),
}


def assert_in_box(y, x, cap):
    assert (y * x >= 0.0).all()
    assert (y * x <= cap * (1.0 + 1e-12)).all()


@settings(max_examples=100, deadline=None)
@given(**shapes, scale=st.sampled_from([0.01, 1.0]), ridge=st.sampled_from([0.0, 0.1, 10.0]))
def test_no_derivative_points_into_the_box(seed, n, rank, zero_rows, scale, ridge):
    K, y, cap, rng = problem(seed, n, rank, zero_rows)
    q = rng.standard_normal(n) + 0.5
    x = y * cap * rng.random(n)
    own = K @ x
    solve_box(K, np.diag(K).copy(), y, cap, q, scale, ridge, x, own, 1e-8, 1_000_000)
    assert_in_box(y, x, cap)
    np.testing.assert_allclose(own, K @ x, atol=1e-8 * (1.0 + np.abs(K).max()))
    slope = y * (scale * own + ridge * x.sum()) - q
    assert (slope[y * x < cap] >= -1e-7).all()
    assert (slope[y * x > 0.0] <= 1e-7).all()


@settings(max_examples=100, deadline=None)
@given(**shapes)
def test_no_balanced_pair_gains(seed, n, rank, zero_rows):
    K, y, cap, _ = problem(seed, n, rank, zero_rows)
    x, own = np.zeros(n), np.zeros(n)
    solve_balanced(K, np.diag(K).copy(), y, cap, x, own, 1e-8, 1_000_000)
    assert_in_box(y, x, cap)
    assert x.sum() == pytest.approx(0.0, abs=1e-12 * (1.0 + np.abs(x).sum()))
    np.testing.assert_allclose(own, K @ x, atol=1e-8 * (1.0 + np.abs(K).max()))
    up = np.where(y > 0.0, x < cap, x < 0.0)
    down = np.where(y > 0.0, x > 0.0, x > -cap)
    if up.any() and down.any():
        assert (y - own)[up].max() - (y - own)[down].min() <= 1e-7


def test_the_limit_of_pairs_is_kept():
    K, y, cap, _ = problem(0, 12, 12, 0)
    for limit in (0, 3):
        x, own = np.zeros(12), np.zeros(12)
        assert solve_balanced(K, np.diag(K).copy(), y, cap, x, own, 0.0, limit) == limit


@pytest.mark.parametrize("n_rows", [0, 1, 3, 4, 5, 11])
def test_rows_are_added_four_at_a_time_or_not(n_rows):
    rng = np.random.default_rng(0)
    K, v, rows = rng.standard_normal((12, 12)), rng.standard_normal(12), rng.permutation(12)[:n_rows]
    out = np.ones(12)
    add_rows(K, rows, v, out, 2, 9)
    np.testing.assert_allclose(out[2:9], 1.0 + v[rows] @ K[rows][:, 2:9])
    assert (out[[0, 1, 9, 10, 11]] == 1.0).all()


def test_a_block_is_gathered():
    K, rows = np.arange(25.0).reshape(5, 5), np.array([3, 0, 4])
    out = np.full((3, 3), -1.0)
    gather(K, rows, out, 1, 3)
    np.testing.assert_array_equal(out[1:], K[np.ix_(rows, rows)][1:])
    assert (out[0] == -1.0).all()
