"""Newton's method for several classes begins at the end of a few steps on a part of the samples, if these are many."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L2, LinearRisk, Logistic, MulticlassRisk, Newton, Stop, minimize
from undercut.losses import Softmax
from undercut.solvers import TruncatedNewton
from undercut.solvers.newton.sampled_start import sampled_start

SOLVERS = {"newton": Newton(), "truncated": TruncatedNewton()}
solvers = pytest.mark.parametrize("name", SOLVERS)
LAM = 1e-3


def classes(rng, n=8000, d=5, n_classes=4):
    X = rng.standard_normal((n, d))
    return X, (X @ rng.standard_normal((d, n_classes)) + rng.gumbel(size=(n, n_classes))).argmax(axis=1)


@solvers
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_many_samples_begin_near_the_optimum_and_end_there(name, fit_intercept, rng):
    risk, reg = MulticlassRisk(*classes(rng), Softmax(), fit_intercept=fit_intercept), L2(LAM)
    stop = Stop(gap_rel=1e-9)
    result = minimize(risk, reg, SOLVERS[name], stop=stop)
    optimum = minimize(risk, reg, SOLVERS[name], w0=np.full(risk.n_params, 1e-3), stop=stop)
    assert result.trace[0].objective < 1.1 * optimum.objective < risk.value(np.zeros(risk.n_params))
    assert result.lower_bound <= optimum.objective * (1.0 + 1e-12)
    assert result.objective == pytest.approx(optimum.objective, rel=1e-8)


@solvers
def test_a_start_that_is_given_is_kept(name, rng):
    risk, w0 = MulticlassRisk(*classes(rng), Softmax()), np.full(20, 0.1)
    assert sampled_start(SOLVERS[name], risk, L2(LAM), w0) is w0


@solvers
def test_fewer_samples_begin_at_zero(name, rng):
    risk, w0 = MulticlassRisk(*classes(rng, n=7999), Softmax()), np.zeros(20)
    assert sampled_start(SOLVERS[name], risk, L2(LAM), w0) is w0


@solvers
def test_losses_of_one_score_begin_at_zero(name, rng):
    X, y = classes(rng)
    w0 = np.zeros(5)
    assert sampled_start(SOLVERS[name], LinearRisk(X, np.where(y > 1, 1.0, -1.0), Logistic()), L2(LAM), w0) is w0


def test_a_class_that_the_part_may_lack_leaves_the_start_at_zero(rng):
    X, y = classes(rng)
    y[:] = np.minimum(y, 2)
    y[0] = 3
    w0 = np.zeros(20)
    assert sampled_start(TruncatedNewton(), MulticlassRisk(X, y, Softmax(), fit_intercept=True), L2(LAM), w0) is w0


def test_weights_of_zero_on_nearly_all_samples_do_no_harm(rng):
    X, y = classes(rng)
    weight = np.zeros(y.size)
    weight[:50] = 1.0
    few = minimize(MulticlassRisk(X[:50], y[:50], Softmax(), n_classes=4), L2(LAM), Newton(), stop=Stop(gap_rel=1e-9))
    result = minimize(MulticlassRisk(X, y, Softmax(), weight), L2(LAM), Newton(), stop=Stop(gap_rel=1e-9))
    assert result.objective == pytest.approx(few.objective, rel=1e-8)


def test_features_that_the_part_hardly_has_stay_small(rng):
    """At a tiny lambda the part is separable by a rare feature, and its optimum would be far out."""
    X, y = classes(rng, n=16000)
    X = np.column_stack([X, np.zeros(16000)])
    X[rng.choice(16000, 60, replace=False), 5] = 1.0
    start = sampled_start(Newton(), MulticlassRisk(sp.csr_array(X), y, Softmax()), L2(1e-9), np.zeros(24))
    by_feature = np.abs(start.reshape(4, 6)).max(axis=0)
    assert by_feature[:5].max() > 0.5
    assert by_feature[5] < 5.0
