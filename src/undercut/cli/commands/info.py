"""``undercut info``: what a model file holds, without any data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline

from undercut.callbacks import describe
from undercut.cli.reports.report import Row, certificate_rows, print_report
from undercut.cli.words import BY_PARAMETER
from undercut.errors import CheckpointError, ModelFileError
from undercut.estimators import SequenceLabeler, inputs
from undercut.io import load_model
from undercut.io.checkpoint import read_header
from undercut.maps.boltzmann import ContrastiveDivergence
from undercut.trace import Progress
from undercut.types import Array, FloatArray

SILENT = ("verbose", "callbacks", "features", "warm_start", "label_loss")  # of no meaning to a reader, or too long
MOST_VALUES = 20  # of a list, such as the labels, that are printed
DIGITS = 9  # coefficients are of one size if these digits, relative to the largest, are the same


def print_info(path: Path, top: int, *, as_json: bool = False) -> None:
    """Everything a reader may want to know about a model or a checkpoint."""
    try:
        rows = model_rows(load_model(path), top)
    except ModelFileError:
        try:
            rows = checkpoint_rows(read_header(path))
        except CheckpointError:
            rows = []
        if not rows:
            raise
    print_report(rows, as_json=as_json)


def checkpoint_rows(header: dict[str, Any]) -> list[Row]:
    """How far the runs of a checkpoint are, and what they minimize."""
    runs = header["runs"]
    rows = [Row("model", "Checkpoint"), Row("problems", len(runs))]
    for name, run in runs.items():
        bound = -math.inf if run["lower_bound"] is None else run["lower_bound"]  # a stream has none
        last = Progress(run["step"], run["objective"], bound, certificate=run["certificate"])
        numbers = {key: run[key] for key in ("step", "objective", "lower_bound", "seconds", "solver", "status")}
        text = f"{describe(last)}  {run['seconds']:.2f} s  {run['solver']}  {run['status'] or 'to be continued'}"
        rows.append(Row(name or "run", numbers | {"gap": last.gap}, text))
    problem = next(iter(runs.values()))["problem"] if runs else {}
    scalars = {key: value for key, value in problem.items() if key.count(".") < 2 and not value.startswith("array")}
    return [*rows, Row("settings", {key: value for key, value in scalars.items() if value != "None"})]


def model_rows(model: Any, top: int) -> list[Row]:
    """The rows of a model; of a pipeline its steps, and the rows of the last."""
    if not isinstance(model, Pipeline):
        return info_rows(model, top)
    steps = [type(step).__name__ for step in model]
    return [Row("pipeline", steps, ", ".join(steps)), *info_rows(model[-1], top)]


def info_rows(model: Any, top: int = 10) -> list[Row]:
    """What it is, on what it was trained, its certificate, settings, classes and largest coefficients."""
    classes = getattr(model, "classes_", None)
    return [
        Row("model", type(model).__name__),
        *(Row(name.replace("_", " "), value) for name, value in getattr(model, "training_", {}).items()),
        *certificate_rows(model),
        *([Row("steps", model.n_iter_)] if hasattr(model, "n_iter_") else []),
        *([Row("samples seen", model.n_samples_seen_)] if hasattr(model, "n_samples_seen_") else []),
        *([Row("lambda", model.lam_)] if hasattr(model, "lam_") else []),
        Row("settings", _settings(model)),
        *([] if classes is None else [Row("classes", classes.tolist(), _few(classes.tolist()))]),
        Row("features", model.n_features_in_),
        *_sizes(model),
        *_coefficients(model, top),
    ]


def _settings(model: Any) -> dict[str, Any]:
    """The parameters that a user may have set, by the names of their options where they have one."""
    params = model.get_params(deep=False)
    shown = {name: value for name, value in params.items() if name not in SILENT and value is not None}
    return {BY_PARAMETER[name].key() if name in BY_PARAMETER else name: value for name, value in shown.items()}


def _few(values: list[Any]) -> str:
    more = f" and {len(values) - MOST_VALUES} more" if len(values) > MOST_VALUES else ""
    return ", ".join(map(str, values[:MOST_VALUES])) + more


def _sizes(model: Any) -> list[Row]:
    if hasattr(model, "support_"):
        return [Row("support vectors", model.support_.size, f"{model.support_.size} of {model._n_fitted} samples")]
    if getattr(model, "layers_", None):
        return _network(model)
    if not hasattr(model, "coef_"):
        return []
    return [Row("nonzero coefficients", _count(model.coef_), f"{_count(model.coef_)} of {np.prod(model.coef_.shape)}")]


def _network(model: SequenceLabeler) -> list[Row]:
    """The layers of a network, how they began, and what its penalty measures."""
    sizes = [model.n_features_in_, *model.hidden, model.classes_.size]
    machines = ContrastiveDivergence() if model.pretrain == "rbm" else model.pretrain
    start = "none, random layers" if machines is None else f"Boltzmann machines, {machines.n_passes} passes"
    return [
        Row("layers", sizes, f"{'-'.join(map(str, sizes))}, {model.activation}"),
        *([] if model.center_ is None else [Row("parameters", model.center_.size)]),
        Row("pretraining", start),
        Row("penalty", "lambda/2 |w - w_0|^2, the distance from the start w_0 of the first fit"),
    ]


def _count(coef: Any) -> int:
    return int(coef.count_nonzero() if sp.issparse(coef) else np.count_nonzero(coef))


def _coefficients(model: Any, top: int) -> list[Row]:
    """The intercept and the largest coefficients by name, of each class where there are several."""
    if not hasattr(model, "coef_") or top == 0 or getattr(model, "layers_", None):
        return []  # coefficients of hidden units have no names
    if not hasattr(model, "intercept_"):
        values = {str(model.feature_names_in_[at]): float(model.coef_[at]) for at in largest_places(model.coef_, top)}
        return [Row("largest coefficients", values, ", ".join(f"{name} {value:.4g}" for name, value in values.items()))]
    coef = model.coef_.toarray() if sp.issparse(model.coef_) else np.atleast_2d(model.coef_)
    intercepts, names = np.atleast_1d(model.intercept_), feature_names(model)
    classes = model.classes_.tolist() if coef.shape[0] > 1 else [""]
    rows = []
    for label, row, intercept in zip(classes, coef, intercepts, strict=True):
        of = f" of class {label}" if label != "" else ""
        values = {names(int(at)): float(row[at]) for at in largest_places(row, top)}
        text = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        for what, value, words in (("intercept", float(intercept), ""), ("largest coefficients", values, text)):
            rows.append(Row(f"{what}{of}", value, words, f"{what}{of}".replace(" ", "_")))
    return rows


def largest_places(row: FloatArray, top: int) -> Array:
    """The places of the largest entries by magnitude, zeros left out; in order where only rounding differs."""
    used = np.flatnonzero(row)
    sizes = np.abs(row[used])
    order = np.argsort(-np.round(sizes / sizes.max(initial=0.0), DIGITS), kind="stable")
    return np.asarray(used[order[:top]])


def feature_names(model: Any) -> Any:
    """A function from the place of a feature to its name: of a column, of a template, or its index in a file."""
    names = inputs.feature_names(model)
    return (lambda at: str(at + 1)) if names is None else names.__getitem__
