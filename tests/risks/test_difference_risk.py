"""DifferenceRisk: a convex risk less another, and the convex risk above it that touches it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.catalogue import Problem

from undercut import FunctionRisk, LinearRisk, Ramp
from undercut.contracts import MajorizedRisk
from undercut.errors import CapabilityError, DataError, NonfiniteError
from undercut.risks import DifferenceRisk, TransductiveRisk

D = 3
bowl = FunctionRisk(lambda w: (float(w @ w), 2.0 * w), D)
cone = FunctionRisk(lambda w: (float(np.abs(w).sum()), np.sign(w)), D)
steep = FunctionRisk(lambda w: (3.0 * float(np.abs(w - 1.0).max()), 3.0 * corner(w - 1.0)), D)


def corner(v):
    at = int(np.abs(v).argmax())
    return np.sign(v[at]) * np.eye(v.size)[at]


PAIRS = {
    "bowl-cone": (bowl, cone),
    "bowl-steep": (bowl, steep),
    "cone-steep": (cone, steep),
    "hinge-logistic": (Problem("hinge", d=D).risk(), Problem("logistic", d=D, seed=1).risk()),
    "squared-hinge with intercepts": (
        Problem("squared", fit_intercept=True, d=D).risk(),
        Problem("hinge", fit_intercept=True, d=D).risk(),
    ),
}
pairs = pytest.mark.parametrize("pair", PAIRS)
points = st.lists(st.floats(-5.0, 5.0, allow_subnormal=False), min_size=D, max_size=D).map(np.array)


@pairs
@settings(max_examples=25)
@given(w=points)
def test_value_and_plane_are_the_difference(pair, w):
    convex, subtracted = PAIRS[pair]
    risk = DifferenceRisk(convex, subtracted)
    expected = convex.value(w) - subtracted.value(w)
    size = 1e-11 * max(1.0, abs(convex.value(w)), abs(subtracted.value(w)))
    cut = risk.cut(w)
    assert risk.value(w) == pytest.approx(expected, abs=size)
    assert cut.value == pytest.approx(expected, abs=size)
    assert cut.a @ w + cut.b == pytest.approx(expected, abs=10.0 * size)
    np.testing.assert_allclose(cut.a, convex.cut(w).a - subtracted.cut(w).a, atol=1e-12)


@pairs
@settings(max_examples=25)
@given(w=points, v=points)
def test_the_majorizer_lies_above_and_touches(pair, w, v):
    convex, subtracted = PAIRS[pair]
    risk = DifferenceRisk(convex, subtracted)
    above = risk.majorizer(w)
    size = 1e-10 * max(1.0, abs(convex.value(v)), abs(subtracted.value(v)), abs(subtracted.value(w)))
    assert above.is_convex
    assert above.value(w) == pytest.approx(risk.value(w), abs=size)
    assert above.value(v) >= risk.value(v) - size
    cut = above.cut(w)
    assert cut.a @ v + cut.b <= above.value(v) + size
    assert cut.value == pytest.approx(above.value(w), abs=size)


@pairs
def test_the_gradient_agrees_with_finite_differences(pair, rng):
    risk = DifferenceRisk(*PAIRS[pair])
    for _ in range(5):
        w = rng.standard_normal(D)
        differences = [(risk.value(w + e) - risk.value(w - e)) / 2e-7 for e in 1e-7 * np.eye(D)]
        np.testing.assert_allclose(risk.cut(w).a, differences, atol=1e-5)


def test_it_says_what_it_is():
    risk = DifferenceRisk(bowl, cone, lower_bound=-0.75)
    assert not risk.is_convex
    assert risk.n_params == D
    assert risk.lower_bound == -0.75
    assert risk.majorizer(np.ones(D)).lower_bound == -0.75  # what lies above is above the bound too
    assert isinstance(risk, MajorizedRisk)
    assert DifferenceRisk(bowl, cone).lower_bound == -np.inf


def test_every_risk_with_a_concave_part_can_be_majorized_and_no_other():
    X, y = np.eye(2), np.array([1.0, -1.0])
    assert isinstance(LinearRisk(X, y, Ramp()), MajorizedRisk)
    assert isinstance(TransductiveRisk(X, y), MajorizedRisk)
    assert not isinstance(bowl, MajorizedRisk)


def test_two_convex_parts_are_needed():
    hilly = FunctionRisk(lambda w: (float(np.sin(w).sum()), np.cos(w)), D, convex=False)
    for parts in ((hilly, bowl), (bowl, hilly)):
        with pytest.raises(CapabilityError, match="both parts of a DifferenceRisk must be convex"):
            DifferenceRisk(*parts)


def test_parts_of_different_length_are_refused():
    other = FunctionRisk(lambda w: (float(w @ w), 2.0 * w), D + 1)
    with pytest.raises(DataError, match="both parts must have the same n_params; got 3 and 4"):
        DifferenceRisk(bowl, other)


@pytest.mark.parametrize("at", ["convex", "subtracted"])
def test_a_part_that_is_not_finite_is_reported(at):
    broken = FunctionRisk(lambda w: (np.nan, w), D)
    risk = DifferenceRisk(broken, cone) if at == "convex" else DifferenceRisk(bowl, broken)
    with pytest.raises(NonfiniteError):
        risk.cut(np.ones(D))


def test_the_point_is_not_modified():
    w = np.array([1.0, -2.0, 0.5])
    DifferenceRisk(bowl, steep).majorizer(w).cut(w)
    np.testing.assert_array_equal(w, [1.0, -2.0, 0.5])
