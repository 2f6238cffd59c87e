"""A risk that is a weighted mean of risks, in this process or on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from typing_extensions import override

from undercut.contracts import (
    BatchedRisk,
    CurvedRisk,
    Cut,
    HessianOperator,
    Line,
    LineRisk,
    Risk,
    RowDesign,
    SmoothRisk,
)
from undercut.errors import CapabilityError, DataError, require
from undercut.kinds import Kinded
from undercut.maps.parts import LocalParts, Parts, added
from undercut.risks.checks import normalized_weights
from undercut.risks.combined import questions
from undercut.risks.combined.shard import Bent, Facts, Shard, facts, made_shard
from undercut.risks.combined.sharded_line import Asked, ShardedLine, new_key
from undercut.risks.scores.linear import LinearRisk
from undercut.types import FloatArray

T = TypeVar("T")


class ShardedRisk(Kinded, Risk):
    """``R(w) = sum_k weight_k R_k(w)`` with weights that sum to one; shards without weight are left out.

    A step of a solver sends w to the shards, and their values and subgradients come back added up.  It is a
    ``LineRisk``, a ``SmoothRisk`` or a ``CurvedRisk`` where all shards are; with a free intercept that the shards share
    it is ``min_b sum_k weight_k R_k(w, b)``.

    >>> from undercut import FunctionRisk
    >>> shards = [FunctionRisk(lambda w, at=at: (abs(w[0] - at), np.sign(w - at)), n_params=1) for at in (0.0, 1.0)]
    >>> ShardedRisk(shards).value(np.array([3.0]))
    2.5
    """

    def __init__(self, shards: Sequence[Risk], weights: Any = None) -> None:
        if not shards:
            raise DataError("a sharded risk needs at least one shard; got none")
        weights = normalized_weights(weights, len(shards))
        kept = [(shard, weight) for shard, weight in zip(shards, weights, strict=True) if weight > 0.0]
        self.shards = [shard for shard, _ in kept]
        self._set(LocalParts([Shard(*one, number) for number, one in enumerate(kept)]))

    @overload
    @classmethod
    def of(cls, whole: BatchedRisk, how: int) -> ShardedRisk: ...

    @overload
    @classmethod
    def of(
        cls, whole: Parts, how: Callable[..., Risk], *, weigh: Callable[[Risk], float] | None = None
    ) -> ShardedRisk: ...

    @classmethod
    def of(cls, whole: Any, how: Any, *, weigh: Callable[[Risk], float] | None = None) -> ShardedRisk:
        """A risk from its partitions, or a risk in partitions.

        ``of(parts, make)`` calls ``make`` next to every partition of a cluster with its data, as keywords where they
        are a dict and as positions where they are a tuple.  A partition weighs as many samples as it has, or the sum of
        its ``sample_weight``; ``weigh(risk)`` says something else.

        ``of(risk, n_shards)`` puts every n-th sample of a mean over samples into one shard of this process.

        >>> from functools import partial
        >>> from undercut import Hinge, LinearRisk
        >>> len(ShardedRisk.of(LinearRisk(np.eye(4), np.array([1, 1, -1, -1]), Hinge()), 2).shards)
        2
        >>> parts = LocalParts([{"X": np.eye(2), "y": [1, -1]}, {"X": np.eye(2), "y": [1, 1]}])
        >>> ShardedRisk.of(parts, partial(LinearRisk, loss=Hinge())).value(np.array([1.0, 0.0]))
        0.5
        """
        if isinstance(whole, Parts):
            risk = cls.__new__(cls)
            risk._set(whole.made(made_shard, how, weigh, items=range(len(whole))))
            return risk
        shares_intercept = isinstance(whole, LinearRisk) and whole.fit_intercept and isinstance(whole.design, RowDesign)
        if not isinstance(whole, BatchedRisk) and not shares_intercept:
            raise CapabilityError(
                f"shards need a BatchedRisk, a mean over samples, and this {type(whole).__name__} is not one (a free "
                "intercept is shared only by the shards of a linear risk): use fit_intercept=False, and append a "
                "constant feature to X"
            )
        require(1 <= how <= whole.n_samples, f"`n_shards` must be between 1 and {whole.n_samples}", how)
        rows = [np.arange(at, whole.n_samples, how) for at in range(how)]
        take = whole.part if shares_intercept else whole.batch
        return cls([take(each) for each in rows], [each.size for each in rows])

    def _set(self, parts: Parts) -> None:
        self._parts = parts
        known: list[Facts] = parts.each(facts)
        _check_equal(parts, known)
        weights = np.array([one.weight for one in known])
        self.mass = float(weights.sum())
        self.weights = weights / self.mass
        self.n_params, self.n_samples = known[0].n_params, sum(one.n_samples for one in known)
        self.kind, self.loss = known[0].kind, known[0].loss
        self.is_convex = all(one.is_convex for one in known)
        self.lower_bound = float(self.weights @ np.array([one.lower_bound for one in known]))
        self.is_piecewise = all(one.is_piecewise for one in known)
        self.is_sorted = all(one.is_sorted for one in known)
        self.take_kinds(*_kinds(known, self.is_convex))

    @property
    def parts(self) -> Parts:
        """The shards where they are."""
        return self._parts

    def map(self, function: Callable[..., T], *items: Iterable[Any]) -> list[T]:
        """``function(shard, item, ...)`` for every shard and its items, next to the shard."""
        together = list(zip(*items, strict=True)) if items else [()] * len(self._parts)
        return self._parts.each(_applied, function, items=together)

    def asked(self, question: Callable[..., tuple[Any, ...]], *given: Any) -> tuple[Any, ...]:
        """The weighted mean of the answers of all shards."""
        sums = self._parts.total(question, *given, add=added)
        return tuple(part / self.mass if not isinstance(part, list) else part for part in sums)

    def value(self, w: FloatArray) -> float:
        return float(self.asked(questions.value, w)[0])

    def cut(self, w: FloatArray) -> Cut:
        a, b, value = self.asked(questions.plane, w)
        return Cut(a, float(b), float(value))

    def intercept(self, w: FloatArray) -> float:
        """The intercept that belongs to w; 0 where the shards share none."""
        return 0.0


class LineShardedRisk(ShardedRisk, LineRisk):
    """A sharded risk with an exact line search."""

    @override
    def along(self, w: FloatArray, direction: FloatArray) -> Line:
        return ShardedLine.start(self, w, direction)


class SmoothShardedRisk(LineShardedRisk, SmoothRisk):
    """A sharded risk with a Hessian."""

    @override
    def hessian(self, w: FloatArray) -> FloatArray:
        return np.asarray(self.asked(questions.hessian, w)[0])


class CurvedShardedRisk(LineShardedRisk, CurvedRisk):
    """A sharded risk with products with its Hessian."""

    @override
    def curvature(self, w: FloatArray) -> HessianOperator:
        return ShardedHessian(self, w)


class ShardedHessian(HessianOperator):
    """The mean of the shards' Hessians at w, which stay with the shards."""

    def __init__(self, risk: ShardedRisk, w: FloatArray, b: float = 0.0) -> None:
        self._asked = Asked(risk, new_key(), Bent(w.copy(), b), Bent(w.copy(), b))

    @override
    def product(self, v: FloatArray) -> FloatArray:
        return np.asarray(self._asked(questions.product, v)[0])

    @override
    def diagonal(self) -> FloatArray:
        return np.asarray(self._asked(questions.diagonal)[0])


