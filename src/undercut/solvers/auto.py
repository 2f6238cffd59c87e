"""Which solver ``"auto"`` takes: one table for ``minimize`` and for every estimator.

The first row whose condition holds decides.  A new solver joins as a row, above the rows it improves on.  Where no rule
tells beforehand which solver is faster, the row is a race, most promising candidate first; ``"deterministic"`` takes
the same table with races decided by counts of passes instead of the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from undercut.contracts import (
    Design,
    LineRisk,
    MarginLoss,
    MinorizedRisk,
    PiecewiseLinearLoss,
    QuadraticRegularizer,
    Regularizer,
    Risk,
    SmoothLoss,
    SmoothRisk,
    Solver,
    SortedScores,
)
from undercut.errors import CapabilityError, require
from undercut.losses import CrammerSinger, Logistic
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.maps.gram import DenseGram
from undercut.maps.matrix import Matrix
from undercut.maps.streamed import StreamedDesign
from undercut.regularizers import L2, Entropy, KernelNorm, SquaredLp
from undercut.risks import (
    ChainRisk,
    GramRisk,
    LikelihoodRisk,
    LinearRisk,
    MulticlassRisk,
    MultivariateRisk,
    NetworkChainRisk,
    ScoreRisk,
    ShardedRisk,
    SmoothChainLoss,
)
from undercut.risks.scores.sampled_gram import MOST_FEATURES
from undercut.solvers.bundle.cached_cutting_plane import CachedCuttingPlane
from undercut.solvers.bundle.level_bundle import LevelBundle
from undercut.solvers.bundle.line_search_bundle import LineSearchBundle
from undercut.solvers.bundle.proximal_bundle import ProximalBundle
from undercut.solvers.bundle.score_bundle import LONG_STEPS, ScoreBundle
from undercut.solvers.coordinate.dual_coordinate import DualCoordinate
from undercut.solvers.coordinate.pair_descent import PairDescent
from undercut.solvers.coordinate.primal_dual import PrimalDual
from undercut.solvers.coordinate.working_set import WorkingSet
from undercut.solvers.hedging.kernel_hedging import KernelHedging
from undercut.solvers.newton.column_generation import ColumnGeneration
from undercut.solvers.newton.interior_point import InteriorPoint
from undercut.solvers.newton.least_squares import LeastSquares
from undercut.solvers.newton.newton import Newton
from undercut.solvers.newton.small_program import SmallProgram
from undercut.solvers.newton.truncated_newton import TruncatedNewton
from undercut.solvers.nonconvex.nonconvex_bundle import NonconvexBundle
from undercut.solvers.race import Race
from undercut.solvers.registry import SOLVERS, AnySolver
from undercut.solvers.relay import Relay

MANY_FEATURES = 1000  # of a sparse X: up to here planes are short, and few are needed
SEVERAL_FEATURES = 200  # of a sparse X: up to here a sweep of dual coordinate descent costs more than a few planes
STRONG = 5.0  # mean squared length of a row over (samples times lambda): up to here some ten sweeps are enough
LARGE = 100_000  # samples times features: below, the bundle alone takes milliseconds
SMALL = 250  # samples and parameters: a compiled interior point step takes a millisecond
FEW_PARAMS = 1000  # up to here an interior point step costs some passes over the data
FEW_STEPS = 5  # within which planes must halve the gap of an elastic net to go on
FEW_SAMPLES = 3000  # up to here equations of the size of the samples take some seconds at most
STEP_WORK = 10**10  # samples times squared parameters: such a step takes about a second
SEVERAL_PARAMS = 40  # below, a margin loss needs so few planes that they take less time at any lambda
WEAK, WEAK_MARGIN = 1e-3, 1e-6  # lambda below which planes need more time than interior point or Newton steps
WEAK_SMOOTH = 1e-4  # the same for rounded kinks, whose curvature jumps
FACTORED = 2000  # equations of least squares up to here
NEWTON_PARAMS = 500  # up to here a factorization costs less than the steps it saves
PER_SAMPLE = 3  # features per sample: above, planes are shorter in the space of the scores
PLANES_BYTES = 2**27  # memory of the planes of a chain: half a million weights gain nothing from more
LEAST_PLANES, MOST_PLANES = 20, 200
MANY_PARAMS = 50_000  # of a risk that is not convex: planes take less memory, and their products less time
INTERIOR_BYTES = 400  # of the vectors of an interior point method, for each sample


class Row(NamedTuple):
    """One line of the table."""

    condition: str
    holds: Callable[[Risk, Regularizer], bool]
    solver: Callable[[Risk], AnySolver]
    reason: str


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
        f"at most {SMALL} samples and parameters, kinks or bounds in the penalty",
        lambda risk, reg: _is_small(risk, reg) and not isinstance(reg, QuadraticRegularizer | Entropy | SquaredLp),
        lambda risk: Relay(candidates=(SmallProgram(), InteriorPoint(), LevelBundle())),
        "one compiled call to any accuracy, however small lambda is",
    ),
    Row(
        f"at most {SMALL} samples and parameters, another penalty that is not quadratic",
        lambda risk, reg: _is_small(risk, reg) and not isinstance(reg, QuadraticRegularizer),
        lambda risk: Relay(candidates=(SmallProgram(), LevelBundle())),
        "one compiled call to any accuracy, however small lambda is",
    ),
    Row(
        f"at most {SMALL} samples and parameters, kinked loss, weak regularization",
        lambda risk, reg: _is_weak(risk, reg) and not isinstance(risk, SmoothRisk) and _is_small(risk, reg),
        lambda risk: Relay(candidates=(SmallProgram(), InteriorPoint(), LineSearchBundle())),
        "one compiled call to any accuracy, however small lambda is",
    ),
    Row(
        f"at most {SMALL} samples and parameters, smooth loss, lambda below {WEAK_SMOOTH:g}",
        lambda risk, reg: reg.strong_convexity < WEAK_SMOOTH and isinstance(risk, SmoothRisk) and _is_small(risk, reg),
        lambda risk: Relay(candidates=(SmallProgram(), Newton())),
        "one compiled call to any accuracy, however small lambda is",
    ),
    Row(
        "L1 or elastic net, smooth loss, X in main memory",
        lambda risk, reg: _accepts(WorkingSet(), risk, reg),
        lambda risk: WorkingSet(),
        "only the parameters that are not zero, or may become so, cost anything",
    ),
    Row(
        f"kinks or bounds in the penalty, at most {FEW_PARAMS} parameters",
        lambda risk, reg: (
            not isinstance(reg, QuadraticRegularizer) and _has_few_params(risk) and _has_kinked_form(risk, reg)
        ),
        lambda risk: Relay(candidates=(InteriorPoint(), LevelBundle())),
        "a pass over the data makes a whole Newton step, and some thirty reach any accuracy",
    ),
    Row(
        "kinked loss with L1, sparse X in main memory",
        lambda risk, reg: reg.strong_convexity == 0.0 and _accepts(PrimalDual(), risk, reg),
        lambda risk: Relay(candidates=(PrimalDual(), LevelBundle())),
        "a step is two products with a small part of X, and no factorization grows with the parameters in use",
    ),
    Row(
        "kinked loss with elastic net, sparse X in main memory",
        lambda risk, reg: _accepts(PrimalDual(), risk, reg),
        lambda risk: Relay(candidates=(LevelBundle(), PrimalDual()), patience=FEW_STEPS),
        "few planes are needed where lambda is large, and it soon shows where it is not",
    ),
    Row(
        f"kinked loss with L1 or elastic net, at most {FEW_SAMPLES} samples",
        lambda risk, reg: _has_few_samples(risk) and _accepts(ColumnGeneration(), risk, reg),
        lambda risk: Relay(candidates=(ColumnGeneration(), LevelBundle())),
        "at most as many parameters as samples are needed, and slopes of the losses tell which",
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
        lambda risk, reg: _is_one(risk, ChainRisk) and isinstance(cast(ChainRisk, risk).loss, SmoothChainLoss),
        lambda risk: NonconvexBundle(line_search="greedy", max_planes=chain_planes(risk.n_params)),
        "a second evaluation per step pays where the risk is smooth",
    ),
    Row(
        "a chain with kinks",
        lambda risk, reg: _is_one(risk, ChainRisk),
        lambda risk: NonconvexBundle(line_search="single", max_planes=chain_planes(risk.n_params)),
        "one dynamic program per plane takes the least time",
    ),
    Row(
        "a likelihood of structures",
        lambda risk, reg: _is_one(risk, LikelihoodRisk),
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
        f"kinked loss, weak regularization, at most {FEW_PARAMS} parameters",
        lambda risk, reg: _is_weak(risk, reg) and _has_few_params(risk) and _has_kinked_form(risk, reg),
        lambda risk: Relay(candidates=(InteriorPoint(), LineSearchBundle())),
        "planes need the more steps the smaller lambda is, Newton steps along the central path do not",
    ),
    Row(
        f"a measure of all labels or a ranking, over {PER_SAMPLE} features per sample",
        lambda risk, reg: _sorts(risk) and _accepts(ScoreBundle(), risk, reg) and _is_much_wider(risk),
        lambda risk: ScoreBundle(),
        "a plane has two entries per sample instead of one per feature",
    ),
    Row(
        "a measure of all labels or a ranking",
        lambda risk, reg: _sorts(risk),
        lambda risk: LONG_STEPS if isinstance(risk, MultivariateRisk) else LevelBundle(bound_every=4),
        "a point on a line costs a sort, as a plane does, and a plane says more",
    ),
    Row(
        f"several classes, margin loss, large sparse X with more than {MANY_FEATURES} features",
        lambda risk, reg: (
            isinstance(risk, MulticlassRisk)
            and isinstance(risk.loss, CrammerSinger)
            and _is_wide(risk)
            and _has_dual(risk, reg)
        ),
        lambda risk: DualCoordinate(),
        "planes are far longer than rows; its gap falls late where lambda is very small, which loses races",
    ),
    Row(
        f"several classes, margin loss, large sparse X; over {SEVERAL_FEATURES} features or strong regularization",
        lambda risk, reg: (
            isinstance(risk, MulticlassRisk)
            and isinstance(risk.loss, CrammerSinger)
            and (_has_several_features(risk) or _is_strong(risk, reg))
            and _has_dual(risk, reg)
        ),
        lambda risk: Race(candidates=(DualCoordinate(), LineSearchBundle())),
        "a plane has an entry for every feature and class, a dual step for those of one sample",
    ),
    Row(
        f"several classes, softmax without intercepts, large sparse X with more than {MANY_FEATURES} features",
        lambda risk, reg: isinstance(risk, MulticlassRisk) and _is_wide(risk) and _has_dual(risk, reg),
        lambda risk: Race(candidates=(DualCoordinate(), TruncatedNewton())),
        "a few sweeps are enough unless lambda is very small; then Newton steps depend less on it",
    ),
    Row(
        f"L2, large sparse X with more than {MANY_FEATURES} features; kinked loss, or squares without free intercept",
        lambda risk, reg: _is_wide(risk) and _has_quadratic_dual(risk, reg) and not _is_smooth_with_intercept(risk),
        lambda risk: Relay(candidates=(DualCoordinate(), LineSearchBundle())),
        "dual coordinate descent never multiplies by planes, and conjugate gradients help it at small lambda",
    ),
    Row(
        f"large sparse X with more than {MANY_FEATURES} features; kinked loss, or no free intercept",
        lambda risk, reg: _is_wide(risk) and _has_dual(risk, reg) and not _is_smooth_with_intercept(risk),
        lambda risk: Race(candidates=(DualCoordinate(), LineSearchBundle())),
        "a few sweeps are enough unless lambda is very small; then planes of a smooth loss are faster",
    ),
    Row(
        f"kinked loss, strong regularization, large sparse X with more than {SEVERAL_FEATURES} features",
        lambda risk, reg: (
            isinstance(risk, LinearRisk)
            and isinstance(risk.loss, PiecewiseLinearLoss)
            and _has_several_features(risk)
            and _is_strong(risk, reg)
            and _has_dual(risk, reg)
        ),
        lambda risk: Race(candidates=(DualCoordinate(), LineSearchBundle())),
        "some ten sweeps, most over few samples, take less time than the planes",
    ),
    Row(
        "squared loss, X dense or with few features",
        lambda risk, reg: _is_least_squares(risk, reg),
        lambda risk: LeastSquares(),
        "one system of linear equations is the whole work",
    ),
    Row(
        f"the risk is smooth and has at most {NEWTON_PARAMS} parameters",
        lambda risk, reg: isinstance(risk, SmoothRisk) and risk.n_params <= NEWTON_PARAMS,
        lambda risk: Newton(),
        "a handful of steps reach any accuracy, however small lambda is",
    ),
    Row(
        f"smooth loss, one score per sample, lambda below {WEAK:g}, at most {MOST_FEATURES} features in main memory",
        lambda risk, reg: _is_narrow(risk) and reg.strong_convexity < WEAK and _accepts(TruncatedNewton(), risk, reg),
        lambda risk: TruncatedNewton(),
        "an approximate inverse makes its directions cheap at any lambda; its bound comes late, which loses races",
    ),
    Row(
        f"smooth loss; several classes, lambda below {WEAK:g}, or large sparse X with over {MANY_FEATURES} features",
        lambda risk, reg: _needs_many_planes(risk, reg) and _accepts(TruncatedNewton(), risk, reg),
        lambda risk: Race(candidates=(TruncatedNewton(), LineSearchBundle())),
        "a Newton step takes fewer products with X than the planes that it replaces",
    ),
    Row(
        "the risk is smooth and has Hessian products",
        lambda risk, reg: _accepts(TruncatedNewton(), risk, reg),
        lambda risk: Race(candidates=(LineSearchBundle(), TruncatedNewton())),
        "few planes are needed where lambda is large",
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
    >>> from undercut import Hinge, L1, LinearRisk
    >>> risk = LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge())
    >>> [solver.name for solver in resolve("auto", risk, L1(0.1)).candidates]
    ['SmallProgram', 'InteriorPoint', 'LevelBundle']
    """
    if isinstance(solver, Solver):
        return solver
    if solver in SOLVERS:
        return SOLVERS[solver]()
    names = ("auto", "deterministic", *SOLVERS)
    require(solver in names, f"`solver` must be {', '.join(map(repr, names))}, or a Solver", solver)
    chosen = within_memory(next(row.solver(risk) for row in TABLE if row.holds(risk, reg)), risk)
    if isinstance(chosen, Race) and solver == "deterministic":
        return replace(chosen, deterministic=True)
    return chosen


