"""``undercut info``: what a model file holds, without any data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline

from undercut.cli.report import Row, certificate_rows, print_report
from undercut.estimators import inputs
from undercut.io import load_model
from undercut.types import Array, FloatArray

SILENT = ("verbose", "callbacks", "features", "warm_start", "label_loss")  # of no meaning to a reader, or too long


def print_info(path: Path, top: int, *, as_json: bool = False) -> None:
    """Everything a reader may want to know about a model."""
    model = load_model(path)
    if isinstance(model, Pipeline):
        steps = [type(step).__name__ for step in model]
        rows = [Row("pipeline", steps, ", ".join(steps)), *info_rows(model[-1], top)]
    else:
        rows = info_rows(model, top)
    print_report(rows, as_json=as_json)


def info_rows(model: Any, top: int = 10) -> list[Row]:
    """What it is, on what it was trained, its certificate, settings, classes and largest coefficients."""
    classes = getattr(model, "classes_", None)
    return [
        Row("model", type(model).__name__),
        *(Row(name.replace("_", " "), value) for name, value in getattr(model, "training_", {}).items()),
        *certificate_rows(model),
        *([Row("iterations", model.n_iter_)] if hasattr(model, "n_iter_") else []),
        *([Row("samples seen", model.n_samples_seen_)] if hasattr(model, "n_samples_seen_") else []),
        Row("settings", _settings(model)),
        *([] if classes is None else [Row("classes", classes.tolist(), _few(classes.tolist()))]),
        Row("features", model.n_features_in_),
        *_sizes(model),
        *_coefficients(model, top),
    ]


def _settings(model: Any) -> dict[str, Any]:
    """The parameters that a user may have set."""
    params = model.get_params(deep=False)
    return {name: value for name, value in params.items() if name not in SILENT and value is not None}


def _few(values: list[Any], most: int = 20) -> str:
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(map(str, values[:most])) + more


def _sizes(model: Any) -> list[Row]:
    if hasattr(model, "support_"):
        return [Row("support vectors", model.support_.size, f"{model.support_.size} of {model._n_fitted} samples")]
    if not hasattr(model, "coef_"):
        return []
    return [Row("nonzero coefficients", _count(model.coef_), f"{_count(model.coef_)} of {np.prod(model.coef_.shape)}")]


def _count(coef: Any) -> int:
    return int(coef.count_nonzero() if sp.issparse(coef) else np.count_nonzero(coef))


def _coefficients(model: Any, top: int) -> list[Row]:
    """The intercept and the largest coefficients by name, of each class where there are several."""
    if not hasattr(model, "coef_") or top == 0:
        return []
    coef = model.coef_.toarray() if sp.issparse(model.coef_) else np.atleast_2d(model.coef_)
    intercepts, names = np.atleast_1d(model.intercept_), feature_names(model)
    classes = model.classes_.tolist() if coef.shape[0] > 1 else [""]
    rows = []
    for label, row, intercept in zip(classes, coef, intercepts, strict=True):
        of = f" of class {label}" if label != "" else ""
        rows.append(Row(f"intercept{of}", float(intercept)))
        largest = _largest(row, top)
        values = {names(int(at)): float(row[at]) for at in largest}
        rows.append(Row(f"largest coefficients{of}", values, ", ".join(f"{key} {v:.4g}" for key, v in values.items())))
    return rows


def _largest(row: FloatArray, top: int) -> Array:
    """The places of the largest entries by magnitude, zeros left out."""
    order = np.argsort(-np.abs(row), kind="stable")[:top]
    return np.asarray(order[row[order] != 0.0])


def feature_names(model: Any) -> Any:
    """A function from the place of a feature to its name: of a column, of a template, or its index in a file."""
    names = inputs.feature_names(model)
    return (lambda at: str(at + 1)) if names is None else names.__getitem__