def _applied(shard: Shard, function: Callable[..., T], items: tuple[Any, ...]) -> T:
    return function(shard.risk, *items)


def _check_equal(parts: Parts, known: list[Facts]) -> None:
    """Refuse partitions of another width, or of another kind."""
    for name, one in zip(parts.names, known, strict=True):
        if one.n_params != known[0].n_params:
            raise DataError(
                f"all shards must have the same parameters; {name} has {one.n_params}, and {parts.names[0]} has "
                f"{known[0].n_params}: state the number of features, classes or labels where partitions are loaded"
            )
        if one.is_free != known[0].is_free:
            raise DataError(f"all shards must have a free intercept or none; {name} and {parts.names[0]} differ")


def _kinds(known: list[Facts], is_convex: bool) -> list[type]:
    # Here, because they derive from the class above.
    from undercut.risks.combined.sharded_free import FreeShardedRisk, SmoothFreeShardedRisk

    if known[0].is_free:
        smooth = all(one.has_hessian and one.has_products for one in known)
        return [SmoothFreeShardedRisk if smooth else FreeShardedRisk]
    kinds: list[type] = [LineShardedRisk] if all(one.has_line for one in known) else []
    if is_convex and all(one.has_hessian for one in known):
        kinds.append(SmoothShardedRisk)
    if is_convex and all(one.has_products for one in known):
        kinds.append(CurvedShardedRisk)
    return kinds
