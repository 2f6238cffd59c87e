"""TransductiveRisk and the sums of kinked losses it is made of: formula, intercept, balance, convex majorizer."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from undercut import Hinge, LinearRisk, Ramp
from undercut.contracts import LineRisk
from undercut.errors import DataError, ParameterError
from undercut.losses import TransductiveHinge
from undercut.risks import TransductiveRisk
from undercut.risks.scores.kinked import Balanced, FixedKinked, FreeKinked

N, D = 24, 3
MODES = {"plain": {}, "intercept": {"fit_intercept": True}, "balance": {"fit_intercept": True, "balance": 0.2}}
modes = pytest.mark.parametrize("mode", MODES)


def data(seed=0, n=N, d=D):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(np.arange(n) % 3 == 0, np.where(np.arange(n) % 2 == 0, 1.0, -1.0), 0.0)
    return X, y, rng.random(n) + 0.1


def formula(y, s, gamma, weight=None):
    weight = np.ones_like(s) if weight is None else weight
    free = y == 0.0
    hinge = np.maximum(0.0, 1.0 - y * s)
    hat = np.maximum(0.0, 1.0 - np.abs(s))
    labelled = np.average(hinge[~free], weights=weight[~free])
    return labelled + (gamma * np.average(hat[free], weights=weight[free]) if free.any() and gamma else 0.0)


# The formula


@pytest.mark.parametrize("gamma", [0.0, 0.3, 5.0])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("kind", ["dense", "csr", "float32"])
def test_the_value_is_the_formula(gamma, weighted, kind, rng):
    X, y, weight = data()
    weight = weight if weighted else None
    given_X = {"dense": X, "csr": sp.csr_array(X), "float32": X.astype(np.float32)}[kind]
    risk = TransductiveRisk(given_X, y, gamma, weight)
    for scale in (0.0, 0.3, 3.0):
        w = scale * rng.standard_normal(D)
        expected = formula(y, np.asarray(given_X @ w, dtype=float), gamma, weight)
        assert risk.value(w) == pytest.approx(expected, rel=1e-6 if kind == "float32" else 1e-12)
        assert risk.intercept(w) == 0.0


@modes
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_value_and_intercept_belong_together(mode, weighted, rng):
    X, y, weight = data()
    weight = weight if weighted else None
    risk = TransductiveRisk(X, y, 1.5, weight, **MODES[mode])
    for scale in (0.1, 1.0, 10.0):
        w = scale * rng.standard_normal(D)
        assert risk.value(w) == pytest.approx(formula(y, X @ w + risk.intercept(w), 1.5, weight), rel=1e-11)


@modes
def test_the_plane_touches_the_risk_and_has_its_gradient(mode, rng):
    X, y, weight = data()
    risk = TransductiveRisk(X, y, 1.5, weight, **MODES[mode])
    for scale in (0.1, 0.7, 3.0):
        w = scale * rng.standard_normal(D)
        cut = risk.cut(w)
        assert cut.a @ w + cut.b == pytest.approx(cut.value, rel=1e-11, abs=1e-11)
        assert cut.value == pytest.approx(risk.value(w), rel=1e-13)
        differences = [(risk.value(w + e) - risk.value(w - e)) / 2e-7 for e in 1e-7 * np.eye(D)]
        np.testing.assert_allclose(cut.a, differences, atol=1e-6)


@modes
def test_a_line_agrees_with_the_risk(mode, rng):
    X, y, _ = data()
    risk = TransductiveRisk(X, y, **MODES[mode])
    w, direction = rng.standard_normal((2, D))
    line = risk.along(w, direction)
    assert isinstance(risk, LineRisk)
    for t in (0.0, 0.3, 2.0):
        assert line.value(t) == pytest.approx(risk.value(w + t * direction), rel=1e-12)
        np.testing.assert_allclose(line.cut(t).a, risk.cut(w + t * direction).a, atol=1e-12)


def test_the_risk_says_that_it_is_not_convex_but_bounded():
    X, y, _ = data()
    risk = TransductiveRisk(X, y)
    assert not risk.is_convex
    assert risk.lower_bound == 0.0
    assert risk.n_params == D


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_without_unlabelled_samples_or_their_share_it_is_the_hinge(fit_intercept, rng):
    X, y, weight = data()
    labelled = y != 0.0
    hinge = LinearRisk(X[labelled], y[labelled], Hinge(), weight[labelled], fit_intercept=fit_intercept)
    alone = TransductiveRisk(X[labelled], y[labelled], 3.0, weight[labelled], fit_intercept=fit_intercept)
    silent = TransductiveRisk(X, y, 0.0, weight, fit_intercept=fit_intercept)
    for w in rng.standard_normal((10, D)):
        assert alone.value(w) == pytest.approx(hinge.value(w), rel=1e-11, abs=1e-12)
        assert silent.value(w) == pytest.approx(hinge.value(w), rel=1e-11, abs=1e-12)


@modes
def test_a_sample_with_weight_two_counts_twice(mode, rng):
    """Labelled or not, and for the balance of the unlabelled ones too."""
    X, y, _ = data()
    twice = np.r_[np.arange(N), [0, 1, 4]]
    weight = np.ones(N)
    weight[[0, 1, 4]] = 2.0
    heavy = TransductiveRisk(X, y, 1.0, weight, **MODES[mode])
    repeated = TransductiveRisk(X[twice], y[twice], 1.0, **MODES[mode])
    for w in rng.standard_normal((10, D)):
        assert heavy.value(w) == pytest.approx(repeated.value(w), rel=1e-11)


@modes
def test_a_sample_without_weight_might_as_well_be_missing(mode, rng):
    X, y, weight = data()
    weight[[0, 1, 4, 5]] = 0.0
    there = TransductiveRisk(X, y, 1.0, weight, **MODES[mode])
    left = weight > 0.0
    missing = TransductiveRisk(X[left], y[left], 1.0, weight[left], **MODES[mode])
    for w in rng.standard_normal((10, D)):
        assert there.value(w) == pytest.approx(missing.value(w), rel=1e-11)


def test_unlabelled_samples_that_have_no_weight_at_all_might_as_well_be_missing(rng):
    X, y, _ = data()
    silent = TransductiveRisk(X, y, 1.0, np.where(y == 0.0, 0.0, 1.0))
    missing = TransductiveRisk(X[y != 0.0], y[y != 0.0], 1.0)
    for w in rng.standard_normal((5, D)):
        assert silent.value(w) == pytest.approx(missing.value(w), rel=1e-12)


# The intercept


def phi_of(loss, y, weight, kind):
    return kind(loss.kinks(y), weight)


def best_intercept(loss, y, weight, scores):
    """The lowest of all kinks in b, by trying each."""
    candidates = (loss.kinks(y).at - scores).ravel()
    totals = [float(weight @ loss.value_slope(y, scores + b)[0]) for b in candidates]
    return min(totals)


LOSSES = {"ramp": (Ramp(-0.5), [-1.0, 1.0]), "transductive": (TransductiveHinge(), [-1.0, 0.0, 1.0])}
losses = pytest.mark.parametrize("name", LOSSES)


def draw_case(name, seed, n, lattice, zeros):
    """Random scores, on a lattice so that kinks coincide exactly, some samples without weight."""
    loss, targets = LOSSES[name]
    rng = np.random.default_rng(seed)
    y = rng.choice(targets, n)
    scores = rng.integers(-8, 9, n) * lattice if lattice else 2.0 * rng.standard_normal(n)
    weight = rng.integers(1, 4, n).astype(float)
    if zeros:
        weight[rng.random(n) < 0.4] = 0.0
        weight[0] = 1.0
    return loss, y, scores, weight / weight.sum()


@losses
@settings(max_examples=150)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), lattice=st.sampled_from([0.0, 0.5, 0.1]), zeros=st.booleans())
def test_the_intercept_is_the_global_minimum(name, seed, n, lattice, zeros):
    """Brute force over all kinks finds no better one: ties, duplicates and zero weights included."""
    loss, y, scores, weight = draw_case(name, seed, n, lattice, zeros)
    value, _, b = phi_of(loss, y, weight, FreeKinked).evaluate(scores)
    assert value == pytest.approx(best_intercept(loss, y, weight, scores), abs=1e-12)
    assert value == pytest.approx(float(weight @ loss.value_slope(y, scores + b)[0]), abs=1e-12)
    for other in np.linspace(-12.0, 12.0, 49):
        assert value <= float(weight @ loss.value_slope(y, scores + other)[0]) + 1e-12


@losses
@settings(max_examples=150)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), lattice=st.sampled_from([0.0, 0.5, 0.1]), zeros=st.booleans())
def test_the_slopes_at_the_best_intercept_sum_to_zero(name, seed, n, lattice, zeros):
    """And each is one its own loss has there.  A lattice of tenths makes kinks that coincide but for rounding."""
    loss, y, scores, weight = draw_case(name, seed, n, lattice, zeros)
    _, slopes, b = phi_of(loss, y, weight, FreeKinked).evaluate(scores)
    assert abs(slopes.sum()) <= 1e-12
    behind = loss.value_slope(y, scores + b - 1e-9)[1] * weight
    ahead = loss.value_slope(y, scores + b + 1e-9)[1] * weight
    assert (slopes >= np.minimum(behind, ahead) - 1e-12).all()
    assert (slopes <= np.maximum(behind, ahead) + 1e-12).all()


@losses
def test_the_slopes_sum_to_zero_where_kinks_coincide_but_for_rounding(name):
    """Samples on the margin, as at every solution: the values at their kinks do not tell which is the lowest."""
    loss, targets = LOSSES[name]
    for seed in range(50):
        rng = np.random.default_rng(seed)
        y = rng.choice(targets, 20)
        on_margin = y - 0.3 + rng.integers(-2, 3, 20) * 1e-16
        scores = np.where(rng.random(20) < 0.6, on_margin, rng.standard_normal(20))
        slopes = phi_of(loss, y, np.full(20, 0.05), FreeKinked).evaluate(scores).slopes
        assert abs(slopes.sum()) <= 1e-9, seed


@losses
@pytest.mark.parametrize("shift", [1e-3, 1.0, -50.0])
def test_a_common_shift_of_all_scores_is_absorbed(name, shift):
    loss, y, scores, weight = draw_case(name, 3, 15, 0.0, False)
    phi = phi_of(loss, y, weight, FreeKinked)
    here, there = phi.evaluate(scores), phi.evaluate(scores + shift)
    assert there.value == pytest.approx(here.value, rel=1e-11)
    assert there.intercept + shift == pytest.approx(here.intercept, abs=1e-9)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_one_class_with_an_intercept_costs_nothing(sign):
    phi = phi_of(Ramp(), np.full(5, sign), np.full(5, 0.2), FreeKinked)
    value, slopes, b = phi.evaluate(np.linspace(-3.0, 3.0, 5))
    assert value == pytest.approx(0.0, abs=1e-14)
    np.testing.assert_allclose(slopes.sum(), 0.0, atol=1e-14)
    assert np.isfinite(b)


def test_one_sample_has_a_finite_intercept():
    for y in (-1.0, 1.0):
        value, _, b = phi_of(Ramp(), np.array([y]), np.ones(1), FreeKinked).evaluate(np.array([7.0]))
        assert value == pytest.approx(0.0, abs=1e-14)
        assert y * (7.0 + b) >= 1.0 - 1e-12


# The balance


@pytest.mark.parametrize("target", [-0.8, 0.0, 0.3])
def test_the_balance_is_met_exactly(target, rng):
    X, y, _ = data()
    risk = TransductiveRisk(X, y, 1.0, fit_intercept=True, balance=target)
    for scale in (0.0, 0.1, 5.0, 1e4):
        w = scale * rng.standard_normal(D)
        scores = X @ w + risk.intercept(w)
        assert scores[y == 0.0].mean() == pytest.approx(target, abs=1e-12 * max(1.0, scale))


@losses
@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_of_a_balanced_function_agrees_with_finite_differences(name, seed):
    loss, y, scores, weight = draw_case(name, seed, 8, 0.0, False)
    share = np.where(np.arange(8) % 2 == 0, 0.25, 0.0)
    phi = Balanced(FixedKinked(loss.kinks(y), weight), share, 0.3)
    slopes = phi.evaluate(scores).slopes.copy()
    differences = [(phi.evaluate(scores + e).value - phi.evaluate(scores - e).value) / 2e-7 for e in 1e-7 * np.eye(8)]
    np.testing.assert_allclose(slopes, differences, atol=1e-6)
    assert slopes.sum() == pytest.approx(0.0, abs=1e-14)


def test_a_balance_keeps_a_large_gamma_from_putting_all_samples_on_one_side(rng):
    """With a free intercept and scores near zero everything is best moved to one side."""
    X = rng.standard_normal((60, 2))
    y = np.where(np.arange(60) < 4, np.where(np.arange(60) % 2 == 0, 1.0, -1.0), 0.0)
    w = np.array([0.2, 0.1])
    free, balanced = (
        TransductiveRisk(X, y, 50.0, fit_intercept=True, balance=balance).intercept(w) for balance in (None, 0.0)
    )
    sides = [np.sign(X[4:] @ w + b).mean() for b in (free, balanced)]
    assert abs(sides[0]) == 1.0
    assert abs(sides[1]) < 0.9


# The convex majorizer


@modes
@pytest.mark.parametrize("gamma", [0.0, 1.0, 10.0])
def test_the_majorizer_lies_above_the_risk_and_touches_it(mode, gamma, rng):
    X, y, weight = data()
    risk = TransductiveRisk(X, y, gamma, weight, **MODES[mode])
    for w in (np.zeros(D), *rng.standard_normal((4, D))):
        above = risk.majorizer(w)
        assert above.is_convex
        assert above.value(w) == pytest.approx(risk.value(w), rel=1e-11)
        for v in (0.1 * rng.standard_normal((5, D)) + w).tolist() + (3.0 * rng.standard_normal((10, D))).tolist():
            assert above.value(np.array(v)) >= risk.value(np.array(v)) - 1e-11


@modes
def test_the_planes_of_the_majorizer_support_it(mode, rng):
    X, y, weight = data()
    above = TransductiveRisk(X, y, 2.0, weight, **MODES[mode]).majorizer(rng.standard_normal(D))
    points = 2.0 * rng.standard_normal((12, D))
    values = [above.value(v) for v in points]
    for w in points:
        cut = above.cut(w)
        assert cut.a @ w + cut.b == pytest.approx(cut.value, rel=1e-11, abs=1e-11)
        for v, value in zip(points, values, strict=True):
            assert cut.a @ v + cut.b <= value + 1e-10
    assert above.lower_bound <= min(values)


# Refusals


@pytest.mark.parametrize("gamma", [-1.0, np.nan, np.inf])
def test_a_gamma_outside_its_domain_is_refused(gamma):
    X, y, _ = data()
    with pytest.raises(ParameterError, match="`gamma` must be non-negative and finite; got"):
        TransductiveRisk(X, y, gamma)


@pytest.mark.parametrize("balance", [-1.0, 1.0, np.nan])
def test_a_balance_outside_its_domain_is_refused(balance):
    X, y, _ = data()
    with pytest.raises(ParameterError, match="`balance` must be between -1 and 1; got"):
        TransductiveRisk(X, y, fit_intercept=True, balance=balance)


def test_only_unlabelled_samples_are_refused():
    with pytest.raises(DataError, match="labelled samples"):
        TransductiveRisk(np.eye(3), np.zeros(3))


def test_other_targets_are_refused():
    with pytest.raises(DataError, match=r"targets must be -1, \+1, or 0 for unlabelled; got 2.0 at sample 1"):
        TransductiveRisk(np.eye(3), np.array([1.0, 2.0, 0.0]))


def test_weights_of_the_wrong_length_are_refused():
    with pytest.raises(DataError, match="sample_weight must have one entry per sample"):
        TransductiveRisk(np.eye(3), np.array([1.0, -1.0, 0.0]), 1.0, np.ones(2))


@pytest.mark.parametrize("bad", [-1.0, np.nan])
def test_weights_that_are_no_weights_are_refused(bad):
    for at in (0, 2):
        weight = np.ones(3)
        weight[at] = bad
        with pytest.raises(DataError, match="sample_weight must be finite and non-negative"):
            TransductiveRisk(np.eye(3), np.array([1.0, -1.0, 0.0]), 1.0, weight)


def test_nothing_given_is_modified(rng):
    X, y, weight = data()
    before = X.copy(), y.copy(), weight.copy()
    TransductiveRisk(X, y, 1.0, weight, fit_intercept=True, balance=0.1).cut(rng.standard_normal(D))
    for now, then in zip((X, y, weight), before, strict=True):
        np.testing.assert_array_equal(now, then)
