"""Performance measures: losses of all labels together, which no sum over samples can say."""

from undercut.measures.base import Measure, Ranked, Violation
from undercut.measures.contingency import BalancedError, ContingencyMeasure, FBeta, Table, ThresholdMeasure
from undercut.measures.names import measure_named
from undercut.measures.ranking import BreakEven, PrecisionAt, RecallAt, RocArea, TopMeasure

__all__ = [
    "BalancedError",
    "BreakEven",
    "ContingencyMeasure",
    "FBeta",
    "Measure",
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
