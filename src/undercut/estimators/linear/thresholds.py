"""The threshold on the scores of a classifier, chosen by scores of samples that its model was not fitted to."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

from undercut.errors import DataError
from undercut.measures import Measure, Ranked, ThresholdMeasure
from undercut.measures.base import counts, midway
from undercut.types import Array, FloatArray

FOLDS = 5
BOOTSTRAPS = 30  # samples whose best thresholds are averaged
ENOUGH = 20  # samples of each class, from which validation chooses a better threshold than that of the bound
Split: TypeAlias = tuple[Array, Array]  # rows to train on, and rows held out


def stratified_folds(y: FloatArray, random_state: Any = None) -> list[Split]:
    """Training and held-out rows of at most five folds, each with samples of both classes."""
    n_folds = min(FOLDS, *counts(y))
    if n_folds < 2:
        raise DataError(
            f'threshold="cv" needs at least 2 samples of each class; got {counts(y)[0]} and {counts(y)[1]}: '
            'use threshold="own"'
        )
    return list(StratifiedKFold(n_folds, shuffle=True, random_state=random_state or 0).split(y, y))


def pays_validation(measure: Measure, y: FloatArray) -> bool:
    """Whether validation is worthwhile: the measure depends on the threshold, and each class has enough samples."""
    return isinstance(measure, ThresholdMeasure) and min(counts(y)) >= ENOUGH


def best_threshold(measure: Measure, y: FloatArray, scores: FloatArray) -> float:
    """The score above which samples are called positive, by the measure itself; labels y of -1 and +1.

    Of several best ones that nearest to zero.  The cutoff of a measure that does not depend on it is its own.

    >>> from undercut.measures import FBeta
    >>> best_threshold(FBeta(), np.array([1.0, 1.0, -1.0, -1.0]), np.array([3.0, 1.0, 0.5, 0.0]))
    0.75
    """
    order = np.argsort(-scores, kind="stable")
    falling, is_positive = scores[order], y[order] > 0.0
    if not isinstance(measure, ThresholdMeasure):
        return measure.cutoff(Ranked.of(falling[is_positive], falling[~is_positive]))
    return _best_cut(measure, falling, is_positive.astype(np.float64), (~is_positive).astype(np.float64))


def averaged_threshold(measure: Measure, y: FloatArray, scores: FloatArray, random_state: Any = None) -> float:
    """The mean of the best thresholds of bootstrap samples: the best one of a single sample follows its noise."""
    if not isinstance(measure, ThresholdMeasure):
        return best_threshold(measure, y, scores)
    rng = check_random_state(random_state or 0)
    order = np.argsort(-scores, kind="stable")
    falling, is_positive = scores[order], y[order] > 0.0
    return float(
        np.mean(
            [
                _best_cut(measure, falling, resampled(rng, is_positive), resampled(rng, ~is_positive))
                for _ in range(BOOTSTRAPS)
            ]
        )
    )


def resampled(rng: np.random.RandomState, is_member: Array) -> FloatArray:
    """How often each sample is drawn from the members, as many in all as there are."""
    size = int(is_member.sum())
    drawn = np.zeros(is_member.size)
    drawn[is_member] = np.bincount(rng.randint(size, size=size), minlength=size)
    return drawn


def _best_cut(measure: ThresholdMeasure, falling: FloatArray, positives: FloatArray, negatives: FloatArray) -> float:
    """The best threshold on falling scores, given the weights of positives and of negatives at each."""
    tp, fp = (np.append(0.0, np.cumsum(weights)) for weights in (positives, negatives))
    losses = np.asarray(measure.loss(tp, fp, tp[-1] - tp, fp[-1] - fp), dtype=np.float64)
    is_cut = np.append(np.append(True, falling[1:] < falling[:-1]), True)  # tied samples are not told apart
    best = np.flatnonzero(is_cut & (losses <= losses[is_cut].min()))
    thresholds = np.array([midway(falling, int(count)) for count in best])
    return float(thresholds[np.abs(thresholds).argmin()])
