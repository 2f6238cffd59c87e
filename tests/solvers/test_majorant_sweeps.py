"""Dual sweeps on hinge majorants, beside bundles that know nothing of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from undercut import L1, L2, Hinge, LinearRisk, MultivariateRisk, Stop, minimize
from undercut.errors import CapabilityError, ParameterError
from undercut.measures import FBeta, Matthews
from undercut.selection.warm import WarmRuns
from undercut.solvers import LevelBundle, MajorantSweeps, Relay, ScoreBundle
from undercut.solvers.auto import resolve
from undercut.trace import Status


def problem(seed=0, n=60, d=150, measure="f1", fit_intercept=True, density=0.2, share=1.0):
    rng = np.random.default_rng(seed)
    X = sp.csr_matrix(rng.standard_normal((n, d)) * (rng.random((n, d)) < density))
    y = np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > share, 1.0, -1.0)
    y[0] = 1.0
    return MultivariateRisk(X, y, measure, fit_intercept=fit_intercept)


intercepts = pytest.mark.parametrize("fit_intercept", [False, True], ids=["no intercept", "intercept"])


@intercepts
@pytest.mark.parametrize("measure", ["f1", "f0.5", "f2", "balanced_error"])
@pytest.mark.parametrize("lam", [1e-2, 1e-4, 1e-6])
def test_bounds_bracket_the_optimum_that_bundles_find(measure, lam, fit_intercept):
    risk, reg = problem(measure=measure, fit_intercept=fit_intercept), L2(lam)
    ours = minimize(risk, reg, MajorantSweeps(), stop=Stop(gap_rel=1e-2, max_steps=60))
    other = minimize(risk, reg, LevelBundle(), stop=Stop(gap_rel=1e-4, max_steps=600))
    assert ours.objective == pytest.approx(reg.value(ours.w) + risk.value(ours.w), rel=1e-9)
    assert ours.lower_bound <= other.objective * (1 + 1e-9)
    assert other.lower_bound <= ours.objective * (1 + 1e-9)
    assert ours.gap <= 0.1 * ours.objective


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    n=st.integers(2, 15),
    d=st.integers(1, 12),
    lam=st.sampled_from([1e-9, 1e-6, 1e-3, 1.0, 1e3]),
    fit_intercept=st.booleans(),
    flaw=st.sampled_from(["none", "empty rows", "equal rows", "constant feature", "one class"]),
)
def test_no_bound_is_above_an_objective(seed, n, d, lam, fit_intercept, flaw):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), np.where(rng.random(n) < 0.4, 1.0, -1.0)
    y[0] = 1.0
    if flaw == "empty rows":
        X[: n // 2] = 0.0
    elif flaw == "equal rows":
        X[1:] = X[0]
    elif flaw == "constant feature":
        X[:, 0] = 1.0
    elif flaw == "one class":
        y[:] = 1.0
    risk, reg = MultivariateRisk(X, y, "f1", fit_intercept=fit_intercept), L2(lam)
    ours = minimize(risk, reg, MajorantSweeps(), stop=Stop(gap_rel=1e-3, max_steps=25))
    other = minimize(risk, reg, LevelBundle(), stop=Stop(gap_rel=1e-3, max_steps=100))
    assert np.isfinite(ours.w).all()
    assert ours.objective == pytest.approx(reg.value(ours.w) + risk.value(ours.w), rel=1e-8, abs=1e-12)
    assert ours.lower_bound <= other.objective * (1 + 1e-8) + 1e-12
    assert other.lower_bound <= ours.objective * (1 + 1e-8) + 1e-12


@intercepts
def test_small_lambda_is_certified_where_planes_are_many(fit_intercept):
    risk, reg = problem(1, n=400, d=2000, density=0.02, fit_intercept=fit_intercept), L2(1e-7)
    ours = minimize(risk, reg, MajorantSweeps(), stop=Stop(gap_rel=1e-2, max_steps=150))
    assert ours.status is Status.CONVERGED
    assert minimize(risk, reg, ScoreBundle(), stop=Stop(gap_rel=1e-2, max_steps=150)).status is Status.MAX_STEPS


def test_the_bound_rises_and_the_objective_falls():
    trace = minimize(problem(2), L2(1e-5), MajorantSweeps(), stop=Stop(gap_rel=1e-3, max_steps=40)).trace
    assert all(np.diff([row.lower_bound for row in trace]) >= 0.0)
    assert all(np.diff([row.objective for row in trace]) <= 0.0)


def test_a_run_with_another_lambda_goes_on_from_the_last_one():
    risk = problem(3, n=300, d=1000, density=0.03)
    carried = WarmRuns(risk, MajorantSweeps())
    for lam in (1e-4, 5e-5, 2e-5):
        result = carried(L2(lam))
        alone = minimize(risk, L2(lam), MajorantSweeps())
        assert result.lower_bound <= alone.objective * (1 + 1e-9)
        assert alone.lower_bound <= result.objective * (1 + 1e-9)


def test_the_balanced_error_is_a_hinge_risk():
    risk = problem(4, measure="balanced_error", fit_intercept=False)
    y = risk.y
    weight = np.where(y > 0.0, 0.5 / (y > 0.0).sum(), 0.5 / (y < 0.0).sum())
    hinge = LinearRisk(risk.design, y, Hinge(), sample_weight=weight)
    ours = minimize(risk, L2(1e-3), MajorantSweeps(), stop=Stop(gap_rel=1e-4, max_steps=200))
    other = minimize(hinge, L2(1e-3), stop=Stop(gap_rel=1e-6))
    assert ours.objective == pytest.approx(other.objective, rel=1e-3)


def test_auto_takes_it_at_small_lambda_on_wide_sparse_data_alone():
    risk = problem(5, n=200, d=1000)
    row = Relay(candidates=(MajorantSweeps(), ScoreBundle()))
    assert resolve("auto", risk, L2(1e-5)) == row
    assert resolve("auto", risk, L2(10.0)) == ScoreBundle()
    dense = MultivariateRisk(risk.design.rows().values[:600].reshape(20, 30), np.resize([1.0, -1.0], 20), "f1")
    assert resolve("auto", dense, L2(1e-7)) != row
    assert resolve("auto", MultivariateRisk(risk.design, risk.y, Matthews()), L2(1e-5)) == ScoreBundle()


@pytest.mark.parametrize(
    ("make", "reg", "message"),
    [
        (lambda: problem(measure=Matthews()), L2(0.1), "FBeta or BalancedError; got Matthews: use LevelBundle"),
        (lambda: LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge()), L2(0.1), "got LinearRisk"),
        (problem, L1(0.1), "needs L2 without"),
        (problem, L2(0.1, weights=np.ones(150)), "needs L2 without"),
    ],
    ids=["matthews", "hinge", "l1", "weights"],
)
def test_what_does_not_fit_is_refused(make, reg, message):
    with pytest.raises(CapabilityError, match=message):
        minimize(make(), reg, MajorantSweeps())


def test_passes_must_be_positive():
    with pytest.raises(ParameterError, match="`passes` must be positive"):
        MajorantSweeps(passes=0.0)


def test_a_start_elsewhere_is_used(rng):
    risk, w0 = problem(6), rng.standard_normal(150)
    begun = MajorantSweeps().init(risk, L2(1e-4), w0)
    assert begun.progress.objective == pytest.approx(L2(1e-4).value(w0) + risk.value(w0))
    assert isinstance(risk.measure, FBeta)
