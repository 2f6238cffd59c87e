"""Regularizers: convex penalties on w with a Fenchel dual."""

from undercut.regularizers.base import QuadraticRegularizer, Regularizer
from undercut.regularizers.l2 import L2

__all__ = ["L2", "QuadraticRegularizer", "Regularizer"]
