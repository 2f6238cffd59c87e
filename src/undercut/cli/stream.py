"""``undercut train --online``: a file of any size, read in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from undercut.cli.report import labels, print_rows
from undercut.errors import DataError, ParameterError
from undercut.estimators import OnlineClassifier, OnlineRegressor
from undercut.io import iter_svmlight, load_model, save_model


def train_online(
    file: Path,
    settings: dict[str, Any],
    output: Path,
    *,
    n_passes: int,
    chunk_rows: int,
    classes: str | None,
    n_features: int | None,
    start: Path | None,
    quiet: bool,
) -> int:
    """Stream ``file`` ``n_passes`` times; the exit code.  The model is saved after every pass, and on Ctrl-C."""
    model = _estimator(settings) if start is None else _resumed(start, settings)
    options: dict[str, Any] = {}
    if isinstance(model, OnlineClassifier) and classes is not None:
        options["classes"] = _parse_classes(classes)
    width = getattr(model, "n_features_in_", n_features)
    done = getattr(model, "n_samples_seen_", 0)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True, emoji=False)
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("streaming", total=None)
        try:
            for number in range(1, n_passes + 1):
                for X, y in _chunks(file, chunk_rows, width, skip=getattr(model, "stream_position_", 0)):
                    width = X.shape[1]
                    model.partial_fit(X, labels(y) if isinstance(model, OnlineClassifier) else y, **options)
                    model.stream_position_ += y.size
                    seen = model.n_samples_seen_ - done
                    bar.update(task, description=f"pass {number} of {n_passes}, {seen} samples seen")
                model.stream_position_ = 0
                save_model(model, output)
        except KeyboardInterrupt:
            if not hasattr(model, "coef_"):
                raise
            save_model(model, output)
            print_rows([("stopped", f"what was learned from {model.n_samples_seen_} samples is in {output}")])
            return 130
    if not quiet:
        print_rows([("samples seen", str(model.n_samples_seen_)), ("features", str(width)), ("model", str(output))])
    return 0


def _chunks(file: Path, chunk_rows: int, width: int | None, skip: int) -> Iterator[tuple[Any, Any]]:
    """The chunks of a file without the first ``skip`` samples, which an interrupted pass has already learned from."""
    for X, y, _ in iter_svmlight(file, chunk_rows=chunk_rows, n_features=width):
        if skip < y.size:
            yield X[skip:], y[skip:]
        skip = max(0, skip - y.size)


def _estimator(settings: dict[str, Any]) -> Any:
    if settings["loss"] in OnlineClassifier._losses:
        model: Any = OnlineClassifier(**settings)
    elif settings["loss"] in OnlineRegressor._losses:
        model = OnlineRegressor(**settings)
    else:
        known = ", ".join([*OnlineClassifier._losses, *OnlineRegressor._losses])
        raise ParameterError(f"--loss must be one of {known}; got {settings['loss']!r}")
    try:
        model._validate_params()
    except ValueError as error:
        raise ParameterError(str(error)) from error
    return model


def _resumed(start: Path, settings: dict[str, Any]) -> Any:
    model = load_model(start)
    if not isinstance(model, OnlineClassifier | OnlineRegressor) or not hasattr(model, "_games"):
        raise ParameterError(f"--start must be a model of train --online to go on with --online; got {start}")
    wanted = _estimator(settings)
    for name in settings:
        old, new = (model._loss(), wanted._loss()) if name == "loss" else (getattr(model, name), getattr(wanted, name))
        if old != new:
            raise ParameterError(f"--start has {name} = {old!r}, and now it is {new!r}: keep it")
    return model


def _parse_classes(text: str) -> Any:
    try:
        return labels(np.array([float(word) for word in text.split(",")]))
    except ValueError as error:
        raise DataError(f"--classes must be numbers separated by commas; got {text!r}") from error
