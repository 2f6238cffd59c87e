"""When the gap of a fit cannot change a choice any more: bounds on the accuracy that its optimum has on held-out data.

A strongly convex objective pins its minimizer down: ``|w - w*|^2 <= 2 gap / m``, so no score moves by more than
``|x_i| sqrt(2 gap / m)`` from here to the optimum.  A free intercept falls where scores rise, so the intercepts of all
training scores moved up and all moved down enclose that of the optimum.  A held-out sample whose score keeps its sign
is decided, and the accuracy of the optimum is between that of the decided ones and that plus all others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from undercut.contracts import Design, State
from undercut.risks import LinearRisk
from undercut.types import FloatArray

AGAIN = 0.3  # look again where the gap is smaller than this share of what it was the last time


@dataclass
class Board:
    """The accuracies known so far, by fold and lambda, as intervals; all folds of a cross-validation share it."""

    low: FloatArray  # (n_folds, n_lams)
    high: FloatArray

    @classmethod
    def of(cls, n_folds: int, n_lams: int) -> Board:
        """Nothing is known."""
        return cls(np.zeros((n_folds, n_lams)), np.ones((n_folds, n_lams)))

    def cannot_win(self, at: int) -> bool:
        """Whether another lambda is better in the mean over the folds, whatever is still unknown."""
        others = np.delete(self.low, at, axis=1).mean(axis=0)
        return bool(others.size) and bool(self.high[:, at].mean() < others.max())


@dataclass
class AccuracyBounds:
    """The interval of the accuracy that the optimum of one fold has for one lambda.

    right : +1 where the sample belongs to the positive class, else -1
    """

    risk: LinearRisk
    held_out: Design
    right: FloatArray
    norms: FloatArray  # of the held-out samples
    train_norms: FloatArray

    def interval(self, w: FloatArray, gap: float, strength: float) -> tuple[float, float]:
        """The least and the largest accuracy that the optimum can have, ``strength`` being its strong convexity."""
        radius = math.sqrt(2.0 * max(gap, 0.0) / strength)
        scores = self.held_out.matvec(w)
        low, high = self._intercepts(w, radius)
        reach = radius * self.norms * (1.0 + 1e-9)
        surely_up, surely_down = scores - reach + low > 0.0, scores + reach + high < 0.0
        right = np.where(self.right > 0.0, surely_up, surely_down)
        decided = surely_up | surely_down
        return float(right.mean()), float((right | ~decided).mean())

    def _intercepts(self, w: FloatArray, radius: float) -> tuple[float, float]:
        if not self.risk.fit_intercept:
            return 0.0, 0.0
        scores = self.risk.design.matvec(w)
        reach = radius * self.train_norms
        ends = [self.risk.phi.intercept(scores + sign * reach) for sign in (1.0, -1.0)]
        return min(ends), max(ends)


@dataclass
class Decision:
    """Watches the run of one fold at one lambda: whether its gap still matters."""

    bounds: AccuracyBounds
    board: Board
    fold: int
    at: int  # number of the lambda
    strength: float
    may_skip: bool = True  # whether a lambda that cannot have the best mean needs no accurate score
    _looked: float = field(default=math.inf, init=False)  # the gap at the last look

    def __call__(self, state: State) -> bool:
        gap = state.progress.gap
        if not math.isfinite(gap) or gap > AGAIN * self._looked:
            return False
        self._looked = gap
        low, high = self.bounds.interval(state.solution, gap, self.strength)
        self.board.low[self.fold, self.at] = low
        self.board.high[self.fold, self.at] = high
        return low == high or (self.may_skip and self.board.cannot_win(self.at))
