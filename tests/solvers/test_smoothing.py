"""Smoothing: the Crammer-Singer loss with L1 by softmax losses of falling temperature."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L1, L2, ElasticNet, Hinge, LinearRisk, MulticlassRisk, Status, Stop, minimize
from undercut.errors import CapabilityError
from undercut.losses import CrammerSinger, Softmax
from undercut.solvers import LevelBundle, Smoothing
from undercut.solvers.coordinate.working.shifted_softmax import ShiftedSoftmax

K = 4
REGS = {"l1": L1(0.03), "elastic net": ElasticNet(0.05, 0.5), "weak l1": L1(0.003)}
intercepts = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])


def problem(seed, *, fit_intercept, sparse=False, n=40, d=12):
    """Random samples, label losses and weights."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.5, rng.standard_normal((n, d)), 0.0)
    y = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    loss = CrammerSinger(2.0 * rng.random((K, K)) * (1.0 - np.eye(K)))
    weight = rng.integers(1, 4, n)
    return MulticlassRisk(sp.csr_array(X) if sparse else X, y, loss, weight, fit_intercept), X


def exact_optimum(risk, X, reg):
    W, b = cp.Variable((K, X.shape[1])), cp.Variable((1, K))
    S = X @ W.T + (np.ones((X.shape[0], 1)) @ b if risk.fit_intercept else 0.0)
    own = cp.sum(cp.multiply(np.eye(K)[risk.y], S), axis=1)
    losses = cp.max(risk.loss.costs(K)[risk.y] + S, axis=1) - own
    penalty = reg.terms.l1 * cp.norm1(W) + 0.5 * reg.terms.l2 * cp.sum_squares(W)
    return cp.Problem(cp.Minimize(risk.weight @ losses + penalty)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("reg", REGS.values(), ids=REGS.keys())
@intercepts
def test_bounds_bracket_the_optimum_of_a_conic_solver(reg, fit_intercept):
    risk, X = problem(1, fit_intercept=fit_intercept)
    found, optimum = minimize(risk, reg, Smoothing(), stop=Stop(gap_rel=1e-5)), exact_optimum(risk, X, reg)
    assert found.status is Status.CONVERGED
    assert found.lower_bound <= optimum * (1.0 + 1e-7)
    assert found.objective >= optimum * (1.0 - 1e-7)
    assert found.objective == pytest.approx(reg.value(found.w) + risk.value(found.w), rel=1e-12)


@intercepts
def test_no_bound_is_above_the_objective_of_planes_or_of_sparse_data(fit_intercept):
    for seed in range(2):
        dense, _ = problem(seed, fit_intercept=fit_intercept)
        sparse, _ = problem(seed, fit_intercept=fit_intercept, sparse=True)
        runs = [minimize(risk, L1(0.01), Smoothing(), stop=Stop(gap_rel=1e-4)) for risk in (dense, sparse)]
        runs.append(minimize(dense, L1(0.01), LevelBundle(), stop=Stop(gap_rel=1e-4)))
        assert max(run.lower_bound for run in runs) <= min(run.objective for run in runs) * (1.0 + 1e-12)
        assert all(run.status is Status.CONVERGED for run in runs)


def test_the_lower_bound_never_decreases_nor_the_objective_increases():
    risk, _ = problem(2, fit_intercept=True)
    trace = minimize(risk, L1(0.01), Smoothing(), stop=Stop(gap_rel=1e-5)).trace
    assert all(np.diff([row.lower_bound for row in trace]) >= 0.0)
    assert all(np.diff([row.objective for row in trace]) <= 0.0)


def test_a_shifted_softmax_at_a_low_temperature_is_the_margin_loss(rng):
    y, S, costs, t = rng.integers(0, K, 20), rng.standard_normal((20, K)), 1.0 - np.eye(K), 1e-3
    smooth, _ = ShiftedSoftmax(costs / t).value_slope(y, S / t)
    exact, _ = CrammerSinger().value_slope(y, S)
    assert (t * smooth >= exact * (1.0 - 1e-12)).all()
    np.testing.assert_allclose(t * smooth, exact, atol=t * np.log(K))


def test_the_conjugate_of_a_shifted_softmax_meets_the_loss_at_its_slopes(rng):
    y, S, weight = rng.integers(0, K, 20), rng.standard_normal((20, K)), rng.random(20)
    loss = ShiftedSoftmax(rng.random((K, K)) * (1.0 - np.eye(K)))
    values, slopes = loss.value_slope(y, S)
    conjugate = loss.conjugate(weight[:, None] * slopes, weight, y, 1.0)
    np.testing.assert_allclose(weight * (values - (slopes * S).sum(axis=1)), -conjugate, atol=1e-12)
    at = loss.along(y, S, np.ones_like(S) * np.arange(K), 0.0)
    np.testing.assert_allclose(at[0], values, rtol=1e-12)


@pytest.mark.parametrize(
    ("risk", "reg", "message"),
    [
        (MulticlassRisk(np.eye(3), np.arange(3), CrammerSinger()), L2(0.1), "needs L1 or ElasticNet"),
        (MulticlassRisk(np.eye(3), np.arange(3), Softmax()), L1(0.1), "use WorkingSet if the loss is smooth"),
        (LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge()), L1(0.1), "this .*LinearRisk is not one"),
        (
            MulticlassRisk(np.eye(3), np.arange(3), CrammerSinger(), fit_intercept=True, n_classes=4),
            L1(0.1),
            "a sample with positive weight for every class",
        ),
    ],
    ids=["penalty", "loss", "risk", "absent class"],
)
def test_what_it_cannot_solve_is_refused_with_a_remedy(risk, reg, message):
    with pytest.raises(CapabilityError, match=message):
        minimize(risk, reg, Smoothing())
