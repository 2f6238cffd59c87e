"""The line search: exact where the loss is piecewise linear, as accurate as promised elsewhere."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize_scalar
from tests.catalogue import ALL, LOSSES, PIECEWISE, SMOOTH, Problem

from undercut import LinearRisk
from undercut.scalar import FARTHEST, Point, minimize_convex

intercepts = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
SLOPES_AND_CURVATURES = [(0.0, 0.0), (0.0, 1e-6), (0.0, 1.0), (-0.1, 0.5), (0.2, 0.01), (-1.0, 100.0), (5.0, 1.0)]

SHARE = 2e-3  # of the decrease, what a search that is not exact may leave


def lowest_at_kinks(total, kinks, curvature):
    """The least value over every kink and every stationary point between two."""
    ends = np.unique(np.concatenate([[0.0], kinks[kinks > 0.0]]))
    candidates = list(ends)
    for left, right in pairwise([*ends, ends[-1] + 1e6]):
        slope = (total(right) - total(left)) / (right - left)
        if curvature > 0.0:
            candidates.append(min(max(0.5 * (left + right) - slope / curvature, left), right))
    return min(total(t) for t in candidates)


def random_line(name, seed, n, *, integer, fit_intercept):
    """A line through random data, and the t where the loss of a sample has a kink if its score is not shifted."""
    rng, case = np.random.default_rng(seed), LOSSES[name]
    X = rng.integers(-2, 3, (n, 3)).astype(np.float64) if integer else rng.standard_normal((n, 3))
    y = case.draw_targets(rng, n)
    w, direction = np.round(rng.standard_normal((2, 3)), 1)
    line = LinearRisk(X, y, case.loss, rng.random(n) + 0.1, fit_intercept=fit_intercept).along(w, direction)
    rises, scores = X @ direction, X @ w
    kinks = [(k - s) / r for t, s, r in zip(y, scores, rises, strict=True) if r != 0.0 for k in case.kinks(t)]
    return line, np.array(kinks)


@pytest.mark.parametrize("name", PIECEWISE)
@pytest.mark.parametrize(("slope", "curvature"), SLOPES_AND_CURVATURES)
@given(seed=st.integers(0, 10**6), n=st.sampled_from([1, 5, 40, 200]), integer=st.booleans())
@settings(max_examples=25)
def test_the_minimizer_of_a_piecewise_linear_risk_is_exact(name, slope, curvature, seed, n, integer):
    line, kinks = random_line(name, seed, n, integer=integer, fit_intercept=False)

    def total(t):
        return line.value(t) + slope * t + 0.5 * curvature * t * t

    t = line.minimizer(slope, curvature)
    lowest = lowest_at_kinks(total, kinks, curvature)
    assert t >= 0.0
    if math.isinf(t):  # falls for ever, or is flat from the last kink on
        assert curvature == 0.0
        assert total(1e6) <= lowest + 1e-9
    else:
        assert total(t) <= lowest + 1e-10 * max(1.0, abs(lowest))


@pytest.mark.parametrize("name", PIECEWISE)
@pytest.mark.parametrize(("slope", "curvature"), SLOPES_AND_CURVATURES[2:])
@given(seed=st.integers(0, 10**6), n=st.sampled_from([1, 2, 5, 20]), integer=st.booleans())
@settings(max_examples=25)
def test_the_minimizer_with_a_free_intercept_keeps_nearly_all_of_the_decrease(name, slope, curvature, seed, n, integer):
    line, _ = random_line(name, seed, n, integer=integer, fit_intercept=True)

    def total(t):
        return line.value(t) + slope * t + 0.5 * curvature * t * t

    t = line.minimizer(slope, curvature)
    others = [0.0, *np.geomspace(1e-6, 1e3, 60), *(t * np.linspace(0.5, 1.5, 41)), *(t + np.linspace(-1e-3, 1e-3, 21))]
    lowest = min(total(max(other, 0.0)) for other in others)
    assert total(t) <= lowest + SHARE * (total(0.0) - lowest) + 1e-10


@pytest.mark.parametrize("name", ALL)
@intercepts
@pytest.mark.parametrize(("slope", "curvature"), SLOPES_AND_CURVATURES[2:])
def test_the_minimizer_keeps_nearly_all_of_the_decrease(name, fit_intercept, slope, curvature):
    for seed in range(4):
        problem = Problem(name, fit_intercept, seed=seed)
        rng = np.random.default_rng(seed)
        line = problem.risk().along(rng.standard_normal(problem.d), rng.standard_normal(problem.d))

        def total(t, line=line):
            return line.value(t) + slope * t + 0.5 * curvature * t * t

        t = line.minimizer(slope, curvature)
        found = minimize_scalar(total, bounds=(0.0, 2.0 * t + 1.0), method="bounded", options={"xatol": 1e-10})
        lowest = min(found.fun, total(0.0))
        share = SHARE if fit_intercept or name in SMOOTH else 0.0
        assert total(t) <= lowest + share * (total(0.0) - lowest) + 1e-11 * max(1.0, abs(lowest))


@pytest.mark.parametrize("name", ALL)
@intercepts
def test_along_no_direction_the_minimizer_is_where_we_are(name, fit_intercept, rng):
    risk = Problem(name, fit_intercept).risk()
    line = risk.along(rng.standard_normal(risk.n_params), np.zeros(risk.n_params))
    assert line.minimizer(0.0, 0.0) == 0.0


@pytest.mark.parametrize("name", ALL)
@intercepts
def test_a_line_agrees_with_the_risk_it_is_taken_from(name, fit_intercept, rng):
    risk = Problem(name, fit_intercept).risk()
    w, direction, other = rng.standard_normal((3, risk.n_params))
    line = risk.along(w, direction)
    turned = line.turn(0.7, other)
    for t in (0.0, 0.3, 1.0, 2.5):
        for at, point in ((line, w + t * direction), (turned, w + 0.7 * direction + t * other)):
            cut, expected = at.cut(t), risk.cut(point)
            assert at.value(t) == pytest.approx(expected.value, rel=1e-11)
            assert cut.b == pytest.approx(expected.b, abs=1e-6)
            np.testing.assert_allclose(cut.a, expected.a, atol=1e-6)


@pytest.mark.parametrize("name", ["exponential", "poisson"])
@intercepts
def test_a_line_that_overflows_is_searched_without_a_warning(name, fit_intercept, rng):
    problem = Problem(name, fit_intercept)
    risk = problem.risk()
    for size in (1e2, 1e5, 1e9):
        line = risk.along(np.zeros(problem.d), -size * risk.cut(np.zeros(problem.d)).a)
        t = line.minimizer(0.0, 1e-9 * size**2)
        assert 0.0 <= t < 1.0
        assert line.value(t) < line.value(0.0)


def with_slopes(f, df, ddf=None):
    return lambda t: Point(f(t), df(t), ddf(t) if ddf else math.nan)


@pytest.mark.parametrize("place", [1e-12, 1e-3, 0.7, 3.0, 1e3, 1e9])
def test_a_kink_is_found_exactly_wherever_it_is(place):
    point = with_slopes(lambda t: abs(t - place), lambda t: 1.0 if t >= place else -1.0)
    assert minimize_convex(point, 0.0, 0.0) == pytest.approx(place, rel=1e-12)


@pytest.mark.parametrize("place", [1e-6, 0.7, 1e3, 1e6])
@pytest.mark.parametrize("newton", [False, True])
def test_a_parabola_is_minimized_wherever_its_bottom_is(place, newton):
    ddf = (lambda t: 2.0) if newton else None
    point = with_slopes(lambda t: (t - place) ** 2, lambda t: 2.0 * (t - place), ddf)
    assert minimize_convex(point, 0.0, 0.0) == pytest.approx(place, rel=1e-6)


@pytest.mark.parametrize("place", [1e-6, 1e-3, 0.3])
def test_a_search_does_not_end_on_the_flat_side_of_a_kink(place):
    point = with_slopes(
        lambda t: -t if t < place else 0.005 * (t - place) - place, lambda t: -1.0 if t < place else 0.005
    )
    t = minimize_convex(point, 0.0, 0.0, accuracy=0.01)
    assert point(t).value <= -0.98 * place


def test_the_added_slope_and_curvature_count():
    flat = with_slopes(lambda t: 0.0, lambda t: 0.0)
    assert minimize_convex(flat, -3.0, 2.0) == pytest.approx(1.5, rel=1e-12)


def test_a_function_that_rises_from_the_start_is_lowest_there():
    assert minimize_convex(with_slopes(lambda t: t, lambda t: 1.0), 0.0, 0.0) == 0.0


def test_a_function_that_falls_for_ever_ends_far_away():
    assert minimize_convex(with_slopes(lambda t: -t, lambda t: -1.0), 0.0, 0.0) >= FARTHEST


def test_a_function_that_becomes_infinite_is_minimized_before():
    def value(t):
        return math.exp(t) - 5.0 * t if t < 700.0 else math.inf

    def slope(t):
        return math.exp(t) - 5.0 if t < 700.0 else math.inf

    for start in (0.0, -690.0, -5000.0):
        point = with_slopes(lambda t, a=start: value(t + a), lambda t, a=start: slope(t + a))
        assert minimize_convex(point, 0.0, 0.0) + start == pytest.approx(math.log(5.0), rel=1e-6)
