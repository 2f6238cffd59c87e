"""What the table of ``auto`` asks about sweeps of dual coordinate descent: whether they take less time than others."""

from __future__ import annotations

import math
from typing import cast

from undercut.contracts import CurvedRisk, Regularizer, Risk
from undercut.losses import Logistic, Softmax, SquaredHinge
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.maps.matrix import Matrix
from undercut.regularizers import L2
from undercut.risks import LinearRisk, MulticlassRisk, MultivariateRisk
from undercut.solvers.choice.conditions import (
    FEW_SAMPLES,
    LARGE,
    MANY_FEATURES,
    NEWTON_PARAMS,
    SEVERAL_FEATURES,
    SMALL,
    STRONGEST,
    STRONGEST_WIDE,
    accepts,
    dual_condition,
    features,
    has_dual,
    has_few_params,
    has_kinked_form,
    has_quadratic_dual,
    has_quick_steps,
    has_several_features,
    has_short_rows,
    is_kinked,
    is_smooth_with_intercept,
    is_strong,
    is_wide,
    large_sparse,
    relative_condition,
    samples_per_feature,
    spread,
)
from undercut.solvers.coordinate.majorant_sweeps import MajorantSweeps
from undercut.solvers.coordinate.proximal_sweeps import ProximalSweeps
from undercut.solvers.newton.class_interior_point import ClassInteriorPoint

STRONGEST_FINE = 0.004  # relative condition up to which a few planes are enough to fine gaps, unless they are long ...
STRONGEST_FREE = 0.01  # ... or the condition itself with a free intercept, which sweeps find late at large lambda ...
STRONGEST_DENSE, STRONGEST_MANY = 0.015, 0.05  # ... and with a dense X, few and many samples: planes cost less there
SWEPT = 50.0  # condition of the dual up to which sweeps for kinks may take less time
SURELY_FINE = 4.0  # relative condition up to which they do take less time to fine gaps ...
SWEPT_PARAMS, FEW_PLANES = 0.1, 10  # ... with a dense X, for each parameter beyond so many, which need few planes
SWEPT_FINE, SWEPT_WIDER = 10.0, 30.0  # conditions up to which they may to fine gaps: with few and with several features
DENSE_ROUGH, DENSE_FINE = 3.0, 1.0  # relative conditions up to which they do, to rough gaps and to fine ones ...
DENSE_MANY = 2.0  # ... and with many samples, at most: a plane over these costs little beside a sweep
DENSE_PER_FEATURE = 400  # samples per feature up to which samples are few beside planes
DENSE_SAMPLES = 1500  # up to here they do to rough gaps: a plane takes as long as with far fewer samples
LONG_ENTRIES = 64  # of a sparse row: from here on Hessians are expensive, so that sweeps or planes may win
INTERIOR_SWEEPS = 70.0  # sweeps in the time of interior point steps, for any X
ENTRY_SWEEPS = 3.0  # the same for every entry of a row, in addition
TRIED = 0.06  # share of the time of interior point steps after which sweeps must be near the optimum
TRIED_SWEEPS = 7.0  # sweeps after which they must be near it where planes come next
TRIED_CLASSES = 60.0  # the same for several classes with free intercepts, whose planes are expensive
EASY_DUAL = 1.0  # condition of the dual up to which sweeps for squares take less time than Newton steps ...
HINGE_ENTRIES = 30.0  # ... for the squared hinge, whose faces change, as much less as rows have fewer entries than this
EASY_HINGE = 1.5  # condition up to which they do for the squared hinge on long rows, to rough gaps
EASIEST_LOGISTIC, EASY_LOGISTIC = 0.1, 10.0  # conditions between which sweeps for the logistic loss do, ...
LOGISTIC_PER_ENTRY = 0.1  # ... of the second for each entry of a row at most this much, ...
LOGISTIC_ENTRIES = 45  # ... if rows have at least so many: with fewer, exponential functions take most of the time
EASY_SOFTMAX = 5.0  # the same for softmax, whose Newton steps have more parameters, ...
MANY_ENTRIES = 10**6  # ... if X has at least so many
WEAK_SOFTMAX = 0.5  # condition of the dual from which on sweeps over few samples take less time than Newton steps ...
WEAK_BALANCED, WEAK_DENSE = 10.0, 500.0  # ... and the same for the squared hinge with a free intercept, with dense X
SLOW_SWEEPS, SLOW_SAMPLES = 300.0, 0.25  # condition, samples per feature: above both, sweeps for logistic may be slow
KINKED_SAMPLES = 4.0  # samples per feature: up to here sweeps for kinks take less time than planes at any lambda

