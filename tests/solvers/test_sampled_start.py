"""Newton's method begins at the end of a few steps on a part of the samples, where these are many."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L2, LinearRisk, Logistic, MulticlassRisk, Newton, Status, Stop, minimize
from undercut.losses import Exponential, Poisson, Softmax
from undercut.solvers import TruncatedNewton
from undercut.solvers.newton.sampled_start import sampled_start

SOLVERS = {"newton": Newton(), "truncated": TruncatedNewton()}
solvers = pytest.mark.parametrize("name", SOLVERS)
LAM = 1e-3


def signs(rng, n=4000, d=5):
    X = rng.standard_normal((n, d))
    return X, np.where(X @ np.arange(d) + rng.standard_normal(n) > 0.0, 1.0, -1.0)


def classes(rng, n=4000, d=5, n_classes=4):
    X = rng.standard_normal((n, d))
    return X, (X @ rng.standard_normal((d, n_classes)) + rng.gumbel(size=(n, n_classes))).argmax(axis=1)


def risk_of(kind, rng):
    if kind == "logistic":
        return LinearRisk(*signs(rng), Logistic())
    return MulticlassRisk(*classes(rng), Softmax(), fit_intercept=kind == "softmax, free")


@solvers
@pytest.mark.parametrize("kind", ["logistic", "softmax", "softmax, free"])
def test_many_samples_begin_near_the_optimum_and_end_there(name, kind, rng):
    risk, reg, stop = risk_of(kind, rng), L2(LAM), Stop(gap_rel=1e-9)
    result = minimize(risk, reg, SOLVERS[name], stop=stop)
    optimum = minimize(risk, reg, SOLVERS[name], w0=np.full(risk.n_params, 1e-3), stop=stop)
    assert result.trace[0].objective < 1.1 * optimum.objective < risk.value(np.zeros(risk.n_params))
    assert result.lower_bound <= optimum.objective * (1.0 + 1e-12)
    assert result.objective == pytest.approx(optimum.objective, rel=1e-8)


@solvers
def test_a_start_that_is_given_is_kept(name, rng):
    risk, w0 = risk_of("logistic", rng), np.full(5, 0.1)
    assert sampled_start(SOLVERS[name], risk, L2(LAM), w0) is w0


@solvers
def test_few_samples_begin_at_zero(name, rng):
    X, y = signs(rng, n=200)
    w0 = np.zeros(5)
    assert sampled_start(SOLVERS[name], LinearRisk(X, y, Logistic()), L2(LAM), w0) is w0


def test_a_class_that_the_part_may_lack_leaves_the_start_at_zero(rng):
    X, y = classes(rng)
    y[:] = np.minimum(y, 2)
    y[0] = 3
    w0 = np.zeros(20)
    assert sampled_start(TruncatedNewton(), MulticlassRisk(X, y, Softmax(), fit_intercept=True), L2(LAM), w0) is w0


def test_weights_of_zero_on_nearly_all_samples_do_no_harm(rng):
    X, y = signs(rng)
    weight = np.zeros(y.size)
    weight[:20] = 1.0
    few = minimize(LinearRisk(X[:20], y[:20], Logistic()), L2(LAM), Newton(), stop=Stop(gap_rel=1e-9))
    result = minimize(LinearRisk(X, y, Logistic(), weight), L2(LAM), Newton(), stop=Stop(gap_rel=1e-9))
    assert result.objective == pytest.approx(few.objective, rel=1e-8)


def test_features_that_the_part_hardly_has_stay_small(rng):
    """At a tiny lambda the part is separable by a rare feature, and its optimum would be far out."""
    X, y = signs(rng, n=8000)
    X = np.column_stack([X, np.zeros(8000)])
    X[rng.choice(8000, 30, replace=False), 5] = 1.0
    start = sampled_start(Newton(), LinearRisk(sp.csr_array(X), y, Logistic()), L2(1e-9), np.zeros(6))
    assert np.abs(start[:5]).max() > 0.5
    assert abs(start[5]) < 5.0


@solvers
@pytest.mark.parametrize("loss", [Exponential(), Poisson()], ids=["exponential", "poisson"])
@pytest.mark.parametrize("length", [1e3, 1e5])
def test_a_sample_outside_the_part_whose_loss_overflows_does_not_matter(name, loss, length, rng):
    X, y = signs(rng, n=9000, d=3)
    if isinstance(loss, Poisson):
        y = np.maximum(y, 0.0)
    taken = np.random.default_rng(0).choice(9000, 1000, replace=False)
    first = int(np.setdiff1d(np.arange(9000), taken)[0])
    X[first], y[first] = (0.0, length, length), y.min()
    result = minimize(LinearRisk(X, y, loss), L2(LAM), SOLVERS[name])
    assert result.status is Status.CONVERGED
    assert result.objective <= 1.0  # J(0)
