"""An objective that falls without end is never called converged."""

from __future__ import annotations

import math

import numpy as np
import pytest

from undercut import L1, L2, FunctionRisk, NonconvexBundle, Status, Stop, minimize
from undercut.solvers import ClassicBundle

FALLING = {
    "square": lambda w: (-float(w @ w), -2.0 * w),
    "slowly": lambda w: (-0.06 * float(w @ w), -0.12 * w),
    "fourth power": lambda w: (-float((w**4).sum()), -4.0 * w**3),
}
SOLVERS = [NonconvexBundle(), ClassicBundle(), "auto"]  # auto takes the greedy line search


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
@pytest.mark.parametrize("size", [1.0, 100.0])
@pytest.mark.parametrize("name", FALLING)
def test_a_local_model_does_not_converge_on_the_way_down(name, size, solver):
    risk = FunctionRisk(FALLING[name], 3, convex=False)
    result = minimize(risk, L2(0.1), solver, w0=np.full(3, size), stop=Stop(max_steps=150))
    assert result.status in (Status.UNBOUNDED, Status.MAX_STEPS)


def test_a_run_that_has_fallen_far_says_so():
    risk = FunctionRisk(FALLING["square"], 3, convex=False)
    result = minimize(risk, L2(0.1), ClassicBundle(), w0=np.ones(3))
    assert result.status is Status.UNBOUNDED
    assert (result.certificate, result.lower_bound) == ("none", -math.inf)
    assert "falls without end" in result.message


def test_a_lower_bound_that_says_nothing_does_not_hide_an_endless_fall():
    risk = FunctionRisk(lambda w: (float(-w.sum()), -np.ones_like(w)), 2, lower_bound=-1e300)
    result = minimize(risk, L1(0.1), stop=Stop(max_steps=500))
    assert result.status is Status.UNBOUNDED


def test_a_large_negative_minimum_is_found():
    risk = FunctionRisk(lambda w: (float(-1e4 * w.sum()), np.full_like(w, -1e4)), 2)
    result = minimize(risk, L2(1e-3))
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(-1e11, rel=1e-3)
