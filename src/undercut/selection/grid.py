"""Which lambdas a path visits: those given, or from where nothing moves down to where the risk stops falling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from undercut.contracts import Regularizer, Risk
from undercut.errors import ParameterError, require
from undercut.regularizers.named import named_regularizer
from undercut.types import FloatArray

MakeRegularizer = Callable[[float], Regularizer]

UNMOVED = 0.01  # the grid begins where w = 0 is proved to be within this share of the optimum
PER_DECADE = 4  # lambdas
STILL = 0.005  # the grid ends where one decade of lambda lowers the risk by less than this share of its first value
MOST = 80  # lambdas
PRECISE = 1.001  # the ratio to which the first lambda is found


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
    steepness = float(cut.a @ cut.a)
    if steepness == 0.0 or cut.value <= 0.0:
        return 1.0

    def is_still(lam: float) -> bool:
        reg = penalty(lam)
        share = reg.shrinkage(-cut.a, 0.0)
        floor = (1.0 - share) * risk.lower_bound if share < 1.0 else 0.0
        return share * cut.b + floor - reg.conjugate(-share * cut.a) >= (1.0 - UNMOVED) * cut.value

    still = steepness / cut.value
    while not is_still(still):
        still *= 10.0
    while is_still(still / 10.0):
        still /= 10.0
    moving = still / 10.0
    while still > PRECISE * moving:
        middle = math.sqrt(still * moving)
        still, moving = (middle, moving) if is_still(middle) else (still, middle)
    return still


def next_lambda(lam: float, risks: list[float]) -> float | None:
    """The lambda after ``lam`` on a grid that ends where the risk stops falling; ``None`` at its end.

    ``risks`` are the values of R at zero and at the solutions so far.

    >>> next_lambda(1.0, [1.0, 0.9])
    0.5623413251903491
    """
    decade = PER_DECADE + 1
    if len(risks) >= 2 * decade and risks[-decade] - risks[-1] <= STILL * risks[0]:
        return None
    if len(risks) > MOST or risks[-1] <= 0.0:
        return None
    return float(lam * 10.0 ** (-1.0 / PER_DECADE))