WEAK_MEASURE = 10.0  # price of a mistake times mean squared length of a row over lambda: sweeps on hinge majorants pay
PROXIMAL, PROXIMAL_EARLY = 10.0, 0.5  # conditions from which on proximal points pay: where others do well, elsewhere
PROXIMAL_FREE = 0.001  # ... and with free intercepts, whose planes are expensive
MANY_PER_FEATURE = 1000  # samples per feature above which few planes are enough for coarse gaps
CLASS_EQUATIONS = 1000  # of an interior point step with fewer samples than features, at most
SCORE_WORK = 2000.0  # of such a step for every score, in operations
LITTLE_CLASS_WORK, MOST_CLASS_WORK = 1.5e7, 2e10  # operations of a step that takes a millisecond, a third of a second


def has_weak_measure(risk: Risk, reg: Regularizer) -> bool:
    """Whether an F measure of a sparse X with more features than samples is so weakly regularized that most mistakes
    are improbable: then planes are many, and sweeps few.
    """
    if not (isinstance(risk, MultivariateRisk) and accepts(MajorantSweeps(), risk, reg)):
        return False
    X = risk.design
    if not isinstance(X, SparseDesign) or X.shape[0] * X.shape[1] < LARGE or X.shape[1] < X.shape[0]:
        return False
    return bool(min(risk.phi.prices) * X.shape[0] * dual_condition(X, reg) >= WEAK_MEASURE)


def has_proximal_sweeps(risk: Risk, reg: Regularizer) -> bool:
    """Whether sweeps with proximal points take the least time for a margin loss of several classes with L2.

    Planes are fewer with few features, and expensive with free intercepts; sweeps alone do well on sparse X.
    """
    if not (isinstance(risk, MulticlassRisk) and _may_have_proximal_sweeps(risk, reg)):
        return False
    does_well = isinstance(risk.features, SparseDesign) and not risk.fit_intercept
    has_few = risk.features.shape[1] <= SEVERAL_FEATURES and samples_per_feature(risk) > MANY_PER_FEATURE
    if has_few and not risk.fit_intercept:
        return False
    return _has_enough_condition(risk, reg, does_well)


def has_fine_proximal_sweeps(risk: Risk, reg: Regularizer) -> bool:
    """The same for fine gaps, which planes do not reach soon."""
    if not (isinstance(risk, MulticlassRisk) and _may_have_proximal_sweeps(risk, reg)):
        return False
    does_well = has_several_features(risk) and not risk.fit_intercept
    return _has_enough_condition(risk, reg, does_well)


def _has_enough_condition(risk: MulticlassRisk, reg: Regularizer, does_well: bool) -> bool:
    least = PROXIMAL_FREE if risk.fit_intercept else PROXIMAL if does_well else PROXIMAL_EARLY
    return dual_condition(cast(Matrix, risk.features), reg) > least


def _may_have_proximal_sweeps(risk: MulticlassRisk, reg: Regularizer) -> bool:
    return risk.features.shape[1] <= MANY_FEATURES and isinstance(reg, L2) and accepts(ProximalSweeps(), risk, reg)


def has_few_class_equations(risk: Risk, reg: Regularizer) -> bool:
    """Whether interior point steps for a margin loss of several classes take next to no time, or X has few samples.

    Sweeps would be few in most cases, but many where features have very different sizes or are nearly the same.
    """
    if not (isinstance(risk, MulticlassRisk) and accepts(ClassInteriorPoint(), risk, reg)):
        return False
    n_samples, n_features = risk.features.shape
    is_wide = n_samples < n_features and risk.n_classes * n_samples <= CLASS_EQUATIONS
    return is_wide or _class_work(risk) <= LITTLE_CLASS_WORK


def has_some_class_equations(risk: MulticlassRisk) -> bool:
    """Whether such steps take a third of a second at most, so that some twenty may be tried."""
    return _class_work(risk) <= MOST_CLASS_WORK


def _class_work(risk: MulticlassRisk) -> float:
    """Operations of an interior point step: samples times squared parameters, and some for every score."""
    n_params = risk.n_classes * min(risk.features.shape)
    return float(risk.n_samples) * (float(n_params) ** 2 + SCORE_WORK * risk.n_classes)


