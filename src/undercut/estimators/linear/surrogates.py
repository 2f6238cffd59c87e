"""What a model is trained by in place of a measure, and the choice among several by validation.

The bound of a measure is one of several convex functions whose minimizers score well by it.  Which one is best depends
on the data: a bound of the top k learns nothing where the classes overlap too much, and the squared hinge is often as
good as the bound of F1.  Each one is fitted without one of several folds in turn, and the measure itself, taken on the
scores of the samples that were left out, decides.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from sklearn.utils import check_random_state
from typing_extensions import override

from undercut.contracts import Design, Loss
from undercut.estimators.certified import Rough
from undercut.estimators.linear.thresholds import BOOTSTRAPS, Split, averaged_threshold, best_threshold, resampled
from undercut.estimators.targets import Problem
from undercut.losses import Hinge, SquaredHinge
from undercut.measures import AveragePrecision, BalancedError, FBeta, Measure, ThresholdMeasure
from undercut.risks import LinearRisk, MultivariateRisk
from undercut.risks.measures.multivariate import class_prices
from undercut.risks.scores.score_risk import ScoreRisk
from undercut.selection.shared_rows import SharedRows
from undercut.types import Array, FloatArray

FIRST_FOLDS = 2  # after so many folds a surrogate that is behind is given up
MANY_STEPS = 50  # in one fold, beyond which every surrogate but the first is given up
Solve: TypeAlias = Callable[[ScoreRisk, FloatArray | None, Problem, Rough], FloatArray | None]  # from a start, if any


class Surrogate(ABC):
    """A convex function of the scores that a model is trained by; labels are -1 and +1."""

    name: str  # in titles and checkpoints
    rough_gap: ClassVar[float] = 1e-2  # relative gap that is enough for a fit that only chooses

    @property
    @abstractmethod
    def trained_by(self) -> Measure | Loss:
        """What is minimized, or bounded by what is."""

    @abstractmethod
    def risk(self, design: Design, signs: FloatArray) -> ScoreRisk:
        """Of all samples."""

    @abstractmethod
    def part(self, design: Design, signs: FloatArray, rows: Array) -> ScoreRisk:
        """Of some of them."""


@dataclass(frozen=True)
class Bound(Surrogate):
    """The convex bound of a measure, the last percent of whose gap takes most of the time."""

    rough_gap = 0.05
    measure: Measure
    fit_intercept: bool
    name: str = ""

    @property
    @override
    def trained_by(self) -> Measure:
        return self.measure

    @override
    def risk(self, design: Design, signs: FloatArray) -> ScoreRisk:
        return MultivariateRisk(design, signs, self.measure, fit_intercept=self.fit_intercept)

    @override
    def part(self, design: Design, signs: FloatArray, rows: Array) -> ScoreRisk:
        measure = self.measure.of_part(rows.size, signs.size)
        return MultivariateRisk(SharedRows(design, rows), signs[rows], measure, fit_intercept=self.fit_intercept)


@dataclass(frozen=True)
class PricedLoss(Surrogate):
    """The mean of a loss; a sample weighs as much as its class costs the measure, or F1 where it has no price.

    Samples of a part keep their places and the others have no weight, so that any design serves.
    """

    measure: Measure
    fit_intercept: bool
    loss: ClassVar[Loss] = SquaredHinge()
    name = "squared hinge"

    @property
    @override
    def trained_by(self) -> Measure | Loss:
        return self.loss

    @override
    def risk(self, design: Design, signs: FloatArray) -> ScoreRisk:
        return self.part(design, signs, np.arange(signs.size))

    @override
    def part(self, design: Design, signs: FloatArray, rows: Array) -> ScoreRisk:
        measure = self.measure if isinstance(self.measure, ThresholdMeasure) else FBeta()
        prices = class_prices(measure, SharedRows(design, rows), signs[rows])
        weight = np.zeros(signs.size)
        weight[rows] = np.where(signs[rows] > 0.0, prices.miss, prices.alarm)
        return LinearRisk(design, signs, self.loss, weight, self.fit_intercept)


@dataclass(frozen=True)
class BalancedBound(PricedLoss):
    """The bound of the balanced error: a mean hinge loss, for which there are faster solvers than for a maximum."""

    loss: ClassVar[Loss] = Hinge()
    name = ""

    @property
    @override
    def trained_by(self) -> Measure:
        return self.measure


def surrogate_named(name: str, measure: Measure, fit_intercept: bool) -> Surrogate:
    """By the name of a parameter."""
    if name == "squared_hinge":
        return PricedLoss(measure, fit_intercept)
    if name == "average_precision":
        return Bound(AveragePrecision(), fit_intercept, "average precision")
    if isinstance(measure, BalancedError):
        return BalancedBound(measure, fit_intercept)
    return Bound(measure, fit_intercept)


class _Fold(NamedTuple):
    """A model of the samples outside a fold."""

    w: FloatArray
    scores: FloatArray  # of all samples


class Held(NamedTuple):
    """How a surrogate did on samples that its models were not fitted to."""

    surrogate: Surrogate
    scores: FloatArray
    solutions: list[FloatArray]  # by fold
    threshold: float


@dataclass(frozen=True)
class Validation:
    """Models of several surrogates, each without one of the folds in turn, judged by the measure itself.

    The fits of the first surrogate begin at w = 0, those of the others at the solution of the leader without the same
    fold: one of all samples would have seen what it is judged by.
    """

    measure: Measure
    design: Design
    signs: FloatArray
    folds: Sequence[Split]
    is_tuned: bool  # whether the threshold is chosen too
    random_state: Any
    solve: Solve  # ``None`` where it takes too many steps
    is_over: Callable[[], bool]  # whether the user has ended the fit

    def best(self, surrogates: Sequence[Surrogate]) -> Held | None:
        """The first one, or a later one that is better by more than a standard error; ``None`` after an interruption.

        A later one is given up where it is behind after two folds, or where its fits take too many steps.
        """
        best = self._held_out(surrogates[0])
        for surrogate in surrogates[1:]:
            rival = self._held_out(surrogate, best)
            if best is not None and rival is not None and self._is_better(rival, best):
                best = rival
        return None if self.is_over() else best

    def _held_out(self, surrogate: Surrogate, leader: Held | None = None) -> Held | None:
        """The scores of samples left out; ``None`` after an interruption, or once it is given up."""
        scores = np.zeros(self.signs.size)
        seen = np.empty(0, np.int64)
        solutions: list[FloatArray] = []
        for number, (train, held_out) in enumerate(self.folds, start=1):
            start = leader.solutions[number - 1] if leader is not None else None
            found = None if self.is_over() else self._fitted(surrogate, train, number, start)
            if found is None:
                return None
            solutions.append(found.w)
            scores[held_out] = found.scores[held_out]
            seen = np.append(seen, held_out)
            if leader is not None and FIRST_FOLDS <= number < len(self.folds) and self._is_behind(scores, leader, seen):
                return None
        threshold = averaged_threshold(self.measure, self.signs, scores, self.random_state) if self.is_tuned else 0.0
        return Held(surrogate, scores, solutions, threshold)

    def _fitted(self, surrogate: Surrogate, train: Array, number: int, start: FloatArray | None) -> _Fold | None:
        """The model of some samples; scores of a ranking count from the cutoff of the measure for these samples."""
        about = f"fold {number} of {len(self.folds)}"
        title = f"{surrogate.name}, {about}" if surrogate.name else about
        risk = surrogate.part(self.design, self.signs, train)
        problem = Problem(self.signs[train], None, title, title.partition(" of ")[0])
        limit = sys.maxsize if start is None else MANY_STEPS
        w = self.solve(risk, start, problem, Rough(surrogate.rough_gap, limit))
        if w is None:
            return None
        scores = self.design.matvec(w)
        if self.measure.sees_intercept:
            return _Fold(w, scores + risk.intercept(w))
        part = self.measure.of_part(train.size, self.signs.size)
        return _Fold(w, scores - best_threshold(part, self.signs[train], scores[train]))

    def _judges(self) -> tuple[Measure, ...]:
        """The measure itself; for one of a ranking, which may not tell two good ones apart, a finer one after it."""
        is_one = self.measure.sees_intercept or self.measure == AveragePrecision()
        return (self.measure,) if is_one else (self.measure, AveragePrecision())

    def _loss(self, measure: Measure, scores: FloatArray, rows: Array) -> float:
        """With the best threshold for these rows."""
        signs, scores = self.signs[rows], scores[rows]
        part = measure.of_part(rows.size, self.signs.size)
        return part.label_loss(signs, scores - best_threshold(part, signs, scores) if self.is_tuned else scores)

    def _is_behind(self, scores: FloatArray, leader: Held, rows: Array) -> bool:
        """Whether no judge finds it better on these rows."""
        return all(
            self._loss(measure, scores, rows) >= self._loss(measure, leader.scores, rows) for measure in self._judges()
        )

    def _is_better(self, rival: Held, leader: Held) -> bool:
        """Whether the loss is smaller by more than a standard error; if it hardly differs, the next judge decides."""
        both = rival.scores - rival.threshold, leader.scores - leader.threshold
        for measure in self._judges():
            mine, other = (measure.label_loss(self.signs, scores) for scores in both)
            error = self._standard_error(measure, *both)
            if abs(other - mine) > error:
                return mine < other
        return False

    def _standard_error(self, measure: Measure, one: FloatArray, other: FloatArray) -> float:
        """Of the difference of two losses, over bootstrap samples."""
        rng = check_random_state(self.random_state or 0)
        orders = [np.argsort(-scores, kind="stable") for scores in (one, other)]  # so that samples are sorted already
        differences = []
        for _ in range(BOOTSTRAPS):
            drawn = (resampled(rng, self.signs > 0.0) + resampled(rng, self.signs < 0.0)).astype(np.int64)
            rows = [np.repeat(order, drawn[order]) for order in orders]
            mine, others = (
                measure.label_loss(self.signs[each], scores[each])
                for each, scores in zip(rows, (one, other), strict=True)
            )
            differences.append(mine - others)
        return float(np.std(differences))
