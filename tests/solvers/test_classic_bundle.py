"""ClassicBundle, the standard method: the same minima, its own gap, and no certificate of a global kind."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.catalogue import Problem

from undercut import L2, FunctionRisk, NonconvexBundle, Status, Stop, minimize
from undercut.errors import ParameterError
from undercut.problems import PROBLEMS
from undercut.solvers import ClassicBundle

NONCONVEX = [name for name, problem in PROBLEMS.items() if not problem.convex]


def two_wells(w):
    """``min(|w - 1|, |w + 1|)`` in every coordinate."""
    near = np.where(w >= 0.0, 1.0, -1.0)
    return float(np.abs(w - near).sum()), np.sign(w - near)


def run(risk, reg, w0, **options):
    options = {"gap_rel": 1e-4, "max_evaluations": 1000} | options
    return minimize(risk, reg, ClassicBundle(), w0=w0, stop=Stop(**options))


@pytest.mark.parametrize("loss", ["hinge", "absolute", "logistic", "squared", "huber"])
@pytest.mark.parametrize("lam", [0.05, 1.0])
def test_the_optimum_of_a_convex_risk_is_found_without_a_proof(loss, lam):
    problem = Problem(loss, lam=lam)
    result = run(problem.risk(), problem.reg, None)
    assert result.status is Status.CONVERGED
    assert result.certificate == "local"
    optimum = problem.optimum().value
    assert optimum * (1.0 - 1e-7) <= result.objective <= optimum * (1.0 + 5e-3)


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("start", [-2.0, -0.3, 0.4, 3.0])
def test_the_minimum_of_the_valley_it_starts_in_is_found(d, start):
    """At 1 or -1 the slope of the regularizer, 0.2, is within the jump of the risk's."""
    result = run(FunctionRisk(two_wells, d, lower_bound=0.0, convex=False), L2(0.2), np.full(d, start))
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(np.abs(result.w), 1.0, atol=1e-2)
    assert result.objective == pytest.approx(0.1 * d, rel=1e-2)


@pytest.mark.parametrize("name", NONCONVEX)
@pytest.mark.parametrize("lam", [1.0, 10.0])
def test_it_ends_on_every_test_problem_near_the_objective_of_the_other_method(name, lam):
    problem = PROBLEMS[name]
    w0, reg = problem.start(10), L2(lam, center=problem.start(10))
    classic = run(problem.risk(10), reg, w0, gap_rel=1e-3)
    other = minimize(problem.risk(10), reg, NonconvexBundle(line_search="greedy"), w0=w0)
    assert classic.status is Status.CONVERGED
    assert classic.objective <= problem.fun(w0)[0]
    assert classic.objective == pytest.approx(other.objective, rel=0.05)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 3), lam=st.sampled_from([0.2, 1.0, 5.0]))
def test_no_point_nearby_is_better(seed, d, lam):
    """On sums of absolute values, some of them subtracted."""
    rng = np.random.default_rng(seed)
    ways, at, share = rng.standard_normal((5, d)), rng.standard_normal(5), rng.choice([1.0, 1.0, -0.5], 5)

    def fun(w):
        off = ways @ w - at
        return float(share @ np.abs(off)), (share * np.sign(off)) @ ways

    w0 = rng.standard_normal(d)
    result = run(FunctionRisk(fun, d, convex=False), L2(lam), w0, gap_rel=0.0, gap_abs=1e-7)
    assert result.objective <= fun(w0)[0] + 0.5 * lam * w0 @ w0
    assert result.objective == pytest.approx(fun(result.w)[0] + 0.5 * lam * result.w @ result.w, rel=1e-12, abs=1e-12)
    if result.status is Status.CONVERGED:
        for step in 1e-2 * rng.standard_normal((100, d)):
            v = result.w + step
            assert fun(v)[0] + 0.5 * lam * v @ v >= result.objective - 1e-3


def test_the_objective_never_rises_and_everything_is_counted():
    for name in NONCONVEX:
        problem = PROBLEMS[name]
        w0 = problem.start(6)
        result = run(problem.risk(6), L2(1.0, center=w0), w0)
        for last, now in pairwise(result.trace):
            assert now.objective <= last.objective
            assert now.n_evaluations > last.n_evaluations
            assert now.n_descent + now.n_null == now.step == last.step + 1
            assert now.gap >= -1e-12
        assert {row.certificate for row in result.trace} == {"local"}


@pytest.mark.parametrize("max_planes", [1, 3])
def test_few_planes_are_enough(max_planes):
    problem = PROBLEMS["chained_crescent_2"]
    w0 = problem.start(6)
    solver, stop = ClassicBundle(max_planes=max_planes), Stop(gap_rel=1e-3, max_evaluations=3000)
    result = minimize(problem.risk(6), L2(1.0, center=w0), solver, w0=w0, stop=stop)
    assert result.status is Status.CONVERGED
    assert max(row.n_cuts for row in result.trace) <= max_planes + 1


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_a_constant_risk_leaves_the_regularizer(scale):
    result = run(FunctionRisk(lambda w: (3.0, np.zeros(2)), 2, convex=False), L2(0.5), np.full(2, scale))
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.w, 0.0, atol=0.1)
    assert result.objective == pytest.approx(3.0, rel=1e-3)


def test_a_start_at_the_minimum_of_zero_is_recognized():
    result = run(FunctionRisk(lambda w: (float(np.abs(w).sum()), np.sign(w)), 2, convex=False), L2(1.0), np.zeros(2))
    assert result.status is Status.CONVERGED
    assert result.objective == 0.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_risk_that_is_not_finite_is_reported_with_the_last_good_point(bad):
    def fun(w):
        return (float(w @ w) if w[0] > 0.5 else bad), 2.0 * w

    result = run(FunctionRisk(fun, 2, convex=False), L2(0.1), np.array([3.0, 3.0]))
    assert result.status is Status.NONFINITE
    assert np.isfinite(result.w).all()
    assert math.isfinite(result.objective)


@pytest.mark.parametrize("lam", [1e-12, 1e-200, 1e12])
def test_an_extreme_lambda_is_survived(lam):
    result = run(FunctionRisk(two_wells, 2, convex=False), L2(lam), np.array([0.3, -2.0]), max_evaluations=200)
    assert result.message
    assert np.isfinite(result.w).all()
    assert math.isfinite(result.objective)


def test_a_start_is_not_modified():
    w0 = np.array([0.3, -2.0])
    run(FunctionRisk(two_wells, 2, convex=False), L2(0.1), w0)
    np.testing.assert_array_equal(w0, [0.3, -2.0])


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"max_planes": 0}, "`max_planes` must be at least 1; got 0"),
        ({"gamma": -1.0}, "`gamma` must be non-negative; got -1.0"),
        ({"omega": 0.5}, "`omega` must be at least 1; got 0.5"),
    ],
)
def test_a_setting_outside_its_domain_is_refused(options, rule):
    with pytest.raises(ParameterError, match=rule):
        ClassicBundle(**options)
