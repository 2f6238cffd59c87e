"""Risks: what a solver sees of a learning problem."""

from undercut.risks.base import BatchedRisk, Cut, Line, LineRisk, Risk, SmoothRisk
from undercut.risks.chain import CRF, M3N, ChainLoss, ChainRisk
from undercut.risks.composite_quantile import CompositeQuantileRisk
from undercut.risks.decoding import StructuredModel
from undercut.risks.difference import DifferenceRisk, MajorizedRisk
from undercut.risks.function import FunctionRisk
from undercut.risks.gram import GramRisk
from undercut.risks.kernel import KernelRisk
from undercut.risks.linear import LinearRisk
from undercut.risks.multiclass import MulticlassRisk
from undercut.risks.multivariate import MultivariateRisk
from undercut.risks.novelty import NoveltyRisk
from undercut.risks.ordinal import OrdinalRisk
from undercut.risks.ranking import NdcgRisk, PairwiseRisk, PrecisionAtRisk, ReciprocalRankRisk
from undercut.risks.score_risk import Evaluation, ScoreFunction, ScoreRisk
from undercut.risks.sharded import ShardedRisk
from undercut.risks.structured import MinorizedRisk, StructuredRisk
from undercut.risks.transductive import TransductiveRisk

__all__ = [
    "CRF",
    "M3N",
    "BatchedRisk",
    "ChainLoss",
    "ChainRisk",
    "CompositeQuantileRisk",
    "Cut",
    "DifferenceRisk",
    "Evaluation",
    "FunctionRisk",
    "GramRisk",
    "KernelRisk",
    "Line",
    "LineRisk",
    "LinearRisk",
    "MajorizedRisk",
    "MinorizedRisk",
    "MulticlassRisk",
    "MultivariateRisk",
    "NdcgRisk",
    "NoveltyRisk",
    "OrdinalRisk",
    "PairwiseRisk",
    "PrecisionAtRisk",
    "ReciprocalRankRisk",
    "Risk",
    "ScoreFunction",
    "ScoreRisk",
    "ShardedRisk",
    "SmoothRisk",
    "StructuredModel",
    "StructuredRisk",
    "TransductiveRisk",
]
