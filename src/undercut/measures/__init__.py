"""Performance measures: losses of all labels together, which no sum over samples can say."""

from undercut.measures.base import Measure, Ranked, Violation
from undercut.measures.contingency import BalancedError, ContingencyMeasure, FBeta, Matthews, Table, ThresholdMeasure
from undercut.measures.names import measure_named
from undercut.measures.ranking import (
    AveragePrecision,
    BreakEven,
    PartialRocArea,
    PrecisionAt,
    RecallAt,
    RocArea,
    TopMeasure,
)

__all__ = [
    "AveragePrecision",
    "BalancedError",
    "BreakEven",
    "ContingencyMeasure",
    "FBeta",
    "Matthews",
    "Measure",
    "PartialRocArea",
    "PrecisionAt",
    "Ranked",
    "RecallAt",
    "RocArea",
    "Table",
    "ThresholdMeasure",
    "TopMeasure",
    "Violation",
    "measure_named",
]
