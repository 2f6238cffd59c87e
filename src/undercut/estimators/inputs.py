"""X, y and sample weights as arrays, checked once."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, validate_data

from undercut.types import FloatArray

FLOATS = [np.float64, np.float32]


def validated(model: Any, X: Any, **options: Any) -> Any:
    """X, or X and the ``y`` among the options, as arrays; ``reset=True`` in a fit."""
    options = {"reset": False} | options
    return validate_data(model, X, accept_sparse="csr", dtype=FLOATS, **options)


def checked_weight(sample_weight: Any, X: Any) -> FloatArray:
    """One weight per sample, ones for ``None``; a copy that may be overwritten."""
    weight: FloatArray = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True, copy=True)
    return weight


def optional_weight(sample_weight: Any, X: Any) -> FloatArray | None:
    """The same, with ``None`` left as it is."""
    return None if sample_weight is None else checked_weight(sample_weight, X)


def feature_names(model: Any) -> list[str] | None:
    """The names of a fitted model's features: of the columns, categories and templates that they were made of.

    >>> from undercut import LinearClassifier
    >>> feature_names(LinearClassifier().fit([[0.0], [1.0]], [0, 1])) is None
    True
    """
    if hasattr(model, "table_"):
        return list(model.table_.feature_names())
    if hasattr(model, "feature_names_in_"):
        return [str(name) for name in model.feature_names_in_]
    return list(model.features_.names()) if hasattr(model, "features_") else None
