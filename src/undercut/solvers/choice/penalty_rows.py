"""The lines of the table of ``auto`` for penalties that are not quadratic; ``auto`` says which come before."""

from __future__ import annotations

from undercut.contracts import QuadraticRegularizer
from undercut.solvers.bundle.level_bundle import LevelBundle
from undercut.solvers.choice.conditions import (
    FEW_PARAMS,
    FEW_SAMPLES,
    MANY_FEATURES,
    accepts,
    has_dual,
    has_few_params,
    has_few_samples,
    has_kinked_form,
    is_strong,
    is_wide,
    samples_per_feature,
)
from undercut.solvers.choice.penalty_conditions import (
    FEW_NONZEROS,
    TINY_SHARE,
    ends_a_path,
    has_expensive_hessian,
    has_few_nonzeros,
    has_full_classes,
    has_full_working_sets,
    has_sparse_margins,
)
from undercut.solvers.choice.row import FEW_STEPS, MANY_STEPS, SEVERAL_STEPS, Row
from undercut.solvers.choice.sweep_conditions import LONG_ENTRIES, MANY_PER_FEATURE
from undercut.solvers.coordinate.dual_coordinate import DualCoordinate
from undercut.solvers.coordinate.primal_dual import PrimalDual
from undercut.solvers.coordinate.proximal_sweeps import ProximalSweeps
from undercut.solvers.coordinate.smoothing import Smoothing
from undercut.solvers.coordinate.working_set import WorkingSet
from undercut.solvers.newton.column_generation import ColumnGeneration
from undercut.solvers.newton.interior_point import InteriorPoint
from undercut.solvers.relay import Relay

