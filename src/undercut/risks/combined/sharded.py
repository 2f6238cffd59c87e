"""A risk that is a weighted mean of risks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from undercut.contracts import BatchedRisk, Cut, Risk, RowDesign
from undercut.errors import CapabilityError, DataError, require
from undercut.maps.parts import LocalParts, Parts
from undercut.risks.checks import normalized_weights
from undercut.risks.scores.linear import LinearRisk
from undercut.types import Array, FloatArray

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
        self.parts: Parts = LocalParts(self.shards)
        self.n_params = self.shards[0].n_params
        self.is_convex = all(shard.is_convex for shard in self.shards)
        self.lower_bound = float(self.weights @ np.array([shard.lower_bound for shard in self.shards]))

    @classmethod
    def of(cls, risk: Risk, n_shards: int) -> ShardedRisk:
        """Every n-th sample of a mean over samples in one shard.

        >>> from undercut import Hinge, LinearRisk
        >>> len(ShardedRisk.of(LinearRisk(np.eye(4), np.array([1, 1, -1, -1]), Hinge()), 2).shards)
        2
        """
        if isinstance(risk, LinearRisk) and risk.fit_intercept and isinstance(risk.design, RowDesign):
            return SharedIntercept.of(risk, n_shards)
        if not isinstance(risk, BatchedRisk):
            raise CapabilityError(
                f"shards need a BatchedRisk, a mean over samples, and this {type(risk).__name__} is not one (a free "
                "intercept is shared only by the shards of a LinearRisk with X in memory): use fit_intercept=False, "
                "and append a constant feature to X"
            )
        rows = _dealt(risk.n_samples, n_shards)
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


class SharedIntercept(ShardedRisk):
    """``R(w) = min_b sum_k weight_k R_k(w, b)``: shards of a linear risk that share its free intercept.

    The shards are risks without an intercept; ``risks.scores.bias`` says how one asks them about theirs.
    """

    def __init__(self, whole: LinearRisk, shards: Sequence[LinearRisk], weights: Any) -> None:
        super().__init__(shards, weights)
        self.whole = whole

    @classmethod
    def of(cls, risk: Risk, n_shards: int) -> SharedIntercept:
        """Every n-th sample in one shard."""
        assert isinstance(risk, LinearRisk)
        rows = _dealt(risk.n_samples, n_shards)
        return cls(risk, [risk.part(each) for each in rows], [each.size for each in rows])

    def value(self, w: FloatArray) -> float:
        return self.whole.value(w)

    def cut(self, w: FloatArray) -> Cut:
        return self.whole.cut(w)

    def intercept(self, w: FloatArray) -> float:
        """The best intercept of all samples."""
        return self.whole.intercept(w)


def _dealt(n_samples: int, n_shards: int) -> list[Array]:
    """The rows of each shard."""
    require(1 <= n_shards <= n_samples, f"`n_shards` must be between 1 and {n_samples}", n_shards)
    return [np.arange(at, n_samples, n_shards) for at in range(n_shards)]
