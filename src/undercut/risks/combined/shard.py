"""One partition's share of a risk, next to its data, and the questions that it answers.

Every answer is multiplied by the weight of the shard, so that answers of all shards add up to that of the whole risk.
Lines stay with their shard between questions.  They are a cache: a shard that was moved or loaded again does not have
them, says so (``Answer.lost``) and is asked again together with w.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from undercut.contracts import CurvedRisk, HessianOperator, Line, LineRisk, Risk, SmoothRisk, SortedScores
from undercut.errors import CapabilityError
from undercut.kinds import named_class
from undercut.maps.parts import added
from undercut.risks.measures.multivariate import MultivariateRisk
from undercut.risks.ranking.ordinal import OrdinalRisk
from undercut.risks.scores.classes.multiclass import MulticlassRisk
from undercut.risks.scores.composite_quantile import CompositeQuantileRisk
from undercut.risks.scores.hessians import LinearHessian
from undercut.risks.scores.linear import LinearRisk
from undercut.risks.scores.mean_loss import FixedPiecewise
from undercut.risks.scores.novelty import NoveltyRisk
from undercut.risks.scores.smooth_mean import SmoothMean
from undercut.risks.scores.transductive import TransductiveRisk
from undercut.types import FloatArray

NO_SUMS = (MultivariateRisk, OrdinalRisk, NoveltyRisk, CompositeQuantileRisk, TransductiveRisk)
KEPT = 6  # lines and Hessians per shard: the present ones, those before, and as many of another solver


class Start(NamedTuple):
    """A line from w; its direction is zero where it is only a point."""

    w: FloatArray
    direction: FloatArray | None


class Turn(NamedTuple):
    """The line from ``t`` on an earlier one along a new direction."""

    line: str
    t: float
    direction: FloatArray


class Bent(NamedTuple):
    """The second derivatives at w, and at the intercept b where it is free."""

    w: FloatArray
    b: float


How: TypeAlias = Start | Turn | Bent


class Facts(NamedTuple):
    """What the client must know of a shard."""

    n_params: int
    weight: float
    n_samples: int
    lower_bound: float
    is_convex: bool
    kind: type
    loss: Any
    has_line: bool
    has_hessian: bool
    has_products: bool
    is_piecewise: bool
    is_sorted: bool
    is_free: bool  # with an intercept that all shards share


class Answer(NamedTuple):
    """A sum over shards, and the numbers of those that have lost their line and are missing in it."""

    sums: tuple[Any, ...] | None
    lost: tuple[int, ...] = ()


def joined(one: Answer, other: Answer) -> Answer:
    """The sum of two answers."""
    lost = one.lost + other.lost
    if one.sums is None or other.sums is None:
        return Answer(one.sums or other.sums, lost)
    return Answer(added(one.sums, other.sums), lost)


class Path(NamedTuple):
    """A line of a shard, with its direction."""

    line: Line
    direction: FloatArray


class Shard:
    """A risk over the data of one partition, with its weight among all."""

    def __init__(self, risk: Risk, weight: float, number: int) -> None:
        self.risk, self.weight, self.number = _without_intercept(risk), weight, number
        self.is_free = self.risk is not risk
        self._kept: OrderedDict[str, Any] = OrderedDict()
        self.kinks: tuple[Any, Any] | None = None  # of the last search, by what was searched

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_kept": OrderedDict(), "kinks": None}

    def recalled(self, key: str, how: How | None) -> Any:
        """The line or Hessian of this key, made if ``how`` says enough; else ``None``."""
        if key not in self._kept:
            made = self._made(how)
            if made is None:
                return None
            self._kept[key] = made
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _made(self, how: How | None) -> Any:
        risk: Any = self.risk
        if isinstance(how, Start):
            direction = np.zeros_like(how.w) if how.direction is None else how.direction
            return Path(risk.along(how.w, direction), direction)
        if isinstance(how, Bent):
            return self._bent(how)
        if how is None or how.line not in self._kept:
            return None
        return Path(self._kept[how.line].line.turn(how.t, how.direction), how.direction)

    def _bent(self, how: Bent) -> HessianOperator:
        risk: Any = self.risk
        if not self.is_free:
            return risk.curvature(how.w)  # type: ignore[no-any-return]
        return LinearHessian(risk.design, risk.phi.bend(risk.design.matvec(how.w) + how.b))


def made_shard(data: Any, make: Callable[..., Risk], weigh: Callable[[Risk], float] | None, number: int) -> Shard:
    """The shard of a partition: ``make`` is called with the data, by name where they are a mapping."""
    named = isinstance(data, Mapping)
    risk = make(**data) if named else make(*data) if isinstance(data, tuple) else make(data)
    if isinstance(risk, NO_SUMS):
        raise CapabilityError(
            f"a {type(risk).__name__} depends on all samples at once, so it is not a sum over partitions: give it a "
            "ShardedDesign as X, which gathers the scores, 8 bytes a row"
        )
    if weigh is not None:
        return Shard(risk, float(weigh(risk)), number)
    return Shard(risk, _mass(risk, data.get("sample_weight") if named else None), number)


def _mass(risk: Any, sample_weight: Any) -> float:
    """The weight of a partition: of its queries or samples."""
    if sample_weight is not None and not hasattr(risk, "mass"):
        return float(np.sum(sample_weight))
    for name in ("mass", "n_samples"):
        if hasattr(risk, name):
            return float(getattr(risk, name))
    raise CapabilityError(
        f"the weight of a partition is its number of samples, and this {type(risk).__name__} has no `n_samples`: "
        "give it one, or pass `weigh`"
    )


def _without_intercept(risk: Risk) -> Risk:
    """The same risk with a fixed intercept, where it has a free one: that depends on all shards."""
    if not getattr(risk, "fit_intercept", False):
        return risk
    if isinstance(risk, LinearRisk) and risk.is_convex and isinstance(risk.phi, SmoothMean | FixedPiecewise):
        fixed = LinearRisk.__new__(LinearRisk)
        fixed._set(risk.design, risk.y, risk.loss, risk.weight, False)
        return fixed
    what = "several classes" if isinstance(risk, MulticlassRisk) else f"a {type(risk).__name__} of this loss"
    raise CapabilityError(
        f"free intercepts of {what} need all scores at once: give the risk a ShardedDesign as X, which gathers them, "
        "8 bytes a score, or use fit_intercept=False and a constant feature"
    )


def facts(shard: Shard) -> Facts:
    """What the client must know."""
    risk: Any = shard.risk
    phi = getattr(risk, "phi", None)
    return Facts(
        n_params=risk.n_params,
        weight=shard.weight,
        n_samples=int(getattr(risk, "n_samples", 0)),
        lower_bound=risk.lower_bound,
        is_convex=risk.is_convex,
        kind=named_class(risk),
        loss=getattr(risk, "loss", None),
        has_line=isinstance(risk, LineRisk),
        has_hessian=isinstance(risk, SmoothRisk),
        has_products=isinstance(risk, CurvedRisk),
        is_piecewise=isinstance(phi, FixedPiecewise),
        is_sorted=isinstance(phi, SortedScores),
        is_free=shard.is_free,
    )
