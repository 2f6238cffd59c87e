"""``undercut predict`` and ``undercut evaluate``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from undercut.cli.options.given import Given
from undercut.cli.options.table import ROWS
from undercut.cli.reports.metrics import sample_rows
from undercut.cli.reports.report import Row, certificate_rows, print_report
from undercut.cli.standard import STANDARD
from undercut.cli.tasks.rna import folded_lines, read_rna, rna_rows
from undercut.cli.tasks.samples import read_fitting
from undercut.cli.tasks.sequences import fitted_sequences, labelled_lines, sequence_rows
from undercut.cli.tasks.speech import read_speech, speech_rows, word_lines
from undercut.errors import DataError
from undercut.estimators import HmmClassifier, RnaFolder, SequenceLabeler
from undercut.io import load_model
from undercut.io.svmlight import SvmlightData


def write_predictions(
    model: Path, file: Path, output: Path | None, *, wanted: str, folds: str | None, strict: bool
) -> None:
    """One line per row of ``file``, to standard output unless there is an ``output``.

    ``wanted`` are "labels", "scores" or "probabilities"; the last two have a header that names the labels.
    """
    fitted = load_model(model)
    if isinstance(fitted, SequenceLabeler):
        data = fitted_sequences(fitted, file, folds, labelled=False, strict=strict)
        Given.read({"folds": folds}).check_file(data.kind)
        _write(labelled_lines(fitted, data, scores=wanted != "labels"), output)
        return
    if isinstance(fitted, RnaFolder):
        _write(folded_lines(fitted, read_rna(file, labelled=False), scores=wanted != "labels"), output)
        return
    if isinstance(fitted, HmmClassifier):
        _write(word_lines(fitted, read_speech(file, labelled=False), wanted), output)
        return
    X = _rows(fitted, file, folds, strict=strict, labelled=False).X
    header, values = _values(fitted, X, wanted, model)
    lines = "".join(" ".join(map(str, np.atleast_1d(row).tolist())) + "\n" for row in values)
    _write(header + lines, output)


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


def _header(classes: Any) -> str:
    """The labels of the columns, as a comment: ``# labels -1 1``."""
    return f"# labels {' '.join(map(str, classes.tolist()))}\n"


def print_scores(
    model: Path, file: Path, folds: str | None, *, strict: bool, as_json: bool, metrics: str | None = None
) -> None:
    """How well a model predicts the targets of a file."""
    fitted = load_model(model)
    rows = score_rows(fitted, file, folds, strict=strict, metrics=metrics)
    certificate = [Row(f"training {row.label}", row.value, row.text) for row in certificate_rows(fitted)]
    print_report([*rows, *certificate], as_json=as_json)


def score_rows(
    fitted: Any, file: Path, folds: str | None = None, *, strict: bool = False, metrics: str | None = None
) -> list[Row]:
    """The measures of a model on a file; ``metrics`` names those of a ranking."""
    if isinstance(fitted, SequenceLabeler):
        data = fitted_sequences(fitted, file, folds, labelled=True, strict=strict)
        Given.read({"folds": folds}).check_file(data.kind)
        return sequence_rows(fitted, data)
    if isinstance(fitted, RnaFolder):
        return rna_rows(fitted, read_rna(file, labelled=True))
    if isinstance(fitted, HmmClassifier):
        return speech_rows(fitted, read_speech(file, labelled=True))
    return sample_rows(fitted, _rows(fitted, file, folds, strict=strict, labelled=True), metrics)


def _rows(fitted: Any, file: Path, folds: str | None, *, strict: bool, labelled: bool) -> SvmlightData:
    Given.read({"folds": folds}).check_file(ROWS)
    if labelled and isinstance(fitted, Pipeline):
        raise DataError("evaluate is for models of train; the model is a pipeline: use its score method in Python")
    if not hasattr(fitted, "n_features_in_"):
        raise DataError("the model is a pipeline that takes no rows of numbers: use it in Python, with load_model")
    return read_fitting(fitted, file, fitted.n_features_in_, strict=strict, labelled=labelled)


def _write(lines: str, output: Path | None) -> None:
    if output is None or output == STANDARD:
        sys.stdout.write(lines)
    else:
        output.write_text(lines, encoding="utf-8")
