"""Losses that bend down: their formulas, their kinks, and the convex functions above them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.catalogue import NONCONVEX

from undercut import Ramp
from undercut.contracts import KinkedLoss, Kinks
from undercut.errors import DataError, ParameterError
from undercut.losses import TransductiveHinge

FLOORS = [-3.0, -1.0, -0.5, 0.0, 0.9]
scores = st.floats(-20.0, 20.0, allow_subnormal=False)


def ramp(floor):
    return lambda y, s: np.minimum(1.0 - floor, np.maximum(0.0, 1.0 - y * s))


CASES = {f"ramp{floor}": (Ramp(floor), ramp(floor), [-1.0, 1.0]) for floor in FLOORS}
TARGETS = {"signs": [-1.0, 1.0], "unlabelled": [-1.0, 0.0, 1.0]}
CASES |= {name: (case.loss, case.formula, TARGETS[case.targets]) for name, case in NONCONVEX.items()}
cases = pytest.mark.parametrize("name", CASES)


def grid(name):
    """Every target with scores around zero and exactly on the kinks."""
    loss, _, targets = CASES[name]
    pairs = []
    for y in targets:
        kinks = loss.kinks(np.array([y])).at.ravel()
        pairs += [(y, s) for s in (*np.linspace(-5.0, 5.0, 81), *kinks)]
    y, s = np.array(pairs).T
    return y.copy(), s.copy()


@cases
def test_values_agree_with_the_formula(name):
    loss, formula, _ = CASES[name]
    y, s = grid(name)
    np.testing.assert_allclose(loss.value_slope(y, s)[0], formula(y, s), rtol=1e-13, atol=1e-13)


@cases
def test_the_slope_is_the_derivative_from_the_right(name):
    loss, formula, _ = CASES[name]
    y, s = grid(name)
    value, slope = loss.value_slope(y, s)
    step = 1e-7
    np.testing.assert_allclose(slope, (formula(y, s + step) - value) / step, atol=1e-6)


@cases
def test_the_loss_says_that_it_is_not_convex_and_is_right(name):
    loss, formula, targets = CASES[name]
    assert not loss.is_convex
    assert isinstance(loss, KinkedLoss)
    s, v = np.meshgrid(np.linspace(-5.0, 5.0, 41), np.linspace(-5.0, 5.0, 41))
    assert any((formula(y, 0.5 * (s + v)) > 0.5 * (formula(y, s) + formula(y, v)) + 1e-9).any() for y in targets)


@cases
def test_the_loss_is_bounded_by_its_infimum(name):
    loss, _, _ = CASES[name]
    y, s = grid(name)
    assert (loss.value_slope(y, s)[0] >= loss.infimum(y) - 1e-13).all()


@cases
@given(data=st.data(), at=scores, s=scores, v=scores)
def test_the_majorizer_is_convex_lies_above_the_loss_and_touches_it(name, data, at, s, v):
    loss, formula, targets = CASES[name]
    y = np.full(4, data.draw(st.sampled_from(targets)))
    above = loss.kinks(y).majorized(np.full(4, at))
    here, first, second, middle = above.value_slope(np.array([at, s, v, 0.5 * (s + v)]))[0]
    size = 1e-12 * max(1.0, abs(first), abs(second))
    assert here == pytest.approx(float(formula(y[0], at)), abs=1e-12)
    assert first >= formula(y[0], s) - size
    assert middle <= 0.5 * (first + second) + size
    assert (above.jumps >= 0.0).all()


@cases
def test_the_majorizer_at_a_kink_touches_the_loss_there(name):
    loss, formula, targets = CASES[name]
    for y in targets:
        for at in loss.kinks(np.array([y])).at.ravel():
            one = np.array([y])
            above = loss.kinks(one).majorized(np.array([at]))
            assert above.value_slope(np.array([at]))[0][0] == pytest.approx(float(formula(y, at)), abs=1e-13)
            for s in np.linspace(-4.0, 4.0, 33):
                assert above.value_slope(np.array([s]))[0][0] >= formula(y, s) - 1e-12


@cases
def test_the_majorizer_of_a_majorizer_is_itself(name):
    loss, _, _ = CASES[name]
    y, s = grid(name)
    once = loss.kinks(y).majorized(s)
    twice = once.majorized(s[::-1])
    v = np.linspace(-4.0, 4.0, s.size)
    np.testing.assert_array_equal(once.value_slope(v)[0], twice.value_slope(v)[0])


@pytest.mark.parametrize("floor", FLOORS)
def test_a_sample_beyond_the_floor_has_no_influence(floor):
    y = np.array([1.0, -1.0])
    value, slope = Ramp(floor).value_slope(y, y * (floor - 2.0))
    np.testing.assert_allclose(value, 1.0 - floor)
    np.testing.assert_array_equal(slope, 0.0)


def test_a_sample_with_an_ordinary_margin_costs_what_the_hinge_charges():
    y = np.array([1.0, -1.0, 1.0, -1.0])
    s = np.array([-0.9, 0.9, 2.0, -0.3])
    np.testing.assert_allclose(Ramp().value_slope(y, s)[0], np.maximum(0.0, 1.0 - y * s), rtol=1e-14)


def test_an_unlabelled_sample_has_no_preferred_side():
    s = np.linspace(-3.0, 3.0, 25)
    value = TransductiveHinge().value_slope(np.zeros(25), s)[0]
    np.testing.assert_allclose(value, value[::-1], atol=1e-15)


@cases
def test_extreme_scores_cost_what_they_should(name):
    """A sample far on its right side costs nothing, however far: no difference of huge numbers may show."""
    loss, formula, targets = CASES[name]
    y = np.array(targets)
    for size in (1e3, 1e8, 1e17, 1e300):
        for s in (np.full(y.size, size), np.full(y.size, -size)):
            value, slope = loss.value_slope(y, s)
            assert np.isfinite(slope).all()
            np.testing.assert_allclose(value, formula(y, s), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("floor", [1.0, 2.0, -math.inf, math.nan])
def test_a_floor_outside_its_domain_is_refused(floor):
    with pytest.raises(ParameterError, match="`floor` must be finite and below 1; got"):
        Ramp(floor)


@pytest.mark.parametrize(("loss", "wrong"), [(Ramp(), 0.0), (Ramp(), 2.0), (TransductiveHinge(), 0.5)])
def test_a_target_outside_its_domain_is_refused_with_its_place(loss, wrong):
    with pytest.raises(DataError, match=rf"got {wrong} at sample 2"):
        loss.check_target(np.array([1.0, -1.0, wrong]))


def test_every_target_of_its_domain_is_accepted():
    Ramp().check_target(np.array([1.0, -1.0]))
    TransductiveHinge().check_target(np.array([1.0, 0.0, -1.0]))


@given(data=st.data())
def test_kinks_are_a_sum_of_hinges(data):
    """Any numbers, in any order, some jumps zero."""
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    at, jumps = rng.standard_normal((3, 4)), rng.choice([-1.0, 0.0, 2.0], (3, 4))
    constant, left, s = rng.standard_normal((3, 4))
    value, slope = Kinks(constant, left, at, jumps).value_slope(s)
    for i in range(4):
        expected = constant[i] + left[i] * s[i] + sum(jumps[k, i] * max(0.0, s[i] - at[k, i]) for k in range(3))
        assert value[i] == pytest.approx(expected, rel=1e-13, abs=1e-13)
        assert slope[i] == left[i] + sum(jumps[k, i] for k in range(3) if s[i] >= at[k, i])
