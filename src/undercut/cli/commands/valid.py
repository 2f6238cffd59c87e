"""``--valid FILE``: early stopping by the loss on a file."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from undercut.callbacks import EarlyStopping
from undercut.cli.models import chosen_model, required_queries
from undercut.cli.options.given import Given
from undercut.cli.options.table import named
from undercut.cli.reports.metrics import at_score, sample_rows
from undercut.cli.reports.report import labels
from undercut.cli.tasks.samples import OnDisk, fitting, read_fitting
from undercut.cli.tasks.sequences import ROWS, chain_risk, read_sequences
from undercut.errors import DataError
from undercut.estimators import LinearClassifier, LinearRegressor, MultivariateClassifier, Ranker, SequenceLabeler
from undercut.estimators.ranking.ranker import named_risk
from undercut.io.svmlight import SvmlightData
from undercut.risks import ChainRisk, LinearRisk, MulticlassRisk, MultivariateRisk, NetworkChainRisk
from undercut.types import Array, FloatArray

ValidationLoss = Callable[[Any, FloatArray], float]


def early_stopping(model: Any, data: SvmlightData, given: Given) -> list[EarlyStopping]:
    """What ends the runs of a fit on ``data``; nothing without ``--valid``."""
    if "valid" not in given:
        return []
    for kind, make in LOSSES.items():
        if isinstance(model, kind):
            other = read_fitting(model, given["valid"], data.X.shape[1], on_disk=OnDisk.of(given))
            return [EarlyStopping(make(model, data, other), given["patience"])]
    raise named("valid").refusal(f"is not for {chosen_model(given).label(given['loss'] or '')}", given["valid"])


def sequence_stopping(model: SequenceLabeler, n_features: int | None, given: Given) -> list[EarlyStopping]:
    """What ends a fit to sequences; nothing without ``--valid``."""
    if "valid" not in given:
        return []
    other = read_sequences(given["valid"])
    if other.kind == ROWS and n_features is not None:
        other = replace(other, X=fitting(other.X, n_features, given["valid"]))

    @cache
    def risk_of_other() -> ChainRisk | NetworkChainRisk:  # once the fit has found features and labels
        return chain_risk(model, other)

    def loss(risk: Any, w: FloatArray) -> float:
        return float(risk_of_other().value(risk_of_other().pack(risk.unpack(w))))

    return [EarlyStopping(loss, given["patience"])]


class BestPass:
    """The model after the pass of a stream whose risk on another file is smallest."""

    def __init__(self, path: Path, patience: int) -> None:
        self._path = path
        self._patience, self._waited, self._risk = patience, 0, math.inf
        self.model: Any = None

    def is_over(self, model: Any) -> bool:
        """Look at the model after a pass; whether the risk has not fallen for too many passes."""
        data = read_fitting(model, self._path, model.n_features_in_)
        risk: float = next(row.value for row in sample_rows(model, data) if row.key == "test_risk")
        self._waited += 1
        if risk < self._risk:
            self._risk, self._waited, self.model = risk, 0, deepcopy(model)
        return self._waited >= self._patience


def _of_numbers(model: LinearRegressor, data: SvmlightData, other: SvmlightData) -> ValidationLoss:
    loss = model._loss()
    return lambda risk, w: at_score(LinearRisk(_scores(risk, other, w), other.y, loss))


def _of_classes(model: LinearClassifier, data: SvmlightData, other: SvmlightData) -> ValidationLoss:
    """The loss of the class whose samples are the positive ones of the problem, or of all classes together."""
    y, truth = labels(data.y), labels(other.y)
    classes = np.unique(y)
    unknown = np.setdiff1d(truth, classes)
    if unknown.size:
        raise DataError(f"the targets of --valid must be among {classes.tolist()}; got {unknown[0]}")
    joint: Any = model._joint_loss()
    loss = model._loss()

    def of_one(risk: Any, w: FloatArray) -> float:
        positive = _positive_class(risk.y, y, classes)
        return at_score(LinearRisk(_scores(risk, other, w), np.where(truth == positive, 1.0, -1.0), loss))

    def of_all(risk: Any, w: FloatArray) -> float:
        W, codes = w.reshape(classes.size, -1), np.searchsorted(classes, truth)
        scores = np.asarray(other.X @ W.T) + risk.intercepts(w)
        return float(MulticlassRisk(scores, codes, joint, n_classes=classes.size).value(np.eye(classes.size).ravel()))

    return of_one if joint is None else of_all


def _of_a_measure(model: MultivariateClassifier, data: SvmlightData, other: SvmlightData) -> ValidationLoss:
    target = np.where(labels(other.y) == np.unique(labels(data.y))[-1], 1.0, -1.0)
    return lambda risk, w: at_score(MultivariateRisk(_scores(risk, other, w), target, model._measure()))


def _of_queries(model: Ranker, data: SvmlightData, other: SvmlightData) -> ValidationLoss:
    risk_of_other = named_risk(model.loss, model.weighting)(other.X, other.y, required_queries(other.qid))
    return lambda risk, w: float(risk_of_other.value(w))


LOSSES: dict[Any, Callable[[Any, SvmlightData, SvmlightData], ValidationLoss]] = {
    LinearRegressor: _of_numbers,
    LinearClassifier: _of_classes,
    MultivariateClassifier: _of_a_measure,
    Ranker: _of_queries,
}


def _positive_class(target: FloatArray, y: Array, classes: Array) -> Any:
    """The class against the rest, by the samples that have a positive target."""
    return next(label for label in classes[::-1] if np.array_equal(target > 0.0, y == label))


def _scores(risk: Any, data: SvmlightData, w: FloatArray) -> FloatArray:
    """One column of scores, with the intercept that belongs to w."""
    return np.asarray(data.X @ w + risk.intercept(w))[:, None]
