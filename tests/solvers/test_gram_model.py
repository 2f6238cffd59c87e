"""Compiled passes of working sets against the same formulas in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.catalogue import LOSSES

from undercut import L1, ElasticNet, LinearRisk
from undercut._jit import gram_model
from undercut.solvers.coordinate.working.columns import Penalty, column_norms
from undercut.solvers.coordinate.working.pointwise_problem import PointwiseProblem
from undercut.solvers.coordinate.working.sparse_problem import SparseProblem

SMOOTH = ("squared", "squared_hinge", "huber_hinge", "logistic", "exponential", "huber", "poisson")
PENALTIES = (Penalty(0.3, 0.0), Penalty(0.3, 0.7))


def drawn(loss, reg, seed):
    """A problem with samples without weight, slopes at a point, their gradient, and which features are alive."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((40, 7)), LOSSES[loss].draw_targets(rng, 40)
    risk = LinearRisk(X, y, LOSSES[loss].loss, rng.integers(0, 3, 40).astype(float))
    problem = PointwiseProblem(risk, reg, column_norms(risk.design, risk.weight))
    point = problem.point(0.3 * X @ rng.standard_normal(7))
    return problem, point, rng.random(7) < 0.7


@pytest.mark.parametrize("reg", [L1(0.01), L1(1.0), ElasticNet(0.01), ElasticNet(1.0)], ids=str)
@pytest.mark.parametrize("loss", SMOOTH)
def test_bounds_and_screening_are_those_of_any_number_of_scores(loss, reg):
    for seed in range(5):
        problem, point, alive = drawn(loss, reg, seed)
        for objective in (point.value, 100.0 * abs(point.value)):
            own = problem.bound(point.slopes, point.gradient, alive, objective)
            general = SparseProblem.bound(problem, point.slopes, point.gradient, alive, objective)
            assert own.value == pytest.approx(general.value, rel=1e-12)
            assert own.share == pytest.approx(general.share, rel=1e-12)
        w = np.where(alive, 0.0, 1.0)
        for gap in (0.0, 1e-3, np.inf):
            screened = problem.screened(w, 0.01 * point.gradient, 0.9, gap)
            assert np.array_equal(screened, SparseProblem.screened(problem, w, 0.01 * point.gradient, 0.9, gap))


def test_slopes_that_are_not_finite_prove_nothing():
    problem, point, alive = drawn("squared", L1(0.1), 0)
    gradient = np.where(np.arange(7) == np.flatnonzero(alive)[0], np.nan, point.gradient)
    assert problem.bound(point.slopes, gradient, alive, point.value).value == -np.inf


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_violation_is_the_distance_from_the_subgradients_weighted_by_size(penalty):
    rng = np.random.default_rng(0)
    w, gradient = rng.standard_normal(50) * (rng.random(50) < 0.5), rng.standard_normal(50)
    size = np.abs(w)
    resting = np.maximum(np.abs(gradient) - penalty.l1, 0.0)
    moving = np.abs(gradient + penalty.l1 * np.sign(w) + penalty.l2 * w) * np.minimum(1.0, size / size[size > 0].mean())
    expected = np.where(w == 0.0, resting, np.maximum(moving, resting - penalty.l2 * size))
    np.testing.assert_allclose(penalty.violation(w, gradient), expected, rtol=1e-12)
    assert penalty.largest_violation(w, gradient) == penalty.violation(w, gradient).max()
    gradient[3] = np.nan
    assert np.isnan(penalty.largest_violation(w, gradient))


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_slope_of_a_penalty_is_its_change_along_a_short_step(penalty):
    rng = np.random.default_rng(1)
    w, change = rng.standard_normal(20) * (rng.random(20) < 0.5), rng.standard_normal(20)
    t = 1e-7
    assert penalty.value(w) == pytest.approx(penalty.l1 * np.abs(w).sum() + 0.5 * penalty.l2 * w @ w)
    assert penalty.slope(w, change) == pytest.approx((penalty.value(w + t * change) - penalty.value(w)) / t, rel=1e-5)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_step_on_the_support_reduces_the_model_and_keeps_signs(penalty):
    rng = np.random.default_rng(2)
    A = rng.standard_normal((30, 8))
    H, w = A.T @ A / 30, rng.standard_normal(8) * (np.arange(8) % 3 > 0)
    start, gradient = w.copy(), rng.standard_normal(8)
    first = gradient.copy()
    support, matrix, right = gram_model.support_system(H, gradient, w, *penalty)
    np.testing.assert_array_equal(support, np.flatnonzero(start))
    step = np.linalg.solve(matrix + penalty.l2 * np.eye(support.size), right)
    gram_model.move_support(H, matrix, support, step, *penalty, w, gradient)
    change = w - start
    model = first @ change + 0.5 * change @ H @ change + penalty.value(w)
    assert model < penalty.value(start)
    assert (w * start >= 0.0).all()
    np.testing.assert_allclose(gradient, first + H @ change, atol=1e-12)
