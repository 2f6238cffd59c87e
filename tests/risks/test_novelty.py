"""The novelty risk against brute force, its formula and a conic solver."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st
from tests.risks.test_linear_risk import LAYOUTS

from undercut import L2, CuttingPlane, LineSearchBundle, ProximalBundle, Stop, minimize
from undercut.errors import DataError, ParameterError
from undercut.risks import NoveltyRisk
from undercut.risks.scores.novelty import LowestShare
from undercut.solvers import DualAscent
from undercut.testing import check_risk

NUS = [0.01, 0.1, 0.3, 0.5, 1.0]
nus = pytest.mark.parametrize("nu", NUS)


def data(seed=0, n=30, d=4):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.8) + 0.8, rng.random(n) + 0.1


def at_margin(scores, weight, nu, rho):
    """The formula before rho is minimized out."""
    return float(weight @ np.maximum(0.0, rho - scores)) / nu - rho


@nus
@pytest.mark.parametrize("layout", LAYOUTS)
def test_keeps_the_contract_of_a_risk(nu, layout):
    X, weight = data()
    check_risk(NoveltyRisk(LAYOUTS[layout](X), nu, weight))


@given(st.integers(0, 10_000), st.floats(0.001, 1.0), st.booleans())
def test_no_margin_is_better(seed, nu, tied):
    """The minimum over rho is at one of the scores, so trying them all finds it."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 300))  # on both sides of where sorting gives way to selection
    scores = rng.integers(-2, 3, n).astype(float) if tied else rng.standard_normal(n)
    weight = rng.random(n) * (rng.random(n) < 0.9)
    weight[0] += 0.1
    weight /= weight.sum()
    value, slopes, intercept = LowestShare(weight, nu).evaluate(scores)
    best = min(at_margin(scores, weight, nu, rho) for rho in scores)
    assert value == pytest.approx(best, abs=1e-12 / nu)
    assert at_margin(scores, weight, nu, -intercept) == pytest.approx(best, abs=1e-12 / nu)
    assert slopes.sum() == pytest.approx(-1.0, abs=1e-12)
    assert (slopes <= 0.0).all()
    assert (-slopes <= weight / nu * (1.0 + 1e-12)).all()


@given(st.integers(0, 10_000), st.integers(1, 12))
def test_the_value_is_minus_the_mean_of_the_lowest_scores(seed, k):
    scores = np.random.default_rng(seed).standard_normal(12)
    value = LowestShare(np.full(12, 1.0 / 12.0), k / 12.0).evaluate(scores).value
    assert value == pytest.approx(-np.sort(scores)[:k].mean(), abs=1e-13)


@nus
def test_planes_pass_through_the_origin_and_support_the_risk_everywhere(nu):
    X, weight = data()
    risk = NoveltyRisk(np.round(X), nu, weight)  # ties
    rng = np.random.default_rng(1)
    points = [scale * rng.standard_normal(4) for scale in (0.0, 0.1, 1.0, 10.0, 1e4)] + list(np.eye(4))
    for w in points:
        cut = risk.cut(w)
        assert abs(cut.b) <= 1e-12 * max(1.0, abs(cut.value))
        for v in points:
            assert cut.a @ v + cut.b <= risk.value(v) + 1e-11 * max(1.0, abs(risk.value(v)))


@nus
def test_a_sample_weight_stands_for_repeated_rows(nu, rng):
    X, _ = data()
    counts = rng.integers(0, 4, len(X))
    weighted, repeated = NoveltyRisk(X, nu, counts), NoveltyRisk(np.repeat(X, counts, axis=0), nu)
    for w in rng.standard_normal((5, 4)):
        assert weighted.value(w) == pytest.approx(repeated.value(w), rel=1e-11)


def optimum(X, weight, nu, lam):
    w, rho = cp.Variable(X.shape[1]), cp.Variable()
    share = weight / weight.sum()
    program = cp.Problem(cp.Minimize(0.5 * lam * cp.sum_squares(w) + share @ cp.pos(rho - X @ w) / nu - rho))
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return w.value, float(program.value)


@nus
@pytest.mark.parametrize("solver", [LineSearchBundle(), CuttingPlane(), ProximalBundle(), CuttingPlane(max_planes=8)])
def test_agrees_with_a_conic_solver(nu, solver):
    X, weight = data()
    w, best = optimum(X, weight, nu, 1.0)
    result = minimize(NoveltyRisk(X, nu, weight), L2(1.0), solver, stop=Stop(gap_rel=1e-6))
    assert result.objective == pytest.approx(best, rel=2e-6)
    assert result.lower_bound <= best + 1e-8
    np.testing.assert_allclose(result.w, w, atol=3e-3)


@nus
@pytest.mark.parametrize("lam", [1e-9, 1e-4, 1.0, 1e3])
def test_lambda_only_scales_the_solution_and_bounds_bracket_it(nu, lam):
    X, weight = data()
    w, best = optimum(X, weight, nu, 1.0)
    risk = NoveltyRisk(X, nu, weight)
    for steps in (1, 3, 300):
        result = minimize(risk, L2(lam), stop=Stop(gap_rel=1e-8, max_steps=steps))
        assert result.lower_bound * lam <= best * (1.0 - 1e-6)
        assert best <= result.objective * lam + 1e-6 * abs(best)
    np.testing.assert_allclose(result.w * lam, w, atol=1e-3)


def test_dual_ascent_works_without_a_lower_bound_of_the_risk():
    X, weight = data()
    result = minimize(NoveltyRisk(X, 0.3, weight), L2(1.0), DualAscent(), stop=Stop(gap_rel=1e-2))
    assert result.gap <= 1e-2 * abs(result.objective)


def test_where_the_origin_is_among_the_samples_zero_is_optimal():
    X = np.vstack([data()[0], -data()[0]])
    result = minimize(NoveltyRisk(X, 0.5), L2(1.0), stop=Stop(gap_abs=1e-9))
    assert result.objective == 0.0
    assert not result.w.any()


@pytest.mark.parametrize("X", [np.zeros((3, 2)), np.ones((1, 1)), np.ones((5, 2)), sp.csr_array((4, 3))])
@nus
def test_zero_constant_and_single_rows_do_no_harm(X, nu):
    check_risk(NoveltyRisk(X, nu))


def test_wrong_settings_and_data_are_named():
    for nu in (0.0, -1.0, 1.5, np.nan):
        with pytest.raises(ParameterError, match="`nu`"):
            NoveltyRisk(np.eye(2), nu)
    with pytest.raises(DataError, match="at least one row"):
        NoveltyRisk(np.empty((0, 2)))
    with pytest.raises(DataError, match="sample_weight"):
        NoveltyRisk(np.eye(2), 0.5, [1.0])
