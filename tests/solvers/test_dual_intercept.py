"""The free intercept of dual coordinate descent on tiny kinked problems: empty and repeated rows, equal targets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.catalogue import LOSSES

from undercut import L2, Absolute, ElasticNet, LinearRisk, Quantile, Status, Stop, minimize
from undercut.contracts import PiecewiseLinearLoss
from undercut.solvers import DualCoordinate, InteriorPoint
from undercut.solvers.coordinate.dual.conjugates import has_conjugate

KINKED = sorted(
    name for name, case in LOSSES.items() if isinstance(case.loss, PiecewiseLinearLoss) and has_conjugate(case.loss)
)
STOP = Stop(gap_rel=1e-6, max_passes=20_000)


@st.composite
def tiny_problems(draw):
    """Few rows, some of them empty or repeated, or all of them."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, d = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    case = LOSSES[draw(st.sampled_from(KINKED))]
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0.0, 0.3, 1.0])))
    y = case.draw_targets(rng, n)
    X, y = (X.round(), y.round() if case.targets == "reals" else y) if draw(st.booleans()) else (X, y)
    times = draw(st.integers(1, 2))
    risk = LinearRisk(np.repeat(X, times, axis=0), np.repeat(y, times), case.loss, fit_intercept=True)
    lam = 10.0 ** draw(st.floats(-2.0, 1.0))
    return risk, draw(st.sampled_from([L2(lam), ElasticNet(lam, 0.5)]))


@given(tiny_problems())
@settings(max_examples=80, deadline=None)
def test_tiny_problems_are_certified_and_agree_with_interior_point_steps(problem):
    risk, reg = problem
    found = minimize(risk, reg, DualCoordinate(), stop=STOP)
    other = minimize(risk, reg, InteriorPoint(), stop=Stop(gap_rel=1e-8, max_steps=100))
    assert found.status is Status.CONVERGED
    size = 1e-9 * (1.0 + abs(other.objective))
    assert found.lower_bound <= other.objective + size
    assert other.lower_bound <= found.objective + size


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("loss", [Absolute(), Quantile(0.5)])
def test_empty_rows_leave_the_median_of_the_targets_at_any_scale(loss, scale):
    risk = LinearRisk(np.zeros((3, 2)), scale * np.array([0.0, 1.0, 5.0]), loss, fit_intercept=True)
    result = minimize(risk, L2(0.1), DualCoordinate(), stop=STOP)
    assert result.status is Status.CONVERGED
    assert risk.intercept(result.w) == pytest.approx(scale)
