"""The transportation problem is solved exactly, from any prices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import linprog

from undercut._jit.transport import transport

ENOUGH = 10**6


def draw(seed, integer):
    """A random problem; small integers make ties abound, and some sources and sinks are empty."""
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(1, 15)), int(rng.integers(2, 6))
    utility = rng.integers(-2, 3, (n, K)).astype(float) if integer else rng.standard_normal((n, K))
    supply = rng.integers(0, 3, n).astype(float) if seed % 3 else rng.random(n) * (rng.random(n) < 0.8)
    supply[0] += 1.0
    supply /= supply.sum()
    capacity = np.bincount(rng.integers(0, K, n), supply, K)
    return rng, utility, supply, capacity


def solve(utility, supply, capacity, b, max_paths=ENOUGH):
    b, flow = b.copy(), np.full_like(utility, np.nan)
    assert transport(utility, supply, capacity, b, flow, max_paths)
    return b, flow


def assert_feasible(flow, supply, capacity):
    assert (flow >= 0.0).all()
    np.testing.assert_allclose(flow.sum(axis=1), supply, atol=1e-14)
    np.testing.assert_allclose(flow.sum(axis=0), capacity, atol=1e-13)


def best_by_linear_programming(utility, supply, capacity):
    n, K = utility.shape
    sums = np.vstack([np.kron(np.eye(n), np.ones(K)), np.kron(np.ones(n), np.eye(K))])
    return -linprog(-utility.ravel(), A_eq=sums, b_eq=np.concatenate([supply, capacity]), method="highs").fun


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0.0, 1.0, 100.0]))
def test_the_plan_is_feasible_and_as_good_as_the_linear_program_and_the_prices_prove_it(seed, integer, far):
    rng, utility, supply, capacity = draw(seed, integer)
    b, flow = solve(utility, supply, capacity, far * rng.standard_normal(capacity.size))
    assert_feasible(flow, supply, capacity)
    gained, proved = float((flow * utility).sum()), supply @ (utility + b).max(axis=1) - capacity @ b
    assert gained == pytest.approx(best_by_linear_programming(utility, supply, capacity), abs=1e-9)
    assert proved == pytest.approx(gained, abs=1e-12 * max(1.0, far))


def test_too_few_paths_are_no_success():
    utility, supply = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([0.5, 0.5])
    b, flow = np.zeros(2), np.empty((2, 2))
    assert not transport(utility, supply, supply, b, flow, 0)
    assert transport(utility, supply, supply, b, flow, ENOUGH)


def test_one_who_could_go_a_detour_goes_straight():
    """Sources split over three sinks by rounding once moved dust around for ever."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        utility = 5.0 * rng.standard_normal((40, 4))
        supply = np.full(40, 1.0 / 40.0)
        capacity = np.bincount(rng.integers(0, 4, 40), supply, 4)
        b = np.zeros(4)
        for _ in range(20):  # each time from the last prices, at which several sources are tied
            utility += 0.3 * rng.standard_normal((40, 4))
            b, flow = solve(utility, supply, capacity, b, max_paths=4000)
            assert_feasible(flow, supply, capacity)
            proved = supply @ (utility + b).max(axis=1) - capacity @ b
            assert (flow * utility).sum() == pytest.approx(proved, abs=1e-11)


def test_prices_sum_to_zero():
    _, utility, supply, capacity = draw(1, integer=False)
    b, _ = solve(utility, supply, capacity, np.full(capacity.size, 7.0))
    assert b.sum() == pytest.approx(0.0, abs=1e-12)
