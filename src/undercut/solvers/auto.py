"""Which solver ``"auto"`` takes: one table for ``minimize`` and for every estimator.

The first row whose condition holds decides.  A new solver joins as a row, above the rows it improves on.  Where no rule
tells beforehand which solver is faster, the row is a race, most promising candidate first; ``"deterministic"`` takes
the same table with races decided by counts of passes instead of the clock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from undercut.contracts import (
    LineRisk,
    MinorizedRisk,
    QuadraticRegularizer,
    Regularizer,
    Risk,
    SmoothRisk,
    Solver,
)
from undercut.errors import ParameterError
from undercut.regularizers import Entropy, SquaredLp
from undercut.risks import (
    ChainRisk,
    LikelihoodRisk,
    MultivariateRisk,
    NetworkChainRisk,
    SmoothChainLoss,
)
from undercut.solvers.bundle.cached_cutting_plane import CachedCuttingPlane
from undercut.solvers.bundle.level_bundle import LevelBundle
from undercut.solvers.bundle.line_search_bundle import LineSearchBundle
from undercut.solvers.bundle.proximal_bundle import ProximalBundle
from undercut.solvers.bundle.score_bundle import LONG_STEPS, ScoreBundle
from undercut.solvers.choice.class_rows import CLASS_ROWS
from undercut.solvers.choice.conditions import (
    BENT_SAMPLES,
    FEW_PARAMS,
    FEW_SAMPLES,
    MANY_FEATURES,
    NEWTON_PARAMS,
    PER_SAMPLE,
    SEVERAL_FEATURES,
    SMALL,
    WEAK_SMOOTH,
    accepts,
    has_dual,
    has_few_params,
    has_kinked_form,
    is_kernel_machine,
    is_kinked,
    is_margin_dual,
    is_much_wider,
    is_one,
    is_quick_program,
    is_short_and_wide,
    is_small,
    is_small_and_weak,
    is_stored,
    is_strongest,
    is_weak,
    needs_newton_steps,
    needs_planes,
    sorts,
)
from undercut.solvers.choice.interior_conditions import FINE_LIMITS, ROUGH_LIMITS, is_weak_for_rows
from undercut.solvers.choice.penalty_conditions import GRAM_SAMPLES, NEAR_ZERO, has_small_gram, is_small_and_sparse
from undercut.solvers.choice.penalty_rows import PENALTY_ROWS
from undercut.solvers.choice.row import FEW_STEPS, FINE, Row
from undercut.solvers.choice.smooth_rows import SMOOTH_ROWS
from undercut.solvers.choice.sweep_conditions import (
    DENSE_SAMPLES,
    LONG_ENTRIES,
    TRIED_SWEEPS,
    has_best_dense_sweeps,
    has_best_sweeps,
    has_dense_sweeps,
    has_good_sweeps,
    has_long_rows,
    has_weak_measure,
    may_beat_interior_points,
    may_have_good_sweeps,
    tried_sweeps,
)
from undercut.solvers.coordinate.dual_coordinate import DualCoordinate
from undercut.solvers.coordinate.majorant_sweeps import MajorantSweeps
from undercut.solvers.coordinate.pair_descent import PairDescent
from undercut.solvers.hedging.kernel_hedging import KernelHedging
from undercut.solvers.memory import chain_planes, plane_settings, within_memory
from undercut.solvers.newton.interior_point import InteriorPoint
from undercut.solvers.newton.newton import Newton
from undercut.solvers.newton.proximal_newton import ProximalNewton
from undercut.solvers.newton.small_program import SmallProgram
from undercut.solvers.newton.truncated_newton import TruncatedNewton
from undercut.solvers.nonconvex.nonconvex_bundle import NonconvexBundle
from undercut.solvers.race import Race
from undercut.solvers.registry import SOLVERS, AnySolver
from undercut.solvers.relay import Relay

INTERIOR = (InteriorPoint(), LineSearchBundle())

TABLE = (
    Row(
        "a chain with a network",
        lambda risk, reg: isinstance(risk, NetworkChainRisk) and not risk.is_convex,
        lambda risk: NonconvexBundle(line_search="single", **plane_settings(risk.n_params)),
        "one evaluation per step, and its slope tells how far the next one goes",
    ),
    Row(
        "the risk is not convex",
        lambda risk, reg: not risk.is_convex,
        lambda risk: NonconvexBundle(line_search="greedy", **plane_settings(risk.n_params)),
        "the only method whose planes are lowered until they fit; a search finds good points early",
    ),
    Row(
        "kernel machine, Gram matrix in main memory",
        lambda risk, reg: is_kernel_machine(risk, reg) and is_stored(risk),
        lambda risk: PairDescent(),
        "coordinate descent on the whole dual needs the fewest operations where any entry is at hand",
    ),
    Row(
        "kernel machine, Gram matrix on a device or computed on demand",
        lambda risk, reg: is_kernel_machine(risk, reg),
        lambda risk: KernelHedging(),
        "its steps are products with the whole matrix, which a device does best",
    ),
    Row(
        f"smooth loss with L1 or elastic net, dense X of little work, {GRAM_SAMPLES} samples per feature",
        has_small_gram,
        lambda risk: Relay(candidates=(ProximalNewton(), SmallProgram(), InteriorPoint(), LevelBundle())),
        "all Newton steps are one compiled call, and BLAS would not make their Gram matrices faster",
    ),
    Row(
        f"at most {SMALL} samples and parameters, kinks or bounds in the penalty",
        lambda risk, reg: not isinstance(reg, QuadraticRegularizer | Entropy | SquaredLp) and is_small(risk, reg),
        lambda risk: Relay(candidates=(SmallProgram(), InteriorPoint(), LevelBundle())),
        "one compiled call to any accuracy, however small lambda is",
    ),
    Row(
        f"at most {SMALL} samples and parameters, another penalty that is not quadratic",
        lambda risk, reg: not isinstance(reg, QuadraticRegularizer) and is_small(risk, reg),
        lambda risk: Relay(candidates=(SmallProgram(), LevelBundle())),
        "one compiled call to any accuracy, however small lambda is",
    ),
    Row(
        f"at most {SMALL} samples and parameters, kinked loss; X of very little work, or any but a large lambda",
        lambda risk, reg: not isinstance(risk, SmoothRisk) and is_small(risk, reg) and needs_planes(risk, reg),
        lambda risk: Relay(candidates=(SmallProgram(), InteriorPoint(), LineSearchBundle())),
        "one compiled call to any accuracy, however small lambda is",
    ),
    Row(
        f"at most {SMALL} samples and parameters, smooth loss, lambda below {WEAK_SMOOTH:g}; any but a large one for a "
        f"logistic, exponential or Poisson loss and X of little work, and for Huber losses and at most {BENT_SAMPLES} "
        "samples",
        lambda risk, reg: isinstance(risk, SmoothRisk) and is_small(risk, reg) and needs_newton_steps(risk, reg),
        lambda risk: Relay(candidates=(SmallProgram(), Newton())),
        "one compiled call to any accuracy, however small lambda is",
    ),
    Row(
        f"squared hinge or Huber loss, L1 or elastic net, few samples, X of little work, sparse or with below "
        f"{GRAM_SAMPLES} samples per feature, lambda below {NEAR_ZERO:g} of the smallest with w = 0",
        is_small_and_sparse,
        lambda risk: Relay(candidates=(SmallProgram(), InteriorPoint(), LevelBundle())),
        "one compiled call; where lambda is larger, working sets are small",
    ),
    Row(
        "squared hinge or Huber loss, L2, few samples, X of little work, small lambda",
        is_small_and_weak,
        lambda risk: Relay(
            candidates=(SmallProgram(), Newton() if risk.n_params <= NEWTON_PARAMS else TruncatedNewton())
        ),
        "one compiled call; where lambda is larger, Newton steps are few",
    ),
    Row(
        "kinked loss with L1, elastic net or L2 that is not strong, dense X of little work with "
        f"{SMALL + 1} to {FEW_PARAMS} samples",
        is_quick_program,
        lambda risk: Relay(candidates=(SmallProgram(), InteriorPoint(), LevelBundle())),
        "one compiled call costs less than ten planes or a few interior point steps",
    ),
    *PENALTY_ROWS,
    Row(
        "the risk has a cheap minorant",
        lambda risk, reg: isinstance(risk, MinorizedRisk),
        lambda risk: CachedCuttingPlane(),
        "worthwhile when decoding is expensive: most planes need no decoding",
    ),
    Row(
        "a chain with a smooth loss",
        lambda risk, reg: is_one(risk, ChainRisk) and isinstance(cast(ChainRisk, risk).loss, SmoothChainLoss),
        lambda risk: NonconvexBundle(line_search="greedy", max_planes=chain_planes(risk.n_params)),
        "a second evaluation per step pays where the risk is smooth",
    ),
    Row(
        "a chain with kinks",
        lambda risk, reg: is_one(risk, ChainRisk),
        lambda risk: NonconvexBundle(line_search="single", max_planes=chain_planes(risk.n_params)),
        "one dynamic program per plane takes the least time",
    ),
    Row(
        "a likelihood of structures",
        lambda risk, reg: is_one(risk, LikelihoodRisk),
        lambda risk: NonconvexBundle(line_search="single"),
        "the slope at one point tells how far the next step goes, which saves sums over structures",
    ),
    Row(
        "the risk has no line search",
        lambda risk, reg: not isinstance(risk, LineRisk),
        lambda risk: ProximalBundle(),
        "a proximal term keeps the steps short where lambda is small",
    ),
    Row(
        f"kinked loss, gap below {FINE:g}, large sparse X, strong regularization",
        has_best_sweeps,
        lambda risk: Relay(candidates=(DualCoordinate(), LineSearchBundle())),
        "most samples are soon left out of the sweeps, and then these cost nearly nothing",
        is_fine=True,
    ),
    Row(
        f"kinked loss, gap below {FINE:g}, dense X with over {SMALL} samples, no intercept, strong regularization",
        has_best_dense_sweeps,
        lambda risk: Relay(candidates=(DualCoordinate(), *INTERIOR)),
        "some ten sweeps take less time than planes or interior point steps",
        is_fine=True,
    ),
    Row(
        f"kinked loss, very weak regularization, sparse X with {LONG_ENTRIES} entries a row, at most {FEW_PARAMS} "
        "parameters",
        lambda risk, reg: (
            has_long_rows(risk) and may_beat_interior_points(risk, reg) and is_weak_for_rows(risk, reg, ROUGH_LIMITS)
        ),
        lambda risk: Relay(candidates=(DualCoordinate(), *INTERIOR), trial=tried_sweeps(risk)),
        "Hessians are expensive, and where few samples are within the margin sweeps are soon near the optimum",
    ),
    Row(
        f"kinked loss, very weak regularization, at most {FEW_PARAMS} parameters; dense X with {SMALL + 1} to "
        f"{FEW_SAMPLES} samples at larger lambda too, with more samples and few features at none",
        lambda risk, reg: (
            has_few_params(risk) and has_kinked_form(risk, reg) and is_weak_for_rows(risk, reg, ROUGH_LIMITS)
        ),
        lambda risk: Relay(candidates=INTERIOR),
        "planes need the more steps the smaller lambda is, Newton steps along the central path do not",
    ),
    Row(
        f"kinked loss, gap below {FINE:g}, large sparse X, at most {FEW_PARAMS} parameters; lambda not very small, or "
        f"{LONG_ENTRIES} entries a row",
        lambda risk, reg: may_beat_interior_points(risk, reg) and has_dual(risk, reg),
        lambda risk: Relay(candidates=(DualCoordinate(), *INTERIOR), trial=tried_sweeps(risk)),
        "a few sweeps show whether they get there sooner than interior point steps",
        is_fine=True,
    ),
    Row(
        f"kinked loss, gap below {FINE:g}, weak regularization, at most {FEW_PARAMS} parameters; likewise",
        lambda risk, reg: (
            has_few_params(risk) and has_kinked_form(risk, reg) and is_weak_for_rows(risk, reg, FINE_LIMITS)
        ),
        lambda risk: Relay(candidates=INTERIOR),
        "a few more Newton steps make the gap a thousand times smaller, which takes planes several times as long",
        is_fine=True,
    ),
    Row(
        f"kinked loss, dense X with {SMALL + 1} to {DENSE_SAMPLES} samples, no intercept, strong regularization",
        has_dense_sweeps,
        lambda risk: Relay(candidates=(DualCoordinate(), *INTERIOR)),
        "some ten sweeps take less time than planes",
    ),
    Row(
        f"margin loss with a kink, dense X with at most {FEW_PARAMS} samples and more features, not weak",
        lambda risk, reg: is_short_and_wide(risk, reg) and not is_weak(risk, reg) and is_margin_dual(risk, reg),
        lambda risk: Relay(candidates=(DualCoordinate(), InteriorPoint(), LineSearchBundle()), patience=FEW_STEPS),
        "some ten sweeps take less time than the many planes",
    ),
    Row(
        f"kinked loss, dense X with at most {FEW_PARAMS} samples and more features",
        lambda risk, reg: is_short_and_wide(risk, reg),
        lambda risk: Relay(candidates=INTERIOR),
        "equations of the size of the samples make a whole Newton step",
    ),
    Row(
        "an F measure or the balanced error with L2, large sparse X with more features than samples, small lambda",
        has_weak_measure,
        lambda risk: Relay(candidates=(MajorantSweeps(), ScoreBundle())),
        "dual sweeps on hinge majorants take a few passes at any lambda, and planes become many",
    ),
    Row(
        f"a measure of all labels or a ranking, over {PER_SAMPLE} features per sample",
        lambda risk, reg: sorts(risk) and accepts(ScoreBundle(), risk, reg) and is_much_wider(risk),
        lambda risk: ScoreBundle(),
        "a plane has two entries per sample instead of one per feature",
    ),
    Row(
        "a measure of all labels or a ranking",
        lambda risk, reg: sorts(risk),
        lambda risk: LONG_STEPS if isinstance(risk, MultivariateRisk) else LevelBundle(bound_every=4),
        "a point on a line costs a sort, as a plane does, and a plane says more",
    ),
    *CLASS_ROWS,
    Row(
        "kinked loss, very strong regularization, X in memory",
        lambda risk, reg: is_kinked(risk) and is_strongest(risk, reg),
        lambda risk: LineSearchBundle(),
        "a few planes take less time than a few sweeps",
    ),
    Row(
        f"kinked loss, large X; few samples, or over {MANY_FEATURES} features",
        lambda risk, reg: is_kinked(risk) and has_good_sweeps(risk) and has_dual(risk, reg),
        lambda risk: Relay(candidates=(DualCoordinate(), LineSearchBundle())),
        "dual coordinate descent never multiplies by planes, and conjugate gradients help it at small lambda",
    ),
    Row(
        f"kinked loss, large sparse X with over {SEVERAL_FEATURES} features, lambda not very small",
        lambda risk, reg: is_kinked(risk) and may_have_good_sweeps(risk, reg) and has_dual(risk, reg),
        lambda risk: Relay(candidates=(DualCoordinate(), LineSearchBundle()), trial=TRIED_SWEEPS),
        "a few sweeps show whether they get there sooner than planes",
    ),
    *SMOOTH_ROWS,
    Row(
        f"kinked loss, at most {FEW_PARAMS} parameters",
        lambda risk, reg: has_few_params(risk) and has_kinked_form(risk, reg),
        lambda risk: Relay(candidates=(LineSearchBundle(), InteriorPoint(), LineSearchBundle())),
        "few planes are enough unless features have very different sizes, which Newton steps do not notice",
    ),
    Row(
        "anything else",
        lambda risk, reg: True,
        lambda risk: LineSearchBundle(),
        "the fastest certified method for linear models",
    ),
)


FOR_SQUARES = tuple(row for row in TABLE if row not in PENALTY_ROWS)  # these ask for other penalties


def resolve(solver: AnySolver | str, risk: Risk, reg: Regularizer, gap_rel: float = 1e-3) -> AnySolver:
    """The solver itself, the one of that name, or what the table says for a run that ends at a relative gap.

    >>> import numpy as np
    >>> from undercut import Hinge, L1, LinearRisk
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge())
    >>> [solver.name for solver in resolve("auto", risk, L1(0.1)).candidates]
    ['SmallProgram', 'InteriorPoint', 'LevelBundle']
    """
    if isinstance(solver, Solver):
        return solver
    if solver in SOLVERS:
        return SOLVERS[solver]()
    if solver not in ("auto", "deterministic"):
        names = ("auto", "deterministic", *SOLVERS)
        raise ParameterError(f"`solver` must be {', '.join(map(repr, names))}, or a Solver; got {solver!r}")
    rows = FOR_SQUARES if isinstance(reg, QuadraticRegularizer) else TABLE
    chosen = within_memory(next(row.solver(risk) for row in rows if row.decides(risk, reg, gap_rel)), risk)
    if isinstance(chosen, Race) and solver == "deterministic":
        return replace(chosen, deterministic=True)
    return chosen
