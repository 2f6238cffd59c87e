"""Solvers: one file per method, and the driver that runs them."""

from undercut.solvers.base import Solver, State
from undercut.solvers.cutting_plane import CuttingPlane
from undercut.solvers.driver import Stop, minimize
from undercut.solvers.dual_ascent import DualAscent
from undercut.solvers.lbfgs import Lbfgs
from undercut.solvers.line_search_bundle import LineSearchBundle

__all__ = ["CuttingPlane", "DualAscent", "Lbfgs", "LineSearchBundle", "Solver", "State", "Stop", "minimize"]
