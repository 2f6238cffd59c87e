"""``undercut train --unlabelled``: labelled samples from one file, unlabelled ones from another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from undercut.arrays import Array
from undercut.cli.report import validated
from undercut.data import load_svmlight
from undercut.errors import ParameterError
from undercut.estimators import TransductiveClassifier


def transductive(
    settings: dict[str, Any], class_weight: str | None, gamma: float | None, balance: str | None
) -> TransductiveClassifier:
    """The estimator that the options describe."""
    if settings["loss"] != "hinge":
        raise ParameterError(f"--unlabelled goes with the hinge loss; got --loss {settings['loss']}")
    if class_weight not in (None, "balanced"):
        raise ParameterError(f"--class-weight must be balanced or absent; got {class_weight!r}")
    known = {name: value for name, value in settings.items() if name != "loss"}
    intercept = settings["fit_intercept"]
    model = TransductiveClassifier(
        gamma=1.0 if gamma is None else gamma, class_weight=class_weight, balance=_balance(balance, intercept), **known
    )
    return validated(model)


def _balance(given: str | None, intercept: bool) -> str | float | None:
    if given is None:
        return "labelled" if intercept else None
    if given in ("labelled", "none"):
        return None if given == "none" else given
    try:
        return float(given)
    except ValueError:
        raise ParameterError(f"--balance must be labelled, none, or a number; got {given!r}") from None


def stacked(X: sp.csr_matrix, unlabelled: Path) -> sp.csr_matrix:
    """The samples of another file below those there are."""
    more, _, _ = load_svmlight(unlabelled, n_features=X.shape[1])
    return sp.vstack([X, more], format="csr")


def fit_transductive(model: TransductiveClassifier, X: sp.csr_matrix, y: Array) -> None:
    """Fit with the first samples labelled; -1 is a label like any other here."""
    classes, codes = np.unique(y, return_inverse=True)
    target = np.full(X.shape[0], -1)
    target[: y.size] = codes
    if hasattr(model, "classes_"):  # a start, in the labels of the file
        model.classes_ = np.arange(classes.size) if np.array_equal(model.classes_, classes) else model.classes_
    model.fit(X, target)
    model.classes_, model.transduction_ = classes[model.classes_], classes[model.transduction_]
