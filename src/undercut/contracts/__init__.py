"""Every contract that a user may implement: risks, losses, regularizers, solvers, designs and structured models."""

from undercut.contracts.design import Design, LinearMap, Rows
from undercut.contracts.loss import (
    CompiledSlope,
    KinkedLoss,
    Kinks,
    Loss,
    MarginLoss,
    Motion,
    MulticlassLoss,
    Pieces,
    PiecewiseLinearLoss,
    RegressionLoss,
    SmoothLoss,
)
from undercut.contracts.regularizer import DifferentiableRegularizer, QuadraticRegularizer, Regularizer, Tilted
from undercut.contracts.risk import (
    BatchedRisk,
    Cut,
    Line,
    LineRisk,
    MajorizedRisk,
    MinorizedRisk,
    Risk,
    SmoothRisk,
)
from undercut.contracts.scores import Evaluation, ScoreFunction
from undercut.contracts.solver import Solver, State
from undercut.contracts.structured import Features, Labeling, Rescaling, StructuredModel

__all__ = [
    "BatchedRisk",
    "CompiledSlope",
    "Cut",
    "Design",
    "DifferentiableRegularizer",
    "Evaluation",
    "Features",
    "KinkedLoss",
    "Kinks",
    "Labeling",
    "Line",
    "LineRisk",
    "LinearMap",
    "Loss",
    "MajorizedRisk",
    "MarginLoss",
    "MinorizedRisk",
    "Motion",
    "MulticlassLoss",
    "Pieces",
    "PiecewiseLinearLoss",
    "QuadraticRegularizer",
    "RegressionLoss",
    "Regularizer",
    "Rescaling",
    "Risk",
    "Rows",
    "ScoreFunction",
    "SmoothLoss",
    "SmoothRisk",
    "Solver",
    "State",
    "StructuredModel",
    "Tilted",
]
