"""Kernels: functions of two sets of samples that return the matrix of all ``k(x, z)``.

Samples are the rows of dense or sparse matrices, or of torch tensors.  The result is float64, whatever the samples are,
and lives where they do.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from undercut.devices import cast, library
from undercut.errors import require
from undercut.maps.gram.base import Kernel

DENSE = 0.05  # share of nonzero entries from which dense products are faster


@dataclass(frozen=True)
class LinearKernel:
    """``k(x, z) = <x, z>``.

    >>> LinearKernel()(np.array([[1.0, 2.0]]), np.array([[3.0, 0.5]]))
    array([[4.]])
    """

    def __call__(self, X: Any, Z: Any) -> Any:
        return _products(X, Z)


@dataclass(frozen=True)
class PolynomialKernel:
    """``k(x, z) = (gamma <x, z> + coef0)^degree``.

    >>> PolynomialKernel(degree=2)(np.array([[1.0, 2.0]]), np.array([[3.0, 0.5]]))
    array([[25.]])
    """

    degree: int = 3
    gamma: float = 1.0
    coef0: float = 1.0

    def __post_init__(self) -> None:
        require(self.degree >= 1 and self.degree == int(self.degree), "`degree` must be 1, 2, ...", self.degree)
        require(self.gamma > 0.0, "`gamma` must be positive", self.gamma)
        require(self.coef0 >= 0.0, "`coef0` must be non-negative", self.coef0)

    def __call__(self, X: Any, Z: Any) -> Any:
        return (self.gamma * _products(X, Z) + self.coef0) ** self.degree


@dataclass(frozen=True)
class SigmoidKernel:
    """``k(x, z) = tanh(gamma <x, z> + coef0)``, seldom positive semidefinite.

    >>> SigmoidKernel(gamma=0.5)(np.array([[1.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[0.    , 0.7616]])
    """

    gamma: float = 1.0
    coef0: float = 0.0

    def __call__(self, X: Any, Z: Any) -> Any:
        K = self.gamma * _products(X, Z) + self.coef0
        return library(K).tanh(K)


@dataclass(frozen=True)
class RbfKernel:
    """``k(x, z) = exp(-gamma |x - z|^2)``.

    >>> RbfKernel(gamma=0.5)(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.1353]])
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        require(self.gamma > 0.0, "`gamma` must be positive", self.gamma)

    def __call__(self, X: Any, Z: Any) -> Any:
        X, Z = cast(X, "float64"), cast(Z, "float64")
        K = _products(X, Z)
        K *= -2.0
        K += _squares(X)[:, None]
        K += _squares(Z)[None, :]
        library(K).clip(K, 0.0, None, out=K)  # in place: a second large array would cost more than all the rest
        K *= -self.gamma
        with np.errstate(under="ignore"):
            return library(K).exp(K, out=K)


KERNELS: dict[str, type[LinearKernel | PolynomialKernel | RbfKernel | SigmoidKernel]] = {
    "linear": LinearKernel,
    "poly": PolynomialKernel,
    "rbf": RbfKernel,
    "sigmoid": SigmoidKernel,
}


def named_kernel(name: str, **settings: Any) -> Kernel:
    """The kernel of a name; settings that it does not have are ignored.

    >>> named_kernel("poly", degree=2, gamma=0.5, coef0=0.0)
    PolynomialKernel(degree=2, gamma=0.5, coef0=0.0)
    """
    kind = KERNELS[name]
    return kind(**{field.name: settings[field.name] for field in fields(kind) if field.name in settings})


def _products(X: Any, Z: Any) -> Any:
    X, Z = (_dense_enough(cast(V, "float64")) for V in (X, Z))
    products = X @ Z.T
    return products.toarray() if sp.issparse(products) else products


def _dense_enough(X: Any) -> Any:
    """X as it is, or dense above the density ``DENSE``."""
    return X.toarray() if sp.issparse(X) and X.nnz > DENSE * X.shape[0] * X.shape[1] else X


def _squares(X: Any) -> Any:
    """``|x|^2`` of every row."""
    return np.asarray(X.multiply(X).sum(axis=1)).reshape(-1) if sp.issparse(X) else (X * X).sum(1)
