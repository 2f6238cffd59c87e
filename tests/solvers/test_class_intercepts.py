"""Free intercepts of several classes in dual coordinate descent: multipliers of constraints on the classes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from numpy.random import default_rng

from undercut import L2, LineSearchBundle, MulticlassRisk, Status, Stop, minimize
from undercut._jit.class_blocks import balance_shares
from undercut.accuracy import gap_allowed
from undercut.losses import CrammerSinger, Softmax
from undercut.solvers import DualCoordinate, TruncatedNewton
from undercut.solvers.coordinate.dual.class_descent import class_descent
from undercut.solvers.coordinate.dual.class_dual import class_dual

MARGIN = CrammerSinger()


def problem(seed=0, n=120, d=15, n_classes=4, loss=MARGIN, **options):
    """Classes of very different frequencies, far from the origin: intercepts matter."""
    rng = default_rng(seed)
    X = sp.random_array((n, d), density=0.4, format="csr", rng=rng)
    scores = (
        X @ rng.standard_normal((d, n_classes)) + np.linspace(0.0, 2.0, n_classes) + rng.normal(size=(n, n_classes))
    )
    y = scores.argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return MulticlassRisk(X, y, loss, fit_intercept=True, **options)


OTHERS = {MARGIN: LineSearchBundle(), Softmax(): TruncatedNewton()}
EACH = pytest.mark.parametrize("loss", OTHERS, ids=lambda loss: type(loss).__name__)


@EACH
@pytest.mark.parametrize("lam", [1.0, 1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("seed", [0, 1])
def test_agrees_with_another_solver(loss, lam, seed):
    sample_weight = np.maximum(default_rng(seed).random(120) - 0.1, 0.0)  # some are zero
    sample_weight[:4] = 0.5
    risk = problem(seed, loss=loss, sample_weight=sample_weight)
    stop = Stop(gap_rel=1e-5)
    ours = minimize(risk, L2(lam), DualCoordinate(), stop=stop)
    other = minimize(risk, L2(lam), OTHERS[loss], stop=stop)
    assert ours.status is Status.CONVERGED
    assert ours.lower_bound <= other.objective
    assert other.lower_bound <= ours.objective
    assert ours.objective == pytest.approx(L2(lam).value(ours.w) + risk.value(ours.w), rel=1e-9)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 10**6), st.integers(3, 40), st.integers(2, 5), st.sampled_from([1e3, 1.0, 1e-2, 1e-5, 1e-9]),
    st.sampled_from(list(OTHERS)),
)  # fmt: skip
def test_bounds_are_valid_after_any_number_of_passes(seed, n, n_classes, lam, loss):
    risk = problem(seed, max(n, n_classes), 4, n_classes, loss)
    descent = class_descent(risk, L2(lam), risk.phi.evaluate(np.zeros(risk.n_samples * n_classes)).slopes.copy())
    best = minimize(risk, L2(lam), OTHERS[loss], stop=Stop(gap_rel=1e-4, max_steps=300)).objective
    for _ in range(3):
        descent.run(2 * descent.dual.pass_work)
        assert descent.bound(0.0) <= best * (1.0 + 1e-12)
        assert lam < 1e-5 or np.isfinite(descent.bound(0.0))
        descent.seen(descent.dual.scores(descent.v), np.inf, 0.0)  # moves the multipliers


@given(st.integers(0, 10**6), st.integers(2, 6))
def test_shares_that_are_balanced_stay_shares(seed, n_classes):
    rng = default_rng(seed)
    q = rng.dirichlet(np.full(n_classes, 0.3), 30)
    q[q < 0.1] = 0.0
    supply, capacity = q.sum(axis=1), rng.dirichlet(np.ones(n_classes)) * q.sum()
    balance_shares(q, capacity - q.sum(axis=0))
    assert q.min() >= -1e-12
    np.testing.assert_allclose(q.sum(axis=1), supply, rtol=1e-9)
    np.testing.assert_allclose(q.sum(axis=0), capacity, rtol=1e-9, atol=1e-9)


@EACH
def test_the_point_of_a_bound_meets_the_constraints(loss):
    risk = problem(loss=loss)
    descent = class_descent(risk, L2(1e-4), np.zeros(risk.n_samples * 4))
    descent.run(3 * descent.dual.pass_work)
    assert np.abs(descent.a.sum(axis=0)).max() > 1e-3
    feasible = descent.dual.feasible(descent.a)
    assert np.abs(feasible.sum(axis=0)).max() < 1e-9 * np.abs(feasible).sum()
    assert descent.dual.shares(feasible).min() >= -1e-12 * descent.dual.cap.max()


@EACH
def test_another_lambda_begins_with_the_multipliers_of_the_last(loss):
    risk, solver = problem(loss=loss), DualCoordinate()
    state = solver.init(risk, L2(1e-2), np.zeros(risk.n_params))
    while state.progress.gap > 1e-6 * state.progress.objective:
        state = solver.step(risk, L2(1e-2), state)
    carried = solver.carry(risk, L2(8e-3), state).descent
    np.testing.assert_array_equal(carried.b, state.descent.b)
    np.testing.assert_array_equal(carried.dual.b, carried.b)
    assert carried.dual.rows.constant**2 == pytest.approx(carried.rho)
    if loss is MARGIN:
        np.testing.assert_allclose(carried.dual.costs, class_dual(risk, L2(8e-3)).costs + carried.b)
    assert carried.bound(0.0) <= minimize(risk, L2(8e-3), stop=Stop(gap_rel=1e-6)).objective


@EACH
def test_a_restored_run_goes_on_as_if_it_had_not_stopped(loss):
    risk, reg, solver = problem(1, 60, 5, loss=loss), L2(1e-2), DualCoordinate()
    with gap_allowed(lambda progress: 1e-12 * progress.objective):
        state = solver.init(risk, reg, np.zeros(risk.n_params))
        moves = 0
        while moves < 5:
            last, state = state, solver.step(risk, reg, state)
            moves += not np.array_equal(state.descent.b, last.descent.b)
        again = solver.restored(risk, reg, state)
        np.testing.assert_array_equal(again.descent.dual.b, state.descent.dual.b)
        one, other = (solver.step(risk, reg, start).descent for start in (state, again))
    np.testing.assert_array_equal(one.a, other.a)
    np.testing.assert_array_equal(one.v, other.v)


@EACH
@pytest.mark.parametrize("offset", [1.0, 2.0**10, 2.0**20])
def test_bounds_hold_where_features_are_far_from_zero(loss, offset):
    risk = problem(3, 60, 4)
    X = np.round(8.0 * risk.features.X.toarray()) / 8.0  # exact in the sums below
    near, far = (MulticlassRisk(X + shift, risk.y, loss, fit_intercept=True) for shift in (0.0, offset))
    best = minimize(near, L2(1e-2), stop=Stop(gap_rel=1e-9)).objective
    solver, reg = DualCoordinate(), L2(1e-2)
    state = solver.init(near, reg, np.zeros(near.n_params))
    while state.progress.gap > 1e-9 * state.progress.objective and state.progress.step < 2000:
        state = solver.step(near, reg, state)
    descent = state.descent
    sums = descent.dual.primal(descent.v).reshape(4, -1).sum(axis=1)
    dual = class_dual(far, reg).shifted(descent.rho, descent.b - offset * sums)
    assert dual.bound(descent.a, dual.products(descent.a), 0.0) <= best


@EACH
def test_rows_without_entries_leave_only_the_intercepts(loss):
    risk = MulticlassRisk(sp.csr_array((6, 3)), np.array([0, 0, 0, 0, 1, 2]), loss, fit_intercept=True)
    result = minimize(risk, L2(0.1), DualCoordinate())
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(risk.value(np.zeros(9)))
