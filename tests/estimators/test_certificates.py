"""What every estimator certifies is true: recomputed from scratch, and challenged by another solver."""

from __future__ import annotations

import re
import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from tests.structured_models import Multiclass

from undercut import (
    HmmClassifier,
    HmmRecognizer,
    KernelClassifier,
    LinearClassifier,
    LinearRegressor,
    MultivariateClassifier,
    NoveltyDetector,
    OnlineClassifier,
    OnlineRegressor,
    Ranker,
    SequenceLabeler,
    TransductiveClassifier,
    estimators,
)
from undercut.estimators import (
    CertifiedEstimator,
    LinearClassifierCV,
    LinearRegressorCV,
    MultivariateClassifierCV,
    RankerCV,
    RnaFolder,
    SequenceLabelerCV,
    StructuredEstimator,
)
from undercut.solvers import minimize
from undercut.testing import check_certificate

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4))
SCORES = X @ np.array([1.0, -1.0, 0.5, 0.0]) + 0.5 * RNG.standard_normal(60)
SIGNS = np.where(SCORES > 0.0, 1, -1)
GRADES = np.digitize(SCORES, [-1.0, 0.0, 1.0])
PARTLY = np.where(np.arange(60) < 30, SIGNS, 0)
QUERIES = np.repeat(np.arange(6), 10)
TARGETS = {"poisson": GRADES}
CASES = [
    *((LinearClassifier(loss, lam=1e-2), SIGNS) for loss in LinearClassifier._losses),
    *((LinearRegressor(loss, lam=1e-2), TARGETS.get(loss, SCORES)) for loss in LinearRegressor._losses),
    (LinearClassifier(lam=1e-2), GRADES),
    (LinearClassifier("hinge", lam=1e-2, multi_class="crammer_singer"), GRADES),
    (LinearClassifier("logistic", lam=1e-2, multi_class="multinomial"), GRADES),
    (LinearClassifier(lam=1e-2, penalty="l1"), SIGNS),
    (LinearRegressor(lam=1e-2, penalty="elasticnet"), SCORES),
    *((MultivariateClassifier(measure, lam=1e-2), SIGNS) for measure in ("f1", "roc_auc", "precision@5")),
    *((Ranker(loss, lam=1e-2), GRADES) for loss in ("pairwise", "ndcg@5", "mrr", "ordinal")),
    *((KernelClassifier(solver=solver), SIGNS) for solver in ("descent", "hedging", "bundle")),
    (KernelClassifier(store_gram=False, kernel="poly", coef0=1.0), GRADES),
    (NoveltyDetector(0.2), None),
    (SequenceLabeler("m3n", lam=1e-2), SIGNS),
    (SequenceLabeler("crf", lam=1e-2), SIGNS),
    (SequenceLabeler("crf", lam=1e-2, hidden=(4,), random_state=0), SIGNS),
    (TransductiveClassifier(lam=1e-2), PARTLY),
    (OnlineClassifier(lam=1e-2), SIGNS),
    (OnlineRegressor(lam=1e-2), SCORES),
    *((kind([1e-2], cv=2), SIGNS) for kind in (LinearClassifierCV, MultivariateClassifierCV, SequenceLabelerCV)),
    (LinearRegressorCV([1e-2], cv=2), SCORES),
    (RankerCV([1e-2], cv=2), GRADES),
    (StructuredEstimator(Multiclass(4, 4), lam=1e-2), GRADES),
    (RnaFolder(lam=1e-1), ["(((....)))", "((...))"]),
    (HmmClassifier(2, 1), [1, 0, 1, 0, 1, 0]),
    (HmmRecognizer(2, 1), [[1, 0], [0], [1, 1], [0], [1], [0, 1]]),
]


@pytest.fixture
def runs(monkeypatch):
    """Every problem that the estimators hand to ``minimize``, and its result."""
    seen = []

    def recorded(risk, reg, *args, **settings):
        result = minimize(risk, reg, *args, **settings)
        seen.append((result, risk, reg))
        return result

    for name, module in list(sys.modules.items()):
        if name.startswith("undercut.estimators") and getattr(module, "minimize", None) is minimize:
            monkeypatch.setattr(module, "minimize", recorded)
    return seen


def fitted(estimator, samples, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if isinstance(estimator, Ranker):
            return estimator.fit(samples, y, qid=QUERIES)
        if isinstance(estimator, RnaFolder):
            return estimator.fit(["GGGAAAUCCC", "GCAAAGC"], y)
        if isinstance(estimator, HmmClassifier | HmmRecognizer):
            return estimator.fit(samples, y, offsets=np.arange(0, 61, 10))
        if isinstance(estimator, SequenceLabeler):
            return estimator.fit(samples, y, lengths=np.full(6, 10))
        return estimator.fit(samples, y)


@pytest.mark.filterwarnings("ignore:the origin lies among the samples")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("estimator", "y"),
    CASES,
    ids=lambda case: re.sub(r" object at \w+", "", repr(case)) if hasattr(case, "fit") else "",
)
def test_certificates_are_true(estimator, y, dtype, runs):
    """In float32, too: narrow data are widened and not rounded, so that the problem stays the user's."""
    samples = X.astype(dtype) + (3.0 if isinstance(estimator, NoveltyDetector) else 0.0)
    model = fitted(estimator, samples.astype(dtype), y)
    assert runs
    for result, risk, reg in runs:
        check_certificate(result, risk, reg, max_seconds=2.0)
    reported = model.result_ if isinstance(model.result_, list) else [model.result_]
    assert {result.objective for result in reported} <= {result.objective for result, *_ in runs}


def test_no_estimator_is_forgotten():
    every = {kind for kind in vars(estimators).values() if isinstance(kind, type)} - {CertifiedEstimator}
    assert every == {type(estimator) for estimator, _ in CASES}


@pytest.mark.parametrize("solver", ["descent", "hedging"])
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_a_gram_matrix_stored_in_single_precision_is_certified_in_double(solver, C, runs, monkeypatch):
    """The rounding of K shifts the objective by more than the wanted gap; it must not be hidden."""
    monkeypatch.setattr("undercut.estimators.kernels.kernel_classifier.DOUBLE", 100)
    rng = np.random.default_rng(1)
    samples = rng.standard_normal((600, 30)) / np.sqrt(30.0)
    y = np.where(np.sin(6.0 * samples[:, 0]) + 2.0 * samples[:, 1] + 0.05 * rng.standard_normal(600) > 0.0, 1, -1)
    fitted(KernelClassifier(C, gamma=0.2, solver=solver, gap_rel=1e-6, max_steps=3000), samples, y)
    ((result, risk, reg),) = runs
    assert risk.gram.K.dtype == np.float32
    check_certificate(result, risk, reg)
    assert result.status.name == "CONVERGED" or solver == "hedging"
