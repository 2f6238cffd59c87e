"""The risk of a function in the space of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from undercut.contracts import Loss
from undercut.errors import ParameterError
from undercut.maps.gram import KERNELS, GramFactor, Kernel, named_kernel
from undercut.risks.scores.linear import LinearRisk
from undercut.types import FloatArray


class KernelRisk(LinearRisk):
    """``R(f) = sum_i weight_i l(y_i, f(x_i))`` for ``f = sum_j beta_j k(x_j, .)``, the weights scaled to sum to one.

    The parameters are ``w = F' beta`` with ``K = F F'``, so that ``|w|^2 = beta' K beta`` is the squared norm of f and
    ``L2`` is the right regularizer: all solvers work as they are, and a bound is a bound over all functions f, also
    where K is singular.  ``fit_intercept`` adds a free b to f, as in ``LinearRisk``.

    ``kernel`` is "linear", "poly", "rbf", "sigmoid", one of the kernel classes, any function ``kernel(X, Z)`` that
    returns the matrix of all ``k(x_i, z_j)``, or "precomputed": X is then the matrix K.  It costs n^2 memory, and n r^2
    once for K of rank r.

    With the logistic loss and ``L2(1 / n)``, ``F w`` is the mode of the latent function of Gaussian process
    classification with covariance K.

    >>> from undercut import Hinge, L2, minimize

    >>> from undercut.maps.gram import RbfKernel
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, -1.0, 1.0])
    >>> risk = KernelRisk(X, y, Hinge(), RbfKernel(gamma=1.0))
    >>> w = minimize(risk, L2(0.1)).w
    >>> risk.decision(w, [[0.0], [1.0], [2.0]]).round(2), risk.coefficients(w).round(2)
    (array([ 1., -1.,  1.]), array([ 1.83, -2.35,  1.83]))
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        loss: Loss,
        kernel: str | Kernel = "rbf",
        sample_weight: Any = None,
        fit_intercept: bool = False,
    ) -> None:
        self.kernel = _named(kernel)
        X = _rows(X)
        self.factor = GramFactor(X if self.kernel is None else self.kernel(X, X))
        self._centers = None if self.kernel is None else X[self.factor.pivots]
        super().__init__(self.factor.features, y, loss, sample_weight, fit_intercept)

    def coefficients(self, w: FloatArray) -> FloatArray:
        """The beta that belongs to w, zero except at the pivots of K."""
        return self.factor.coefficients(w)

    def decision(self, w: FloatArray, X: Any) -> FloatArray:
        """``f(x) + b`` for new samples; for a precomputed kernel X holds their ``k(x, x_j)``, one column per sample."""
        X = _rows(X)
        K = X[:, self.factor.pivots] if self.kernel is None else self.kernel(X, self._centers)
        beta = self.coefficients(w)[self.factor.pivots]
        return np.asarray(K @ beta + self.intercept(w))


def _named(kernel: str | Kernel) -> Kernel | None:
    """The kernel function; ``None`` for a matrix that is known."""
    if callable(kernel):
        return kernel
    if kernel == "precomputed":
        return None
    if kernel not in KERNELS:
        known = ", ".join(map(repr, KERNELS))
        raise ParameterError(f"`kernel` must be {known}, 'precomputed', or a function; got {kernel!r}")
    return named_kernel(kernel)


def _rows(X: Any) -> Any:
    return X.tocsr() if sp.issparse(X) else np.asarray(X)
