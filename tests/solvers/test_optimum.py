"""Every solver on every problem: bounds bracket the optimum a conic solver knows, and the gap is honest."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC
from tests.catalogue import ALL, SOLVERS, Problem

from undercut import L2, CuttingPlane, Hinge, LinearRisk, LineSearchBundle, Status, Stop, minimize

ORACLE = 1e-7  # how far above the optimum the oracle may be, relative
ROUNDING = 1e-12
PAIRS = [(solver, loss) for solver, case in SOLVERS.items() for loss in case.losses]
pairs = pytest.mark.parametrize(("solver", "loss"), PAIRS)
intercepts = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])


def solve(problem, solver, *, sparse=False, **options):
    case = SOLVERS[solver]
    stop = Stop(gap_rel=case.gap_rel, max_steps=5000)
    return minimize(problem.risk(sparse=sparse), problem.reg, case.solver, stop=stop, **options)


def assert_solved(problem, result, gap_rel):
    """Converged; the bracket holds; the numbers belong to the point returned."""
    optimum = problem.optimum().value
    size = max(1.0, abs(optimum))
    assert result.status is Status.CONVERGED
    assert result.certificate == "global"
    assert result.lower_bound <= optimum + ROUNDING * size
    assert optimum * (1.0 - ORACLE) <= result.objective <= optimum + gap_rel * abs(result.objective) + ROUNDING
    assert 0.0 <= result.gap <= gap_rel * abs(result.objective)
    b = problem.risk().intercept(result.w)
    assert result.objective == pytest.approx(problem.objective(result.w, b), rel=1e-10)


@pairs
@intercepts
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_bounds_bracket_the_known_optimum(solver, loss, fit_intercept, weighted, sparse):
    problem = Problem(loss, fit_intercept, weighted)
    assert_solved(problem, solve(problem, solver, sparse=sparse), SOLVERS[solver].gap_rel)


@pairs
@intercepts
def test_a_center_and_weights_of_the_penalty_are_respected(solver, loss, fit_intercept):
    problem = Problem(loss, fit_intercept, weighted=True, shifted=True)
    assert_solved(problem, solve(problem, solver), SOLVERS[solver].gap_rel)


@pytest.mark.parametrize(
    ("solver", "loss", "scale"),
    [(*pair, scale) for pair in PAIRS for scale in (1.0, 10.0) if scale == 1.0 or pair[0] != "dual_ascent"],
)
def test_any_start_leads_to_the_optimum(solver, loss, scale):
    """But not from far away for dual ascent, whose first plane stays in the combination for long."""
    problem = Problem(loss, fit_intercept=True)
    w0 = scale * np.random.default_rng(7).standard_normal(problem.d)
    before = w0.copy()
    assert_solved(problem, solve(problem, solver, w0=w0), SOLVERS[solver].gap_rel)
    np.testing.assert_array_equal(w0, before)


@pairs
def test_the_start_at_the_optimum_stays_there(solver, loss):
    problem = Problem(loss)
    result = solve(problem, solver, w0=problem.optimum().w)
    assert_solved(problem, result, SOLVERS[solver].gap_rel)


@pairs
@intercepts
def test_every_step_tightens_the_bracket(solver, loss, fit_intercept):
    """The objective never rises, the bound never falls, evaluations and steps are counted."""
    problem = Problem(loss, fit_intercept)
    result, optimum = solve(problem, solver), problem.optimum().value
    assert result.trace
    for row in result.trace:
        assert row.lower_bound <= optimum + ROUNDING
        assert row.objective >= optimum * (1.0 - ORACLE)
    for last, now in pairwise(result.trace):
        assert now.step == last.step + 1
        assert now.objective <= last.objective
        assert now.lower_bound >= min(last.lower_bound, now.objective)  # rounding may not lift it above the objective
        assert now.n_evaluations > last.n_evaluations
        assert now.seconds >= last.seconds
    final = result.trace[-1]
    assert (final.objective, final.lower_bound) == (result.objective, result.lower_bound)
    assert (result.n_steps, result.n_evaluations) == (final.step, final.n_evaluations)


@pairs
def test_the_same_call_gives_the_same_result(solver, loss):
    problem = Problem(loss, fit_intercept=True, weighted=True)
    first, second = solve(problem, solver), solve(problem, solver)
    np.testing.assert_array_equal(first.w, second.w)
    assert first.objective == second.objective
    assert first.lower_bound == second.lower_bound
    assert [row.objective for row in first.trace] == [row.objective for row in second.trace]


@pairs
def test_a_risk_may_be_used_again(solver, loss):
    """Whatever it remembers to be faster must not show."""
    problem, case = Problem(loss, fit_intercept=True), SOLVERS[solver]
    risk, stop = problem.risk(), Stop(gap_rel=case.gap_rel, max_steps=5000)
    minimize(risk, L2(1e-4), LineSearchBundle(), stop=Stop(max_steps=20))
    assert_solved(problem, minimize(risk, problem.reg, case.solver, stop=stop), case.gap_rel)


@pairs
def test_nothing_given_is_modified(solver, loss):
    problem = Problem(loss, weighted=True, shifted=True)
    X, y, weight, reg = sp.csr_array(problem.X), problem.y, problem.sample_weight, problem.reg
    risk = LinearRisk(X, y, problem.case.loss, weight)
    minimize(risk, reg, SOLVERS[solver].solver, stop=Stop(gap_rel=1e-2))
    np.testing.assert_array_equal(X.toarray(), problem.X)
    np.testing.assert_array_equal(y, problem.y)
    np.testing.assert_array_equal(weight, problem.sample_weight)
    np.testing.assert_array_equal(reg.center, problem.reg.center)


@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("make", [CuttingPlane, LineSearchBundle])
def test_dropping_idle_planes_does_not_change_the_solution(loss, make):
    problem = Problem(loss, fit_intercept=True)
    few, many = (
        minimize(problem.risk(), problem.reg, make(max_idle=idle), stop=Stop(gap_rel=1e-7, max_steps=5000))
        for idle in (1, 10**6)
    )
    assert few.status is many.status is Status.CONVERGED
    assert few.objective == pytest.approx(many.objective, rel=2e-7)
    assert max(row.n_cuts for row in few.trace) <= max(row.n_cuts for row in many.trace)


@pytest.mark.parametrize("lam", [1e-3, 1e-2, 1.0])
def test_agrees_with_liblinear_on_hinge_loss(lam):
    problem = Problem("hinge", lam=lam, n=200, d=10)
    result = minimize(problem.risk(), problem.reg, stop=Stop(gap_rel=1e-6))
    other = LinearSVC(
        C=1.0 / (problem.n * lam), loss="hinge", fit_intercept=False, tol=1e-8, max_iter=10**6, random_state=0
    ).fit(problem.X, problem.y)
    assert result.objective == pytest.approx(problem.objective(other.coef_[0], 0.0), rel=1e-5)
    np.testing.assert_allclose(result.w, other.coef_[0], atol=1e-2)


@pytest.mark.parametrize("solver", [name for name, case in SOLVERS.items() if "hinge" in case.losses])
def test_features_that_are_all_zero_have_the_trivial_solution(solver):
    """The optimum is the start, and no direction leads away from it."""
    risk = LinearRisk(np.zeros((6, 3)), np.array([1.0, -1.0] * 3), Hinge())
    result = minimize(risk, L2(0.1), SOLVERS[solver].solver)
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(1.0, rel=1e-15)
    assert result.gap <= 1e-14
    assert result.w.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_one_class_with_an_intercept_costs_nothing(solver, sign):
    X = np.random.default_rng(0).standard_normal((10, 3))
    for loss in SOLVERS[solver].losses:
        problem = Problem(loss)
        if problem.case.targets == "signs":
            risk = LinearRisk(X, np.full(10, sign), problem.case.loss, fit_intercept=True)
            result = minimize(risk, L2(0.1), SOLVERS[solver].solver, stop=Stop(gap_abs=1e-9))
            assert result.status is Status.CONVERGED
            assert -1e-15 <= result.objective <= 1e-9