def chain_planes(n_params: int) -> int:
    """As many planes as fit into 128 MB, within limits."""
    return min(max(PLANES_BYTES // (8 * n_params), LEAST_PLANES), MOST_PLANES)


def plane_settings(n_params: int) -> dict[str, Any]:
    """How planes of a risk that is not convex are stored: from many parameters on in single precision."""
    if n_params < MANY_PARAMS:
        return {}
    return {"precision": "single", "max_planes": min(max(PLANES_BYTES // (4 * n_params), LEAST_PLANES), MOST_PLANES)}


def within_memory(solver: AnySolver, risk: Risk) -> AnySolver:
    """The solver with as many planes as fit beside rows that stay on disk; itself where X is in memory."""
    X = _features(risk)
    if not isinstance(X, StreamedDesign):
        return solver
    if isinstance(solver, Race | Relay):
        return replace(solver, candidates=tuple(within_memory(each, risk) for each in solver.candidates))
    most = max(X.plane_bytes // (3 * 8 * risk.n_params), LEAST_PLANES)  # they are copied when their number doubles
    planes = getattr(solver, "max_planes", 0)
    return replace(cast(Any, solver), max_planes=most) if planes is None or planes > most else solver


def _accepts(solver: AnySolver, risk: Risk, reg: Regularizer) -> bool:
    try:
        solver.check(risk, reg)
    except CapabilityError:
        return False
    return True


def _is_one(risk: Risk, kind: type) -> bool:
    """Whether a risk, or each of its shards, is of a kind."""
    return issubclass(risk.kind, kind) if isinstance(risk, ShardedRisk) else isinstance(risk, kind)


def _sorts(risk: Risk) -> bool:
    """Whether a trial point on a line costs as much as a plane."""
    if isinstance(risk, ShardedRisk):
        return risk.is_sorted
    return isinstance(risk, ScoreRisk) and isinstance(risk.phi, SortedScores)


def _is_much_wider(risk: Risk) -> bool:
    """Whether X has so many features for its samples that vectors of scores are short."""
    n_samples, n_features = cast(ScoreRisk, risk).design.shape
    return bool(n_features > PER_SAMPLE * n_samples)


def _has_kinked_form(risk: Risk, reg: Regularizer) -> bool:
    X = _features(risk)
    fits = not isinstance(X, StreamedDesign) or X.has_room(INTERIOR_BYTES)
    return fits and _accepts(InteriorPoint(), risk, reg)


def _is_small(risk: Risk, reg: Regularizer) -> bool:
    is_small = isinstance(risk, LinearRisk) and max(risk.n_samples, risk.n_params) <= SMALL
    return is_small and _accepts(SmallProgram(), risk, reg)


def _is_narrow(risk: Risk) -> bool:
    return isinstance(risk, LinearRisk) and isinstance(risk.design, Matrix) and risk.n_params <= MOST_FEATURES


def _has_few_samples(risk: Risk) -> bool:
    return isinstance(risk, LinearRisk) and risk.n_samples <= FEW_SAMPLES


def _has_few_params(risk: Risk) -> bool:
    """Whether X'DX costs little."""
    is_linear = isinstance(risk, LinearRisk) and risk.n_params <= FEW_PARAMS
    return is_linear and cast(LinearRisk, risk).n_samples * risk.n_params**2 <= STEP_WORK


def _is_weak(risk: Risk, reg: Regularizer) -> bool:
    """Whether lambda is so small that planes need many steps."""
    if not isinstance(risk, LinearRisk):
        return False
    if not isinstance(risk.loss, MarginLoss):
        return reg.strong_convexity < WEAK
    has_several = risk.n_params >= SEVERAL_PARAMS or max(risk.n_samples, risk.n_params) <= SMALL
    return reg.strong_convexity < WEAK_MARGIN and has_several


def _is_least_squares(risk: Risk, reg: Regularizer) -> bool:
    """Whether the equations of ridge regression are small enough to be factored."""
    if not _accepts(LeastSquares(), risk, reg):
        return False
    n_samples, n_features = cast(LinearRisk, risk).design.shape
    if not isinstance(cast(LinearRisk, risk).design, DenseDesign):
        return bool(n_features <= NEWTON_PARAMS)
    least = min(n_samples, n_features)
    return bool(least <= FACTORED and n_samples * n_features * least <= STEP_WORK)


def _features(risk: Risk) -> Design | None:
    """X itself, which several classes share; ``None`` where a risk is no function of scores."""
    if isinstance(risk, MulticlassRisk):
        return risk.features
    return risk.design if isinstance(risk, ScoreRisk) else None


def _is_large_and_sparse(risk: Risk) -> bool:
    """Whether X is sparse, and so large that it matters how it is read."""
    if not isinstance(risk, LinearRisk | MulticlassRisk):
        return False
    X = _features(risk)
    return isinstance(X, SparseDesign) and bool(X.shape[0] * X.shape[1] >= LARGE)


def _has_several_features(risk: Risk) -> bool:
    return _is_large_and_sparse(risk) and bool(cast(Design, _features(risk)).shape[1] > SEVERAL_FEATURES)


def _is_strong(risk: Risk, reg: Regularizer) -> bool:
    """Whether X is sparse, and the dual so well conditioned that few sweeps are enough."""
    if not _is_large_and_sparse(risk):
        return False
    X = cast(SparseDesign, _features(risk))
    values, n = X.rows().values, X.shape[0]
    return bool(np.vdot(values, values) <= STRONG * reg.strong_convexity * n**2)


def _is_wide(risk: Risk) -> bool:
    """Whether a sparse X has so many features that planes, which are dense, are the larger part of the work."""
    return _is_large_and_sparse(risk) and bool(cast(Design, _features(risk)).shape[1] > MANY_FEATURES)


def _needs_many_planes(risk: Risk, reg: Regularizer) -> bool:
    """Whether planes are wide, or many of them are needed."""
    return _is_wide(risk) or isinstance(risk, MulticlassRisk) or reg.strong_convexity < WEAK


def _is_smooth_with_intercept(risk: Risk) -> bool:
    """Whether Newton steps find the free intercept together with w."""
    return isinstance(risk, LinearRisk) and risk.fit_intercept and isinstance(risk.loss, SmoothLoss)


def _has_dual(risk: Risk, reg: Regularizer) -> bool:
    return _accepts(DualCoordinate(), risk, reg)


def _has_quadratic_dual(risk: Risk, reg: Regularizer) -> bool:
    if not (isinstance(risk, LinearRisk) and isinstance(reg, L2) and _has_dual(risk, reg)):
        return False
    return not isinstance(risk.loss, Logistic)


def _is_kernel_machine(risk: Risk, reg: Regularizer) -> bool:
    return isinstance(risk, GramRisk) and isinstance(reg, KernelNorm)


def _is_stored(risk: Risk) -> bool:
    return isinstance(risk, GramRisk) and isinstance(risk.gram, DenseGram) and risk.gram.on_host
