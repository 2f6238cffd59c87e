"""ConvexConcave: J never rises, every tangent lies above, and the same minima are found as by the other methods."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.catalogue import Problem

from undercut import (
    L2,
    CuttingPlane,
    FunctionRisk,
    Hinge,
    LinearRisk,
    LineSearchBundle,
    Newton,
    NonconvexBundle,
    ProximalBundle,
    Ramp,
    Status,
    Stop,
    minimize,
)
from undercut.contracts import Loss
from undercut.errors import CapabilityError, ParameterError
from undercut.risks import DifferenceRisk, TransductiveRisk
from undercut.solvers import ClassicBundle, ConvexConcave, DualAscent, Subgradient

D = 3


def separable(seed=0, n=60):
    """Two clouds and a few outliers."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    X = rng.standard_normal((n, D)) + y[:, None]
    return X, np.where(np.arange(n) < 5, -y, y)


def concave_part(w):
    """``2 |w|_1``: convex, to be subtracted."""
    return 2.0 * float(np.abs(w).sum()), 2.0 * np.sign(w)


def risks(seed=0):
    X, y = separable(seed)
    some = np.where(np.arange(y.size) % 4 == 0, y, 0.0)
    bowl = FunctionRisk(lambda w: (float(w @ w), 2.0 * w), D)
    return {
        "ramp": LinearRisk(X, y, Ramp()),
        "ramp with intercept": LinearRisk(X, y, Ramp(floor=-0.5), fit_intercept=True),
        "transductive": TransductiveRisk(X, some, 1.0),
        "transductive with intercept": TransductiveRisk(X, some, 1.0, fit_intercept=True),
        "transductive with balance": TransductiveRisk(X, some, 1.0, fit_intercept=True, balance=0.0),
        "difference": DifferenceRisk(bowl, FunctionRisk(concave_part, D), lower_bound=-3.0),
        "difference of losses": DifferenceRisk(Problem("squared", d=D).risk(), Problem("hinge", d=D).risk()),
        "convex": Problem("hinge", d=D).risk(),
    }


NAMES = list(risks())
every = pytest.mark.parametrize("name", NAMES)


def run(risk, reg, solver=None, **options):
    options = {"gap_rel": 1e-4, "max_evaluations": 2000} | options
    w0 = options.pop("w0", None)
    return minimize(risk, reg, solver or ConvexConcave(), w0=w0, stop=Stop(**options))


@every
@pytest.mark.parametrize("lam", [0.05, 1.0])
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_the_objective_never_rises(name, lam, scale):
    risk = risks()[name]
    w0 = scale * np.random.default_rng(1).standard_normal(risk.n_params)
    result = run(risk, L2(lam), w0=w0)
    for last, now in pairwise(result.trace):
        assert now.objective <= last.objective
        assert now.n_evaluations >= last.n_evaluations
        assert now.step == last.step + 1
    assert result.status in (Status.CONVERGED, Status.STALLED)
    assert result.objective == pytest.approx(risk.value(result.w) + 0.5 * lam * result.w @ result.w, rel=1e-11)


@every
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_every_majorizer_lies_above_the_risk_and_touches_it(name, seed):
    rng = np.random.default_rng(seed)
    risk = risks()[name]
    w = 2.0 * rng.standard_normal(risk.n_params)
    above = risk.majorizer(w)
    assert above.is_convex
    assert above.value(w) == pytest.approx(risk.value(w), rel=1e-10, abs=1e-10)
    for v in rng.standard_normal((10, risk.n_params)) * rng.choice([0.1, 1.0, 10.0], (10, 1)) + w:
        assert above.value(v) >= risk.value(v) - 1e-9 * max(1.0, abs(risk.value(v)))