def may_have_good_free_sweeps(risk: Risk, reg: Regularizer) -> bool:
    """Whether sweeps for several classes with free intercepts may take less time than planes, which are expensive."""
    if not (isinstance(risk, MulticlassRisk) and risk.fit_intercept):
        return False
    n_samples, n_features = risk.features.shape
    has_few_samples = n_samples <= FEW_SAMPLES and n_samples * n_features >= LARGE
    return bool(has_few_samples or has_several_features(risk) or is_strong(risk, reg))


def has_good_sweeps(risk: Risk) -> bool:
    """Whether sweeps for a kinked loss take less time than planes: few samples, or long planes."""
    X = features(risk)
    is_large = X is not None and X.shape[0] * X.shape[1] >= LARGE
    if is_large and samples_per_feature(risk) <= KINKED_SAMPLES:
        return True
    return is_wide(risk)


def may_have_good_sweeps(risk: Risk, reg: Regularizer) -> bool:
    """Whether they may take less time than planes, which shows after a few."""
    return has_several_features(risk) and dual_condition(cast(Matrix, features(risk)), reg) <= SWEPT


def has_best_sweeps(risk: Risk, reg: Regularizer) -> bool:
    """Whether lambda is neither very large nor small, so that sweeps for a kink get to a fine gap soonest: sparse X."""
    if not (isinstance(risk, LinearRisk) and large_sparse(risk) is not None and is_kinked(risk)):
        return False
    if risk.fit_intercept and not is_wide(risk) and dual_condition(cast(Matrix, risk.design), reg) <= STRONGEST_FREE:
        return False
    least = STRONGEST_WIDE if is_wide(risk) else STRONGEST_FINE
    return has_dual(risk, reg) and least < relative_condition(risk, reg) <= SURELY_FINE


def has_best_dense_sweeps(risk: Risk, reg: Regularizer) -> bool:
    """The same for a dense X without free intercept, which would need more sweeps."""
    if not (isinstance(risk, LinearRisk) and _has_dense_form(risk, reg)):
        return False
    by_params = 0.0 if has_quick_steps(risk) else SWEPT_PARAMS * (risk.n_params - FEW_PLANES)
    if samples_per_feature(risk) <= DENSE_PER_FEATURE:
        least, most = STRONGEST_DENSE, max(DENSE_FINE, min(SURELY_FINE, by_params))
    else:
        least, most = STRONGEST_MANY, min(DENSE_MANY, by_params)
    return least < relative_condition(risk, reg) <= most


def has_dense_sweeps(risk: Risk, reg: Regularizer) -> bool:
    """Whether sweeps for a kink take less time than planes: dense X, few but not very few samples, large lambda."""
    if not (isinstance(risk, LinearRisk) and risk.n_samples <= DENSE_SAMPLES and _has_dense_form(risk, reg)):
        return False
    is_small = relative_condition(risk, reg) <= DENSE_ROUGH
    return is_small and dual_condition(cast(Matrix, risk.design), reg) > STRONGEST * spread(risk)


def _has_dense_form(risk: LinearRisk, reg: Regularizer) -> bool:
    """Whether sweeps for a kink, or interior point steps after them, do well on a dense X."""
    if not isinstance(risk.design, DenseDesign) or risk.fit_intercept or risk.n_samples <= SMALL:
        return False
    return is_kinked(risk) and has_few_params(risk) and has_kinked_form(risk, reg) and has_dual(risk, reg)


def may_beat_interior_points(risk: Risk, reg: Regularizer) -> bool:
    """Whether sweeps over a sparse X may take less time than interior point steps to a fine gap.

    Where lambda is small they do if few samples are within the margin, which only a trial shows.
    """
    X = large_sparse(risk)
    if X is None or not (is_kinked(risk) and has_few_params(risk) and has_kinked_form(risk, reg)):
        return False
    limit = SWEPT_WIDER if has_several_features(risk) else SWEPT_FINE
    return STRONGEST_FREE < dual_condition(X, reg) <= (math.inf if has_long_rows(risk) else limit)


def has_long_rows(risk: Risk) -> bool:
    """Whether products of all pairs of entries in a row of a sparse X, which Hessians need, are many."""
    X = large_sparse(risk)
    return X is not None and X.rows().values.size >= LONG_ENTRIES * X.shape[0]


