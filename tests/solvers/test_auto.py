"""``auto`` is one table: every row can be reached, and estimators follow it."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from tests.catalogue import Problem

from undercut import (
    L1,
    L2,
    Absolute,
    ElasticNet,
    FunctionRisk,
    Hinge,
    Huber,
    MulticlassRisk,
    Ramp,
    SequenceLabeler,
    Squared,
    SquaredHinge,
    Stop,
    minimize,
)
from undercut.contracts import QuadraticRegularizer
from undercut.losses import CrammerSinger, Logistic, Softmax
from undercut.maps.design import as_design
from undercut.maps.gram import DenseGram, RbfKernel, TiledGram
from undercut.regularizers import Entropy, KernelNorm
from undercut.risks import CRF, M3N, ChainRisk, GramRisk, LinearRisk, MultivariateRisk, PairwiseRisk, StructuredRisk
from undercut.solvers import (
    CachedCuttingPlane,
    ClassInteriorPoint,
    ColumnGeneration,
    DualCoordinate,
    InteriorPoint,
    KernelHedging,
    LeastSquares,
    LevelBundle,
    LineSearchBundle,
    Newton,
    NonconvexBundle,
    PairDescent,
    PrimalDual,
    ProximalBundle,
    ProximalNewton,
    ProximalSweeps,
    Race,
    Relay,
    SmallProgram,
    Smoothing,
    TruncatedNewton,
    WorkingSet,
)
from undercut.solvers.auto import TABLE, resolve
from undercut.solvers.bundle.score_bundle import LONG_STEPS
from undercut.solvers.choice.conditions import NEWTON_PARAMS, dual_condition
from undercut.solvers.choice.penalty_rows import PENALTY_ROWS
from undercut.solvers.choice.row import FEW_STEPS, FEWEST_STEPS, MANY_STEPS, SEVERAL_STEPS
from undercut.solvers.choice.sweep_conditions import (
    ENTRY_SWEEPS,
    INTERIOR_SWEEPS,
    LONG_ENTRIES,
    TRIED,
    TRIED_CLASSES,
    TRIED_SWEEPS,
)
from undercut.solvers.memory import LEAST_PLANES, MOST_PLANES, PLANES_BYTES, chain_planes

X, Y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([1.0, -1.0, 1.0])


class Signs:
    n_params = 2

    def joint_feature(self, x, y):
        return y * x / 2

    def label_loss(self, y, y_hat):
        return float(y != y_hat)

    def decode(self, w, x, y, rescaling):
        return -y if y * (w @ x) < 1 else y


def chain(loss):
    return ChainRisk([np.eye(2), np.eye(2)[:1]], [[0, 1], [0]], loss)


def kernel_problem(gram):
    return GramRisk(gram, Y), KernelNorm(0.1, gram)


def sparse(n, d, loss, **options):
    return LinearRisk(sp.eye_array(n, d, format="csr"), np.where(np.arange(n) % 2, 1.0, -1.0), loss, **options)


def full(n, d, loss, every=2):
    """A sparse matrix without zeros, and a negative label among ``every`` samples."""
    return LinearRisk(sp.csr_array(np.ones((n, d))), np.where(np.arange(n) % every, 1.0, -1.0), loss)


def tried_before_points(entries):
    """Sweeps first, for a time that depends on the entries of a row."""
    trial = TRIED * (INTERIOR_SWEEPS + ENTRY_SWEEPS * entries)
    return Relay(candidates=(DualCoordinate(), InteriorPoint(), LineSearchBundle()), trial=trial)


def dense(n, d, loss):
    return LinearRisk(np.random.default_rng(0).standard_normal((n, d)), np.where(np.arange(n) % 2, 1.0, -1.0), loss)


def several_classes(d, loss, n=1000, **options):
    return MulticlassRisk(sp.eye_array(n, d, format="csr"), np.arange(n) % 3, loss, **options)


def dense_classes(d, loss=None):
    return MulticlassRisk(np.random.default_rng(0).standard_normal((300, d)), np.arange(300) % 4, loss or Softmax())


PLANES_FIRST = Relay(candidates=(LineSearchBundle(), InteriorPoint(), LineSearchBundle()))
POINTS_FIRST = Relay(candidates=(InteriorPoint(), LineSearchBundle()))
ONE_CALL = Relay(candidates=(SmallProgram(), InteriorPoint(), LineSearchBundle()))
ONE_SMOOTH_CALL = Relay(candidates=(SmallProgram(), Newton()))
GRAM_FIRST = Relay(candidates=(ProximalNewton(), SmallProgram(), InteriorPoint(), LevelBundle()))
QUICK_PROGRAM = SMALL_AND_SPARSE = Relay(candidates=(SmallProgram(), InteriorPoint(), LevelBundle()))
FEW_NONZEROS = Relay(candidates=(LevelBundle(), InteriorPoint(), LevelBundle()), patience=SEVERAL_STEPS)
LONG_ROWS = Relay(candidates=(LevelBundle(), InteriorPoint(), LevelBundle()), patience=MANY_STEPS)
WORKING_SETS = Relay(candidates=(WorkingSet(), InteriorPoint()), patience=FEW_STEPS)
SWEEPS_FIRST = Relay(candidates=(DualCoordinate(), InteriorPoint(), LineSearchBundle()), patience=FEW_STEPS)
DUAL_THEN_POINTS = Relay(candidates=(DualCoordinate(), InteriorPoint(), LineSearchBundle()))
DUAL_THEN_PLANES = Relay(candidates=(DualCoordinate(), LineSearchBundle()))
TRIED_BEFORE_PLANES = Relay(candidates=(DualCoordinate(), LineSearchBundle()), trial=TRIED_SWEEPS)
TRIED_CLASSES_FIRST = Relay(candidates=(DualCoordinate(), LineSearchBundle()), trial=TRIED_CLASSES)
DUAL_THEN_NEWTON = Relay(candidates=(DualCoordinate(), TruncatedNewton()))
LOGISTIC_SWEEPS = Relay(candidates=(DualCoordinate(), TruncatedNewton()), patience=FEWEST_STEPS)
PRODUCTS_FIRST = Relay(candidates=(TruncatedNewton(), Newton()), patience=SEVERAL_STEPS)
PROXIMAL_FIRST = Relay(candidates=(ProximalSweeps(), LineSearchBundle()))
PROXIMAL_OR_POINTS = Race(candidates=(ProximalSweeps(), ClassInteriorPoint()))
NEWTON_THEN_DUAL = Relay(candidates=(TruncatedNewton(), DualCoordinate(), TruncatedNewton()))
PLANES_OR_NEWTON = Race(candidates=(LineSearchBundle(), TruncatedNewton()))
NEWTON_OR_PLANES = Race(candidates=(TruncatedNewton(), LineSearchBundle()))

CASES = [
    (LinearRisk(X, Y, Ramp()), L2(1.0), NonconvexBundle(line_search="greedy")),
    (*kernel_problem(DenseGram(X @ X.T)), PairDescent()),
    (Problem("hinge").risk(), L1(0.1), Relay(candidates=(SmallProgram(), InteriorPoint(), LevelBundle()))),
    (Problem("hinge", n=1000).risk(), L1(0.1), QUICK_PROGRAM),
    (Problem("hinge", n=1001).risk(), L1(0.01), Relay(candidates=(InteriorPoint(), LevelBundle()))),
    (Problem("squared_hinge", n=300).risk(), L1(1e-4), GRAM_FIRST),
    (Problem("squared_hinge", n=300, d=101).risk(), L1(1e-4), SMALL_AND_SPARSE),
    (Problem("hinge", n=1001).risk(), L1(10.0), FEW_NONZEROS),
    (Problem("hinge", n=3000, d=100).risk(), L1(0.1), FEW_NONZEROS),
    (Problem("hinge", n=3000, d=100).risk(), L1(1e-4), Relay(candidates=(InteriorPoint(), LevelBundle()))),
    (full(1000, 101, Hinge(), every=4), L1(1e-4), LONG_ROWS),
    (full(1000, 101, Hinge(), every=4), ElasticNet(1e-4), LONG_ROWS),
    (full(2000, 50, Hinge(), every=4), L1(1e-4), Relay(candidates=(InteriorPoint(), LevelBundle()))),
    (Problem("logistic", n=300).risk(), L1(1e-4), GRAM_FIRST),
    (Problem("logistic", n=300, d=100).risk(), L1(1e-2), GRAM_FIRST),
    (Problem("logistic", n=300, d=101).risk(), L1(1e-2), WORKING_SETS),
    (Problem("logistic", n=3000, d=100).risk(), L1(1e-4), WORKING_SETS),
    (Problem("logistic", n=3000, d=100).risk(), L1(1e-7), Relay(candidates=(InteriorPoint(), WorkingSet()))),
    (Problem("squared", n=3000, d=100).risk(), L1(1e-7), WORKING_SETS),
    (dense_classes(251), ElasticNet(1e-6), Relay(candidates=(LevelBundle(), WorkingSet()), patience=MANY_STEPS)),
    (dense_classes(250), ElasticNet(1e-6), WorkingSet()),
    (dense_classes(251), ElasticNet(0.01), WorkingSet()),
    (dense_classes(251), L1(1e-6), WorkingSet()),
    (sparse(300, 200, SquaredHinge()), ElasticNet(1e-6), SMALL_AND_SPARSE),
    (Problem("hinge").risk(), Entropy(0.1), Relay(candidates=(SmallProgram(), LevelBundle()))),
    (Problem("hinge", n=300).risk(), Entropy(0.1), LevelBundle()),
    (Problem("hinge", n=300, d=1001).risk(), L1(0.1), Relay(candidates=(ColumnGeneration(), LevelBundle()))),
    (sparse(300, 1001, Hinge()), L1(0.1), Relay(candidates=(PrimalDual(), LevelBundle()))),
    (sparse(300, 1001, Hinge()), ElasticNet(0.1), Relay(candidates=(LevelBundle(), PrimalDual()), patience=FEW_STEPS)),
    (
        MulticlassRisk(np.ones((1001, 1)), np.arange(1001) % 3, CrammerSinger()),
        L1(0.1),
        Relay(candidates=(LevelBundle(), ProximalSweeps()), patience=SEVERAL_STEPS),
    ),
    (several_classes(200, CrammerSinger()), L1(0.1), Relay(candidates=(ProximalSweeps(), Smoothing()))),
    (several_classes(200, CrammerSinger()), ElasticNet(0.1), Relay(candidates=(ProximalSweeps(), LevelBundle()))),
    (Problem("absolute", n=1000, d=7).risk(), L2(1e-6), QUICK_PROGRAM),
    (Problem("absolute", n=1001, d=7).risk(), L2(1e-6), PLANES_FIRST),
    (Problem("absolute", n=1001, d=8).risk(), L2(1e-5), POINTS_FIRST),
    (Problem("absolute", n=1001, d=8).risk(), L2(0.03), DUAL_THEN_POINTS),
    (Problem("absolute", n=1001, d=8).risk(), L2(2e-3), PLANES_FIRST),
    (Problem("absolute", n=1001, d=8, fit_intercept=True).risk(), L2(0.1), PLANES_FIRST),
    (dense(250, 20, Hinge()), L2(1.0), ONE_CALL),
    (dense(250, 21, Hinge()), L2(0.1), PLANES_FIRST),
    (dense(250, 21, Hinge()), L2(0.05), ONE_CALL),
    (dense(251, 20, Hinge()), L2(0.1), QUICK_PROGRAM),
    (dense(1500, 20, Hinge()), L2(5e-3), DUAL_THEN_POINTS),
    (dense(1500, 20, Hinge()), L2(4e-3), PLANES_FIRST),
    (dense(1501, 20, Hinge()), L2(5e-3), PLANES_FIRST),
    (Problem("absolute", n=3000, d=100).risk(), L2(1e-4), POINTS_FIRST),
    (Problem("absolute", n=3001, d=39).risk(), L2(1e-7), PLANES_FIRST),
    (Problem("absolute", n=3001, d=12, fit_intercept=True).risk(), L2(1e-7), POINTS_FIRST),
    (Problem("absolute", n=3001, d=11, fit_intercept=True).risk(), L2(1e-7), PLANES_FIRST),
    (dense(2000, 80, Hinge()), L2(3e-3), POINTS_FIRST),
    (dense(2000, 80, Hinge()), L2(5e-3), PLANES_FIRST),
    (dense(2000, 101, Hinge()), L2(3e-3), PLANES_FIRST),
    (Problem("hinge").risk(), L2(1e-7), ONE_CALL),
    (Problem("hinge").risk(), L2(1e-3), ONE_CALL),
    (Problem("hinge", n=13200, d=39).risk(), L2(1e-7), PLANES_FIRST),
    (Problem("hinge", n=13200, d=40).risk(), L2(1e-7), POINTS_FIRST),
    (dense(300, 1001, Hinge()), L2(1e-3), SWEEPS_FIRST),
    (dense(300, 1001, Hinge()), L2(1e-7), POINTS_FIRST),
    (dense(300, 1001, Hinge()), L2(100.0), LineSearchBundle()),
    (dense(300, 1001, Absolute()), L2(1e-3), POINTS_FIRST),
    (dense(300, 1001, Logistic()), L1(1e-6), Relay(candidates=(InteriorPoint(), WorkingSet()))),
    (dense(300, 1001, Logistic()), L1(0.01), WorkingSet()),
    (dense(250, 40, Hinge()), L2(1e2), LineSearchBundle()),
    (Problem("hinge", n=250, d=39).risk(), L2(1e-3), ONE_CALL),
    (Problem("hinge", n=251, d=39).risk(), L2(1e-3), QUICK_PROGRAM),
    (dense(600, 30, Hinge()), L2(10.0), LineSearchBundle()),
    (StructuredRisk(Signs(), X, [1, -1, 1], cache=2), L2(0.1), CachedCuttingPlane()),
    (chain(CRF()), L2(0.1), NonconvexBundle(line_search="greedy", max_planes=MOST_PLANES)),
    (chain(M3N()), L2(0.1), NonconvexBundle(line_search="single", max_planes=MOST_PLANES)),
    (FunctionRisk(lambda w: (float(w @ w), 2.0 * w), 2), L2(0.1), ProximalBundle()),
    (Problem("logistic").risk(), L2(1e-7), ONE_SMOOTH_CALL),
    (dense(100, 100, Logistic()), L2(0.9), ONE_SMOOTH_CALL),
    (dense(100, 100, Logistic()), L2(1.1), Newton()),
    (dense(100, 101, Logistic()), L2(0.9), Newton()),
    (dense(100, 101, Logistic()), L2(9e-5), ONE_SMOOTH_CALL),
    (dense(100, 100, Squared()), L2(0.9), LeastSquares()),
    (dense(100, 100, SquaredHinge()), L2(0.9), Newton()),
    (dense(100, 100, Huber()), L2(0.9), ONE_SMOOTH_CALL),
    (dense(101, 100, Huber()), L2(0.9), Newton()),
    (
        Problem("logistic", d=NEWTON_PARAMS + 1).risk(),
        L2(0.2),
        Race(candidates=(TruncatedNewton(), LineSearchBundle())),
    ),
    (Problem("squared_hinge", n=300).risk(), L2(1e-7), Relay(candidates=(SmallProgram(), Newton()))),
    (Problem("logistic", n=300).risk(), L2(1e-7), Newton()),
    (Problem("huber", d=NEWTON_PARAMS + 1).risk(), L2(1e-4), Relay(candidates=(SmallProgram(), TruncatedNewton()))),
    (Problem("logistic", n=300, d=NEWTON_PARAMS + 1).risk(), L2(1e-4), TruncatedNewton()),
    (Problem("logistic", n=403, d=201).risk(), L2(0.1), NEWTON_OR_PLANES),
    (Problem("logistic", n=402, d=201).risk(), L2(0.1), Newton()),
    (Problem("logistic", n=403, d=200).risk(), L2(0.1), Newton()),
    (Problem("logistic", n=9030, d=301).risk(), L2(1e-6), PRODUCTS_FIRST),
    (Problem("logistic", n=9000, d=300).risk(), L2(1e-6), Newton()),
    (Problem("logistic", n=9000, d=300).risk(), L2(1e-1), NEWTON_OR_PLANES),
    (Problem("logistic", n=8999, d=300).risk(), L2(1e-6), PRODUCTS_FIRST),
    (Problem("squared_hinge", n=300, d=NEWTON_PARAMS + 1).risk(), L2(1e-6), DUAL_THEN_NEWTON),
    (Problem("squared_hinge", n=2 * NEWTON_PARAMS + 3, d=NEWTON_PARAMS + 1).risk(), L2(1e-6), TruncatedNewton()),
    (Problem("squared").risk(), L2(0.1), LeastSquares()),
    (Problem("squared", n=300).risk(), L2(1e-8), LeastSquares()),
    (Problem("hinge", n=800, d=200).risk(), L2(1e-3), DUAL_THEN_PLANES),
    (Problem("hinge", n=801, d=200).risk(), L2(1e-3), PLANES_FIRST),
    (Problem("hinge", n=450, d=220).risk(), L2(1e-3), PLANES_FIRST),
    (Problem("hinge", n=800, d=200).risk(), L2(1e3), LineSearchBundle()),
    (Problem("logistic", n=300).risk(), L1(0.1), GRAM_FIRST),
    (Problem("squared", n=10000, d=10).risk(), L1(0.1), GRAM_FIRST),
    (Problem("squared", n=10001, d=10).risk(), L1(0.1), WORKING_SETS),
    (Problem("poisson", n=1200, d=50).risk(), ElasticNet(0.1), GRAM_FIRST),
    (Problem("poisson", n=1201, d=50).risk(), ElasticNet(0.1), WORKING_SETS),
    (sparse(300, 1001, SquaredHinge()), ElasticNet(100.0), WorkingSet()),
    (sparse(300, 1001, SquaredHinge()), ElasticNet(1e-6), Relay(candidates=(DualCoordinate(), WorkingSet()))),
    (sparse(2003, 1001, SquaredHinge()), ElasticNet(1e-6), WorkingSet()),
    (sparse(200, 1500, Hinge()), L2(0.01), DUAL_THEN_PLANES),
    (sparse(200, 1500, Hinge()), L2(0.1), LineSearchBundle()),
    (full(300, 600, SquaredHinge()), L2(10.0), DUAL_THEN_PLANES),
    (sparse(200, 1500, SquaredHinge()), L2(0.1), DUAL_THEN_NEWTON),
    (sparse(200, 1500, SquaredHinge()), L2(2e-3), DUAL_THEN_NEWTON),
    (full(1201, 501, SquaredHinge()), L2(1.0), DUAL_THEN_PLANES),
    (sparse(3001, 1500, SquaredHinge()), L2(1e-3), NEWTON_OR_PLANES),
    (sparse(3001, 1500, SquaredHinge()), L2(1e-5), NEWTON_THEN_DUAL),
    (dense(3001, 1500, SquaredHinge()), L2(1e-5), TruncatedNewton()),
    (sparse(200, 1500, SquaredHinge()), L2(1e-4), DUAL_THEN_NEWTON),
    (sparse(200, 1500, Logistic()), L2(0.1), LOGISTIC_SWEEPS),
    (sparse(200, 1500, Logistic(), fit_intercept=True), L2(1e-5), TruncatedNewton()),
    (sparse(403, 201, Logistic()), L2(0.1), Newton()),
    (sparse(200, 1500, Logistic()), L2(1e-4), LOGISTIC_SWEEPS),
    (sparse(400, 1500, Logistic()), L2(1e-6), Race(candidates=(DualCoordinate(), TruncatedNewton()))),
    (sparse(400, 1500, Logistic()), L2(1e-5), LOGISTIC_SWEEPS),
    (sparse(2000, 1500, Logistic()), L2(1e-6), TruncatedNewton()),
    (sparse(200, 1500, SquaredHinge(), fit_intercept=True), L2(0.1), NEWTON_OR_PLANES),
    (sparse(400, 3001, Logistic(), fit_intercept=True), L2(1e-6), NEWTON_OR_PLANES),
    (sparse(3001, 3001, Logistic(), fit_intercept=True), L2(1e-6), TruncatedNewton()),
    (sparse(200, 1500, SquaredHinge(), fit_intercept=True), L2(1e-5), DUAL_THEN_NEWTON),
    (sparse(4000, 30, Hinge()), L2(0.1), LineSearchBundle()),
    (sparse(30, 30, Hinge()), L2(0.1), ONE_CALL),
    (sparse(1000, 201, Hinge()), L2(1e-3), TRIED_BEFORE_PLANES),
    (sparse(1000, 201, Hinge()), L2(3e-6), PLANES_FIRST),
    (sparse(1000, 201, Hinge()), L2(5e-6), TRIED_BEFORE_PLANES),
    (full(1000, 101, Hinge()), L2(1e-6), tried_before_points(101)),
    (full(1000, 60, Hinge()), L2(1e-7), POINTS_FIRST),
    (sparse(804, 201, Hinge()), L2(1e-5), DUAL_THEN_PLANES),
    (sparse(1000, 200, Hinge()), L2(1e-3), PLANES_FIRST),
    (MultivariateRisk(X, Y, "f1"), L2(0.1), LONG_STEPS),
    (PairwiseRisk(X, Y), L2(0.1), LevelBundle(bound_every=4)),
    (several_classes(200, CrammerSinger()), L2(0.1), DUAL_THEN_PLANES),
    (several_classes(1001, CrammerSinger()), L2(0.1), DualCoordinate()),
    (several_classes(201, CrammerSinger()), L2(3e-5), DUAL_THEN_PLANES),
    (several_classes(201, CrammerSinger()), L2(1e-5), PROXIMAL_OR_POINTS),
    (several_classes(200, CrammerSinger()), L2(1e-5), PROXIMAL_OR_POINTS),
    (several_classes(2, CrammerSinger(), n=50_000), L2(1e-12), LineSearchBundle()),
    (several_classes(100, CrammerSinger(), fit_intercept=True), L2(1e-5), PROXIMAL_OR_POINTS),
    (several_classes(100, CrammerSinger(), fit_intercept=True), L2(1.0), TRIED_CLASSES_FIRST),
    (several_classes(99, CrammerSinger(), fit_intercept=True), L2(1e-5), PROXIMAL_OR_POINTS),
    (several_classes(900, CrammerSinger(), n=4000, fit_intercept=True), L2(1e-5), PROXIMAL_FIRST),
    (several_classes(30, CrammerSinger(), n=600), L2(1e-5), ClassInteriorPoint()),
    (several_classes(500, CrammerSinger(), n=300, fit_intercept=True), L2(1e-5), ClassInteriorPoint()),
    (dense_classes(400, CrammerSinger()), L2(1.0), PROXIMAL_OR_POINTS),
    (dense_classes(400, CrammerSinger()), L2(10.0), LineSearchBundle()),
    (several_classes(1001, CrammerSinger(), n=3001, fit_intercept=True), L2(1e-6), TRIED_CLASSES_FIRST),
    (several_classes(1500, Softmax()), L2(1e-4), DUAL_THEN_NEWTON),
    (several_classes(1500, Softmax(), fit_intercept=True), L2(1e-4), DUAL_THEN_NEWTON),
    (several_classes(1500, Softmax()), L2(0.1), NEWTON_OR_PLANES),
    (several_classes(200, Softmax()), L2(0.1), NEWTON_OR_PLANES),
    (several_classes(200, Softmax()), L2(1e-4), TruncatedNewton()),
    (several_classes(34, Softmax()), L2(1e-4), PRODUCTS_FIRST),
    (several_classes(33, Softmax()), L2(1e-4), Newton()),
]


@pytest.mark.parametrize(("risk", "reg", "expected"), CASES, ids=lambda case: type(case).__name__)
def test_the_first_row_that_holds_decides(risk, reg, expected):
    assert resolve("auto", risk, reg) == expected


FINE_CASES = [
    (Problem("hinge").risk(), L2(1e-5), ONE_CALL),
    (Problem("hinge", n=1001, d=8).risk(), L2(1e-5), POINTS_FIRST),
    (Problem("hinge", n=1001, d=7).risk(), L2(1e-5), PLANES_FIRST),
    (Problem("absolute", n=1001, d=8).risk(), L2(0.03), DUAL_THEN_POINTS),
    (Problem("absolute", n=1001, d=8).risk(), L2(3e-3), POINTS_FIRST),
    (dense(4000, 10, Hinge()), L2(3e-3), DUAL_THEN_POINTS),
    (dense(4000, 10, Hinge()), L2(1e-3), PLANES_FIRST),
    (dense(4001, 10, Hinge()), L2(3e-3), PLANES_FIRST),
    (dense(8000, 15, Hinge()), L2(5e-3), DUAL_THEN_POINTS),
    (dense(8000, 15, Hinge()), L2(3e-3), PLANES_FIRST),
    (dense(4000, 10, Hinge()), L2(0.1), DUAL_THEN_POINTS),
    (dense(2000, 80, Hinge()), L2(3e-2), POINTS_FIRST),
    (dense(4000, 50, Hinge()), L2(3.5e-3), DUAL_THEN_POINTS),
    (dense(4000, 50, Hinge()), L2(2.5e-3), PLANES_FIRST),
    (dense(4000, 50, Absolute()), L2(4e-3), POINTS_FIRST),
    (dense(4000, 49, Absolute()), L2(4e-3), PLANES_FIRST),
    (dense(4000, 50, Absolute()), L2(6e-3), PLANES_FIRST),
    (dense(13_000, 50, Absolute()), L2(2e-3), PLANES_FIRST),
    (dense(4000, 101, Absolute()), L2(8e-3), PLANES_FIRST),
    (Problem("absolute", n=3001, d=20).risk(), L2(1e-7), POINTS_FIRST),
    (Problem("absolute", n=3001, d=19).risk(), L2(1e-7), PLANES_FIRST),
    (sparse(4000, 30, Hinge()), L2(1e-4), DUAL_THEN_PLANES),
    (sparse(1000, 200, Hinge()), L2(1e-3), DUAL_THEN_PLANES),
    (sparse(1000, 200, Hinge()), L2(0.04), DUAL_THEN_PLANES),
    (sparse(1000, 200, Hinge(), fit_intercept=True), L2(0.04), LineSearchBundle()),
    (sparse(1000, 200, Hinge(), fit_intercept=True), L2(0.01), DUAL_THEN_PLANES),
    (sparse(1000, 200, Hinge()), L2(1e-6), POINTS_FIRST),
    (sparse(1000, 200, Hinge()), L2(3e-5), tried_before_points(0.2)),
    (full(1000, 101, Hinge()), L2(1e-5), tried_before_points(101)),
    (full(1000, 101, Hinge()), L2(1e-2), tried_before_points(101)),
    (sparse(1000, 200, Hinge()), L2(1e3), LineSearchBundle()),
    (several_classes(200, CrammerSinger()), L2(2e-4), PROXIMAL_OR_POINTS),
    (several_classes(201, CrammerSinger()), L2(3e-5), DUAL_THEN_PLANES),
]


@pytest.mark.parametrize(("risk", "reg", "expected"), FINE_CASES, ids=lambda case: type(case).__name__)
def test_runs_to_a_fine_gap_have_rows_of_their_own(risk, reg, expected):
    assert resolve("auto", risk, reg, gap_rel=1e-6) == expected
    result = minimize(risk, reg, stop=Stop(gap_rel=1e-6))
    assert result.trace[-1].solver in [one.name for one in getattr(expected, "candidates", (expected,))]


def test_sweeps_for_softmax_pay_for_smaller_lambdas_too():
    risk = MulticlassRisk(sp.csr_array(np.ones((2000, 501))), np.arange(2000) % 3, Softmax())
    taken = [resolve("auto", risk, L2(lam)) for lam in (3.0, 1.0, 0.1, 0.04)]
    assert taken == [NEWTON_OR_PLANES, DUAL_THEN_NEWTON, DUAL_THEN_NEWTON, NEWTON_OR_PLANES]


def test_sweeps_for_the_logistic_loss_pay_where_entries_are_many_and_lambda_is_neither_large_nor_small():
    X = sp.csr_array(np.ones((2000, 501)))
    y = np.where(np.arange(2000) % 2, 1.0, -1.0)
    taken = [resolve("auto", LinearRisk(X, y, Logistic()), L2(lam)) for lam in (3.0, 1.0, 0.03, 0.02)]
    assert taken == [NEWTON_OR_PLANES, LOGISTIC_SWEEPS, LOGISTIC_SWEEPS, NEWTON_OR_PLANES]
    assert resolve("auto", LinearRisk(X, y, Logistic(), fit_intercept=True), L2(1.0)) == NEWTON_OR_PLANES


@pytest.mark.parametrize(("entries", "most"), [(44, 0.0), (46, 4.6), (120, 10.0)])
def test_sweeps_for_the_logistic_loss_pay_the_longer_the_longer_rows_are(entries, most):
    X = sp.hstack([sp.csr_array(np.ones((3000, entries))), sp.csr_array((3000, 600))]).tocsr()
    risk = LinearRisk(X, np.where(np.arange(3000) % 2, 1.0, -1.0), Logistic())
    conditions = [0.9 * most + 0.1, 1.1 * most + 0.1]
    taken = [resolve("auto", risk, L2(entries / (3000 * condition))) for condition in conditions]
    assert taken == [LOGISTIC_SWEEPS if most else NEWTON_OR_PLANES, NEWTON_OR_PLANES]


@pytest.mark.parametrize(("lam", "solvers"), [(1.0, ["DualCoordinate"]), (1e-4, ["DualCoordinate", "TruncatedNewton"])])
def test_newton_steps_take_over_where_sweeps_for_the_logistic_loss_are_slow(lam, solvers):
    rng = np.random.default_rng(0)
    X = sp.csr_array(1.0 + 0.01 * rng.standard_normal((400, 1500)))  # nearly equal rows
    risk = LinearRisk(X, np.where(rng.random(400) < 0.5, 1.0, -1.0), Logistic())
    result = minimize(risk, L2(lam), LOGISTIC_SWEEPS, stop=Stop(gap_rel=1e-6))
    assert result.status.name == "CONVERGED"
    assert list(dict.fromkeys(row.solver for row in result.trace)) == solvers


@pytest.mark.parametrize(("entries", "most"), [(21, 0.7), (30, 1.0), (300, 1.0)])
def test_sweeps_for_the_squared_hinge_too(entries, most):
    X = sp.hstack([sp.csr_array(np.ones((3000, entries))), sp.csr_array((3000, 600))]).tocsr()
    risk = LinearRisk(X, np.where(np.arange(3000) % 2, 1.0, -1.0), SquaredHinge())
    taken = [resolve("auto", risk, L2(entries / (3000 * share * most)), 1e-6) for share in (0.9, 1.1)]
    assert taken == [DUAL_THEN_PLANES, NEWTON_OR_PLANES]


@pytest.mark.parametrize(
    ("entries", "gap", "condition", "solver"),
    [
        (64, 1e-3, 1.4, DUAL_THEN_NEWTON),
        (64, 1e-4, 1.4, DUAL_THEN_NEWTON),
        (64, 1e-3, 1.6, NEWTON_OR_PLANES),
        (64, 1e-6, 1.4, NEWTON_OR_PLANES),
        (63, 1e-3, 1.4, NEWTON_OR_PLANES),
    ],
)
def test_sweeps_for_the_squared_hinge_on_long_rows_at_smaller_lambda_to_rough_gaps(entries, gap, condition, solver):
    X = sp.hstack([sp.csr_array(np.ones((3000, entries))), sp.csr_array((3000, 600))]).tocsr()
    risk = LinearRisk(X, np.where(np.arange(3000) % 2, 1.0, -1.0), SquaredHinge())
    assert resolve("auto", risk, L2(entries / (3000 * condition)), gap) == solver


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_unit_of_the_targets_does_not_change_the_choice(scale):
    """With targets of another unit, lambda in that unit is the same problem."""
    risk = Problem("absolute", n=1001, d=10).risk()
    scaled = LinearRisk(risk.design, scale * risk.y, Absolute())
    taken = [resolve("auto", scaled, L2(lam / scale), gap) for lam, gap in [(3e-3, 1e-6), (3e-5, 1e-3), (3e-5, 1e-6)]]
    assert taken == [POINTS_FIRST, POINTS_FIRST, POINTS_FIRST]
    assert resolve("auto", scaled, L2(0.03 / scale)) == DUAL_THEN_POINTS
    few = LinearRisk(scaled.design.take(np.arange(900)), scaled.y[:900], Absolute())
    assert resolve("auto", few, L2(1e-4 / scale)) == QUICK_PROGRAM


def test_large_entries_in_single_precision_do_not_overflow():
    X = np.full((300, 2), 1e20, dtype=np.float32)
    assert math.isfinite(dual_condition(as_design(X), L2(1.0)))


def test_a_sparse_matrix_has_few_parameters_for_its_entries():
    assert resolve("auto", sparse(20000, 900, Absolute()), L2(1e-5)) == POINTS_FIRST
    assert resolve("auto", sparse(20000, 900, Hinge()), L2(1e-8)) == POINTS_FIRST


def test_a_gram_matrix_on_demand_is_hedged_by_samples():
    gram = TiledGram(RbfKernel(1.0), X)
    assert resolve("auto", *kernel_problem(gram)) == KernelHedging()


def test_the_last_row_takes_anything_and_every_row_gives_a_reason():
    assert TABLE[-1].holds(*CASES[0][:2])
    assert all(row.condition and row.reason for row in TABLE)


@pytest.mark.parametrize(("risk", "reg", "expected"), CASES, ids=lambda case: type(case).__name__)
def test_no_row_for_other_penalties_holds_for_a_quadratic_one(risk, reg, expected):
    reg = reg if isinstance(reg, QuadraticRegularizer) else L2(0.1)
    assert not any(row.holds(risk, reg) for row in PENALTY_ROWS)


def test_the_planes_of_a_chain_fit_into_memory():
    assert chain_planes(10) == MOST_PLANES
    assert chain_planes(10**9) == LEAST_PLANES
    n_params = PLANES_BYTES // (8 * 50)
    assert chain_planes(n_params) == 50


@pytest.mark.parametrize("loss", ["crf", "m3n"])
def test_a_labeler_and_minimize_take_the_same_solver(loss, monkeypatch):
    taken = []

    def noted(solver, risk, reg, gap_rel):
        taken.append(resolve(solver, risk, reg, gap_rel))
        return taken[-1]

    monkeypatch.setattr("undercut.solvers.auto.resolve", noted)
    labeler = SequenceLabeler(loss, lam=0.1).fit([np.eye(2), np.eye(2)[:1]], [["a", "b"], ["a"]])
    assert labeler.result_.status.name == "CONVERGED"
    assert taken == [resolve("auto", chain(CRF() if loss == "crf" else M3N()), L2(0.1))]


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()])
def test_planes_come_before_newton_steps_on_wide_sparse_data_with_long_rows(loss):
    y = np.where(np.arange(200) % 2, 1.0, -1.0)
    for entries, race in ((LONG_ENTRIES, PLANES_OR_NEWTON), (LONG_ENTRIES - 1, NEWTON_OR_PLANES)):
        X = sp.csr_array(np.eye(200, 1500) + (np.arange(1500) >= 1501 - entries))
        assert resolve("auto", LinearRisk(X, y, loss, fit_intercept=True), L2(1.0)) == race


def test_the_architecture_page_prints_the_table():
    page = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    printed = re.findall(r"^\| ([^|]+) \| (?:`(?:Race|Relay)` of )?`\w+`[^|]* \| ([^|]+) \|$", page, re.MULTILINE)
    assert printed == [(row.condition, row.reason) for row in TABLE]