@every
def test_the_run_follows_the_procedure(name):
    """Each point minimizes reg plus the majorizer at the one before, up to the inner accuracy."""
    risk, reg = risks()[name], L2(0.3)
    solver = ConvexConcave(accuracy=1e-3)
    state = solver.init(risk, reg, np.full(risk.n_params, 0.3))
    for _ in range(200):
        last, state = state, solver.step(risk, reg, state)
        if state.solution is not last.solution:
            exact = minimize(last.majorizer, reg, "auto", stop=Stop(gap_rel=1e-9, max_steps=5000)).objective
            reached = reg.value(state.solution) + last.majorizer.value(state.solution)
            gained = last.progress.objective - reached
            assert reached <= exact + 1e-2 * max(gained, 0.0) + 1e-7
        if state.stuck:
            break


@every
def test_the_other_methods_find_no_better_point_from_there(name):
    """It ends at a stationary point: started there, they stay but for the tolerance."""
    risk, reg = risks()[name], L2(0.3)
    first = run(risk, reg, gap_rel=1e-5)
    for solver in (NonconvexBundle(), NonconvexBundle(line_search="greedy"), ClassicBundle()):
        again = run(risk, reg, solver, w0=first.w, gap_rel=1e-5)
        assert again.objective <= first.objective + 1e-12
        assert again.objective >= first.objective - 0.05 * max(1.0, abs(first.objective))


@pytest.mark.parametrize("name", ["ramp", "ramp with intercept", "transductive with balance", "difference"])
@pytest.mark.parametrize("seed", range(3))
def test_all_methods_find_the_same_minimum_from_the_same_start(name, seed):
    """On problems with one good valley."""
    risk, reg = risks(seed)[name], L2(0.3)
    w0 = np.full(risk.n_params, 0.7)
    solvers = (
        ConvexConcave(), NonconvexBundle(), NonconvexBundle(line_search="greedy"),
        NonconvexBundle(line_search="full"), ClassicBundle(), Subgradient(n_steps=2000),
    )  # fmt: skip
    found = [run(risk, reg, solver, w0=w0).objective for solver in solvers]
    assert max(found) - min(found) <= 2e-2 * max(1.0, abs(min(found)))


def test_a_difference_with_a_closed_form_is_solved():
    """``1/2 lam |w|^2 + |w|^2 - 2 |w|_1`` is smallest at ``|w_i| = 2 / (2 + lam)``."""
    risk = risks()["difference"]
    result = run(risk, L2(0.5), w0=np.array([0.1, -0.2, 3.0]), gap_rel=1e-6)
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.w, np.array([1.0, -1.0, 1.0]) * 2.0 / 2.5, atol=1e-3)


def test_on_a_convex_risk_the_first_tangent_is_the_problem_itself():
    problem = Problem("hinge", lam=0.1)
    result = run(problem.risk(), problem.reg)
    assert result.status is Status.CONVERGED
    optimum = problem.optimum().value
    assert optimum * (1.0 - 1e-7) <= result.objective <= optimum * (1.0 + 1e-3)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("solver", [LineSearchBundle(), CuttingPlane()], ids=["line search", "cutting plane"])
def test_the_bound_of_a_convex_problem_with_an_intercept_is_one(seed, solver):
    """Several samples lie on the margin, so that kinks in the intercept are a rounding apart: planes must support."""
    rng = np.random.default_rng(seed)
    X = 3.0 * rng.random((20, D))
    y = np.where(np.floor(X[:, 0]) == 1.0, 1.0, -1.0)
    hinge = LinearRisk(X, y, Hinge(), fit_intercept=True)
    above = TransductiveRisk(X, y, fit_intercept=True).majorizer(np.zeros(D))  # without unlabelled samples: the hinge
    optimum = minimize(hinge, L2(0.01), stop=Stop(gap_rel=1e-9)).objective
    result = minimize(above, L2(0.01), solver, stop=Stop(gap_rel=1e-6, max_steps=500))
    assert result.lower_bound <= optimum + 1e-9
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(optimum, rel=1e-5)


