"""Solvers: one file per method, and the driver that runs them."""

from undercut.solvers.bundle.cached_cutting_plane import CachedCuttingPlane
from undercut.solvers.bundle.cutting_plane import CuttingPlane
from undercut.solvers.bundle.dual_ascent import DualAscent
from undercut.solvers.bundle.level_bundle import LevelBundle
from undercut.solvers.bundle.line_search_bundle import LineSearchBundle
from undercut.solvers.bundle.proximal_bundle import ProximalBundle
from undercut.solvers.bundle.score_bundle import ScoreBundle
from undercut.solvers.coordinate.dual_coordinate import DualCoordinate
from undercut.solvers.coordinate.majorant_sweeps import MajorantSweeps
from undercut.solvers.coordinate.pair_descent import PairDescent
from undercut.solvers.coordinate.primal_dual import PrimalDual
from undercut.solvers.coordinate.proximal_sweeps import ProximalSweeps
from undercut.solvers.coordinate.smoothing import Smoothing
from undercut.solvers.coordinate.working_set import WorkingSet
from undercut.solvers.driver import Stop, minimize
from undercut.solvers.hedging.asynchronous_hedging import AsynchronousHedging
from undercut.solvers.hedging.kernel_hedging import KernelHedging
from undercut.solvers.hedging.progressive_hedging import ProgressiveHedging
from undercut.solvers.newton.class_interior_point import ClassInteriorPoint
from undercut.solvers.newton.column_generation import ColumnGeneration
from undercut.solvers.newton.interior_point import InteriorPoint
from undercut.solvers.newton.lbfgs import Lbfgs
from undercut.solvers.newton.least_squares import LeastSquares
from undercut.solvers.newton.newton import Newton
from undercut.solvers.newton.proximal_newton import ProximalNewton
from undercut.solvers.newton.small_program import SmallProgram
from undercut.solvers.newton.truncated_newton import TruncatedNewton
from undercut.solvers.nonconvex.classic_bundle import ClassicBundle
from undercut.solvers.nonconvex.convex_concave import ConvexConcave
from undercut.solvers.nonconvex.nonconvex_bundle import NonconvexBundle
from undercut.solvers.nonconvex.stochastic_gradient import StochasticGradient
from undercut.solvers.nonconvex.subgradient import Subgradient
from undercut.solvers.online.partitions import AlongPartitions, MeanOfPartitions
from undercut.solvers.race import Race
from undercut.solvers.registry import SOLVERS
from undercut.solvers.relay import Relay
from undercut.solvers.saving.checkpoint import Checkpoint

__all__ = [
    "SOLVERS",
    "AlongPartitions",
    "AsynchronousHedging",
    "CachedCuttingPlane",
    "Checkpoint",
    "ClassInteriorPoint",
    "ClassicBundle",
    "ColumnGeneration",
    "ConvexConcave",
    "CuttingPlane",
    "DualAscent",
    "DualCoordinate",
    "InteriorPoint",
    "KernelHedging",
    "Lbfgs",
    "LeastSquares",
    "LevelBundle",
    "LineSearchBundle",
    "MajorantSweeps",
    "MeanOfPartitions",
    "Newton",
    "NonconvexBundle",
    "PairDescent",
    "PrimalDual",
    "ProgressiveHedging",
    "ProximalBundle",
    "ProximalNewton",
    "ProximalSweeps",
    "Race",
    "Relay",
    "ScoreBundle",
    "SmallProgram",
    "Smoothing",
    "StochasticGradient",
    "Stop",
    "Subgradient",
    "TruncatedNewton",
    "WorkingSet",
    "minimize",
]
