"""The kernel risk: coordinates that keep norms, kernels of any rank, and agreement with solvers that never saw them."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC, OneClassSVM
from tests.catalogue import ALL, LOSSES

from undercut import (
    L2,
    CuttingPlane,
    Hinge,
    LinearRisk,
    LineSearchBundle,
    Logistic,
    Squared,
    Stop,
    lam_from_C,
    minimize,
)
from undercut.errors import DataError, ParameterError
from undercut.maps.gram import GramFactor, LinearKernel, PolynomialKernel, RbfKernel
from undercut.risks import KernelRisk, NoveltyRisk
from undercut.testing import check_risk

KERNELS = {"linear": LinearKernel(), "poly": PolynomialKernel(2, 0.5, 1.0), "rbf": RbfKernel(0.5)}
kernels = pytest.mark.parametrize("kernel", KERNELS)


def data(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.where(np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n) > 0.0, 1.0, -1.0)


@kernels
@pytest.mark.parametrize("sparse", [False, True])
def test_kernels_have_the_values_of_their_formulas(kernel, sparse):
    X, Z = data()[0], data(7, seed=1)[0]
    settings = {"linear": {}, "poly": {"degree": 2, "gamma": 0.5, "coef0": 1.0}, "rbf": {"gamma": 0.5}}[kernel]
    convert = sp.csr_array if sparse else np.asarray
    K = KERNELS[kernel](convert(X), convert(Z))
    np.testing.assert_allclose(K, pairwise_kernels(X, Z, metric=kernel, **settings), rtol=1e-12, atol=1e-14)


@given(st.integers(0, 10_000))
def test_the_factor_gives_the_matrix_back_whatever_its_rank(seed):
    rng = np.random.default_rng(seed)
    n, rank = int(rng.integers(1, 15)), int(rng.integers(1, 15))
    A = rng.standard_normal((n, rank)) * 10.0 ** rng.integers(-4, 5)
    K = A @ A.T
    factor = GramFactor(K)
    assert factor.features.shape == (n, min(n, rank))
    np.testing.assert_allclose(factor.features @ factor.features.T, K, atol=1e-12 * np.abs(K).max())


@kernels
def test_coordinates_keep_values_and_norms(kernel, rng):
    X, y = data()
    K = KERNELS[kernel](X, X)
    risk = KernelRisk(X, y, Logistic(), KERNELS[kernel])
    w = rng.standard_normal(risk.n_params)
    beta = risk.coefficients(w)
    np.testing.assert_allclose(K @ beta, risk.design.matvec(w), atol=1e-6)
    assert beta @ K @ beta == pytest.approx(w @ w, rel=1e-6)
    assert np.count_nonzero(beta) <= risk.n_params


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_keeps_the_contract_of_a_risk(name, fit_intercept):
    X = data()[0]
    y = LOSSES[name].draw_targets(np.random.default_rng(0), len(X))
    check_risk(KernelRisk(X, y, LOSSES[name].loss, "rbf", np.arange(len(X)) + 1.0, fit_intercept))


def test_the_linear_kernel_is_the_linear_risk():
    X, y = data()
    stop = Stop(gap_rel=1e-10)
    plain = minimize(LinearRisk(X, y, Logistic()), L2(0.01), stop=stop)
    risk = KernelRisk(X, y, Logistic(), "linear")
    result = minimize(risk, L2(0.01), stop=stop)
    assert risk.n_params == 2
    assert result.objective == pytest.approx(plain.objective, rel=1e-9)
    np.testing.assert_allclose(X.T @ risk.coefficients(result.w), plain.w, atol=1e-5)


@kernels
@pytest.mark.parametrize("solver", [LineSearchBundle(), CuttingPlane()])
@pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
def test_agrees_with_a_conic_solver_on_the_hinge_loss(kernel, solver, fit_intercept):
    """In beta, with ``beta' K beta``, as the textbook has it."""
    X, y = data()
    K, lam = KERNELS[kernel](X, X), 0.05
    beta, b = cp.Variable(len(y)), cp.Variable()
    scores = K @ beta + (b if fit_intercept else 0.0)
    norm = cp.quad_form(beta, cp.psd_wrap(K))
    program = cp.Problem(cp.Minimize(0.5 * lam * norm + cp.sum(cp.pos(1.0 - cp.multiply(y, scores))) / len(y)))
    program.solve(solver=cp.CLARABEL)
    risk = KernelRisk(X, y, Hinge(), KERNELS[kernel], fit_intercept=fit_intercept)
    result = minimize(risk, L2(lam), solver, stop=Stop(gap_rel=1e-6))
    assert result.objective == pytest.approx(float(program.value), rel=3e-6)
    assert result.lower_bound <= program.value * (1.0 + 1e-6)
    np.testing.assert_allclose(risk.decision(result.w, X), scores.value, atol=0.02)


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_agrees_with_libsvm_on_new_points(C):
    (X, y), Z = data(60), data(20, seed=1)[0]
    theirs = SVC(kernel="rbf", gamma=0.5, C=C, tol=1e-8).fit(X, y)
    risk = KernelRisk(X, y, Hinge(), RbfKernel(0.5), fit_intercept=True)
    result = minimize(risk, L2(lam_from_C(C, y.size)), stop=Stop(gap_rel=1e-9))
    np.testing.assert_allclose(risk.decision(result.w, Z), theirs.decision_function(Z), atol=1e-3)


