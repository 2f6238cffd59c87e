"""Limited memory: never more planes than allowed, and the same optimum all the same."""

from __future__ import annotations

import pytest
from tests.catalogue import ALL, Problem

from undercut import CuttingPlane, LineSearchBundle, Status, Stop, minimize

solvers = pytest.mark.parametrize("make", [CuttingPlane, LineSearchBundle])


@solvers
@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("max_planes", [1, 2, 4, 10])
def test_the_number_of_planes_stays_within_its_limit(make, loss, max_planes):
    """The flat and the aggregated plane come on top."""
    problem = Problem(loss, lam=0.01, d=8)
    result = minimize(problem.risk(), problem.reg, make(max_planes=max_planes), stop=Stop(gap_rel=1e-6, max_steps=100))
    assert max(row.n_cuts for row in result.trace) <= max_planes + 2


@solvers
@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize("max_planes", [2, 5])
def test_few_planes_reach_the_known_optimum(make, loss, fit_intercept, max_planes):
    problem = Problem(loss, fit_intercept, lam=0.1)
    optimum = problem.optimum().value
    stop = Stop(gap_rel=1e-3, max_steps=20_000)
    result = minimize(problem.risk(), problem.reg, make(max_planes=max_planes), stop=stop)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= optimum + 1e-12
    assert optimum * (1.0 - 1e-7) <= result.objective <= optimum * (1.0 + 1e-3)
    assert max(row.n_cuts for row in result.trace) <= max_planes + 2


@solvers
@pytest.mark.parametrize("loss", ["hinge", "logistic", "absolute"])
def test_the_model_of_few_planes_never_loses_what_it_proved(make, loss):
    """Merging planes keeps the minimum of the model (Do and Artières 2012, Prop. 1), so each model proves at least as
    much as the one before, up to the accuracy of the master problem."""
    problem = Problem(loss, lam=0.01, d=8)
    solver = make(max_planes=3, master_accuracy=1e-6)
    risk, reg = problem.risk(), problem.reg
    state = solver.init(risk, reg, reg.conjugate_argmax(problem.X[0] * 0.0))
    best = -float("inf")
    for _ in range(60):
        state = solver.step(risk, reg, state)
        proved = state.bundle.minimize(1e-12).lower_bound
        assert proved >= best - 1e-5 * max(1.0, abs(best))
        best = max(best, proved)


@solvers
def test_room_for_all_planes_is_as_good_as_no_limit(make):
    problem = Problem("hinge")
    stop = Stop(gap_rel=1e-6)
    free, roomy = (minimize(problem.risk(), problem.reg, make(max_planes=k), stop=stop) for k in (None, 10**6))
    assert [row.objective for row in free.trace] == [row.objective for row in roomy.trace]
