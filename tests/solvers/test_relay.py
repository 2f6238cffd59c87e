"""A relay: the next solver takes over where the last one stalls, and the bounds of all count."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from tests.catalogue import Problem

from undercut import (
    L1,
    L2,
    CuttingPlane,
    Hinge,
    LinearRisk,
    LineSearchBundle,
    Logistic,
    MultivariateRisk,
    Squared,
    SquaredHinge,
    Status,
    Stop,
    minimize,
)
from undercut.errors import CapabilityError, ParameterError
from undercut.solvers import (
    DualCoordinate,
    InteriorPoint,
    LevelBundle,
    MajorantSweeps,
    Newton,
    Relay,
    ScoreBundle,
    TruncatedNewton,
    relay,
)

RISK = Problem("hinge").risk()
IMPATIENT = Relay(candidates=(CuttingPlane(), InteriorPoint()), patience=1)


def test_a_solver_that_gets_no_closer_hands_over_to_the_next():
    result = minimize(RISK, L1(1e-3), IMPATIENT, stop=Stop(gap_rel=1e-8))
    assert result.status is Status.CONVERGED
    assert [name for name, _ in itertools.groupby(row.solver for row in result.trace)] == [
        "CuttingPlane",
        "InteriorPoint",
    ]


def test_points_and_bounds_of_all_count():
    trace = minimize(RISK, L1(1e-3), IMPATIENT, stop=Stop(gap_rel=1e-8)).trace
    for last, now in itertools.pairwise(trace):
        assert now.objective <= last.objective
        assert now.lower_bound >= last.lower_bound
        assert now.n_evaluations >= last.n_evaluations
        assert now.step == last.step + 1


def test_the_last_solver_goes_on_alone():
    alone = minimize(RISK, L1(0.1), LevelBundle(), stop=Stop(gap_rel=1e-6))
    relay = minimize(RISK, L1(0.1), Relay(candidates=(LevelBundle(),), patience=1), stop=Stop(gap_rel=1e-6))
    assert np.array_equal(alone.w, relay.w)


@pytest.mark.parametrize("lam", [1e-2, 1e-7])
def test_newton_steps_give_way_where_few_samples_are_within_the_margin(lam):
    rng = np.random.default_rng(0)
    X = sp.random(2000, 200, density=0.1, format="csr", random_state=rng)
    y = np.where(X @ rng.standard_normal(200) > 0.0, 1.0, -1.0)
    relay = Relay(candidates=(TruncatedNewton(), DualCoordinate()))
    stop = Stop(gap_rel=1e-3)
    result = minimize(LinearRisk(X, y, SquaredHinge()), L2(lam), relay, stop=stop)
    assert result.status is Status.CONVERGED
    assert (result.trace[-1].solver == "DualCoordinate") == (lam == 1e-7)
    alone = minimize(LinearRisk(X, y, SquaredHinge()), L2(lam), TruncatedNewton(), stop=stop)
    assert alone.status is Status.CONVERGED  # it goes on where no other solver can take over
    for loss in (Logistic(), Squared()):  # every sample has a second derivative
        smooth = minimize(LinearRisk(X, y, loss), L2(lam), relay, stop=stop)
        assert smooth.trace[-1].solver == "TruncatedNewton"


@pytest.mark.parametrize(("lam", "solvers"), [(1e-2, ["DualCoordinate"]), (1e-6, ["DualCoordinate", "InteriorPoint"])])
def test_only_a_solver_that_is_near_the_optimum_after_its_trial_goes_on(lam, solvers):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 50))
    y = np.where((X[:, 0] > 0.0) ^ (rng.random(2000) < 0.3), 1.0, -1.0)
    relay = Relay(candidates=(DualCoordinate(), InteriorPoint()), trial=5.0)
    result = minimize(LinearRisk(X, y, Hinge()), L2(lam), relay, stop=Stop(gap_rel=1e-6))
    assert result.status is Status.CONVERGED
    assert list(dict.fromkeys(row.solver for row in result.trace)) == solvers


@pytest.mark.parametrize(
    "settings",
    [
        {"candidates": ()},
        {"candidates": (InteriorPoint(),), "patience": 0},
        {"candidates": (InteriorPoint(),), "trial": 0.0},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ParameterError, match="must"):
        Relay(**settings)


def test_every_solver_must_fit_the_problem():
    with pytest.raises(CapabilityError, match="Newton needs a smooth risk"):
        minimize(RISK, L1(0.1), Relay(candidates=(InteriorPoint(), Newton())))


def test_the_solver_that_ended_a_run_begins_the_next_one_with_its_state():
    solver = Relay(candidates=(DualCoordinate(), LineSearchBundle()))
    risk, state = LinearRisk(np.eye(4), np.array([1.0, -1.0, 1.0, -1.0]), Hinge()), None
    for lam in (0.1, 0.05):
        state = solver.init(risk, L2(lam), np.zeros(4)) if state is None else solver.carry(risk, L2(lam), state)
        while state.progress.gap > 1e-6 * state.progress.objective:
            state = solver.step(risk, L2(lam), state)
    assert state.inner.before.strength == 0.1
    alone = minimize(risk, L2(0.05), stop=Stop(gap_rel=1e-6))
    assert state.progress.objective == pytest.approx(alone.objective, rel=1e-5)


def test_the_last_solver_stalls_as_it_would_alone():
    settings = {"stop": Stop(gap_rel=0.0, max_steps=5000)}
    alone = minimize(RISK, L2(1e-3), LineSearchBundle(), **settings)
    relay = minimize(RISK, L2(1e-3), Relay(candidates=(LineSearchBundle(),)), **settings)
    assert alone.status is Status.STALLED
    assert (relay.status, relay.n_steps) == (Status.STALLED, alone.n_steps)


def test_the_last_solver_has_not_stalled_while_it_catches_up_with_the_one_before(monkeypatch):
    monkeypatch.setattr(relay, "STALLED_STEPS", {"global": 20})
    rng = np.random.default_rng(0)
    X = sp.random(60, 200, density=0.1, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    risk = MultivariateRisk(X, np.where(X @ rng.standard_normal(200) > 0.5, 1.0, -1.0), "f1", fit_intercept=True)
    candidates = (MajorantSweeps(), ScoreBundle())
    result = minimize(risk, L2(1e-6), Relay(candidates=candidates, patience=40), stop=Stop(gap_rel=1e-5, max_steps=900))
    assert result.status is Status.CONVERGED
    assert result.trace[-1].solver == "ScoreBundle"
