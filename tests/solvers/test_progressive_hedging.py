"""Progressive hedging over shards of any convex risk."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.catalogue import Problem
from tests.regularizers.cases import Shifted

from undercut import (
    L2,
    Absolute,
    ElasticNet,
    FunctionRisk,
    Hinge,
    LinearRisk,
    Logistic,
    Ramp,
    Squared,
    Status,
    Stop,
    minimize,
)
from undercut.errors import CapabilityError, DataError, ParameterError
from undercut.maps.gram import DenseGram
from undercut.regularizers import Boxed, Entropy, KernelNorm, Proximal, Quadratic, SquaredLp
from undercut.risks import GramRisk, ShardedRisk
from undercut.risks.combined.tilted import TiltedRisk
from undercut.risks.scores.bias import joint, priced, slope_range
from undercut.solvers import (
    AsynchronousHedging,
    ClassicBundle,
    CuttingPlane,
    KernelHedging,
    LevelBundle,
    ProgressiveHedging,
)
from undercut.testing import check_certificate, check_risk

EXACT = ProgressiveHedging(adaptive=False, relaxation=1.0, accuracy=1e-12)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((24, 3))
    return X, np.where(X[:, 0] + 0.7 * rng.standard_normal(24) > 0.0, 1.0, -1.0)


def states(solver, risk, reg, n_steps):
    state = replace(solver.init(risk, reg, np.zeros(risk.n_params)), tol=1e-13)
    for _ in range(n_steps):
        yield state
        state = solver.step(risk, reg, state)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared", "absolute"])
@pytest.mark.parametrize("n_shards", [1, 2, 5])
@pytest.mark.parametrize("lam", [1.0, 1e-3])
def test_bounds_bracket_the_optimum_of_any_convex_risk(loss, n_shards, lam):
    problem = Problem(loss)
    risk = problem.risk()
    known = minimize(risk, L2(lam), stop=Stop(gap_rel=1e-8))
    result = minimize(
        ShardedRisk.of(risk, n_shards), L2(lam), ProgressiveHedging(), stop=Stop(gap_rel=1e-2, max_steps=500)
    )
    assert result.status is Status.CONVERGED
    assert result.certificate == "global"
    slack = 1e-7 * abs(known.objective)
    for row in result.trace:
        assert row.lower_bound <= known.objective + slack
        assert row.objective >= known.lower_bound - slack


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize(
    "reg",
    [ElasticNet(0.05, 0.5), Entropy(0.05), SquaredLp(0.05, 1.5), Quadratic(0.05, 2.0 * np.eye(4)), Boxed(L2(0.05))],
)
def test_bounds_bracket_the_optimum_under_any_strongly_convex_regularizer(loss, reg):
    risk = Problem(loss).risk()
    if isinstance(reg, Quadratic):
        reg = Quadratic(0.05, 2.0 * np.eye(risk.n_params))
    known = minimize(risk, reg, stop=Stop(gap_rel=1e-7, max_steps=2000))
    result = minimize(ShardedRisk.of(risk, 3), reg, ProgressiveHedging(), stop=Stop(gap_rel=1e-2, max_steps=300))
    assert result.status is Status.CONVERGED
    slack = 1e-6 * abs(known.objective)
    for row in result.trace:
        assert row.lower_bound <= known.objective + slack
        assert row.objective >= known.lower_bound - slack


@pytest.mark.parametrize("solver", [ProgressiveHedging(), AsynchronousHedging()])
@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Absolute(), Squared()])
@pytest.mark.parametrize("reg", [L2(0.05), ElasticNet(0.05, 0.5)])
def test_bounds_bracket_the_optimum_with_an_intercept_that_shards_share(solver, loss, reg):
    """A free bias in Definition 1."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((40, 3)) + 0.5
    y = X[:, 0] + 1.0 + 0.5 * rng.standard_normal(40)
    y = np.sign(y - 1.4) if isinstance(loss, Hinge | Logistic) else y
    risk = LinearRisk(X, y, loss, fit_intercept=True, sample_weight=rng.uniform(0.5, 2.0, 40))
    known = minimize(risk, reg, stop=Stop(gap_rel=1e-7, max_steps=2000))
    result = minimize(ShardedRisk.of(risk, 3), reg, solver, stop=Stop(gap_rel=2e-2, max_steps=200))
    assert result.status is Status.CONVERGED
    assert result.certificate == "global"
    slack = 1e-6 * abs(known.objective)
    for row in result.trace:
        assert row.lower_bound <= known.objective + slack
        assert row.objective >= known.lower_bound - slack


