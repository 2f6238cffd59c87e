"""Risks: what a solver sees of a learning problem."""

from undercut.risks.base import BatchedRisk, Cut, Line, LineRisk, Risk, SmoothRisk
from undercut.risks.difference import DifferenceRisk, MajorizedRisk
from undercut.risks.function import FunctionRisk
from undercut.risks.linear import LinearRisk
from undercut.risks.multivariate import MultivariateRisk
from undercut.risks.ordinal import OrdinalRisk
from undercut.risks.ranking import NdcgRisk, PairwiseRisk, PrecisionAtRisk, ReciprocalRankRisk
from undercut.risks.score_risk import Evaluation, ScoreFunction, ScoreRisk
from undercut.risks.transductive import TransductiveRisk

__all__ = [
    "BatchedRisk",
    "Cut",
    "DifferenceRisk",
    "Evaluation",
    "FunctionRisk",
    "Line",
    "LineRisk",
    "LinearRisk",
    "MajorizedRisk",
    "MultivariateRisk",
    "NdcgRisk",
    "OrdinalRisk",
    "PairwiseRisk",
    "PrecisionAtRisk",
    "ReciprocalRankRisk",
    "Risk",
    "ScoreFunction",
    "ScoreRisk",
    "SmoothRisk",
    "TransductiveRisk",
]
