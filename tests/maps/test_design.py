"""A ``Design`` of the user's own: two products are enough, and each further method adds one capability."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

from undercut import L2, Hinge, LinearRisk, Logistic, Ramp, Stop, minimize
from undercut.contracts import BatchedRisk, SmoothRisk
from undercut.errors import CapabilityError, DataError
from undercut.losses import CrammerSinger, Softmax
from undercut.maps.dense import BLOCK_BYTES
from undercut.maps.design import WithConstant, as_matrix
from undercut.risks import MulticlassRisk
from undercut.solvers import Newton
from undercut.solvers.online import Pegasos

LAM = 0.1
STOP = Stop(gap_rel=1e-6)


class Products:
    """The least that a design is: its shape and two products."""

    def __init__(self, X):
        self.X, self.shape = X, X.shape

    def matvec(self, w):
        return self.X @ w

    def rmatvec(self, g):
        return self.X.T @ g


class WithGram(Products):
    def weighted_gram(self, g):
        return (self.X.T * g) @ self.X


class WithRows(Products):
    def take(self, rows):
        return WithRows(self.X[rows])


@pytest.mark.parametrize("make", [Products, WithGram, WithRows, aslinearoperator], ids=lambda make: make.__name__)
@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Ramp()], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_design_of_ones_own_gives_the_same_optimum(signs, make, loss, fit_intercept):
    X, y = signs
    mine, ours = (
        minimize(LinearRisk(A, y, loss, fit_intercept=fit_intercept), L2(LAM), "nonconvex_bundle", stop=STOP)
        for A in (make(X), X)
    )
    assert mine.objective == pytest.approx(ours.objective, rel=1e-4)


@pytest.mark.parametrize("loss", [Softmax(), CrammerSinger()], ids=lambda loss: type(loss).__name__)
def test_a_design_of_ones_own_serves_several_classes(signs, loss):
    X = signs[0]
    y = X[:, :3].argmax(axis=1)
    mine, ours = (minimize(MulticlassRisk(A, y, loss), L2(LAM), stop=STOP) for A in (Products(X), X))
    assert mine.objective == pytest.approx(ours.objective, rel=1e-5)


def test_only_what_is_needed_is_asked_of_a_design(signs):
    X, y = signs
    plain, gram, rows = (LinearRisk(make(X), y, Logistic()) for make in (Products, WithGram, WithRows))
    assert not isinstance(plain, SmoothRisk | BatchedRisk)
    assert isinstance(gram, SmoothRisk)
    assert isinstance(rows, BatchedRisk)
    assert minimize(gram, L2(LAM), Newton(), stop=STOP).gap >= 0.0
    ours = minimize(LinearRisk(X, y, Logistic()), L2(LAM), stop=STOP).objective
    assert minimize(rows, L2(LAM), Pegasos(n_passes=50)).objective == pytest.approx(ours, rel=1e-2)
    with pytest.raises(CapabilityError, match="Newton needs a smooth risk"):
        minimize(plain, L2(LAM), Newton())


def test_what_a_design_lacks_is_named():
    class Half:
        shape = (2, 2)

        def matvec(self, w):
            return w

    with pytest.raises(DataError, match=r"`matvec\(w\)` and `rmatvec\(g\)`; Half has no rmatvec"):
        LinearRisk(Half(), np.array([1.0, -1.0]), Hinge())
    with pytest.raises(DataError, match=r"2-d `shape`.*got shape \(4,\)"):
        LinearRisk(Products(np.zeros(4)), np.array([1.0, -1.0]), Hinge())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_feature_that_is_not_stored_multiplies_as_if_it_were(rng, dtype):
    X = rng.standard_normal((7, 3)).astype(dtype)
    implied, stored = WithConstant(as_matrix(X)), np.column_stack([X.astype(np.float64), np.ones(7)])
    W, G, g = rng.standard_normal((2, 4)), rng.standard_normal((7, 2)), rng.random(7)
    np.testing.assert_allclose(implied.matmat(W), stored @ W.T)
    np.testing.assert_allclose(implied.rmatmat(G), G.T @ stored)
    np.testing.assert_allclose(implied.matvec(W[0]), stored @ W[0])
    np.testing.assert_allclose(implied.rmatvec(g), g @ stored)
    gram = (stored.T * g) @ stored
    np.testing.assert_allclose(implied.weighted_gram(g), gram, rtol=1e-6)
    np.testing.assert_allclose(implied.gram_product(g, W[0]), gram @ W[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(implied.squared_rmatvec(g), np.diag(gram), rtol=1e-6)
    np.testing.assert_allclose(implied.take(np.array([4, 0])).matvec(W[0]), stored[[4, 0]] @ W[0])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [3, 40])
def test_gram_matrices_are_the_same_however_x_is_laid_out(order, dtype, n_columns):
    rng = np.random.default_rng(0)
    n = BLOCK_BYTES // (8 * n_columns) + 5  # more than one block
    X = np.asarray(rng.standard_normal((n, n_columns)), dtype, order)
    for g in (rng.random(n), np.full(n, 0.25)):
        expected = (X.T.astype(np.float64) * g) @ X.astype(np.float64)
        np.testing.assert_allclose(as_matrix(X).weighted_gram(g), expected, rtol=1e-10, atol=1e-9)
