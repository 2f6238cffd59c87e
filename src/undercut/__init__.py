"""undercut: regularized risk minimization with a certificate.

    min_w  lam * Omega(w) + R(w)

Every convex fit returns a lower bound on the optimum and the gap to it.
"""

from undercut.estimators import (
    LinearClassifier,
    LinearRegressor,
    OnlineClassifier,
    OnlineRegressor,
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
    Logistic,
    Loss,
    PiecewiseLinearLoss,
    Poisson,
    Quantile,
    SmoothLoss,
    Squared,
    SquaredHinge,
)
from undercut.regularizers import L2, QuadraticRegularizer, Regularizer
from undercut.risks import Cut, FunctionRisk, LinearRisk, LineRisk, Risk
from undercut.solvers import (
    CuttingPlane,
    DualAscent,
    Lbfgs,
    LineSearchBundle,
    Newton,
    ProximalBundle,
    Solver,
    Stop,
    minimize,
)
from undercut.trace import Progress, Result, Status

__version__ = "0.1.0"

__all__ = [
    "L2",
    "Absolute",
    "Cut",
    "CuttingPlane",
    "DualAscent",
    "EpsilonInsensitive",
    "Exponential",
    "FunctionRisk",
    "Hinge",
    "Huber",
    "HuberHinge",
    "Lbfgs",
    "LineRisk",
    "LineSearchBundle",
    "LinearClassifier",
    "LinearRegressor",
    "LinearRisk",
    "Logistic",
    "Loss",
    "Newton",
    "OnlineClassifier",
    "OnlineRegressor",
    "PiecewiseLinearLoss",
    "Poisson",
    "Progress",
    "ProximalBundle",
    "QuadraticRegularizer",
    "Quantile",
    "Regularizer",
    "Result",
    "Risk",
    "SmoothLoss",
    "Solver",
    "Squared",
    "SquaredHinge",
    "Status",
    "Stop",
    "lam_from_C",
    "load_model",
    "minimize",
    "save_model",
]
