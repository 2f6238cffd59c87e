"""What a relevant document is worth, and what its place leaves of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from undercut.errors import DataError
from undercut.types import FloatArray

Vectorized = Callable[[FloatArray], Any]  # an array in, an array of the same shape out


def log_discount(places: FloatArray) -> FloatArray:
    """``1 / log2(1 + place)`` for the places 1, 2, ..."""
    return np.asarray(1.0 / np.log2(1.0 + places))


def linear_gain(y: FloatArray) -> FloatArray:
    """The relevance itself, as in scikit-learn's ``ndcg_score``."""
    return y


def exponential_gain(y: FloatArray) -> FloatArray:
    """``2^y - 1``, as in the evaluation of LETOR."""
    return np.asarray(np.exp2(y) - 1.0)


def half_gain(y: FloatArray) -> FloatArray:
    """``2^y - 1/2``, the mean of the random gains of cross-entropy NDCG (Bruch 2021)."""
    return np.asarray(np.exp2(y) - 0.5)


def gains_of(gain: Vectorized, y: FloatArray) -> FloatArray:
    """The gains of relevances; ``DataError`` unless they are finite and not negative."""
    with np.errstate(over="ignore", invalid="ignore"):
        gains = np.asarray(gain(y), dtype=np.float64)
    if gains.shape != y.shape or not np.isfinite(gains).all() or (gains < 0.0).any():
        raise DataError(
            f"gain must map relevances of shape {y.shape} to finite non-negative numbers of the same shape; "
            f"got shape {gains.shape}" + (f" and a range of {gains.min():g} to {gains.max():g}" if gains.size else "")
        )
    return gains
