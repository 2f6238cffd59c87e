"""Every loss with every regularizer: bounds bracket the optimum that a conic solver knows."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize as opt
from tests.catalogue import ALL, Problem
from tests.regularizers.cases import CASES, LOWER, UPPER, N, optimum
from tests.regularizers.test_regularizers import Cubic

from undercut import (
    L1,
    L2,
    CuttingPlane,
    ElasticNet,
    FunctionRisk,
    Hinge,
    LevelBundle,
    LinearRisk,
    Status,
    Stop,
    minimize,
)
from undercut.contracts import Cut, QuadraticRegularizer
from undercut.errors import CapabilityError, DataError
from undercut.regularizers import Entropy, Quadratic
from undercut.solvers import SOLVERS
from undercut.solvers.bundle.dual_bundle import DualBundle, bundle_for

ORACLE = 3e-7  # how far the oracle may be from the optimum, relative
SOLVER_CASES = {"level": (LevelBundle(), 1e-6), "cutting_plane": (CuttingPlane(), 1e-4)}
every_case = pytest.mark.parametrize("case", CASES)
every_loss = pytest.mark.parametrize("loss", ALL)
every_solver = pytest.mark.parametrize("solver", SOLVER_CASES)


def solve(problem, case, solver, **options):
    method, gap_rel = SOLVER_CASES[solver]
    return minimize(
        problem.risk(), CASES[case].make(problem.lam), method, stop=Stop(gap_rel=gap_rel, max_steps=3000), **options
    )


def assert_bracketed(result, best, gap_rel):
    size = max(abs(best), 1e-3)
    assert result.certificate == "global"
    assert result.lower_bound <= best + ORACLE * size
    assert result.objective >= best - ORACLE * size
    assert result.status is Status.CONVERGED
    assert 0.0 <= result.gap <= gap_rel * max(abs(result.objective), 1e-10)


@every_loss
@every_case
@every_solver
def test_every_pair_agrees_with_clarabel(loss, case, solver):
    problem = Problem(loss, fit_intercept=True, d=N)
    result = solve(problem, case, solver)
    assert_bracketed(result, optimum(case, problem).value, SOLVER_CASES[solver][1])
    reg, risk = CASES[case].make(problem.lam), problem.risk()
    assert result.objective == pytest.approx(reg.value(result.w) + risk.value(result.w), rel=1e-10)


@pytest.mark.parametrize("lam", [1e-9, 1e-6, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "exponential", "absolute"])
@every_case
def test_bounds_bracket_from_the_smallest_lambda_to_the_largest(loss, case, lam):
    """The conic solver's point is feasible up to its own tolerance: only what it says of the optimum is compared."""
    problem = Problem(loss, fit_intercept=True, lam=lam, d=N)
    result = solve(problem, case, "level")
    assert result.status is Status.CONVERGED
    best = optimum(case, problem).value
    size = max(abs(best), 1e-3)
    assert result.lower_bound <= best + 1e-6 * size
    assert result.objective >= best - 1e-6 * size


@every_case
@every_solver
def test_every_step_tightens_the_bracket(case, solver):
    problem = Problem("hinge", fit_intercept=True, lam=1e-3, d=N)
    result, best = solve(problem, case, solver), optimum(case, problem).value
    for row in result.trace:
        assert row.lower_bound <= best * (1.0 + ORACLE)
        assert row.objective >= best * (1.0 - ORACLE)
    for last, now in pairwise(result.trace):
        assert now.objective <= last.objective
        assert now.lower_bound >= min(last.lower_bound, now.objective)
        assert now.n_evaluations == last.n_evaluations + 1


@every_case
def test_any_feasible_start_leads_to_the_optimum(case, rng):
    problem = Problem("logistic", d=N)
    reg = CASES[case].make(problem.lam)
    z = 3.0 * rng.standard_normal(N)
    w0 = reg.near(reg.conjugate_argmax(np.zeros(N)), 1.0).conjugate_argmax(z)
    before = w0.copy()
    assert_bracketed(solve(problem, case, "level", w0=w0), optimum(case, problem).value, 1e-6)
    np.testing.assert_array_equal(w0, before)


def test_a_start_outside_the_domain_is_refused():
    with pytest.raises(DataError, match="w0 must be a point where Entropy is finite"):
        minimize(Problem("hinge").risk(), Entropy(1.0), LevelBundle(), w0=np.ones(5))


