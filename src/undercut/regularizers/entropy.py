"""Relative entropy on the simplex."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy
from typing_extensions import override

from undercut.contracts import DifferentiableRegularizer
from undercut.errors import DataError, require
from undercut.types import FloatArray

ON_SIMPLEX = 1e-9  # how far from one rounding may move the sum of w


@dataclass(frozen=True)
class Entropy(DifferentiableRegularizer):
    """``lam sum_j w_j log(w_j / prior_j)`` where ``w >= 0`` and ``sum w = 1``, else infinity.

    Its dual is ``lam log sum_j prior_j exp(z_j / lam)``, attained at the softmax (Smola et al. 2007, Sec. 3.3).  The
    prior is scaled to sum to one, uniform by default.

    >>> reg = Entropy(0.5, prior=[0.5, 0.5])
    >>> reg.value(np.array([0.5, 0.5])), reg.conjugate_argmax(np.zeros(2)).tolist(), reg.value(np.array([1.0, 1.0]))
    (0.0, [0.5, 0.5], inf)
    """

    lam: float
    prior: FloatArray | None = None

    def __post_init__(self) -> None:
        require(0.0 < self.lam < math.inf, "`lam` must be positive and finite", self.lam)
        if self.prior is not None:
            prior = np.asarray(self.prior, dtype=np.float64)
            positive = bool((np.isfinite(prior) & (prior > 0.0)).all())
            require(positive, "`prior` must be positive and finite", prior)
            object.__setattr__(self, "prior", prior / prior.sum())

    @override
    def check_size(self, n_params: int) -> None:
        if self.prior is not None and self.prior.shape != (n_params,):
            raise DataError(f"`prior` must have shape ({n_params},) like w; got {self.prior.shape}")

    @property
    @override
    def strong_convexity(self) -> float:
        return self.lam

    @override
    def value(self, w: FloatArray) -> float:
        if w.min() < 0.0 or abs(float(w.sum()) - 1.0) > ON_SIMPLEX:
            return math.inf
        return self.lam * float((xlogy(w, w) - w * self._log_prior(w)).sum())

    @override
    def gradient(self, w: FloatArray) -> FloatArray:
        """Up to a constant, which has no effect on the simplex; a large negative number where w is zero."""
        slope: FloatArray = self.lam * (np.log(np.maximum(w, 1e-300)) - self._log_prior(w))
        return slope

    @override
    def conjugate(self, z: FloatArray) -> float:
        logits = z / self.lam + self._log_prior(z)
        largest = float(logits.max())
        return self.lam * (largest + math.log(float(np.exp(logits - largest).sum())))

    @override
    def conjugate_argmax(self, z: FloatArray) -> FloatArray:
        logits = z / self.lam + self._log_prior(z)
        w = np.exp(logits - logits.max())
        return np.asarray(w / w.sum())

    @override
    def conjugate_curvature(self, A: FloatArray, z: FloatArray) -> FloatArray:
        w = self.conjugate_argmax(z)
        centered = A - (A @ w)[:, None]
        return (centered * w) @ centered.T / self.lam

    def _log_prior(self, like: FloatArray) -> FloatArray | float:
        return -math.log(like.size) if self.prior is None else np.log(self.prior)
