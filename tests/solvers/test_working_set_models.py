"""Newton steps on the quadratic models of a working set."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L1, LinearRisk, Logistic, Poisson, SquaredHinge, Stop, minimize
from undercut.maps.csr import SparseDesign
from undercut.solvers import WorkingSet
from undercut.solvers.coordinate.working.column_parts import some_columns
from undercut.solvers.coordinate.working.columns import Move, Penalty, PointwiseModel, column_norms
from undercut.solvers.coordinate.working.direct_columns import SparseColumns, Trial
from undercut.solvers.coordinate.working.gram_columns import descend_gram
from undercut.solvers.coordinate.working.heavy_columns import HeavyColumns, HeavyModel
from undercut.solvers.coordinate.working.pointwise_problem import PointwiseProblem


def test_a_newton_step_on_a_model_lowers_it_and_ends_in_exact_zeros():
    rng = np.random.default_rng(1)
    X = sp.random(60, 90, density=0.2, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    model = PointwiseModel(rng.standard_normal(60) / 60, rng.uniform(0.1, 1.0, 60) / 60, free=True)
    columns = SparseColumns(SparseDesign(X), np.arange(90))
    trial = Trial(columns, model, Penalty(0.001, 0.0), np.zeros(90), X.T @ model.slopes)
    trial.descend()
    before, energy = trial.w, trial._energy(trial.w, trial.b, trial.z)
    trial.newton()
    assert trial._energy(trial.w, trial.b, trial.z) < energy
    assert np.count_nonzero(trial.w) < np.count_nonzero(before) - 1
    assert (trial.w * before >= 0.0).all()
    np.testing.assert_allclose(trial.z, X @ trial.w + trial.b, atol=1e-12)


def test_many_parameters_become_zero_in_few_rounds_where_nearly_every_sample_has_one(monkeypatch):
    rng = np.random.default_rng(2)
    X = sp.random(300, 2000, density=0.01, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    y = rng.poisson(np.exp(0.2 * (X @ rng.standard_normal(2000)))).astype(float)
    risk = LinearRisk(X, y, Poisson(), fit_intercept=True)
    lam = 0.001 * np.abs(risk.cut(np.zeros(2000)).a).max()
    rounds: list[Trial] = []
    descend = Trial.descend
    monkeypatch.setattr(Trial, "descend", lambda trial: rounds.append(trial) or descend(trial))
    assert minimize(risk, L1(lam), WorkingSet(), stop=Stop(gap_rel=1e-6, max_steps=50)).status.name == "CONVERGED"
    assert len(rounds) < 450


@pytest.mark.parametrize("penalty", [Penalty(1e-4, 0.0), Penalty(1e-5, 1e-5)], ids=["l1", "elastic net"])
@pytest.mark.parametrize("seed", range(3))
def test_descent_on_a_gram_matrix_reaches_the_minimum_along_flat_directions(seed, penalty):
    rng = np.random.default_rng(seed)
    X = np.zeros((500, 120))  # thirty groups of features that sum to one
    X[np.arange(500)[:, None], (4 * rng.random((500, 30)) ** 2).astype(int) + 4 * np.arange(30)] = 1.0
    H = X.T @ (X * rng.random((500, 1)) ** 4) / 500
    gradient = H @ rng.standard_normal(120) + 5e-5 * X.T @ rng.standard_normal(500)
    w, left = np.zeros(120), gradient.copy()
    descend_gram(H, left, w, penalty, 1e-9)
    assert penalty.violation(w, left).max() <= 1e-9
    np.testing.assert_allclose(left, gradient + H @ w, atol=1e-11)


def test_frequent_columns_are_minimized_over_together_with_the_intercept():
    rng = np.random.default_rng(4)
    X = sp.csr_matrix((rng.random((400, 60)) < np.linspace(0.6, 0.2, 60)) * 1.0)
    model = PointwiseModel(rng.standard_normal(400) / 400, rng.uniform(0.1, 1.0, 400) / 400, free=True)
    columns = HeavyColumns(SparseDesign(X), np.arange(60), np.append(0, np.cumsum(X.getnnz(axis=0))), None)
    assert 0 < columns.places.size < 60
    heavy, penalty = HeavyModel(columns, model), Penalty(1e-3, 0.0)
    w, z, b = np.zeros(60), np.zeros(400), np.zeros(1)
    for _ in range(5):
        b += heavy.descend(w, z, X.T @ model.slopes, penalty)[1]
    slopes = model.slopes + model.through(z)
    assert not w[columns.is_light].any()
    np.testing.assert_allclose(z, X @ w + b, atol=1e-12)
    assert abs(slopes.sum()) < 1e-12
    assert penalty.violation(w[columns.places], (X.T @ slopes)[columns.places]).max() < 1e-6


def test_columns_at_hand_are_the_same_as_those_collected_from_the_rows():
    X = sp.random(30, 20, density=0.3, format="csr", random_state=5)
    few, some = np.array([1, 4, 7, 12, 19]), np.array([0, 4, 5, 12, 18, 19])
    last = SparseColumns(some_columns(SparseDesign(X), few), few)
    fresh = SparseColumns(some_columns(SparseDesign(X), some), some)
    copied = SparseColumns(some_columns(SparseDesign(X), some), some, last)
    assert all(np.array_equal(one, other) for one, other in zip(fresh.parts, copied.parts, strict=True))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()])
def test_slopes_moved_into_their_limits_prove_a_valid_and_a_better_bound(loss, intercept):
    rng = np.random.default_rng(6)
    frequency = np.minimum(0.5, 3.0 / np.arange(1, 401))
    X = sp.csr_matrix((rng.random((600, 400)) < frequency) * rng.random((600, 400)))
    y = np.where(X @ rng.standard_normal(400) > 0.0, 1.0, -1.0)
    risk = LinearRisk(X, y, loss, fit_intercept=intercept)
    reg = L1(0.03 * float(np.abs(risk.cut_at_zero.a).max()))
    best = minimize(risk, reg, WorkingSet(), stop=Stop(gap_rel=1e-9))
    problem = PointwiseProblem(risk, reg, column_norms(risk.design, risk.weight))
    used = np.flatnonzero(best.w)
    columns, alive = SparseColumns(some_columns(risk.design, used), used), np.ones(400, bool)
    start = problem.point(problem.scores(best.w * rng.uniform(0.9, 1.1, 400)))
    zero = PointwiseModel(start.slopes, np.zeros(600), intercept), Move(np.zeros(used.size), np.zeros(600))
    scaled = problem.bound(start.slopes, start.gradient, alive, best.objective)
    moved, wider = problem.corrected(start, zero, columns, alive, best.objective)
    assert scaled.value < moved.value <= best.objective
    outside = np.flatnonzero(np.abs(start.gradient) > reg.terms.l1)
    assert np.isin(np.union1d(used, outside), wider.ids).all()


def test_a_working_set_does_not_hold_the_one_before():
    design = SparseDesign(sp.random_array((50, 8), density=0.05, format="csr", rng=np.random.default_rng(0)))
    first = SparseColumns(design, np.arange(8))
    held = weakref.ref(first._heavy)
    second = SparseColumns(design, np.arange(8), first)
    del first
    gc.collect()
    assert held() is None
    assert second._heavy.places.size == 0
