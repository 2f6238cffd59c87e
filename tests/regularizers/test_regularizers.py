"""Every regularizer: its formula, its Fenchel dual, its proximal form, and its domain."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from tests.regularizers.cases import CASES, LOWER, UPPER, B, N

from undercut import L1, L2, ElasticNet
from undercut.contracts import ProximalRegularizer, QuadraticRegularizer, Regularizer
from undercut.errors import CapabilityError, DataError, ParameterError
from undercut.regularizers import BlockSum, Boxed, Entropy, Quadratic, SquaredLp
from undercut.regularizers.separable import Terms, Termwise
from undercut.testing import check_regularizer

cases = pytest.mark.parametrize("case", CASES)
lambdas = pytest.mark.parametrize("lam", [1e-9, 1e-3, 0.3, 1e3])
points = arrays(np.float64, N, elements=st.floats(-20.0, 20.0, allow_subnormal=False))


@cases
@lambdas
def test_the_value_is_the_formula(case, lam, rng):
    reg = CASES[case].make(lam)
    w = reg.conjugate_argmax(0.9 * reg.shrinkage(z := rng.standard_normal(N), 0.0) * z)
    assert reg.value(w) == pytest.approx(lam * CASES[case].formula(w), rel=1e-9, abs=1e-12 * lam)


@cases
@lambdas
def test_it_fits_its_fenchel_dual(case, lam):
    check_regularizer(CASES[case].make(lam), N)


@cases
@given(w=points, z=points)
def test_no_point_and_slope_break_the_fenchel_young_inequality(case, w, z):
    reg = CASES[case].make(0.3)
    value, conjugate = reg.value(w), reg.conjugate(z)
    assert value + conjugate >= float(z @ w) - 1e-9 * max(1.0, abs(value), abs(conjugate))


@cases
@given(z=points)
def test_the_dual_is_attained(case, z):
    reg = CASES[case].make(0.3)
    z = (1.0 - 1e-12) * reg.shrinkage(z, 0.0) * z
    w, conjugate = reg.conjugate_argmax(z), reg.conjugate(z)
    assert float(z @ w) - reg.value(w) == pytest.approx(conjugate, rel=1e-9, abs=1e-9)


@cases
@given(z=points, center=points, tau=st.floats(1e-3, 1e3))
def test_the_proximal_form_attains_its_dual(case, z, center, tau):
    reg = CASES[case].make(0.3)
    center = reg.conjugate_argmax(0.9 * reg.shrinkage(center, 0.0) * center)
    near = reg.near(center, tau)
    w = near.conjugate_argmax(z)
    assert float(z @ w) - near.value(w) == pytest.approx(near.conjugate(z), rel=1e-8, abs=1e-8)


@given(z=points, slack=st.floats(0.0, 1.0))
def test_what_is_shrunk_is_inside_the_dual_of_l1_with_all_its_slack(z, slack):
    reg = L1(0.3)
    share = reg.shrinkage(z, slack)
    assert 0.0 <= share <= 1.0
    assert share * (np.abs(z).max() + slack) <= 0.3 * (1.0 + 1e-12) or share == 1.0
    assert share < 1.0 or np.abs(z).max() + slack <= 0.3 * (1.0 + 1e-12)


def test_a_one_sided_bound_makes_one_side_of_the_dual_finite():
    reg = Boxed(L1(1.0), lower=0.0)
    assert reg.conjugate(np.array([-5.0, 0.5])) == 0.0
    assert reg.conjugate(np.array([-5.0, 1.5])) == math.inf
    assert reg.shrinkage(np.array([-5.0, 1.5]), 0.0) == pytest.approx(2.0 / 3.0)
    assert not reg.has_finite_dual


def test_bounds_on_both_sides_make_the_dual_finite():
    reg = Boxed(L1(1.0), lower=-2.0, upper=3.0)
    assert reg.has_finite_dual
    assert reg.conjugate(np.array([2.0, -2.0])) == pytest.approx(3.0 + 2.0)


def test_a_bound_without_zero_moves_the_minimizer():
    reg = Boxed(ElasticNet(1.0), lower=0.5, upper=2.0)
    np.testing.assert_array_equal(reg.conjugate_argmax(np.zeros(3)), np.full(3, 0.5))


def test_small_forces_leave_l1_at_exactly_zero():
    w = L1(0.3).near(np.array([0.0, 1.0, 0.0]), 2.0).conjugate_argmax(np.array([0.29, 0.0, -0.31]))
    assert w[0] == 0.0
    assert w[1] == pytest.approx(1.0 - 0.15)
    assert w[2] == pytest.approx(-0.005)


def test_the_elastic_net_reaches_from_l2_to_l1(rng):
    w = rng.standard_normal(N)
    assert ElasticNet(0.3, l1_ratio=0.0).value(w) == pytest.approx(L2(0.3).value(w))
    assert ElasticNet(0.3, l1_ratio=1.0).value(w) == pytest.approx(L1(0.3).value(w))


def test_the_squared_2_norm_is_l2(rng):
    w = rng.standard_normal(N)
    assert SquaredLp(0.3, p=2.0).value(w) == pytest.approx(L2(0.3).value(w))
    np.testing.assert_allclose(SquaredLp(0.3, p=2.0).conjugate_argmax(w), L2(0.3).conjugate_argmax(w))


def test_a_diagonal_matrix_is_l2_with_weights(rng):
    w, weights = rng.standard_normal(N), np.arange(1.0, N + 1.0)
    reg = Quadratic(0.3, np.diag(weights**2), center=np.ones(N))
    same = L2(0.3, center=np.ones(N), weights=weights)
    assert reg.value(w) == pytest.approx(same.value(w))
    assert reg.conjugate(w) == pytest.approx(same.conjugate(w))
    assert reg.strong_convexity == pytest.approx(same.strong_convexity)


@pytest.mark.parametrize("n", [5, 100])
def test_a_sparse_matrix_is_the_same_as_a_dense_one(n, rng):
    S = sp.diags_array([np.full(n - 1, -1.0), np.full(n, 2.5), np.full(n - 1, -1.0)], offsets=[-1, 0, 1])
    sparse, dense, z = Quadratic(0.3, S), Quadratic(0.3, S.toarray()), rng.standard_normal(n)
    check_regularizer(sparse, n)
    assert sparse.strong_convexity == pytest.approx(dense.strong_convexity, rel=1e-8)
    np.testing.assert_allclose(sparse.conjugate_argmax(z), dense.conjugate_argmax(z))
    A = rng.standard_normal((3, n))
    np.testing.assert_allclose(sparse.conjugate_curvature(A, z), dense.conjugate_curvature(A, z))
    H, G = np.zeros((n, n)), np.zeros((n, n))
    sparse.add_hessian(H), dense.add_hessian(G)
    np.testing.assert_allclose(H, G)


def test_a_matrix_makes_a_quadratic_regularizer():
    assert isinstance(Quadratic(1.0, B), QuadraticRegularizer)


@pytest.mark.parametrize("make", [np.array, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("matrix", "rule"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], "positive definite"),
        ([[-1.0, 0.0], [0.0, 1.0]], "positive definite"),
        ([[0.0, 0.0], [0.0, 1.0]], "positive definite"),
        ([[0.0, 1.0], [1.0, 0.0]], "positive definite"),
        ([[1.0, 0.5], [0.0, 1.0]], "symmetric"),
        ([[1.0, 0.5]], "square"),
    ],
)
def test_the_matrix_must_be_symmetric_and_positive_definite(make, matrix, rule):
    with pytest.raises(ParameterError, match=rule):
        Quadratic(1.0, make(matrix))


def test_the_entropy_of_a_point_off_the_simplex_is_infinite():
    reg = Entropy(1.0)
    assert reg.value(np.array([0.5, 0.6])) == math.inf
    assert reg.value(np.array([1.5, -0.5])) == math.inf
    assert reg.value(np.array([1.0, 0.0])) == pytest.approx(math.log(2.0))


def test_blocks_add_up(rng):
    w, z = rng.standard_normal(N), 0.1 * rng.standard_normal(N)
    reg = BlockSum([(2, L1(1.0)), (slice(2, N), L2(0.5))])
    assert reg.value(w) == pytest.approx(L1(1.0).value(w[:2]) + L2(0.5).value(w[2:]))
    assert reg.conjugate(z) == pytest.approx(L2(0.5).conjugate(z[2:]))
    assert reg.strong_convexity == 0.0
    assert not reg.has_finite_dual


@pytest.mark.parametrize("blocks", [[(0, L1(1.0))], [(slice(1, 3), L1(1.0))], [(2, L1(1.0)), (slice(3, 5), L1(1.0))]])
def test_blocks_must_follow_each_other(blocks):
    with pytest.raises(ParameterError, match="must follow each other"):
        BlockSum(blocks)


def test_there_must_be_a_block():
    with pytest.raises(ParameterError, match="at least one"):
        BlockSum([])


@pytest.mark.parametrize(
    ("reg", "rule"),
    [
        (Entropy(1.0, prior=[1.0, 1.0]), "`prior` must have shape"),
        (Quadratic(1.0, np.eye(2)), "`B` must have shape"),
        (Quadratic(1.0, np.eye(3), center=[0.0, 1.0]), "`center` must have shape"),
        (Boxed(L1(1.0), lower=[0.0, 0.0]), "`lower` must be a number or have shape"),
        (Boxed(L2(1.0, center=[0.0, 0.0]), lower=0.0), "`center` must have shape"),
        (BlockSum([(2, L1(1.0))]), "must have 3 parameters together"),
    ],
)
def test_a_size_that_does_not_fit_is_refused(reg, rule):
    with pytest.raises(DataError, match=rule):
        reg.check_size(3)


def test_a_block_that_does_not_fit_its_regularizer_is_refused():
    with pytest.raises(DataError, match="`prior` must have shape"):
        BlockSum([(3, Entropy(1.0, prior=[1.0, 1.0]))])


@pytest.mark.parametrize("make", [L1, ElasticNet, Entropy, SquaredLp, lambda lam: Quadratic(lam, np.eye(2))])
@pytest.mark.parametrize("lam", [0.0, -0.1, math.nan, math.inf])
def test_lam_must_be_positive_and_finite(make, lam):
    with pytest.raises(ParameterError, match=f"`lam` must be positive and finite; got {lam!r}"):
        make(lam)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: ElasticNet(1.0, l1_ratio=1.5), r"`l1_ratio` must be in \[0, 1\]; got 1.5"),
        (lambda: ElasticNet(1.0, l1_ratio=math.nan), r"`l1_ratio` must be in \[0, 1\]; got nan"),
        (lambda: SquaredLp(1.0, p=1.0), r"`p` must be in \(1, 2\]; got 1.0"),
        (lambda: SquaredLp(1.0, p=3.0), r"`p` must be in \(1, 2\]; got 3.0"),
        (lambda: Entropy(1.0, prior=[1.0, 0.0]), "`prior` must be positive and finite"),
        (lambda: Boxed(L1(1.0), lower=1.0, upper=0.0), "`lower` must not exceed `upper`"),
        (lambda: Boxed(L1(1.0), lower=math.inf), "`lower` must not exceed `upper`"),
        (lambda: Boxed(L1(1.0), lower=math.nan), "`lower` must hold numbers"),
        (lambda: Quadratic(1.0, np.eye(2), center=[math.nan, 0.0]), "`center` must be finite"),
    ],
)
def test_a_setting_outside_its_domain_is_refused(make, rule):
    with pytest.raises(ParameterError, match=rule):
        make()


def test_bounds_need_a_separable_regularizer():
    with pytest.raises(CapabilityError, match=r"bounds need a separable regularizer such as L2.*got Entropy"):
        Boxed(Entropy(1.0), lower=0.0)


def test_bounds_within_bounds_are_the_tighter_ones(rng):
    reg = Boxed(Boxed(L1(1.0), lower=-1.0, upper=1.0), lower=0.0)
    assert reg.value(np.array([-0.5])) == math.inf
    assert reg.value(np.array([1.5])) == math.inf
    assert reg.value(np.array([0.5])) == 0.5


@cases
def test_nothing_given_is_modified(case, rng):
    reg, z = CASES[case].make(0.3), rng.standard_normal(N)
    before, bounds = z.copy(), (LOWER.copy(), UPPER.copy(), B.copy())
    w = reg.conjugate_argmax(0.1 * z)
    reg.value(z), reg.conjugate(z), reg.shrinkage(z, 0.1), reg.near(w, 0.5).conjugate_argmax(z)
    np.testing.assert_array_equal(z, before)
    for now, then in zip((LOWER, UPPER, B), bounds, strict=True):
        np.testing.assert_array_equal(now, then)


class Cubic(Regularizer):
    """``lam (|w|^2 / 2 + |w|_3^3 / 3)``: a user's own, with the four answers that are asked for and no more."""

    def __init__(self, lam):
        self.lam = lam

    @property
    def strong_convexity(self):
        return self.lam

    def value(self, w):
        return self.lam * float(np.sum(0.5 * w**2 + np.abs(w) ** 3 / 3.0))

    def conjugate(self, z):
        w = self.conjugate_argmax(z)
        return float(z @ w) - self.value(w)

    def conjugate_argmax(self, z):
        return np.sign(z) * 0.5 * (np.sqrt(1.0 + 4.0 * np.abs(z) / self.lam) - 1.0)