def tried_sweeps(risk: Risk) -> float:
    """How many sweeps cost little beside an interior point method."""
    X = large_sparse(risk)
    assert X is not None
    return TRIED * (INTERIOR_SWEEPS + ENTRY_SWEEPS * _entries(X))


def has_short_dual(risk: Risk, reg: Regularizer) -> bool:
    """Whether a smooth loss has few dual variables, and sweeps over them take less time than Newton steps.

    Those of the squared hinge need many steps: the samples within the margin change from one to the next.  Sweeps
    without free intercept are few at any lambda; with one, those of the logistic loss never take less time.
    """
    X = features(risk)
    if not (isinstance(risk, CurvedRisk) and isinstance(X, Matrix) and has_dual(risk, reg)):
        return False
    is_hinge = isinstance(risk, LinearRisk) and isinstance(risk.loss, SquaredHinge)
    if samples_per_feature(risk) > (2.0 if is_hinge else 1.0):
        return False
    if not isinstance(X, SparseDesign):
        return is_hinge and dual_condition(X, reg) >= WEAK_DENSE
    if is_smooth_with_intercept(risk):
        return has_quadratic_dual(risk, reg) and dual_condition(X, reg) >= WEAK_BALANCED
    return isinstance(risk, LinearRisk) or dual_condition(X, reg) >= WEAK_SOFTMAX


def may_have_slow_sweeps(risk: Risk, reg: Regularizer) -> bool:
    """Whether sweeps for a smooth loss without kinks in its slope may be slow: many samples and a small lambda."""
    X = features(risk)
    if not (isinstance(X, Matrix) and isinstance(risk, LinearRisk) and isinstance(risk.loss, Logistic)):
        return False
    return samples_per_feature(risk) > SLOW_SAMPLES and dual_condition(X, reg) > SLOW_SWEEPS


def has_easy_dual(risk: Risk, reg: Regularizer) -> bool:
    """Whether the dual of squares without free intercept is so well conditioned that few sweeps are enough.

    With short rows a sweep, which visits them in random order, takes the time of several products with X.
    """
    if not (isinstance(risk, LinearRisk) and _has_many_squares(risk, reg)) or has_short_rows(risk):
        return False
    X = cast(SparseDesign, risk.design)
    share = min(1.0, _entries(X) / HINGE_ENTRIES) if isinstance(risk.loss, SquaredHinge) else 1.0
    return dual_condition(X, reg) <= share * EASY_DUAL


def has_easy_hinge_dual(risk: Risk, reg: Regularizer) -> bool:
    """The same for the squared hinge on long rows to rough gaps, where sweeps pay up to a somewhat larger condition."""
    if not (isinstance(risk, LinearRisk) and isinstance(risk.loss, SquaredHinge) and has_long_rows(risk)):
        return False
    return _has_many_squares(risk, reg) and dual_condition(cast(SparseDesign, risk.design), reg) <= EASY_HINGE


def _has_many_squares(risk: LinearRisk, reg: Regularizer) -> bool:
    """Whether the dual consists of squares, there is no free intercept, and X is sparse with many features."""
    return _has_many_features(risk) and has_quadratic_dual(risk, reg)


def _has_many_features(risk: Risk) -> bool:
    """Whether X is sparse and too wide for Newton's method, and sweeps find no intercept."""
    X = large_sparse(risk)
    return X is not None and bool(X.shape[1] > NEWTON_PARAMS) and not is_smooth_with_intercept(risk)


def has_easy_logistic_dual(risk: Risk, reg: Regularizer) -> bool:
    """The same for logistic losses, whose Newton steps are few at large lambda and take no time with few entries."""
    X = large_sparse(risk)
    if X is None or not (_has_many_features(risk) and has_dual(risk, reg)):
        return False
    assert isinstance(risk, LinearRisk | MulticlassRisk)
    most = 0.0
    if isinstance(risk.loss, Softmax) and X.rows().values.size >= MANY_ENTRIES:
        most = EASY_SOFTMAX
    if isinstance(risk.loss, Logistic) and _entries(X) >= LOGISTIC_ENTRIES:
        most = min(EASY_LOGISTIC, LOGISTIC_PER_ENTRY * _entries(X))
    return EASIEST_LOGISTIC <= dual_condition(X, reg) <= most


def _entries(X: SparseDesign) -> float:
    """Of a row."""
    return float(X.rows().values.size / X.shape[0])
