"""Risks: what a solver sees of a learning problem."""

from undercut.risks.combined.difference import DifferenceRisk
from undercut.risks.combined.function import FunctionRisk
from undercut.risks.combined.sharded import ShardedRisk
from undercut.risks.combined.torch import TorchRisk
from undercut.risks.kernel.gram_risk import GramRisk
from undercut.risks.kernel.kernel_risk import KernelRisk
from undercut.risks.measures.multivariate import MultivariateRisk
from undercut.risks.ranking.interleaved import AveragePrecisionRisk
from undercut.risks.ranking.listwise import ListwiseRisk
from undercut.risks.ranking.ordinal import OrdinalRisk
from undercut.risks.ranking.ranking import (
    NdcgRisk,
    PairwiseRisk,
    PrecisionAtRisk,
    ReciprocalRankRisk,
    WeightedPairwiseRisk,
)
from undercut.risks.scores.classes.multiclass import MulticlassRisk
from undercut.risks.scores.composite_quantile import CompositeQuantileRisk
from undercut.risks.scores.linear import LinearRisk
from undercut.risks.scores.map_risk import MapRisk
from undercut.risks.scores.novelty import NoveltyRisk
from undercut.risks.scores.score_risk import ScoreRisk
from undercut.risks.scores.transductive import TransductiveRisk
from undercut.risks.structured.chain import CRF, M3N, ChainLoss, ChainRisk, SmoothChainLoss
from undercut.risks.structured.folding.model import FoldingModel
from undercut.risks.structured.likelihood import LikelihoodRisk
from undercut.risks.structured.network_chain import NetworkChainRisk
from undercut.risks.structured.structured import StructuredRisk

__all__ = [
    "CRF",
    "M3N",
    "AveragePrecisionRisk",
    "ChainLoss",
    "ChainRisk",
    "CompositeQuantileRisk",
    "DifferenceRisk",
    "FoldingModel",
    "FunctionRisk",
    "GramRisk",
    "KernelRisk",
    "LikelihoodRisk",
    "LinearRisk",
    "ListwiseRisk",
    "MapRisk",
    "MulticlassRisk",
    "MultivariateRisk",
    "NdcgRisk",
    "NetworkChainRisk",
    "NoveltyRisk",
    "OrdinalRisk",
    "PairwiseRisk",
    "PrecisionAtRisk",
    "ReciprocalRankRisk",
    "ScoreRisk",
    "ShardedRisk",
    "SmoothChainLoss",
    "StructuredRisk",
    "TorchRisk",
    "TransductiveRisk",
    "WeightedPairwiseRisk",
]
