"""What a shard can be asked: every answer is a tuple, times the shard's weight, that is added to the others'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from undercut.contracts import Cut, HessianOperator
from undercut.risks.combined.shard import Answer, How, Path, Shard
from undercut.risks.scores.score_risk import ScoreLine
from undercut.scalar import Point
from undercut.types import FloatArray


def value(shard: Shard, w: FloatArray) -> tuple[Any, ...]:
    return (shard.weight * shard.risk.value(w),)


def plane(shard: Shard, w: FloatArray) -> tuple[Any, ...]:
    return _plane(shard.weight, shard.risk.cut(w))


def _plane(weight: float, cut: Cut) -> tuple[Any, ...]:
    return weight * cut.a, weight * cut.b, weight * cut.value


def hessian(shard: Shard, w: FloatArray) -> tuple[Any, ...]:
    risk: Any = shard.risk
    return (shard.weight * risk.hessian(w),)


def recalled(shard: Shard, key: str, how: How | None, question: Callable[..., Any], *given: Any) -> Answer:
    """``question(shard, kept, *given)`` of the line or Hessian that the shard keeps under a key, unless it is lost."""
    kept = shard.recalled(key, how)
    return Answer(None, (shard.number,)) if kept is None else Answer(question(shard, kept, *given))


def trials(shard: Shard, path: Path, points: FloatArray) -> tuple[Any, ...]:
    """Value, slope and second derivative (NaN where there is none) at each t, one row per t."""
    line = path.line
    if isinstance(line, ScoreLine):
        rows = [line.risk.phi.trial(line.scores, line.rise, t) for t in points.tolist()]
    else:
        cuts = [line.cut(t) for t in points.tolist()]
        rows = [Point(cut.value, float(cut.a @ path.direction), np.nan) for cut in cuts]
    return (shard.weight * np.array(rows),)


def line_value(shard: Shard, path: Path, t: float) -> tuple[Any, ...]:
    return (shard.weight * path.line.value(t),)


def line_plane(shard: Shard, path: Path, t: float) -> tuple[Any, ...]:
    return _plane(shard.weight, path.line.cut(t))


def product(shard: Shard, operator: HessianOperator, v: FloatArray) -> tuple[Any, ...]:
    return (shard.weight * operator.product(v),)


def diagonal(shard: Shard, operator: HessianOperator) -> tuple[Any, ...]:
    return (shard.weight * operator.diagonal(),)


def ahead(shard: Shard, path: Path) -> tuple[Any, ...]:
    """Of the softmax loss: the gradient of the slopes predicted for the end of a line, and their conjugate."""
    line: Any = path.line
    found = line.risk.phi.ahead(line.scores, line.rise)
    return shard.weight * line.risk.design.rmatvec(found.slopes.reshape(-1)), shard.weight * found.conjugate
