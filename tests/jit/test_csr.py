"""CSR products against SciPy, for every index and float width."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st

from undercut._jit import csr


def random_csr(rng, n, d, index, real, density=0.3):
    X = sp.random_array((n, d), density=density, format="csr", rng=rng, dtype=np.float64).astype(real)
    return X.indptr.astype(index), X.indices.astype(index), X.data, X


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("real", [np.float32, np.float64])
@given(n=st.integers(1, 40), d=st.integers(1, 40), density=st.sampled_from([0.0, 0.1, 1.0]), seed=st.integers(0, 99))
def test_products_agree_with_scipy(index, real, n, d, density, seed):
    rng = np.random.default_rng(seed)
    indptr, indices, data, X = random_csr(rng, n, d, index, real, density)
    w, g = rng.standard_normal(d), rng.standard_normal(n) * (rng.random(n) < 0.5)
    scores, gradient = np.full(n, np.nan), np.full(d, np.nan)
    csr.matvec(indptr, indices, data, w, scores)
    csr.rmatvec(indptr, indices, data, g, np.empty(g.size, np.uint64), gradient)
    wide = X.astype(np.float64)
    np.testing.assert_allclose(scores, wide @ w, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(gradient, wide.T @ g, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_float32_data_are_summed_in_float64(index):
    n = 10_000
    indptr, indices = np.array([0, n], index), np.arange(n, dtype=index)
    data, w, out = np.full(n, 0.1, np.float32), np.ones(n), np.empty(1)
    csr.matvec(indptr, indices, data, w, out)
    assert abs(out[0] - n * float(np.float32(0.1))) < 1e-9


def test_duplicate_and_unsorted_entries_add_up():
    indptr, indices, data = np.array([0, 3]), np.array([2, 0, 2]), np.array([1.0, 5.0, 10.0])
    scores, gradient = np.empty(1), np.empty(3)
    csr.matvec(indptr, indices, data, np.array([1.0, 10.0, 100.0]), scores)
    csr.rmatvec(indptr, indices, data, np.array([2.0]), np.empty(1, np.uint64), gradient)
    assert scores[0] == 1105.0
    assert gradient.tolist() == [10.0, 0.0, 22.0]


def test_rows_without_a_gradient_are_not_read():
    """The data of such a row may be anything."""
    indptr, indices, data = np.array([0, 1, 2]), np.array([0, 0]), np.array([np.nan, 3.0])
    out = np.empty(1)
    csr.rmatvec(indptr, indices, data, np.array([0.0, 1.0]), np.empty(2, np.uint64), out)
    assert out[0] == 3.0
