"""A risk that is not what it declares ends a run without a bound; one that is never does."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.catalogue import ALL, Problem

from undercut import L1, L2, CuttingPlane, FunctionRisk, LinearRisk, Status, Stop, minimize
from undercut.contracts import Cut
from undercut.errors import NonconvexError
from undercut.risks import M3N, ChainRisk
from undercut.solvers.bounds import check_below, check_floor, tighter

CONVEX_SOLVERS = ["cutting_plane", "proximal_bundle", "level_bundle", "dual_ascent", "lbfgs", "nonconvex_bundle"]


def concave(w):
    return -float(w @ w), -2.0 * w


def two_wells(w):
    """The smaller of two distances: every plane is right around its own well."""
    nearest = np.where(np.abs(w - 2.0) < np.abs(w + 2.0), 2.0, -2.0)
    return float(np.abs(w - nearest).sum()), np.sign(w - nearest)


def assert_refuted(result):
    assert result.status is Status.NONCONVEX
    assert result.certificate == "none"
    assert result.lower_bound == -math.inf
    assert {row.certificate for row in result.trace} <= {"none"}
    assert "lower_bound" in result.message


@pytest.mark.parametrize("solver", CONVEX_SOLVERS)
def test_a_concave_function_declared_convex_is_found_out(solver):
    result = minimize(FunctionRisk(concave, 3), L2(0.1), solver, w0=np.ones(3), stop=Stop(max_steps=100))
    assert_refuted(result)
    assert math.isfinite(result.objective)


@pytest.mark.parametrize("solver", ["cutting_plane", "proximal_bundle", "level_bundle", "dual_ascent"])
@pytest.mark.parametrize("w0", [0.3, 3.0, -1.0])
def test_two_wells_declared_convex_are_found_out_or_not_left(solver, w0):
    risk = FunctionRisk(two_wells, 1, lower_bound=0.0)
    result = minimize(risk, L2(0.01), solver, w0=np.array([w0]), stop=Stop(max_steps=200))
    if result.status is not Status.NONCONVEX:
        grid = np.linspace(-5.0, 5.0, 2001)
        lowest = min(two_wells(np.array([v]))[0] + 0.005 * v * v for v in grid)
        assert result.lower_bound <= lowest + 1e-9


def test_all_planes_are_compared_with_the_best_value_before_a_bound_is_reported():
    risk, solver = FunctionRisk(two_wells, 1, lower_bound=0.0), CuttingPlane()
    state = solver.init(risk, L2(0.01), np.array([-1.0]))
    state = solver.step(risk, L2(0.01), state)
    solver.finish(risk, L2(0.01), state)
    moved = replace(state, solution=np.array([2.0]), progress=replace(state.progress, objective=0.02))
    with pytest.raises(NonconvexError, match="a plane is 4 at a point where the risk is 0"):
        solver.finish(risk, L2(0.01), moved)


@pytest.mark.parametrize("solver", [*CONVEX_SOLVERS, "auto"])
@pytest.mark.parametrize("reg", [L2(1e-3), L1(1e-3)], ids=["l2", "l1"])
def test_a_lower_bound_above_the_risk_is_found_out(solver, reg):
    if isinstance(reg, L1) and solver not in ("cutting_plane", "level_bundle", "auto"):
        pytest.skip("for quadratic regularizers")
    risk = FunctionRisk(lambda w: (float(-w.sum()), -np.ones_like(w)), 2, lower_bound=0.0)
    assert_refuted(minimize(risk, reg, solver, w0=np.ones(2), stop=Stop(max_steps=100)))


def test_a_lower_bound_above_a_risk_that_is_not_convex_is_found_out():
    risk = FunctionRisk(lambda w: (float(np.cos(w).sum()), -np.sin(w)), 2, lower_bound=0.0, convex=False)
    assert_refuted(minimize(risk, L2(1e-3), w0=np.array([1.0, 2.0])))


@given(
    st.sampled_from(ALL), st.integers(0, 10**6), st.sampled_from([1e-10, 1e-4, 1.0]), st.booleans(),
    st.sampled_from(["auto", "cutting_plane", "proximal_bundle", "level_bundle", "lbfgs", "dual_ascent"]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_a_convex_risk_is_never_accused(loss, seed, lam, single, solver):
    problem = Problem(loss)
    rng = np.random.default_rng(seed)
    X = problem.X * 10.0 ** rng.uniform(-2.0, 1.0, problem.d)
    risk = LinearRisk(X.astype(np.float32) if single else X, problem.y, problem.case.loss)
    result = minimize(risk, L2(lam), solver, stop=Stop(gap_rel=1e-9, max_steps=60))
    assert result.status not in (Status.NONCONVEX, Status.UNBOUNDED)
    assert result.certificate == "global"


def test_a_chain_is_never_accused():
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((4, 3)).astype(np.float32) for _ in range(6)]
    y = [rng.integers(0, 3, 4).tolist() for _ in range(6)]
    result = minimize(ChainRisk(X, y, M3N(), n_labels=3), L2(1e-4), stop=Stop(gap_rel=1e-6))
    assert (result.status, result.certificate) == (Status.CONVERGED, "global")


def test_a_bound_above_the_objective_is_rounding_or_an_error():
    assert tighter(0.0, 1.0 + 1e-9, 1.0) == 1.0
    assert tighter(0.0, 1.5, 1.0, size=1e6) == 1.0
    with pytest.raises(NonconvexError, match=r"prove a minimum of 1\.5, and the objective is 1"):
        tighter(0.0, 1.5, 1.0)


def test_planes_and_floors_are_compared_beyond_rounding():
    A, b, w = np.array([[1.0, 0.0], [0.0, 2.0]]), np.zeros(2), np.ones(2)
    check_below(A, b, w, 2.0, 0.0)
    check_below(A, b, w, 2.0 - 1e-7, 0.0)
    with pytest.raises(NonconvexError, match=r"a plane is 2 at a point where the risk is 1\.5"):
        check_below(A, b, w, 1.5, 0.0)
    check_floor(-math.inf, Cut(w, 0.0, -5.0))
    check_floor(0.0, Cut(w, 0.0, -6e-18))
    with pytest.raises(NonconvexError, match="`lower_bound` is 0, and the risk has the value -5"):
        check_floor(0.0, Cut(w, 0.0, -5.0))
