"""The proximal bundle method: its proximal problem against a conic solver, its bracket against the catalogue."""

from __future__ import annotations

import math
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import make_classification
from tests.catalogue import ALL, Problem

from undercut import L2, Cut, CuttingPlane, FunctionRisk, Hinge, LinearRisk, ProximalBundle, Status, Stop, minimize
from undercut.errors import CapabilityError, ParameterError
from undercut.solvers.bundle.bundle import Bundle

ORACLE = 1e-7  # how far above the optimum the oracle may be
VARIANTS = ("descent", "printed")
variants = pytest.mark.parametrize("variant", VARIANTS)
losses = pytest.mark.parametrize("loss", ALL)
STOP = Stop(gap_rel=1e-3, max_steps=3000)

D = 4
CENTER, WEIGHTS = np.array([1.0, -2.0, 0.5, 0.0]), np.array([0.5, 1.0, 2.0, 0.1])
REGS = {
    "plain": L2(0.3),
    "center": L2(0.3, center=CENTER),
    "weights": L2(0.3, weights=WEIGHTS),
    "both": L2(0.3, center=CENTER, weights=WEIGHTS),
    "small": L2(1e-6),
}


def random_planes(seed, n=7):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, D)), rng.standard_normal(n)


def proximal_oracle(reg, A, b, near, tau):
    """The minimizer of ``reg + max_i <a_i, w> + b_i + tau/2 (w - near)' M (w - near)`` according to Clarabel."""
    root = math.sqrt(reg.lam) * (np.ones(D) if reg.weights is None else reg.weights)
    origin = np.zeros(D) if reg.center is None else reg.center
    w = cp.Variable(D)
    penalty = 0.5 * cp.sum_squares(cp.multiply(root, w - origin))
    pull = 0.5 * tau * cp.sum_squares(cp.multiply(root, w - near))
    program = cp.Problem(cp.Minimize(penalty + cp.max(A @ w + b) + pull))
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert program.status == cp.OPTIMAL
    return w.value, float(program.value)


