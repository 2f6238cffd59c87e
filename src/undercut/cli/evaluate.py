"""``undercut predict`` and ``undercut evaluate``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.base import is_classifier

from undercut.arrays import Array
from undercut.cli.report import certificate_rows, labels, print_rows
from undercut.data import load_svmlight
from undercut.errors import DataError
from undercut.estimators import load_model

ModelFile = Annotated[Path, typer.Argument(help="A model written by undercut train")]
DataFile = Annotated[Path, typer.Argument(help="LIBSVM / SVMlight file, also .gz, .bz2 or .xz")]


def predict(
    model: ModelFile,
    file: DataFile,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write; else standard output")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Write decision values instead of labels")] = False,
) -> None:
    """Write one prediction per line of FILE."""
    fitted, X, _ = _load(model, file)
    if scores and not is_classifier(fitted):
        raise DataError(
            f"--scores is for classifiers; {model} is a {type(fitted).__name__}, whose predictions are scores"
        )
    values = fitted.decision_function(X) if scores else fitted.predict(X)
    lines = "".join(" ".join(map(str, np.atleast_1d(row).tolist())) + "\n" for row in values)
    if output is None:
        sys.stdout.write(lines)
    else:
        output.write_text(lines, encoding="utf-8")


def evaluate(model: ModelFile, file: DataFile) -> None:
    """Print how well MODEL predicts the targets of FILE."""
    fitted, X, y = _load(model, file)
    scores = [(name, f"{value:.6g}") for name, value in _scores(fitted, X, y).items()]
    certificate = [(f"training {name}", text) for name, text in certificate_rows(fitted)]
    print_rows([("samples", str(X.shape[0])), *scores, *certificate])


def _load(model: Path, file: Path) -> tuple[Any, Any, Array]:
    fitted = load_model(model)
    X, y, _ = load_svmlight(file, n_features=fitted.n_features_in_)
    return fitted, X, y


def _scores(fitted: Any, X: Any, y: Array) -> dict[str, float]:
    from sklearn import metrics  # slow to import

    predicted = fitted.predict(X)
    if not is_classifier(fitted):
        return {
            "R2": metrics.r2_score(y, predicted),
            "mean absolute error": metrics.mean_absolute_error(y, predicted),
            "root mean squared error": metrics.root_mean_squared_error(y, predicted),
        }
    y = labels(y)
    unknown = np.setdiff1d(y, fitted.classes_)
    if unknown.size:
        raise DataError(f"the targets must be among the model's classes {fitted.classes_.tolist()}; got {unknown[0]}")
    scores = {
        "accuracy": metrics.accuracy_score(y, predicted),
        "error": 1.0 - metrics.accuracy_score(y, predicted),
        "balanced accuracy": metrics.recall_score(y, predicted, labels=np.unique(y), average="macro"),
        "macro F1": metrics.f1_score(y, predicted, labels=np.unique(y), average="macro"),
    }
    if fitted.classes_.size == 2 and np.unique(y).size == 2:
        scores["ROC area"] = metrics.roc_auc_score(y, fitted.decision_function(X))
    return scores
