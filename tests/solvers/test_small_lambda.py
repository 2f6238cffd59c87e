"""Nine to minus three orders of magnitude of lambda: bounds stay valid, numbers finite, statuses honest."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from tests.catalogue import ALL, LOSSES, SMOOTH, Problem

from undercut import L2, CuttingPlane, Lbfgs, LinearRisk, LineSearchBundle, Newton, Status, Stop, minimize
from undercut.solvers import DualAscent, TruncatedNewton

LAMBDAS = [1e-9, 1e-6, 1e-3, 1.0, 1e3]
SOLVERS = {
    "line_search": LineSearchBundle(),
    "line_search_limited": LineSearchBundle(max_planes=4),
    "cutting_plane": CuttingPlane(),
    "dual_ascent": DualAscent(),
    "lbfgs": Lbfgs(),
    "newton": Newton(),
    "truncated_newton": TruncatedNewton(),
}
OVERFLOWING = ("exponential", "poisson")  # at the first iterates of plain cutting planes, where lambda is tiny
STOP = Stop(gap_rel=1e-4, max_steps=150)

ONLY_SMOOTH = ("lbfgs", "newton", "truncated_newton")
cases = [(loss, solver) for loss in ALL for solver in SOLVERS if loss in SMOOTH or solver not in ONLY_SMOOTH]


@cache
def best_known(loss, fit_intercept, lam):
    """The least objective any solver finds: no lower bound may exceed it."""
    problem = Problem(loss, fit_intercept, lam=lam)
    solvers = [LineSearchBundle(), *([Newton()] if loss in SMOOTH else [])]
    found = [
        minimize(problem.risk(), problem.reg, solver, stop=Stop(gap_rel=1e-9, max_steps=300)) for solver in solvers
    ]
    candidates = [problem.objective(result.w, problem.risk().intercept(result.w)) for result in found]
    return min(candidates)


@pytest.mark.parametrize(("loss", "solver"), cases)
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize("lam", LAMBDAS)
def test_bounds_are_valid_and_numbers_finite_at_any_lambda(loss, solver, fit_intercept, lam):
    problem = Problem(loss, fit_intercept, lam=lam)
    result = minimize(problem.risk(), problem.reg, SOLVERS[solver], stop=STOP)
    best = best_known(loss, fit_intercept, lam)
    assert np.isfinite(result.w).all()
    assert math.isfinite(result.objective)
    assert not math.isnan(result.lower_bound)
    assert result.lower_bound <= best + 1e-9 * max(1.0, abs(best))
    assert result.objective >= best - 1e-4 * abs(best)
    if loss not in OVERFLOWING or solver in ("line_search", *ONLY_SMOOTH):
        assert result.status in (Status.CONVERGED, Status.MAX_STEPS, Status.STALLED)


@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize("lam", LAMBDAS)
def test_the_default_solver_converges_at_any_lambda(loss, fit_intercept, lam):
    problem = Problem(loss, fit_intercept, lam=lam)
    result = minimize(problem.risk(), problem.reg, stop=Stop(gap_rel=1e-4, max_steps=300))
    assert result.status is Status.CONVERGED


@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("lam", LAMBDAS[:3])
def test_the_line_search_bundle_converges_at_any_lambda(loss, lam):
    problem = Problem(loss, fit_intercept=True, lam=lam)
    result = minimize(problem.risk(), problem.reg, LineSearchBundle(), stop=Stop(gap_rel=1e-4, max_steps=300))
    assert result.status is Status.CONVERGED


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1e4, 1e8])
@pytest.mark.parametrize("loss", ["hinge", "absolute", "squared", "logistic"])
def test_the_scale_of_the_features_only_rescales_the_solution(loss, scale):
    """``X -> s X, lam -> s^2 lam`` has the same optimum at ``w / s``."""
    problem, stop = Problem(loss, fit_intercept=True), Stop(gap_rel=1e-6, max_steps=500)
    plain = minimize(problem.risk(), problem.reg, stop=stop)
    risk = LinearRisk(scale * problem.X, problem.y, LOSSES[loss].loss, fit_intercept=True)
    scaled = minimize(risk, L2(scale**2 * problem.lam), stop=stop)
    assert scaled.status is Status.CONVERGED
    assert scaled.objective == pytest.approx(plain.objective, rel=2e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_features_too_large_to_square_end_in_a_status_not_in_an_exception(solver):
    problem = Problem("squared")
    with np.errstate(all="ignore"):
        risk = LinearRisk(1e160 * problem.X, problem.y, LOSSES["squared"].loss)
        result = minimize(risk, L2(0.1), SOLVERS[solver], stop=Stop(max_steps=20))
    assert np.isfinite(result.w).all()
    assert result.lower_bound <= result.objective


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_bound_that_the_risk_knows_is_known_after_one_step(solver):
    problem = Problem("squared", lam=1e-6)
    risk = problem.risk()
    result = minimize(risk, problem.reg, SOLVERS[solver], w0=np.full(problem.d, 10.0), stop=Stop(max_steps=1))
    assert result.lower_bound >= risk.lower_bound
