"""The risk of a transductive support vector machine (Do and Artières 2012, Sec. 5.4).

R(w) = mean over labelled of max(0, 1 - y_i s_i)  +  gamma * mean over unlabelled of max(0, 1 - |s_i|)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from typing_extensions import override

from undercut.contracts import MajorizedRisk
from undercut.errors import DataError, require
from undercut.losses import TransductiveHinge
from undercut.maps.design import as_design
from undercut.risks.checks import normalized_weights, real_targets
from undercut.risks.scores.kinked import Balanced, FixedKinked, FreeKinked
from undercut.risks.scores.score_risk import ScoreRisk
from undercut.types import Array, FloatArray


class TransductiveRisk(ScoreRisk, MajorizedRisk):
    """Labelled and unlabelled samples in one matrix; ``y`` is -1, +1, or 0 for unlabelled.

    The scores are ``<w, x_i>``, with ``fit_intercept`` ``<w, x_i> + b`` at the best b.  With ``balance`` the intercept
    is the one that makes the mean score of the unlabelled samples ``balance`` (Chapelle and Zien 2005): without it a
    large ``gamma`` may put all of them on one side.

    >>> risk = TransductiveRisk(np.array([[1.0], [-1.0], [0.5]]), np.array([1.0, -1.0, 0.0]), gamma=2.0)
    >>> risk.value(np.ones(1)), risk.is_convex
    (1.0, False)
    """

    phi: FixedKinked | Balanced

    def __init__(
        self,
        X: Any,
        y: Any,
        gamma: float = 1.0,
        sample_weight: Any = None,
        *,
        fit_intercept: bool = False,
        balance: float | None = None,
    ) -> None:
        require(0.0 <= gamma < math.inf, "`gamma` must be non-negative and finite", gamma)
        require(balance is None or -1.0 < balance < 1.0, "`balance` must be between -1 and 1", balance)
        design, loss = as_design(X), TransductiveHinge()
        y = real_targets(y, design.shape)
        loss.check_target(y)
        free = y == 0.0
        if free.all():
            raise DataError("y must hold labelled samples, -1 or +1; got only zeros, which mean unlabelled")
        given = _given_weights(sample_weight, free)
        kinks, weight, share = loss.kinks(y), _scaled(given, free, gamma), np.where(free, given, 0.0)
        if balance is None or not share.any():
            phi: FixedKinked | Balanced = (FreeKinked if fit_intercept else FixedKinked)(kinks, weight)
        else:
            phi = Balanced(FixedKinked(kinks, weight), share / share.sum(), balance)
        super().__init__(design, phi, is_convex=False)

    @override
    def majorizer(self, w: FloatArray) -> ScoreRisk:
        return ScoreRisk(self.design, self.phi.majorized(self.design.matvec(w)))


def _given_weights(sample_weight: Any, free: Array) -> FloatArray:
    """The weights as given; ``DataError`` unless there is one finite non-negative number per sample."""
    weight = np.ones(free.size) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != free.shape:
        raise DataError(f"sample_weight must have one entry per sample, shape {free.shape}; got {weight.shape}")
    if not np.isfinite(weight).all() or (weight < 0.0).any():
        raise DataError(f"sample_weight must be finite and non-negative; got a minimum of {weight.min()}")
    return weight


def _scaled(weight: FloatArray, free: Array, gamma: float) -> FloatArray:
    """Weights that sum to one over the labelled samples and to gamma over the others, if those have any weight."""
    scaled = np.zeros(free.size)
    scaled[~free] = normalized_weights(weight[~free], int((~free).sum()))
    if weight[free].any():
        scaled[free] = gamma * normalized_weights(weight[free], int(free.sum()))
    return scaled
