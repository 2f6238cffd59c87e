"""Proximal points by dual sweeps: optima, bounds, what a step leaves out, resumption, refusals."""

from __future__ import annotations

import itertools
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from undercut import L1, L2, ElasticNet, Hinge, LinearRisk, MulticlassRisk, Status, Stop, minimize
from undercut.errors import CapabilityError, ParameterError
from undercut.losses import CrammerSinger, Softmax
from undercut.regularizers.boxed import terms_of
from undercut.selection import regularization_path
from undercut.solvers import LevelBundle, ProximalSweeps
from undercut.solvers.coordinate import sweep_state
from undercut.solvers.coordinate.dual.share_dual import ShareDual
from undercut.solvers.coordinate.working.columns import column_norms

K = 4
REGS = {
    "l1": L1(0.03),
    "elastic net": ElasticNet(0.05, 0.5),
    "weak l1": L1(0.003),
    "mostly squares": ElasticNet(0.05, 0.1),
    "l2": L2(0.03),
    "weak l2": L2(1e-4),
}
intercepts = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])


def problem(seed, *, fit_intercept=False, sparse=False, n=40, d=12, weighted=True):
    """Random samples, label losses and weights, some of them zero."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.5, rng.standard_normal((n, d)), 0.0)
    y = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    loss = CrammerSinger(2.0 * rng.random((K, K)) * (1.0 - np.eye(K)))
    weight = np.concatenate([np.ones(K), rng.integers(0, 4, n - K)]) if weighted else None
    return MulticlassRisk(sp.csr_array(X) if sparse else X, y, loss, weight, fit_intercept)


def exact_optimum(risk, reg):
    X = risk.features.X
    W, b = cp.Variable((K, X.shape[1])), cp.Variable((1, K))
    S = X @ W.T + (np.ones((X.shape[0], 1)) @ b if risk.fit_intercept else 0.0)
    own = cp.sum(cp.multiply(np.eye(K)[risk.y], S), axis=1)
    losses = cp.max(risk.loss.costs(K)[risk.y] + S, axis=1) - own
    terms = terms_of(reg)
    penalty = terms.l1 * cp.norm1(W) + 0.5 * terms.l2 * cp.sum_squares(W)
    return cp.Problem(cp.Minimize(risk.weight @ losses + penalty)).solve(solver=cp.CLARABEL)


def stepped(risk, reg, gap=1e-6, limit=300, solver=None):
    """The states of a run to a relative gap."""
    solver = solver or ProximalSweeps()
    states = [solver.init(risk, reg, np.zeros(risk.n_params))]
    while states[-1].progress.gap > gap * states[-1].progress.objective and len(states) < limit:
        states.append(solver.step(risk, reg, states[-1]))
    return states


@pytest.mark.parametrize("reg", REGS.values(), ids=REGS.keys())
@intercepts
def test_bounds_bracket_the_optimum_of_a_conic_solver(reg, fit_intercept):
    risk = problem(1, fit_intercept=fit_intercept)
    found, optimum = minimize(risk, reg, ProximalSweeps(), stop=Stop(gap_rel=1e-6)), exact_optimum(risk, reg)
    assert found.status is Status.CONVERGED
    assert found.lower_bound <= optimum * (1.0 + 1e-7)
    assert found.objective >= optimum * (1.0 - 1e-7)
    assert found.objective == pytest.approx(reg.value(found.w) + risk.value(found.w), rel=1e-12)


@intercepts
def test_no_bound_is_above_the_objective_of_planes_or_of_sparse_data(fit_intercept):
    for seed in range(2):
        dense = problem(seed, fit_intercept=fit_intercept)
        sparse = problem(seed, fit_intercept=fit_intercept, sparse=True)
        runs = [minimize(risk, L1(0.01), ProximalSweeps(first=3), stop=Stop(gap_rel=1e-4)) for risk in (dense, sparse)]
        runs.append(minimize(dense, L1(0.01), LevelBundle(), stop=Stop(gap_rel=1e-4)))
        assert max(run.lower_bound for run in runs) <= min(run.objective for run in runs) * (1.0 + 1e-12)
        assert all(run.status is Status.CONVERGED for run in runs)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), fit_intercept=st.booleans(), ratio=st.sampled_from([1.0, 0.5, 0.0]))
def test_whatever_shares_there_are_their_bound_holds(seed, fit_intercept, ratio):
    rng = np.random.default_rng(seed)
    risk = problem(seed, fit_intercept=fit_intercept, n=15, d=5)
    lam = 10.0 ** rng.uniform(-3.0, 0.0)
    reg = ElasticNet(lam, ratio) if ratio else L2(lam)
    dual = ShareDual(risk, reg, column_norms(risk.features, risk.weight))
    Q = rng.dirichlet(np.full(K, 0.3), 15) * risk.weight[:, None]
    Q = dual.feasible(Q)
    bound = dual.bound(Q, dual.steepness(Q, dual.forces(Q, risk.features)), np.zeros(K), 1.0)
    for scale in (0.0, 0.1, 1.0):
        w = scale * rng.standard_normal(risk.n_params)
        assert bound <= reg.value(w) + risk.value(w) + 1e-12
    best = minimize(risk, reg, ProximalSweeps(), stop=Stop(gap_rel=1e-3))
    assert bound <= best.objective * (1.0 + 1e-12)


def test_the_bound_never_decreases_and_the_objective_never_increases():
    trace = minimize(problem(2, fit_intercept=True), L1(0.01), ProximalSweeps(), stop=Stop(gap_rel=1e-5)).trace
    assert all(now.lower_bound >= last.lower_bound for last, now in itertools.pairwise(trace))
    assert all(now.objective <= last.objective for last, now in itertools.pairwise(trace))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@intercepts
def test_the_scale_of_the_features_hardly_matters(scale, fit_intercept):
    plain = problem(3, fit_intercept=fit_intercept)
    scaled = MulticlassRisk(scale * plain.features.X, plain.y, plain.loss, plain.weight, fit_intercept)
    stop = Stop(gap_rel=1e-5)
    first, second = (
        minimize(risk, L1(0.02 * by), ProximalSweeps(), stop=stop) for risk, by in ((plain, 1), (scaled, scale))
    )
    assert second.objective == pytest.approx(first.objective, rel=2e-5)
    assert len(second.trace) <= 2 * len(first.trace)


@pytest.mark.parametrize("reg", [L1(0.02), ElasticNet(0.03), L2(0.03)], ids=["l1", "elastic net", "l2"])
def test_a_start_with_a_wrong_eps_costs_little(reg):
    risk, solver = problem(4, n=200, d=30), ProximalSweeps()
    begun = solver.init(risk, reg, np.zeros(risk.n_params))
    for factor in (1e-3, 1e3):
        state = replace(begun, eps=factor * begun.eps)
        for _ in range(60):
            state = solver.step(risk, reg, state)
        assert state.progress.gap <= 1e-3 * state.progress.objective


def test_features_that_stay_zero_and_classes_without_a_share_are_left_out():
    rng = np.random.default_rng(5)
    X = sp.random_array((1500, 400), density=0.05, rng=rng, format="csr", data_sampler=rng.standard_normal)
    y = (X[:, :20] @ rng.standard_normal((20, K))).argmax(axis=1)
    risk = MulticlassRisk(X, y, CrammerSinger())
    reg = L1(0.1 * np.abs(risk.cut(np.zeros(risk.n_params)).a).max())
    state = stepped(risk, reg, 1e-5)[-1]
    used = np.count_nonzero(state.solution.reshape(K, -1).any(axis=0))
    assert used <= state.columns.size < 300
    assert state.counts[state.counts > 1].sum() < 0.7 * K * 1500


def test_features_that_are_missing_join():
    risk, reg = problem(6, n=200, d=40), L1(0.003)
    states = stepped(risk, reg, 1e-3, solver=ProximalSweeps(first=2))
    assert states[0].columns.size == 2 < states[-1].columns.size
    assert states[-1].progress.gap <= 1e-3 * states[-1].progress.objective


@intercepts
def test_features_that_no_shares_can_use_are_left_out_from_the_start(fit_intercept):
    rng = np.random.default_rng(11)
    X = sp.random_array((300, 60), density=0.2, rng=rng, format="csr", data_sampler=rng.standard_normal)
    X = sp.csr_array(X @ sp.diags_array(10.0 ** rng.uniform(-3.0, 0.0, 60)))
    y = (X @ rng.standard_normal((60, K))).argmax(axis=1)
    risk = MulticlassRisk(X, y, CrammerSinger(), fit_intercept=fit_intercept)
    reg = L1(0.02 * np.abs(risk.cut(np.zeros(risk.n_params)).a).max())
    begun = ProximalSweeps().init(risk, reg, np.zeros(risk.n_params))
    possible = np.abs(X).sum(axis=0) / 300 > reg.lam
    assert 0 < begun.features.size < 60
    assert np.array_equal(begun.features, np.flatnonzero(possible))
    found = minimize(risk, reg, ProximalSweeps(), stop=Stop(gap_rel=1e-6))
    assert found.status is Status.CONVERGED
    assert not found.w.reshape(K, -1)[:, ~possible].any()
    assert found.lower_bound <= minimize(risk, reg, LevelBundle(), stop=Stop(gap_rel=1e-4)).objective


def test_the_best_intercepts_are_found_once(monkeypatch):
    """They cost as much as dozens of sweeps where classes are many."""
    risk, calls = problem(12, fit_intercept=True, n=200), []
    settle = type(risk.phi)._settle
    monkeypatch.setattr(sweep_state, "FEW_CLASSES", K - 1)
    monkeypatch.setattr(type(risk.phi), "_settle", lambda self, S: calls.append(1) or settle(self, S))
    found = minimize(risk, L1(0.01), ProximalSweeps(), stop=Stop(gap_rel=1e-4))
    assert len(calls) == 1
    assert found.objective == pytest.approx(found.trace[-1].objective, rel=1e-12)
    assert found.objective == pytest.approx(L1(0.01).value(found.w) + risk.value(found.w), rel=1e-12)


@pytest.mark.parametrize("reg", [L1(0.01), L2(1e-4)], ids=["l1", "l2"])
def test_a_run_is_resumed_identically(reg):
    risk, solver = problem(7, fit_intercept=True), ProximalSweeps()
    state = stepped(risk, reg, limit=4)[-1]
    saved = replace(state, risk=None, part=None)
    once, again = solver.step(risk, reg, state), solver.step(risk, reg, solver.restored(risk, reg, saved))
    assert again.progress == once.progress
    assert np.array_equal(again.Q, once.Q)


def test_a_start_at_the_optimum_keeps_it():
    risk, reg = problem(8, fit_intercept=True), L1(0.02)
    best = minimize(risk, reg, ProximalSweeps(), stop=Stop(gap_rel=1e-6))
    again = minimize(risk, reg, ProximalSweeps(), w0=best.w, stop=Stop(gap_rel=1e-6))
    assert again.trace[0].objective == pytest.approx(best.objective, rel=1e-12)
    assert again.status is Status.CONVERGED


def test_a_path_carries_shares_and_parameters():
    risk, stop = problem(9, n=200, d=30), Stop(gap_rel=1e-4)
    lams = [0.02, 0.0195, 0.019]
    path = regularization_path(risk, lams, penalty="l1", solver="proximal_sweeps", stop=stop)
    assert all(result.status is Status.CONVERGED for result in path.results)
    alone = minimize(risk, L1(lams[-1]), ProximalSweeps(), stop=stop)
    assert path.results[-1].objective == pytest.approx(alone.objective, rel=2e-4)
    assert len(path.results[-1].trace) <= len(alone.trace)


def test_a_lambda_with_no_features_at_all_is_certified_at_once():
    risk = problem(10, weighted=False)
    found = minimize(risk, L1(100.0), ProximalSweeps(), stop=Stop(gap_rel=1e-9))
    assert not found.w.any()
    assert found.status is Status.CONVERGED
    assert len(found.trace) <= 3


@pytest.mark.parametrize(
    ("risk", "reg", "message"),
    [
        (MulticlassRisk(np.eye(3), np.arange(3), CrammerSinger()), L2(0.1, np.ones(9)), "L2 without center"),
        (MulticlassRisk(np.eye(3), np.arange(3), CrammerSinger()), ElasticNet(0.1, 0.0), "a positive l1_ratio"),
        (MulticlassRisk(np.eye(3), np.arange(3), Softmax()), L1(0.1), "use WorkingSet if the loss is smooth"),
        (LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge()), L1(0.1), "this .*LinearRisk is not one"),
        (
            MulticlassRisk(np.eye(3), np.arange(3), CrammerSinger(), fit_intercept=True, n_classes=4),
            L1(0.1),
            "a sample with positive weight for every class",
        ),
    ],
    ids=["center", "no l1", "loss", "risk", "absent class"],
)
def test_what_it_cannot_solve_is_refused_with_a_remedy(risk, reg, message):
    with pytest.raises(CapabilityError, match=message):
        minimize(risk, reg, ProximalSweeps())


def test_at_least_one_feature_is_taken_up():
    with pytest.raises(ParameterError, match="`first` must be at least 1"):
        ProximalSweeps(first=0)


def test_averages_settle_however_many_sweeps_they_need():
    """With at most a hundred sweeps in a step the bound stays where it is."""
    risk = problem(3, fit_intercept=True, n=22, d=8)
    result = minimize(risk, L1(1e-4), ProximalSweeps(), stop=Stop(gap_rel=1e-3, max_seconds=20.0))
    assert result.status is Status.CONVERGED
