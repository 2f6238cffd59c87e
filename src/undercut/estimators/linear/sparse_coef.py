"""Coefficients kept as a sparse matrix, for models most of whose coefficients are zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_regressor
from sklearn.utils.validation import check_is_fitted

from undercut.types import FloatArray


class SparseCoefMixin:
    """``sparsify`` and ``densify`` as scikit-learn's linear models have them."""

    coef_: Any

    def sparsify(self) -> Any:
        """Keep ``coef_`` as a CSR matrix, one row per problem; predictions work with either."""
        check_is_fitted(self)
        self.coef_ = sp.csr_matrix(self.coef_)
        return self

    def densify(self) -> Any:
        """Keep ``coef_`` as an array again."""
        check_is_fitted(self)
        self.coef_ = dense_coef(self)
        return self


def dense_coef(model: Any) -> FloatArray:
    """``coef_`` as an array, however it is kept."""
    if not sp.issparse(model.coef_):
        return np.asarray(model.coef_)
    coef: FloatArray = model.coef_.toarray()
    return coef.ravel() if is_regressor(model) else coef
