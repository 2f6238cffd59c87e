"""Gram matrices: products whatever they are stored as, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from undercut import minimize
from undercut.errors import DataError, ParameterError
from undercut.maps.gram import DenseGram, GramFactor, RbfKernel, TiledGram, check_memory
from undercut.maps.gram.checks import EXACT_EIGENVALUES
from undercut.maps.gram.exact_rows import ExactRows
from undercut.maps.gram.tiled import KernelTiles
from undercut.regularizers import KernelNorm
from undercut.risks import GramRisk
from undercut.testing import check_regularizer, check_risk


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((97, 5))


@pytest.mark.parametrize("n_zeros", [0, 50, 90, 97])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_products(X, n_zeros, dtype):
    K = rbf_kernel(X).astype(dtype)
    v = np.random.default_rng(1).standard_normal(97)
    v[:n_zeros] = 0.0
    for gram in (DenseGram(K), TiledGram(rbf_kernel, X, tile_bytes=3000), DenseGram.of(rbf_kernel, X, dtype)):
        tol = 1e-5 if dtype == np.float32 else 1e-12
        np.testing.assert_allclose(gram.product(v), K.astype(np.float64) @ v, atol=tol)
        np.testing.assert_allclose(gram.exact_product(v), gram.product(v), atol=tol)
        np.testing.assert_allclose(gram.diagonal, 1.0, rtol=1e-6)
        np.testing.assert_allclose(gram.block(np.array([3, 1])), K[np.ix_([3, 1], [3, 1])], rtol=1e-5)


def test_sums_are_in_double_precision_where_the_matrix_is_not():
    K = np.full((5000, 5000), 0.1, dtype=np.float32)
    exact = float(np.float32(0.1)) * 5000.0
    assert DenseGram(K, check=False).product(np.ones(5000))[0] == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("tile_bytes", [8, 3000, 2**22])
def test_exact_products_use_the_kernel_and_not_the_stored_matrix(X, tile_bytes):
    K = rbf_kernel(X, gamma=0.3)
    gram = DenseGram.of(RbfKernel(0.3), X, np.float32)
    gram.exact = type(gram.exact)(gram.exact.kernel, gram.exact.X, tile_bytes)
    V = np.random.default_rng(1).standard_normal((97, 3))
    V[5:60] = 0.0
    np.testing.assert_allclose(gram.exact_product(V), K @ V, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(gram.exact_product(V[:, 0]), K @ V[:, 0], rtol=1e-12, atol=1e-13)
    assert not gram.exact_product(np.zeros(97)).any()
    off = np.abs(gram.product(V[:, 0]) - K @ V[:, 0]).max()
    assert 1e-9 < off <= gram.rounding * np.abs(V[:, 0]).sum()


@pytest.mark.parametrize("columns", [(), (3,)])
def test_exact_rows_are_computed_once_and_kept_while_they_are_few(X, columns):
    counted = []

    def kernel(A, B):
        counted.append(len(A))
        return rbf_kernel(A, B)

    K, rng = rbf_kernel(X), np.random.default_rng(0)
    exact = ExactRows(KernelTiles(kernel, X))
    for rows in ([1, 2, 3], [2, 3], [3, 4, 5], range(10, 50), range(12, 54), range(97), [1], []):
        v = np.zeros((97, *columns))
        v[list(rows)] = rng.standard_normal((len(rows), *columns))
        np.testing.assert_allclose(exact.product(v), K @ v, atol=1e-13)
        assert exact.is_kept.sum() <= exact.capacity == 48
    assert counted == [3, 2, 40, 42, 97, 1]  # the fourth would fit with the others, the fifth does not


def test_stored_entries_are_within_their_rounding(X):
    for kernel in (RbfKernel(0.3), lambda A, B: (A @ B.T + 3.0) ** 3):
        gram = DenseGram.of(kernel, X, np.float32, check=False)
        assert np.abs(gram.K - kernel(X, X)).max() <= gram.rounding
        assert DenseGram.of(kernel, X, np.float64, check=False).rounding == 0.0


def test_a_matrix_that_is_given_is_the_problem_itself(X):
    K = rbf_kernel(X).astype(np.float32)
    gram, v = DenseGram(K), np.ones(97)
    np.testing.assert_allclose(gram.exact_product(v), K.astype(np.float64) @ v, rtol=1e-14)
    assert gram.rounding == 0.0


def test_a_matrix_is_made_of_tiles(X, monkeypatch):
    monkeypatch.setattr("undercut.maps.gram.dense.SQUARE", 10)
    sizes = []

    def kernel(A, B):
        sizes.append((len(A), len(B)))
        return rbf_kernel(A, B)

    np.testing.assert_allclose(DenseGram.of(kernel, X, np.float64).K, rbf_kernel(X))
    assert max(sizes) == (10, 10)


@pytest.mark.parametrize(
    ("K", "rule"),
    [
        (np.ones((2, 3)), r"must be square, samples by samples; got shape \(2, 3\)"),
        (np.ones(4), r"must be square"),
        (np.zeros((0, 0)), r"must be square"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "must be finite"),
        (np.array([[1.0, 0.5], [0.4, 1.0]]), "must be symmetric; it differs from its transpose by 0.1"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "positive semidefinite; its smallest eigenvalue is -1 or less"),
    ],
)
@pytest.mark.parametrize("taker", [DenseGram, GramFactor])
def test_what_is_no_gram_matrix_is_refused_everywhere_alike(K, rule, taker):
    with pytest.raises(DataError, match=rule):
        taker(K)


@pytest.mark.parametrize("n", [EXACT_EIGENVALUES // 2, 2 * EXACT_EIGENVALUES])
def test_a_negative_eigenvalue_is_named(n):
    rng = np.random.default_rng(0)
    v = rng.standard_normal(n)
    v /= np.linalg.norm(v)
    K = rbf_kernel(rng.standard_normal((n, 3)))
    DenseGram(K)
    beside = np.eye(n) - np.outer(v, v)
    with pytest.raises(DataError, match=r"smallest eigenvalue is -2 or less"):
        DenseGram(beside @ K @ beside - 2.0 * np.outer(v, v))


def test_rounding_is_not_called_indefinite():
    X = np.random.default_rng(0).standard_normal((300, 2))
    DenseGram((X @ X.T).astype(np.float32))
    DenseGram(np.zeros((3, 3)))


def test_a_matrix_too_large_says_how_large_before_it_is_begun():
    with pytest.raises(
        DataError, match=r"1000000 samples needs 3\.73e\+03 GiB, and .* GiB are available: use fewer samples"
    ):
        check_memory("the Gram matrix of 1000000 samples", 1_000_000, 1_000_000, 4)

    def kernel(A, B):
        pytest.fail("the kernel was called")

    with pytest.raises(DataError, match=r"needs 7\.63e-06 GiB, and 7\.45e-06 GiB"):
        DenseGram.of(kernel, np.zeros((32, 1)), np.float64, max_bytes=8000)


def test_a_kernel_that_is_not_finite_is_refused(X):
    with pytest.raises(DataError, match="NaN or infinity"):
        DenseGram.of(lambda A, B: np.full((len(A), len(B)), np.inf), X)


def test_a_tile_has_a_size():
    with pytest.raises(ParameterError, match="`tile_bytes` must be at least 8; got 0"):
        TiledGram(rbf_kernel, np.eye(2), tile_bytes=0)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_risk_keeps_its_contract(X, fit_intercept):
    y = np.where(X[:, 0] > 0.3, 1.0, -1.0)
    check_risk(GramRisk(rbf_kernel(X), y, np.arange(97), fit_intercept=fit_intercept))


def test_the_norm_keeps_its_contract(X):
    check_regularizer(KernelNorm(0.3, DenseGram(rbf_kernel(X[:6]))), n_params=6)
    flat = KernelNorm(1.0, DenseGram(np.diag([1.0, 0.0])))
    assert flat.conjugate(np.array([2.0, 0.0])) == pytest.approx(2.0)
    assert flat.conjugate(np.array([0.0, 1.0])) == np.inf
    with pytest.raises(DataError, match="one coefficient per sample of the Gram matrix, 2"):
        flat.check_size(3)


def test_a_single_small_negative_eigenvalue_is_found_where_the_check_is_exact():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((600, 600)))[0]
    values = np.linspace(0.0, 1.0, 600)
    DenseGram((Q * values) @ Q.T)
    values[300] = -1e-3
    with pytest.raises(DataError, match=r"smallest eigenvalue is -0\.00"):
        DenseGram((Q * values) @ Q.T)


def test_negative_curvature_that_a_solver_meets_is_no_certificate():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    gram = DenseGram(K, check=False)
    with pytest.raises(DataError, match="x' K x is -"):
        minimize(GramRisk(gram, [1.0, -1.0]), KernelNorm(0.1, gram))
