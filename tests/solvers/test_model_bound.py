"""The bound of the slopes that a Newton step predicts: it holds, and comes before that of the next plane."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from undercut import L1, L2, ElasticNet, LinearRisk, Poisson, Stop, minimize
from undercut.losses import Softmax
from undercut.risks import MulticlassRisk
from undercut.solvers import LineSearchBundle, Newton, WorkingSet
from undercut.solvers.bounds import cut_bound
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


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_newton_agrees_with_the_bundle_on_softmax(fit_intercept):
    risk, reg = problem(fit_intercept=fit_intercept), L2(0.01)
    ours = minimize(risk, reg, Newton(), stop=Stop(gap_rel=1e-6))
    other = minimize(risk, reg, LineSearchBundle(), stop=Stop(gap_rel=1e-6))
    assert ours.lower_bound <= other.objective
    assert other.lower_bound <= ours.objective
