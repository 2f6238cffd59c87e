"""The objective that a model without information about its inputs reaches: equal scores for all samples."""

from __future__ import annotations

import numpy as np

from undercut.contracts import Regularizer, Risk, SortedScores
from undercut.risks.combined.sharded import ShardedRisk
from undercut.risks.ranking.interleaved import AveragePrecisionRisk
from undercut.risks.ranking.listwise import ListwiseRisk
from undercut.risks.ranking.ordinal import OrdinalRisk
from undercut.risks.ranking.queries import MeanOverQueries
from undercut.risks.ranking.ranking import (
    NdcgRisk,
    PairwiseRisk,
    PrecisionAtRisk,
    ReciprocalRankRisk,
    WeightedPairwiseRisk,
)
from undercut.risks.scores.score_risk import ScoreRisk

RANKINGS = (
    AveragePrecisionRisk,
    ListwiseRisk,
    NdcgRisk,
    OrdinalRisk,
    PairwiseRisk,
    PrecisionAtRisk,
    ReciprocalRankRisk,
    WeightedPairwiseRisk,
)
ROUNDING = 1e-12  # relative: a risk that near to its lower bound is there


def constant_objective(risk: Risk, reg: Regularizer) -> float:
    """The objective of a model with equal scores for all samples, w = 0; infinite where no model is better."""
    zero = np.zeros(risk.n_params)
    penalty, value = reg.value(zero), risk.value(zero)
    return penalty + value if value > risk.lower_bound + ROUNDING * abs(value) else np.inf


def is_bound_of_a_measure(risk: Risk) -> bool:
    """Whether the risk is one of a measure of all labels or of rankings: equal scores may be hard to improve on."""
    if isinstance(risk, ShardedRisk):
        return issubclass(risk.kind, RANKINGS)
    return isinstance(risk, ScoreRisk) and isinstance(risk.phi, SortedScores | MeanOverQueries)
