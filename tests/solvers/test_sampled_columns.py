"""Softmax with models from a sample of the rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L1, ElasticNet, MulticlassRisk, Status, Stop, minimize
from undercut.losses import Softmax
from undercut.solvers import WorkingSet
from undercut.solvers.coordinate.working import class_problem, sampled_columns
from undercut.solvers.coordinate.working.class_problem import ClassProblem
from undercut.solvers.coordinate.working.columns import column_norms
from undercut.solvers.coordinate.working.sampled_columns import SampledColumns

K = 3


@pytest.fixture(autouse=True)
def no_problem_is_too_small(monkeypatch):
    monkeypatch.setattr(class_problem, "SMALL", 0)


def draw(n, d, seed=0):
    """Correlated features of different scales, one class rare, some samples without a weight."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + rng.standard_normal((n, 1))
    scores = X @ rng.standard_normal((d, K)) + rng.gumbel(size=(n, K)) + np.array([0.0, 1.0, -2.0])
    return X * 10.0 ** rng.uniform(-2.0, 2.0, d), scores.argmax(axis=1), rng.exponential(size=n) * (rng.random(n) < 0.9)


def risk_of(n, d, *, fit_intercept=True, sparse=False):
    X, y, weight = draw(n, d)
    return MulticlassRisk(sp.csr_array(X) if sparse else X, y, Softmax(), weight, fit_intercept=fit_intercept)


def few_rows(monkeypatch, per_feature=10):
    """Let models have few rows although more would cost nothing."""
    monkeypatch.setattr(sampled_columns, "WORK", 0)
    monkeypatch.setattr(sampled_columns, "FEW_ROWS", 0)
    monkeypatch.setattr(sampled_columns, "ROWS", per_feature)


def model_at(risk, w):
    """The model at w, and columns with every feature."""
    norms = column_norms(risk.features, risk.weight)
    problem = ClassProblem(risk, L1(1e-9), norms)
    columns = problem.columns(np.arange(norms.size))
    assert isinstance(columns, SampledColumns)
    point = problem.point(problem.scores(w))
    return columns, problem.model(problem.iterate(problem.by_feature(w).reshape(-1), point, 0.0))[0]


@pytest.mark.parametrize(("fit_intercept", "sparse"), [(True, False), (False, True)])
def test_the_model_of_all_rows_is_the_hessian(fit_intercept, sparse):
    risk = risk_of(200, 4, fit_intercept=fit_intercept, sparse=sparse)
    norms = column_norms(risk.features, risk.weight)
    w = np.random.default_rng(1).standard_normal(K * 4) / np.tile(norms, K)
    columns, model = model_at(risk, w)
    likely = columns._made(model, np.arange(K * 4))
    feature, k = likely.chosen // K, likely.chosen % K
    order = k * 4 + feature  # where the parameters stand in the risk
    expected = risk.hessian(w)[np.ix_(order, order)]
    scale = norms[feature] * norms[feature][:, None]
    np.testing.assert_allclose(likely.H / scale, expected / scale, atol=1e-12)


def test_a_sample_of_the_rows_makes_a_matrix_near_the_hessian(monkeypatch):
    few_rows(monkeypatch)
    risk = risk_of(4000, 4)
    norms = column_norms(risk.features, risk.weight)
    w = np.random.default_rng(1).standard_normal(K * 4) / np.tile(norms, K)
    columns, model = model_at(risk, w)
    columns.times = 10.0  # 400 rows
    some = columns._made(model, np.arange(K * 4))
    columns.times = 1000.0
    every = columns._made(model, np.arange(K * 4))
    scale = norms[some.chosen // K] * norms[some.chosen // K][:, None]
    error = np.linalg.norm((some.H - every.H) / scale, 2) / np.linalg.norm(every.H / scale, 2)
    assert 1e-4 < error < 0.2


@pytest.mark.parametrize("reg", [L1(1e-3), ElasticNet(1e-3)], ids=["l1", "elastic net"])
@pytest.mark.parametrize(("fit_intercept", "sparse"), [(True, False), (False, True)])
def test_few_rows_per_model_lead_to_the_same_certified_optimum(reg, fit_intercept, sparse, monkeypatch):
    risk = risk_of(1500, 12, fit_intercept=fit_intercept, sparse=sparse)
    stop = Stop(gap_rel=1e-7, max_steps=60)
    exact = minimize(risk, reg, WorkingSet(), stop=stop)
    few_rows(monkeypatch, per_feature=2)
    sampled = minimize(risk, reg, WorkingSet(), stop=stop)
    assert exact.status is sampled.status is Status.CONVERGED
    assert sampled.objective == pytest.approx(exact.objective, rel=2e-7)
    assert sampled.lower_bound <= exact.objective
    assert sampled.objective == pytest.approx(reg.value(sampled.w) + risk.value(sampled.w), rel=1e-12)


def test_a_model_that_does_not_reduce_the_violations_is_followed_by_one_of_twice_as_many_rows(monkeypatch):
    few_rows(monkeypatch)
    columns, model = model_at(risk_of(2000, 6), np.zeros(K * 6))
    w, gradient = np.zeros(K * 6), np.linspace(1.0, 2.0, K * 6)
    penalty = ClassProblem(risk_of(20, 6), L1(1e-9), np.ones(6)).penalty
    first = columns._model(model, w, gradient, penalty)
    assert columns.times == 1.0
    again = columns._model(model, w, 0.1 * gradient, penalty)
    assert again.H is first.H
    columns._model(model, w, 0.09 * gradient, penalty)
    assert columns.times == 1.0
    columns._model(model, w, 0.08 * gradient, penalty)
    assert columns.times == 2.0