def test_a_shard_of_one_class_keeps_the_bound_finite(data):
    """The intercept of its program alone is unbounded: its price must be zero or more."""
    X, y = data
    order = np.argsort(y, kind="stable")
    whole = LinearRisk(X, y, Hinge(), fit_intercept=True)
    shards = ShardedRisk([whole.part(rows) for rows in np.array_split(order, 4)])
    known = minimize(whole, L2(0.1), stop=Stop(gap_rel=1e-7))
    result = minimize(shards, L2(0.1), ProgressiveHedging(), stop=Stop(gap_rel=1e-2, max_steps=200))
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= known.objective + 1e-9


def test_a_priced_intercept_is_minimized_out():
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((20, 2)), np.where(rng.random(20) > 0.4, 1.0, -1.0)
    w = rng.standard_normal(2)
    for loss in (Hinge(), Logistic()):
        part = LinearRisk(X, y, loss)
        low, high = slope_range(part)
        for beta in (-0.9 * high, -0.5 * low):
            risk, tilt, constant = priced(part, beta)
            grid = [joint(part).value(np.append(w, b)) + beta * b for b in np.linspace(-6.0, 6.0, 4001)]
            assert risk.value(w) + tilt @ w + constant == pytest.approx(min(grid), abs=2e-3)
            assert risk.value(w) + tilt @ w + constant <= min(grid) + 1e-12


def test_asynchronous_hedging_has_no_setting_that_its_theory_excludes():
    with pytest.raises(TypeError, match="adaptive"):
        AsynchronousHedging(adaptive=True)
    with pytest.raises(ParameterError, match="`relaxation` must be between 0 and 2"):
        AsynchronousHedging(relaxation=2.0)


def test_a_tilted_risk_is_a_risk():
    risk = Problem("hinge").risk()
    rng = np.random.default_rng(0)
    for tau in (0.0, 0.7):
        check_risk(TiltedRisk(risk, rng.standard_normal(risk.n_params), tau, rng.standard_normal(risk.n_params)))


@pytest.mark.parametrize("blocks", [24, 4])
def test_the_generic_and_the_kernel_form_agree_at_every_step(data, blocks):
    """On a linear kernel without intercept: the same w and the same prices."""
    X, y = data
    lam, c = 0.05, 4.0
    order = np.argsort(y, kind="stable")
    rows = [np.sort(order[at::blocks]) for at in range(blocks)]
    whole = LinearRisk(X, y, Hinge())
    sharded = ShardedRisk([whole.batch(each) for each in rows], [each.size for each in rows])
    generic = states(replace(EXACT, c=lam * c), sharded, L2(lam), 25)

    risk = GramRisk(DenseGram(X @ X.T), y, fit_intercept=False)
    kernel = KernelHedging(blocks=blocks, c=c, adaptive=False, relaxation=1.0, accuracy=1e-12)
    state = kernel.init(risk, KernelNorm(lam, risk.gram), np.zeros(24))
    state = replace(state, tol=1e-12)
    for at, other in enumerate(generic):
        agreed = state.consensus
        np.testing.assert_allclose(other.center, X.T @ agreed.center.coef, atol=1e-6, err_msg=f"step {at}")
        pulls = [X[each].T @ agreed.dual.coef[each] for each in rows]
        prices = lam * (np.array(pulls) - X.T @ agreed.dual.coef / blocks)
        np.testing.assert_allclose(other.dual, prices, atol=1e-6, err_msg=f"step {at}")
        state = kernel.step(risk, KernelNorm(lam, risk.gram), state)


