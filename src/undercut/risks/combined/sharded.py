"""A risk that is a weighted mean of risks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from undercut.contracts import BatchedRisk, Cut, Risk
from undercut.errors import CapabilityError, DataError, require
from undercut.risks.checks import normalized_weights
from undercut.types import FloatArray

T = TypeVar("T")


class ShardedRisk(Risk):
    """``R(w) = sum_k weight_k R_k(w)`` with weights that sum to one; shards without weight are left out.

    All calls to the shards go through ``map``: a subclass may send them to other processes or machines.

    >>> from undercut import FunctionRisk
    >>> shards = [FunctionRisk(lambda w, at=at: (abs(w[0] - at), np.sign(w - at)), n_params=1) for at in (0.0, 1.0)]
    >>> ShardedRisk(shards).value(np.array([3.0]))
    2.5
    """

    def __init__(self, shards: Sequence[Risk], weights: Any = None) -> None:
        if not shards:
            raise DataError("a sharded risk needs at least one shard; got none")
        sizes = {shard.n_params for shard in shards}
        if len(sizes) > 1:
            raise DataError(f"all shards must have the same parameters; got lengths {sorted(sizes)}")
        weights = normalized_weights(weights, len(shards))
        self.shards = [shard for shard, weight in zip(shards, weights, strict=True) if weight > 0.0]
        self.weights = weights[weights > 0.0]
        self.n_params = self.shards[0].n_params
        self.is_convex = all(shard.is_convex for shard in self.shards)
        self.lower_bound = float(self.weights @ np.array([shard.lower_bound for shard in self.shards]))

    @classmethod
    def of(cls, risk: BatchedRisk, n_shards: int) -> ShardedRisk:
        """Every n-th sample of a mean over samples in one shard.

        >>> from undercut import Hinge, LinearRisk
        >>> len(ShardedRisk.of(LinearRisk(np.eye(4), np.array([1, 1, -1, -1]), Hinge()), 2).shards)
        2
        """
        if not isinstance(risk, BatchedRisk):
            raise CapabilityError(
                f"shards need a BatchedRisk, a mean over samples, and this {type(risk).__name__} is not one (a free "
                "intercept depends on all samples): use fit_intercept=False, and append a constant feature to X"
            )
        require(1 <= n_shards <= risk.n_samples, f"`n_shards` must be between 1 and {risk.n_samples}", n_shards)
        rows = [np.arange(at, risk.n_samples, n_shards) for at in range(n_shards)]
        return cls([risk.batch(each) for each in rows], [each.size for each in rows])

    def map(self, function: Callable[..., T], *items: Iterable[Any]) -> list[T]:
        """``function(shard, item, ...)`` for every shard and its items."""
        return [function(*each) for each in zip(self.shards, *items, strict=True)]

    def value(self, w: FloatArray) -> float:
        return float(self.weights @ np.array(self.map(lambda shard: shard.value(w))))

    def cut(self, w: FloatArray) -> Cut:
        cuts = self.map(lambda shard: shard.cut(w))
        a = sum(weight * cut.a for weight, cut in zip(self.weights, cuts, strict=True))
        b, value = (float(self.weights @ np.array([getattr(cut, name) for cut in cuts])) for name in ("b", "value"))
        return Cut(np.asarray(a), b, value)
