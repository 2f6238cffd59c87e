"""Pointwise losses: functions of one sample's score."""

from undercut.losses.base import Loss, Pieces, PiecewiseLinearLoss, SmoothLoss
from undercut.losses.classification import Exponential, Hinge, HuberHinge, Logistic, SquaredHinge
from undercut.losses.multiclass import CrammerSinger, MulticlassLoss, Softmax
from undercut.losses.nonconvex import KinkedLoss, Kinks, Ramp, TransductiveHinge
from undercut.losses.regression import Absolute, EpsilonInsensitive, Huber, Poisson, Quantile, Squared

__all__ = [
    "Absolute",
    "CrammerSinger",
    "EpsilonInsensitive",
    "Exponential",
    "Hinge",
    "Huber",
    "HuberHinge",
    "KinkedLoss",
    "Kinks",
    "Logistic",
    "Loss",
    "MulticlassLoss",
    "Pieces",
    "PiecewiseLinearLoss",
    "Poisson",
    "Quantile",
    "Ramp",
    "SmoothLoss",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "TransductiveHinge",
]
