"""Examples of a structured model in partitions of Dask bags: inputs, their labelings, and weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from undercut.contracts import Risk
from undercut.errors import DataError
from undercut.estimators.cluster.lazy import checked_bags
from undercut.estimators.cluster.partitions import filled, running_cluster
from undercut.maps.parts import Parts, added
from undercut.risks import ShardedRisk

Examples = dict[str, Any]  # X and Y, and sample_weight where weights are given


def examples_there(X: Any, y: Any, sample_weight: Any = None) -> Parts:
    """The examples of bags, those of a partition on one worker."""
    if y is None:
        raise DataError("y must be a Dask bag with a labeling for every element of X; got none")
    given = {"X": X, "y": y, "sample_weight": sample_weight}
    bags = checked_bags({name: value for name, value in given.items() if value is not None})
    return filled(running_cluster().collected(_examples, *bags))


def sharded_risk(parts: Parts, make: Callable[..., Risk], **settings: Any) -> ShardedRisk:
    """The mean loss of all examples."""
    return ShardedRisk.of(parts, partial(make, **settings))


def mean_score(parts: Parts, estimator: Any) -> float:
    """The mean over all examples of what an estimator scores on those of each partition."""
    total, n = parts.total(_scored, estimator, add=added)
    return float(total / n)


def _examples(X: list[Any], y: list[Any], sample_weight: list[Any] | None = None) -> Examples | None:
    given = {"X": X, "Y": y} | ({} if sample_weight is None else {"sample_weight": np.array(sample_weight, float)})
    sizes = {len(values) for values in given.values()}
    if len(sizes) > 1:
        raise DataError(f"X and what is given beside it must have as many elements; got {sorted(sizes)}")
    return given if X else None


def _scored(examples: Examples, estimator: Any) -> tuple[float, int]:
    n = len(examples["X"])
    return n * estimator.score(examples["X"], examples["Y"]), n
