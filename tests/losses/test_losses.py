"""Every loss: its formula, convexity, slopes (kinks included), curvature, infimum, domain and extreme scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.catalogue import ALL, LOSSES, MARGIN, PIECEWISE, SMOOTH

from undercut import EpsilonInsensitive, Huber, HuberHinge, Poisson, Quantile
from undercut.errors import DataError, ParameterError, UndercutError

REALS = tuple(name for name in ALL if LOSSES[name].targets == "reals")
TARGETS = {"signs": [-1.0, 1.0], "reals": [-2.5, 0.0, 3.0], "counts": [0.0, 1.0, 7.0]}
scores = st.floats(-20.0, 20.0, allow_subnormal=False)


def grid(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Every target of the loss with scores around zero and exactly on its kinks."""
    case = LOSSES[name]
    pairs = [(y, s) for y in TARGETS[case.targets] for s in (*np.linspace(-6.0, 6.0, 49), *case.kinks(y))]
    y, s = np.array(pairs).T
    return y.copy(), s.copy()


@pytest.mark.parametrize("name", ALL)
def test_values_agree_with_the_formula(name):
    case, (y, s) = LOSSES[name], grid(name)
    np.testing.assert_allclose(case.loss.value_slope(y, s)[0], case.formula(y, s), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", ALL)
@given(data=st.data(), s=scores, v=scores, share=st.floats(0.0, 1.0))
def test_the_value_is_convex(name, data, s, v, share):
    case = LOSSES[name]
    y = np.full(3, data.draw(st.sampled_from(TARGETS[case.targets])))
    left, right, between = case.loss.value_slope(y, np.array([s, v, (1.0 - share) * s + share * v]))[0]
    chord = (1.0 - share) * left + share * right
    assert between <= chord + 1e-12 * max(1.0, abs(left), abs(right))


@pytest.mark.parametrize("name", ALL)
def test_the_slope_lies_between_the_one_sided_differences(name):
    case, (y, s) = LOSSES[name], grid(name)
    value, slope = case.loss.value_slope(y, s)
    for step in (1e-3, 1e-6):
        ahead = (case.formula(y, s + step) - value) / step
        behind = (value - case.formula(y, s - step)) / step
        slack = 1e-15 * np.maximum(1.0, np.abs(value)) / step + 1e-12
        assert (behind - slack <= slope).all()
        assert (slope <= ahead + slack).all()


@pytest.mark.parametrize("name", ALL)
@given(data=st.data(), s=scores, v=scores)
def test_the_tangent_lies_below_the_loss(name, data, s, v):
    case = LOSSES[name]
    y = np.full(2, data.draw(st.sampled_from(TARGETS[case.targets])))
    (here, there), (slope, _) = case.loss.value_slope(y, np.array([s, v]))
    assert here + slope * (v - s) <= there + 1e-12 * max(1.0, abs(here), abs(there), abs(slope * (v - s)))


@pytest.mark.parametrize("name", SMOOTH)
def test_the_curvature_agrees_with_finite_differences(name):
    case, (y, s) = LOSSES[name], grid(name)
    step = 1e-5
    near_kink = np.array([any(abs(v - k) < 2 * step for k in case.kinks(t)) for t, v in zip(y, s, strict=True)])
    (_, ahead), (_, behind) = case.loss.value_slope(y, s + step), case.loss.value_slope(y, s - step)
    expected = (ahead - behind) / (2 * step)
    curvature = case.loss.curvature(y, s)
    np.testing.assert_allclose(curvature[~near_kink], expected[~near_kink], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_curvature_at_a_kink_lies_between_the_one_sided_ones(name):
    case = LOSSES[name]
    for y in TARGETS[case.targets]:
        for kink in case.kinks(y):
            around = np.array([kink - 1e-6, kink, kink + 1e-6])
            behind, here, ahead = case.loss.curvature(np.full(3, y), around)
            assert min(behind, ahead) <= here <= max(behind, ahead)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_slope_of_a_smooth_loss_is_continuous_at_its_kinks(name):
    case = LOSSES[name]
    for y in TARGETS[case.targets]:
        for kink in case.kinks(y):
            slopes = case.loss.value_slope(np.full(2, y), np.array([kink - 1e-9, kink + 1e-9]))[1]
            assert slopes[0] == pytest.approx(slopes[1], abs=1e-7)


@pytest.mark.parametrize("name", ALL)
def test_the_infimum_bounds_the_loss_and_is_approached(name):
    case = LOSSES[name]
    for y in TARGETS[case.targets]:
        s = np.concatenate([np.linspace(-40.0, 40.0, 80_001), case.kinks(y), [math.log(y)] if y > 0.0 else []])
        values = case.loss.value_slope(np.full(s.size, y), s)[0]
        infimum = case.loss.infimum(np.array([y]))[0]
        assert values.min() >= infimum - 1e-12
        assert values.min() <= infimum + 1e-9


@pytest.mark.parametrize("name", PIECEWISE)
def test_the_pieces_are_ascending_kinks_with_positive_jumps(name):
    case = LOSSES[name]
    y = np.array(TARGETS[case.targets])
    left, kinks, jumps = case.loss.pieces(y)
    assert kinks.shape == (jumps.size, y.size)
    assert left.shape == y.shape
    assert (np.diff(kinks, axis=0) >= 0.0).all()
    assert (jumps > 0.0).all()
    assert [tuple(column) for column in kinks.T] == [case.kinks(t) for t in y]


def test_an_insensitive_zone_of_no_width_is_the_absolute_loss():
    y, s = grid("absolute")
    narrow = EpsilonInsensitive(epsilon=0.0).value_slope(y, s)[0]
    np.testing.assert_allclose(narrow, LOSSES["absolute"].loss.value_slope(y, s)[0], rtol=1e-15)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("size", [1e3, 1e8])
def test_extreme_scores_give_no_warning_and_no_nan(name, size):
    case = LOSSES[name]
    for y in TARGETS[case.targets]:
        s = np.array([-size, size])
        value, slope = case.loss.value_slope(np.full(2, y), s)
        assert not np.isnan(value).any()
        assert not np.isnan(slope).any()
        assert (value >= case.loss.infimum(np.array([y]))).all()
        if case.is_smooth:
            assert (case.loss.curvature(np.full(2, y), s) >= 0.0).all()


@pytest.mark.parametrize("name", ALL)
def test_a_value_that_overflows_is_infinite_without_a_warning(name):
    case = LOSSES[name]
    for y in TARGETS[case.targets]:
        value = case.loss.value_slope(np.full(2, y), np.array([-1e200, 1e200]))[0]
        assert not np.isnan(value).any()


@pytest.mark.parametrize("name", MARGIN)
@pytest.mark.parametrize("bad", [0.0, 2.0, math.nan, math.inf])
def test_a_margin_loss_refuses_targets_other_than_signs(name, bad):
    with pytest.raises(DataError, match=rf"-1 or \+1; got {bad} at sample 2"):
        LOSSES[name].loss.check_target(np.array([1.0, -1.0, bad]))


@pytest.mark.parametrize("name", [*REALS, "poisson"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_regression_loss_refuses_targets_that_are_not_finite(name, bad):
    with pytest.raises(DataError, match=f"finite; got {bad} at sample 1"):
        LOSSES[name].loss.check_target(np.array([1.0, bad]))


def test_the_poisson_loss_refuses_negative_targets():
    with pytest.raises(DataError, match=r"non-negative; got -1.0 at sample 1"):
        Poisson().check_target(np.array([0.0, -1.0]))


@pytest.mark.parametrize("name", ALL)
def test_targets_of_the_right_kind_are_accepted(name):
    LOSSES[name].loss.check_target(np.array(TARGETS[LOSSES[name].targets]))


@pytest.mark.parametrize("name", ALL)
def test_a_prediction_is_the_score_or_the_mean_it_stands_for(name):
    s = np.array([-1.0, 0.0, 2.0])
    expected = np.exp(s) if name == "poisson" else s
    np.testing.assert_array_equal(LOSSES[name].loss.predict(s), expected)


@dataclass(frozen=True)
class BadSetting:
    loss: type
    name: str
    value: float
    rule: str


@pytest.mark.parametrize(
    "bad",
    [
        BadSetting(HuberHinge, "width", 0.0, "`width` must be positive"),
        BadSetting(HuberHinge, "width", math.nan, "`width` must be positive"),
        BadSetting(HuberHinge, "width", math.inf, "`width` must be"),
        BadSetting(Huber, "width", -1.0, "`width` must be positive"),
        BadSetting(EpsilonInsensitive, "epsilon", -0.1, "`epsilon` must be non-negative"),
        BadSetting(EpsilonInsensitive, "epsilon", math.nan, "`epsilon` must be non-negative"),
        BadSetting(EpsilonInsensitive, "epsilon", math.inf, "`epsilon` must be"),
        BadSetting(Quantile, "quantile", 0.0, "`quantile` must lie between 0 and 1"),
        BadSetting(Quantile, "quantile", 1.0, "`quantile` must lie between 0 and 1"),
        BadSetting(Quantile, "quantile", math.nan, "`quantile` must lie between 0 and 1"),
    ],
    ids=lambda bad: f"{bad.loss.__name__}({bad.name}={bad.value})",
)
def test_a_setting_outside_its_domain_is_refused_with_rule_and_value(bad):
    with pytest.raises(ParameterError) as refusal:
        bad.loss(**{bad.name: bad.value})
    assert bad.rule in str(refusal.value)
    assert f"got {bad.value!r}" in str(refusal.value)
    assert isinstance(refusal.value, UndercutError | ValueError)
