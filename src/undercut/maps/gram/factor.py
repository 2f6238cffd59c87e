"""The Gram matrix K as features: ``K = F F'``.

A function ``f = sum_j beta_j k(x_j, .)`` takes the values ``K beta`` on the samples and has the squared norm
``beta' K beta``.  With ``w = F' beta`` these are ``F w`` and ``|w|^2``: in the coordinates w a problem about f is a
problem about a linear model, whatever the rank of K.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from undercut.errors import DataError
from undercut.maps.gram.dense import DenseGram
from undercut.types import Array, FloatArray


class GramFactor:
    """``K = F F'`` by Cholesky's method with diagonal pivots, which ends at the rank r of K.

    ``features`` is F, n x r.  Only the r samples ``pivots`` are needed to say what f is; what the others would add has
    a squared norm below rounding, ``n eps max_i K_ii``.

    >>> factor = GramFactor(np.array([[4.0, 2.0, 2.0], [2.0, 2.0, 1.0], [2.0, 1.0, 1.0]]))
    >>> factor.features, factor.pivots
    (array([[2., 0.],
           [1., 1.],
           [1., 0.]]), array([0, 1]))
    """

    def __init__(self, K: Any) -> None:
        K = np.asarray(K.toarray() if sp.issparse(K) else K, dtype=np.float64)
        K = DenseGram(K).K
        K = 0.5 * (K + K.T)
        n = K.shape[0]
        tol = n * float(np.finfo(float).eps) * max(float(np.diag(K).max()), 0.0)
        factor, order, rank, _ = dpstrf(K, tol=tol, lower=1)
        if rank == 0:
            raise DataError("the Gram matrix must not be zero")
        order = np.asarray(order, dtype=np.int64) - 1
        self.features = np.empty((n, rank))
        self.features[order] = np.tril(factor)[:, :rank]
        self.pivots: Array = order[:rank]

    def coefficients(self, w: FloatArray) -> FloatArray:
        """The beta of ``f = sum_j beta_j k(x_j, .)``, zero except at the pivots."""
        beta = np.zeros(self.features.shape[0])
        beta[self.pivots] = solve_triangular(self.features[self.pivots], w, trans="T", lower=True)
        return beta
