"""``undercut predict`` and ``undercut evaluate``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from undercut.cli.options.given import Given
from undercut.cli.options.table import ROWS, named
from undercut.cli.reports.metrics import sample_rows
from undercut.cli.reports.report import Row, certificate_rows, print_report
from undercut.cli.standard import STANDARD
from undercut.cli.tasks.partitions import predicted, scored
from undercut.cli.tasks.rna import folded_lines, read_rna, rna_rows
from undercut.cli.tasks.samples import OnDisk, read_fitting
from undercut.cli.tasks.sequences import fitted_sequences, label_lines, sequence_rows
from undercut.cli.tasks.speech import speech_lines, speech_rows
from undercut.cli.tasks.structures import structure_lines, structure_rows
from undercut.errors import DataError
from undercut.estimators import HmmClassifier, HmmRecognizer, RnaFolder, SequenceLabeler
from undercut.io import load_model
from undercut.maps.streamed import StreamedDesign


def write_predictions(
    model: Path,
    file: Path,
    output: Path | None,
    *,
    wanted: str,
    folds: str | None,
    strict: bool,
    on_disk: OnDisk | None = None,
) -> None:
    """One line per row of ``file``, to standard output unless there is an ``output``.

    ``wanted`` are "labels", "scores" or "probabilities"; the last two have a header that names the labels.
    """
    fitted = load_model(model)
    _check_on_disk(fitted, on_disk)
    if isinstance(fitted, SequenceLabeler):
        data = fitted_sequences(fitted, file, folds, labelled=False, strict=strict)
        Given.read({"folds": folds}).check_file(data.kind)
        _write(label_lines(fitted, data, scores=wanted != "labels"), output)
        return
    if isinstance(fitted, RnaFolder):
        _write(folded_lines(fitted, read_rna(file, labelled=False), scores=wanted != "labels"), output)
        return
    if isinstance(fitted, HmmClassifier | HmmRecognizer):
        _write([speech_lines(fitted, file, wanted)], output)
        return
    X = _rows(fitted, file, folds, strict=strict, labelled=False, on_disk=on_disk).X
    _write(_lines(fitted, X, wanted, model), output)


def _lines(fitted: Any, X: Any, wanted: str, model: Path) -> Iterator[str]:
    """The header and a line per row, for a block of rows at a time where they are on disk."""
    blocks = (block for _, block in X.blocks()) if isinstance(X, StreamedDesign) else iter([X])
    for at, block in enumerate(blocks):
        yield _text(*_values(fitted, block, wanted, model), first=at == 0)


def _text(header: str, values: Any, *, first: bool) -> str:
    lines = "".join(" ".join(map(str, np.atleast_1d(row).tolist())) + "\n" for row in values)
    return header + lines if first else lines


def _values(fitted: Any, X: Any, wanted: str, model: Path) -> tuple[str, Any]:
    """The header and what follows it."""
    kind = type(fitted).__name__
    if wanted == "labels":
        return "", fitted.predict(X)
    if wanted == "probabilities":
        if not hasattr(fitted, "predict_proba"):
            raise DataError(
                f"--probabilities need a classifier with --loss logistic; {model} is a {kind} of another loss"
            )
        return _header(fitted.classes_), fitted.predict_proba(X)
    if not hasattr(fitted, "decision_function"):
        raise DataError(f"--scores is for classifiers; {model} is a {kind}, whose predictions are scores")
    values = fitted.decision_function(X)
    classes = getattr(fitted, "classes_", np.array([-1, 1]))
    return _header(classes if values.ndim > 1 else classes[-1:]), values


def predict_there(
    model: Path, file: Path, output: Path | None, *, wanted: str, folds: str | None, strict: bool
) -> None:
    """The same as ``write_predictions`` for files that workers read."""
    fitted = load_model(model)
    lines = structure_lines(fitted, file, folds, scores=wanted != "labels", strict=strict)
    if lines is not None:
        _write(lines, output)
        return
    Given.read({"folds": folds}).check_file(ROWS)
    _check_there(fitted)
    values = partial(_values, wanted=wanted, model=model)
    blocks = predicted(fitted, file, values, strict=strict)
    _write((_text(header, found, first=at == 0) for at, (header, found) in enumerate(blocks)), output)


def evaluate_there(
    model: Path, file: Path, folds: str | None, *, strict: bool, as_json: bool, metrics: str | None
) -> None:
    """The same as ``print_scores`` for files that workers read."""
    fitted = load_model(model)
    rows = structure_rows(fitted, file, folds, strict=strict)
    if rows is None:
        Given.read({"folds": folds}).check_file(ROWS)
        _check_there(fitted)
        rows = sample_rows(*scored(fitted, file, strict=strict), metrics)
    print_report([*rows, *_training_rows(fitted)], as_json=as_json)


def _header(classes: Any) -> str:
    """The labels of the columns, as a comment: ``# labels -1 1``."""
    return f"# labels {' '.join(map(str, classes.tolist()))}\n"