@pytest.mark.parametrize("reg", REGS.values(), ids=REGS.keys())
@pytest.mark.parametrize("tau", [0.0, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_proximal_problem_has_the_oracles_solution(reg, tau, seed):
    if reg.lam < 1e-3:
        tau = (tau + 0.1) / reg.lam  # else the oracle itself has no digits left
    (A, b), near = random_planes(seed), np.random.default_rng([seed, 9]).standard_normal(D)
    bundle = Bundle(reg, D)
    for a, offset in zip(A, b, strict=True):
        bundle.add(Cut(a, float(offset), 0.0))
    step = bundle.minimize_near(near, tau, 1e-13)
    w, _ = proximal_oracle(reg, A, b, near, tau)
    np.testing.assert_allclose(step.w, w, rtol=1e-4, atol=1e-4 * np.abs(w).max())
    assert step.value == pytest.approx(reg.value(step.w) + float((A @ step.w + b).max()), rel=1e-12)


@pytest.mark.parametrize("tau", [0.1, 10.0])
def test_the_proximal_problem_does_not_disturb_the_master_problem(tau):
    """Bounds come from the master problem, whatever was asked of the proximal one in between."""
    (A, b), alone, mixed = random_planes(0, 20), Bundle(L2(0.3), D), Bundle(L2(0.3), D)
    for a, offset in zip(A, b, strict=True):
        for bundle in (alone, mixed):
            bundle.add(Cut(a, float(offset), 0.0))
        mixed.minimize_near(a, tau, 1e-12)
        bounds = [bundle.minimize(1e-13).lower_bound for bundle in (alone, mixed)]
        assert bounds[0] == pytest.approx(bounds[1], abs=1e-11)


def test_a_strong_pull_stays_where_it_is_pulled():
    (A, b), near = random_planes(1), np.ones(D)
    bundle = Bundle(L2(0.3), D)
    for a, offset in zip(A, b, strict=True):
        bundle.add(Cut(a, float(offset), 0.0))
    distances = [np.linalg.norm(bundle.minimize_near(near, tau, 1e-12).w - near) for tau in (0.0, 1.0, 10.0, 1e6)]
    assert all(farther > nearer for farther, nearer in pairwise(distances))
    assert distances[-1] <= 1e-4


def solve(problem, variant, **options):
    return minimize(problem.risk(), problem.reg, ProximalBundle(variant=variant), stop=STOP, **options)


def assert_solved(problem, result):
    optimum = problem.optimum().value
    assert result.status is Status.CONVERGED
    assert result.certificate == "global"
    assert result.lower_bound <= optimum + 1e-10
    assert result.objective >= optimum - ORACLE * abs(optimum)
    assert result.gap <= 1e-3 * abs(result.objective)
    b = problem.risk().intercept(result.w) if problem.fit_intercept else 0.0
    assert result.objective == pytest.approx(problem.objective(result.w, b), rel=1e-10)


@variants
@losses
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_bounds_bracket_the_known_optimum(variant, loss, fit_intercept):
    problem = Problem(loss, fit_intercept)
    assert_solved(problem, solve(problem, variant))


@variants
@losses
def test_weights_and_a_center_are_taken_in(variant, loss):
    problem = Problem(loss, weighted=True, shifted=True)
    assert_solved(problem, solve(problem, variant))


@variants
@losses
def test_every_step_tightens_the_bracket(variant, loss):
    problem = Problem(loss, fit_intercept=True)
    result, optimum = solve(problem, variant), problem.optimum().value
    for last, now in pairwise(result.trace):
        assert now.objective <= last.objective
        assert now.lower_bound >= min(last.lower_bound, now.objective)
        assert now.lower_bound <= optimum + 1e-10
        assert now.n_evaluations == last.n_evaluations + 1


@variants
@losses
def test_any_start_leads_to_the_optimum(variant, loss):
    problem = Problem(loss)
    w0 = np.random.default_rng(3).standard_normal(problem.d)
    before = w0.copy()
    assert_solved(problem, solve(problem, variant, w0=w0))
    np.testing.assert_array_equal(w0, before)


@variants
@losses
def test_the_start_at_the_optimum_stays_there(variant, loss):
    problem = Problem(loss)
    assert_solved(problem, solve(problem, variant, w0=problem.optimum().w))


@variants
def test_the_same_call_gives_the_same_result(variant):
    problem = Problem("hinge", fit_intercept=True)
    first, second = solve(problem, variant), solve(problem, variant)
    np.testing.assert_array_equal(first.w, second.w)
    assert first.lower_bound == second.lower_bound


@pytest.mark.parametrize("lam", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("d", [1, 5, 20])
def test_a_kinked_function_is_minimized_at_tiny_lambda(lam, d):
    """``sum_j j |w_j - 1|`` whose optimum is at the kink: ``lam d / 2``."""
    slopes = np.arange(1.0, d + 1.0)
    risk = FunctionRisk(
        lambda w: (float(slopes @ np.abs(w - 1.0)), slopes * np.sign(w - 1.0)), n_params=d, lower_bound=0.0
    )
    result = minimize(risk, L2(lam), ProximalBundle(), stop=Stop(gap_abs=1e-6, gap_rel=1e-3, max_steps=3000))
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= 0.5 * lam * d * (1.0 + 1e-9)
    np.testing.assert_allclose(result.w, 1.0, atol=1e-4)


@variants
def test_bounds_stay_valid_at_tiny_lambda(variant):
    problem = Problem("hinge", lam=1e-9)
    result = minimize(problem.risk(), problem.reg, ProximalBundle(variant=variant), stop=Stop(max_steps=100))
    exact = minimize(problem.risk(), problem.reg, stop=Stop(gap_rel=1e-8, max_steps=1000))
    assert result.lower_bound <= exact.objective * (1.0 + 1e-9)
    assert result.objective >= exact.lower_bound * (1.0 - 1e-9)
    assert np.isfinite(result.w).all()


@pytest.fixture(scope="module")
def generated():
    X, y = make_classification(500, 20, n_informative=10, flip_y=0.1, class_sep=0.7, random_state=0)
    risk, reg = LinearRisk(X, np.where(y == 1, 1.0, -1.0), Hinge()), L2(1e-6)
    return risk, reg, minimize(risk, reg, stop=Stop(gap_rel=1e-6)).objective


@variants
def test_the_pull_saves_evaluations_where_lambda_is_small(generated, variant):
    risk, reg, optimum = generated

    def evaluations(solver):
        result = minimize(risk, reg, solver, stop=Stop(gap_rel=1e-2, max_steps=400))
        return next(row.n_evaluations for row in result.trace if row.objective <= 1.1 * optimum)

    assert evaluations(ProximalBundle(variant=variant)) < evaluations(CuttingPlane())


@variants
def test_dropping_idle_planes_does_not_change_the_solution(variant):
    problem = Problem("hinge", fit_intercept=True)
    few, many = (
        minimize(problem.risk(), problem.reg, ProximalBundle(variant=variant, max_idle=idle), stop=STOP)
        for idle in (2, 10**6)
    )
    assert_solved(problem, few)
    assert_solved(problem, many)
    assert max(row.n_cuts for row in few.trace) <= max(row.n_cuts for row in many.trace)


@pytest.mark.parametrize("at", [1, 2, 5])
@variants
def test_ctrl_c_keeps_the_best_solution_so_far(variant, at):
    problem = Problem("hinge")

    class Interrupted(LinearRisk):
        left = at

        def cut(self, w):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().cut(w)

    result = minimize(Interrupted(problem.X, problem.y, Hinge()), problem.reg, ProximalBundle(variant=variant))
    assert result.status is Status.STOPPED
    assert result.n_evaluations == at
    assert result.objective == pytest.approx(problem.objective(result.w, 0.0), rel=1e-12)
    assert result.lower_bound <= problem.optimum().value + 1e-12


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: ProximalBundle(variant="best"), "`variant` is 'descent' or 'printed'; got 'best'"),
        (lambda: ProximalBundle(max_idle=-1), "`max_idle` must be .*; got -1"),
        (lambda: ProximalBundle(master_accuracy=-0.1), "`master_accuracy` must be .*; got -0.1"),
    ],
)
def test_a_setting_outside_its_domain_is_refused_with_rule_and_value(make, rule):
    with pytest.raises(ParameterError, match=rule):
        make()


def test_a_risk_that_is_not_convex_is_refused():
    risk = FunctionRisk(lambda w: (0.0, np.zeros(2)), n_params=2, convex=False)
    with pytest.raises(CapabilityError, match="ProximalBundle needs a convex risk"):
        minimize(risk, L2(1.0), ProximalBundle())
