"""What a shard with a shared free intercept can be asked: sums at ``scores + t rise + b``, and kinks in t or b."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from undercut.risks.combined.shard import Path, Shard
from undercut.types import FloatArray


class Axis(NamedTuple):
    """Along which variable kinks are counted, and which line and point they belong to."""

    line: str
    t: float | None  # None: kinks in t, at the intercept b; else kinks in b at this t
    mirrored: bool = False  # count from the right end


def sums(shard: Shard, path: Path, t: float, b: float) -> tuple[Any, ...]:
    """Of a smooth loss: value; slopes in t and b, and their absolute sum; second derivatives in b, both and t."""
    line: Any = path.line
    phi, at = line.risk.phi, line.scores + t * line.rise + b
    value, slopes, bend, _ = phi.expand(at)
    parts = slopes @ line.rise, slopes.sum(), np.abs(slopes).sum(), bend.sum(), bend @ line.rise, bend @ line.rise**2
    return (shard.weight * np.array([value, *parts]),)


def plane_at(shard: Shard, path: Path, t: float, b: float, share: float | None) -> tuple[Any, ...]:
    """The plane at t and b, the sum of its slopes and their absolute sum; ``share`` of the jumps of kinks at b."""
    line: Any = path.line
    phi, scores = line.risk.phi, line.scores + t * line.rise
    value, slopes, _ = phi.evaluate(scores + b)
    if share is not None:
        slopes = phi.shared_slopes(scores, b, share)
    a = line.risk.design.rmatvec(slopes)
    parts = value, value - float(slopes @ scores), slopes.sum(), np.abs(slopes).sum()
    return shard.weight * a, shard.weight * np.array(parts)


def bent(shard: Shard, path: Path, b: float) -> tuple[Any, ...]:
    """The Hessian in w at the start of a line, the mixed derivatives, and the second derivative in b."""
    line: Any = path.line
    bend = line.risk.phi.bend(line.scores + b)
    design, weight = line.risk.design, shard.weight
    return weight * design.weighted_gram(bend), weight * design.rmatvec(bend), weight * float(bend.sum())


def mixed(shard: Shard, operator: Any) -> tuple[Any, ...]:
    """The mixed derivatives of w and b, the second derivative in b, and the diagonal in w."""
    bend, weight = operator.bend, shard.weight
    return weight * operator.design.rmatvec(bend), weight * float(bend.sum()), weight * operator.diagonal()


def kink_sums(shard: Shard, path: Path, axis: Axis, points: FloatArray) -> tuple[Any, ...]:
    """The slope before all kinks, then their rises and numbers up to each point, and in all."""
    own, at, rise = _kinks(shard, path, axis)
    bins = np.searchsorted(points, at)
    rises = np.bincount(bins, rise, points.size + 1).cumsum()
    counts = np.bincount(bins, minlength=points.size + 1).cumsum()
    return shard.weight * own, shard.weight * rises, counts


def kinks_inside(shard: Shard, path: Path, axis: Axis, low: float, high: float) -> tuple[Any, ...]:
    """The kinks in ``(low, high]`` and their rises, and the value of the risk at ``low``."""
    _, at, rise = _kinks(shard, path, axis)
    inside = (at > low) & (at <= high)
    return [at[inside]], [shard.weight * rise[inside]], shard.weight * _value(path, axis, low)


def _value(path: Path, axis: Axis, at: float) -> float:
    """The value of the risk on an axis; 0 at the far end of it."""
    line: Any = path.line
    if not np.isfinite(at):
        return 0.0
    t, b = (at, 0.0) if axis.t is None else (axis.t, -at if axis.mirrored else at)
    return float(line.risk.phi.evaluate(line.scores + t * line.rise + b).value)


def _kinks(shard: Shard, path: Path, axis: Axis) -> tuple[float, FloatArray, FloatArray]:
    """Kept for the next round of the same search."""
    if shard.kinks is None or shard.kinks[0] != axis:
        shard.kinks = axis, _found(path, axis)
    found: tuple[float, FloatArray, FloatArray] = shard.kinks[1]
    return found


def _found(path: Path, axis: Axis) -> tuple[float, FloatArray, FloatArray]:
    line: Any = path.line
    phi = line.risk.phi
    if axis.t is None:
        own, at, rise = phi.kinks_along(line.scores, line.rise)
        return own, at.copy(), rise.copy()
    own, at, rise = phi.kinks_in_b(line.scores + axis.t * line.rise)
    if not axis.mirrored:
        return own, at.copy(), rise.copy()
    return -own - float(rise.sum()), -at, rise.copy()


def value_at(shard: Shard, path: Path, t: float, b: float) -> tuple[Any, ...]:
    line: Any = path.line
    return (shard.weight * line.risk.phi.evaluate(line.scores + t * line.rise + b).value,)


def slope_at(shard: Shard, path: Path, t: float, b: float, share: float) -> tuple[Any, ...]:
    """The slope in t; ``share`` of the jumps of kinks at b."""
    line: Any = path.line
    slopes = line.risk.phi.shared_slopes(line.scores + t * line.rise, b, share)
    return (shard.weight * float(slopes @ line.rise),)
