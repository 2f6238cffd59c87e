"""Progressive hedging for kernel machines: as published, certified, and in agreement with other solvers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.kernel_problems import machine, solver_over

from undercut import L2, Hinge, LinearRisk, Status, Stop, minimize
from undercut.errors import CapabilityError, DataError, ParameterError
from undercut.maps.gram import DenseGram, TiledGram
from undercut.regularizers import KernelNorm
from undercut.risks import GramRisk
from undercut.solvers import KernelHedging, PairDescent

PAPER = KernelHedging(c=5.0, adaptive=False, relaxation=1.0, intercept_weight=1.0)
SCENARIOS = [None, 1, 2, 7, 60]
every_division = pytest.mark.parametrize("blocks", SCENARIOS)


def states(solver, problem, n_steps, w0=None):
    risk, reg = problem.parts()
    state = solver.init(risk, reg, np.zeros(risk.n_params) if w0 is None else w0)
    yield state
    for _ in range(n_steps):
        state = solver.step(risk, reg, state)
        yield state


def definition_2(K, y, C, c, n_steps):
    """Definition 2 with its bracket where Eqs. 10 and 11 put it; C as in the paper, n times the usual one."""
    n = y.size
    omega, pi_A, pi_B, beta, b = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), 0.0
    g = np.diag(K)
    d = 1.0 / (g / (1.0 + c) + 1.0 / c)
    for _ in range(n_steps):
        omega_A = (c * omega - pi_A) / (1.0 + c)
        alpha = np.clip(d * (y * (g * pi_B / (1.0 + c) - K @ omega_A + beta / c - b) + 1.0), 0.0, C)
        omega_B = (y * alpha - pi_B) / (1.0 + c)
        last, last_b = omega, b
        omega = omega_A + omega_B / n
        pi_A, pi_B = pi_A - c / n * omega_B, pi_B + c * omega_B
        b_own = (y * alpha - beta) / c + b
        b = b_own.mean()
        beta = beta + c * (b_own - b)
        deltas = [
            (omega - last) @ K @ (omega - last),
            g @ omega_B**2 / n - omega_B @ K @ omega_B / n**2,
            (b - last_b) ** 2,
            np.mean((b_own - b) ** 2),
        ]
        yield omega, b, pi_B, beta, sum(deltas), g @ omega_B**2 / n


@pytest.mark.parametrize("c", [0.3, 5.0, 80.0])
def test_iterates_are_those_of_definition_2(c):
    problem = machine()
    published = definition_2(problem.K, problem.y, problem.y.size * problem.C, c, 30)
    ours = states(replace(PAPER, c=c, epsilon=1e-300), problem, 30)
    next(ours)
    for (omega, b, pi_B, beta, exact, approximate), state in zip(published, ours, strict=True):
        agreed = state.consensus
        np.testing.assert_allclose(agreed.center.coef, omega, atol=1e-10)
        np.testing.assert_allclose(agreed.dual.coef, pi_B, atol=1e-8)
        np.testing.assert_allclose(agreed.dual_b - agreed.dual_b.mean(), beta, atol=1e-8)
        assert agreed.center_b == pytest.approx(b, abs=1e-10)
        assert state.residuals.exact == pytest.approx(exact, rel=1e-8, abs=1e-12)
        assert state.residuals.approximate == pytest.approx(approximate, rel=1e-8, abs=1e-12)


def test_scores_follow_the_coefficients():
    problem = machine()
    *_, last = states(KernelHedging(blocks=7), problem, 40)
    for expansion in (last.consensus.center, last.consensus.dual, last.pull):
        np.testing.assert_allclose(expansion.scores, problem.K @ expansion.coef, atol=1e-9)
        np.testing.assert_allclose(expansion.own, last.scenarios.own(expansion.coef), atol=1e-9)


def test_blocks_of_one_sample_are_samples():
    problem = machine()
    exact = replace(PAPER, accuracy=1e-12)
    for samples, blocks in zip(states(PAPER, problem, 30), states(replace(exact, blocks=60), problem, 30), strict=True):
        np.testing.assert_allclose(blocks.consensus.center.coef, samples.consensus.center.coef, atol=1e-7)
        assert blocks.consensus.center_b == pytest.approx(samples.consensus.center_b, abs=1e-7)


def distances(solver, problem, n_steps):
    """delta_c of Proposition 2, the intercept included, to the point where a long run ends."""
    n, c, K = solver.blocks or problem.y.size, solver.c, problem.K
    *_, limit = states(solver, problem, 20 * n_steps)
    for state in states(solver, problem, n_steps):
        agreed, end = state.consensus, limit.consensus
        w = agreed.center.coef - end.center.coef
        u = agreed.dual.coef - end.dual.coef
        own = state.scenarios.own(u)
        t = agreed.dual_b - end.dual_b
        mu = u @ own / n - u @ K @ u / n**2
        squared = w @ K @ w + (agreed.center_b - end.center_b) ** 2 + (mu + np.var(t)) / c**2
        yield math.sqrt(max(squared, 0.0))


@pytest.mark.parametrize("relaxation", [1.0, 1.8])
@pytest.mark.parametrize("c", [1.0, 5.0])
@pytest.mark.parametrize("blocks", [None, 4])
def test_the_distance_to_the_limit_decreases_at_every_step(relaxation, c, blocks):
    """Proposition 2."""
    solver = replace(PAPER, c=c, relaxation=relaxation, blocks=blocks, accuracy=1e-10)
    away = np.array(list(distances(solver, machine(n=40), 100)))
    away = away[away > 1e-6 * away[0]]
    assert away.size > 20
    assert (np.diff(away) < 0.0).all()


def test_the_rate_is_linear():
    """Proposition 3: once the active bounds are found, each step leaves at most a fixed share of the distance."""
    away = np.array(list(distances(replace(PAPER, relaxation=1.8), machine(n=20), 250)))
    shares = away[1:] / away[:-1]
    assert shares.max() < 1.0
    assert shares[100:].max() < 0.96
    assert np.ptp(shares[100:]) < 1e-3


@every_division
@pytest.mark.parametrize("C", [0.05, 1.0, 50.0])
def test_agrees_with_libsvm(blocks, C):
    problem = machine(C=C)
    result = minimize(*problem.parts(), solver_over(blocks), stop=Stop(gap_rel=1e-7, max_steps=20_000))
    assert result.status is Status.CONVERGED
    svc, (risk, _) = problem.svc(), problem.parts()
    decisions = risk.scores(result.w) + risk.intercept(result.w)
    np.testing.assert_allclose(decisions, svc.decision_function(problem.X), atol=2e-2)
    x = np.zeros(problem.y.size)
    x[svc.support_] = svc.dual_coef_[0]
    theirs = (
        0.5 * problem.lam * x @ problem.K @ x
        + np.maximum(0.0, 1.0 - problem.y * svc.decision_function(problem.X)).mean()
    )
    assert result.objective <= theirs * (1.0 + 1e-6)
    assert result.lower_bound <= theirs


@every_division
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_bounds_bracket_the_known_optimum(blocks, fit_intercept, C):
    problem = machine(n=30, C=C, fit_intercept=fit_intercept)
    optimum = problem.optimum()
    stop = Stop(gap_rel=1e-5, max_steps=30_000)
    result = minimize(*problem.parts(), solver_over(min(blocks, 30) if blocks else None), stop=stop)
    assert result.status is Status.CONVERGED
    assert result.certificate == "global"
    assert result.lower_bound <= optimum * (1.0 + 1e-6)
    assert result.objective >= optimum * (1.0 - 1e-6)
    assert result.objective == pytest.approx(optimum, rel=1e-4)


@pytest.mark.parametrize("lam", [1e-9, 1e-6, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("blocks", [None, 1, 5])
def test_the_bracket_holds_at_every_step_and_lambda(lam, blocks):
    risk, _ = machine().parts()
    result = minimize(risk, KernelNorm(lam, risk.gram), solver_over(blocks), stop=Stop(max_steps=300))
    exact = minimize(risk, KernelNorm(lam, risk.gram), PairDescent(), stop=Stop(gap_rel=1e-9, max_steps=30))
    slack = 1e-9 + 1e-6 * exact.objective
    for row in result.trace:
        assert row.lower_bound <= exact.objective + slack
        assert row.objective >= exact.lower_bound - slack
    bounds = [row.lower_bound for row in result.trace]
    assert bounds == sorted(bounds)
    assert risk.value(result.w) + KernelNorm(lam, risk.gram).value(result.w) == pytest.approx(result.objective)


@pytest.mark.parametrize("c", [0.1, 1.0, 1000.0])
@pytest.mark.parametrize("blocks", [None, 4])
def test_any_first_c_ends_near_the_same(c, blocks):
    problem = machine(n=200)
    stop = Stop(gap_rel=1e-3, max_steps=5000)
    default = minimize(*problem.parts(), solver_over(blocks), stop=stop)
    other = minimize(*problem.parts(), KernelHedging(blocks=blocks, c=c), stop=stop)
    assert other.status is Status.CONVERGED
    assert other.n_steps <= 3 * default.n_steps + 20


@pytest.mark.parametrize("blocks", [None, 1, 4])
def test_a_warm_start_continues(blocks):
    problem, solver = machine(n=100), solver_over(blocks)
    first = minimize(*problem.parts(), solver, stop=Stop(gap_rel=1e-6, max_steps=10_000))
    again = minimize(*problem.parts(), solver, w0=first.w, stop=Stop(gap_rel=1e-4))
    assert again.status is Status.CONVERGED
    assert again.n_steps <= 0.2 * first.n_steps + 1


def test_a_start_outside_the_box_is_no_harm():
    problem = machine()
    w0 = 1e3 * np.random.default_rng(0).standard_normal(60)
    result = minimize(*problem.parts(), KernelHedging(blocks=4), w0=w0, stop=Stop(max_steps=3000))
    assert result.objective == pytest.approx(problem.optimum(), rel=2e-3)


@pytest.mark.parametrize("criterion", ["exact", "approximate"])
@pytest.mark.parametrize("blocks", [None, 4])
def test_a_criterion_of_the_paper_ends_a_run(criterion, blocks):
    problem = machine()
    solver = KernelHedging(blocks=blocks, epsilon=1e-10, criterion=criterion)
    result = minimize(*problem.parts(), solver, stop=Stop(gap_rel=0.0, max_steps=20_000))
    assert result.status is Status.SETTLED
    assert result.gap <= 1e-3 * result.objective
    loose = minimize(*problem.parts(), replace(solver, epsilon=1e-4), stop=Stop(gap_rel=0.0, max_steps=20_000))
    assert loose.n_steps < result.n_steps


@every_division
def test_sample_weights_count_samples(blocks):
    problem = machine(n=60)
    repeats = np.random.default_rng(1).integers(0, 3, 60)
    rows = np.repeat(np.arange(60), repeats)
    gram = DenseGram(problem.K)
    weighted = GramRisk(gram, problem.y, sample_weight=repeats)
    repeated = GramRisk(problem.K[np.ix_(rows, rows)], problem.y[rows])
    stop = Stop(gap_rel=1e-6, max_steps=20_000)
    one = minimize(weighted, KernelNorm(1e-2, gram), solver_over(blocks), stop=stop)
    two = minimize(repeated, KernelNorm(1e-2, repeated.gram), KernelHedging(blocks=2), stop=stop)
    assert one.objective == pytest.approx(two.objective, rel=1e-5)
    assert not one.w[repeats == 0].any()


@pytest.mark.parametrize("blocks", [None, 1, 4])
def test_single_precision_and_tiles_solve_the_same_problem(blocks):
    problem = machine(n=100)
    stop = Stop(gap_rel=1e-4, max_steps=5000)
    exact = minimize(*problem.parts(), solver_over(blocks), stop=stop)
    single = minimize(*problem.parts(DenseGram(problem.K.astype(np.float32))), solver_over(blocks), stop=stop)
    tiled = TiledGram(lambda X, Z: np.exp(-0.5 * ((X[:, None] - Z) ** 2).sum(2)), problem.X, tile_bytes=4000)
    recomputed = minimize(*problem.parts(tiled), solver_over(blocks), stop=stop)
    for other in (single, recomputed):
        assert other.status is Status.CONVERGED
        assert other.objective == pytest.approx(exact.objective, rel=2e-4)


def test_zero_rows_of_a_linear_kernel_are_no_trouble():
    X = np.array([[1.0, 0.0], [0.0, 0.0], [-1.0, 0.5], [0.0, 0.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    for fit_intercept in (True, False):
        risk = GramRisk(X @ X.T, y, fit_intercept=fit_intercept)
        linear = minimize(LinearRisk(X, y, Hinge(), fit_intercept=fit_intercept), L2(0.1), stop=Stop(gap_rel=1e-8))
        for blocks in (None, 1, 2, 4):
            result = minimize(risk, KernelNorm(0.1, risk.gram), solver_over(blocks), stop=Stop(gap_rel=1e-6))
            assert result.objective == pytest.approx(linear.objective, rel=1e-5)


def test_results_do_not_depend_on_the_run():
    problem = machine(n=100)
    runs = [minimize(*problem.parts(), KernelHedging(blocks=4)) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].w, runs[1].w)


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"blocks": 1}, "`blocks` must be at least 2, .* for the whole problem use PairDescent; got 1"),
        ({"c": 0.0}, "`c` must be positive"),
        ({"c": math.nan}, "`c` must be positive"),
        ({"relaxation": 2.0}, "`relaxation` must be between 0 and 2"),
        ({"intercept_weight": -1.0}, "`intercept_weight` must be positive"),
        ({"accuracy": 0.0}, "`accuracy` must be positive"),
        ({"epsilon": -1.0}, "`epsilon` must be non-negative"),
        ({"criterion": "some"}, "`criterion` must be 'exact' or 'approximate'; got 'some'"),
    ],
)
def test_settings_outside_their_domain_are_refused(settings, rule):
    with pytest.raises(ParameterError, match=rule):
        KernelHedging(**settings)


def test_other_problems_are_refused_with_the_remedy():
    risk, reg = machine().parts()
    linear = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge())
    with pytest.raises(CapabilityError, match="make it a GramRisk"):
        minimize(linear, L2(1.0), KernelHedging())
    with pytest.raises(CapabilityError, match=r"use KernelNorm\(lam, risk.gram\)"):
        minimize(risk, L2(1.0), KernelHedging())
    with pytest.raises(CapabilityError, match="norm of the risk's own kernel"):
        minimize(risk, KernelNorm(1.0, DenseGram(np.eye(60))), KernelHedging())
    with pytest.raises(ParameterError, match="`blocks` must be at most 60 samples; got 61"):
        minimize(risk, reg, KernelHedging(blocks=61))
    with pytest.raises(DataError, match=r"both classes, -1 and \+1; got only \+1"):
        GramRisk(np.eye(3), np.ones(3))
    with pytest.raises(ParameterError, match="`lam` must be positive"):
        KernelNorm(0.0, risk.gram)


@pytest.mark.parametrize("blocks", [1, 4])
def test_a_gap_of_zero_ends_where_certificates_bring_nothing(blocks):
    stop = Stop(gap_rel=0.0, max_seconds=60.0)
    result = minimize(*machine().parts(), solver_over(blocks), stop=stop)
    assert result.status in (Status.STALLED, Status.CONVERGED)
    assert result.gap <= 1e-6 * result.objective


def test_a_limit_reached_together_with_the_gap_is_convergence():
    parts = machine().parts()
    enough = minimize(*parts, KernelHedging(blocks=4), stop=Stop(gap_rel=1e-4)).n_steps
    for max_steps in range(enough - 5, enough):
        result = minimize(*parts, KernelHedging(blocks=4), stop=Stop(gap_rel=1e-4, max_steps=max_steps))
        assert (result.status is Status.CONVERGED) == (result.gap <= 1e-4 * result.objective)


@pytest.mark.parametrize("blocks", [None, 1, 4])
def test_a_warm_start_is_valued_in_double_precision(blocks):
    problem = machine(n=100, C=1e4)
    gram = DenseGram.of(lambda X, Z: np.exp(-0.5 * ((X[:, None] - Z) ** 2).sum(2)), problem.X, np.float32)
    w0 = minimize(*problem.parts(), PairDescent(), stop=Stop(gap_rel=1e-6)).w
    risk, reg = problem.parts(gram)
    start = solver_over(blocks).init(risk, reg, w0).progress.objective
    exact, norm = problem.parts()
    assert start == pytest.approx(exact.value(w0) + norm.value(w0), rel=1e-12)
