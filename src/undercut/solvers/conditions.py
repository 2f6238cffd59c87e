"""What the table of ``auto`` asks about a risk and a regularizer."""

from __future__ import annotations

from typing import cast

import numpy as np

from undercut.contracts import (
    Design,
    MarginLoss,
    Regularizer,
    Risk,
    SmoothLoss,
    SortedScores,
)
from undercut.errors import CapabilityError
from undercut.losses import Logistic
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
STRONG = 5.0  # mean squared length of a row over (samples times lambda): up to here some ten sweeps are enough
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


def is_wider(risk: Risk) -> bool:
    """Whether X has more features than samples."""
    return isinstance(risk, LinearRisk) and bool(risk.design.shape[1] > risk.design.shape[0])


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


def is_strong(risk: Risk, reg: Regularizer) -> bool:
    """Whether X is sparse, and the dual so well conditioned that few sweeps are enough."""
    X = large_sparse(risk)
    if X is None:
        return False
    values, n = X.rows().values, X.shape[0]
    return bool(np.vdot(values, values) <= STRONG * reg.strong_convexity * n**2)


def is_wide(risk: Risk) -> bool:
    """Whether a sparse X has so many features that planes, which are dense, are the larger part of the work."""
    X = large_sparse(risk)
    return X is not None and bool(X.shape[1] > MANY_FEATURES)


def needs_many_planes(risk: Risk, reg: Regularizer) -> bool:
    """Whether planes are wide, or many of them are needed."""
    return is_wide(risk) or isinstance(risk, MulticlassRisk) or reg.strong_convexity < WEAK


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
