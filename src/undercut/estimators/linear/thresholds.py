"""The threshold on the scores of a classifier, chosen by scores of samples that its model was not fitted to."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from sklearn.model_selection import StratifiedKFold

from undercut.errors import DataError
from undercut.measures import Matthews, Measure, Ranked, ThresholdMeasure
from undercut.measures.base import counts, midway
from undercut.types import Array, FloatArray

FOLDS = 5
ENOUGH = 50  # samples of each class, from which validation chooses a better threshold than that of the bound
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
    """Whether validation is worthwhile: the measure depends on the threshold, and each class has enough samples.

    The threshold of the bound of the Matthews correlation was as good on made-up problems.
    """
    depends = isinstance(measure, ThresholdMeasure) and not isinstance(measure, Matthews)
    return depends and min(counts(y)) >= ENOUGH


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
    n_positive, n_negative = counts(y)
    tp = np.append(0.0, np.cumsum(is_positive))
    fp = np.arange(y.size + 1.0) - tp
    losses = np.asarray(measure.loss(tp, fp, n_positive - tp, n_negative - fp), dtype=np.float64)
    is_cut = np.append(np.append(True, falling[1:] < falling[:-1]), True)  # tied samples are not told apart
    best = np.flatnonzero(is_cut & (losses <= losses[is_cut].min()))
    thresholds = np.array([midway(falling, int(count)) for count in best])
    return float(thresholds[np.abs(thresholds).argmin()])
