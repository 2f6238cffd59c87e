"""Interior point steps on some shares: the optimum of a conic solver, what is left out, and when they are taken."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L1, L2, ElasticNet, MulticlassRisk, Status, Stop, minimize
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


def bound_of(dual, Q, b, objective):
    Q = dual.feasible(Q)
    return dual.bound(Q, dual.steepness(Q, dual.forces(Q, dual.risk.features)), b, objective)


def ended(end, risk, total=1.0, accuracy=1e-10):
    """The end of the central path, from zero."""
    at = end.start(np.zeros((risk.features.shape[1], K)), np.zeros(K), total)
    for _ in range(60):
        ahead, _ = end.step(at)
        if at.total <= accuracy or end.rounding(ahead) > ahead.total:
            break
        at = ahead
    return at


@intercepts
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("reg", [L2(1e-3), L1(1e-2), ElasticNet(1e-2)], ids=["l2", "l1", "elastic net"])
def test_with_all_pairs_the_end_of_the_path_is_the_optimum(fit_intercept, sparse, reg):
    risk = problem(1, fit_intercept=fit_intercept, sparse=sparse)
    dual = dual_of(risk, reg)
    used = np.repeat(risk.weight[:, None] > 0.0, K, axis=1)
    end = ClassEnd(dual, risk.features, dual.near(np.zeros((60, K))), used, np.ones((8, K), bool))
    at = ended(end, risk)
    w, Q = at.W.T.reshape(-1), end.shares(at, risk.weight)
    objective = reg.value(w) + risk.value(w)
    bound = bound_of(dual, Q, at.b, objective)
    assert bound <= objective <= bound * (1.0 + 1e-6)


@intercepts
def test_the_other_shares_stay_fixed(fit_intercept):
    risk, reg = problem(2, fit_intercept=fit_intercept), L2(1e-2)
    dual = dual_of(risk, reg)
    Q = dual.near(np.zeros((60, K)))
    used = np.zeros((60, K), bool)
    used[(risk.weight > 0.0) & (np.arange(60) < 30), :2] = True
    end = ClassEnd(dual, risk.features, Q, used, np.ones((8, K), bool))
    end.caps = Q[:, :2].sum(axis=1)[used.any(axis=1)]
    found = end.fixed.copy()
    found[end.row_of, end.class_of] = ended(end, risk).q
    assert np.allclose(found[~used], Q[~used], rtol=0, atol=0)
    assert found.sum(axis=1) == pytest.approx(risk.weight, abs=1e-8)


def test_a_start_is_on_the_central_path():
    risk = problem(3)
    dual = dual_of(risk, L2(1e-3))
    used = np.repeat(risk.weight[:, None] > 0.0, K, axis=1)
    end = ClassEnd(dual, risk.features, dual.near(np.zeros((60, K))), used, np.ones((8, K), bool))
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


@intercepts
def test_absolute_values_are_certified_by_them(fit_intercept, monkeypatch):
    """In fewer steps than by sweeps alone, which grow longer and longer."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((600, 30)) * 10.0 ** rng.uniform(-1.0, 0.0, 30)
    y = (X @ rng.standard_normal((30, K)) + 0.5 * rng.standard_normal((600, K))).argmax(axis=1)
    risk, stop = MulticlassRisk(X, y, CrammerSinger(), fit_intercept=fit_intercept), Stop(gap_rel=1e-7, max_steps=100)
    found = minimize(risk, L1(1e-3), ProximalSweeps(), stop=stop)
    assert found.status is Status.CONVERGED
    monkeypatch.setattr(proximal_sweeps, "NEAR_END", -1.0)
    alone = minimize(risk, L1(1e-3), ProximalSweeps(), stop=stop)
    assert 2 * len(found.trace) < len(alone.trace)
    assert found.lower_bound <= alone.objective
    assert alone.lower_bound <= found.objective


@pytest.mark.parametrize("ratio", [1.0, 0.5], ids=["l1", "elastic net"])
def test_a_start_with_absolute_values_is_on_the_central_path(ratio):
    risk = problem(3)
    dual = dual_of(risk, ElasticNet(1e-2, ratio))
    used = np.repeat(risk.weight[:, None] > 0.0, K, axis=1)
    moving = np.random.default_rng(1).random((8, K)) < 0.5
    end = ClassEnd(dual, risk.features, dual.near(np.zeros((60, K))), used, moving)
    W = np.where(moving, np.random.default_rng(0).standard_normal((8, K)), 0.0)
    at = end.start(W, np.zeros(K), 0.1)
    assert at.total == pytest.approx(0.1)
    assert at.up - at.down == pytest.approx(W[moving])
    assert at.above + at.below == pytest.approx(np.full(moving.sum(), 2.0 * dual.l1))
    assert at.up * at.above == pytest.approx(at.down * at.below)
    assert min(at.above.min(), at.below.min()) > 0.0


def test_parameters_that_may_not_move_stay_zero():
    risk, reg = problem(7), L1(1e-2)
    dual, moving = dual_of(risk, reg), np.zeros((8, K), bool)
    moving[:3] = True
    used = np.repeat(risk.weight[:, None] > 0.0, K, axis=1)
    end = ClassEnd(dual, risk.features, dual.near(np.zeros((60, K))), used, moving)
    at = ended(end, risk)
    assert not at.W[3:].any()
    assert end.beyond(at) < 1e-6 < np.abs(dual.forces(end.shares(at, risk.weight), risk.features)[3:]).max()


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
    bounds = [bound_of(dual, shares, np.zeros(K), 1.0) for shares in (Q, rounded)]
    assert bounds[0] == bounds[1]
