"""What the table of ``auto`` asks about a risk and a regularizer."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from undercut.contracts import (
    Design,
    MarginLoss,
    PiecewiseLinearLoss,
    Regularizer,
    Risk,
    SmoothLoss,
    SortedScores,
)
from undercut.errors import CapabilityError
from undercut.losses import CrammerSinger, Exponential, Huber, HuberHinge, Logistic, Poisson, SquaredHinge
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.maps.gram import DenseGram
from undercut.maps.matrix import Matrix
from undercut.maps.streamed import StreamedDesign
from undercut.regularizers import L1, L2, ElasticNet, KernelNorm
from undercut.risks import (
    GramRisk,
    LinearRisk,
    MulticlassRisk,
    ScoreRisk,
    ShardedRisk,
)
from undercut.risks.scores.sampled_gram import MOST_FEATURES
from undercut.solvers.coordinate.dual_coordinate import DualCoordinate
from undercut.solvers.newton.interior_point import InteriorPoint
from undercut.solvers.newton.least_squares import LeastSquares
from undercut.solvers.newton.small_program import SmallProgram
from undercut.solvers.newton.truncated_newton import TruncatedNewton
from undercut.solvers.registry import AnySolver

MANY_FEATURES = 1000  # of a sparse X: up to here planes are short, and few are needed
SEVERAL_FEATURES = 200  # up to here sweeps over a sparse X cost more than a few planes, and Hessians little
STRONG = 5.0  # condition of the dual: up to here some ten sweeps, or a few planes, are enough
TWO_SIDED = 0.3  # of the condition for losses with a kink at the target, which needs more sweeps than a margin
STRONGEST, FLAT = 0.03, 30.0  # condition of the dual, and that of the primal: up to here a few planes are enough
STRONGEST_WIDE = 0.001  # the first where planes are long
SHORT_ROWS = 20  # entries of a sparse row: up to here a Hessian costs no more than a few products
LARGE = 100_000  # samples times features: below, the bundle alone takes milliseconds
SMALL = 250  # samples and parameters: a compiled interior point step takes a millisecond
LEAST_WORK, SOME_WORK = 100_000, 1_000_000  # of a Gram matrix: it takes less time than a plane, or a Newton step
BENT_SAMPLES = 100  # up to here one compiled call takes less time than Newton steps across jumps of second derivatives
MODERATE = 1.0  # condition of the dual of a small problem: up to here a few planes or Newton steps are enough
QUICK_WORK = 6_000_000  # up to here a kinked loss with some hundred samples is one compiled call of milliseconds
QUICK_CONDITION = 0.3  # condition of the dual of such a problem with L2: up to here a few planes or sweeps are enough
WEAK_SMOOTH = 1e-4  # lambda below which a small problem with a smooth loss needs many Newton steps
ILL_CONDITIONED = 100.0  # condition of the dual from which on one compiled call takes less time than Newton steps
FEW_PARAMS = 1000  # up to here an interior point step costs some passes over the data
FEW_SAMPLES = 3000  # up to here equations of the size of the samples take some seconds at most
STEP_WORK = 10**10  # samples times squared parameters: such a step takes about a second
SPARSE_WORK = 10  # a product of two entries of a sparse row takes as long as so many of BLAS
SEVERAL_PARAMS = 40  # below, so few planes are needed that they take less time at any lambda
WEAK, WEAK_MARGIN = 1e-3, 1e-6  # lambda below which planes need more time than interior point or Newton steps
LITTLE_WORK = 20_000_000  # samples times squared parameters: such a step takes a few milliseconds
SHORT_ENTRIES = 10_000_000  # of a dense X with few samples: an interior point step takes about a second
FACTORED = 2000  # equations of least squares up to here
NEWTON_PARAMS = 500  # up to here a factorization costs less than the steps it saves
HESSIAN_PARAMS, HESSIAN_SAMPLES = 300, 30  # of a dense X: parameters, and samples for each, so that ...
HESSIAN_CONDITION = 30.0  # ... from this condition of the dual on Hessians take less time than products
CLASS_PARAMS = 100  # the same for several classes, each pair of which has its own part of the Hessian
PER_SAMPLE = 3  # features per sample: above, planes are shorter in the space of the scores
BLOCK = 10**6  # entries that are squared at a time, in double precision
INTERIOR_BYTES = 400  # of the vectors of an interior point method, for each sample


def accepts(solver: AnySolver, risk: Risk, reg: Regularizer) -> bool:
    try:
        solver.check(risk, reg)
    except CapabilityError:
        return False
    return True


def is_one(risk: Risk, kind: type) -> bool:
    """Whether a risk, or each of its shards, is of a kind."""
    return issubclass(risk.kind, kind) if isinstance(risk, ShardedRisk) else isinstance(risk, kind)


def sorts(risk: Risk) -> bool:
    """Whether a trial point on a line costs as much as a plane."""
    if isinstance(risk, ShardedRisk):
        return risk.is_sorted
    return isinstance(risk, ScoreRisk) and isinstance(risk.phi, SortedScores)


def is_much_wider(risk: Risk) -> bool:
    """Whether X has so many features for its samples that vectors of scores are short."""
    n_samples, n_features = cast(ScoreRisk, risk).design.shape
    return bool(n_features > PER_SAMPLE * n_samples)


def has_kinked_form(risk: Risk, reg: Regularizer) -> bool:
    X = features(risk)
    fits = not isinstance(X, StreamedDesign) or X.has_room(INTERIOR_BYTES)
    return fits and accepts(InteriorPoint(), risk, reg)


def is_small(risk: Risk, reg: Regularizer) -> bool:
    is_small = isinstance(risk, LinearRisk) and max(risk.n_samples, risk.n_params) <= SMALL
    return is_small and accepts(SmallProgram(), risk, reg)


def is_quick_program(risk: Risk, reg: Regularizer) -> bool:
    """Whether a kinked loss on a dense X with some hundred samples is one compiled call, and not only few planes."""
    if not (is_kinked(risk) and isinstance(reg, L1 | ElasticNet | L2) and accepts(SmallProgram(), risk, reg)):
        return False
    assert isinstance(risk, LinearRisk)
    work = _work(risk)
    if not (isinstance(risk.design, DenseDesign) and SMALL < risk.n_samples <= FEW_PARAMS and work <= QUICK_WORK):
        return False
    if not isinstance(reg, L2):
        return True
    is_costly = work <= LEAST_WORK or dual_condition(risk.design, reg) > QUICK_CONDITION * spread(risk)
    return is_costly and not is_strongest(risk, reg)


def is_bent(risk: Risk) -> bool:
    """Whether a smooth loss has jumps in its second derivative, which quadratic models do not show."""
    return isinstance(risk, LinearRisk) and isinstance(risk.loss, Huber | HuberHinge | SquaredHinge)


def is_small_and_weak(risk: Risk, reg: Regularizer) -> bool:
    """Whether such a loss with L2 is one compiled call, and lambda so small that others need many steps.

    Very small problems have their own rows (``is_small``).
    """
    if not (isinstance(risk, LinearRisk) and is_bent(risk) and isinstance(reg, L2)):
        return False
    if max(risk.n_samples, risk.n_params) <= SMALL or not has_few_samples(risk):
        return False
    is_weak = accepts(SmallProgram(), risk, reg) and reg.strong_convexity > 0.0
    return is_weak and dual_condition(cast(Matrix, risk.design), reg) > ILL_CONDITIONED


def is_kinked(risk: Risk) -> bool:
    return isinstance(risk, LinearRisk) and isinstance(risk.loss, PiecewiseLinearLoss)


def has_margins(risk: Risk) -> bool:
    return isinstance(risk, MulticlassRisk) and isinstance(risk.loss, CrammerSinger)


def is_narrow(risk: Risk) -> bool:
    X = features(risk) if isinstance(risk, LinearRisk | MulticlassRisk) else None
    return isinstance(X, Matrix) and X.shape[1] <= MOST_FEATURES


def has_late_bound(risk: Risk, reg: Regularizer) -> bool:
    """Whether planes at Newton points prove little until the end, so that a race would judge them wrongly."""
    has_classes = isinstance(risk, MulticlassRisk) and isinstance(risk.features, Matrix)
    is_certain = is_narrow(risk) or has_classes or 1.0 <= samples_per_feature(risk) < math.inf
    return is_certain and reg.strong_convexity < WEAK and accepts(TruncatedNewton(), risk, reg)


def has_few_planes(risk: Risk, reg: Regularizer) -> bool:
    """Whether a smooth loss of one score has fewer samples than features in a sparse X, so that planes are few.

    The slopes of the Poisson loss are not bounded, so that it needs many planes.
    """
    is_wider = large_sparse(risk) is not None and samples_per_feature(risk) < 1.0
    if not (is_wider and isinstance(risk, LinearRisk)) or isinstance(risk.loss, Poisson):
        return False
    return accepts(TruncatedNewton(), risk, reg)


def has_weak_hinge(risk: Risk, reg: Regularizer) -> bool:
    """Whether a squared hinge on few features of a sparse X may be nearly zero, so that few samples matter."""
    if not (isinstance(risk, LinearRisk) and isinstance(risk.loss, SquaredHinge) and is_narrow(risk)):
        return False
    return isinstance(risk.design, SparseDesign) and reg.strong_convexity < WEAK and has_dual(risk, reg)


def has_few_samples(risk: Risk) -> bool:
    return isinstance(risk, LinearRisk) and risk.n_samples <= FEW_SAMPLES


def has_few_params(risk: Risk) -> bool:
    """Whether X'DX costs little."""
    if not isinstance(risk, LinearRisk) or risk.n_params > FEW_PARAMS:
        return False
    n, d = risk.design.shape
    if not isinstance(risk.design, SparseDesign):
        return bool(n * d**2 <= STEP_WORK)
    return bool(SPARSE_WORK * risk.design.rows().values.size ** 2 <= STEP_WORK * n)


