"""When a fit of a fold need not be finished, because the choice of lambda cannot change any more or hardly will.

Proved: no held-out value can change from here to the optimum (``undercut.selection.held_out``), or another lambda has a
better mean over the folds whatever is still unknown.  Evident, but not proved: at a gap of at most ``ROUGH`` the
held-out samples of the folds so far are predicted worse than by a stronger lambda, by more than ``FAR`` standard errors
of the paired differences.  A lambda of which that is known is not fitted in later folds (a race of the lambdas over the
folds, as in Maron and Moore 1997).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from undercut.contracts import State
from undercut.selection.held_out import HeldOut
from undercut.types import FloatArray

AGAIN = 0.3  # look again where the gap is smaller than this share of what it was the last time
FAR = 4.0  # standard errors
ROUGH = 0.5  # relative gap from which on predictions are compared
FEWEST = 100  # samples whose differences have a standard error that can be trusted


class Lead(NamedTuple):
    """A lambda that is better than another one by more than chance."""

    by: int  # its number
    mean: float  # of the differences of the held-out values


@dataclass
class Race:
    """Paired differences of the held-out values of stronger and weaker lambdas; all folds share it.

    ``sums`` : float64 array (n_folds, n_lams, n_lams, 3), by fold, weaker and stronger lambda: the number of samples,
    the sum of the differences, and that of their squares.
    """

    sums: FloatArray

    @classmethod
    def of(cls, n_folds: int, n_lams: int) -> Race:
        """Nothing is known."""
        return cls(np.zeros((n_folds, n_lams, n_lams, 3)))

    def meet(self, fold: int, at: int, values: FloatArray, seen: dict[int, FloatArray]) -> None:
        """Compare the values of a lambda with those of stronger ones, by number, in the same fold."""
        for other, theirs in seen.items():
            ahead = theirs - values
            self.sums[fold, at, other] = ahead.size, ahead.sum(), ahead @ ahead

    def leader(self, at: int) -> Lead | None:
        """The stronger lambda that is farthest ahead in the mean, of those that are ahead by more than chance."""
        count, total, squares = self.sums[:, at].sum(axis=0).T
        samples = np.maximum(count, 1.0)
        mean = total / samples
        error = np.sqrt(np.maximum(squares / samples - mean**2, 0.0) / samples)
        is_ahead = (count >= FEWEST) & (mean > FAR * error)
        if not is_ahead.any():
            return None
        by = int(np.argmax(np.where(is_ahead, mean, -np.inf)))
        return Lead(by, float(mean[by]))


@dataclass
class Board:
    """The scores known so far, by fold and lambda, as intervals; all folds of a cross-validation share it."""

    low: FloatArray  # (n_folds, n_lams)
    high: FloatArray
    race: Race

    @classmethod
    def of(cls, n_folds: int, n_lams: int) -> Board:
        """Nothing is known."""
        unknown = np.full((n_folds, n_lams), np.inf)
        return cls(-unknown, unknown, Race.of(n_folds, n_lams))

    def cannot_win(self, at: int) -> bool:
        """Whether another lambda is better in the mean over the folds, whatever is still unknown."""
        others = np.delete(self.low, at, axis=1).mean(axis=0)
        return bool(others.size) and bool(self.high[:, at].mean() < others.max())


@dataclass
class Decision:
    """Watches the runs of one fold at one lambda, one for each of its problems: whether their gaps still matter."""

    held_out: HeldOut
    board: Board
    seen: dict[int, FloatArray]  # the held-out values of the fold at stronger lambdas, by their number
    fold: int
    at: int  # number of the lambda
    strength: float
    solutions: list[FloatArray]  # of all problems; at first those of the last lambda
    may_skip: bool = True  # whether a lambda that cannot have the best mean needs no accurate score
    radii: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.solutions, self.radii = list(self.solutions), [math.inf] * len(self.solutions)

    def watch(self, problem: int) -> Watch:
        """The one who watches a problem."""
        return Watch(self, problem)

    def is_made(self, problem: int, state: State) -> bool:
        """Whether nothing is left to decide, given a state of one problem."""
        gap = max(state.progress.gap, 0.0)
        self.solutions[problem], self.radii[problem] = state.solution, math.sqrt(2.0 * gap / self.strength)
        low, high = (float(end.mean()) for end in self.held_out.interval(self.solutions, self.radii))
        self.board.low[self.fold, self.at] = low
        self.board.high[self.fold, self.at] = high
        if low == high:
            return True
        return self.may_skip and (self.board.cannot_win(self.at) or self._is_evident(gap, state.progress.objective))

    def _is_evident(self, gap: float, objective: float) -> bool:
        if gap > ROUGH * abs(objective):
            return False
        self.board.race.meet(self.fold, self.at, self.held_out.values(self.solutions), self.seen)
        return self.board.race.leader(self.at) is not None


@dataclass
class Watch:
    """Watches the run of one problem."""

    decision: Decision
    problem: int
    _looked: float = field(default=math.inf, init=False)  # the gap at the last look
    _is_rough: bool = field(default=False, init=False)  # whether it was small enough to compare predictions

    def __call__(self, state: State) -> bool:
        gap = state.progress.gap
        is_rough = gap <= ROUGH * abs(state.progress.objective)
        if not math.isfinite(gap) or (gap > AGAIN * self._looked and is_rough == self._is_rough):
            return False
        self._looked, self._is_rough = gap, is_rough
        return self.decision.is_made(self.problem, state)