@pytest.mark.parametrize("solver", ["line_search_bundle", "dual_ascent", "proximal_bundle", "newton", "lbfgs"])
def test_every_solver_for_quadratic_regularizers_takes_a_matrix(solver):
    problem = Problem("logistic", d=N)
    result = minimize(problem.risk(), CASES["quadratic"].make(problem.lam), solver, stop=Stop(gap_rel=1e-2))
    best = optimum("quadratic", problem).value
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= best * (1.0 + ORACLE)
    assert best * (1.0 - ORACLE) <= result.objective <= best * 1.011


@pytest.mark.parametrize("max_planes", [1, 3, 8])
@pytest.mark.parametrize("case", ["elastic_net", "entropy", "squared_lp"])
def test_limited_memory_keeps_the_bound(case, max_planes):
    problem = Problem("logistic", d=N)
    stop = Stop(gap_rel=1e-2, max_steps=5000)
    result = minimize(problem.risk(), CASES[case].make(problem.lam), CuttingPlane(max_planes=max_planes), stop=stop)
    best = optimum(case, problem).value
    assert result.lower_bound <= best * (1.0 + ORACLE)
    assert result.status is Status.CONVERGED
    assert max(row.n_cuts for row in result.trace) <= max_planes + 2


# ------------------------------------------------------------------------------------------------- sparsity and bounds


def sparse_problem():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, 40))
    y = np.where(X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(60) > 0.0, 1.0, -1.0)
    return X, y


@every_solver
@pytest.mark.parametrize("reg", [L1(0.1), ElasticNet(0.1, l1_ratio=0.9)])
def test_most_parameters_are_exactly_zero_under_absolute_values(solver, reg):
    X, y = sparse_problem()
    result = minimize(LinearRisk(X, y, Hinge()), reg, SOLVER_CASES[solver][0], stop=Stop(gap_rel=1e-4))
    assert result.status is Status.CONVERGED
    assert 2 <= np.count_nonzero(result.w) <= 20
    assert result.w[0] > 0.0 > result.w[1]


@pytest.mark.parametrize("lam", [1e-3, 1e-6, 1e-9])
def test_a_separable_problem_has_a_certified_optimum_however_small(lam):
    """The objective is of the order of lambda, where the planes are of the order of one."""
    X, y = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, -0.5]]), np.array([1.0, -1.0, 1.0])
    result = minimize(LinearRisk(X, y, Hinge()), L1(lam), LevelBundle())
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= 1.5 * lam * (1.0 + 1e-12)
    assert result.objective == pytest.approx(1.5 * lam, rel=2e-3)


def test_a_large_lambda_leaves_nothing():
    problem = Problem("hinge", d=N)
    result = minimize(problem.risk(), L1(1e3), LevelBundle())
    np.testing.assert_array_equal(result.w, np.zeros(N))
    assert result.objective == pytest.approx(1.0)
    assert result.n_steps == 1


@every_loss
def test_bounds_on_the_parameters_hold_exactly(loss):
    result = solve(Problem(loss, fit_intercept=True, lam=1e-4, d=N), "boxed_l1", "level")
    assert ((result.w >= LOWER) & (result.w <= UPPER)).all()


def test_the_entropy_keeps_the_parameters_on_the_simplex():
    result = solve(Problem("logistic", d=N), "entropy", "level")
    assert result.w.min() >= 0.0
    assert result.w.sum() == pytest.approx(1.0, abs=1e-12)


# --------------------------------------------------------------------------------------------------- the master problem


def filled(reg, n_planes, rng, n_params=N, lower_bound=0.0):
    bundle = bundle_for(reg, n_params, lower_bound)
    planes = rng.standard_normal((n_planes, n_params)), rng.random(n_planes)
    for a, b in zip(*planes, strict=True):
        bundle.add(Cut(a, float(b), float(b)))
    return bundle, planes


def linear_program(A, b, lam, lower_bound):
    """``min lam |w|_1 + max(A w + b, lower_bound)`` by HiGHS."""
    n, d = A.shape
    cost = np.concatenate([np.full(2 * d, lam), [1.0]])
    rows = np.hstack([A, -A, -np.ones((n, 1))])
    limits = [(0.0, None)] * (2 * d) + [(lower_bound, None)]
    return opt.linprog(cost, A_ub=rows, b_ub=-b, bounds=limits, method="highs")


