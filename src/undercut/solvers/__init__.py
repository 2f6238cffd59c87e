"""Solvers: one file per method, and the driver that runs them."""

from undercut.solvers.base import Solver, State
from undercut.solvers.cutting_plane import CuttingPlane
from undercut.solvers.driver import SOLVERS, Stop, minimize
from undercut.solvers.dual_ascent import DualAscent
from undercut.solvers.lbfgs import Lbfgs
from undercut.solvers.line_search_bundle import LineSearchBundle
from undercut.solvers.newton import Newton
from undercut.solvers.proximal_bundle import ProximalBundle

__all__ = [
    "SOLVERS",
    "CuttingPlane",
    "DualAscent",
    "Lbfgs",
    "LineSearchBundle",
    "Newton",
    "ProximalBundle",
    "Solver",
    "State",
    "Stop",
    "minimize",
]
