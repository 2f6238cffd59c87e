"""Cyclic descent on the columns of short sparse rows, which minimizes a squared loss with L1 to the gap asked for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L1, ElasticNet, LinearRisk, Squared, Stop, minimize
from undercut.maps.csr import SparseDesign
from undercut.solvers import WorkingSet
from undercut.solvers.coordinate.working.columns import ModelGap, Penalty, PointwiseModel, Tolerance
from undercut.solvers.coordinate.working.direct_columns import SparseColumns


def short_rows(seed, n=800, d=400):
    """Rows of some five entries, of columns that differ in size, the first of which are empty and constant."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density=5 / d, format="lil", random_state=rng, data_rvs=rng.standard_normal)
    X[:, 0] = 0.0
    X[:, 1] = 1.0
    X = sp.csr_matrix(X @ sp.diags(10.0 ** rng.uniform(-1.0, 1.0, d)))
    return X, X @ (rng.standard_normal(d) * (rng.random(d) < 0.1)) + rng.standard_normal(n) + 3.0


def value(model, penalty, move, w):
    """Of a model at a move from zero, whose slopes at zero are those of the model."""
    z = move.scores
    return float(model.slopes @ z) + 0.5 * float(z @ model.through(z)) + penalty.value(w)


@pytest.mark.parametrize("share", [1e-3, 1e-6])
@pytest.mark.parametrize("l2", [0.0, 1e-3])
@pytest.mark.parametrize("free", [False, True])
def test_it_ends_within_the_gap_of_the_model(free, l2, share):
    X, y = short_rows(1)
    weight = np.random.default_rng(2).uniform(0.0, 2.0, y.size) / y.size
    weight[:50] = 0.0
    model = PointwiseModel(-weight * (y - free * (weight @ y) / weight.sum()), weight, free)
    penalty, base = Penalty(0.003, l2), 0.5 * float(weight @ y**2)
    gradient, zero = X.T @ model.slopes, np.zeros(X.shape[1])
    columns = SparseColumns(SparseDesign(X), np.arange(X.shape[1]))
    found = columns.minimize(model, zero, gradient, penalty, Tolerance(0.0, gap=ModelGap(share, base)), 1)
    best = columns.minimize(model, zero, gradient, penalty, Tolerance(1e-13), 500)
    assert not columns.is_slow
    assert np.count_nonzero(found.w) > 20
    least = value(model, penalty, best, best.w)
    reached = value(model, penalty, found, found.w)
    assert least - 1e-12 <= reached <= least + share * (base + reached)
    b = found.scores - X @ found.w
    np.testing.assert_allclose(b, b[0] if free else 0.0, atol=1e-12)


def test_where_it_is_slow_random_orders_and_newton_steps_go_on():
    rng = np.random.default_rng(4)
    X = sp.csr_matrix(np.vstack([np.full((100, 60), 0.4), np.eye(60)]))
    model = PointwiseModel(rng.standard_normal(160) / 160, np.full(160, 1.0 / 160), free=True)
    gradient, penalty = X.T @ model.slopes, Penalty(1e-6, 0.0)
    columns = SparseColumns(SparseDesign(X), np.arange(60))
    move = columns.minimize(model, np.zeros(60), gradient, penalty, Tolerance(1e-9, gap=ModelGap(1e-15, 1.0)), 500)
    assert columns.is_slow
    left = X.T @ (model.slopes + model.through(move.scores))
    assert penalty.largest_violation(move.w, left) <= 1e-9
    assert SparseColumns(SparseDesign(X), np.arange(30), columns).is_slow  # it is not tried again


@pytest.mark.parametrize("gap_rel", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize("reg", [L1(0.1), L1(1e-3), L1(1e-5), ElasticNet(1e-2), ElasticNet(1e-6)])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_bounds_bracket_the_optimum_of_a_squared_loss(reg, fit_intercept, gap_rel):
    X, y = short_rows(3)
    weight = np.random.default_rng(5).integers(0, 3, y.size)
    risk = LinearRisk(X, y, Squared(), sample_weight=weight, fit_intercept=fit_intercept)
    result = minimize(risk, reg, WorkingSet(), stop=Stop(gap_rel=gap_rel, max_steps=60))
    assert result.status.name == "CONVERGED"
    assert result.objective == pytest.approx(reg.value(result.w) + risk.value(result.w), rel=1e-12)
    best = minimize(risk, reg, WorkingSet(), stop=Stop(gap_rel=1e-12, max_steps=200))
    assert result.lower_bound <= best.objective * (1.0 + 1e-13)
    assert best.lower_bound <= result.objective * (1.0 + 1e-13)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_steps_that_are_rounding_leave_the_objective_that_of_the_solution(seed, fit_intercept):
    X, y = short_rows(seed)
    risk, reg = LinearRisk(X, y, Squared(), fit_intercept=fit_intercept), L1(1e-5)
    result = minimize(risk, reg, WorkingSet(), stop=Stop(gap_rel=1e-14, max_steps=150))
    assert result.objective == pytest.approx(reg.value(result.w) + risk.value(result.w), rel=1e-13)
    rough = minimize(risk, reg, WorkingSet(), stop=Stop(gap_rel=1e-8))
    assert rough.lower_bound <= result.objective * (1.0 + 1e-13)


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e9, 1e150])
def test_features_of_any_size_leave_the_bound_a_bound(scale):
    X, y = short_rows(6)
    risk = LinearRisk(scale * X, y, Squared(), fit_intercept=True)
    lam = 0.01 * np.abs(risk.cut(np.zeros(X.shape[1])).a).max()
    result = minimize(risk, L1(lam), WorkingSet(), stop=Stop(gap_rel=1e-6, max_steps=60))
    reference = minimize(LinearRisk(X, y, Squared(), fit_intercept=True), L1(lam / scale), stop=Stop(gap_rel=1e-9))
    assert result.lower_bound <= reference.objective * (1.0 + 1e-9)
    assert result.objective >= reference.lower_bound * (1.0 - 1e-9)


def test_a_squared_loss_on_short_rows_takes_one_step():
    X, y = short_rows(7, n=3000, d=1200)
    risk = LinearRisk(X, y, Squared())
    for share in (0.1, 0.01, 0.001):
        lam = share * np.abs(risk.cut(np.zeros(1200)).a).max()
        assert minimize(risk, L1(lam), WorkingSet(), stop=Stop(gap_rel=1e-6)).trace[-1].step <= 2


def test_a_constant_feature_stays_zero_beside_a_free_intercept():
    X, y = short_rows(3)
    weight = np.random.default_rng(5).integers(0, 3, y.size)
    risk = LinearRisk(X, y, Squared(), sample_weight=weight, fit_intercept=True)
    result = minimize(risk, L1(1e-5), WorkingSet(), stop=Stop(gap_rel=1e-8, max_steps=60))
    assert result.w[1] == 0.0
    assert np.abs(result.w).max() < 100.0