@every
def test_the_certificate_is_local(name):
    result = run(risks()[name], L2(1.0))
    assert result.certificate == "local"
    assert {row.certificate for row in result.trace} == {"local"}


@pytest.mark.parametrize(
    "inner",
    [LineSearchBundle(), CuttingPlane(), ProximalBundle(), NonconvexBundle(line_search="greedy")],
    ids=lambda s: type(s).__name__,
)
def test_any_convex_solver_will_do_inside(inner):
    risk = risks()["ramp with intercept"]
    expected = run(risk, L2(0.3), w0=np.full(D, 0.7)).objective
    result = run(risk, L2(0.3), ConvexConcave(inner=inner), w0=np.full(D, 0.7))
    assert result.status in (Status.CONVERGED, Status.STALLED)
    assert result.objective == pytest.approx(expected, rel=1e-2)


def test_an_inner_solver_that_does_not_fit_is_refused():
    with pytest.raises(CapabilityError, match="Newton needs a smooth risk"):
        run(risks()["ramp"], L2(0.3), ConvexConcave(inner=Newton()))


def test_a_start_at_the_minimum_stays_there():
    risk = risks()["ramp"]
    first = run(risk, L2(0.3), gap_rel=1e-6)
    again = run(risk, L2(0.3), w0=first.w, gap_rel=1e-4)
    assert again.objective == pytest.approx(first.objective, rel=1e-3)
    np.testing.assert_allclose(again.w, first.w, atol=0.05)


# Refusals


def hilly():
    return FunctionRisk(lambda w: (float(np.sin(w).sum()), np.cos(w)), 2, convex=False)


@pytest.mark.parametrize(
    "solver",
    [CuttingPlane(), LineSearchBundle(), ProximalBundle(), DualAscent(), Newton()],
    ids=lambda s: type(s).__name__,
)
@pytest.mark.parametrize("risk", [hilly(), risks()["ramp"], risks()["transductive"], risks()["difference"]])
def test_a_solver_for_convex_risks_names_the_remedy(solver, risk):
    with pytest.raises(CapabilityError, match="use NonconvexBundle"):
        minimize(risk, L2(1.0), solver)


@pytest.mark.parametrize(
    "solver",
    [NonconvexBundle(), ClassicBundle(), Subgradient(n_steps=5)],
    ids=lambda s: type(s).__name__,
)
def test_the_remedy_is_one_for_any_risk(solver):
    assert np.isfinite(minimize(hilly(), L2(1.0), solver, stop=Stop(max_evaluations=50)).objective)


def test_a_function_without_parts_is_refused_and_told_about_differences():
    with pytest.raises(CapabilityError) as refusal:
        minimize(hilly(), L2(1.0), ConvexConcave())
    message = str(refusal.value)
    assert "FunctionRisk has no `majorizer(w)`" in message
    assert "DifferenceRisk" in message
    assert "NonconvexBundle" in message


def test_a_loss_without_kinks_has_no_majorizer():
    calls = []

    class Welsch(Loss):
        is_convex = False

        def value_slope(self, y, scores):
            calls.append(scores)
            off = scores - y
            return 1.0 - np.exp(-(off**2)), 2.0 * off * np.exp(-(off**2))

        def check_target(self, y):
            pass

    X, y = separable()
    risk = LinearRisk(X, y, Welsch())
    with pytest.raises(CapabilityError, match=r"LinearRisk has no `majorizer\(w\)`: .*use NonconvexBundle"):
        minimize(risk, L2(1.0), ConvexConcave())
    assert calls == []
    result = minimize(risk, L2(1.0))
    assert result.certificate == "local"
    assert result.status is Status.CONVERGED


@pytest.mark.parametrize("accuracy", [0.0, 1.0, -1.0])
def test_an_accuracy_outside_its_domain_is_refused(accuracy):
    with pytest.raises(ParameterError, match="`accuracy` must be between 0 and 1; got"):
        ConvexConcave(accuracy=accuracy)
