"""Slopes moved into the box of l1 instead of scaled into it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L1, MulticlassRisk, Progress, Status, Stop, minimize
from undercut.accuracy import gap_allowed
from undercut.losses import Softmax
from undercut.maps.design import as_design
from undercut.solvers import WorkingSet
from undercut.solvers.coordinate.working import class_problem, repaired_slopes
from undercut.solvers.coordinate.working.class_problem import ClassProblem
from undercut.solvers.coordinate.working.columns import column_norms
from undercut.solvers.coordinate.working.repaired_slopes import Repair, Slopes, is_affordable, tolerance

K = 3


def groups(n=3000, *, fit_intercept=True, sparse=True, seed=0):
    """One feature of each group of four is 1, so that X is singular with an intercept; weights, some of them zero."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, 40))
    for group in range(10):
        X[np.arange(n), 4 * group + np.minimum(rng.geometric(0.4, n) - 1, 3)] = 1.0
    y = (X @ rng.standard_normal((40, K)) + rng.gumbel(size=(n, K))).argmax(axis=1)
    weight = rng.exponential(size=n) * (rng.random(n) < 0.9)
    return MulticlassRisk(sp.csr_array(X) if sparse else X, y, Softmax(), weight, fit_intercept=fit_intercept)


def near_the_optimum(risk, lam):
    """The problem, parameters whose objective is a little too large, and the point there."""
    w = minimize(risk, L1(lam), WorkingSet(), stop=Stop(gap_rel=1e-9)).w.copy()
    w *= 1.0 + 0.01 * np.random.default_rng(1).standard_normal(w.size)
    problem = ClassProblem(risk, L1(lam), column_norms(risk.features, risk.weight))
    return problem, w, problem.point(problem.scores(w))


def repair_of(problem, point):
    risk = problem.risk
    return Repair.made(risk.features, problem._probabilities(point.slopes), risk.weight, risk.fit_intercept)


def slopes_at(point):
    return Slopes(point.gradient, point.slopes.sum(axis=0))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_moved_slopes_keep_to_the_box(fit_intercept, sparse):
    risk = groups(fit_intercept=fit_intercept, sparse=sparse)
    lam = 1e-4
    problem, w, point = near_the_optimum(risk, lam)
    assert np.abs(point.gradient).max() > 1.2 * lam
    change = repair_of(problem, point).move(
        risk.features, slopes_at(point), problem.by_feature(w), problem.penalty, 1e-6 * lam
    )
    slopes = point.slopes + change
    assert np.abs(problem._gradient(slopes)).max() <= lam * (1.0 + 1e-5)
    np.testing.assert_allclose(change.sum(axis=1), 0.0, atol=1e-15)
    np.testing.assert_allclose(problem.imbalance(slopes), 0.0, atol=1e-12)


def test_slopes_that_do_not_sum_to_zero_are_moved_until_they_do():
    risk, lam = groups(), 1e-4
    problem, w, point = near_the_optimum(risk, lam)
    off = np.random.default_rng(2).standard_normal((risk.n_samples, K)) * 1e-3 * risk.weight[:, None]
    slopes = point.slopes + off - off.mean(axis=1, keepdims=True)
    assert problem.imbalance(slopes) > 1e-6
    at = Slopes(problem._gradient(slopes), slopes.sum(axis=0))
    moved = slopes + repair_of(problem, point).move(
        risk.features, at, problem.by_feature(w), problem.penalty, 1e-6 * lam
    )
    assert np.abs(problem._gradient(moved)).max() <= lam * (1.0 + 1e-5)
    np.testing.assert_allclose(problem.imbalance(moved), 0.0, atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("lam", [1e-3, 1e-4])
def test_repaired_slopes_prove_more_than_scaled_ones_and_never_too_much(fit_intercept, lam):
    risk = groups(fit_intercept=fit_intercept)
    best = minimize(risk, L1(lam), WorkingSet(), stop=Stop(gap_rel=1e-10))
    problem, w, point = near_the_optimum(risk, lam)
    objective, alive = L1(lam).value(w) + point.value, np.ones(40, bool)
    scaled = problem.bound(point.slopes, point.gradient, alive, objective).value
    with gap_allowed(lambda progress: 1e-6 * progress.objective):
        moved, repair = problem.repaired(w, point, alive, Progress(1, objective, scaled), None)
    assert moved.value <= best.objective
    assert objective - moved.value < 0.1 * (objective - scaled)
    assert repair.gap == objective - moved.value


def test_repairs_wait_until_the_violation_promises_a_small_gap():
    risk = groups()
    problem, _, point = near_the_optimum(risk, 1e-3)
    repair = repair_of(problem, point)
    assert repair.is_worthwhile(1.0, 1e-9)
    failed = repair.after(1e-2, 1.0)
    assert not failed.is_worthwhile(0.5, 1e-3)
    assert failed.is_worthwhile(0.1, 1e-3)


def test_the_tolerance_is_a_share_of_l1_that_costs_less_than_the_gap():
    risk, lam = groups(), 1e-4
    problem, w, point = near_the_optimum(risk, lam)
    objective, wanted = L1(lam).value(w) + point.value, 1e-4
    share = tolerance(problem.penalty, w, objective, wanted) / lam
    assert 0.0 < share * L1(lam).value(w) < wanted


def test_only_matrices_that_cost_few_evaluations_are_made():
    assert is_affordable(as_design(np.ones((50, 100))), 3)
    assert not is_affordable(as_design(sp.eye_array(3000, format="csr")), 3)
    assert not is_affordable(as_design(sp.csr_array(np.ones((50, 100)))), 3)  # long rows


def test_too_many_parameters_are_left_alone(monkeypatch):
    monkeypatch.setattr(repaired_slopes, "MOST_PARAMS", 10)
    problem, w, point = near_the_optimum(groups(), 1e-4)
    W = problem.by_feature(w)
    assert repair_of(problem, point).move(problem.design, slopes_at(point), W, problem.penalty, 1e-9) is None


@pytest.mark.parametrize("gap", [1e-3, 1e-6])
def test_repairs_save_steps(gap, monkeypatch):
    risk, reg = groups(n=20000), L1(1e-5)
    repaired = minimize(risk, reg, WorkingSet(), stop=Stop(gap_rel=gap))
    monkeypatch.setattr(class_problem, "is_affordable", lambda *given: False)
    scaled = minimize(risk, reg, WorkingSet(), stop=Stop(gap_rel=gap))
    assert repaired.status is scaled.status is Status.CONVERGED
    assert repaired.n_steps < scaled.n_steps
    assert repaired.lower_bound <= scaled.objective
    assert scaled.lower_bound <= repaired.objective