def is_weak(risk: Risk, reg: Regularizer) -> bool:
    """Whether lambda is so small that planes need many steps."""
    if not isinstance(risk, LinearRisk):
        return False
    return reg.strong_convexity < (WEAK_MARGIN if isinstance(risk.loss, MarginLoss) else WEAK)


def has_quick_steps(risk: LinearRisk) -> bool:
    """Whether X is dense, with few samples but not very few, and an interior point step takes a few milliseconds."""
    n_samples, work = risk.n_samples, risk.n_samples * risk.n_params**2
    return isinstance(risk.design, DenseDesign) and SMALL < n_samples <= FEW_SAMPLES and work <= LITTLE_WORK


def spread(risk: LinearRisk) -> float:
    """The size of scores that matter: how far targets are apart, and 1 for margins."""
    if isinstance(risk.loss, MarginLoss):
        return 1.0
    return float(risk.weight @ np.abs(risk.y - risk.weight @ risk.y))


def is_short(risk: Risk) -> bool:
    """Whether a dense X has more features than samples, and few of these; with few features, planes are few too."""
    if not (isinstance(risk, LinearRisk) and isinstance(risk.design, DenseDesign)) or risk.n_params < SEVERAL_PARAMS:
        return False
    n_samples, n_features = risk.design.shape
    return bool(n_samples < n_features and n_samples <= FEW_PARAMS and n_samples * n_features <= SHORT_ENTRIES)


