"""Master problems are cheap, and inner loops see the clock."""

from __future__ import annotations

import time

import numpy as np
import pytest

from undercut import L1, L2, Absolute, CuttingPlane, Hinge, LevelBundle, LinearRisk, Quantile, Status, Stop, minimize
from undercut.deadline import expired, time_limit
from undercut.regularizers import SquaredLp
from undercut.solvers import DualCoordinate
from undercut.solvers.bundle import dual_bundle
from undercut.solvers.bundle.simplex_dual import SimplexDual


def problem(n, d, loss, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return LinearRisk(X, X @ rng.standard_normal(d) + rng.standard_normal(n), loss)


CASES = {
    "squared lp": (36, 27, Absolute(), SquaredLp(6.0, 1.5), LevelBundle()),
    "quantile": (46, 28, Quantile(0.3), L1(1e-9), LevelBundle()),
    "quantile, cutting planes": (46, 28, Quantile(0.3), L1(1e-9), CuttingPlane()),
    "absolute": (107, 18, Absolute(), L1(1.4e-8), LevelBundle()),
    "absolute, cutting planes": (107, 18, Absolute(), L1(1.4e-8), CuttingPlane()),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_small_problem_converges_with_few_newton_steps_per_master_problem(case, seed, monkeypatch):
    """Steps are counted, because seconds depend on the machine."""
    n, d, loss, reg, solver = CASES[case]
    taken = []
    climb = SimplexDual.climb

    def counted(self, alpha, tol, max_steps):
        found, n_steps = climb(self, alpha, tol, max_steps)
        taken.append(n_steps)
        return found, n_steps

    monkeypatch.setattr(SimplexDual, "climb", counted)
    result = minimize(problem(n, d, loss, seed), reg, solver, stop=Stop(gap_rel=1e-5))
    assert result.status is Status.CONVERGED
    assert sum(taken) <= 20 * result.n_steps
    assert max(taken) <= dual_bundle.MAX_STEPS


def test_a_master_problem_ends_at_the_deadline_with_a_valid_bound():
    """Every clock reading costs a second here: the run may not take many more than its limit."""
    readings = []

    def late():
        readings.append(None)
        return len(readings) > 3

    risk = problem(46, 28, Quantile(0.3))
    optimum = minimize(risk, L1(1e-3), stop=Stop(gap_rel=1e-6))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("undercut.solvers.bundle.simplex_dual.expired", late)
        patch.setattr("undercut.solvers.bundle.dual_bundle.expired", late)
        result = minimize(risk, L1(1e-3), LevelBundle(), stop=Stop(max_steps=5))
    assert result.lower_bound <= optimum.objective
    assert result.objective >= optimum.lower_bound


def test_the_clock_of_a_run_is_seen_inside_the_risk_and_gone_afterwards():
    seen = []

    class Slow(LinearRisk):
        def cut(self, w):
            seen.append(expired())
            time.sleep(0.02)
            seen.append(expired())
            return super().cut(w)

    risk = Slow(np.eye(2), np.array([1.0, -1.0]), Absolute())
    result = minimize(risk, L1(1e-3), LevelBundle(), stop=Stop(gap_rel=0.0, max_seconds=0.01))
    assert result.status is Status.MAX_SECONDS
    assert seen == [False, True]
    assert not expired()


def test_an_inner_limit_cannot_outlast_the_outer_one():
    with time_limit(0.0), time_limit(60.0):
        assert expired()


def test_sweeps_over_the_dual_see_the_clock():
    """However much work a step may do, it ends with the sweep in which the time is over."""
    risk = LinearRisk(np.random.default_rng(0).standard_normal((50, 5)), np.repeat([1.0, -1.0], 25), Hinge())
    descent = DualCoordinate().init(risk, L2(1e-9), np.zeros(5)).descent
    with time_limit(0.0):
        descent.run(10**15)
    assert descent.sweeps <= 1
