"""Model files: a JSON header and raw arrays (the safetensors format), so that loading one never runs code from it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from undercut.errors import ModelFileError
from undercut.estimators.kernel_classifier import KernelClassifier
from undercut.estimators.linear_classifier import ClassifierBase, LinearClassifier
from undercut.estimators.linear_model import LinearModel
from undercut.estimators.linear_regressor import LinearRegressor
from undercut.estimators.multivariate_classifier import MultivariateClassifier
from undercut.estimators.novelty_detector import NoveltyDetector
from undercut.estimators.online_classifier import OnlineClassifier
from undercut.estimators.online_model import OnlineModel
from undercut.estimators.online_regressor import OnlineRegressor
from undercut.estimators.ranker import Ranker
from undercut.estimators.sequence_labeler import SequenceLabeler
from undercut.estimators.transductive_classifier import TransductiveClassifier
from undercut.trace import BOUND_NAMES
from undercut.types import Array, FloatArray

VERSION = 1
ESTIMATORS: dict[str, type[LinearModel]] = {
    kind.__name__: kind
    for kind in (
        KernelClassifier,
        LinearClassifier,
        LinearRegressor,
        MultivariateClassifier,
        NoveltyDetector,
        OnlineClassifier,
        OnlineRegressor,
        Ranker,
        SequenceLabeler,
        TransductiveClassifier,
    )
}
DAMAGE = (
    SafetensorError, AttributeError, LookupError, TypeError, ValueError, OverflowError, MemoryError, RecursionError,
)  # fmt: skip
CERTIFICATE = ("objective_", "lower_bound_", "gap_", "n_iter_")


def save_model(model: LinearModel, path: str | Path) -> None:
    """Write a fitted estimator; an older file at ``path`` is replaced only once the new one is complete.

    >>> import tempfile
    >>> X, y = np.eye(2), np.array([0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(LinearClassifier().fit(X, y), f"{folder}/model.uc")
    ...     load_model(f"{folder}/model.uc").predict(X)
    array([0, 1])
    """
    arrays = model.to_arrays()
    header: dict[str, Any] = model._saved() | {
        "version": VERSION,
        "estimator": type(model).__name__,
        "params": _plain_params(model),
        "certificate": _certificate(model),
    }
    if isinstance(model, OnlineModel) and hasattr(model, "_games"):
        if not isinstance(model.solver, str) or isinstance(getattr(model, "class_weight", None), dict):
            raise ModelFileError(
                "a stream with a solver object or a class_weight dict cannot be saved, as it would go on otherwise: "
                "name the solver, and multiply the class weights into sample_weight"
            )
        header["stream"], games = model.pause()
        arrays |= games
    if isinstance(model, ClassifierBase):
        header["classes"] = model.classes_.tolist()
    if hasattr(model, "feature_names_in_"):
        header["feature_names"] = model.feature_names_in_.tolist()
    partial = f"{path}.partial"
    try:
        save_file(arrays, partial, metadata={"undercut": json.dumps(header)})
        os.replace(partial, path)
    except SafetensorError as error:
        raise OSError(f"cannot write the model to {path}: {error}") from error


def load_model(path: str | Path) -> Any:
    """Read an estimator that ``save_model`` wrote; ``ModelFileError`` for anything else."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"no such model file: {path}")
    try:
        with safe_open(str(path), framework="numpy") as file:
            header = json.loads((file.metadata() or {})["undercut"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (no mapping)
        if header["version"] != VERSION:
            raise ValueError(f"format version {header['version']!r} is unknown; this undercut reads {VERSION}")
        return _rebuild(header, arrays)
    except DAMAGE as error:
        raise ModelFileError(f"{path} is not a model file of undercut, or is damaged: {error}") from error


def _certificate(model: LinearModel) -> dict[str, Any]:
    """The numbers, and what they are worth; nothing of a model that learned from a stream."""
    numbers: dict[str, Any] = {name: float(getattr(model, name)) for name in CERTIFICATE if hasattr(model, name)}
    return numbers | {"kind": model.certificate_} if hasattr(model, "certificate_") else numbers


def _plain_params(model: LinearModel) -> dict[str, Any]:
    """The parameters that JSON can say; a solver object becomes the default again."""
    known = {name: value for name, value in model.get_params(deep=False).items() if name not in model._saved()}
    if isinstance(known.get("class_weight"), dict):
        del known["class_weight"]
    plain = (str, bool, int, float, type(None))
    values = {name: value.item() if isinstance(value, np.generic) else value for name, value in known.items()}
    return {name: value for name, value in values.items() if isinstance(value, plain)}


def _rebuild(header: dict[str, Any], arrays: dict[str, Array]) -> LinearModel:
    kind = ESTIMATORS[header["estimator"]]
    model = kind(**kind._restored(header), **header["params"])
    model._validate_params()
    coef = np.atleast_2d(np.asarray(arrays["coef"], dtype=np.float64))
    intercept = np.asarray(arrays["intercept"], dtype=np.float64)
    if coef.ndim != 2 or coef.shape[0] == 0 or intercept.shape != (coef.shape[0],):
        raise ValueError(f"coef of shape {coef.shape} and intercept of shape {intercept.shape} do not fit")
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise ValueError("the coefficients are not finite")
    _set_fitted(model, header, coef, intercept)
    model.restore(header, arrays)
    if "stream" in header:
        if not isinstance(model, OnlineModel):
            raise ValueError(f"a {type(model).__name__} has no stream")
        model.resume(header["stream"], arrays)
    return model


def _set_fitted(model: LinearModel, header: dict[str, Any], coef: FloatArray, intercept: FloatArray) -> None:
    if isinstance(model, ClassifierBase):
        model.classes_ = np.array(header["classes"])
        distinct = len(set(model.classes_.tolist())) == model.classes_.size
        if model.classes_.ndim != 1 or not distinct or coef.shape[0] != len(model._positives(model.classes_.size)):
            raise ValueError(f"{coef.shape[0]} rows of coefficients do not fit the classes {header['classes']}")
        model.coef_, model.intercept_ = coef, intercept
    elif isinstance(model, SequenceLabeler):
        model.coef_, model.intercept_ = coef, intercept
    else:
        model.coef_, model.intercept_ = coef.ravel(), float(intercept[0])
    model.n_features_in_ = coef.shape[1]
    if "feature_names" in header:
        model.feature_names_in_ = np.array(header["feature_names"], dtype=object)
        if not isinstance(model, KernelClassifier) and model.feature_names_in_.shape != (coef.shape[1],):
            raise ValueError(f"{model.feature_names_in_.size} names do not fit {coef.shape[1]} features")
    if "stream" not in header:
        for name in CERTIFICATE:
            setattr(model, name, float(header["certificate"][name]))
        if header["certificate"]["kind"] not in BOUND_NAMES:
            raise ValueError(f"the certificate {header['certificate']['kind']!r} is unknown")
        model.certificate_ = header["certificate"]["kind"]
        model.n_iter_ = int(model.n_iter_)