PENALTY_ROWS = (
    Row(
        f"elastic net, smooth loss, large sparse X with over {MANY_FEATURES} features, few samples, small lambda",
        lambda risk, reg: (
            is_wide(risk)
            and samples_per_feature(risk) <= 2.0
            and accepts(WorkingSet(), risk, reg)
            and has_dual(risk, reg)
            and not is_strong(risk, reg)
        ),
        lambda risk: Relay(candidates=(DualCoordinate(), WorkingSet())),
        "many parameters are not zero, and a sweep over the samples costs the same however many",
    ),
    Row(
        f"L1 or elastic net, smooth loss, dense X with at most {FEW_PARAMS} samples and more features, tiny lambda",
        lambda risk, reg: ends_a_path(risk, reg) and accepts(WorkingSet(), risk, reg),
        lambda risk: Relay(candidates=(InteriorPoint(), WorkingSet())),
        "nearly as many parameters as samples are not zero, and which ones hardly matters to an interior point step",
    ),
    Row(
        f"logistic, squared hinge or Huber loss with L1 or elastic net, at most {FEW_PARAMS} parameters, lambda below "
        f"{TINY_SHARE:g} of the smallest with w = 0",
        lambda risk, reg: has_full_working_sets(risk, reg) and accepts(WorkingSet(), risk, reg),
        lambda risk: Relay(candidates=(InteriorPoint(), WorkingSet())),
        "nearly all parameters are not zero, and a step on all of them costs less than descent",
    ),
    Row(
        f"softmax with elastic net, dense X, over {FEW_PARAMS} parameters, lambda below {TINY_SHARE:g} of the smallest "
        "with w = 0",
        lambda risk, reg: has_full_classes(risk, reg) and accepts(WorkingSet(), risk, reg),
        lambda risk: Relay(candidates=(LevelBundle(), WorkingSet()), patience=MANY_STEPS),
        "a quadratic model of nearly all parameters costs as much as dozens of planes",
    ),
    Row(
        f"L1 or elastic net, smooth loss, X in main memory, at most {FEW_PARAMS} parameters",
        lambda risk, reg: has_few_params(risk) and accepts(WorkingSet(), risk, reg) and has_kinked_form(risk, reg),
        lambda risk: Relay(candidates=(WorkingSet(), InteriorPoint()), patience=FEW_STEPS),
        "only the parameters that are not zero cost anything; features of very different sizes need Newton steps",
    ),
    Row(
        "L1 or elastic net, smooth loss, X in main memory",
        lambda risk, reg: accepts(WorkingSet(), risk, reg),
        lambda risk: WorkingSet(),
        "only the parameters that are not zero, or may become so, cost anything",
    ),
    Row(
        f"kinked loss with L1 or elastic net, at most {FEW_PARAMS} parameters, lambda from {FEW_NONZEROS:g} of the "
        "smallest with w = 0",
        has_few_nonzeros,
        lambda risk: Relay(candidates=(LevelBundle(), InteriorPoint(), LevelBundle()), patience=SEVERAL_STEPS),
        "few planes are enough where few parameters are not zero",
    ),
    Row(
        f"kinked loss with L1 or elastic net, sparse X with {LONG_ENTRIES} entries a row, at most {FEW_PARAMS} "
        "parameters",
        has_expensive_hessian,
        lambda risk: Relay(candidates=(LevelBundle(), InteriorPoint(), LevelBundle()), patience=MANY_STEPS),
        "an interior point step costs as much as dozens of planes",
    ),
    Row(
        f"kinks or bounds in the penalty, at most {FEW_PARAMS} parameters",
        lambda risk, reg: (
            not isinstance(reg, QuadraticRegularizer) and has_few_params(risk) and has_kinked_form(risk, reg)
        ),
        lambda risk: Relay(candidates=(InteriorPoint(), LevelBundle())),
        "a pass over the data makes a whole Newton step, and some thirty reach any accuracy",
    ),
    Row(
        "kinked loss with L1, sparse X in main memory",
        lambda risk, reg: reg.strong_convexity == 0.0 and accepts(PrimalDual(), risk, reg),
        lambda risk: Relay(candidates=(PrimalDual(), LevelBundle())),
        "steps of two products with a part of X find the parameters, interior point steps on these the last digits",
    ),
    Row(
        "kinked loss with elastic net, sparse X in main memory",
        lambda risk, reg: accepts(PrimalDual(), risk, reg),
        lambda risk: Relay(candidates=(LevelBundle(), PrimalDual()), patience=FEW_STEPS),
        "few planes are needed where lambda is large, and it soon shows where it is not",
    ),
    Row(
        f"several classes, margin loss with L1 or elastic net, over {MANY_PER_FEATURE} samples per feature",
        lambda risk, reg: has_sparse_margins(risk, reg) and samples_per_feature(risk) > MANY_PER_FEATURE,
        lambda risk: Relay(candidates=(LevelBundle(), ProximalSweeps()), patience=SEVERAL_STEPS),
        "a plane costs less than a sweep over so many samples, and few are needed for few parameters",
    ),
    Row(
        "several classes, margin loss with L1, X in main memory",
        lambda risk, reg: reg.strong_convexity == 0.0 and has_sparse_margins(risk, reg),
        lambda risk: Relay(candidates=(ProximalSweeps(), Smoothing())),
        "sweeps on the dual leave out most classes of most samples; Newton steps are there for the last digits",
    ),
    Row(
        "several classes, margin loss with elastic net, X in main memory",
        has_sparse_margins,
        lambda risk: Relay(candidates=(ProximalSweeps(), LevelBundle())),
        "the squares make the dual smooth, and some hundred sweeps reach any accuracy",
    ),
    Row(
        f"kinked loss with L1 or elastic net, at most {FEW_SAMPLES} samples",
        lambda risk, reg: has_few_samples(risk) and accepts(ColumnGeneration(), risk, reg),
        lambda risk: Relay(candidates=(ColumnGeneration(), LevelBundle())),
        "at most as many parameters as samples are needed, and slopes of the losses tell which",
    ),
    Row(
        "the regularizer is not quadratic",
        lambda risk, reg: not isinstance(reg, QuadraticRegularizer),
        lambda risk: LevelBundle(),
        "steps stay near the best point, so the model needs no strong convexity",
    ),
)