@pytest.mark.parametrize("relaxation", [1.0, 1.8])
def test_the_distance_to_the_limit_decreases_at_every_step(data, relaxation):
    """Proposition 2."""
    risk, c = ShardedRisk.of(LinearRisk(*data, Logistic()), 4), 0.5
    solver = replace(EXACT, c=c, relaxation=relaxation)
    run = list(states(solver, risk, L2(0.1), 120))
    end, away = run[-1], []
    for state in run[:50]:
        w, mu = state.center - end.center, state.dual - end.dual
        away.append(math.sqrt(w @ w + np.mean((mu**2).sum(axis=1)) / c**2))
    away = np.array(away)[np.array(away) > 1e-5 * away[0]]
    assert away.size > 10
    assert (np.diff(away) < 0.0).all()


def test_prices_balance_and_sum_to_zero(data):
    risk = ShardedRisk.of(LinearRisk(*data, Hinge()), 5)
    for state in states(ProgressiveHedging(), risk, L2(0.1), 20):
        np.testing.assert_allclose(risk.weights @ state.dual, 0.0, atol=1e-12)


def test_one_shard_is_one_exact_solve(data):
    risk = ShardedRisk.of(LinearRisk(*data, Hinge()), 1)
    assert minimize(risk, L2(0.1), ProgressiveHedging(), stop=Stop(gap_rel=1e-2)).n_steps <= 3


@pytest.mark.parametrize("criterion", ["exact", "approximate"])
def test_a_criterion_of_the_paper_ends_a_run(data, criterion):
    risk = ShardedRisk.of(LinearRisk(*data, Logistic()), 3)
    solver = ProgressiveHedging(epsilon=1e-8, criterion=criterion)
    result = minimize(risk, L2(0.1), solver, stop=Stop(gap_rel=0.0, max_steps=500))
    assert result.status is Status.SETTLED
    assert result.gap <= 1e-2 * result.objective


@pytest.mark.parametrize("c", [1e-3, 1e2])
def test_c_is_found_from_anywhere(data, c):
    risk = ShardedRisk.of(LinearRisk(*data, Hinge()), 4)
    result = minimize(risk, L2(0.05), ProgressiveHedging(c=c), stop=Stop(max_steps=300))
    assert result.status is Status.CONVERGED


def test_shards_of_a_risk_are_the_risk(data):
    X, y = data
    whole = LinearRisk(X, y, Hinge(), sample_weight=np.arange(24))
    for n_shards in (1, 5, 24):
        risk = ShardedRisk.of(whole, n_shards)
        check_risk(risk)
        w = np.random.default_rng(1).standard_normal(3)
        assert risk.value(w) == pytest.approx(whole.value(w))
        np.testing.assert_allclose(risk.cut(w).a, whole.cut(w).a)


def test_shards_that_do_not_fit_are_refused(data):
    with pytest.raises(DataError, match="at least one shard"):
        ShardedRisk([])
    with pytest.raises(DataError, match="same parameters; partition 1 has 3, and partition 0 has 2"):
        ShardedRisk([FunctionRisk(lambda w: (0.0, 0.0 * w), n_params=n) for n in (2, 3)])
    with pytest.raises(CapabilityError, match="append a constant feature"):
        ShardedRisk.of(FunctionRisk(lambda w: (0.0, 0.0 * w), n_params=2), 2)
    with pytest.raises(ParameterError, match="`n_shards` must be between 1 and 24; got 25"):
        ShardedRisk.of(LinearRisk(*data, Hinge()), 25)


def test_problems_that_do_not_fit_are_refused(data):
    with pytest.raises(CapabilityError, match=r"needs a ShardedRisk; got .*: use ShardedRisk.of"):
        minimize(LinearRisk(*data, Hinge()), L2(1.0), ProgressiveHedging())
    with pytest.raises(CapabilityError, match="needs a convex risk"):
        minimize(ShardedRisk.of(LinearRisk(*data, Ramp()), 2), L2(1.0), ProgressiveHedging())


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"c": -1.0}, "`c` must be positive"),
        ({"relaxation": 0.0}, "`relaxation` must be between 0 and 2"),
        ({"accuracy": 0.0}, "`accuracy` must be positive"),
        ({"epsilon": -1.0}, "`epsilon` must be non-negative"),
        ({"criterion": "any"}, "`criterion` must be"),
    ],
)
def test_settings_outside_their_domain_are_refused(settings, rule):
    with pytest.raises(ParameterError, match=rule):
        ProgressiveHedging(**settings)