def is_short_and_wide(risk: Risk, reg: Regularizer) -> bool:
    """Whether that holds for a kinked problem, and planes are not so few that they take less time."""
    if not (isinstance(risk, LinearRisk) and is_short(risk) and accepts(InteriorPoint(), risk, reg)):
        return False
    return dual_condition(cast(DenseDesign, risk.design), reg) > STRONG


def is_least_squares(risk: Risk, reg: Regularizer) -> bool:
    """Whether the equations of ridge regression are small enough to be factored."""
    if not (isinstance(risk, LinearRisk) and accepts(LeastSquares(), risk, reg)):
        return False
    n_samples, n_features = risk.design.shape
    if not isinstance(risk.design, DenseDesign):
        return bool(n_features <= NEWTON_PARAMS)
    least = min(n_samples, n_features)
    return bool(least <= FACTORED and n_samples * n_features * least <= STEP_WORK)


def features(risk: Risk) -> Design | None:
    """X itself, which several classes share; ``None`` where a risk is no function of scores."""
    if isinstance(risk, MulticlassRisk):
        return risk.features
    return risk.design if isinstance(risk, ScoreRisk) else None


def large_sparse(risk: Risk) -> SparseDesign | None:
    """X, if it is sparse and so large that it matters how it is read."""
    X = features(risk) if isinstance(risk, LinearRisk | MulticlassRisk) else None
    return X if isinstance(X, SparseDesign) and X.shape[0] * X.shape[1] >= LARGE else None


def has_several_features(risk: Risk) -> bool:
    X = large_sparse(risk)
    return X is not None and bool(X.shape[1] > SEVERAL_FEATURES)


def dual_condition(X: Matrix, reg: Regularizer) -> float:
    """Mean squared length of a row over (samples times lambda): how far dual variables depend on each other."""
    return mean_square(X) / max(reg.strong_convexity * X.shape[0], 1e-300)


def relative_condition(risk: LinearRisk, reg: Regularizer) -> float:
    """The condition of the dual in the unit of the scores, which tells how many sweeps are needed.

    A kink at the target needs more of them than a margin.
    """
    share = 1.0 if isinstance(risk.loss, MarginLoss) else TWO_SIDED
    return dual_condition(cast(Matrix, risk.design), reg) / max(share * spread(risk), 1e-300)


def is_strong(risk: Risk, reg: Regularizer) -> bool:
    """Whether X is sparse, and the dual so well conditioned that few sweeps are enough."""
    X = large_sparse(risk)
    return X is not None and dual_condition(X, reg) <= STRONG


