"""Newton steps on the quadratic models of a working set."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L1, LinearRisk, Poisson, Stop, minimize
from undercut.maps.csr import SparseDesign
from undercut.solvers import WorkingSet
from undercut.solvers.coordinate.columns import Penalty, PointwiseModel
from undercut.solvers.coordinate.direct_columns import SparseColumns, Trial
from undercut.solvers.coordinate.gram_columns import descend_gram


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
