"""X, y and sample weights, checked once: arrays, or a design whose rows stay on disk."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
    _check_y,
    check_consistent_length,
    validate_data,
)

from undercut.errors import DataError
from undercut.estimators.cluster.partitions import is_partitioned
from undercut.maps.streamed import CLASS_BYTES, ROW_BYTES, StreamedDesign
from undercut.types import FloatArray

FLOATS = [np.float64, np.float32]


def validated(model: Any, X: Any, **options: Any) -> Any:
    """X, or X and the ``y`` among the options, as arrays; ``reset=True`` in a fit."""
    options = {"reset": False} | options
    check_in_memory(model, X)
    if isinstance(X, StreamedDesign):
        return _validated_stream(model, X, **options)
    return validate_data(model, X, accept_sparse="csr", dtype=FLOATS, **options)


def check_in_memory(model: Any, X: Any) -> None:
    """``DataError`` where X is in partitions, which this model does not take."""
    if is_partitioned(X):
        raise DataError(
            f"X must be in memory for {type(model).__name__}; got {type(X).__name__}: compute() Dask's collections, "
            "read files with load_svmlight, or use an estimator that takes partitions (docs/cluster.md)"
        )


def _validated_stream(
    model: Any, X: StreamedDesign, *, reset: bool, y: Any = None, y_numeric: bool = False, **_: Any
) -> Any:
    """The same for rows on disk, which were checked when they were written there."""
    if not (model._fits_streams if reset else hasattr(model, "coef_")):
        raise DataError(
            f"X must be in memory for {type(model).__name__}; got rows on disk: use load_svmlight, or "
            "LinearClassifier, LinearRegressor, MultivariateClassifier, NoveltyDetector or Ranker"
        )
    _check_feature_names(model, X, reset=reset)
    _check_n_features(model, X, reset=reset)
    if reset:
        n_classes = np.unique(y).size if is_classifier(model) else 1
        X.check_room(ROW_BYTES + CLASS_BYTES * max(n_classes - 2, 0))
    if y is None:
        return X
    y = _check_y(y, y_numeric=y_numeric, estimator=model)
    check_consistent_length(X, y)
    return X, y


def take_columns(model: Any, data: Any) -> None:
    """Let a model know the columns of data in partitions."""
    model.n_features_in_ = data.n_features
    vars(model).pop("feature_names_in_", None)
    if data.names is not None:
        model.feature_names_in_ = np.array(data.names, dtype=object)


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
