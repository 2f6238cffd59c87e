"""Linear equations with a positive definite matrix that may be nearly singular."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from undercut.types import FloatArray

RIDGE = 1e-15  # the first that is added, to a matrix with unit diagonal
ROUGH = 1e-10  # ratio of pivots from which the factor is a preconditioner only
ACCURATE = 1e-12  # relative size of what conjugate gradients leave
MAX_ROUNDS = 25
BLOCK = 64  # rows that are scaled at a time


class Factor:
    """The Cholesky factor of H scaled to a unit diagonal, with the smallest ridge that lets the factorization through.

    H is overwritten.

    >>> Factor(np.diag([2.0, 1e-30])).solve(np.array([2.0, 1e-30]), lambda x: np.array([2.0, 1e-30]) * x)
    array([1., 1.])
    """

    def __init__(self, H: FloatArray) -> None:
        self._scale = 1.0 / np.sqrt(np.maximum(H.diagonal(), np.finfo(float).tiny))
        for start in range(0, H.shape[0], BLOCK):
            H[start : start + BLOCK] *= self._scale
            H[start : start + BLOCK] *= self._scale[start : start + BLOCK, None]
        diagonal, ridge = H.diagonal().copy(), RIDGE
        self._factor, failed = dpotrf(H.T, clean=False, overwrite_a=True)
        while failed:  # one triangle of H and its diagonal are overwritten
            H = np.triu(H, 1)
            H += H.T
            diagonal += ridge
            H.flat[:: H.shape[0] + 1] = diagonal
            ridge *= 100.0
            self._factor, failed = dpotrf(H.T, clean=False, overwrite_a=True)
        pivots = np.abs(self._factor.diagonal())
        self._is_rough = float(pivots.min()) ** 2 < ROUGH * float(pivots.max()) ** 2

    def solve(self, b: FloatArray, product: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """``H^-1 b``; where the factor is not accurate, by conjugate gradients with ``product(x) = H x``."""
        x = self._applied(b)
        return self._refined(x, b, product) if self._is_rough else x

    def _refined(self, x: FloatArray, b: FloatArray, product: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """The most accurate iterate of preconditioned conjugate gradients from x."""
        limit = ACCURATE**2 * float(b @ x)
        rest = b - product(x)
        direction = self._applied(rest)
        left = float(rest @ direction)
        best, least = x, left
        for _ in range(MAX_ROUNDS):
            bent = product(direction)
            along = float(direction @ bent)
            if not (left > limit and along > 0.0):
                break
            x = x + (left / along) * direction
            rest = rest - (left / along) * bent
            applied = self._applied(rest)
            last, left = left, float(rest @ applied)
            direction = applied + (left / last) * direction
            if left < least:
                best, least = x, left
        return best

    def _applied(self, b: FloatArray) -> FloatArray:
        applied: FloatArray = dpotrs(self._factor, b * self._scale)[0]
        return applied * self._scale
