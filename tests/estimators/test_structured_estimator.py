"""The user's own structured models as estimators."""

from __future__ import annotations

import numpy as np
import pytest
from tests.structured_models import Chain, LikelyChain, draw_chains

from undercut.errors import CapabilityError, ModelFileError
from undercut.estimators import StructuredEstimator
from undercut.io import save_model


@pytest.fixture
def chains():
    _, X, _ = draw_chains(n=12)
    return X, [(x[:, 0] > 0).astype(int) for x in X]  # one feature tells the label


@pytest.mark.parametrize("loss", ["margin", "crf"])
def test_a_model_is_fitted_and_predicts(loss, chains):
    X, Y = chains
    estimator = StructuredEstimator(LikelyChain(2, 3), loss, lam=1e-3).fit(X, Y)
    assert estimator.certificate_ == "global"
    assert estimator.gap_ <= 0.01 * estimator.objective_
    assert estimator.score(X, Y) > 0.9
    assert [y.tolist() for y in estimator.predict(X)] == [
        marginal.argmax(axis=1).tolist() for marginal in estimator.predict_marginals(X)
    ] or loss == "margin"


def test_marginals_sum_to_one(chains):
    X, Y = chains
    for marginal in StructuredEstimator(LikelyChain(2, 3), "crf").fit(X, Y).predict_marginals(X):
        assert marginal.sum(axis=1) == pytest.approx(np.ones(len(marginal)))


def test_a_model_without_a_method_says_so(chains):
    X, Y = chains
    estimator = StructuredEstimator(Chain(2, 3)).fit(X, Y)
    assert not hasattr(estimator, "predict_marginals")
    with pytest.raises(CapabilityError, match=r"needs a model with `predict\(w, x\)`, and this Chain has none"):
        estimator.predict(X)
    with pytest.raises(CapabilityError, match="needs a model with `log_partition`"):
        StructuredEstimator(Chain(2, 3), "crf").fit(X, Y)


def test_a_users_model_cannot_be_saved(chains, tmp_path):
    with pytest.raises(ModelFileError, match="`model` cannot be saved"):
        save_model(StructuredEstimator(LikelyChain(2, 3)).fit(*chains), tmp_path / "model.uc")


def test_parameters_have_domains(chains):
    with pytest.raises(ValueError, match="'loss' parameter"):
        StructuredEstimator(Chain(2, 3), "hinge").fit(*chains)
    with pytest.raises(ValueError, match="'n_jobs' parameter"):
        StructuredEstimator(Chain(2, 3), n_jobs=0).fit(*chains)
