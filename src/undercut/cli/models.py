"""Which estimator the options of ``undercut train`` describe, and what it is fitted to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import has_fit_parameter

from undercut.cli.options.given import Given
from undercut.cli.options.table import named
from undercut.cli.reports.report import labels
from undercut.cli.tasks.samples import as_wide_as, read_like, read_weights
from undercut.errors import DataError, ParameterError, nearest
from undercut.estimators import (
    HmmClassifier,
    HmmRecognizer,
    KernelClassifier,
    LinearClassifier,
    LinearRegressor,
    MultivariateClassifier,
    NoveltyDetector,
    OnlineClassifier,
    OnlineRegressor,
    Ranker,
    RnaFolder,
    SequenceLabeler,
    TransductiveClassifier,
    lam_from_C,
)
from undercut.estimators.ranking.ranker import RISKS, RISKS_AT, named_risk
from undercut.io.svmlight import SvmlightData
from undercut.types import Array, FloatArray


@dataclass(frozen=True)
class Model:
    """The option that chooses what is trained, and the estimators that it chooses among by their losses."""

    option: str
    kinds: tuple[Any, ...]
    value: str = ""  # of the option, where it chooses among several

    def kind(self, loss: str | None) -> Any:
        """The first estimator that has the loss; ``None`` is the default of the first."""
        if loss is None:
            return self.kinds[0]
        for kind in self.kinds:
            if has_loss(kind, loss):
                return kind
        known = self.losses()
        rule = f"one of {', '.join(known)}" if len(known) > 2 else " or ".join(known)
        beside = "" if self.option == "loss" else f" with {self.label()}"
        raise ParameterError(f"--loss must be {rule}{beside}; got {loss!r}{nearest(loss, known)}")

    def losses(self) -> list[str]:
        """Every loss of its estimators."""
        return [name for kind in self.kinds for name in losses(kind)]

    def label(self, loss: str = "") -> str:
        """What the user typed to choose it: ``--kernel``, ``--task sequence``, ``--loss squared``."""
        option = named(self.option)
        value = loss if self.option == "loss" else self.value
        return f"{option.flag()} {value}".rstrip()


MODELS = (  # the first whose option is given; the last by default
    Model("online", (OnlineClassifier, OnlineRegressor)),
    Model("task", (SequenceLabeler,), "sequence"),
    Model("task", (RnaFolder,), "rna"),
    Model("task", (HmmClassifier,), "hmm"),
    Model("task", (HmmRecognizer,), "connected"),
    Model("unlabelled", (TransductiveClassifier,)),
    Model("measure", (MultivariateClassifier,)),
    Model("nu", (NoveltyDetector,)),
    Model("kernel", (KernelClassifier,)),
    Model("loss", (LinearClassifier, LinearRegressor, Ranker)),
)


def chosen_model(given: Given) -> Model:
    """The row of ``MODELS`` that the options choose."""
    chosen = (model for model in MODELS if model.option in given and model.value in ("", given[model.option]))
    return next(chosen, MODELS[-1])


def losses(kind: Any) -> list[str]:
    """The names of an estimator's losses; one without the parameter has the hinge loss."""
    if "loss" not in kind._get_param_names():
        return ["hinge"]
    return [*RISKS, *(f"{name}@k" for name in RISKS_AT)] if kind is Ranker else list(kind._losses)


def has_loss(kind: Any, loss: str) -> bool:
    """Whether an estimator has a loss of this name, ``ndcg@10`` and its like included."""
    if kind is Ranker:
        with suppress(ParameterError):
            named_risk(loss)
            return True
    return loss.partition(":")[0] in losses(kind)


def loss_of(kind: Any, text: str) -> Any:
    """The loss that ``--loss`` names: the name itself, or a loss with the setting behind the colon.

    >>> loss_of(LinearRegressor, "quantile:0.9"), loss_of(LinearRegressor, "squared")
    (Quantile(quantile=0.9), 'squared')
    """
    name, colon, setting = text.partition(":")
    if not colon or kind is Ranker:
        return text
    classes = kind._losses if isinstance(kind._losses, dict) else {}
    settings = [field.name for field in fields(classes[name]) if field.init] if name in classes else []
    if len(settings) != 1:
        raise ParameterError(f"--loss {name} has no setting to give behind a colon; got {text!r}")
    try:
        return kind._losses[name](**{settings[0]: float(setting)})
    except ValueError as error:
        raise ParameterError(f"--loss {name}:{settings[0].upper()}: {error}") from error


