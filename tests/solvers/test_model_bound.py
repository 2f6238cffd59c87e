"""The bound of the slopes that a Newton step predicts: it holds, and comes before that of the next plane."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from undercut import L1, L2, ElasticNet, Huber, LinearRisk, Logistic, Poisson, Squared, SquaredHinge, Stop, minimize
from undercut.contracts import MarginLoss
from undercut.losses import HuberHinge, Softmax
from undercut.risks import MulticlassRisk
from undercut.solvers import LineSearchBundle, Newton, WorkingSet
from undercut.solvers.bounds import cut_bound
from undercut.solvers.coordinate.working.pointwise_problem import PointwiseProblem
from undercut.solvers.coordinate.working.sparse_problem import Effort
from undercut.solvers.newton import newton
from undercut.solvers.newton.line_step import descend
from undercut.solvers.newton.model_bound import model_bound


def problem(n_classes=3, *, n=60, d=4, seed=0, spread=1.0, **settings):
    rng = np.random.default_rng(seed)
    X = spread * rng.standard_normal((n, d))
    scores = X @ rng.standard_normal((d, n_classes)) + spread * rng.gumbel(size=(n, n_classes))
    y = np.append(np.arange(n_classes), scores.argmax(axis=1)[n_classes:])
    return MulticlassRisk(X, y, Softmax(), **settings)


@given(
    n_classes=st.integers(2, 5),
    lam=st.floats(1e-6, 1e3),
    seed=st.integers(0, 10**6),
    spread=st.sampled_from([0.1, 1.0, 30.0]),
    fit_intercept=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_no_bound_of_a_newton_step_exceeds_the_optimum(n_classes, lam, seed, spread, fit_intercept):
    risk = problem(n_classes, seed=seed, spread=spread, fit_intercept=fit_intercept)
    solver, reg = Newton(), L2(lam)
    best = minimize(risk, reg, solver, stop=Stop(gap_rel=1e-9, max_steps=60))
    state = solver.init(risk, reg, np.zeros(risk.n_params))
    rng = np.random.default_rng(seed)
    for _ in range(4):
        wrong = descend(risk, reg, state, rng.standard_normal(risk.n_params))  # any direction must do
        state = solver.step(risk, reg, state)
        for line in (state.line, wrong.line):
            assert model_bound(reg, line) <= best.objective * (1.0 + 1e-9) + 1e-12


def counts(*, n=200, d=4, seed=0, **settings):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return LinearRisk(X, rng.poisson(np.exp(0.5 * X @ rng.standard_normal(d))), Poisson(), **settings)


@given(lam=st.floats(1e-6, 1e3), seed=st.integers(0, 10**6), fit_intercept=st.booleans())
@settings(max_examples=20, deadline=None)
def test_no_bound_of_a_newton_step_on_counts_exceeds_the_optimum(lam, seed, fit_intercept):
    rng = np.random.default_rng(seed)
    risk = counts(n=30, seed=seed, fit_intercept=fit_intercept, sample_weight=rng.integers(0, 3, 30))
    reg = L2(lam)
    best = minimize(risk, reg, Newton(), stop=Stop(gap_rel=1e-9, max_steps=60))
    for size in (0.01, 0.1, 1.0):
        line = risk.along(best.w, size * rng.standard_normal(risk.n_params))  # any point and direction must do
        assert model_bound(reg, line) <= best.objective + 1e-9 * abs(best.objective) + 1e-12


def test_means_that_are_predicted_to_be_negative_prove_nothing():
    risk = counts()
    line = risk.along(np.zeros(risk.n_params), np.full(risk.n_params, 10.0))
    assert model_bound(L2(1e-3), line) == -np.inf


@pytest.mark.parametrize(("make", "steps"), [(problem, 2), (counts, 1)])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_predicted_slopes_prove_more_than_the_plane_at_the_end_of_a_step(make, steps, fit_intercept):
    risk, reg = make(fit_intercept=fit_intercept), L2(1e-3)
    solver = Newton()
    state = solver.init(risk, reg, np.zeros(risk.n_params))
    ahead = 0
    while state.progress.gap > 1e-9:
        state = solver.step(risk, reg, state)
        short = state.progress.objective - model_bound(reg, state.line)
        ahead += short < 0.1 * (state.progress.objective - cut_bound(risk, reg, state.cut))
    assert ahead >= steps


POINTWISE = {"logistic": Logistic(), "squared hinge": SquaredHinge(), "Huber hinge": HuberHinge(), "Huber": Huber()}


def pointwise(loss, *, n=200, d=4, seed=0, **settings):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)
    return LinearRisk(
        X, np.where(scores > 0.3, 1.0, -1.0) if isinstance(loss, MarginLoss) else scores, loss, **settings
    )


@pytest.mark.parametrize("name", POINTWISE)
@given(lam=st.floats(1e-6, 1e3), seed=st.integers(0, 10**6), fit_intercept=st.booleans())
@settings(max_examples=20, deadline=None)
def test_no_bound_of_a_newton_step_on_a_pointwise_loss_exceeds_the_optimum(name, lam, seed, fit_intercept):
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 3, 30) + np.repeat([1.0, 0.0], [2, 28])
    risk = pointwise(POINTWISE[name], n=30, seed=seed, fit_intercept=fit_intercept, sample_weight=weight)
    reg = L2(lam)
    best = minimize(risk, reg, Newton(), stop=Stop(gap_rel=1e-9, max_steps=60))
    for size in (0.01, 1.0, 100.0):
        line = risk.along(best.w, size * rng.standard_normal(risk.n_params))  # any point and direction must do
        assert model_bound(reg, line) <= best.objective + 1e-9 * abs(best.objective) + 1e-12


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_predicted_slopes_save_newton_steps_at_small_lambda(fit_intercept, monkeypatch):
    risk, reg, stop = pointwise(Logistic(), d=20, fit_intercept=fit_intercept), L2(1e-6), Stop(gap_rel=1e-4)
    run = minimize(risk, reg, Newton(), stop=stop)
    monkeypatch.setattr(newton, "model_bound", lambda *_: -np.inf)
    assert run.n_steps < minimize(risk, reg, Newton(), stop=stop).n_steps


def test_a_run_looks_at_the_predicted_slopes_only_near_its_end(monkeypatch):
    looks = []
    monkeypatch.setattr(newton, "model_bound", lambda *_: looks.append(None) or -np.inf)
    run = minimize(pointwise(Logistic(), d=20), L2(1e-6), Newton(), stop=Stop(gap_rel=1e-4))
    assert 0 < len(looks) < run.n_steps - 1


def test_a_sample_without_weight_does_not_count():
    weighted = problem(sample_weight=np.append(np.ones(59), 0.0))
    reg = L2(1e-2)
    state = Newton().init(weighted, reg, np.zeros(weighted.n_params))
    moved = Newton().step(weighted, reg, state)
    fewer = MulticlassRisk(weighted.features.X[:-1], weighted.y[:-1], Softmax(), n_classes=3)
    same = fewer.along(np.zeros(weighted.n_params), moved.solution / moved.t)
    assert model_bound(reg, moved.line) == pytest.approx(model_bound(reg, same), rel=1e-12)


@pytest.mark.parametrize("reg", [L1(0.01), ElasticNet(0.01)], ids=["L1", "elastic net"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_bounds_of_working_sets_bracket_the_optimum_at_every_step(reg, fit_intercept):
    risk = problem(4, fit_intercept=fit_intercept)
    best = minimize(risk, reg, WorkingSet(), stop=Stop(gap_rel=1e-9, max_steps=100))
    bounds = []
    minimize(risk, reg, WorkingSet(), stop=Stop(gap_rel=1e-9), callbacks=[lambda at: bounds.append(at.lower_bound)])
    assert max(bounds) <= best.objective * (1.0 + 1e-12)


def logistic(n=400, d=12, **settings):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, d)) + rng.standard_normal((n, 1))
    y = np.where(X @ rng.standard_normal(d) + rng.logistic(size=n) > 0.5, 1.0, -1.0)
    return LinearRisk(X, y, Logistic(), **settings)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_slopes_of_the_model_of_a_working_set_prove_more_than_those_at_its_end(fit_intercept, monkeypatch):
    risk, reg = logistic(fit_intercept=fit_intercept), L1(1e-3)
    exact = minimize(risk, reg, WorkingSet(), stop=Stop(gap_rel=1e-10))
    run = minimize(risk, reg, WorkingSet(), stop=Stop(gap_rel=1e-6))
    monkeypatch.setattr(PointwiseProblem, "_predicted", lambda *_: None)
    plain = minimize(risk, reg, WorkingSet(), stop=Stop(gap_rel=1e-6))
    assert run.trace[-1].step < plain.trace[-1].step
    assert all(at.lower_bound <= exact.objective for at in run.trace)


def test_a_sample_without_weight_does_not_change_the_bounds_of_a_working_set():
    whole, reg, stop = logistic(), L1(1e-3), Stop(gap_rel=1e-9)
    X = np.concatenate([whole.design.X, 1e9 * np.ones((1, whole.n_params))])
    more = LinearRisk(X, np.append(whole.y, 1.0), Logistic(), np.append(np.ones(whole.n_samples), 0.0))
    bounds = [[at.lower_bound for at in minimize(risk, reg, WorkingSet(), stop=stop).trace] for risk in (whole, more)]
    np.testing.assert_allclose(*bounds, rtol=1e-9)


def test_the_model_of_the_squared_loss_predicts_nothing_new():
    rng = np.random.default_rng(0)
    risk, reg = LinearRisk(rng.standard_normal((50, 5)), rng.standard_normal(50), Squared()), L1(0.01)
    solver = WorkingSet()
    state = solver.init(risk, reg, np.zeros(5))
    problem = PointwiseProblem(risk, reg, state.norms)
    columns = problem.columns(np.arange(5))
    start = problem.iterate(state.w, state.point, 0.0)
    end = problem.descend(columns, start, state.point.gradient, 1e-9, Effort(1, 10))
    assert end.last is not None
    assert problem._predicted(end.last, end.slopes) is None


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_newton_agrees_with_the_bundle_on_softmax(fit_intercept):
    risk, reg = problem(fit_intercept=fit_intercept), L2(0.01)
    ours = minimize(risk, reg, Newton(), stop=Stop(gap_rel=1e-6))
    other = minimize(risk, reg, LineSearchBundle(), stop=Stop(gap_rel=1e-6))
    assert ours.lower_bound <= other.objective
    assert other.lower_bound <= ours.objective
