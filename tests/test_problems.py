"""The test problems are the published ones: formulas, starts, subgradients, minima."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from undercut import L2, Stop, minimize
from undercut.errors import ParameterError
from undercut.problems import MIFFLIN_2, PROBLEMS
from undercut.solvers import ClassicBundle
from undercut.testing import check_risk

problems = pytest.mark.parametrize("name", PROBLEMS)
CONVEX = [name for name, problem in PROBLEMS.items() if problem.convex]
moderate = st.floats(-3.0, 3.0, allow_subnormal=False)


def pairs(w):
    return [(w[i], w[i + 1]) for i in range(len(w) - 1)]


def crescent(x, y):
    return x**2 + (y - 1.0) ** 2 + y - 1.0, -(x**2) - (y - 1.0) ** 2 + y + 1.0


def cb3(x, y):
    return x**4 + y**2, (2.0 - x) ** 2 + (2.0 - y) ** 2, 2.0 * math.exp(-x + y)


def active_faces(w):
    def g(s):
        return math.log(abs(s) + 1.0)

    return max(g(-sum(w)), *(g(s) for s in w))


# Haarala, Miettinen and Mäkelä 2004, Sec. 4, one sample at a time.
FORMULAS = {
    "maxq": lambda w: max(s**2 for s in w),
    "mxhilb": lambda w: max(abs(sum(s / (i + j + 1.0) for j, s in enumerate(w))) for i in range(len(w))),
    "chained_lq": lambda w: sum(max(-x - y, -x - y + (x**2 + y**2 - 1.0)) for x, y in pairs(w)),
    "chained_cb3_1": lambda w: sum(max(cb3(x, y)) for x, y in pairs(w)),
    "chained_cb3_2": lambda w: max(sum(piece) for piece in zip(*(cb3(x, y) for x, y in pairs(w)), strict=True)),
    "active_faces": active_faces,
    "brown_2": lambda w: sum(abs(x) ** (y**2 + 1.0) + abs(y) ** (x**2 + 1.0) for x, y in pairs(w)),
    "chained_mifflin_2": lambda w: sum(
        -x + 2.0 * (x**2 + y**2 - 1.0) + 1.75 * abs(x**2 + y**2 - 1.0) for x, y in pairs(w)
    ),
    "chained_crescent_1": lambda w: max(sum(p) for p in zip(*(crescent(x, y) for x, y in pairs(w)), strict=True)),
    "chained_crescent_2": lambda w: sum(max(crescent(x, y)) for x, y in pairs(w)),
}
STARTS = {
    "maxq": [1.0, 2.0, 3.0, -4.0, -5.0, -6.0],
    "mxhilb": [1.0] * 6,
    "chained_lq": [-0.5] * 6,
    "chained_cb3_1": [2.0] * 6,
    "chained_cb3_2": [2.0] * 6,
    "active_faces": [1.0] * 6,
    "brown_2": [-1.0, 1.0] * 3,
    "chained_mifflin_2": [-1.0] * 6,
    "chained_crescent_1": [-1.5, 2.0] * 3,
    "chained_crescent_2": [-1.5, 2.0] * 3,
}
MINIMIZERS = {
    "maxq": np.zeros,
    "mxhilb": np.zeros,
    "chained_lq": lambda n: np.full(n, math.sqrt(0.5)),
    "chained_cb3_1": np.ones,
    "chained_cb3_2": np.ones,
    "active_faces": np.zeros,
    "brown_2": np.zeros,
    "chained_crescent_1": np.zeros,
    "chained_crescent_2": np.zeros,
}


def test_every_problem_of_the_catalogue_is_tested():
    assert set(FORMULAS) == set(STARTS) == set(PROBLEMS)
    assert set(MINIMIZERS) == set(PROBLEMS) - {"chained_mifflin_2"}
    assert all(problem.name == name for name, problem in PROBLEMS.items())


@problems
@given(w=arrays(np.float64, st.integers(2, 9), elements=moderate))
def test_the_vectorized_function_equals_the_published_formula(name, w):
    value, gradient = PROBLEMS[name].fun(w)
    expected = FORMULAS[name](w.tolist())
    assert value == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert gradient.shape == w.shape
    assert np.isfinite(gradient).all()


@problems
@pytest.mark.parametrize("n", [2, 3, 10])
@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_the_gradient_agrees_with_finite_differences(name, n, scale, rng):
    """Almost every point is smooth."""
    fun = PROBLEMS[name].fun
    for _ in range(20):
        w, step = scale * rng.standard_normal(n), 1e-6
        value, gradient = fun(w)
        differences = np.array([(fun(w + e)[0] - fun(w - e)[0]) / (2.0 * step) for e in step * np.eye(n)])
        slack = 1e-5 * max(1.0, float(np.abs(gradient).max())) + 1e-9 * abs(value)
        np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=slack)


@problems
def test_the_subgradient_at_the_start_is_one_of_the_pieces_there(name, rng):
    """At a kink too, the slope along any direction lies between those of the points around."""
    fun, w = PROBLEMS[name].fun, PROBLEMS[name].start(6)
    gradient = fun(w)[1]
    near = np.array([fun(w + 1e-7 * rng.standard_normal(6))[1] for _ in range(200)])
    for direction in rng.standard_normal((20, 6)):
        slopes = near @ direction
        size = 1e-4 * max(1.0, float(np.abs(gradient).max()))
        assert slopes.min() - size <= gradient @ direction <= slopes.max() + size


@problems
def test_the_start_is_the_published_one(name):
    np.testing.assert_array_equal(PROBLEMS[name].start(6), STARTS[name])


@pytest.mark.parametrize("name", CONVEX)
@pytest.mark.parametrize("n", [2, 5])
def test_a_convex_problem_has_planes_that_support_it(name, n):
    assert PROBLEMS[name].risk(n).is_convex
    for scale in (0.1, 1.0, 2.0):
        check_risk(PROBLEMS[name].risk(n), scale=scale)


def test_mifflin_is_convex_although_the_paper_lists_it_among_the_others(rng):
    """``2 q + 1.75 |q| = max(3.75 q, 0.25 q)`` with a convex q: what a local method reaches there is the optimum."""
    risk = PROBLEMS["chained_mifflin_2"].risk(4)
    assert not risk.is_convex
    points = 2.0 * rng.standard_normal((40, 4))
    planes = [risk.cut(w) for w in points]
    assert all(plane.a @ v + plane.b <= risk.value(v) + 1e-9 for plane in planes for v in points)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name not in (*CONVEX, "chained_mifflin_2")])
def test_a_problem_that_is_not_convex_says_so_and_is_right(name, rng):
    risk, n = PROBLEMS[name].risk(4), 4
    assert not risk.is_convex
    points = 2.0 * rng.standard_normal((60, n))
    planes = [risk.cut(w) for w in points]
    assert any(plane.a @ v + plane.b > risk.value(v) + 1e-6 for plane in planes for v in points)


@pytest.mark.parametrize("name", MINIMIZERS)
@pytest.mark.parametrize("n", [2, 3, 10, 101])
def test_the_known_minimum_is_attained(name, n):
    problem = PROBLEMS[name]
    assert problem.fun(MINIMIZERS[name](n))[0] == pytest.approx(problem.minimum(n), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", MINIMIZERS)
@pytest.mark.parametrize("n", [2, 3, 10])
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.1, 1.0])
def test_the_known_minimum_is_not_undercut(name, n, scale, rng):
    problem = PROBLEMS[name]
    for _ in range(200):
        w = MINIMIZERS[name](n) + scale * rng.standard_normal(n)
        assert problem.fun(w)[0] >= problem.minimum(n) - 1e-12 * n


@pytest.mark.parametrize("name", MINIMIZERS)
def test_a_solver_with_next_to_no_regularizer_does_not_undercut_the_minimum(name):
    problem, n = PROBLEMS[name], 6
    stop = Stop(gap_rel=1e-6, max_evaluations=300)
    reg = L2(1e-3, center=problem.start(n))
    result = minimize(problem.risk(n), reg, ClassicBundle(), w0=problem.start(n), stop=stop)
    reached = problem.fun(result.w)[0]
    assert problem.minimum(n) - 1e-9 <= reached < problem.fun(problem.start(n))[0]


@pytest.mark.parametrize("n", MIFFLIN_2)
def test_the_published_minimum_of_mifflin_is_reached(n):
    """To the digits the table has."""
    problem = PROBLEMS["chained_mifflin_2"]
    reg = L2(1e-6, center=problem.start(n))
    stop = Stop(gap_rel=1e-5, max_evaluations=400)
    result = minimize(problem.risk(n), reg, ClassicBundle(), w0=problem.start(n), stop=stop)
    assert problem.minimum(n) == MIFFLIN_2[n]
    reached = problem.fun(result.w)[0]
    assert reached >= MIFFLIN_2[n] - 1e-3 * abs(MIFFLIN_2[n]) * 0.05
    assert reached <= MIFFLIN_2[n] + 1e-3 * abs(MIFFLIN_2[n])


def test_the_minimum_of_mifflin_is_not_known_elsewhere():
    assert math.isnan(PROBLEMS["chained_mifflin_2"].minimum(77))


@problems
def test_a_point_is_not_modified(name, rng):
    w = rng.standard_normal(5)
    before = w.copy()
    PROBLEMS[name].fun(w)
    np.testing.assert_array_equal(w, before)


@problems
def test_one_parameter_is_too_few(name):
    with pytest.raises(ParameterError, match="`n_params` must be at least 2; got 1"):
        PROBLEMS[name].risk(1)


@problems
def test_a_point_far_out_overflows_without_a_warning(name):
    """Infinity is what a solver knows how to handle; a warning is an error in a strict program."""
    for scale in (1e2, 1e5, 1e160):
        value, gradient = PROBLEMS[name].fun(np.array([scale, -scale, 0.5 * scale, scale]))
        assert value > 0.0 or math.isnan(value)
        assert gradient.shape == (4,)
