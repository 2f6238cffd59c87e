"""The quadratic penalty of a matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from typing_extensions import override

from undercut.contracts import QuadraticRegularizer
from undercut.errors import DataError, ParameterError, require
from undercut.types import FloatArray

SYMMETRIC = 1e-12  # how far from its transpose B may be, relative
DENSE_EIGENVALUES = 64  # up to this size a dense solver is as fast as Lanczos


@dataclass(frozen=True, eq=False)
class Quadratic(QuadraticRegularizer):
    """``lam/2 (w - center)' B (w - center)`` for a symmetric positive definite B, dense or sparse, factored once.

    >>> reg = Quadratic(1.0, [[2.0, 1.0], [1.0, 2.0]])
    >>> reg.value(np.array([1.0, 1.0])), round(reg.conjugate(np.array([3.0, 3.0])), 6)
    (3.0, 3.0)
    """

    lam: float
    B: Any
    center: FloatArray | None = None

    def __post_init__(self) -> None:
        require(0.0 < self.lam < math.inf, "`lam` must be positive and finite", self.lam)
        B = sp.csc_array(self.B, dtype=np.float64) if sp.issparse(self.B) else np.array(self.B, dtype=np.float64)
        object.__setattr__(self, "B", B)
        if B.ndim != 2 or B.shape[0] != B.shape[1]:
            raise ParameterError(f"`B` must be a square matrix; got shape {B.shape}")
        off = np.abs(B - B.T).max()
        require(bool(off <= SYMMETRIC * np.abs(B).max()), "`B` must be symmetric; its largest asymmetry", float(off))
        object.__setattr__(self, "_solve", _factored(B))
        if self.center is not None:
            object.__setattr__(self, "center", np.asarray(self.center, dtype=np.float64))
            require(bool(np.isfinite(self.center).all()), "`center` must be finite", self.center)

    @override
    def check_size(self, n_params: int) -> None:
        if self.B.shape[0] != n_params:
            raise DataError(f"`B` must have shape ({n_params}, {n_params}) to fit w; got {self.B.shape}")
        if self.center is not None and self.center.shape != (n_params,):
            raise DataError(f"`center` must have shape ({n_params},) like w; got {self.center.shape}")

    @cached_property
    def strong_convexity(self) -> float:
        """``lam`` times the smallest eigenvalue of B."""
        n = self.B.shape[0]
        if not sp.issparse(self.B) or n <= DENSE_EIGENVALUES:
            B = self.B.toarray() if sp.issparse(self.B) else self.B
            return self.lam * float(la.eigh(B, eigvals_only=True, subset_by_index=[0, 0])[0])
        inverse = sla.LinearOperator((n, n), matvec=self._unscaled_by_B, dtype=np.float64)
        largest = sla.eigsh(inverse, k=1, which="LA", return_eigenvectors=False, v0=np.ones(n))
        return self.lam / float(largest[0])

    @override
    def value(self, w: FloatArray) -> float:
        return 0.5 * float(self.gradient(w) @ self._shifted(w))

    @override
    def gradient(self, w: FloatArray) -> FloatArray:
        slope: FloatArray = self.lam * (self.B @ self._shifted(w))
        return slope

    @override
    def add_hessian(self, H: FloatArray) -> None:
        H += self.lam * (self.B.toarray() if sp.issparse(self.B) else self.B)

    @override
    def hessian_product(self, v: FloatArray) -> FloatArray:
        return np.asarray(self.lam * (self.B @ v))

    @override
    def hessian_diagonal(self, n_params: int) -> FloatArray:
        return np.asarray(self.lam * self.B.diagonal())

    @override
    def conjugate_argmax(self, z: FloatArray) -> FloatArray:
        step = self._unscaled_by_B(z) / self.lam
        return step if self.center is None else self.center + step

    @override
    def conjugate_curvature(self, A: FloatArray, z: FloatArray) -> FloatArray:
        return np.asarray(A @ self._unscaled_by_B(A.T) / self.lam)

    @override
    def dual_inner(self, A: FloatArray, a: FloatArray) -> FloatArray:
        return np.asarray(A @ self._unscaled_by_B(a) / self.lam)

    @override
    def at_center(self, a: FloatArray) -> float:
        return 0.0 if self.center is None else float(a @ self.center)

    def _unscaled_by_B(self, z: FloatArray) -> FloatArray:
        """``B^-1 z``."""
        solved: FloatArray = self._solve(z)  # type: ignore[attr-defined]
        return solved

    def _shifted(self, w: FloatArray) -> FloatArray:
        return w if self.center is None else w - self.center


def _factored(B: Any) -> Callable[[FloatArray], FloatArray]:
    """How to solve with B; ``ParameterError`` unless it is positive definite."""
    refusal = ParameterError("`B` must be positive definite; its factorization found a pivot that is not positive")
    try:
        if not sp.issparse(B):
            factor = la.cho_factor(B, lower=True)
            return lambda z: np.asarray(la.cho_solve(factor, z))
        options = {"SymmetricMode": True}
        lu = sla.splu(B, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
    except (la.LinAlgError, RuntimeError, ValueError) as error:
        raise refusal from error
    if not (lu.U.diagonal() > 0.0).all() or not np.array_equal(lu.perm_r, lu.perm_c):
        raise refusal
    return lambda z: np.asarray(lu.solve(z))
