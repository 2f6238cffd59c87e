"""Pointwise losses: convex functions of one sample's score."""

from undercut.losses.base import Loss, Pieces, PiecewiseLinearLoss, SmoothLoss
from undercut.losses.classification import Exponential, Hinge, HuberHinge, Logistic, SquaredHinge
from undercut.losses.regression import Absolute, EpsilonInsensitive, Huber, Poisson, Quantile, Squared

__all__ = [
    "Absolute",
    "EpsilonInsensitive",
    "Exponential",
    "Hinge",
    "Huber",
    "HuberHinge",
    "Logistic",
    "Loss",
    "Pieces",
    "PiecewiseLinearLoss",
    "Poisson",
    "Quantile",
    "SmoothLoss",
    "Squared",
    "SquaredHinge",
]
