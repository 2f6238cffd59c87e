"""What the linear risk accepts, what it refuses and why, and what it never copies or modifies."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import Hinge, LinearRisk, Squared
from undercut.errors import DataError

X = np.arange(6.0).reshape(3, 2)
Y = np.array([1.0, -1.0, 1.0])


def replaced(value):
    bad = X.copy()
    bad[1, 1] = value
    return bad


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, lambda X: X.astype(np.float32)])
def test_features_that_are_not_finite_are_refused(value, convert):
    with pytest.raises(DataError, match="X must be finite; it contains NaN or infinity: drop or impute"):
        LinearRisk(convert(replaced(value)), Y, Hinge())


def test_opposite_infinities_are_not_overlooked():
    bad = X.copy()
    bad[0, 0], bad[1, 1] = np.inf, -np.inf
    with pytest.raises(DataError, match="X must be finite"):
        LinearRisk(bad, Y, Hinge())


def test_features_whose_sum_overflows_are_finite_all_the_same():
    risk = LinearRisk(np.full((3, 2), 1.7e308), Y, Hinge())
    assert risk.value(np.zeros(2)) == 1.0


@pytest.mark.parametrize("bad", [X[0], X[None], np.float64(1.0)])
def test_features_must_be_two_dimensional(bad):
    with pytest.raises(DataError, match="X must be 2-dimensional, samples by features; got shape"):
        LinearRisk(bad, Y, Hinge())


@pytest.mark.parametrize("bad", [X.astype(complex), sp.csr_array(X.astype(complex)), X.astype(str), X.astype(object)])
def test_features_must_be_real_numbers(bad):
    with pytest.raises(DataError, match="X must hold real numbers; got dtype"):
        LinearRisk(bad, Y, Hinge())


@pytest.mark.parametrize("y", [Y[:2], np.ones((3, 1)), np.ones(0), np.float64(1.0)])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, np.ndarray.tolist])
def test_there_is_one_target_per_row(y, convert):
    with pytest.raises(DataError, match="y must have one target per row of X"):
        LinearRisk(convert(X), y, Hinge())


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_no_samples_are_refused(convert):
    with pytest.raises(DataError, match="at least one"):
        LinearRisk(convert(np.zeros((0, 2))), np.zeros(0), Hinge())


@pytest.mark.parametrize(
    "y", [Y.astype(complex), ["a", "b", "c"], [None, 1.0, 1.0], [np.nan, 1.0, 1.0], [0.0, 1.0, 1.0]]
)
def test_targets_outside_the_domain_are_refused(y):
    with pytest.raises(DataError):
        LinearRisk(X, y, Hinge())


@pytest.mark.parametrize(
    ("weight", "rule"),
    [
        ([1.0, 1.0], r"one entry per sample, shape \(3,\); got \(2,\)"),
        (1.0, r"one entry per sample, shape \(3,\); got \(\)"),
        ([1.0, -1.0, 1.0], "finite and non-negative; got a minimum of -1.0"),
        ([1.0, np.nan, 1.0], "finite and non-negative"),
        ([1.0, np.inf, 1.0], "finite and non-negative"),
        ([0.0, 0.0, 0.0], "positive sum; got only zeros"),
    ],
)
def test_sample_weights_outside_the_domain_are_refused(weight, rule):
    with pytest.raises(DataError, match=f"sample_weight must .*{rule}"):
        LinearRisk(X, Y, Hinge(), weight)


@pytest.mark.parametrize(
    "convert",
    [np.ndarray.tolist, np.int32, np.uint8, np.float16, lambda X: X.astype(">f8"), np.longdouble, sp.coo_array],
)
def test_any_real_features_give_the_same_risk(convert):
    w = np.array([0.3, -0.2])
    assert LinearRisk(convert(X), Y, Hinge()).value(w) == LinearRisk(X, Y, Hinge()).value(w)


def test_boolean_features_are_zeros_and_ones():
    w = np.array([0.3, -0.2])
    ones = X > 2.0
    assert LinearRisk(ones, Y, Hinge()).value(w) == LinearRisk(ones.astype(float), Y, Hinge()).value(w)


def test_targets_and_weights_may_be_lists_of_integers():
    risk = LinearRisk(X, [1, -1, 1], Hinge(), [1, 2, 1])
    assert risk.value(np.zeros(2)) == 1.0


def test_nothing_given_is_modified(rng):
    for convert in (np.array, sp.csr_array):
        features, y, weight, w = convert(X), Y.copy(), np.ones(3), rng.standard_normal(2)
        before = w.copy()
        risk = LinearRisk(features, y, Hinge(), weight, fit_intercept=True)
        risk.cut(w), risk.value(w), risk.along(w, w).minimizer(0.0, 1.0)
        np.testing.assert_array_equal(features.toarray() if sp.issparse(features) else features, X)
        np.testing.assert_array_equal(y, Y)
        np.testing.assert_array_equal(weight, np.ones(3))
        np.testing.assert_array_equal(w, before)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_a_wide_sparse_matrix_is_never_copied(fit_intercept, index, rng):
    """4000 x 50000 would be 1.6 GB dense; the CSR parts are 2.4 MB, a vector of scores 32 KB, a gradient 400 KB."""
    n, d, per_row = 4000, 50_000, 50
    indices = rng.integers(0, d, n * per_row).astype(index)
    wide = sp.csr_array((np.ones(n * per_row), indices, np.arange(0, n * per_row + 1, per_row).astype(index)), (n, d))
    y, w = rng.standard_normal(n), rng.standard_normal(d)
    tracemalloc.start()
    risk = LinearRisk(wide, y, Squared(), fit_intercept=fit_intercept)
    risk.cut(w)
    risk.along(w, w).minimizer(0.0, 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_float32_features_are_never_widened_as_a_whole(rng):
    narrow = rng.standard_normal((20_000, 100)).astype(np.float32)  # 8 MB
    y, w = rng.standard_normal(20_000), rng.standard_normal(100)
    tracemalloc.start()
    LinearRisk(narrow, y, Squared()).cut(w)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6_000_000
