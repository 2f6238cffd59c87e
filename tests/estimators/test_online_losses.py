"""Losses in streams: a user's own is learned as it is, and what a method cannot learn is refused at the first chunk."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.catalogue import ALL, LOSSES, own

from undercut import OnlineClassifier, OnlineRegressor, Ramp, Squared
from undercut.errors import CapabilityError
from undercut.solvers.online import Adaptive, OptimisticProximal, Pegasos, Proximal

METHODS = {
    "pegasos": Pegasos(batch_size=3),
    "adaptive": Adaptive(),
    "proximal": Proximal(average=True),
    "optimistic": OptimisticProximal(),
}


def draw(loss, rng, n=40):
    return rng.standard_normal((n, 4)), LOSSES[loss].draw_targets(rng, n)


@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_ones_own_loss_is_learned_like_the_same_loss_compiled(loss, method, sparse):
    estimator = OnlineClassifier if LOSSES[loss].targets == "signs" else OnlineRegressor
    models = [
        estimator(loss=given, lam=0.5, solver=METHODS[method]) for given in (LOSSES[loss].loss, own(LOSSES[loss].loss))
    ]
    rng = np.random.default_rng(0)
    for _ in range(3):
        X, y = draw(loss, rng)
        weight = rng.random(y.size) + 0.1
        for model in models:
            model.partial_fit(sp.csr_array(X) if sparse else X, y, sample_weight=weight)
    np.testing.assert_allclose(models[1].coef_, models[0].coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(models[1].intercept_, models[0].intercept_, rtol=1e-7, atol=1e-9)


def refusal_of(model, X, y):
    with pytest.raises(CapabilityError) as refusal:
        model.partial_fit(X, y)
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "n_features_in_")
    return str(refusal.value)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("loss", [Ramp(), own(Ramp())], ids=["ours", "own"])
def test_a_loss_that_is_not_convex_is_refused_at_the_first_chunk(loss, method):
    message = refusal_of(OnlineClassifier(loss=loss, solver=METHODS[method]), *draw("hinge", np.random.default_rng(0)))
    assert "needs a convex loss; got" in message
    assert "floor=-1.0" in message
    assert "use a convex one such as Hinge or Logistic, or LinearClassifier" in message


def test_unbounded_slopes_are_refused_at_the_first_chunk_where_the_bound_must_be_known():
    model = OnlineRegressor(loss="squared", solver=Proximal(tau="bound"))
    message = refusal_of(model, *draw("squared", np.random.default_rng(0)))
    assert 'Proximal(tau="bound") must know a bound on all subgradients before the first round' in message
    assert "got Squared()" in message


def test_a_guarantee_is_refused_at_the_first_chunk_of_a_stream():
    model = OnlineClassifier(solver=OptimisticProximal(epsilon=0.1, sampling="replacement"))
    message = refusal_of(model, *draw("hinge", np.random.default_rng(0)))
    assert "leave epsilon out, or use `fit`; got epsilon=0.1" in message


class NoInfimum(Squared):
    """A loss whose author does not know how low it goes."""

    def infimum(self, y):
        return np.full_like(y, -np.inf)


def test_a_loss_without_an_infimum_is_refused_where_the_ball_must_be_known():
    message = refusal_of(
        OnlineRegressor(loss=NoInfimum(), solver="proximal"), *draw("squared", np.random.default_rng(0))
    )
    assert "needs a bound on |w|" in message
    assert "implement `infimum`, or use Pegasos" in message


def test_a_loss_without_an_infimum_is_learned_without_a_ball():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 3))
    y = X @ [1.0, -2.0, 0.5]
    model = OnlineRegressor(loss=NoInfimum(), lam=1e-3, solver="optimistic_proximal").partial_fit(X, y)
    np.testing.assert_allclose(model.coef_, [1.0, -2.0, 0.5], atol=0.1)
