"""The linear risk over every loss, layout and width, and over data that are degenerate in every way we know."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from tests.catalogue import ALL, LOSSES, MARGIN, Problem

from undercut import LinearRisk
from undercut.contracts import Loss
from undercut.errors import CapabilityError
from undercut.testing import check_risk

intercepts = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
losses = pytest.mark.parametrize("name", ALL)


def csr(X, index, real):
    X = sp.csr_array(X.astype(real))
    X.indptr, X.indices = X.indptr.astype(index), X.indices.astype(index)
    return X


LAYOUTS = {
    "dense64": lambda X: X,
    "dense32": lambda X: X.astype(np.float32),
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "csr32_int32": lambda X: csr(X, np.int32, np.float32),
    "csr32_int64": lambda X: csr(X, np.int64, np.float32),
    "csr64_int32": lambda X: csr(X, np.int32, np.float64),
    "csr64_int64": lambda X: csr(X, np.int64, np.float64),
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "csr_matrix": sp.csr_matrix,
}


@losses
@intercepts
@pytest.mark.parametrize("layout", LAYOUTS)
def test_keeps_the_contract_of_a_risk(name, fit_intercept, layout):
    problem = Problem(name, fit_intercept, weighted=True)
    X = LAYOUTS[layout](problem.X)
    risk = LinearRisk(X, problem.y, problem.case.loss, problem.sample_weight, fit_intercept=fit_intercept)
    check_risk(risk)


@losses
@intercepts
def test_the_value_is_the_weighted_mean_of_the_formula(name, fit_intercept, rng):
    problem = Problem(name, fit_intercept, weighted=True)
    risk = problem.risk()
    for w in rng.standard_normal((5, problem.d)):
        b = risk.intercept(w)
        expected = problem.objective(w, b) - problem.reg.value(w)
        assert risk.value(w) == pytest.approx(expected, rel=1e-12, abs=1e-13)
        assert fit_intercept or b == 0.0


@losses
@intercepts
def test_layouts_agree(name, fit_intercept, rng):
    problem = Problem(name, fit_intercept)
    narrow = problem.X.astype(np.float32)  # exact in both widths
    w = rng.standard_normal(problem.d)
    cuts = []
    for convert in LAYOUTS.values():
        risk = LinearRisk(convert(narrow), problem.y, problem.case.loss, fit_intercept=fit_intercept)
        cuts.append(risk.cut(w))
    for cut in cuts[1:]:
        np.testing.assert_allclose(cut.a, cuts[0].a, rtol=1e-7, atol=1e-8 if fit_intercept else 1e-14)
        assert cut.value == pytest.approx(cuts[0].value, rel=1e-13)


@losses
@intercepts
def test_narrow_features_give_the_same_as_their_wide_copy(name, fit_intercept, rng):
    """Rows enough for several blocks; products of float32 data are summed in float64."""
    n, d = 700, 800
    X = rng.standard_normal((n, d)).astype(np.float32) / 30.0
    y = LOSSES[name].draw_targets(rng, n)
    w = rng.standard_normal(d)
    narrow, wide = (LinearRisk(Z, y, LOSSES[name].loss, fit_intercept=fit_intercept) for Z in (X, X.astype(float)))
    assert narrow.value(w) == pytest.approx(wide.value(w), rel=1e-12)
    np.testing.assert_allclose(narrow.cut(w).a, wide.cut(w).a, rtol=1e-6, atol=1e-9 if fit_intercept else 1e-14)


@losses
@intercepts
def test_a_sample_weight_stands_for_repeated_rows(name, fit_intercept, rng):
    problem = Problem(name)
    counts = rng.integers(1, 4, problem.n)
    rows = np.repeat(np.arange(problem.n), counts)
    loss = problem.case.loss
    weighted = LinearRisk(problem.X, problem.y, loss, counts, fit_intercept=fit_intercept)
    repeated = LinearRisk(problem.X[rows], problem.y[rows], loss, fit_intercept=fit_intercept)
    for w in rng.standard_normal((5, problem.d)):
        assert weighted.value(w) == pytest.approx(repeated.value(w), rel=1e-12)
    assert weighted.lower_bound == pytest.approx(repeated.lower_bound, rel=1e-12, abs=1e-15)


@losses
@intercepts
@pytest.mark.parametrize("scale", [1e-200, 7.0, 1e200])
def test_only_the_proportions_of_the_weights_matter(name, fit_intercept, scale, rng):
    problem = Problem(name, fit_intercept, weighted=True)
    scaled = LinearRisk(
        problem.X, problem.y, problem.case.loss, scale * problem.sample_weight, fit_intercept=fit_intercept
    )
    w = rng.standard_normal(problem.d)
    assert scaled.value(w) == pytest.approx(problem.risk().value(w), rel=1e-12)


@losses
@intercepts
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_sample_without_weight_is_as_good_as_absent(name, fit_intercept, scale, rng):
    """Also where its loss overflows."""
    problem = Problem(name, fit_intercept)
    weight = np.where(np.arange(problem.n) < 10, 0.0, 1.0)
    X = problem.X.copy()
    X[:10] *= scale
    w = rng.standard_normal(problem.d)
    loss = problem.case.loss
    some = LinearRisk(X, problem.y, loss, weight, fit_intercept=fit_intercept)
    without = LinearRisk(X[10:], problem.y[10:], loss, fit_intercept=fit_intercept)
    assert some.value(w) == pytest.approx(without.value(w), rel=1e-12)
    np.testing.assert_allclose(some.cut(w).a, without.cut(w).a, rtol=1e-6, atol=1e-7)


def degenerate_data(name):
    """Everything is small integers, so that ties and scores on kinks abound."""
    rng, case = np.random.default_rng(5), LOSSES[name]
    X = rng.integers(-1, 2, (12, 3)).astype(np.float64)
    y = rng.integers(0, 3, 12).astype(np.float64)
    if case.targets == "signs":
        y = np.where(np.arange(12) % 3 == 0, 1.0, -1.0)
    zero_rows, constant = X.copy(), X.copy()
    zero_rows[::2] = 0.0
    constant[:, 1] = 1.0
    weight = np.where(np.arange(12) % 4 == 0, 0.0, 1.0)
    return {
        "integers": (X, y, None),
        "zero_rows": (zero_rows, y, None),
        "all_zero": (0.0 * X, y, None),
        "constant_feature": (constant, y, None),
        "one_sample": (X[:1], y[:1], None),
        "one_target": (X, np.full(12, y[1]), None),
        "other_target": (X, np.full(12, y[0]), None),
        "duplicates": (np.repeat(X, 3, axis=0), np.repeat(y, 3), None),
        "contradictions": (np.concatenate([X, X]), np.concatenate([y, y[::-1]]), None),
        "zero_weights": (X, y, weight),
        "one_weighted_sample": (X, y, np.eye(12)[3]),
    }


DEGENERATE = tuple(degenerate_data("hinge"))


@losses
@intercepts
@pytest.mark.parametrize("kind", DEGENERATE)
def test_planes_support_the_risk_on_degenerate_data(name, fit_intercept, kind):
    X, y, weight = degenerate_data(name)[kind]
    risk = LinearRisk(X, y, LOSSES[name].loss, weight, fit_intercept=fit_intercept)
    check_risk(risk)
    points = [np.array(w, dtype=np.float64) for w in product((-1, 0, 1), repeat=3)]  # scores on the kinks
    values = [risk.value(v) for v in points]
    for w in points:
        cut = risk.cut(w)
        planes = [float(cut.a @ v) + cut.b for v in points]
        assert max(np.subtract(planes, values)) <= 1e-10 * max(1.0, *map(abs, values))
        assert float(cut.a @ w) + cut.b == pytest.approx(risk.value(w), abs=1e-12)


@pytest.mark.parametrize("name", MARGIN)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("n", [1, 10, 49, 1000])
def test_one_class_with_an_intercept_has_no_risk(name, sign, n, rng):
    risk = LinearRisk(rng.standard_normal((n, 2)), np.full(n, sign), LOSSES[name].loss, fit_intercept=True)
    w = rng.standard_normal(2)
    cut = risk.cut(w)
    assert -1e-15 <= cut.value <= 1e-10
    assert np.abs(cut.a).max() <= 1e-10
    assert np.isfinite(risk.intercept(w))


@losses
@intercepts
def test_the_lower_bound_holds_everywhere(name, fit_intercept, rng):
    risk = Problem(name, fit_intercept, weighted=True).risk()
    for scale in (0.0, 0.1, 1.0, 10.0):
        w = scale * rng.standard_normal(risk.n_params)
        assert risk.value(w) >= risk.lower_bound - 1e-12


class Bent(Loss):
    """``|s - y| + (s - y)^2``: neither smooth nor piecewise linear, with a derived infimum."""

    def value_slope(self, y, scores):
        residual = scores - y
        return np.abs(residual) + residual**2, np.sign(residual) + 2.0 * residual

    def check_target(self, y):
        pass


class Unbounded(Bent):
    """A loss whose author knows no bound."""

    def infimum(self, y):
        return np.full_like(y, -np.inf)


def test_a_loss_that_is_only_a_loss_makes_a_risk(rng):
    check_risk(LinearRisk(rng.standard_normal((20, 3)), rng.standard_normal(20), Bent()))


def test_a_loss_that_is_only_a_loss_has_no_exact_intercept(rng):
    with pytest.raises(CapabilityError) as refusal:
        LinearRisk(rng.standard_normal((4, 2)), np.zeros(4), Bent(), fit_intercept=True)
    assert "a PiecewiseLinearLoss or a KinkedLoss" in str(refusal.value)  # the need
    assert "Bent is not one" in str(refusal.value)  # the lack
    assert "constant feature" in str(refusal.value)  # the remedy


@pytest.mark.parametrize("weight", [None, [1.0, 0.0, 2.0]])
def test_an_unknown_infimum_is_no_bound(weight):
    risk = LinearRisk(np.eye(3), np.zeros(3), Unbounded(), weight)
    assert risk.lower_bound == -np.inf
