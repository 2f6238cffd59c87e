"""Every contract that a user may implement: risks, losses, regularizers, solvers, designs and structured models.

``docs/contracts.md`` tells which one to choose.  Each has an example that the tests run.
"""

from undercut.contracts.design import (
    BlockDesign,
    Design,
    GramProductDesign,
    RowDesign,
    Rows,
    StoredDesign,
    WeightedGramDesign,
)
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
from undercut.contracts.regularizer import (
    DifferentiableRegularizer,
    ProximalRegularizer,
    QuadraticRegularizer,
    Regularizer,
    Tilted,
)
from undercut.contracts.risk import (
    BatchedRisk,
    CurvedRisk,
    Cut,
    HessianOperator,
    InvertibleHessian,
    Line,
    LineRisk,
    MajorizedRisk,
    MinorizedRisk,
    Risk,
    SmoothRisk,
)
from undercut.contracts.score_map import ScoreMap
from undercut.contracts.scores import Evaluation, ScoreFunction, SortedScores
from undercut.contracts.solver import Solver, State
from undercut.contracts.structured import (
    Features,
    Labeling,
    LikelihoodModel,
    MarginalModel,
    PredictingModel,
    Rescaling,
    StructuredModel,
)

__all__ = [
    "BatchedRisk",
    "BlockDesign",
    "CompiledSlope",
    "CurvedRisk",
    "Cut",
    "Design",
    "DifferentiableRegularizer",
    "Evaluation",
    "Features",
    "GramProductDesign",
    "HessianOperator",
    "InvertibleHessian",
    "KinkedLoss",
    "Kinks",
    "Labeling",
    "LikelihoodModel",
    "Line",
    "LineRisk",
    "Loss",
    "MajorizedRisk",
    "MarginLoss",
    "MarginalModel",
    "MinorizedRisk",
    "Motion",
    "MulticlassLoss",
    "Pieces",
    "PiecewiseLinearLoss",
    "PredictingModel",
    "ProximalRegularizer",
    "QuadraticRegularizer",
    "RegressionLoss",
    "Regularizer",
    "Rescaling",
    "Risk",
    "RowDesign",
    "Rows",
    "ScoreFunction",
    "ScoreMap",
    "SmoothLoss",
    "SmoothRisk",
    "Solver",
    "SortedScores",
    "State",
    "StoredDesign",
    "StructuredModel",
    "Tilted",
    "WeightedGramDesign",
]
