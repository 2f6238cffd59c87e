"""What the table of ``auto`` asks about interior point steps: whether they take less time than planes."""

from __future__ import annotations

from typing import NamedTuple, cast

from undercut.contracts import MarginLoss, Regularizer, Risk
from undercut.maps.dense import DenseDesign
from undercut.maps.matrix import Matrix
from undercut.risks import LinearRisk
from undercut.solvers.choice.conditions import (
    FEW_SAMPLES,
    SEVERAL_PARAMS,
    dual_condition,
    has_quick_steps,
    is_weak,
    mean_square,
    relative_condition,
    samples_per_feature,
    spread,
)

ENOUGH_PARAMS, PER_PARAM = 50, 250  # of a dense X: parameters from which on, samples for each up to which ...
WEAK_RELATIVE = 8.0  # ... kinks at the target need many planes to fine gaps from this relative condition on
FEWEST_PARAMS = 8  # below, planes are few at any lambda
CHEAP_PARAMS = 100  # up to here an interior point step on a dense X costs as much as a few planes


class Limits(NamedTuple):
    """From where on interior point steps take less time than planes, which need more steps for a smaller gap."""

    long_rows: float  # mean squared length of a row over lambda
    params: int  # of a dense X with many samples; with fewer, planes, some three for each, take less time at any lambda
    condition: float  # of the dual, with few samples and a dense X


# The first of each pair holds in general, the second for a dense X with at most ``CHEAP_PARAMS`` parameters and a free
# intercept: every plane needs its best value, which makes planes several times as expensive.
ROUGH_LIMITS = Limits(2e7, 40, 10.0), Limits(1e6, 12, 2.0)
FINE_LIMITS = Limits(2e5, 20, 0.1), Limits(1e4, 8, 0.1)


def is_weak_for_rows(risk: Risk, reg: Regularizer, limits: tuple[Limits, Limits]) -> bool:
    """Whether lambda is small for planes (``is_weak``), or beside the squares of features."""
    if not isinstance(risk, LinearRisk):
        return False
    X, is_dense = risk.design, isinstance(risk.design, DenseDesign)
    limit = limits[risk.fit_intercept and is_dense and risk.n_params <= CHEAP_PARAMS]
    enough = limit.params if is_dense else SEVERAL_PARAMS
    if risk.n_samples > FEW_SAMPLES and risk.n_params < enough:
        return False
    if has_quick_steps(risk):
        weak = dual_condition(cast(DenseDesign, X), reg) > limit.condition * spread(risk)
        return weak and risk.n_params >= FEWEST_PARAMS
    if not isinstance(risk.loss, MarginLoss):
        return is_weak(risk, reg) or (limits is FINE_LIMITS and _has_many_planes(risk, reg))
    has_long_rows = isinstance(X, Matrix) and mean_square(X) > limit.long_rows * reg.strong_convexity
    return has_long_rows or is_weak(risk, reg)


def _has_many_planes(risk: LinearRisk, reg: Regularizer) -> bool:
    """Whether planes for a kink at the target are many beside interior point steps: dense X, some features."""
    if not isinstance(risk.design, DenseDesign) or not ENOUGH_PARAMS <= risk.n_params <= CHEAP_PARAMS:
        return False
    return samples_per_feature(risk) <= PER_PARAM and relative_condition(risk, reg) > WEAK_RELATIVE
