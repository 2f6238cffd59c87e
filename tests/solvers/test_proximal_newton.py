"""Proximal Newton steps in one compiled call: every smooth loss, and bounds that hold at any lambda."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from tests.catalogue import LOSSES, Problem
from tests.regularizers.cases import CASES, optimum

from undercut import L1, L2, ElasticNet, Hinge, Huber, LinearRisk, Logistic, Squared, Status, Stop, minimize
from undercut._jit.gram_model import expected_gap
from undercut.errors import CapabilityError
from undercut.solvers import InteriorPoint, ProximalNewton

SMOOTH = ("squared", "squared_hinge", "huber_hinge", "logistic", "exponential", "huber", "poisson")
PENALTIES = ("l1", "elastic_net")


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", SMOOTH)
def test_one_step_brackets_the_optimum(loss, penalty, fit_intercept):
    problem = Problem(loss, fit_intercept=fit_intercept, weighted=fit_intercept)
    reg, known = CASES[penalty].make(problem.lam), optimum(penalty, problem).value
    result = minimize(problem.risk(), reg, ProximalNewton(), stop=Stop(gap_rel=1e-7, max_steps=2))
    assert result.status is Status.CONVERGED
    assert result.n_steps == 1
    assert result.lower_bound <= known * (1.0 + 1e-9)
    assert result.objective == pytest.approx(known, rel=1e-6)
    assert result.objective == pytest.approx(reg.value(result.w) + problem.risk().value(result.w), rel=1e-12)


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, d = draw(st.integers(1, 40)), draw(st.integers(1, 12))
    case = LOSSES[draw(st.sampled_from(SMOOTH))]
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0.2, 1.0])))
    X = (X.round() if draw(st.booleans()) else X) * draw(st.sampled_from([1.0, 1.0, 1e-6, 1e6]))
    weight = rng.integers(0, 3, n) + (rng.random() < 0.5 or np.arange(n) == 0)
    risk = LinearRisk(X, case.draw_targets(rng, n), case.loss, weight, fit_intercept=draw(st.booleans()))
    penalty = draw(st.sampled_from((L1, lambda lam: ElasticNet(lam, 0.5), lambda lam: ElasticNet(lam, 0.99))))
    return risk, penalty(10.0 ** draw(st.floats(-9.0, 3.0)))


@given(problems())
@settings(max_examples=60, deadline=None)
def test_bounds_hold_for_any_loss_at_any_lambda(problem):
    risk, reg = problem
    found = minimize(risk, reg, ProximalNewton(), stop=Stop(gap_rel=1e-6, max_steps=5))
    again = minimize(risk, reg, "level_bundle", w0=found.w, stop=Stop(gap_rel=1e-6, max_steps=5))
    size = 1e-9 * (1.0 + abs(found.objective))
    assert found.lower_bound <= again.objective + size
    assert again.lower_bound <= found.objective + size
    assert found.objective == pytest.approx(reg.value(found.w) + risk.value(found.w), rel=1e-9, abs=1e-12)


@given(problems())
@settings(max_examples=20, deadline=None)
def test_what_it_cannot_solve_is_left_to_other_solvers(problem):
    risk, reg = problem
    result = minimize(risk, reg, stop=Stop(gap_rel=1e-3, max_steps=200))
    assert result.status is Status.CONVERGED or result.gap <= minimize(risk, reg, ProximalNewton()).gap


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_the_objective_has_the_best_intercept_where_second_derivatives_jump(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((50, 14))
    y = X @ rng.standard_normal(14) * 1e4
    result = minimize(
        LinearRisk(X, y, Huber(1e-3), fit_intercept=True), L1(1e-4), ProximalNewton(), stop=Stop(max_steps=3)
    )
    J = L1(1e-4).value(result.w) + LinearRisk(X, y, Huber(1e-3), fit_intercept=True).value(result.w)
    assert result.objective == pytest.approx(J, rel=1e-9)


def test_a_parameter_that_no_sample_uses_is_zero_and_duplicates_are_harmless():
    X = np.random.default_rng(0).standard_normal((60, 4))
    X[:, 1], X[:, 3] = 0.0, X[:, 2]
    risk = LinearRisk(X, np.sign(X[:, 0] + X[:, 2]), Logistic())
    result = minimize(risk, L1(1e-3), ProximalNewton(), w0=np.ones(4), stop=Stop(gap_rel=1e-9))
    assert result.w[1] == 0.0
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(
        minimize(risk, L1(1e-3), InteriorPoint(), stop=Stop(gap_rel=1e-9)).objective
    )


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_layout_of_X_that_may_be_read_only(dtype, order):
    X = np.asarray(np.random.default_rng(0).standard_normal((60, 4)), dtype, order=order)
    X.flags.writeable = False
    y = X.sum(axis=1, dtype=np.float64)
    assert minimize(LinearRisk(X, y, Squared()), L1(0.1), ProximalNewton()).status is Status.CONVERGED


@pytest.mark.parametrize("reg", [L1(0.02), ElasticNet(0.02)], ids=str)
def test_the_gap_is_known_before_it_is_proved(reg):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 6)), rng.standard_normal(80)
    risk = LinearRisk(X, y, Squared())
    best = minimize(risk, reg, ProximalNewton(), stop=Stop(gap_rel=1e-12)).w
    w = np.where(best != 0.0, best + 1e-3, 0.0)
    proved = minimize(risk, reg, "working_set", w0=w, stop=Stop(gap_rel=1.0)).trace[0]
    residual = X @ w - y
    guess = expected_gap(
        w, X.T @ residual / 80, reg.terms.l1, float(reg.terms.l2), 0.5 * float(residual @ residual) / 80
    )
    assert guess == pytest.approx(proved.gap, rel=0.02)


@pytest.mark.parametrize(
    ("risk", "reg", "need"),
    [
        (LinearRisk(np.eye(2), np.ones(2), Squared()), L2(0.1), "L1 or ElasticNet"),
        (LinearRisk(np.eye(2), np.ones(2), Hinge()), L1(0.1), "smooth loss"),
        (LinearRisk(sp.eye_array(2, format="csr"), np.ones(2), Squared()), L1(0.1), "X as an array"),
        (LinearRisk(np.ones((300, 300)), np.ones(300), Squared()), L1(0.1), "small problems"),
    ],
)
def test_what_does_not_fit_is_refused(risk, reg, need):
    with pytest.raises(CapabilityError, match=need):
        minimize(risk, reg, ProximalNewton())
