"""The contract of a performance measure (Joachims 2005, "A support vector method for multivariate
performance measures").

Delta is the loss of a whole labeling, not a sum over samples.  Its risk is a maximum over wrong labelings of linear
functions of the scores s, so it is convex; it bounds Delta at the predicted labeling from above, and Delta at the best
labeling from below.  All measures scale the scores alike: the most expensive single mistake requires a margin of one.

A limitation of these convex bounds: where no w lifts the average positive score above that of the k best negatives, the
risk of the top k and of the break-even point is at least 1, and w = 0 minimizes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from undercut.types import FloatArray


class Prices(NamedTuple):
    """What a unit of score is worth in a positive and in a negative sample, in units of the loss."""

    miss: float = 1.0
    alarm: float = 1.0


EQUAL = Prices()


class Ranked(NamedTuple):
    """The scores of both classes, each descending, with the sums of the scores that mistakes change."""

    positives: FloatArray
    negatives: FloatArray
    missed: FloatArray  # [tp]: the sum of all positives but the best tp
    alarms: FloatArray  # [fp]: the sum of the best fp negatives
    prices: Prices = EQUAL

    @classmethod
    def of(cls, positives: FloatArray, negatives: FloatArray, prices: Prices = EQUAL) -> Ranked:
        """From two descending arrays."""
        missed, alarms = np.zeros(positives.size + 1), np.zeros(negatives.size + 1)
        np.cumsum(positives[::-1], out=missed[-2::-1])
        np.cumsum(negatives, out=alarms[1:])
        return cls(positives, negatives, missed, alarms, prices)

    @property
    def sizes(self) -> tuple[int, int]:
        """How many positives and negatives there are."""
        return self.positives.size, self.negatives.size

    def shifted(self, b: float) -> Ranked:
        """The same with b added to every score."""
        n_positive, n_negative = self.sizes
        missed = self.missed + b * np.arange(n_positive, -1.0, -1.0)
        alarms = self.alarms + b * np.arange(n_negative + 1.0)
        return Ranked(self.positives + b, self.negatives + b, missed, alarms, self.prices)


class Violation(NamedTuple):
    """The largest of the linear functions whose maximum is the risk."""

    value: float
    positives: FloatArray  # its slopes, in the order of the ranked scores
    negatives: FloatArray


class Measure(ABC):
    """A loss Delta of the labels of all samples together; estimators report ``1 - Delta``."""

    sees_intercept: ClassVar[bool]  # whether adding a number to all scores changes the risk
    substitutes: ClassVar[tuple[str, ...]] = ()  # surrogates that may learn more than the bound of the measure

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in the registry."""

    @abstractmethod
    def check(self, n_positive: int, n_negative: int) -> None:
        """Raise ``DataError`` where the measure is not defined."""

    @abstractmethod
    def label_loss(self, y: FloatArray, scores: FloatArray) -> float:
        """Delta of the prediction by these scores, for labels y of -1 and +1."""

    @abstractmethod
    def violate(self, ranked: Ranked) -> Violation:
        """The most violated labeling, exactly."""

    @abstractmethod
    def least(self, n_positive: int, n_negative: int) -> float:
        """Delta of the best labeling there is, which bounds the risk from below."""

    def of_part(self, n_part: int, n_samples: int) -> Measure:
        """The same measure for a part of the samples: one with a count has a share of it."""
        return self

    @abstractmethod
    def cutoff(self, ranked: Ranked) -> float:
        """The score above which a sample is called positive, where the measure does not define it."""


def counts(y: FloatArray) -> tuple[int, int]:
    """How many labels are +1 and -1."""
    n_positive = int(np.count_nonzero(y > 0.0))
    return n_positive, y.size - n_positive


def midway(descending: FloatArray, count: int) -> float:
    """A cutoff below the first ``count`` scores and above the others, unless they are tied."""
    padded = np.concatenate([[descending[0] + 1.0], descending, [descending[-1] - 1.0]])
    return 0.5 * float(padded[count] + padded[count + 1])
