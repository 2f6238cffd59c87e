"""Predictions for Dask's collections: collections too, computed on the workers when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from undercut.errors import DataError
from undercut.estimators.cluster.partitions import is_collection

F = TypeVar("F", bound=Callable[..., Any])


def lazily(method: F) -> F:
    """Let a method of X alone, which answers with one row per row of X, take Dask collections too."""

    @wraps(method)
    def answer(self: Any, X: Any) -> Any:
        return _mapped(method, self, X) if is_collection(X) else method(self, X)

    return answer  # type: ignore[return-value]


def _mapped(method: Callable[..., Any], model: Any, X: Any) -> Any:
    """The answers for the blocks of X, of which none is computed now."""
    if X.shape[1] != model.n_features_in_:
        raise DataError(f"X has {X.shape[1]} features, and {type(model).__name__} expects {model.n_features_in_}")
    like = np.asarray(method(model, _one_row(X)))
    if hasattr(X, "columns"):
        answers = X.map_partitions(_framed, method, model, meta=_frame(X._meta, like[:0])).to_dask_array()
        return answers[:, 0] if like.ndim == 1 else answers
    if X.numblocks[1] != 1:
        X = X.rechunk({1: -1})
    axes = {"drop_axis": 1} if like.ndim == 1 else {"chunks": (X.chunks[0], (like.shape[1],))}
    return X.map_blocks(_answer, method=method, model=model, dtype=like.dtype, meta=like[:0], **axes)


def _one_row(X: Any) -> Any:
    """A row of zeros, with names where the columns have them: what the answer to it is like."""
    zeros = np.zeros((1, X.shape[1]))
    return type(X._meta)(zeros, columns=list(X.columns)) if hasattr(X, "columns") else zeros


def _answer(block: Any, *, method: Callable[..., Any], model: Any) -> Any:
    return method(model, block)


def _framed(block: Any, method: Callable[..., Any], model: Any) -> Any:
    return _frame(block, np.asarray(method(model, block)))


def _frame(block: Any, values: Any) -> Any:
    """A dataframe of the kind of the block."""
    return type(block)(values)


def mapped_bag(model: Any, name: str, X: Any) -> Any:
    """The answers of a method for the elements of a bag, of which none is computed now."""
    (bag,) = checked_bags({"X": X})
    return bag.map_partitions(_answers, name, model)


def _answers(elements: list[Any], name: str, model: Any) -> list[Any]:
    return list(getattr(model, name)(elements)) if elements else []


def checked_bags(given: dict[str, Any]) -> list[Any]:
    """Dask bags whose partitions are lists, by the names of the arguments; ``DataError`` for anything else."""
    for name, value in given.items():
        if not hasattr(value, "map_partitions") or hasattr(value, "ndim"):
            raise DataError(
                f"{name} must be a Dask bag, with as many partitions as X has; got {type(value).__name__}: use "
                f"dask.bag.from_sequence({name}, npartitions=...)"
            )
    return [value.map_partitions(list) for value in given.values()]
