"""Risks: what a solver sees of a learning problem."""

from undercut.risks.base import BatchedRisk, Cut, Line, LineRisk, Risk, SmoothRisk
from undercut.risks.function import FunctionRisk
from undercut.risks.linear import LinearRisk

__all__ = ["BatchedRisk", "Cut", "FunctionRisk", "Line", "LineRisk", "LinearRisk", "Risk", "SmoothRisk"]