def test_differences_stand_in_for_a_curvature_that_nobody_wrote(rng):
    reg, A, z = Cubic(0.3), rng.standard_normal((3, N)), rng.standard_normal(N)
    check_regularizer(reg, N)
    exact = 1.0 / (0.3 * (1.0 + 2.0 * np.abs(reg.conjugate_argmax(z))))
    np.testing.assert_allclose(reg.conjugate_curvature(A, z), (A * exact) @ A.T, rtol=1e-4, atol=1e-6)


def test_a_regularizer_without_a_proximal_form_has_none():
    assert not isinstance(Cubic(1.0), ProximalRegularizer)
    assert not hasattr(Cubic(1.0), "near")


@pytest.mark.parametrize(
    "terms",
    [
        Terms(l1=0.5),
        Terms(l2=0.7, center=0.2),
        Terms(l1=0.3, l2=0.7),
        Terms(l1=0.3, lower=-0.5),
        Terms(l1=0.3, l2=0.7, lower=-0.5, upper=1.0),
    ],
)
def test_one_number_for_all_parameters_is_that_number_for_each(terms, rng):
    spread = Terms(*(np.full(4, term) for term in terms))._replace(l2=np.full(4, terms.l2) if terms.l2 else 0.0)
    one, each = Termwise(terms), Termwise(spread)
    for z in (np.zeros(4), 0.2 * rng.standard_normal(4), 3.0 * rng.standard_normal(4)):
        assert one.value(z) == pytest.approx(each.value(z))
        assert one.conjugate(z) == pytest.approx(each.conjugate(z))
        assert one.shrinkage(z, 1e-9) == pytest.approx(each.shrinkage(z, 1e-9))
        np.testing.assert_allclose(one.conjugate_argmax(z), each.conjugate_argmax(z))
    assert (one.strong_convexity, one.has_finite_dual) == (each.strong_convexity, each.has_finite_dual)
