"""LinearClassifier with the ramp loss: robust where the hinge is not, and honest about what it proves."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris

from undercut import LinearClassifier, Ramp, load_model, save_model
from undercut.errors import CapabilityError


def outliers(n=200, share=0.08, seed=0):
    """Two clouds; some samples of one lie far behind the other."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    clean = rng.standard_normal((n, 2)) + np.where(y == 1, 2.0, -2.0)[:, None] * [1.0, 0.0]
    X = clean.copy()
    far = np.flatnonzero(y == 1)[: int(share * n)]
    X[far] = rng.standard_normal((far.size, 2)) + np.array([-12.0, 4.0])
    return X, y, clean


def test_outliers_do_not_move_it_where_they_move_the_hinge():
    X, y, clean = outliers()
    ramp, hinge = (LinearClassifier(loss, lam=0.01).fit(X, y).score(clean, y) for loss in ("ramp", "hinge"))
    assert ramp >= 0.95
    assert hinge <= ramp - 0.05


def test_how_far_an_outlier_lies_does_not_matter():
    X, y, _ = outliers()
    there = LinearClassifier("ramp", lam=0.01, gap_rel=1e-5).fit(X, y)
    beyond = X.copy()
    beyond[X[:, 0] < -8.0] *= 1.5
    assert there.objective_ == pytest.approx(LinearClassifier("ramp", lam=0.01).fit(beyond, y).objective_, rel=0.02)


def test_the_certificate_is_local_and_there_is_no_bound():
    X, y, _ = outliers()
    model = LinearClassifier("ramp", lam=0.01).fit(X, y)
    assert model.certificate_ == "local"
    assert model.lower_bound_ == -math.inf
    assert 0.0 <= model.gap_ <= 1e-3 * model.objective_
    assert model.result_.certificate == "local"
    assert LinearClassifier("hinge", lam=0.01).fit(X, y).certificate_ == "global"


@pytest.mark.parametrize("floor", [-2.0, -1.0, 0.0])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_objective_is_the_formula_and_no_worse_than_at_the_start(floor, fit_intercept):
    X, y, _ = outliers()
    sign = np.where(y == 1, 1.0, -1.0)

    def J(model):
        loss = np.clip(1.0 - sign * model.decision_function(X), 0.0, 1.0 - floor)
        return 0.005 * float(model.coef_[0] @ model.coef_[0]) + loss.mean()

    model = LinearClassifier(Ramp(floor), lam=0.01, fit_intercept=fit_intercept).fit(X, y)
    hinge = LinearClassifier("hinge", lam=0.01, fit_intercept=fit_intercept).fit(X, y)
    assert model.objective_ == pytest.approx(J(model), rel=1e-9)
    assert model.objective_ <= J(hinge) * (1.0 + 1e-12)


def test_no_model_nearby_is_better(rng):
    X, y, _ = outliers()
    sign = np.where(y == 1, 1.0, -1.0)
    model = LinearClassifier("ramp", lam=0.01, gap_rel=1e-6).fit(X, y)
    for step in 1e-3 * rng.standard_normal((200, 3)):
        w, b = model.coef_[0] + step[:2], model.intercept_[0] + step[2]
        loss = np.clip(1.0 - sign * (X @ w + b), 0.0, 2.0)
        assert 0.005 * w @ w + loss.mean() >= model.objective_ - 1e-4


def test_a_deep_floor_is_the_hinge():
    X, y, _ = outliers(share=0.0)
    deep, hinge = (LinearClassifier(loss, lam=0.1, gap_rel=1e-6).fit(X, y) for loss in (Ramp(-1e4), "hinge"))
    assert deep.objective_ == pytest.approx(hinge.objective_, rel=1e-4)
    np.testing.assert_allclose(deep.decision_function(X), hinge.decision_function(X), atol=0.05)


@pytest.mark.parametrize("loss", ["ramp", Ramp(-0.5)])
def test_a_model_file_brings_the_model_back(tmp_path, loss):
    X, y, _ = outliers()
    model = LinearClassifier(loss, lam=0.01).fit(X, y)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))
    assert back._loss() == model._loss()
    assert back.certificate_ == "local"
    assert back.lower_bound_ == -math.inf
    assert back.gap_ == model.gap_


@pytest.mark.parametrize("solver", ["auto", "nonconvex_bundle", "convex_concave", "classic_bundle"])
def test_solvers_for_risks_that_are_not_convex_agree(solver):
    X, y, clean = outliers()
    model = LinearClassifier("ramp", lam=0.1, solver=solver).fit(X, y)
    assert model.score(clean, y) >= 0.95
    assert model.objective_ == pytest.approx(LinearClassifier("ramp", lam=0.1).fit(X, y).objective_, rel=0.02)


@pytest.mark.parametrize("solver", ["newton", "line_search_bundle", "cutting_plane", "dual_ascent"])
def test_a_solver_for_convex_risks_is_refused_with_the_remedy(solver):
    X, y, _ = outliers()
    with pytest.raises(CapabilityError, match="use NonconvexBundle"):
        LinearClassifier("ramp", solver=solver).fit(X, y)


def test_several_classes_are_fitted_one_against_the_rest():
    X, y = load_iris(return_X_y=True)
    model = LinearClassifier("ramp", lam=0.01).fit(X, y)
    assert model.coef_.shape == (3, 4)
    assert model.certificate_ == "local"
    assert model.lower_bound_ == -math.inf
    assert all(result.certificate == "local" for result in model.result_)
    assert model.score(X, y) >= 0.6


def test_sparse_features_give_the_same_model():
    X, y, _ = outliers()
    dense, sparse = (LinearClassifier("ramp", lam=0.01).fit(data, y) for data in (X, sp.csr_array(X)))
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=2e-3)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=0.05)


def test_a_sample_with_weight_two_counts_twice():
    X, y, _ = outliers()
    twice = np.r_[np.arange(y.size), :10]
    make = LinearClassifier("ramp", lam=0.1, gap_rel=1e-6)
    heavy = clone(make).fit(X, y, sample_weight=np.where(np.arange(y.size) < 10, 2.0, 1.0))
    repeated = clone(make).fit(X[twice], y[twice])
    assert heavy.objective_ == pytest.approx(repeated.objective_, rel=1e-3)


def test_a_warm_start_goes_on_from_the_last_solution():
    X, y, _ = outliers()
    model = LinearClassifier("ramp", lam=0.01, warm_start=True).fit(X, y)
    first = model.objective_
    assert model.fit(X, y).objective_ <= first * (1.0 + 1e-12)


def test_there_are_no_probabilities():
    X, y, _ = outliers()
    assert not hasattr(LinearClassifier("ramp", lam=0.01).fit(X, y), "predict_proba")
