"""What the table of ``auto`` asks about a risk and a regularizer."""

from __future__ import annotations

from typing import cast

import numpy as np

from undercut.contracts import (
    CurvedRisk,
    Design,
    MarginLoss,
    PiecewiseLinearLoss,
    Regularizer,
    Risk,
    SmoothLoss,
    SortedScores,
)
from undercut.errors import CapabilityError
from undercut.losses import CrammerSinger, Logistic, SquaredHinge
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.maps.gram import DenseGram
from undercut.maps.matrix import Matrix
from undercut.maps.streamed import StreamedDesign
from undercut.regularizers import L2, Entropy, KernelNorm, SquaredLp
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
from undercut.solvers.registry import AnySolver

MANY_FEATURES = 1000  # of a sparse X: up to here planes are short, and few are needed
SEVERAL_FEATURES = 200  # of a sparse X: up to here a sweep of dual coordinate descent costs more than a few planes
STRONG = 5.0  # condition of the dual: up to here some ten sweeps, or a few planes, are enough
STRONGEST, FLAT = 0.01, 30.0  # condition of the dual, and that of the primal: up to here a few planes are enough
EASY_DUAL = 1.0  # condition of the dual up to which sweeps for squares take less time than Newton steps
WEAK_DUAL = 5.0  # condition of the dual from which on sweeps over few samples take less time than Newton steps ...
WEAK_BALANCED, WEAK_DENSE = 50.0, 500.0  # ... with a free intercept, and for dense X, where products are fast
WEAK_CLASSES, MANY_SAMPLES = 100.0, 10  # condition, samples per feature: above both, sweeps of classes gain little
LARGE = 100_000  # samples times features: below, the bundle alone takes milliseconds
SMALL = 250  # samples and parameters: a compiled interior point step takes a millisecond
QUICK = 16_000_000  # operations: such a step takes a millisecond
SAMPLE_WORK = 1000  # of a sample in such a step, beside the products of its features
FEW_PARAMS = 1000  # up to here an interior point step costs some passes over the data
FEW_SAMPLES = 3000  # up to here equations of the size of the samples take some seconds at most
STEP_WORK = 10**10  # samples times squared parameters: such a step takes about a second
SEVERAL_PARAMS = 40  # below, a margin loss needs so few planes that they take less time at any lambda
WEAK, WEAK_MARGIN = 1e-3, 1e-6  # lambda below which planes need more time than interior point or Newton steps
FACTORED = 2000  # equations of least squares up to here
NEWTON_PARAMS = 500  # up to here a factorization costs less than the steps it saves
PER_SAMPLE = 3  # features per sample: above, planes are shorter in the space of the scores
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


def is_quick(risk: Risk, reg: Regularizer) -> bool:
    """Whether all steps of an interior point method, compiled or not, take some ten milliseconds."""
    if not isinstance(risk, LinearRisk) or isinstance(reg, Entropy | SquaredLp):
        return False
    n, d = risk.design.shape
    return n * (d * min(n, d) + SAMPLE_WORK) <= QUICK and accepts(SmallProgram(), risk, reg)


def is_kinked(risk: Risk) -> bool:
    return isinstance(risk, LinearRisk) and isinstance(risk.loss, PiecewiseLinearLoss)


def has_margins(risk: Risk) -> bool:
    return isinstance(risk, MulticlassRisk) and isinstance(risk.loss, CrammerSinger)


def is_narrow(risk: Risk) -> bool:
    return isinstance(risk, LinearRisk) and isinstance(risk.design, Matrix) and risk.n_params <= MOST_FEATURES


def has_few_samples(risk: Risk) -> bool:
    return isinstance(risk, LinearRisk) and risk.n_samples <= FEW_SAMPLES


def has_few_params(risk: Risk) -> bool:
    """Whether X'DX costs little."""
    if not isinstance(risk, LinearRisk):
        return False
    return risk.n_params <= FEW_PARAMS and risk.n_samples * risk.n_params**2 <= STEP_WORK


def is_weak(risk: Risk, reg: Regularizer) -> bool:
    """Whether lambda is so small that planes need many steps."""
    if not isinstance(risk, LinearRisk):
        return False
    if not isinstance(risk.loss, MarginLoss):
        return reg.strong_convexity < WEAK
    has_several = risk.n_params >= SEVERAL_PARAMS or max(risk.n_samples, risk.n_params) <= SMALL
    return reg.strong_convexity < WEAK_MARGIN and has_several


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
    values, n = X.rows().values, X.shape[0]
    return float(np.vdot(values, values)) / max(reg.strong_convexity * n**2, 1e-300)


def is_strong(risk: Risk, reg: Regularizer) -> bool:
    """Whether X is sparse, and the dual so well conditioned that few sweeps are enough."""
    X = large_sparse(risk)
    return X is not None and dual_condition(X, reg) <= STRONG


def is_strongest(risk: Risk, reg: Regularizer) -> bool:
    """Whether X is sparse, and lambda so large that a few planes are enough."""
    X = large_sparse(risk)
    return X is not None and dual_condition(X, reg) <= max(STRONGEST, FLAT / X.shape[0])


def has_weak_classes(risk: Risk, reg: Regularizer) -> bool:
    """Whether lambda is very small, and samples are so many that sweeps may need longer than planes."""
    X = large_sparse(risk)
    if X is None or X.shape[0] <= MANY_SAMPLES * X.shape[1]:
        return False
    return dual_condition(X, reg) > WEAK_CLASSES


def has_few_rows(risk: Risk) -> bool:
    """Whether X is sparse, and its rows are at most twice as many as its features."""
    X = large_sparse(risk)
    return X is not None and bool(X.shape[0] <= 2 * X.shape[1])


def has_short_dual(risk: Risk, reg: Regularizer) -> bool:
    """Whether a smooth loss has few dual variables, and lambda is so small that Newton steps need many products.

    Those of the squared hinge need many steps too: the samples within the margin change from one to the next.
    """
    X = features(risk)
    if not (isinstance(risk, CurvedRisk) and isinstance(X, Matrix) and has_dual(risk, reg)):
        return False
    is_hinge = isinstance(risk, LinearRisk) and isinstance(risk.loss, SquaredHinge)
    if X.shape[0] > (2 if is_hinge else 1) * X.shape[1]:
        return False
    if not isinstance(X, SparseDesign):
        return is_hinge and dual_condition(X, reg) >= WEAK_DENSE
    return dual_condition(X, reg) >= (WEAK_BALANCED if is_smooth_with_intercept(risk) else WEAK_DUAL)


def has_easy_dual(risk: Risk, reg: Regularizer) -> bool:
    """Whether the dual of squares without free intercept is so well conditioned that few sweeps are enough."""
    X = large_sparse(risk)
    if X is None or not has_quadratic_dual(risk, reg) or is_smooth_with_intercept(risk):
        return False
    return dual_condition(X, reg) <= EASY_DUAL


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


def is_kernel_machine(risk: Risk, reg: Regularizer) -> bool:
    return isinstance(risk, GramRisk) and isinstance(reg, KernelNorm)


def is_stored(risk: Risk) -> bool:
    return isinstance(risk, GramRisk) and isinstance(risk.gram, DenseGram) and risk.gram.on_host
