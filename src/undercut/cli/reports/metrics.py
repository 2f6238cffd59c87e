"""How well a model predicts the targets of a file: what belongs to its task, and the risk that it minimizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector

from undercut.cli.models import required_queries
from undercut.cli.reports.report import Row, labels
from undercut.errors import DataError, ParameterError
from undercut.estimators import LinearClassifier, MultivariateClassifier, Ranker
from undercut.estimators.ranking.ranker import named_risk
from undercut.estimators.ranking.retrieval import ranking_score
from undercut.estimators.targets import positive_codes
from undercut.io.svmlight import SvmlightData
from undercut.losses import Hinge, Poisson, Quantile
from undercut.risks import LinearRisk, MulticlassRisk, MultivariateRisk
from undercut.types import Array, FloatArray

RANKING = (
    *("ndcg@1", "ndcg@5", "ndcg@10", "exponential_ndcg@10"),
    *("map", "mrr", "precision@10", "err@10"),
)
WORDS = {"exponential_ndcg": "exponential NDCG", "precision": "precision"}  # the other names are abbreviations


def sample_rows(model: Any, data: SvmlightData, metrics: str | None = None) -> list[Row]:
    """The measures of the task; ``metrics`` are those of a ranking, their names with commas between them."""
    X, y, qid = data
    size = Row("samples", X.shape[0])
    if isinstance(model, Ranker):
        return [size, *_ranking(model, X, y, required_queries(qid), metrics)]
    if metrics is not None:
        raise ParameterError(f"--metrics is for rankings; got {metrics!r} for a {type(model).__name__}: drop it")
    if is_outlier_detector(model):
        return [size, Row("share of novel samples", float(np.mean(model.predict(X) < 0)))]
    return [size, *(_classes(model, X, labels(y)) if is_classifier(model) else _numbers(model, X, y))]


def _ranking(model: Ranker, X: Any, y: Array, qid: Array, metrics: str | None) -> list[Row]:
    scores = model.predict(X)
    rows = [
        Row(_titled(name), ranking_score(name, y, scores, qid)) for name in (metrics.split(",") if metrics else RANKING)
    ]
    if isinstance(model.loss, str):
        risk = named_risk(model.loss, model.weighting)(scores[:, None], y, qid)
        rows.append(Row("test risk", at_score(risk)))
    return rows


def _titled(name: str) -> str:
    """``NDCG@10`` for ndcg@10."""
    measure, at, places = name.partition("@")
    return WORDS.get(measure, measure.upper()) + at + places


def _numbers(model: Any, X: Any, y: FloatArray) -> list[Row]:
    from sklearn import metrics  # slow to import

    predicted, loss = model.predict(X), model._loss()
    rows = [
        Row("R2", metrics.r2_score(y, predicted)),
        Row("mean absolute error", metrics.mean_absolute_error(y, predicted)),
        Row("root mean squared error", metrics.root_mean_squared_error(y, predicted)),
    ]
    if isinstance(loss, Quantile):
        rows.append(Row("pinball loss", metrics.mean_pinball_loss(y, predicted, alpha=loss.quantile)))
        rows.append(Row("share below the quantile", float(np.mean(y <= predicted))))
    if isinstance(loss, Poisson):
        rows.append(Row("Poisson deviance", metrics.mean_poisson_deviance(y, predicted)))
    scores = model._scores(X).reshape(-1, 1)
    return [*rows, Row("test risk", at_score(LinearRisk(scores, y, loss)))]


def _classes(model: Any, X: Any, y: Array) -> list[Row]:
    from sklearn import metrics  # slow to import

    unknown = np.setdiff1d(y, model.classes_)
    if unknown.size:
        raise DataError(f"the targets must be among the model's classes {model.classes_.tolist()}; got {unknown[0]}")
    predicted, present = model.predict(X), np.unique(y)
    accuracy = metrics.accuracy_score(y, predicted)
    rows = [
        Row("accuracy", accuracy),
        Row("error", 1.0 - accuracy),
        Row("balanced accuracy", metrics.recall_score(y, predicted, labels=present, average="macro")),
        Row("macro F1", metrics.f1_score(y, predicted, labels=present, average="macro")),
    ]
    if model.classes_.size == 2:
        rows.append(
            Row(f"F1 of class {model.classes_[1]}", _f1(y == model.classes_[1], predicted == model.classes_[1]))
        )
    if hasattr(model, "predict_proba"):
        rows.append(Row("log-loss", metrics.log_loss(y, model.predict_proba(X), labels=model.classes_)))
    if isinstance(model, MultivariateClassifier):
        rows.append(Row(model._measure().name, model.score(X, y)))
    codes = np.searchsorted(model.classes_, y)
    if present.size == model.classes_.size:
        rows.append(Row("ROC area", _roc_area(model._scores(X), codes)))
    return [*rows, Row("test risk", _class_risk(model, model._scores(X), codes))]


def _f1(truth: Array, predicted: Array) -> float:
    """F1 of one class; zero where it neither occurs nor is predicted."""
    total = int(truth.sum() + predicted.sum())
    return 2.0 * float((truth & predicted).sum()) / total if total else 0.0


def _roc_area(scores: FloatArray, codes: Array) -> float:
    """The area under the ROC curve; the mean over classes against the rest where there are several."""
    from sklearn.metrics import roc_auc_score

    positive = positive_codes(scores.shape[1] if scores.shape[1] > 1 else 2)
    return float(
        np.mean([roc_auc_score(codes == code, column) for code, column in zip(positive, scores.T, strict=True)])
    )


def _class_risk(model: Any, scores: FloatArray, codes: Array) -> float:
    """The risk of the model's own loss, as its objective counts it, at the scores of other samples."""
    signs = np.where(codes == 1, 1.0, -1.0)
    if isinstance(model, MultivariateClassifier):
        return at_score(MultivariateRisk(scores, signs, model._measure()))
    joint = model._joint_loss() if isinstance(model, LinearClassifier) else None
    if joint is not None:
        scores = scores if scores.shape[1] > 1 else np.hstack([np.zeros_like(scores), scores])
        K = scores.shape[1]
        return float(MulticlassRisk(scores, codes, joint, n_classes=K).value(np.eye(K).ravel()))
    loss = model._loss() if hasattr(model, "loss") else Hinge()
    problems = zip(positive_codes(model.classes_.size), scores.T, strict=True)
    return sum(
        at_score(LinearRisk(column[:, None], np.where(codes == code, 1.0, -1.0), loss)) for code, column in problems
    )


def at_score(risk: Any) -> float:
    """The value of a risk whose only feature is the score."""
    return float(risk.value(np.ones(1)))