def test_a_shard_that_overflows_ends_the_run(data):
    broken = FunctionRisk(lambda w: (math.nan, w), n_params=3)
    result = minimize(ShardedRisk([LinearRisk(*data, Hinge()), broken]), L2(1.0), ProgressiveHedging())
    assert result.status is Status.NONFINITE


def test_an_interrupt_inside_a_program_stops_the_run(data):
    calls = []

    def fun(w):
        calls.append(w)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return float(np.abs(w - 1.0).sum()), np.sign(w - 1.0)

    risk = ShardedRisk([LinearRisk(*data, Hinge()), FunctionRisk(fun, n_params=3, lower_bound=0.0)])
    result = minimize(risk, L2(1e-3), ProgressiveHedging(), stop=Stop(gap_rel=0.0))
    assert result.status is Status.STOPPED
    assert len(calls) == 20


def test_a_proximal_term_completes_the_square():
    rng = np.random.default_rng(0)
    center, tilt = rng.standard_normal((2, 4))
    for reg in (L2(0.3), L2(0.3, center=rng.standard_normal(4), weights=rng.uniform(0.5, 2.0, 4))):
        for tau in (0.0, 0.7):
            proximal = Proximal.of(reg, center, tau, tilt)
            w = rng.standard_normal(4)
            by_hand = reg.value(w) + tilt @ w + 0.5 * tau * (w - center) @ (w - center)
            assert proximal.value(w) == pytest.approx(by_hand)
    with pytest.raises(ParameterError, match="`tau` must be non-negative"):
        Proximal.of(L2(1.0), center, -1.0, tilt)
    with pytest.raises(CapabilityError, match="a proximal term needs an L2 regularizer"):
        Proximal.of(KernelNorm(1.0, DenseGram(np.eye(4))), center, 1.0, tilt)


def test_a_bound_that_an_inner_solver_cannot_give_is_not_taken_for_one():
    problem = Problem("hinge")
    known = minimize(problem.risk(), L2(0.1), stop=Stop(gap_rel=1e-6))
    solver = ProgressiveHedging(inner=ClassicBundle())
    result = minimize(ShardedRisk.of(problem.risk(), 3), L2(0.1), solver, stop=Stop(max_steps=30))
    assert result.lower_bound <= known.objective


def test_shards_without_weight_are_left_out():
    risk = Problem("hinge").risk()
    unbounded = FunctionRisk(lambda w: (float(w.sum()), np.ones_like(w)), risk.n_params)
    sharded = ShardedRisk([risk, unbounded], [1.0, 0.0])
    assert sharded.lower_bound == 0.0
    assert minimize(sharded, L2(0.1), ProgressiveHedging()).status is Status.CONVERGED


def test_a_gap_of_zero_ends_where_certificates_bring_nothing():
    risk = Problem("hinge").risk()
    result = minimize(ShardedRisk.of(risk, 1), L2(0.1), ProgressiveHedging(), stop=Stop(gap_rel=0.0, max_seconds=60))
    assert result.status in (Status.STALLED, Status.CONVERGED)


@pytest.mark.parametrize("solver", [ProgressiveHedging(), LevelBundle(), CuttingPlane()])
def test_a_regularizer_with_a_negative_minimum_is_bounded_by_it(solver):
    X, y = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1.0, -1.0, 1.0])
    whole = LinearRisk(X, y, Hinge())
    risk = ShardedRisk.of(whole, 3)
    result = minimize(risk, Shifted(), solver, stop=Stop(gap_rel=1e-6, max_steps=2000))
    assert result.status is Status.CONVERGED
    assert result.n_steps > 0
    assert result.objective == pytest.approx(
        minimize(whole, L2(1.0), stop=Stop(gap_rel=1e-9)).objective - 5.0, rel=1e-5
    )
    check_certificate(result, risk, Shifted())
