"""Coordinate descent in pairs; what it shares with hedging is tested there."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kernel_problems import machine

from undercut import L2, Hinge, LinearRisk, Status, Stop, minimize
from undercut.errors import CapabilityError, ParameterError
from undercut.maps.gram import DenseGram, TiledGram
from undercut.regularizers import KernelNorm
from undercut.risks import GramRisk
from undercut.solvers import PairDescent


def test_a_few_steps_are_enough():
    parts = machine(n=100).parts()
    first = minimize(*parts, PairDescent(accuracy=1e-9), stop=Stop(gap_rel=1e-6, max_steps=1))
    assert first.gap <= 1e-1 * first.objective
    assert minimize(*parts, PairDescent(), stop=Stop(gap_rel=1e-8)).n_steps <= 10


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_bound_never_decreases_and_every_point_is_feasible(fit_intercept):
    problem = machine(n=80, C=30.0, fit_intercept=fit_intercept)
    risk, reg = problem.parts()
    solver = PairDescent()
    state, bounds = solver.init(risk, reg, np.zeros(80)), []
    for _ in range(6):
        state = solver.step(risk, reg, state)
        bounds.append(state.progress.lower_bound)
        assert (problem.y * state.x >= 0.0).all()
        assert (problem.y * state.x <= problem.C * (1.0 + 1e-12)).all()
        assert not fit_intercept or abs(state.x.sum()) <= 1e-9 * np.abs(state.x).sum()
        np.testing.assert_allclose(state.scores, problem.K @ state.x, atol=1e-9 * problem.C)
    assert bounds == sorted(bounds)


def test_a_slice_of_a_long_descent_ends_a_step(monkeypatch):
    monkeypatch.setattr("undercut.solvers.coordinate.pair_descent.SLICE", 1000)
    result = minimize(*machine(n=100).parts(), PairDescent(), stop=Stop(gap_rel=1e-6))
    assert result.status is Status.CONVERGED
    assert result.n_steps > 10


def test_minimize_takes_it_for_a_gram_matrix_in_main_memory():
    problem = machine(n=40)
    by_itself = minimize(*problem.parts())
    np.testing.assert_array_equal(by_itself.w, minimize(*problem.parts(), PairDescent()).w)


def test_a_gram_matrix_in_tiles_is_stored_for_it():
    problem = machine(n=40)
    tiled = TiledGram(lambda X, Z: np.exp(-0.5 * ((X[:, None] - Z) ** 2).sum(2)), problem.X)
    stop = Stop(gap_rel=1e-6)
    assert minimize(*problem.parts(tiled), PairDescent(), stop=stop).objective == pytest.approx(
        minimize(*problem.parts(), PairDescent(), stop=stop).objective, rel=1e-5
    )


def test_other_problems_and_settings_are_refused_with_the_remedy():
    risk, _ = machine().parts()
    with pytest.raises(CapabilityError, match=r"PairDescent needs .* make it a GramRisk"):
        minimize(LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge()), L2(1.0), PairDescent())
    with pytest.raises(CapabilityError, match=r"use KernelNorm\(lam, risk.gram\)"):
        minimize(risk, L2(1.0), PairDescent())
    with pytest.raises(ParameterError, match="`accuracy` must be positive; got 0"):
        PairDescent(accuracy=0.0)


def test_a_gram_matrix_on_a_device_is_refused_with_the_remedy():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    gram = DenseGram(torch.eye(2))
    with pytest.raises(CapabilityError, match=r"in main memory: use KernelHedging\(\) on a device"):
        minimize(GramRisk(gram, [1.0, -1.0]), KernelNorm(1.0, gram), PairDescent())
