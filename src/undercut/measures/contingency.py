"""Measures of a contingency table: functions of tp, fp, fn, tn.

    R(s) = max over labelings z of  Delta(y, z) + sum_i price_i (z_i - y_i) / 2  s_i

For any positive prices the prediction ``z_i = sign(s_i)`` maximizes the sum, so R bounds its loss.  Joachims (2005)
has equal prices; then w = 0 minimizes R where a rare class overlaps with the rest.  Here each class has its own.

Algorithm 2 of that paper: of all labelings with the same table the most violated one misses the positives of lowest
score and accepts the negatives of highest score.  So after one sort the search is over tables instead of labelings.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from undercut._jit.measures import worst_fbeta, worst_matthews
from undercut.errors import CapabilityError, DataError, require
from undercut.measures.base import Measure, Prices, Ranked, Violation, counts
from undercut.types import FloatArray

BLOCK = 2**16  # tables whose losses are computed at a time, unless a row of them is longer


class Table(NamedTuple):
    """True and false positives; the other two entries follow."""

    tp: int
    fp: int


class ThresholdMeasure(Measure):
    """A measure of the labels ``s > 0``."""

    sees_intercept = True
    substitutes = ("squared_hinge",)

    @abstractmethod
    def loss(self, tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        """Delta of tables, elementwise."""

    @abstractmethod
    def worst(self, ranked: Ranked) -> Table:
        """The table of the most violated labeling."""

    def prices(self, ranked: Ranked) -> Prices:
        """What a mistake of each class costs at the best table that a threshold on these scores reaches.

        Their ratio is that of the marginal losses there; the larger price is the loss of the most expensive single
        mistake, or 1/n if that is zero.
        """
        sizes, table = ranked.sizes, self.best_table(ranked)
        here = self._loss_of(*sizes, table)
        miss = self._loss_of(*sizes, Table(table.tp - 1, table.fp)) - here if table.tp else 0.0
        alarm = self._loss_of(*sizes, Table(table.tp, table.fp + 1)) - here if table.fp < sizes[1] else 0.0
        largest, is_perfect = self._largest_single(*sizes), table == Table(sizes[0], 0)
        if is_perfect or not (0.0 < miss < np.inf and 0.0 < alarm < np.inf):
            return Prices(largest, largest)
        return Prices(largest * min(1.0, miss / alarm), largest * min(1.0, alarm / miss))

    def _largest_single(self, n_positive: int, n_negative: int) -> float:
        missed = self._loss_of(n_positive, n_negative, Table(n_positive - 1, 0)) if n_positive else 0.0
        alarm = self._loss_of(n_positive, n_negative, Table(n_positive, 1)) if n_negative else 0.0
        largest = max(missed, alarm) - self.least(n_positive, n_negative)
        return largest if largest > 0.0 else 1.0 / (n_positive + n_negative)

    def best_table(self, ranked: Ranked) -> Table:
        """The table of least loss among those of thresholds just below a positive, or above all scores.

        Ties count as false positives.
        """
        n_positive, n_negative = ranked.sizes
        tp = np.arange(n_positive + 1.0)
        fp = np.append(0.0, np.searchsorted(-ranked.negatives, -ranked.positives, side="right"))
        best = int(np.argmin(self.loss(tp, fp, n_positive - tp, n_negative - fp)))
        return Table(best, int(fp[best]))

    def value(self, ranked: Ranked, table: Table) -> float:
        """The linear function of a table's most violated labeling, at the scores."""
        miss, alarm = ranked.prices
        sums = float(alarm * ranked.alarms[table.fp] - miss * ranked.missed[table.tp])
        return self._loss_of(*ranked.sizes, table) + sums

    def slopes(self, ranked: Ranked, table: Table) -> tuple[FloatArray, FloatArray]:
        """Its slopes in the ranked scores."""
        positives, negatives = np.zeros_like(ranked.positives), np.zeros_like(ranked.negatives)
        positives[table.tp :] = -ranked.prices.miss
        negatives[: table.fp] = ranked.prices.alarm
        return positives, negatives

    @override
    def violate(self, ranked: Ranked) -> Violation:
        table = self.worst(ranked)
        return Violation(self.value(ranked, table), *self.slopes(ranked, table))

    @override
    def check(self, n_positive: int, n_negative: int) -> None:
        if n_positive == 0:
            raise DataError(f"{self.name} needs at least one positive sample; got none among {n_negative}")

    @override
    def label_loss(self, y: FloatArray, scores: FloatArray) -> float:
        self.check(*counts(y))
        tp = int(np.count_nonzero((scores > 0.0) & (y > 0.0)))
        return self._loss_of(*counts(y), Table(tp, int(np.count_nonzero(scores > 0.0)) - tp))

    @override
    def least(self, n_positive: int, n_negative: int) -> float:
        return self._loss_of(n_positive, n_negative, Table(n_positive, 0))

    @override
    def cutoff(self, ranked: Ranked) -> float:
        return 0.0

    def _loss_of(self, n_positive: int, n_negative: int, table: Table) -> float:
        tp, fp = map(np.float64, table)
        return float(self.loss(tp, fp, n_positive - tp, n_negative - fp))


