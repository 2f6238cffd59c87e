"""What the rows of ``auto`` for L1 and the elastic net ask, beside ``conditions``."""

from __future__ import annotations

import math

import numpy as np

from undercut.contracts import Regularizer, Risk
from undercut.losses import Logistic
from undercut.maps.dense import DenseDesign
from undercut.regularizers import L1, ElasticNet
from undercut.risks import LinearRisk, MulticlassRisk, ScoreRisk
from undercut.solvers.choice.conditions import (
    FEW_PARAMS,
    accepts,
    has_few_params,
    has_few_samples,
    has_kinked_form,
    is_bent,
    is_kinked,
    is_short,
)
from undercut.solvers.choice.sweep_conditions import has_long_rows
from undercut.solvers.coordinate.proximal_sweeps import ProximalSweeps
from undercut.solvers.newton.proximal_newton import ProximalNewton
from undercut.solvers.newton.small_program import SmallProgram

GRAM_WORK = 3_000_000  # entries of X times features: up to here compiled code makes Gram matrices about as fast as BLAS
GRAM_ENTRIES = 100_000  # of X: with more, its transpose takes longer than all that is not linear algebra
GRAM_SAMPLES = 3  # per feature: with fewer, a small lambda leaves so many parameters that models are nearly singular
NEAR_ZERO = 0.03  # lambda over the smallest one with w = 0: above, few parameters are not zero, and soon found
FEW_NONZEROS = 0.3  # the same: from here on planes of a kinked loss take less time than interior point steps
WEAK_SHARE = 1e-3  # lambda over the smallest one with w = 0: below, an L1 path with few samples is nearly at its end
TINY_SHARE = 1e-4  # the same: below, working sets hold nearly all parameters


def has_small_gram(risk: Risk, reg: Regularizer) -> bool:
    """Whether X is dense, and a few Newton steps with its Gram matrix take less time than anything else."""
    if not (isinstance(reg, L1 | ElasticNet) and isinstance(risk, LinearRisk) and isinstance(risk.design, DenseDesign)):
        return False
    n, d = risk.design.shape
    is_little = n * d <= GRAM_ENTRIES and n * d * d <= GRAM_WORK
    return bool(is_little and n >= GRAM_SAMPLES * d) and accepts(ProximalNewton(), risk, reg)


def is_small_and_sparse(risk: Risk, reg: Regularizer) -> bool:
    """Whether a loss that ``is_bent``, with L1 or elastic net, is one compiled call, and working sets are not small."""
    if not (is_bent(risk) and isinstance(reg, L1 | ElasticNet) and accepts(SmallProgram(), risk, reg)):
        return False
    assert isinstance(risk, LinearRisk)
    if isinstance(risk.design, DenseDesign) and risk.n_samples >= GRAM_SAMPLES * risk.n_params:
        return False
    return has_few_samples(risk) and zero_share(risk, reg) < NEAR_ZERO


def has_few_nonzeros(risk: Risk, reg: Regularizer) -> bool:
    """Whether L1 or elastic net is so strong that few planes of a kinked loss are enough."""
    if not (is_kinked(risk) and isinstance(reg, L1 | ElasticNet) and has_few_params(risk)):
        return False
    return has_kinked_form(risk, reg) and zero_share(risk, reg) >= FEW_NONZEROS


def has_expensive_hessian(risk: Risk, reg: Regularizer) -> bool:
    """Whether a kinked loss with such a penalty has few parameters, but rows so long that planes take less time."""
    if not (is_kinked(risk) and isinstance(reg, L1 | ElasticNet) and risk.n_params <= FEW_PARAMS):
        return False
    return has_long_rows(risk) and has_kinked_form(risk, reg)


def has_sparse_margins(risk: Risk, reg: Regularizer) -> bool:
    """Whether the risk is a margin loss of several classes with L1 or elastic net, for which there are sweeps."""
    return isinstance(reg, L1 | ElasticNet) and accepts(ProximalSweeps(), risk, reg)


def zero_share(risk: Risk, reg: L1 | ElasticNet) -> float:
    """The strength of L1, relative to the smallest one with which w = 0 is optimal."""
    cut = risk.cut_at_zero if isinstance(risk, ScoreRisk) else risk.cut(np.zeros(risk.n_params))
    steepest = float(np.abs(cut.a).max(initial=0.0))
    return float(reg.terms.l1) / steepest if steepest > 0.0 else math.inf


def ends_a_path(risk: Risk, reg: Regularizer) -> bool:
    """Whether X is short, and lambda so small that the penalty hardly keeps a parameter at zero."""
    return is_short(risk) and isinstance(reg, L1 | ElasticNet) and zero_share(risk, reg) < WEAK_SHARE


def has_full_working_sets(risk: Risk, reg: Regularizer) -> bool:
    """Whether that holds for more samples, and Newton steps on working sets of this loss need searches."""
    if not (isinstance(risk, LinearRisk) and has_few_params(risk) and isinstance(reg, L1 | ElasticNet)):
        return False
    return (is_bent(risk) or isinstance(risk.loss, Logistic)) and zero_share(risk, reg) < TINY_SHARE


def has_full_classes(risk: Risk, reg: Regularizer) -> bool:
    """Whether models of softmax on a dense X have so many parameters that planes take less time."""
    if not (
        isinstance(risk, MulticlassRisk) and isinstance(risk.features, DenseDesign) and isinstance(reg, ElasticNet)
    ):
        return False
    return risk.n_params > FEW_PARAMS and reg.strong_convexity > 0.0 and zero_share(risk, reg) < TINY_SHARE
