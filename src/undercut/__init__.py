"""undercut: regularized risk minimization with a certificate.

    min_w  lam * Omega(w) + R(w)

Every convex fit returns a lower bound on the optimum and the gap to it.
"""

from undercut.estimators import (
    LinearClassifier,
    LinearRegressor,
    OnlineClassifier,
    OnlineRegressor,
    TransductiveClassifier,
    lam_from_C,
    load_model,
    save_model,
)
from undercut.losses import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    HuberHinge,
    KinkedLoss,
    Logistic,
    Loss,
    PiecewiseLinearLoss,
    Poisson,
    Quantile,
    Ramp,
    SmoothLoss,
    Squared,
    SquaredHinge,
)
from undercut.regularizers import L2, QuadraticRegularizer, Regularizer
from undercut.risks import Cut, DifferenceRisk, FunctionRisk, LinearRisk, LineRisk, Risk, ScoreRisk, TransductiveRisk
from undercut.solvers import (
    ClassicBundle,
    ConvexConcave,
    CuttingPlane,
    DualAscent,
    Lbfgs,
    LineSearchBundle,
    Newton,
    NonconvexBundle,
    ProximalBundle,
    Solver,
    Stop,
    Subgradient,
    minimize,
)
from undercut.trace import Progress, Result, Status

__version__ = "0.1.0"

__all__ = [
    "L2",
    "Absolute",
    "ClassicBundle",
    "ConvexConcave",
    "Cut",
    "CuttingPlane",
    "DifferenceRisk",
    "DualAscent",
    "EpsilonInsensitive",
    "Exponential",
    "FunctionRisk",
    "Hinge",
    "Huber",
    "HuberHinge",
    "KinkedLoss",
    "Lbfgs",
    "LineRisk",
    "LineSearchBundle",
    "LinearClassifier",
    "LinearRegressor",
    "LinearRisk",
    "Logistic",
    "Loss",
    "Newton",
    "NonconvexBundle",
    "OnlineClassifier",
    "OnlineRegressor",
    "PiecewiseLinearLoss",
    "Poisson",
    "Progress",
    "ProximalBundle",
    "QuadraticRegularizer",
    "Quantile",
    "Ramp",
    "Regularizer",
    "Result",
    "Risk",
    "ScoreRisk",
    "SmoothLoss",
    "Solver",
    "Squared",
    "SquaredHinge",
    "Status",
    "Stop",
    "Subgradient",
    "TransductiveClassifier",
    "TransductiveRisk",
    "lam_from_C",
    "load_model",
    "minimize",
    "save_model",
]
