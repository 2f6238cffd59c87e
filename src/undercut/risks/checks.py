"""Checks of targets and weights that all risks over samples share."""

from __future__ import annotations

from typing import Any

import numpy as np

from undercut.errors import DataError
from undercut.types import FloatArray


def real_targets(y: Any, shape: tuple[int, int]) -> FloatArray:
    """y as numbers, one per row of a design of this shape, and at least one."""
    y = np.asarray(y)
    if y.dtype.kind not in "fiub":
        raise DataError(f"y must hold real numbers; got dtype {y.dtype}")
    if shape[0] == 0 or y.shape != shape[:1]:
        raise DataError(f"y must have one target per row of X, and at least one; got shapes {y.shape} and {shape}")
    return np.asarray(y, dtype=np.float64)


def normalized_weights(sample_weight: Any, n: int) -> FloatArray:
    """Weights that sum to one; equal ones if none are given."""
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,):
        raise DataError(f"sample_weight must have one entry per sample, shape ({n},); got {weight.shape}")
    if not np.isfinite(weight).all() or (weight < 0.0).any():
        raise DataError(f"sample_weight must be finite and non-negative; got a minimum of {weight.min()}")
    if not weight.any():
        raise DataError("sample_weight must have a positive sum; got only zeros")
    weight = weight / weight.max()  # so that the sum does not overflow
    return np.asarray(weight / weight.sum())
