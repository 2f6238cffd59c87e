"""``undercut predict`` and ``undercut evaluate``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector

from undercut.cli.given import Given
from undercut.cli.models import required_queries
from undercut.cli.report import certificate_rows, labels, print_rows
from undercut.cli.sequences import ROWS, LabelledSequences, check_kind, labelled_lines, read_sequences, sequence_scores
from undercut.errors import DataError
from undercut.estimators import MultivariateClassifier, Ranker, SequenceLabeler
from undercut.estimators.ranker import mean_ndcg
from undercut.io import load_model, load_svmlight
from undercut.types import Array


def write_predictions(model: Path, file: Path, output: Path | None, *, scores: bool, folds: str | None) -> None:
    """One line per row of ``file``, to standard output unless there is an ``output``."""
    fitted = load_model(model)
    if isinstance(fitted, SequenceLabeler):
        data = _read(fitted, file, folds, labelled=False)
        _write(labelled_lines(fitted, data, scores=scores), output)
        return
    Given.read({"folds": folds}).check_file(ROWS)
    X, _, _ = load_svmlight(file, n_features=fitted.n_features_in_)
    if scores and not hasattr(fitted, "decision_function"):
        raise DataError(
            f"--scores is for classifiers; {model} is a {type(fitted).__name__}, whose predictions are scores"
        )
    values = fitted.decision_function(X) if scores else fitted.predict(X)
    lines = "".join(" ".join(map(str, np.atleast_1d(row).tolist())) + "\n" for row in values)
    _write(lines, output)


def print_scores(model: Path, file: Path, folds: str | None) -> None:
    """How well a model predicts the targets of a file."""
    fitted = load_model(model)
    if isinstance(fitted, SequenceLabeler):
        data = _read(fitted, file, folds, labelled=True)
        counts, values = {"sequences": data.lengths.size, "tokens": len(data.y)}, sequence_scores(fitted, data)
    else:
        Given.read({"folds": folds}).check_file(ROWS)
        X, y, qid = load_svmlight(file, n_features=fitted.n_features_in_)
        counts, values = {"samples": X.shape[0]}, _scores(fitted, X, y, qid)
    sizes = [(name, str(count)) for name, count in counts.items()]
    scores = [(name, f"{value:.6g}") for name, value in values.items()]
    certificate = [(f"training {name}", text) for name, text in certificate_rows(fitted)]
    print_rows([*sizes, *scores, *certificate])


def _read(fitted: SequenceLabeler, file: Path, folds: str | None, *, labelled: bool) -> LabelledSequences:
    width = fitted.n_features_in_ if fitted.features is None else None
    data = read_sequences(file, folds, width, labelled=labelled)
    Given.read({"folds": folds}).check_file(data.kind)
    check_kind(fitted, data, file)
    return data


def _write(lines: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(lines)
    else:
        output.write_text(lines, encoding="utf-8")


def _scores(fitted: Any, X: Any, y: Array, qid: Array | None) -> dict[str, float]:
    from sklearn import metrics  # slow to import

    predicted = fitted.predict(X)
    if isinstance(fitted, Ranker):
        queries = required_queries(qid)
        return {f"NDCG@{k}": mean_ndcg(y, predicted, queries, k=k) for k in (1, 5, 10)}
    if is_outlier_detector(fitted):
        return {"share of novel samples": float(np.mean(predicted < 0))}
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
    if isinstance(fitted, MultivariateClassifier):
        scores[fitted._measure().name] = fitted.score(X, y)
    if fitted.classes_.size == 2 and np.unique(y).size == 2:
        scores["ROC area"] = metrics.roc_auc_score(y, fitted.decision_function(X))
    return scores
