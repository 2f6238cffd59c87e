"""The dual side of a kernel machine: any point is made feasible, and every feasible point is a bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.kernel_problems import machine

from undercut.solvers.kernel_dual import KernelDual


def both(fit_intercept=True, C=1.0):
    problem = machine(n=30, C=C, fit_intercept=fit_intercept)
    return problem, KernelDual(problem.parts()[0], problem.lam)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 1000), size=st.sampled_from([0.1, 1.0, 100.0]), fit_intercept=st.booleans())
def test_any_point_becomes_feasible_and_bounds_the_optimum(seed, size, fit_intercept):
    problem, dual = both(fit_intercept)
    x = dual.feasible(size * np.random.default_rng(seed).standard_normal(30))
    assert (problem.y * x >= 0.0).all()
    assert (problem.y * x <= dual.cap * (1.0 + 1e-12)).all()
    if fit_intercept:
        assert x.sum() == pytest.approx(0.0, abs=1e-12 * (1.0 + np.abs(x).sum()))
    scores = problem.K @ x
    plain = problem.lam * (problem.y @ x - 0.5 * x @ scores)
    assert dual.bound(x, scores) >= plain - 1e-12
    assert dual.bound(x, scores) <= dual.objective(x, scores)
    for other in np.random.default_rng(seed).standard_normal((5, 30)):
        assert dual.bound(x, scores) <= dual.objective(other, problem.K @ other)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 1000), size=st.sampled_from([0.1, 1.0, 100.0]), error=st.sampled_from([1e-6, 1e-2]))
def test_the_error_of_scores_is_added_to_the_gap(seed, size, error):
    problem, dual = both()
    rng = np.random.default_rng(seed)
    x = dual.feasible(size * rng.standard_normal(30))
    scores = problem.K @ x
    rounded = scores + error * rng.choice([-1.0, 1.0], 30)
    assert dual.objective(x, rounded, error) >= dual.objective(x, scores)
    assert dual.bound(x, rounded, error) <= dual.bound(x, scores) + 1e-12


def test_a_feasible_point_stays_where_it_is():
    problem, dual = both()
    x = np.zeros(30)
    x[np.flatnonzero(problem.y > 0.0)[:3]] = 0.5
    x[np.flatnonzero(problem.y < 0.0)[:3]] = -0.5
    np.testing.assert_allclose(dual.feasible(x), x, atol=1e-15)


def test_variables_between_their_bounds_make_up_the_balance():
    problem, dual = both()
    y = problem.y
    x = np.zeros(30)
    positive, negative = np.flatnonzero(y > 0.0), np.flatnonzero(y < 0.0)
    x[positive[:4]] = dual.cap[positive[:4]]
    x[negative[:4]] = -dual.cap[negative[:4]]
    x[positive[5]] = 0.5 * dual.cap[positive[5]]
    balanced = dual.feasible(x)
    np.testing.assert_allclose(balanced[positive[:4]], x[positive[:4]])
    assert balanced[positive[5]] == pytest.approx(0.0, abs=1e-12)
