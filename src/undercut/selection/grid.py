"""Which lambdas a path visits: those given, or from where nothing moves down to where the risk stops falling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from undercut.contracts import Regularizer, Risk
from undercut.errors import DataError, ParameterError, require
from undercut.regularizers.named import named_regularizer
from undercut.risks.scores.score_risk import ScoreRisk
from undercut.types import FloatArray

MakeRegularizer = Callable[[float], Regularizer]

UNMOVED = 0.01  # the grid begins where w = 0 is proved to be off the optimum by this share of the room below it
PER_DECADE = 4  # lambdas
STILL = 0.005  # the grid ends where one decade of lambda lowers the risk by less than this share of the room
MOST = 80  # lambdas
PRECISE = 1.001  # the ratio to which the first lambda is found
ROUNDING = 1e-12  # relative
LARGEST = 1e120  # slope whose square, and lambdas of that size, are finite


def penalty_of(penalty: str | MakeRegularizer, l1_ratio: float) -> MakeRegularizer:
    """The regularizer as a function of lambda."""
    if callable(penalty):
        return penalty
    named_regularizer(penalty, 1.0, l1_ratio)  # refuses an unknown name, or a share outside of [0, 1]
    return lambda lam: named_regularizer(penalty, lam, l1_ratio)


def given_grid(lams: Any) -> FloatArray:
    """The given lambdas from strong to weak, each once; refused where one is not positive.

    >>> given_grid([0.1, 1.0])
    array([1. , 0.1])
    """
    try:
        grid = np.asarray(lams, dtype=np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise ParameterError(f"`lams` must be numbers; got {lams!r}") from error
    require(grid.size > 0, "`lams` must hold at least one lambda, or be None for a grid that is found", lams)
    wrong = grid[~(np.isfinite(grid) & (grid > 0.0))]
    require(not wrong.size, "`lams` must be positive and finite", wrong.tolist())
    return np.unique(grid)[::-1]


def first_lambda(risk: Risk, penalty: MakeRegularizer) -> float:
    """The smallest lambda at which w = 0 is proved to be nearly optimal.

    >>> from undercut import L1, LinearRisk, Squared
    >>> risk = LinearRisk(np.eye(2), np.array([2.0, 1.0]), Squared())
    >>> round(first_lambda(risk, L1), 2)  # |X' y|_inf / n = 1, and one percent below it
    0.99
    """
    cut = risk.cut(np.zeros(risk.n_params))
    size = float(np.abs(cut.a).max(initial=0.0))
    if size > LARGEST:
        raise DataError(
            f"the slope of the risk at w = 0 must be at most {LARGEST:g}; got {size:.3g}: scale the features"
        )
    steepness, room = float(cut.a @ cut.a), room_below(cut.value, risk.lower_bound)
    if steepness == 0.0 or room <= ROUNDING * abs(cut.value) or _is_flat(risk, cut.a):
        return 1.0

    def is_still(lam: float) -> bool:
        reg = penalty(lam)
        share = reg.shrinkage(-cut.a, 0.0)
        floor = (1.0 - share) * risk.lower_bound if share < 1.0 else 0.0
        return share * cut.b + floor - reg.conjugate(-share * cut.a) >= cut.value - UNMOVED * room

    still = steepness / room
    while not is_still(still):
        still *= 10.0
    while is_still(still / 10.0):
        still /= 10.0
    moving = still / 10.0
    while still > PRECISE * moving:
        middle = math.sqrt(still) * math.sqrt(moving)  # their product may overflow
        still, moving = (middle, moving) if is_still(middle) else (still, middle)
    return still


def room_below(value: float, floor: float) -> float:
    """How far a risk can fall from a value; the size of the value where no lower bound is known.

    >>> room_below(-2.0, -5.0), room_below(-2.0, -np.inf)
    (3.0, 2.0)
    """
    return value - floor if floor > -np.inf else abs(value)


def _is_flat(risk: Risk, slope: FloatArray) -> bool:
    """Whether the slope of the risk at w = 0 is nothing but rounding, as where all samples are equal."""
    if not isinstance(risk, ScoreRisk):
        return False
    slopes = risk.phi.evaluate(np.zeros(risk.design.shape[0])).slopes
    return bool((np.abs(slope) <= ROUNDING * np.abs(risk.design.rmatvec(np.abs(slopes)))).all())


def next_lambda(lam: float, risks: list[float], floor: float = 0.0) -> float | None:
    """The lambda after ``lam`` on a grid that ends where the risk stops falling; ``None`` at its end.

    ``risks`` are the values of R at zero and at the solutions so far, ``floor`` is a lower bound of them.

    >>> next_lambda(1.0, [1.0, 0.9])
    0.5623413251903491
    """
    decade = PER_DECADE + 1
    if len(risks) >= 2 * decade and risks[-decade] - risks[-1] <= STILL * room_below(risks[0], floor):
        return None
    if len(risks) > MOST or risks[-1] <= floor:
        return None
    return float(lam * 10.0 ** (-1.0 / PER_DECADE))
