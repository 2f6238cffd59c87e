"""Measures of the order of the samples: precision at its top, inverted pairs, average precision."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from typing_extensions import override

from undercut._jit.interleave import worst_average_precision
from undercut._jit.measures import pair_counts
from undercut.errors import DataError, require
from undercut.measures.base import Measure, Ranked, Violation, counts, midway
from undercut.measures.contingency import need_both
from undercut.types import FloatArray


class TopMeasure(Measure):
    """A loss that falls with the number tp of positives among the k samples of highest score.

        R(s) = max over tp of  Delta(tp) + price (h - tp) (mean of s over fp - mean of s over fn),    h = min(k, P)

    where fp are the k - tp negatives of highest and fn the P - tp positives of lowest score: h - tp exchanges between
    them repair the labeling, and price is what one of them gains.  For k = P this is Joachims' risk over the labelings
    with k positives.  For k < P his does not bound Delta, as the true labeling is not among those; the mean over fn is
    the remedy of Kar, Narasimhan and Jain (2015, "Surrogate functions for maximizing precision at the top"), and for
    k > P the mean over fp is its mirror image.  Tied scores share their places, as in the mean over random orders.

    A convex bound cannot choose which positives to rank first.  Where k is much smaller than P and no w lifts the
    average positive above the k best negatives, the optimum is w = 0; the bound of ``AveragePrecision`` learns there.
    """

    sees_intercept = False
    substitutes = ("squared_hinge", "average_precision")

    @abstractmethod
    def size(self, n_positive: int) -> int:
        """k."""

    @abstractmethod
    def total(self, n_positive: int) -> int:
        """The t of ``Delta = 1 - tp / t``."""

    @override
    def check(self, n_positive: int, n_negative: int) -> None:
        if n_positive == 0:
            raise DataError(f"{self.name} needs at least one positive sample; got none among {n_negative}")
        if self.size(n_positive) > n_positive + n_negative:
            raise DataError(
                f"{self.name} needs at least {self.size(n_positive)} samples; got {n_positive + n_negative}"
            )

    @override
    def label_loss(self, y: FloatArray, scores: FloatArray) -> float:
        self.check(*counts(y))
        n_positive, k = counts(y)[0], self.size(counts(y)[0])
        last = np.partition(scores, -k)[-k]
        tied, sure = scores == last, scores > last
        share = (k - np.count_nonzero(sure)) / np.count_nonzero(tied)
        tp = np.count_nonzero(y[sure] > 0.0) + share * np.count_nonzero(y[tied] > 0.0)
        return float(1.0 - tp / self.total(n_positive))

    @override
    def violate(self, ranked: Ranked) -> Violation:
        n_positive, n_negative = ranked.sizes
        k, total = self.size(n_positive), self.total(n_positive)
        tp = np.arange(max(0, k - n_negative), min(k, n_positive) + 1)
        exchanges = (tp[-1] - tp) / total
        for_fp, for_fn = exchanges / np.maximum(k - tp, 1), exchanges / np.maximum(n_positive - tp, 1)
        values = 1.0 - tp / total + for_fp * ranked.alarms[k - tp] - for_fn * ranked.missed[tp]
        at = int(values.argmax())
        positives, negatives = np.zeros(n_positive), np.zeros(n_negative)
        positives[tp[at] :] = -for_fn[at]
        negatives[: k - tp[at]] = for_fp[at]
        return Violation(float(values[at]), positives, negatives)

    @override
    def least(self, n_positive: int, n_negative: int) -> float:
        return 1.0 - min(self.size(n_positive), n_positive) / self.total(n_positive)

    @override
    def cutoff(self, ranked: Ranked) -> float:
        """Below the k-th score."""
        return midway(np.sort(np.concatenate(ranked[:2]))[::-1], self.size(ranked.positives.size))


@dataclass(frozen=True)
class FixedTop(TopMeasure):
    """A measure of k samples, whatever P is.  Needs a positive sample and k samples."""

    k: int

    def __post_init__(self) -> None:
        is_count = isinstance(self.k, int | np.integer) and not isinstance(self.k, bool) and self.k >= 1
        require(is_count, "`k` must be a positive integer", self.k)

    @override
    def size(self, n_positive: int) -> int:
        return self.k

    @override
    def of_part(self, n_part: int, n_samples: int) -> Measure:
        return replace(self, k=max(1, self.k * n_part // n_samples))


@dataclass(frozen=True)
class PrecisionAt(FixedTop):
    """``Delta = 1 - tp / k`` among the k samples of highest score; at least ``1 - P / k`` where P < k.

    >>> PrecisionAt(2).label_loss(np.array([1.0, -1.0, 1.0]), np.array([3.0, 2.0, 1.0]))
    0.5
    """

    @property
    @override
    def name(self) -> str:
        return f"precision@{self.k}"

    @override
    def total(self, n_positive: int) -> int:
        return self.k


@dataclass(frozen=True)
class RecallAt(FixedTop):
    """``Delta = 1 - tp / P`` among the k samples of highest score; at least ``1 - k / P`` where P > k.

    >>> RecallAt(1).label_loss(np.array([1.0, -1.0, 1.0]), np.array([3.0, 2.0, 1.0]))
    0.5
    """

    @property
    @override
    def name(self) -> str:
        return f"recall@{self.k}"

    @override
    def total(self, n_positive: int) -> int:
        return n_positive


@dataclass(frozen=True)
class BreakEven(TopMeasure):
    """``Delta = 1 - tp / P`` among the P samples of highest score, where precision equals recall.

    Needs a positive sample.

    >>> BreakEven().label_loss(np.array([1.0, -1.0, 1.0]), np.array([3.0, 2.0, 1.0]))
    0.5
    """

    name = "prbep"

    @override
    def size(self, n_positive: int) -> int:
        return n_positive

    @override
    def total(self, n_positive: int) -> int:
        return n_positive


@dataclass(frozen=True)
class RocArea(Measure):
    """``Delta = 1 - area under the ROC curve``, the share of inverted pairs; tied pairs count half; needs both classes.

        R(s) = mean over positives i and negatives j of  max(0, 1 - (s_i - s_j))

    Joachims (2005, Sec. 4.4) labels pairs, each by itself; counting them takes linear time after the sort.

    >>> RocArea().label_loss(np.array([1.0, -1.0, 1.0]), np.array([3.0, 2.0, 1.0]))
    0.5
    """

    name = "roc_auc"
    sees_intercept = False

    @override
    def check(self, n_positive: int, n_negative: int) -> None:
        need_both(self.name, n_positive, n_negative)

    @override
    def label_loss(self, y: FloatArray, scores: FloatArray) -> float:
        self.check(*counts(y))
        return _inverted(scores[y > 0.0], np.sort(scores[y <= 0.0]))

    @override
    def violate(self, ranked: Ranked) -> Violation:
        return _pairs(ranked, ranked.negatives.size)

    @override
    def least(self, n_positive: int, n_negative: int) -> float:
        return 0.0

    @override
    def cutoff(self, ranked: Ranked) -> float:
        """Where the ROC curve is farthest above the diagonal, that is where the balanced error is least."""
        n_positive, n_negative = ranked.sizes
        scores = np.concatenate([ranked.positives, ranked.negatives])
        height = np.concatenate([np.full(n_positive, 1.0 / n_positive), np.full(n_negative, -1.0 / n_negative)])
        order = np.argsort(-scores, kind="stable")
        scores, height = scores[order], np.cumsum(height[order])
        ends = np.flatnonzero(np.append(scores[1:] < scores[:-1], True))  # of groups of equal scores
        return midway(scores, int(ends[height[ends].argmax()]) + 1)


@dataclass(frozen=True)
class PartialRocArea(RocArea):
    """``Delta = 1 - mean height of the ROC curve`` up to a share ``most`` of the negatives.

        R(s) = mean over positives i and the best ``most N`` negatives j of  max(0, 1 - (s_i - s_j))

    the number of negatives rounded up (Narasimhan and Agarwal 2013); tied scores are a straight part of the curve.
    Needs both classes.

    >>> PartialRocArea(0.5).label_loss(np.array([1.0, -1.0, 1.0, -1.0]), np.array([3.0, 2.0, 1.0, 0.0]))
    0.5
    """

    substitutes = ("squared_hinge", "average_precision")
    most: float = 0.1

    def __post_init__(self) -> None:
        require(0.0 < self.most <= 1.0, "`most` must be in (0, 1]", self.most)

    @property
    @override
    def name(self) -> str:  # type: ignore[override]
        return f"roc_auc@{self.most!r}"

    @override
    def label_loss(self, y: FloatArray, scores: FloatArray) -> float:
        self.check(*counts(y))
        order = np.argsort(-scores, kind="stable")
        ends = np.append(np.diff(scores[order]) < 0.0, True)  # tied scores share a line of the curve
        tp, n_above = np.append(0, np.cumsum(y[order] > 0.0)[ends]), np.append(0, np.flatnonzero(ends) + 1)
        fp, last = n_above - tp, self._count(counts(y)[1])
        after = int(np.searchsorted(fp, last))
        share = (last - fp[after - 1]) / (fp[after] - fp[after - 1])
        height = tp[after - 1] + share * (tp[after] - tp[after - 1])
        area = np.trapezoid(np.append(tp[:after], height), np.append(fp[:after], last))
        return 1.0 - float(area) / (counts(y)[0] * last)

    @override
    def violate(self, ranked: Ranked) -> Violation:
        return _pairs(ranked, self._count(ranked.negatives.size))

    def _count(self, n_negative: int) -> int:
        return max(1, math.ceil(self.most * n_negative - 1e-9))


@dataclass(frozen=True)
class AveragePrecision(RocArea):
    """``Delta = 1 - average precision``, the area under the curve of precision over recall; needs both classes.

        R(s) = max over rankings of  Delta + mean over inverted pairs of a positive i and a negative j of  s_j - s_i

    (Yue, Finley, Radlinski, Joachims 2007).  An evaluation takes time in the number of pairs at worst.

    >>> AveragePrecision().label_loss(np.array([-1.0, 1.0, -1.0]), np.array([3.0, 2.0, 1.0]))
    0.5
    """

    name = "average_precision"
    substitutes = ("squared_hinge",)

    @override
    def label_loss(self, y: FloatArray, scores: FloatArray) -> float:
        self.check(*counts(y))
        order = np.argsort(-scores, kind="stable")
        found = np.cumsum(y[order] > 0.0)
        ends = np.flatnonzero(np.append(np.diff(scores[order]) < 0.0, True))  # equal scores share the last place
        hits = np.diff(np.append(0, found[ends]))
        return 1.0 - float(hits @ (found[ends] / (ends + 1.0))) / float(found[-1])

    @override
    def violate(self, ranked: Ranked) -> Violation:
        n_positive = ranked.positives.size
        scores = np.concatenate([ranked.positives, ranked.negatives])
        slopes, loss = np.empty_like(scores), np.empty(1)
        starts = np.array([0, scores.size])
        worst_average_precision(starts, np.array([n_positive]), scores, slopes, loss)
        value = float(loss[0]) + float(slopes @ scores)
        return Violation(value, slopes[:n_positive], slopes[n_positive:])


def _pairs(ranked: Ranked, n_negative: int) -> Violation:
    """``mean of max(0, 1 - (s_i - s_j))`` over all positives and the best negatives."""
    positives, negatives = np.empty_like(ranked.positives), np.zeros_like(ranked.negatives)
    best = ranked.negatives[:n_negative]
    pair_counts(ranked.positives, best, positives, negatives[:n_negative])
    n_pairs = ranked.positives.size * n_negative
    positives /= -n_pairs
    negatives /= n_pairs
    value = float(positives @ (ranked.positives - 1.0)) + float(negatives[:n_negative] @ best)
    return Violation(value, positives, negatives)


def _inverted(positives: FloatArray, negatives: FloatArray) -> float:
    """The share of pairs whose positive scores less; the negatives are sorted, and tied pairs count half."""
    beaten = np.searchsorted(negatives, positives, "left") + np.searchsorted(negatives, positives, "right")
    return 1.0 - 0.5 * float(beaten.mean()) / negatives.size