@pytest.mark.parametrize("n_planes", [1, 3, 30])
@pytest.mark.parametrize("lam", [1e-6, 1e-2, 0.5, 10.0])
@pytest.mark.parametrize("n_params", [2, 40])
def test_the_master_problem_of_l1_is_the_linear_program(n_planes, lam, n_params, rng):
    """Also where its optimum is a millionth of the planes, though only to a few percent of it."""
    bundle, (A, b) = filled(L1(lam), n_planes, rng, n_params)
    model = bundle.minimize(1e-9)
    best = linear_program(A, b, lam, 0.0).fun
    assert isinstance(bundle, DualBundle)
    assert model.lower_bound <= best + 1e-12
    assert model.lower_bound == pytest.approx(best, rel=0.02, abs=2e-8)
    value = lam * np.abs(model.w).sum() + max(float((A @ model.w + b).max()), 0.0)
    assert value == pytest.approx(best, rel=0.02, abs=2e-8)


@every_case
def test_the_bound_never_exceeds_the_model_anywhere(case, rng):
    """Whatever the accuracy asked for."""
    reg = CASES[case].make(0.05)
    for tol in (1.0, 1e-2, 1e-12):
        bundle, (A, b) = filled(reg, 12, rng)
        model = bundle.minimize(tol)
        for _ in range(50):
            z = rng.standard_normal(N)
            w = reg.near(model.w, 10.0 ** rng.uniform(-3, 3)).conjugate_argmax(z)
            height = max(float((A @ w + b).max()), 0.0)
            assert model.lower_bound <= reg.value(w) + height + 1e-12


def test_a_quadratic_regularizer_keeps_its_own_master_problem():
    assert not isinstance(bundle_for(L2(1.0), 2, 0.0), DualBundle)
    assert not isinstance(bundle_for(Quadratic(1.0, np.eye(2)), 2, 0.0), DualBundle)


# --------------------------------------------------------------------------------------------------------- capabilities


def absolute(lower_bound=-math.inf, n_params=2):
    return FunctionRisk(lambda w: (abs(w - 1.0).sum(), np.sign(w - 1.0)), n_params=n_params, lower_bound=lower_bound)


@every_solver
def test_l1_needs_a_risk_with_a_known_lower_bound(solver):
    with pytest.raises(CapabilityError, match="L1 needs a risk with a known lower bound, and FunctionRisk has none"):
        minimize(absolute(), L1(0.1), SOLVER_CASES[solver][0])


@every_solver
@pytest.mark.parametrize("case", ["elastic_net", "entropy", "squared_lp", "quadratic"])
def test_a_strongly_convex_regularizer_needs_no_lower_bound(solver, case):
    result = minimize(absolute(n_params=N), CASES[case].make(0.1), SOLVER_CASES[solver][0])
    assert result.status is Status.CONVERGED


def test_a_users_own_regularizer_works_with_cutting_planes():
    problem = Problem("logistic", d=N)
    result = minimize(problem.risk(), Cubic(0.05), CuttingPlane(), stop=Stop(gap_rel=1e-6))
    same = opt.minimize(lambda w: Cubic(0.05).value(w) + problem.risk().value(w), np.zeros(N), tol=1e-12)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= same.fun + 1e-12
    assert result.objective == pytest.approx(same.fun, rel=2e-6)


def test_steps_near_the_best_point_need_a_proximal_form():
    with pytest.raises(CapabilityError, match=r"LevelBundle needs .*; got Cubic: implement `near`, or use Cut"):
        minimize(Problem("logistic", d=N).risk(), Cubic(0.05), LevelBundle())


QUADRATIC = sorted(
    name
    for name, kind in SOLVERS.items()
    if issubclass(kind.reg_type, QuadraticRegularizer) and isinstance(Problem("logistic").risk(), kind.risk_type)
)


@pytest.mark.parametrize("solver", QUADRATIC)
def test_other_solvers_name_the_one_that_takes_l1(solver):
    with pytest.raises(CapabilityError, match="needs a quadratic regularizer, and L1 is not: use L2, or LevelBundle"):
        minimize(Problem("logistic").risk(), L1(0.1), solver)


@pytest.mark.parametrize("loss", ["exponential", "poisson"])
def test_a_step_too_far_is_taken_back(loss):
    """Scores so large that the loss overflows."""
    problem = Problem(loss, d=N)
    risk = LinearRisk(300.0 * problem.X, problem.y, problem.case.loss)
    result = minimize(risk, L1(1e-3), LevelBundle(), stop=Stop(gap_rel=1e-4, max_steps=500))
    assert result.status is Status.CONVERGED
