"""When a fit of a fold need not be finished, or begun, because the choice of lambda cannot or will hardly change.

Proved: no held-out value can change from here to the optimum (``undercut.selection.held_out``), or another lambda has a
better mean over the folds whatever is still unknown.

Evident, but not proved: at a gap of at most ``ROUGH`` the held-out samples of the fold are predicted worse than by a
stronger lambda, by more than ``FAR`` standard errors of the paired differences.  A lambda with that evidence in one
fold is given up in another one as soon as the solution at hand predicts as badly there, whatever its gap.  It is not
fitted at all where the evidence of two folds or more agrees (a race over the folds, as in Maron and Moore 1997).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from undercut.contracts import State
from undercut.selection.held_out import HeldOut
from undercut.types import Array, FloatArray

AGAIN = 0.3  # look again where the gap is smaller than this share of what it was the last time
FAR = 4.0  # standard errors
ROUGH = 0.5  # relative gap from which on predictions are compared
FEWEST = 100  # samples whose differences have a standard error that can be trusted
AGREED = 2.0  # the same for the means of the folds, which need not have the same distribution


class Lead(NamedTuple):
    """A lambda that is better than another one by more than chance."""

    by: int  # its number
    mean: float  # of the differences of the held-out values


@dataclass
class FoldRace:
    """Paired differences of the held-out values of stronger and weaker lambdas; all folds share it.

    ``sums`` : float64 array (n_folds, n_lams, n_lams, 3), by fold, weaker and stronger lambda: the number of samples,
    the sum of the differences, and that of their squares.
    """

    sums: FloatArray

    @classmethod
    def of(cls, n_folds: int, n_lams: int) -> FoldRace:
        """Nothing is known."""
        return cls(np.zeros((n_folds, n_lams, n_lams, 3)))

    def meet(self, fold: int, at: int, values: FloatArray, seen: dict[int, FloatArray]) -> None:
        """Compare the values of a lambda with those of stronger ones, by number, in the same fold."""
        for other, theirs in seen.items():
            ahead = theirs - values
            self.sums[fold, at, other] = ahead.size, ahead.sum(), ahead @ ahead

    def is_beaten(self, fold: int, at: int) -> bool:
        """Whether a stronger lambda is better by more than chance in one fold."""
        return bool(_ahead(self.sums[fold, at]).any())

    def is_beaten_elsewhere(self, fold: int, at: int) -> bool:
        """The same for any other fold."""
        return bool(_ahead(np.delete(self.sums[:, at], fold, axis=0)).any())

    def leader(self, at: int) -> Lead | None:
        """The stronger lambda that is ahead by more than chance in the folds so far; of several the farthest."""
        sums = self.sums[:, at]
        total, met = sums.sum(axis=0), sums[..., 0] > 0.0
        n_folds, mean = met.sum(axis=0), total[:, 1] / np.maximum(total[:, 0], 1.0)
        fold_means = sums[..., 1] / np.maximum(sums[..., 0], 1.0)
        squares = np.where(met, (fold_means - mean) ** 2, 0.0).sum(axis=0)
        spread = np.sqrt(squares / np.maximum(n_folds * (n_folds - 1), 1))
        agree = (mean > AGREED * spread) | (_ahead(sums) | ~met).all(axis=0)
        is_ahead = _ahead(total) & (n_folds >= 2) & agree
        if not is_ahead.any():
            return None
        by = int(np.argmax(np.where(is_ahead, mean, -np.inf)))
        return Lead(by, float(mean[by]))


def _ahead(sums: FloatArray) -> Array:
    """Whether differences are positive by more than chance, given the three sums of ``FoldRace`` in the last axis."""
    count = np.maximum(sums[..., 0], 1.0)
    mean = sums[..., 1] / count
    error = np.sqrt(np.maximum(sums[..., 2] / count - mean**2, 0.0) / count)
    return np.asarray((sums[..., 0] >= FEWEST) & (mean > FAR * error))


@dataclass
class Board:
    """The scores known so far, by fold and lambda, as intervals; all folds of a cross-validation share it."""

    low: FloatArray  # (n_folds, n_lams)
    high: FloatArray
    race: FoldRace

    @classmethod
    def of(cls, n_folds: int, n_lams: int) -> Board:
        """Nothing is known."""
        unknown = np.full((n_folds, n_lams), np.inf)
        return cls(-unknown, unknown, FoldRace.of(n_folds, n_lams))

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
    by_evidence: bool = True  # whether a lambda that predicts worse beyond chance is given up
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
        if all(map(math.isfinite, self.radii)) and self._is_proved():
            return True
        if self.may_skip and self.board.cannot_win(self.at):
            return True
        return self.by_evidence and self._is_evident(gap, state.progress.objective)

    def _is_proved(self) -> bool:
        """Whether no held-out value can change any more."""
        low, high = (float(end.mean()) for end in self.held_out.interval(self.solutions, self.radii))
        self.board.low[self.fold, self.at] = low
        self.board.high[self.fold, self.at] = high
        return low == high

    def _is_evident(self, gap: float, objective: float) -> bool:
        race = self.board.race
        if gap > ROUGH * abs(objective) and not race.is_beaten_elsewhere(self.fold, self.at):
            return False
        race.meet(self.fold, self.at, self.held_out.values(self.solutions), self.seen)
        return race.is_beaten(self.fold, self.at)


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