def build(given: Given, **settings: Any) -> Any:
    """The estimator that the options describe, its parameters checked."""
    model = chosen_model(given)
    kind = model.kind(given["loss"])
    parameters = settings | dict(_parameters(given, model, kind))
    if kind is TransductiveClassifier and given["intercept"] is False:
        parameters.setdefault("balance", None)  # only an intercept can balance the classes
    try:
        estimator = kind(**parameters)
        estimator._validate_params()
        if kind is MultivariateClassifier:
            estimator._measure()  # ParameterError for an unknown name
    except ValueError as error:
        raise ParameterError(str(error)) from error
    return estimator


def _parameters(given: Given, model: Model, kind: Any) -> Iterator[tuple[str, Any]]:
    """The parameters that options set; an option for a parameter that the estimator is without is refused."""
    takes = kind._get_param_names()
    for option, value in given.options():
        if option.name == "C" and "C" in takes:
            yield "C", value
        elif option.sets in takes:
            yield option.sets, loss_of(kind, value) if option.sets == "loss" else value
        elif option.sets and not (option.name == "loss" and has_loss(kind, value)):
            raise option.refusal(f"is not for {model.label(given['loss'] or '')}", value, option.remedy)


def fit(model: Any, data: SvmlightData, given: Given) -> None:
    """Fit a model to the contents of its files."""
    X, y, qid = data
    weight = read_weights(given["weights"], y.size)
    options = {} if weight is None else {"sample_weight": weight}
    if weight is not None and not has_fit_parameter(model, "sample_weight"):
        raise named("weights").refusal(f"is not for {chosen_model(given).label(given['loss'] or '')}", given["weights"])
    target = y if isinstance(model, LinearRegressor | Ranker) else labels(y)
    if "C" in given and "lam" in model._get_param_names():
        model.lam = lam_from_C(given["C"], _summed_weight(model, target, qid, weight))
    if isinstance(model, TransductiveClassifier):
        _fit_transductive(model, X, target, given["unlabelled"], weight)
    elif isinstance(model, Ranker):
        model.fit(X, y, qid=required_queries(qid), **options)
    elif isinstance(model, NoveltyDetector):
        model.fit(X, **options)
    else:
        model.fit(X, target, **options)


def _summed_weight(model: Any, y: Array, qid: Array | None, weight: FloatArray | None) -> float:
    """The total weight of the losses that C multiplies: of samples, of queries, or of the only loss of a measure."""
    if isinstance(model, MultivariateClassifier):
        return 1.0
    if isinstance(model, Ranker):
        return float(np.unique(required_queries(qid)).size)
    weight = np.ones(y.size) if weight is None else weight
    classes = getattr(model, "class_weight", None)
    if isinstance(classes, dict):
        weight = weight * np.array([classes.get(label, 1.0) for label in y.tolist()])
    return float(weight.sum())


def required_queries(qid: Array | None) -> Array:
    """The queries of a file for ranking."""
    if qid is None:
        raise DataError(
            "a ranking needs queries: write qid:1 behind the target of each row, or name the column of a table with "
            "--group; the file has no qid"
        )
    return qid


def _fit_transductive(
    model: TransductiveClassifier, X: sp.csr_matrix, y: Array, unlabelled: Path, weight: FloatArray | None
) -> None:
    """Fit with the samples of another file below those that have labels; -1 is a label like any other here."""
    more = read_like(model, unlabelled, labelled=False).X
    width = max(X.shape[1], more.shape[1])
    classes, codes = np.unique(y, return_inverse=True)
    target = np.concatenate([codes, np.full(more.shape[0], -1)])
    if hasattr(model, "classes_"):  # a start, in the labels of the file
        model.classes_ = np.arange(classes.size) if np.array_equal(model.classes_, classes) else model.classes_
    try:
        rows = sp.vstack([as_wide_as(sp.csr_matrix(part), width) for part in (X, more)], format="csr")
        model.fit(rows, target, None if weight is None else np.concatenate([weight, np.ones(more.shape[0])]))
    finally:  # a fit that Ctrl-C ended is kept too
        if hasattr(model, "transduction_"):
            model.classes_, model.transduction_ = classes[model.classes_], classes[model.transduction_]
