"""The norm of a function in the space of a kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from typing_extensions import override

from undercut.contracts import Regularizer
from undercut.devices import beside, to_host
from undercut.errors import DataError, require
from undercut.maps.gram import Gram
from undercut.types import FloatArray

NULL = 1e-12  # an eigenvalue below this share of the largest counts as zero


@dataclass(frozen=True)
class KernelNorm(Regularizer):
    """``lam/2 |f|^2 = lam/2 w' K w`` for ``f = sum_j w_j k(x_j, .)``.

    Its dual is ``z' K^+ z / (2 lam)`` for z in the range of K and infinite elsewhere.  Evaluating it needs the
    eigenvectors of K; ``KernelHedging`` does not evaluate it.

    >>> from undercut.maps.gram import DenseGram
    >>> KernelNorm(0.5, DenseGram(np.array([[2.0, 1.0], [1.0, 2.0]]))).value(np.array([1.0, 0.0]))
    0.5
    """

    strong_convexity = 0.0
    has_finite_dual = False  # K may be singular; finding out costs its eigenvalues

    lam: float
    gram: Gram

    def __post_init__(self) -> None:
        require(0.0 < self.lam < math.inf, "`lam` must be positive and finite", self.lam)

    @override
    def check_size(self, n_params: int) -> None:
        if n_params != self.gram.n_samples:
            raise DataError(f"w must have one coefficient per sample of the Gram matrix, {self.gram.n_samples}")

    @override
    def value(self, w: FloatArray) -> float:
        if not w.any():
            return 0.0
        return 0.5 * self.lam * float(w @ to_host(self.gram.exact_product(beside(w, self.gram.diagonal))))

    @override
    def conjugate(self, z: FloatArray) -> float:
        if not z.any():
            return 0.0
        values, vectors = self._eigen
        parts = vectors.T @ z
        if float(np.abs(parts[values == 0.0]).max(initial=0.0)) > math.sqrt(NULL) * float(np.abs(z).max()):
            return math.inf
        return 0.5 * float(z @ self.conjugate_argmax(z))

    @override
    def conjugate_argmax(self, z: FloatArray) -> FloatArray:
        if not z.any():
            return np.zeros_like(z)
        values, vectors = self._eigen
        inverse = np.divide(1.0, self.lam * values, out=np.zeros_like(values), where=values > 0.0)
        return np.asarray(vectors @ (inverse * (vectors.T @ z)))

    @override
    def shrinkage(self, z: FloatArray, slack: float) -> float:
        return 1.0 if self.conjugate(z) < math.inf else 0.0

    @cached_property
    def _eigen(self) -> tuple[FloatArray, FloatArray]:
        K = np.asarray(self.gram.block(np.arange(self.gram.n_samples)), dtype=np.float64)
        values, vectors = np.linalg.eigh(K)
        return np.where(values > NULL * values[-1], values, 0.0), vectors
