"""Leave-one-out cross-validation of ridge regression in closed form, for all lambdas from one decomposition.

Leaving out one of n samples of equal weight leaves the mean over n - 1: that is the problem over all n samples with the
lambda ``lam (n - 1) / n`` and without the term of that sample.  There the prediction for it is off by

    e_i / (1 - h_i),        h_i = [centered] 1/n + sum_j U_ij^2 s_j^2 / (s_j^2 + (n - 1) lam),    X = U diag(s) V'

with the residual e_i of all samples (Allen 1974).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from undercut.errors import DataError
from undercut.types import FloatArray

LARGEST = 50_000_000  # entries of X, which is made dense, that a decomposition takes in a minute or so


def left_out_errors(X: Any, y: FloatArray, lams: FloatArray, *, fit_intercept: bool) -> FloatArray:
    """What the prediction for every sample is off by in a fit without it: shape (n_lams, n_samples).

    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 5.0])
    >>> left_out_errors(X, y, np.array([1e-12]), fit_intercept=True).round(6)
    array([[ 3. , -1.5,  3. ]])
    """
    n = X.shape[0]
    if n * X.shape[1] > LARGEST:
        raise DataError(
            f"leave-one-out needs X as a dense matrix of at most {LARGEST} entries; got {n} x {X.shape[1]}: use cv=10"
        )
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    mean_x, mean_y = (dense.mean(axis=0), float(y.mean())) if fit_intercept else (0.0, 0.0)
    U, s, _ = np.linalg.svd(dense - mean_x, full_matrices=False)
    target, free = y - mean_y, 1.0 / n if fit_intercept else 0.0
    along, squares = U.T @ target, s**2
    errors = np.empty((lams.size, n))
    for row, lam in zip(errors, lams, strict=True):
        shrink = squares / (squares + (n - 1) * lam)
        leverage = free + (U**2) @ shrink
        row[:] = (target - U @ (shrink * along)) / np.maximum(1.0 - leverage, np.finfo(float).tiny)
    return errors
