"""Small programs that a library solves as a whole: the same optima and bounds as by our own steps."""

from __future__ import annotations

import numpy as np
import pytest
from tests.catalogue import LOSSES, Problem
from tests.regularizers.cases import CASES, optimum

from undercut import L1, LinearRisk, Quantile, Status, Stop, minimize
from undercut.contracts import PiecewiseLinearLoss, QuadraticRegularizer
from undercut.losses import Huber, HuberHinge, Squared, SquaredHinge
from undercut.regularizers import Entropy, SquaredLp
from undercut.solvers import InteriorPoint

ROUNDED = (Huber, HuberHinge, Squared, SquaredHinge)
QUADRATIC = [name for name, case in LOSSES.items() if isinstance(case.loss, (PiecewiseLinearLoss, *ROUNDED))]
PENALTIES = [name for name, case in CASES.items() if not isinstance(case.make(1.0), Entropy | SquaredLp)]
TIGHT = Stop(gap_rel=1e-7, max_steps=100)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", QUADRATIC)
def test_one_step_brackets_the_optimum(loss, penalty, fit_intercept):
    problem = Problem(loss, fit_intercept=fit_intercept, weighted=fit_intercept)
    reg = CASES[penalty].make(problem.lam)
    if isinstance(reg, QuadraticRegularizer) and isinstance(problem.case.loss, ROUNDED):
        pytest.skip("without a kink it is Newton's")
    result = minimize(problem.risk(), reg, InteriorPoint(), stop=TIGHT)
    known = optimum(penalty, problem).value
    assert result.status is Status.CONVERGED
    assert result.n_steps == 1
    assert result.lower_bound <= known * (1.0 + 1e-9)
    assert result.objective == pytest.approx(known, rel=1e-6)


def test_where_the_library_finds_nothing_our_steps_take_over(monkeypatch):
    problem = Problem("hinge", fit_intercept=True)
    monkeypatch.setattr("undercut.solvers.newton.interior_point.solved", lambda program: None)
    result = minimize(problem.risk(), L1(problem.lam), InteriorPoint(), stop=TIGHT)
    assert result.status is Status.CONVERGED
    assert result.n_steps > 5
    assert result.objective == pytest.approx(optimum("l1", problem).value, rel=1e-6)


def test_where_the_library_is_far_off_the_bound_still_holds(monkeypatch):
    problem = Problem("absolute")
    monkeypatch.setattr("undercut.solvers.quadratic_program.MAX_ITERATIONS", 3)
    result = minimize(problem.risk(), L1(problem.lam), InteriorPoint(), stop=TIGHT)
    known = optimum("l1", problem).value
    assert result.trace[1].lower_bound <= known <= result.trace[1].objective
    assert result.status is Status.CONVERGED
    assert result.n_steps > 1


@pytest.mark.parametrize("lam", [1e-8, 1e-3, 1e3])
def test_solutions_are_as_sparse_as_those_of_our_steps(lam, monkeypatch):
    risk = LinearRisk(np.random.default_rng(0).standard_normal((20, 40)), np.linspace(-1.0, 1.0, 20), Quantile(0.7))
    at_once = minimize(risk, L1(lam), InteriorPoint(), stop=TIGHT)
    monkeypatch.setattr("undercut.solvers.newton.whole_program.MOST_WORK", 0)
    own = minimize(risk, L1(lam), InteriorPoint(), stop=TIGHT)
    assert at_once.objective == pytest.approx(own.objective, rel=1e-6)
    assert np.count_nonzero(at_once.w) <= max(np.count_nonzero(own.w), 20)