def test_the_logistic_case_is_the_mode_of_gaussian_process_classification():
    (X, y), Z = data(60), data(20, seed=1)[0]
    theirs = GaussianProcessClassifier(RBF(1.0), optimizer=None).fit(X, y).base_estimator_
    risk = KernelRisk(X, y, Logistic(), RbfKernel(0.5))
    result = minimize(risk, L2(1.0 / y.size), stop=Stop(gap_rel=1e-12))
    np.testing.assert_allclose(risk.design.matvec(result.w), theirs.f_cached, atol=1e-4)
    latent = theirs.kernel_(theirs.X_train_, Z).T @ (theirs.y_train_ - theirs.pi_)
    np.testing.assert_allclose(risk.decision(result.w, Z), latent, atol=1e-4)


def test_the_squared_loss_is_kernel_ridge_regression():
    X, _ = data()
    y, lam, K = np.sin(X[:, 0]), 1e-3, RbfKernel()(X, X)
    risk = KernelRisk(X, y, Squared(), "rbf")
    result = minimize(risk, L2(lam), stop=Stop(gap_rel=1e-12))
    np.testing.assert_allclose(risk.design.matvec(result.w), K @ np.linalg.solve(K + lam * y.size * np.eye(40), y))


@pytest.mark.parametrize("lam", [1e-9, 1e-4, 1.0, 1e3])
def test_bounds_bracket_the_optimum_of_a_singular_kernel(lam):
    """Every sample three times, so that K has a third of full rank at most."""
    X, y = (np.repeat(part, 3, axis=0) for part in data(15))
    K = RbfKernel(2.0)(X, X)
    risk = KernelRisk(K, y, Hinge(), "precomputed")
    fine = minimize(risk, L2(lam), stop=Stop(gap_rel=1e-9, max_steps=2000))
    assert risk.n_params == 15
    for steps in (1, 5, 50):
        rough = minimize(risk, L2(lam), stop=Stop(gap_rel=1e-9, max_steps=steps))
        assert rough.lower_bound <= fine.objective * (1.0 + 1e-9)
        assert fine.lower_bound <= rough.objective * (1.0 + 1e-9)


def test_a_precomputed_kernel_and_a_function_of_ones_own_give_the_same():
    (X, y), Z = data(), data(9, seed=1)[0]
    ready = KernelRisk(RbfKernel()(X, X), y, Hinge(), "precomputed")
    own = KernelRisk(X, y, Hinge(), lambda A, B: RbfKernel()(A, B))
    w = minimize(ready, L2(0.01)).w
    np.testing.assert_allclose(ready.decision(w, RbfKernel()(Z, X)), own.decision(w, Z), atol=1e-12)


def test_other_risks_take_the_features_of_a_kernel():
    """The one-class support vector machine with a kernel, as libsvm solves it."""
    rng = np.random.default_rng(0)
    X, Z, nu = rng.standard_normal((60, 2)), 2.0 * rng.standard_normal((20, 2)), 0.2
    theirs = OneClassSVM(gamma=0.5, nu=nu, tol=1e-9).fit(X)
    factor = GramFactor(RbfKernel(0.5)(X, X))
    risk = NoveltyRisk(factor.features, nu)
    w = minimize(risk, L2(1.0 / (nu * 60)), stop=Stop(gap_rel=1e-9)).w
    ours = RbfKernel(0.5)(Z, X) @ factor.coefficients(w) - risk.margin(w)
    np.testing.assert_allclose(ours, theirs.decision_function(Z), atol=1e-3)


@pytest.mark.parametrize(
    ("K", "message"),
    [
        (np.ones((2, 3)), "square"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "finite"),
        (np.array([[1.0, 0.5], [0.1, 1.0]]), "symmetric"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "positive semidefinite"),
        (np.diag([1.0, -1.0]), "positive semidefinite"),
        (np.zeros((2, 2)), "not be zero"),
    ],
)
def test_what_is_no_kernel_matrix_is_refused(K, message):
    with pytest.raises(DataError, match=message):
        KernelRisk(K, [1.0, -1.0], Hinge(), "precomputed")


def test_wrong_settings_are_named():
    with pytest.raises(ParameterError, match=r"'rbf'.*got 'rbff'"):
        KernelRisk(np.eye(2), [1.0, -1.0], Hinge(), "rbff")
    for make in (lambda: RbfKernel(0.0), lambda: PolynomialKernel(0), lambda: PolynomialKernel(2, -1.0)):
        with pytest.raises(ParameterError):
            make()
    with pytest.raises(ParameterError, match="`coef0` must be non-negative"):
        PolynomialKernel(2, 1.0, -1.0)
