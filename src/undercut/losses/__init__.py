"""Pointwise losses: functions of one sample's score, and their registry."""

from undercut.losses.classification import Exponential, Hinge, HuberHinge, Logistic, SquaredHinge
from undercut.losses.multiclass import CrammerSinger, Softmax
from undercut.losses.nonconvex import Ramp, TransductiveHinge
from undercut.losses.registry import NAMES, compiled_slope, named, of_kind
from undercut.losses.regression import Absolute, EpsilonInsensitive, Huber, Poisson, Quantile, Squared

__all__ = [
    "NAMES",
    "Absolute",
    "CrammerSinger",
    "EpsilonInsensitive",
    "Exponential",
    "Hinge",
    "Huber",
    "HuberHinge",
    "Logistic",
    "Poisson",
    "Quantile",
    "Ramp",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "TransductiveHinge",
    "compiled_slope",
    "named",
    "of_kind",
]
