"""Likelihoods of structured labelings: compared with sums over every labeling, and with the compiled chain."""

from __future__ import annotations

import numpy as np
import pytest
from tests.structured_models import Chain, LikelyChain, dense, draw_chains

from undercut import L2, ChainRisk, Stop, StructuredRisk, minimize
from undercut.errors import CapabilityError, DataError
from undercut.risks import CRF, LikelihoodRisk
from undercut.solvers import CachedCuttingPlane
from undercut.testing import check_risk, check_structured_model


@pytest.fixture
def chains():
    _, X, Y = draw_chains(n=10)
    return LikelyChain(2, 3), X, Y


def negative_log_likelihood(model, X, Y, w):
    losses = []
    for x, y in zip(X, Y, strict=True):
        scores = [w @ dense(model, x, y_hat) for y_hat in model.labelings(x)]
        losses.append(np.logaddexp.reduce(scores) - w @ dense(model, x, y))
    return np.array(losses)


def test_the_risk_is_the_mean_negative_log_likelihood(chains, rng):
    model, X, Y = chains
    weight = np.arange(1.0, 11.0)
    risk = LikelihoodRisk(model, X, Y, sample_weight=weight)
    for w in rng.standard_normal((3, model.n_params)):
        expected = np.average(negative_log_likelihood(model, X, Y, w), weights=weight)
        assert risk.value(w) == pytest.approx(expected)
    check_risk(risk)


def test_it_agrees_with_the_compiled_chain(chains):
    model, X, Y = chains
    compiled = ChainRisk(X, Y, CRF(), n_labels=3, start=False, end=False, bias=False)
    one, other = (minimize(risk, L2(0.1), stop=Stop(gap_rel=1e-6)) for risk in (LikelihoodRisk(model, X, Y), compiled))
    assert one.objective == pytest.approx(other.objective, rel=1e-5)


def test_remembered_tangents_lie_below_and_save_evaluations(chains):
    model, X, Y = chains
    risk = LikelihoodRisk(model, X, Y, cache=20)
    plain = minimize(LikelihoodRisk(model, X, Y), L2(0.01), "cutting_plane", stop=Stop(gap_rel=1e-4))
    cached = minimize(risk, L2(0.01), CachedCuttingPlane(), stop=Stop(gap_rel=1e-4))
    assert cached.objective == pytest.approx(plain.objective, rel=2e-4)
    assert cached.n_evaluations < plain.n_evaluations
    w = np.ones(model.n_params)
    assert risk.minorant.value(w) <= risk.value(w)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_what_depends_on_w_alone_is_prepared_once_per_evaluation(chains, n_jobs):
    model, X, Y = chains
    for risk in (LikelihoodRisk(model, X, Y, n_jobs=n_jobs), StructuredRisk(model, X, Y, n_jobs=n_jobs)):
        model.n_prepared = 0
        risk.cut(np.zeros(model.n_params))
        assert model.n_prepared == 1


def test_threads_change_nothing_but_rounding(chains, rng):
    model, X, Y = chains
    w = rng.standard_normal(model.n_params)
    one, two = (LikelihoodRisk(model, X, Y, n_jobs=n_jobs).cut(w) for n_jobs in (1, 2))
    assert two.value == pytest.approx(one.value)
    assert two.a == pytest.approx(one.a)


def test_batches_average_to_the_whole(chains, rng):
    model, X, Y = chains
    risk, w = LikelihoodRisk(model, X, Y), rng.standard_normal(model.n_params)
    parts = [risk.batch(np.array([i])).value(w) for i in range(len(X))]
    assert np.mean(parts) == pytest.approx(risk.value(w))


def test_a_model_without_sums_is_refused():
    model, X, Y = draw_chains()
    with pytest.raises(CapabilityError, match=r"needs a model with `log_partition`.*use StructuredRisk"):
        LikelihoodRisk(model, X, Y)


def test_a_truth_outside_the_sum_is_found(chains):
    class Forgetful(LikelyChain):
        def log_partition(self, prepared, x):
            log_z, expected = super().log_partition(prepared, x)
            return log_z - 10.0, expected

    _, X, Y = chains
    with pytest.raises(DataError, match=r"example \d+: log_partition must sum over all labelings, y included"):
        LikelihoodRisk(Forgetful(2, 3), X, Y).value(np.zeros(15))


class WrongSum(LikelyChain):
    def log_partition(self, prepared, x):
        log_z, expected = super().log_partition(prepared, x)
        return log_z + 0.1, expected


class WrongExpectation(LikelyChain):
    def log_partition(self, prepared, x):
        log_z, expected = super().log_partition(prepared, x)
        return log_z, expected + 0.01


class WrongMarginals(LikelyChain):
    def marginals(self, prepared, x):
        return super().marginals(prepared, x)[:, ::-1]


def test_the_check_accepts_a_right_model(chains):
    model, X, Y = chains
    check_structured_model(model, X[:4], Y[:4], model.labelings, n_points=5)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (WrongSum, r"log_partition at w = 0: example 0: log Z is .* and the sum over all labelings gives"),
        (WrongExpectation, "the expected joint feature is"),
        (WrongMarginals, "marginals at .*: the expectation of parts is"),
    ],
)
def test_the_check_finds_a_wrong_sum(chains, kind, message):
    _, X, Y = chains
    with pytest.raises(AssertionError, match=message):
        check_structured_model(kind(2, 3), X[:4], Y[:4], kind(2, 3).labelings, n_points=5)


def test_a_model_of_sums_alone_can_be_checked(chains):
    class SumsOnly:
        n_params = 15
        joint_feature = Chain(2, 3).joint_feature
        log_partition = staticmethod(lambda w, x: LikelyChain(2, 3).log_partition(LikelyChain(2, 3).prepare(w), x))

    _, X, Y = chains
    check_structured_model(SumsOnly(), X[:2], Y[:2], Chain(2, 3).labelings, n_points=3)
