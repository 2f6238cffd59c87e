"""The quadratic penalty: its formula, its Fenchel dual, and its domain."""

from __future__ import annotations

import math

import numpy as np
import pytest

from undercut import L2
from undercut.errors import DataError, ParameterError
from undercut.testing import check_regularizer

N = 4
CENTER, WEIGHTS = np.array([1.0, -2.0, 0.0, 3.0]), np.array([0.5, 1.0, 2.0, 0.1])
VARIANTS = {
    "plain": {},
    "center": {"center": CENTER},
    "weights": {"weights": WEIGHTS},
    "both": {"center": CENTER, "weights": WEIGHTS},
}
variants = pytest.mark.parametrize("variant", VARIANTS)
lambdas = pytest.mark.parametrize("lam", [1e-9, 0.3, 1e3])


@variants
@lambdas
def test_the_value_is_the_formula(variant, lam, rng):
    w = rng.standard_normal(N)
    given = VARIANTS[variant]
    shifted = (w - given.get("center", 0.0)) * given.get("weights", 1.0)
    assert L2(lam, **given).value(w) == pytest.approx(0.5 * lam * float(shifted @ shifted), rel=1e-13)


@variants
@lambdas
def test_it_fits_its_fenchel_dual(variant, lam):
    check_regularizer(L2(lam, **VARIANTS[variant]), N)


@variants
def test_the_gradient_agrees_with_differences_of_the_value(variant, rng):
    reg, w = L2(0.3, **VARIANTS[variant]), rng.standard_normal(N)
    for i in range(N):
        e = np.eye(N)[i]
        assert reg.gradient(w)[i] == pytest.approx(0.5 * (reg.value(w + e) - reg.value(w - e)), abs=1e-12)


@variants
def test_the_inner_product_of_planes_is_the_one_of_the_dual(variant, rng):
    reg, A = L2(0.3, **VARIANTS[variant]), rng.standard_normal((3, N))
    metric = 0.3 * VARIANTS[variant].get("weights", np.ones(N)) ** 2
    np.testing.assert_allclose(reg.dual_inner(A, A[1]), A @ (A[1] / metric), rtol=1e-13)


@variants
def test_the_minimizer_is_the_center(variant):
    reg = L2(0.3, **VARIANTS[variant])
    lowest = reg.conjugate_argmax(np.zeros(N))
    assert reg.value(lowest) == 0.0
    np.testing.assert_array_equal(lowest, VARIANTS[variant].get("center", np.zeros(N)))


def test_strong_convexity_is_the_smallest_curvature():
    assert L2(0.3).strong_convexity == 0.3
    assert L2(0.3, weights=WEIGHTS).strong_convexity == pytest.approx(0.3 * 0.01)


@pytest.mark.parametrize("lam", [0.0, -0.1, math.nan, math.inf])
def test_lam_must_be_positive_and_finite(lam):
    with pytest.raises(ParameterError, match=f"`lam` must be positive and finite; got {lam!r}"):
        L2(lam)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_weights_must_be_positive_and_finite(bad):
    with pytest.raises(ParameterError, match="`weights` must be positive and finite; got"):
        L2(1.0, weights=[1.0, bad])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_the_center_must_be_finite(bad):
    with pytest.raises(ParameterError, match="`center` must be finite; got"):
        L2(1.0, center=[1.0, bad])


@pytest.mark.parametrize("name", ["center", "weights"])
def test_a_size_that_does_not_fit_is_refused(name):
    reg = L2(1.0, **{name: [1.0, 2.0]})
    reg.check_size(2)
    with pytest.raises(DataError, match=rf"`{name}` must have shape \(3,\) like w; got \(2,\)"):
        reg.check_size(3)


def test_lists_are_taken_as_arrays():
    reg = L2(1.0, center=[1, 0], weights=[1, 2])
    assert reg.value(np.array([1.0, 1.0])) == 2.0


def test_the_arrays_given_are_never_modified(rng):
    center, weights, w = CENTER.copy(), WEIGHTS.copy(), rng.standard_normal(N)
    before = w.copy()
    reg = L2(0.5, center=center, weights=weights)
    reg.value(w), reg.gradient(w), reg.conjugate(w), reg.conjugate_argmax(w), reg.along(w, w)
    np.testing.assert_array_equal(center, CENTER)
    np.testing.assert_array_equal(weights, WEIGHTS)
    np.testing.assert_array_equal(w, before)