class CurvedMeasure(ThresholdMeasure):
    """A measure whose loss is convex in the number of misses and concave in the number of false positives."""

    @abstractmethod
    def worthwhile(self, tp: FloatArray, cost: float, n_positive: int, n_negative: int) -> FloatArray:
        """For each tp the fp that maximizes loss minus ``cost`` fp, for a positive cost: an integer, as a float."""


@dataclass(frozen=True)
class FBeta(CurvedMeasure):
    """``Delta = 1 - (1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp)``; needs a positive sample.

    The most violated labeling is found in linear time after the sort.

    >>> FBeta().label_loss(np.array([1.0, 1.0, -1.0]), np.array([2.0, -1.0, 0.5]))
    0.5
    """

    beta: float = 1.0

    def __post_init__(self) -> None:
        require(
            self.beta > 0.0 and 0.0 < self.beta * self.beta < np.inf, "`beta` must be positive and finite", self.beta
        )

    @property
    @override
    def name(self) -> str:
        return f"f{float(self.beta)!r}".removesuffix(".0")

    @override
    def loss(self, tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        weight = self.beta**2
        return 1.0 - (1.0 + weight) * tp / ((1.0 + weight) * tp + weight * fn + fp)

    @override
    def worst(self, ranked: Ranked) -> Table:
        return Table(*worst_fbeta(ranked.missed, ranked.alarms, ranked.negatives, *ranked.prices, self.beta**2))

    @override
    def worthwhile(self, tp: FloatArray, cost: float, n_positive: int, n_negative: int) -> FloatArray:
        # one more of them adds  (1 + beta^2) tp / ((called) (called + 1)),  called = tp + beta^2 P + fp
        called = np.ceil(
            0.5 * (np.sqrt(1.0 + 4.0 * (1.0 + self.beta**2) * tp / cost) - 1.0) - tp - self.beta**2 * n_positive
        )
        return np.clip(called, 0.0, float(n_negative))


@dataclass(frozen=True)
class BalancedError(CurvedMeasure):
    """``Delta = (fn / P + fp / N) / 2``, the mean of both classes' error rates; needs both classes.

    The loss is a sum over samples, so one search per class finds the most violated labeling.

    >>> BalancedError().label_loss(np.array([1.0, 1.0, -1.0]), np.array([2.0, -1.0, -0.5]))
    0.25
    """

    name = "balanced_error"

    @override
    def check(self, n_positive: int, n_negative: int) -> None:
        need_both(self.name, n_positive, n_negative)

    @override
    def loss(self, tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        return 0.5 * (fn / (tp + fn) + fp / (fp + tn))

    @override
    def prices(self, ranked: Ranked) -> Prices:
        """The loss of a mistake of each class: R is the mean over classes of their mean hinge losses."""
        n_positive, n_negative = ranked.sizes
        return Prices(0.5 / n_positive, 0.5 / n_negative)

    @override
    def worst(self, ranked: Ranked) -> Table:
        n_positive, n_negative = ranked.sizes
        tp = np.searchsorted(-ranked.positives, -0.5 / (ranked.prices.miss * n_positive), side="right")
        fp = np.searchsorted(-ranked.negatives, 0.5 / (ranked.prices.alarm * n_negative), side="left")
        return Table(int(tp), int(fp))

    @override
    def worthwhile(self, tp: FloatArray, cost: float, n_positive: int, n_negative: int) -> FloatArray:
        return np.full(tp.shape, float(n_negative) if cost < 0.5 / n_negative else 0.0)


@dataclass(frozen=True)
class Matthews(ThresholdMeasure):
    """``Delta = 1 - Matthews correlation``, which is 1 where a prediction has one class only; needs both classes.

    The most violated labeling is found in linear time after the sort.

    >>> round(Matthews().label_loss(np.array([1.0, 1.0, -1.0, -1.0]), np.array([1.0, -1.0, -1.0, -1.0])), 3)
    0.423
    """

    name = "mcc"

    @override
    def check(self, n_positive: int, n_negative: int) -> None:
        need_both(self.name, n_positive, n_negative)

    @override
    def loss(self, tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        spread = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
        return 1.0 - (tp * tn - fp * fn) / np.where(spread > 0.0, spread, 1.0)

    @override
    def worst(self, ranked: Ranked) -> Table:
        scores = np.ascontiguousarray(ranked.positives), np.ascontiguousarray(ranked.negatives)
        return Table(*worst_matthews(ranked.missed, ranked.alarms, *scores, *ranked.prices))


@dataclass(frozen=True)
class ContingencyMeasure(ThresholdMeasure):
    """``Delta = fun(tp, fp, fn, tn)``, a function of the user's; smaller is better, and usually 0 without mistakes.

    ``fun`` gets four arrays of floats that broadcast against one another and works elementwise.  All tables are tried
    at every evaluation, in blocks: time is quadratic in the number of samples, memory linear.  With the share of errors
    it is the mean hinge loss:

    >>> from undercut import Hinge, LinearRisk, MultivariateRisk
    >>> X, y, w = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([1.0, -1.0, 1.0]), np.array([0.3, -0.4])
    >>> errors = ContingencyMeasure(lambda tp, fp, fn, tn: (fp + fn) / (tp + fp + fn + tn))
    >>> bool(np.isclose(MultivariateRisk(X, y, errors).value(w), LinearRisk(X, y, Hinge()).value(w)))
    True
    """

    fun: Callable[..., Any]

    @property
    @override
    def name(self) -> str:
        raise CapabilityError("a ContingencyMeasure has no name: pass the object; a model with it cannot be saved")

    @override
    def check(self, n_positive: int, n_negative: int) -> None:
        loss = self.least(n_positive, n_negative)
        if not np.isfinite(loss):
            raise DataError(f"fun must be finite; got {loss} for tp, fp, fn, tn = {n_positive}, 0, 0, {n_negative}")

    @override
    def loss(self, tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        return self.fun(tp, fp, fn, tn)

    @override
    def worst(self, ranked: Ranked) -> Table:
        n_positive, n_negative = ranked.sizes
        prices, fp = ranked.prices, np.arange(n_negative + 1.0)
        best, table = -np.inf, Table(0, 0)
        rows = max(1, BLOCK // fp.size)
        for start in range(0, n_positive + 1, rows):
            stop = min(start + rows, n_positive + 1)
            tp = np.arange(start, stop, dtype=np.float64)[:, None]
            values = self.loss(tp, fp, n_positive - tp, n_negative - fp) + (
                prices.alarm * ranked.alarms - prices.miss * ranked.missed[start:stop, None]
            )
            at = int(values.argmax())
            worst, here = float(values.flat[at]), Table(start + at // fp.size, at % fp.size)
            if np.isnan(worst) and np.isnan(self._loss_of(n_positive, n_negative, here)):
                raise DataError(f"a loss must be finite; got NaN for tp, fp = {here.tp}, {here.fp}")
            if worst > best:
                best, table = worst, here
        return table


def need_both(name: str, n_positive: int, n_negative: int) -> None:
    """Refuse data of one class."""
    if n_positive == 0 or n_negative == 0:
        raise DataError(
            f"{name} needs samples of both classes; got {n_positive} positive and {n_negative} negative ones"
        )
