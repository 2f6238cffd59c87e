"""Which estimator the options of ``undercut train`` describe, and what it is fitted to.

| option | estimator |
|---|---|
| ``--unlabelled FILE`` | ``TransductiveClassifier`` |
| ``--measure f1`` | ``MultivariateClassifier`` |
| ``--nu 0.1`` | ``NoveltyDetector`` |
| ``--kernel rbf`` | ``KernelClassifier`` |
| ``--task sequence`` | ``SequenceLabeler`` |
| ``--loss ndcg@10`` | ``Ranker`` |
| ``--loss hinge`` | ``LinearClassifier`` |
| ``--loss squared`` | ``LinearRegressor`` |
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from undercut.cli.report import labels
from undercut.errors import DataError, ParameterError
from undercut.estimators import (
    KernelClassifier,
    LinearClassifier,
    LinearRegressor,
    MultivariateClassifier,
    NoveltyDetector,
    Ranker,
    SequenceLabeler,
    TransductiveClassifier,
)
from undercut.estimators.ranker import RISKS, RISKS_AT, named_risk
from undercut.io.svmlight import load_svmlight
from undercut.types import Array

LOSSES = [*LinearClassifier._losses, *LinearRegressor._losses, *RISKS, *(f"{name}@k" for name in RISKS_AT)]
DEFAULT_LOSS = "hinge"


@dataclass(frozen=True)
class Choice:
    """The options that say what is learned; ``None`` where one was not given."""

    loss: str | None
    measure: str | None
    nu: float | None
    kernel: str | None
    task: str | None
    unlabelled: Path | None
    balance: str | None
    settings: dict[str, Any]  # what every estimator takes
    extras: dict[str, Any]  # what only some take, by their parameters' names

    def estimator(self) -> Any:
        """The estimator, its parameters checked."""
        kind, own = self._kind()
        if self.extras["class_weight"] not in (None, "balanced"):
            raise ParameterError(f"--class-weight must be balanced or absent; got {self.extras['class_weight']!r}")
        takes = kind._get_param_names()
        for name, value in self.extras.items():
            if value is not None and name not in takes:
                raise ParameterError(f"--{OPTIONS[name]} is not for {kind.__name__}: drop it; got {value}")
        if self.balance is not None and kind is not TransductiveClassifier:
            raise ParameterError("--balance needs --unlabelled: drop it")
        if kind is KernelClassifier and "lam" in self.settings:
            raise ParameterError("--lambda is not for --kernel: use --C, which is 1 / (samples * lambda)")
        for name, (other, values) in NEEDS.items():
            if self.extras[name] is not None and {**self.extras, "kernel": self.kernel}[other] not in values:
                raise ParameterError(f"--{OPTIONS[name]} needs --{other} {' or '.join(values)}: drop it")
        given = {name: value for name, value in self.extras.items() if value is not None}
        try:
            model = kind(**own, **self.settings, **given)
            model._validate_params()
        except ValueError as error:
            raise ParameterError(str(error)) from error
        return model

    def _kind(self) -> tuple[Any, dict[str, Any]]:
        """The class, and the parameter that chose it."""
        chosen = {"loss": self.loss, "measure": self.measure, "nu": self.nu, "kernel": self.kernel}
        named = [name for name, value in chosen.items() if value is not None]
        if self.task is not None:
            return SequenceLabeler, self._sequence_loss(named)
        if len(named) > 1:
            raise ParameterError(f"--{named[0]} and --{named[1]} exclude each other: give one of them")
        if self.unlabelled is not None:
            if named and (named != ["loss"] or self.loss != "hinge"):
                raise ParameterError(f"--unlabelled goes with the hinge loss; got --{named[0]} {chosen[named[0]]}")
            return TransductiveClassifier, {"balance": self._balance()}
        if self.measure is not None:
            return MultivariateClassifier, {"measure": self.measure}
        if self.nu is not None:
            return NoveltyDetector, {"nu": self.nu}
        if self.kernel is not None:
            return KernelClassifier, {"kernel": self.kernel}
        return self._by_loss(self.loss or DEFAULT_LOSS)

    def _sequence_loss(self, named: list[str]) -> dict[str, Any]:
        if self.task != "sequence":
            raise ParameterError(f"--task must be sequence or absent; got {self.task!r}")
        for name in [*(name for name in named if name != "loss"), *(["unlabelled"] if self.unlabelled else [])]:
            raise ParameterError(f"--{name} is not for --task sequence: drop it")
        if self.loss not in (None, *SequenceLabeler._losses):
            raise ParameterError(f"--loss must be m3n or crf with --task sequence; got {self.loss!r}")
        return {} if self.loss is None else {"loss": self.loss}

    def _balance(self) -> str | float | None:
        """What ``--balance`` says; without an intercept there is nothing to balance."""
        if self.balance is None:
            return None if self.extras["fit_intercept"] is False else "labelled"
        if self.balance in ("labelled", "none"):
            return None if self.balance == "none" else self.balance
        try:
            return float(self.balance)
        except ValueError:
            raise ParameterError(f"--balance must be labelled, none, or a number; got {self.balance!r}") from None

    @staticmethod
    def _by_loss(loss: str) -> tuple[Any, dict[str, Any]]:
        for kind in (LinearClassifier, LinearRegressor):
            if loss in kind._losses:
                return kind, {"loss": loss}
        with suppress(ParameterError):
            named_risk(loss)
            return Ranker, {"loss": loss}
        raise ParameterError(f"--loss must be one of {', '.join(LOSSES)}; got {loss!r}")


OPTIONS = {  # by the parameter they set
    "fit_intercept": "no-intercept",
    "class_weight": "class-weight",
    "penalty": "penalty",
    "l1_ratio": "l1-ratio",
    "multi_class": "multi-class",
    "gamma": "gamma",
    "C": "C",
    "degree": "degree",
    "coef0": "coef0",
    "device": "device",
    "pairs": "pairs",
}


NEEDS = {  # options that only some values of another give a meaning
    "degree": ("kernel", ("poly",)),
    "coef0": ("kernel", ("poly", "sigmoid")),
    "l1_ratio": ("penalty", ("elasticnet",)),
}


def number_or_word(text: str | None) -> float | str | None:
    """What an option says that takes both."""
    with suppress(TypeError, ValueError):
        return float(text)  # type: ignore[arg-type]
    return text


def fit(model: Any, X: sp.csr_matrix, y: Array, qid: Array | None, unlabelled: Path | None) -> None:
    """Fit a model to the contents of its files."""
    if isinstance(model, TransductiveClassifier):
        _fit_transductive(model, X, labels(y), unlabelled)
    elif isinstance(model, Ranker):
        model.fit(X, y, qid=required_queries(qid))
    elif isinstance(model, NoveltyDetector):
        model.fit(X)
    else:
        model.fit(X, y if isinstance(model, LinearRegressor) else labels(y))


def required_queries(qid: Array | None) -> Array:
    """The queries of a file for ranking."""
    if qid is None:
        raise DataError("a ranking needs queries: write qid:1 behind the target of each row; the file has no qid")
    return qid


def _fit_transductive(model: TransductiveClassifier, X: sp.csr_matrix, y: Array, unlabelled: Any) -> None:
    """Fit with the samples of another file below those that have labels; -1 is a label like any other here."""
    more, _, _ = load_svmlight(unlabelled, n_features=X.shape[1])
    classes, codes = np.unique(y, return_inverse=True)
    target = np.concatenate([codes, np.full(more.shape[0], -1)])
    if hasattr(model, "classes_"):  # a start, in the labels of the file
        model.classes_ = np.arange(classes.size) if np.array_equal(model.classes_, classes) else model.classes_
    try:
        model.fit(sp.vstack([X, more], format="csr"), target)
    finally:  # a fit that Ctrl-C ended is kept too
        if hasattr(model, "transduction_"):
            model.classes_, model.transduction_ = classes[model.classes_], classes[model.transduction_]