def needs_planes(risk: Risk, reg: Regularizer) -> bool:
    """Whether planes for a small problem with a kinked loss take longer than one compiled call."""
    if not isinstance(risk, LinearRisk) or not isinstance(risk.design, Matrix):
        return False
    return _work(risk) <= LEAST_WORK or dual_condition(risk.design, reg) > MODERATE


def needs_newton_steps(risk: Risk, reg: Regularizer) -> bool:
    """Whether Newton steps for a small problem with a smooth loss take longer than one compiled call."""
    if not isinstance(risk, LinearRisk) or not isinstance(risk.design, Matrix):
        return False
    if reg.strong_convexity < WEAK_SMOOTH:
        return True
    if isinstance(risk.loss, Logistic | Exponential | Poisson):
        is_quick = _work(risk) <= SOME_WORK
    else:
        is_quick = isinstance(risk.loss, Huber | HuberHinge) and risk.n_samples <= BENT_SAMPLES
    return is_quick and dual_condition(risk.design, reg) > MODERATE


def _work(risk: LinearRisk) -> int:
    """Of the smaller Gram matrix of X."""
    n, d = risk.design.shape
    return int(n * d * min(n, d))


def is_strongest(risk: Risk, reg: Regularizer) -> bool:
    """Whether X is in memory, and lambda so large that a few planes are enough."""
    X = features(risk)
    limit = STRONGEST_WIDE if is_wide(risk) else STRONGEST
    return isinstance(X, Matrix) and dual_condition(X, reg) <= max(limit, FLAT / X.shape[0])


def samples_per_feature(risk: Risk) -> float:
    """Infinite where X is not in memory."""
    X = features(risk)
    return X.shape[0] / X.shape[1] if isinstance(X, Matrix) and X.shape[1] > 0 else math.inf


def has_large_hessian(risk: Risk, reg: Regularizer) -> bool:
    """Whether a Newton step by products costs less than a Hessian, and the samples determine w."""
    if isinstance(risk, MulticlassRisk):
        return risk.n_params > CLASS_PARAMS
    if not isinstance(risk, LinearRisk) or risk.n_params <= SEVERAL_FEATURES or has_short_rows(risk):
        return False
    return 2.0 < samples_per_feature(risk) < math.inf and not _has_many_products(risk, reg)


def _has_many_products(risk: LinearRisk, reg: Regularizer) -> bool:
    """Whether X is dense and lambda so small that products for a certified gap take longer than some Hessians."""
    if not isinstance(risk.design, DenseDesign) or risk.n_params > HESSIAN_PARAMS:
        return False
    is_tall = samples_per_feature(risk) >= HESSIAN_SAMPLES
    return is_tall and dual_condition(risk.design, reg) > HESSIAN_CONDITION


def has_short_rows(risk: LinearRisk) -> bool:
    X = risk.design
    return isinstance(X, SparseDesign) and X.rows().values.size <= SHORT_ROWS * X.shape[0]


def mean_square(X: Matrix) -> float:
    """The mean squared length of a row."""
    values, total = X.rows().values, 0.0
    for start in range(0, values.size, BLOCK):
        part = values[start : start + BLOCK].astype(np.float64, copy=False)
        total += float(np.vdot(part, part))
    return total / X.shape[0]


def is_wide(risk: Risk) -> bool:
    """Whether a sparse X has so many features that planes, which are dense, are the larger part of the work."""
    X = large_sparse(risk)
    return X is not None and bool(X.shape[1] > MANY_FEATURES)


def is_smooth_with_intercept(risk: Risk) -> bool:
    """Whether Newton steps find the free intercept together with w."""
    return isinstance(risk, LinearRisk) and risk.fit_intercept and isinstance(risk.loss, SmoothLoss)


def has_dual(risk: Risk, reg: Regularizer) -> bool:
    return accepts(DualCoordinate(), risk, reg)


def has_quadratic_dual(risk: Risk, reg: Regularizer) -> bool:
    if not (isinstance(risk, LinearRisk) and isinstance(reg, L2) and has_dual(risk, reg)):
        return False
    return not isinstance(risk.loss, Logistic)


def is_margin_dual(risk: Risk, reg: Regularizer) -> bool:
    return isinstance(risk, LinearRisk) and isinstance(risk.loss, MarginLoss) and has_dual(risk, reg)


def is_kernel_machine(risk: Risk, reg: Regularizer) -> bool:
    return isinstance(risk, GramRisk) and isinstance(reg, KernelNorm)


def is_stored(risk: Risk) -> bool:
    return isinstance(risk, GramRisk) and isinstance(risk.gram, DenseGram) and risk.gram.on_host
