"""``--scheduler`` and ``--workers``: files that workers read, and models that are fitted and applied there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from undercut.cli.models import chosen_model
from undercut.cli.options.given import Given
from undercut.cli.options.table import ROWS, named
from undercut.cli.reports.report import labels
from undercut.cli.standard import note
from undercut.cli.tasks.samples import as_wide_as, begins_with_a_feature, unseen_error, unseen_note
from undercut.errors import DataError
from undercut.estimators import (
    KernelClassifier,
    LinearClassifier,
    LinearRegressor,
    MultivariateClassifier,
    OnlineClassifier,
    OnlineRegressor,
    Ranker,
    RnaFolder,
    SequenceLabeler,
    lam_from_C,
)
from undercut.estimators.cluster.partitions import PartitionedData, cluster_class
from undercut.estimators.targets import class_factors
from undercut.io.frames import is_table
from undercut.io.several import matching
from undercut.io.svmlight import SvmlightData
from undercut.types import Array

FITTED_THERE = (  # to rows of numbers, to sequences or to RNA
    LinearClassifier, LinearRegressor, Ranker, MultivariateClassifier, KernelClassifier, OnlineClassifier,
    OnlineRegressor, SequenceLabeler, RnaFolder,
)  # fmt: skip


class OnCluster(NamedTuple):
    """Where the workers are: the address of a scheduler, or how many processes of this machine."""

    where: str | int

    @classmethod
    def of(cls, given: Given) -> OnCluster | None:
        """What ``--scheduler`` and ``--workers`` say."""
        for name in ("scheduler", "workers"):
            if name in given:
                return cls(given[name])
        return None

    @contextmanager
    def connected(self) -> Iterator[None]:
        """With the workers; those of this machine end with the block."""
        with cluster_class()(self.where) as cluster:
            dashboard = f", dashboard at {cluster.dashboard}" if cluster.dashboard else ""
            note(f"{cluster.n_workers} workers{dashboard}")
            yield


def partitions_to_fit(model: Any, file: Path, given: Given) -> PartitionedData:
    """The files to fit a model to, which gets its lambda from ``--C``."""
    _check_rows(file)
    given.check_file(ROWS)
    by_query = isinstance(model, Ranker)
    data = PartitionedData.of_files(str(file), n_features=given["n_features"], whole_files=by_query)
    if "C" in given and not isinstance(model, KernelClassifier):
        model.lam = lam_from_C(given["C"], _summed_weight(model, data))
    return data


def check_there(given: Given) -> None:
    """Refuse a model that workers cannot fit, before any of them is started."""
    kind = chosen_model(given).kind(given["loss"])
    if not issubclass(kind, FITTED_THERE):
        option = named("scheduler" if "scheduler" in given else "workers")
        raise option.refusal(f"is not for a {kind.__name__}", given[option.name])


def _check_rows(file: Path) -> None:
    for name in matching(str(file)):
        if is_table(Path(name)):
            raise DataError(f"workers read {ROWS}; got the table {name}: convert it, or train without a cluster")


def _summed_weight(model: Any, data: PartitionedData) -> float:
    """The total weight of the losses that C multiplies."""
    if isinstance(model, MultivariateClassifier):
        return 1.0
    if isinstance(model, Ranker):
        return float(data.n_queries())
    if not isinstance(getattr(model, "class_weight", None), dict):
        return float(data.n_samples)
    classes, counts = data.classes()
    factors = class_factors(model.class_weight, labels(classes), counts)
    assert factors is not None
    return float(factors @ counts)


def fit_partitions(model: Any, data: PartitionedData) -> None:
    """Fit a model; its classes are whole numbers where the labels of the files are."""
    try:
        model.fit(data)
    finally:
        if hasattr(model, "classes_"):
            model.classes_ = labels(model.classes_)


def predicted(
    model: Any, file: Path, values: Callable[[Any, Any], tuple[str, Any]], *, strict: bool
) -> Iterator[tuple[str, Array]]:
    """The header and the values of the rows of one partition after the other, computed where they are."""
    data = partitions_like(model, file, strict=strict, labelled=False)
    yield from data.parts.each(_values_of, model, values)


def _values_of(block: dict[str, Any], model: Any, values: Callable[[Any, Any], tuple[str, Any]]) -> tuple[str, Array]:
    header, found = values(model, block["X"])
    return header, np.asarray(found)


def scored(model: Any, file: Path, *, strict: bool) -> tuple[Any, SvmlightData]:
    """The scores of all rows as the only features, 8 bytes each, and the model of them that predicts the same."""
    data = partitions_like(model, file, strict=strict, labelled=True)
    small = copy(model)
    if isinstance(model, KernelClassifier):
        S = np.concatenate(data.parts.each(_kernel_scores, model))
        vars(small)["_scores"] = np.asarray
    else:
        coef = np.atleast_2d(model.coef_)
        S = np.concatenate(data.parts.each(_products, coef))
        small.coef_ = np.eye(coef.shape[0]) if np.ndim(model.coef_) > 1 else np.ones(1)
    small.n_features_in_ = S.shape[1]
    vars(small).pop("feature_names_in_", None)
    return small, SvmlightData(S, data.gathered("y"), data.gathered("qid") if "qid" in data.fields else None)


def _kernel_scores(block: dict[str, Any], model: KernelClassifier) -> Array:
    return model._scores(block["X"])


def _products(block: dict[str, Any], coef: Array) -> Array:
    return np.asarray(block["X"] @ coef.T)


def partitions_like(model: Any, file: Path, *, strict: bool, labelled: bool) -> PartitionedData:
    """The rows of files with the features of a model; those that it never saw are left out with a note, or refused."""
    _check_rows(file)
    first = Path(matching(str(file))[0])
    has_labels = labelled or not begins_with_a_feature(first)
    data = PartitionedData.of_files(str(file), whole_files=isinstance(model, Ranker), labelled=has_labels)
    n_features = model.n_features_in_
    new = np.unique(np.concatenate(data.parts.each(_unseen, n_features))).size
    if new and strict:
        raise unseen_error(file, new, n_features)
    if new:
        note(unseen_note(file, new, n_features))
    return data.with_parts(data.parts.made(partial(_fitting, n_features=n_features)), n_features)


def _unseen(block: dict[str, Any], n_features: int) -> Array:
    indices = block["X"].indices
    return np.unique(indices[indices >= n_features])


def _fitting(block: dict[str, Any], n_features: int) -> dict[str, Any]:
    return block | {"X": as_wide_as(block["X"], n_features)}
