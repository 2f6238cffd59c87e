"""When a fit of a fold need not be finished, because the choice of lambda cannot change any more or hardly will.

Proved: no held-out value can change from here to the optimum (``undercut.selection.held_out``), or another lambda has a
better mean over the folds whatever is still unknown.  Evident, but not proved: at a gap of at most ``ROUGH`` the
held-out samples of the fold are predicted worse than by the best lambda so far, by more than ``FAR`` standard errors of
the differences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from undercut.contracts import State
from undercut.selection.held_out import HeldOut
from undercut.types import FloatArray

AGAIN = 0.3  # look again where the gap is smaller than this share of what it was the last time
FAR = 4.0  # standard errors
ROUGH = 0.5  # relative gap from which on predictions are compared
FEWEST = 100  # samples whose differences have a standard error that can be trusted


@dataclass
class Board:
    """The scores known so far, by fold and lambda, as intervals; all folds of a cross-validation share it."""

    low: FloatArray  # (n_folds, n_lams)
    high: FloatArray

    @classmethod
    def of(cls, n_folds: int, n_lams: int) -> Board:
        """Nothing is known."""
        return cls(np.full((n_folds, n_lams), -np.inf), np.full((n_folds, n_lams), np.inf))

    def cannot_win(self, at: int) -> bool:
        """Whether another lambda is better in the mean over the folds, whatever is still unknown."""
        others = np.delete(self.low, at, axis=1).mean(axis=0)
        return bool(others.size) and bool(self.high[:, at].mean() < others.max())


@dataclass
class Leader:
    """The values of the held-out samples of one fold for the best lambda so far."""

    values: FloatArray | None = None

    def meet(self, values: FloatArray) -> None:
        """Take the values of another lambda if they are better."""
        if self.values is None or values.mean() > self.values.mean():
            self.values = values

    def is_far_ahead(self, values: FloatArray) -> bool:
        """Whether it is better than other values by more than chance."""
        if self.values is None or values.size < FEWEST:
            return False
        ahead = self.values - values
        return bool(ahead.mean() > FAR * ahead.std() / math.sqrt(ahead.size))


@dataclass
class Decision:
    """Watches the runs of one fold at one lambda, one for each of its problems: whether their gaps still matter."""

    held_out: HeldOut
    board: Board
    leader: Leader
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
        return gap <= ROUGH * abs(objective) and self.leader.is_far_ahead(self.held_out.values(self.solutions))


@dataclass
class Watch:
    """Watches the run of one problem."""

    decision: Decision
    problem: int
    _looked: float = field(default=math.inf, init=False)  # the gap at the last look

    def __call__(self, state: State) -> bool:
        gap = state.progress.gap
        if not math.isfinite(gap) or gap > AGAIN * self._looked:
            return False
        self._looked = gap
        return self.decision.is_made(self.problem, state)
