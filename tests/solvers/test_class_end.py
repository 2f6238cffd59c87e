"""Interior point steps on some shares: the optimum of a conic solver, what is left out, and when they are taken."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L1, L2, MulticlassRisk, Status, Stop, minimize
from undercut.losses import CrammerSinger
from undercut.solvers import ProximalSweeps
from undercut.solvers.coordinate import class_end, proximal_sweeps
from undercut.solvers.coordinate.class_end import ClassEnd
from undercut.solvers.coordinate.dual.share_dual import ShareDual
from undercut.solvers.coordinate.working.columns import column_norms

K = 4
intercepts = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])


def problem(seed, *, fit_intercept=False, sparse=False, n=60, d=8):
    """Random samples, label losses and weights, some of them zero."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.5, rng.standard_normal((n, d)), 0.0)
    y = np.concatenate([np.arange(K), (X[K:] @ rng.standard_normal((d, K))).argmax(axis=1)])
    loss = CrammerSinger(2.0 * rng.random((K, K)) * (1.0 - np.eye(K)))
    weight = np.concatenate([np.ones(K), rng.integers(0, 4, n - K)])
    return MulticlassRisk(sp.csr_array(X) if sparse else X, y, loss, weight, fit_intercept)


def dual_of(risk, reg):
    return ShareDual(risk, reg, column_norms(risk.features, risk.weight))


def ended(end, risk, total=1.0, accuracy=1e-10):
    """The end of the central path, from zero."""
    at = end.start(np.zeros((risk.features.shape[1], K)), np.zeros(K), total)
    for _ in range(60):
        if at.total <= accuracy:
            break
        at, _ = end.step(at)
    return at


@intercepts
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_with_all_pairs_the_end_of_the_path_is_the_optimum(fit_intercept, sparse):
    risk, reg = problem(1, fit_intercept=fit_intercept, sparse=sparse), L2(1e-3)
    dual = dual_of(risk, reg)
    used = np.repeat(risk.weight[:, None] > 0.0, K, axis=1)
    end = ClassEnd(dual, risk.features, dual.near(np.zeros((60, K))), used)
    at = ended(end, risk)
    w, Q = at.W.T.reshape(-1), end.shares(at, risk.weight)
    objective = reg.value(w) + risk.value(w)
    bound = dual.bound(Q, dual.forces(Q, risk.features), at.b, objective)
    assert bound <= objective <= bound * (1.0 + 1e-6)


@intercepts
def test_the_other_shares_stay_fixed(fit_intercept):
    risk, reg = problem(2, fit_intercept=fit_intercept), L2(1e-2)
    dual = dual_of(risk, reg)
    Q = dual.near(np.zeros((60, K)))
    used = np.zeros((60, K), bool)
    used[(risk.weight > 0.0) & (np.arange(60) < 30), :2] = True
    end = ClassEnd(dual, risk.features, Q, used)
    end.caps = Q[:, :2].sum(axis=1)[used.any(axis=1)]
    found = end.fixed.copy()
    found[end.row_of, end.class_of] = ended(end, risk).q
    assert np.allclose(found[~used], Q[~used], rtol=0, atol=0)
    assert found.sum(axis=1) == pytest.approx(risk.weight, abs=1e-8)


def test_a_start_is_on_the_central_path():
    risk = problem(3)
    dual = dual_of(risk, L2(1e-3))
    used = np.repeat(risk.weight[:, None] > 0.0, K, axis=1)
    end = ClassEnd(dual, risk.features, dual.near(np.zeros((60, K))), used)
    at = end.start(np.random.default_rng(0).standard_normal((8, K)), np.zeros(K), 0.1)
    assert at.total == pytest.approx(0.1)
    assert end.by_sample(at.q) == pytest.approx(end.caps)
    assert at.q * at.z / end.caps[end.sample_of] == pytest.approx(np.full(at.q.size, 0.1 / K))


@intercepts
def test_a_tiny_lambda_is_certified_by_them(fit_intercept, monkeypatch):
    """Features of very different sizes, which sweeps alone take long for."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((300, 12)) * 10.0 ** rng.uniform(-2.0, 1.0, 12)
    y = (X / X.std(axis=0) @ rng.standard_normal((12, K)) + rng.standard_normal((300, K))).argmax(axis=1)
    risk, calls = MulticlassRisk(X, y, CrammerSinger(), fit_intercept=fit_intercept), []
    step = ClassEnd.step
    monkeypatch.setattr(ClassEnd, "step", lambda self, at: calls.append(1) or step(self, at))
    found = minimize(risk, L2(1e-7), ProximalSweeps(), stop=Stop(gap_rel=1e-6, max_seconds=60.0))
    assert found.status is Status.CONVERGED
    assert calls


def test_absolute_values_are_left_to_sweeps():
    risk, reg = problem(5), L1(1e-3)
    state = ProximalSweeps().init(risk, reg, np.zeros(risk.n_params))
    for _ in range(20):
        state = ProximalSweeps().step(risk, reg, state)
    assert not proximal_sweeps._is_end(dual_of(risk, reg), state)


@pytest.mark.parametrize("field", ["W", "q", "z"])
def test_steps_that_fail_leave_the_run_to_sweeps(field, monkeypatch):
    monkeypatch.setattr(ClassEnd, "step", lambda self, at: (at._replace(**{field: getattr(at, field) + np.nan}), 1e-9))
    found = minimize(problem(6), L2(1e-3), ProximalSweeps(), stop=Stop(gap_rel=1e-4, max_seconds=60.0))
    assert found.status is Status.CONVERGED


def test_steps_that_would_need_much_memory_are_not_taken(monkeypatch):
    def step(self, at):
        raise AssertionError

    monkeypatch.setattr(ClassEnd, "step", step)
    monkeypatch.setattr(proximal_sweeps, "MOST_NUMBERS", 100.0)
    found = minimize(problem(6), L2(1e-3), ProximalSweeps(), stop=Stop(gap_rel=1e-4, max_seconds=60.0))
    assert found.status is Status.CONVERGED


def test_memory_is_counted_for_classes_samples_and_rows():
    used = np.array([[True, True, False], [True, False, True], [False, False, False]])
    assert class_end.n_numbers(used, 10.0) == 2.0 * (4 + 1 + 1) + 4 + 10.0 * 4


def test_a_matrix_that_is_nearly_singular_has_a_factor():
    M = np.ones((3, 3))
    factor = class_end._cholesky(M.copy())
    assert np.isfinite(factor).all()
    assert np.triu(factor).T @ np.triu(factor) == pytest.approx(M, abs=1e-6)


def test_rounding_of_the_own_shares_does_not_change_the_bound():
    risk, reg = problem(5), L2(1e-8)
    dual = dual_of(risk, reg)
    scores = risk.phi.rows(risk.design.matvec(minimize(risk, reg).w))
    Q = dual.near(scores)
    rounded = Q.copy()
    rounded[np.arange(risk.n_samples), risk.y] *= 1.0 + 1e-12
    bounds = [dual.bound(shares, dual.forces(shares, risk.features), np.zeros(K), 1.0) for shares in (Q, rounded)]
    assert bounds[0] == bounds[1]
