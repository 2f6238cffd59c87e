"""Primal-dual steps for kinked losses with L1: optima, bounds, working sets, refusals."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import (
    L1,
    L2,
    Absolute,
    ElasticNet,
    EpsilonInsensitive,
    Hinge,
    LinearRisk,
    Logistic,
    Quantile,
    Status,
    Stop,
    minimize,
)
from undercut.errors import CapabilityError, ParameterError
from undercut.selection import regularization_path
from undercut.solvers import InteriorPoint, PrimalDual
from undercut.solvers.coordinate import newton_end, primal_dual
from undercut.solvers.coordinate.saddle import Losses

TIGHT = Stop(gap_rel=1e-6, max_steps=100)
LOSSES = [Hinge(), Absolute(), Quantile(0.8), EpsilonInsensitive(0.3)]


def problem(loss, n=80, d=120, *, seed=0, weighted=False, **options):
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.1, rng=rng, format="csr", data_sampler=rng.standard_normal)
    y = X[:, :20] @ rng.standard_normal(20) + 0.3 * rng.standard_normal(n) + 0.5
    y = np.where(y > 0.0, 1.0, -1.0) if isinstance(loss, Hinge) else y
    return LinearRisk(X, y, loss, rng.integers(0, 3, n) if weighted else None, **options)


def largest_lambda(risk):
    return float(np.abs(risk.cut(np.zeros(risk.n_params)).a).max())


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("kind", [L1, ElasticNet])
@pytest.mark.parametrize("share", [0.5, 0.02])
@pytest.mark.parametrize("near_end", [0.0, primal_dual.NEAR_END])
def test_it_agrees_with_interior_points_and_its_bound_holds(
    loss, kind, share, weighted, fit_intercept, near_end, monkeypatch
):
    monkeypatch.setattr(primal_dual, "NEAR_END", near_end)
    risk = problem(loss, weighted=weighted, fit_intercept=fit_intercept)
    reg = kind(share * largest_lambda(risk))
    ours = minimize(risk, reg, PrimalDual(first=10), stop=TIGHT)
    whole = minimize(risk, reg, InteriorPoint(), stop=TIGHT)
    assert ours.status is Status.CONVERGED
    assert ours.objective == pytest.approx(whole.objective, rel=2e-6)
    assert ours.lower_bound <= whole.objective * (1.0 + 1e-9)
    assert ours.objective == pytest.approx(reg.value(ours.w) + risk.value(ours.w), rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_features_join_interior_point_steps_although_squares_make_those_in_use_steeper(loss):
    risk = problem(loss, 300, 2000, fit_intercept=True)
    result = minimize(risk, ElasticNet(0.02 * largest_lambda(risk)), PrimalDual(), stop=TIGHT)
    assert result.status is Status.CONVERGED
    assert result.n_steps <= 40


def test_the_bound_never_decreases_and_the_objective_never_increases():
    trace = minimize(problem(Hinge()), L1(1e-3), PrimalDual(first=5), stop=TIGHT).trace
    assert all(now.lower_bound >= last.lower_bound for last, now in itertools.pairwise(trace))
    assert all(now.objective <= last.objective for last, now in itertools.pairwise(trace))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_scale_of_the_features_hardly_matters(scale):
    plain = problem(Hinge(), fit_intercept=True)
    scaled = LinearRisk(scale * plain.design.X, plain.y, Hinge(), fit_intercept=True)
    lam = 0.02 * largest_lambda(plain)
    first, second = (
        minimize(risk, L1(lam * by), PrimalDual(), stop=TIGHT) for risk, by in ((plain, 1), (scaled, scale))
    )
    assert second.objective == pytest.approx(first.objective, rel=2e-6)
    assert len(second.trace) <= 2 * len(first.trace)


def test_samples_far_from_a_kink_and_features_that_stay_zero_leave_the_working_sets(monkeypatch):
    monkeypatch.setattr(primal_dual, "NEAR_END", 0.0)
    risk = problem(Hinge(), n=2000, d=400, seed=3)
    solver, reg = PrimalDual(), L1(0.1 * largest_lambda(risk))
    state = solver.init(risk, reg, np.zeros(400))
    while state.progress.gap > 1e-6 * state.progress.objective:
        state = solver.step(risk, reg, state)
    used = np.count_nonzero(state.solution)
    assert used <= state.columns.size < 200
    assert state.rows.size < 1000


def test_a_sample_that_has_left_too_early_comes_back(monkeypatch):
    monkeypatch.setattr(primal_dual, "CLOSE", np.inf)  # samples leave from the first step on
    monkeypatch.setattr(primal_dual, "NEAR_END", 0.0)
    risk = problem(Absolute(), n=60, d=200)
    reg = L1(0.001 * largest_lambda(risk))
    result = minimize(risk, reg, PrimalDual(), stop=TIGHT)
    assert result.status is Status.CONVERGED


def stepped(risk, reg, gap=1e-6, limit=200):
    """The states of a run to a relative gap."""
    solver = PrimalDual()
    states = [solver.init(risk, reg, np.zeros(risk.n_params))]
    while states[-1].progress.gap > gap * states[-1].progress.objective and len(states) < limit:
        states.append(solver.step(risk, reg, states[-1]))
    return states


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_interior_point_steps_find_the_last_digits(loss, monkeypatch):
    risk = problem(loss, n=400, d=600, fit_intercept=True)
    reg = L1(0.01 * largest_lambda(risk))
    states = stepped(risk, reg, 1e-7)
    assert states[-1].progress.gap <= 1e-7 * states[-1].progress.objective
    assert sum(state.end is not None for state in states) <= 20
    monkeypatch.setattr(primal_dual, "NEAR_END", 0.0)
    assert len(stepped(risk, reg, 1e-7)) > len(states)


def test_columns_that_interior_point_steps_lack_join_them(monkeypatch):
    monkeypatch.setattr(primal_dual, "NEARER", 1.0)
    monkeypatch.setattr(primal_dual, "NEAR_END", 1.0)
    risk = problem(Hinge(), n=400, d=600)
    reg = L1(0.01 * largest_lambda(risk))
    states = stepped(risk, reg)
    sizes = {state.end.columns.size for state in states if state.end is not None}
    assert len(sizes) > 1
    assert states[-1].progress.gap <= 1e-6 * states[-1].progress.objective
    whole = minimize(risk, reg, InteriorPoint(), stop=TIGHT)
    assert states[-1].progress.lower_bound <= whole.objective * (1.0 + 1e-9)


def test_where_interior_point_steps_are_stuck_the_others_go_on(monkeypatch):
    monkeypatch.setattr(primal_dual, "STUCK", 1.1)
    risk = problem(Hinge())
    states = stepped(risk, L1(0.02 * largest_lambda(risk)))
    assert states[-1].invested > primal_dual.INVESTED
    assert states[-1].progress.gap <= 1e-6 * states[-1].progress.objective


def test_interior_point_steps_are_resumed_identically():
    risk, solver = problem(Hinge(), n=400, d=600, fit_intercept=True), PrimalDual()
    reg = L1(0.01 * largest_lambda(risk))
    state = next(state for state in stepped(risk, reg) if state.end is not None)
    saved = replace(state, saddle=None, end=replace(state.end, program=None))
    once, again = solver.step(risk, reg, state), solver.step(risk, reg, solver.restored(risk, reg, saved))
    assert again.progress == once.progress
    assert np.array_equal(again.v, once.v)


def test_the_start_of_interior_point_steps_is_balanced_and_near_the_point():
    risk = problem(EpsilonInsensitive(0.3), fit_intercept=True)
    reg = L1(0.02 * largest_lambda(risk))
    state = stepped(risk, reg, 1e-9)[-1]
    w, columns = state.solution, np.flatnonzero(state.solution)
    gradient = risk.design.rmatvec(state.v)
    b = risk.phi.intercept(risk.design.matvec(w))
    begun = newton_end.begun(risk, reg, columns, np.append(w[columns], b), state.v, gradient, state.progress.objective)
    program, (t, r, u, v) = begun.program, begun.at.inside
    used = program.kinks.caps > 0.0
    aim = (program.share * program.mu(begun.at.total))[used]
    assert (r * u)[used] == pytest.approx(aim, rel=1e-6)
    assert (t * v)[used] == pytest.approx(aim, rel=1e-6)
    ranges = program.kinks.caps[:, : risk.n_samples].sum(axis=0)
    assert np.abs(begun.slopes - state.v).max() <= 1e-2 * ranges.max()


def test_a_start_at_the_optimum_is_certified_in_few_steps():
    risk = problem(Hinge(), fit_intercept=True)
    reg = L1(0.05 * largest_lambda(risk))
    best = minimize(risk, reg, PrimalDual(), stop=TIGHT)
    again = minimize(risk, reg, PrimalDual(), w0=best.w, stop=TIGHT)
    assert again.trace[0].objective == pytest.approx(best.objective, rel=1e-12)
    assert again.status is Status.CONVERGED


def test_a_path_carries_slopes_and_parameters():
    risk = problem(Hinge())
    lams = largest_lambda(risk) * np.array([0.2, 0.19, 0.18])
    path = regularization_path(risk, lams, penalty="l1", solver="primal_dual", stop=TIGHT)
    assert all(result.status is Status.CONVERGED for result in path.results)
    alone = minimize(risk, L1(lams[-1]), PrimalDual(), stop=TIGHT)
    assert path.results[-1].objective == pytest.approx(alone.objective, rel=2e-6)
    assert len(path.results[-1].trace) < len(alone.trace)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_conjugates_of_losses_are_their_largest_differences_to_a_line(loss):
    y = np.where(np.arange(7) % 2, 1.0, -1.0) if isinstance(loss, Hinge) else np.linspace(-2.0, 2.0, 7)
    pieces = loss.pieces(y)
    losses = Losses(pieces.left, pieces.kinks, np.repeat(pieces.jumps[:, None], 7, axis=1))
    v = losses.left + np.linspace(0.0, 1.0, 7) * losses.ranges
    lines = [v * s - loss.value_slope(y, np.full(7, s))[0] for s in np.arange(-6.0, 6.0, 0.1 / 6.0)]
    assert losses.conjugate(v) == pytest.approx(np.max(lines, axis=0), abs=0.02)
    assert (losses.conjugate(v) >= np.max(lines, axis=0) - 1e-12).all()


@pytest.mark.parametrize(
    ("risk", "reg", "need"),
    [
        (problem(Hinge()), L2(0.1), "L1 or ElasticNet"),
        (LinearRisk(sp.eye_array(2, format="csr"), [1.0, -1.0], Logistic()), L1(0.1), "piecewise-linear"),
        (LinearRisk(np.eye(2), [1.0, -1.0], Hinge()), L1(0.1), "sparse"),
    ],
)
def test_it_says_what_it_needs(risk, reg, need):
    with pytest.raises(CapabilityError, match=f"PrimalDual needs.*{need}.*use "):
        minimize(risk, reg, PrimalDual())


def test_at_least_one_feature_is_taken_up():
    with pytest.raises(ParameterError, match="`first` must be at least 1"):
        PrimalDual(first=0)
