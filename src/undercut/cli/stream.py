"""``undercut train --online``: a file of any size, read in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from undercut.cli.given import Given
from undercut.cli.models import build
from undercut.cli.options import OPTIONS
from undercut.cli.report import labels, print_rows
from undercut.errors import DataError, ParameterError
from undercut.estimators import OnlineClassifier, OnlineRegressor
from undercut.io import iter_svmlight, load_model, save_model


def train_online(file: Path, given: Given) -> int:
    """Stream ``file``, ``--passes`` times; the exit code.  The model is saved after every pass, and on Ctrl-C."""
    model = _resumed(given) if "start" in given else build(given)
    output = given["output"]
    try:
        with _live_line(quiet="quiet" in given) as show:
            _learn(model, file, given, show)
    except KeyboardInterrupt:
        if not hasattr(model, "coef_"):
            raise
        save_model(model, output)
        print_rows([("stopped", f"what was learned from {model.n_samples_seen_} samples is in {output}")])
        return 130
    if "quiet" not in given:
        counts = {"samples seen": model.n_samples_seen_, "features": model.n_features_in_, "model": output}
        print_rows([(name, str(value)) for name, value in counts.items()])
    return 0


@contextmanager
def _live_line(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A line on the terminal that the function given shows."""
    console = Console(stderr=True, emoji=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("streaming", total=None)
        yield lambda text: bar.update(task, description=text)


def _learn(model: Any, file: Path, given: Given, show: Callable[[str], None]) -> None:
    """Learn from every chunk of every pass, and save the model after each pass."""
    classifies = isinstance(model, OnlineClassifier)
    options = {"classes": _parse_classes(given["classes"])} if classifies and "classes" in given else {}
    n_passes, done = given["passes"], getattr(model, "n_samples_seen_", 0)
    for number in range(1, n_passes + 1):
        width = getattr(model, "n_features_in_", given["n_features"])
        for X, y in _chunks(file, given["chunk_rows"], width, skip=getattr(model, "stream_position_", 0)):
            model.partial_fit(X, labels(y) if classifies else y, **options)
            model.stream_position_ += y.size
            show(f"pass {number} of {n_passes}, {model.n_samples_seen_ - done} samples seen")
        model.stream_position_ = 0
        save_model(model, given["output"])


def _chunks(file: Path, chunk_rows: int, width: int | None, skip: int) -> Iterator[tuple[Any, Any]]:
    """The chunks of a file without the first ``skip`` samples, which an interrupted pass has already learned from."""
    for X, y, _ in iter_svmlight(file, chunk_rows=chunk_rows, n_features=width):
        if skip < y.size:
            yield X[skip:], y[skip:]
        skip = max(0, skip - y.size)


def _resumed(given: Given) -> Any:
    """The model of ``--start``, whose settings must be those that are wanted now."""
    model, start = load_model(given["start"]), given["start"]
    if not isinstance(model, OnlineClassifier | OnlineRegressor) or not hasattr(model, "_games"):
        raise ParameterError(f"--start must be a model of train --online to go on with --online; got {start}")
    wanted = build(given)
    for option in (option for option in OPTIONS if option.sets and option.online):
        old, new = (_setting(estimator, option.sets) for estimator in (model, wanted))
        if old != new:
            raise ParameterError(f"--start was trained with {option.flag()} {old}, which must stay the same; got {new}")
    return model


def _setting(estimator: Any, name: str) -> Any:
    """A parameter; two names may stand for one loss."""
    return estimator._loss() if name == "loss" else getattr(estimator, name)


def _parse_classes(text: str) -> Any:
    try:
        return labels(np.array([float(word) for word in text.split(",")]))
    except ValueError as error:
        raise DataError(f"--classes must be numbers separated by commas; got {text!r}") from error
