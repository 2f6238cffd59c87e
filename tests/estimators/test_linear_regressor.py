"""The linear regressor as its users meet it."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import HuberRegressor, PoissonRegressor, QuantileRegressor, Ridge
from sklearn.preprocessing import scale

from undercut import EpsilonInsensitive, Huber, LinearRegressor, Quantile


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), y


def test_agrees_with_ridge_on_the_squared_loss(diabetes):
    X, y = diabetes
    ours = LinearRegressor(lam=0.01).fit(X, y)
    theirs = Ridge(alpha=0.01 * y.size).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-8)
    assert ours.intercept_ == pytest.approx(theirs.intercept_)


def test_agrees_with_poisson_regression(diabetes):
    X, y = diabetes
    ours = LinearRegressor(loss="poisson", lam=0.1, gap_rel=1e-14).fit(X, y)
    theirs = PoissonRegressor(alpha=0.1, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)


def test_nears_unpenalized_quantile_regression_as_lambda_vanishes(diabetes):
    X, y = diabetes
    ours = LinearRegressor(loss=Quantile(0.8), lam=1e-7, gap_rel=1e-6).fit(X, y)
    theirs = QuantileRegressor(quantile=0.8, alpha=0.0).fit(X, y)

    def risk(model):
        residual = y - model.predict(X)
        return np.maximum(0.8 * residual, -0.2 * residual).mean()

    assert risk(ours) == pytest.approx(risk(theirs), rel=1e-4)
    assert (y <= ours.predict(X)).mean() == pytest.approx(0.8, abs=0.03)


def test_absolute_loss_resists_an_outlier_that_squared_loss_does_not(diabetes):
    X, y = diabetes
    spoilt = y.copy()
    spoilt[0] = 1e6
    robust, naive = LinearRegressor("absolute", lam=1e-4), LinearRegressor("squared", lam=1e-4)
    reference = Ridge(alpha=1e-4 * y.size).fit(X, y).predict(X)
    assert np.abs(robust.fit(X, spoilt).predict(X) - reference).mean() < 20.0
    assert np.abs(naive.fit(X, spoilt).predict(X) - reference).mean() > 1000.0
    huber = LinearRegressor(Huber(50.0), lam=1e-4).fit(X, spoilt)
    assert np.abs(huber.predict(X) - HuberRegressor().fit(X, y).predict(X)).mean() < 20.0


@pytest.mark.parametrize("loss", list(LinearRegressor._losses))
def test_a_weight_counts_a_sample_that_often(diabetes, loss):
    X, y = diabetes
    weight = np.random.default_rng(0).integers(0, 3, y.size)
    weighted = LinearRegressor(loss, lam=0.1, gap_rel=1e-7).fit(X, y, sample_weight=weight)
    repeated = LinearRegressor(loss, lam=0.1, gap_rel=1e-7).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)
    assert weighted.lower_bound_ <= repeated.objective_ + 1e-12 * abs(repeated.objective_)


def test_a_wide_tube_leaves_nothing_to_fit(diabetes):
    model = LinearRegressor(EpsilonInsensitive(1e4)).fit(*diabetes)
    assert model.objective_ == 0.0
    assert not model.coef_.any()


def test_negative_counts_are_refused(diabetes):
    X, y = diabetes
    with pytest.raises(ValueError, match="non-negative; got -1"):
        LinearRegressor("poisson").fit(X, np.where(np.arange(y.size) == 7, -1.0, y))


def test_warm_start_begins_where_the_last_fit_ended(diabetes):
    model = LinearRegressor("absolute", lam=1e-3, warm_start=True, gap_rel=1e-5).fit(*diabetes)
    steps, reached = model.n_iter_, model.objective_
    assert model.fit(*diabetes).result_.trace[0].objective == pytest.approx(reached, rel=1e-9)
    assert model.n_iter_ <= steps
