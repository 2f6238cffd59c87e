"""Which solver ``"auto"`` takes: one table for ``minimize`` and for every estimator.

The first row whose condition holds decides.  A new solver joins as a row, above the rows it improves on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from undercut.contracts import LineRisk, MinorizedRisk, QuadraticRegularizer, Regularizer, Risk, SmoothRisk, Solver
from undercut.errors import require
from undercut.maps.gram import DenseGram
from undercut.regularizers import KernelNorm
from undercut.risks import ChainRisk, GramRisk, SmoothChainLoss
from undercut.solvers.bundle.cached_cutting_plane import CachedCuttingPlane
from undercut.solvers.bundle.level_bundle import LevelBundle
from undercut.solvers.bundle.line_search_bundle import LineSearchBundle
from undercut.solvers.bundle.proximal_bundle import ProximalBundle
from undercut.solvers.coordinate.pair_descent import PairDescent
from undercut.solvers.hedging.kernel_hedging import KernelHedging
from undercut.solvers.newton.newton import Newton
from undercut.solvers.nonconvex.nonconvex_bundle import NonconvexBundle
from undercut.solvers.registry import SOLVERS, AnySolver

NEWTON_PARAMS = 500  # up to here a factorization costs less than the steps it saves
PLANES_BYTES = 2**27  # memory of the planes of a chain: half a million weights gain nothing from more
LEAST_PLANES, MOST_PLANES = 20, 200


class Row(NamedTuple):
    """One line of the table."""

    condition: str
    holds: Callable[[Risk, Regularizer], bool]
    solver: Callable[[Risk], AnySolver]
    reason: str


TABLE = (
    Row(
        "the risk is not convex",
        lambda risk, reg: not risk.is_convex,
        lambda risk: NonconvexBundle(line_search="greedy"),
        "the only method whose planes are lowered until they fit; a search finds good points early",
    ),
    Row(
        "kernel machine, Gram matrix in main memory",
        lambda risk, reg: _is_kernel_machine(risk, reg) and _is_stored(risk),
        lambda risk: PairDescent(),
        "coordinate descent on the whole dual needs the fewest operations where any entry is at hand",
    ),
    Row(
        "kernel machine, Gram matrix on a device or computed on demand",
        lambda risk, reg: _is_kernel_machine(risk, reg),
        lambda risk: KernelHedging(),
        "its steps are products with the whole matrix, which a device does best",
    ),
    Row(
        "the regularizer is not quadratic",
        lambda risk, reg: not isinstance(reg, QuadraticRegularizer),
        lambda risk: LevelBundle(),
        "steps stay near the best point, so the model needs no strong convexity",
    ),
    Row(
        "the risk has a cheap minorant",
        lambda risk, reg: isinstance(risk, MinorizedRisk),
        lambda risk: CachedCuttingPlane(),
        "worthwhile when decoding is expensive: most planes need no decoding",
    ),
    Row(
        "a chain with a smooth loss",
        lambda risk, reg: isinstance(risk, ChainRisk) and isinstance(risk.loss, SmoothChainLoss),
        lambda risk: NonconvexBundle(line_search="greedy", max_planes=chain_planes(risk.n_params)),
        "a second evaluation per step pays where the risk is smooth",
    ),
    Row(
        "a chain with kinks",
        lambda risk, reg: isinstance(risk, ChainRisk),
        lambda risk: NonconvexBundle(line_search="single", max_planes=chain_planes(risk.n_params)),
        "one dynamic program per plane takes the least time",
    ),
    Row(
        "the risk has no line search",
        lambda risk, reg: not isinstance(risk, LineRisk),
        lambda risk: ProximalBundle(),
        "a proximal term keeps the steps short where lambda is small",
    ),
    Row(
        f"the risk is smooth and has at most {NEWTON_PARAMS} parameters",
        lambda risk, reg: isinstance(risk, SmoothRisk) and risk.n_params <= NEWTON_PARAMS,
        lambda risk: Newton(),
        "a handful of steps reach any accuracy, however small lambda is",
    ),
    Row(
        "anything else",
        lambda risk, reg: True,
        lambda risk: LineSearchBundle(),
        "the fastest certified method for linear models",
    ),
)


def resolve(solver: AnySolver | str, risk: Risk, reg: Regularizer) -> AnySolver:
    """The solver itself, the one of that name, or what the table says.

    >>> import numpy as np
    >>> from undercut import Hinge, L1, L2, LinearRisk
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge())
    >>> [type(resolve("auto", risk, reg)).__name__ for reg in (L2(0.1), L1(0.1))]
    ['LineSearchBundle', 'LevelBundle']
    """
    if isinstance(solver, Solver):
        return solver
    if solver in SOLVERS:
        return SOLVERS[solver]()
    require(solver == "auto", f"`solver` must be 'auto', {', '.join(map(repr, SOLVERS))}, or a Solver", solver)
    return next(row.solver(risk) for row in TABLE if row.holds(risk, reg))


def chain_planes(n_params: int) -> int:
    """As many planes as fit into 128 MB, within limits."""
    return min(max(PLANES_BYTES // (8 * n_params), LEAST_PLANES), MOST_PLANES)


def _is_kernel_machine(risk: Risk, reg: Regularizer) -> bool:
    return isinstance(risk, GramRisk) and isinstance(reg, KernelNorm)


def _is_stored(risk: Risk) -> bool:
    return isinstance(risk, GramRisk) and isinstance(risk.gram, DenseGram) and risk.gram.on_host
