"""Subgradient, the simplest baseline: any risk, the best point kept, no bound."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from tests.catalogue import Problem

from undercut import L2, FunctionRisk, LinearRisk, Ramp, Status, Stop, minimize
from undercut.errors import ParameterError
from undercut.problems import PROBLEMS
from undercut.risks import TransductiveRisk
from undercut.solvers import Subgradient


@pytest.mark.parametrize("loss", ["hinge", "absolute", "logistic", "huber"])
@pytest.mark.parametrize("lam", [0.1, 1.0])
def test_the_optimum_of_a_convex_risk_is_approached(loss, lam):
    problem = Problem(loss, lam=lam)
    result = minimize(problem.risk(), problem.reg, Subgradient(n_steps=3000))
    optimum = problem.optimum().value
    assert optimum * (1.0 - 1e-7) <= result.objective <= optimum * 1.02


def test_more_steps_are_never_worse():
    problem = Problem("hinge")
    objectives = [minimize(problem.risk(), problem.reg, Subgradient(n_steps=n)).objective for n in (1, 10, 100, 1000)]
    assert objectives == sorted(objectives, reverse=True)


@pytest.mark.parametrize("n_steps", [1, 7, 100])
def test_it_ends_by_itself_and_says_that_it_proves_nothing(n_steps):
    problem = Problem("hinge")
    result = minimize(problem.risk(), problem.reg, Subgradient(n_steps=n_steps))
    assert result.status is Status.MAX_STEPS
    assert result.certificate == "none"
    assert result.lower_bound == -math.inf
    assert result.n_steps == result.n_evaluations == n_steps


def test_the_steps_are_those_of_the_formula():
    """``w - eta_t (a + lam w)`` with ``eta_t = step_size / (1 + step_size lam t)``."""

    def fun(w):
        return float(np.abs(w - 1.0).sum()), np.sign(w - 1.0)

    lam, step_size = 0.3, 0.7
    w, best = np.array([3.0, -2.0]), math.inf
    for t in range(20):
        value, a = fun(w)
        best = min(best, value + 0.5 * lam * w @ w)
        w = w - step_size / (1.0 + step_size * lam * t) * (a + lam * w)
    solver = Subgradient(step_size=step_size, n_steps=20)
    result = minimize(FunctionRisk(fun, 2), L2(lam), solver, w0=np.array([3.0, -2.0]))
    assert result.objective == pytest.approx(best, rel=1e-13)


@pytest.mark.parametrize("start", [-2.0, 2.0])
def test_the_minimum_of_the_valley_it_starts_in_is_found(start):
    def two_wells(w):
        near = np.where(w >= 0.0, 1.0, -1.0)
        return float(np.abs(w - near).sum()), np.sign(w - near)

    solver = Subgradient(step_size=0.5, n_steps=2000)
    result = minimize(FunctionRisk(two_wells, 2, convex=False), L2(0.2), solver, w0=np.full(2, start))
    np.testing.assert_allclose(result.w, np.sign(start), atol=0.05)


@pytest.mark.parametrize("make", ["ramp", "transductive", "crescent"])
def test_the_objective_never_rises_on_a_risk_that_is_not_convex(make, rng):
    X, y = rng.standard_normal((30, 3)), np.where(np.arange(30) % 2, 1.0, -1.0)
    risk = {
        "ramp": LinearRisk(X, y, Ramp(), fit_intercept=True),
        "transductive": TransductiveRisk(X, np.where(np.arange(30) < 10, y, 0.0)),
        "crescent": PROBLEMS["chained_crescent_2"].risk(3),
    }[make]
    result = minimize(risk, L2(1.0), Subgradient(n_steps=200), w0=np.ones(3))
    for last, now in pairwise(result.trace):
        assert now.objective <= last.objective
        assert now.n_evaluations == last.n_evaluations + 1
    w = result.w
    assert result.objective == pytest.approx(risk.value(w) + 0.5 * w @ w, rel=1e-12)


def test_other_limits_hold_too():
    problem = Problem("hinge")
    result = minimize(problem.risk(), problem.reg, Subgradient(), stop=Stop(max_evaluations=5))
    assert result.status is Status.MAX_EVALUATIONS
    assert result.n_evaluations == 5


def test_steps_that_are_far_too_long_end_with_a_status():
    def fun(w):
        with np.errstate(over="ignore"):
            return float(w @ w), 2.0 * w

    solver = Subgradient(step_size=1e10, n_steps=500)
    result = minimize(FunctionRisk(fun, 2), L2(1e-3), solver, w0=np.ones(2))
    assert result.status in (Status.NONFINITE, Status.MAX_STEPS)
    assert np.isfinite(result.w).all()
    assert result.objective <= 2.001


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"step_size": 0.0}, "`step_size` must be positive; got 0.0"),
        ({"step_size": math.nan}, "`step_size` must be positive; got nan"),
        ({"n_steps": 0}, "`n_steps` must be at least 1; got 0"),
    ],
)
def test_a_setting_outside_its_domain_is_refused(options, rule):
    with pytest.raises(ParameterError, match=rule):
        Subgradient(**options)