def print_scores(
    model: Path,
    file: Path,
    folds: str | None,
    *,
    strict: bool,
    as_json: bool,
    metrics: str | None = None,
    on_disk: OnDisk | None = None,
) -> None:
    """How well a model predicts the targets of a file."""
    fitted = load_model(model)
    _check_on_disk(fitted, on_disk)
    rows = score_rows(fitted, file, folds, strict=strict, metrics=metrics, on_disk=on_disk)
    print_report([*rows, *_training_rows(fitted)], as_json=as_json)


def _training_rows(fitted: Any) -> list[Row]:
    model = fitted[-1] if isinstance(fitted, Pipeline) else fitted
    return [Row(f"training {row.label}", row.value, row.text) for row in certificate_rows(model)]


def score_rows(
    fitted: Any,
    file: Path,
    folds: str | None = None,
    *,
    strict: bool = False,
    metrics: str | None = None,
    on_disk: OnDisk | None = None,
) -> list[Row]:
    """The measures of a model on a file; ``metrics`` names those of a ranking."""
    if isinstance(fitted, SequenceLabeler):
        data = fitted_sequences(fitted, file, folds, labelled=True, strict=strict)
        Given.read({"folds": folds}).check_file(data.kind)
        return sequence_rows(fitted, data)
    if isinstance(fitted, RnaFolder):
        return rna_rows(fitted, read_rna(file, labelled=True))
    if isinstance(fitted, HmmClassifier | HmmRecognizer):
        return speech_rows(fitted, file)
    data = _rows(fitted, file, folds, strict=strict, labelled=True, on_disk=on_disk)
    if isinstance(fitted, Pipeline):
        fitted, data = fitted[-1], data._replace(X=fitted[:-1].transform(data.X))
    return sample_rows(fitted, data, metrics)


def _check_on_disk(fitted: Any, on_disk: OnDisk | None) -> None:
    in_memory = SequenceLabeler | RnaFolder | HmmClassifier | HmmRecognizer | Pipeline
    if on_disk is not None and isinstance(fitted, in_memory):
        raise named("memory").refusal(f"is for {ROWS}, and not for a {type(fitted).__name__}", on_disk.memory)


def _rows(
    fitted: Any, file: Path, folds: str | None, *, strict: bool, labelled: bool, on_disk: OnDisk | None = None
) -> Any:
    Given.read({"folds": folds}).check_file(ROWS)
    _check_rows_of_numbers(fitted)
    data = read_fitting(fitted, file, fitted.n_features_in_, strict=strict, labelled=labelled, on_disk=on_disk)
    dense = sp.issparse(data.X) and not get_tags(fitted).input_tags.sparse  # a pipeline that centers, for instance
    return data._replace(X=data.X.toarray()) if dense else data


def _check_there(fitted: Any) -> None:
    if isinstance(fitted, HmmClassifier):
        raise DataError("workers do not read speech archives: drop --workers and --scheduler")
    _check_rows_of_numbers(fitted)


def _check_rows_of_numbers(fitted: Any) -> None:
    if not hasattr(fitted, "n_features_in_"):
        raise DataError("the model is a pipeline that takes no rows of numbers: use it in Python, with load_model")


def _write(lines: Iterable[str], output: Path | None) -> None:
    if output is None or output == STANDARD:
        sys.stdout.writelines(lines)
    else:
        with open(output, "w", encoding="utf-8") as file:
            file.writelines(lines)
