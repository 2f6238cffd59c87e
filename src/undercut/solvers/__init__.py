"""Solvers: one file per method, and the driver that runs them."""

from undercut.solvers.base import Solver, State
from undercut.solvers.cached_cutting_plane import CachedCuttingPlane
from undercut.solvers.classic_bundle import ClassicBundle
from undercut.solvers.convex_concave import ConvexConcave
from undercut.solvers.cutting_plane import CuttingPlane
from undercut.solvers.driver import SOLVERS, Stop, minimize
from undercut.solvers.dual_ascent import DualAscent
from undercut.solvers.kernel_hedging import KernelHedging
from undercut.solvers.lbfgs import Lbfgs
from undercut.solvers.level_bundle import LevelBundle
from undercut.solvers.line_search_bundle import LineSearchBundle
from undercut.solvers.newton import Newton
from undercut.solvers.nonconvex_bundle import NonconvexBundle
from undercut.solvers.progressive_hedging import ProgressiveHedging
from undercut.solvers.proximal_bundle import ProximalBundle
from undercut.solvers.subgradient import Subgradient

__all__ = [
    "SOLVERS",
    "CachedCuttingPlane",
    "ClassicBundle",
    "ConvexConcave",
    "CuttingPlane",
    "DualAscent",
    "KernelHedging",
    "Lbfgs",
    "LevelBundle",
    "LineSearchBundle",
    "Newton",
    "NonconvexBundle",
    "ProgressiveHedging",
    "ProximalBundle",
    "Solver",
    "State",
    "Stop",
    "Subgradient",
    "minimize",
]
