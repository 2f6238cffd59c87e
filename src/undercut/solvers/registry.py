"""Every solver by its name, the class name in snake_case: a new solver is one file and one line here."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from undercut.contracts import Solver
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
from undercut.solvers.online import Adaptive, OptimisticProximal, Pegasos, Proximal
from undercut.solvers.online.partitions import AlongPartitions, MeanOfPartitions

AnySolver: TypeAlias = Solver[Any, Any, Any]


def snake_case(name: str) -> str:
    """``CuttingPlane`` is ``cutting_plane``.

    >>> snake_case("LineSearchBundle")
    'line_search_bundle'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_ALL: tuple[type[AnySolver], ...] = (
    LineSearchBundle,
    CuttingPlane,
    CachedCuttingPlane,
    DualAscent,
    ProximalBundle,
    LevelBundle,
    ScoreBundle,
    Newton,
    TruncatedNewton,
    SmallProgram,
    ProximalNewton,
    InteriorPoint,
    ClassInteriorPoint,
    ColumnGeneration,
    LeastSquares,
    Lbfgs,
    NonconvexBundle,
    ClassicBundle,
    ConvexConcave,
    Subgradient,
    StochasticGradient,
    DualCoordinate,
    MajorantSweeps,
    WorkingSet,
    PrimalDual,
    ProximalSweeps,
    Smoothing,
    PairDescent,
    KernelHedging,
    ProgressiveHedging,
    AsynchronousHedging,
    OptimisticProximal,
    Proximal,
    Adaptive,
    Pegasos,
    AlongPartitions,
    MeanOfPartitions,
)
SOLVERS: dict[str, type[AnySolver]] = {snake_case(solver.__name__): solver for solver in _ALL}
