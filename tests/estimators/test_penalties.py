"""Penalties of the linear estimators: sparse coefficients, scikit-learn's definitions, and model files."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import ElasticNet as SklearnElasticNet
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.model_files import edit
from tests.regularizers.test_regularizers import Cubic

from undercut import L1, L2, ElasticNet, LevelBundle, LinearClassifier, LinearRegressor, load_model, save_model
from undercut.errors import ModelFileError
from undercut.regularizers import BlockSum, Boxed, Entropy, Quadratic, SquaredLp

SOLVER = LevelBundle()


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), scale(y)


@pytest.mark.filterwarnings("ignore::undercut.errors.ConstantModelWarning")  # random labels
@parametrize_with_checks(
    [
        LinearClassifier(penalty="l1"),
        LinearClassifier("logistic", penalty="elasticnet"),
        LinearRegressor(penalty="l1", gap_rel=1e-10),  # equal problems have equal solutions only at the optimum
    ],
)
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("loss", [name for name, loss in LinearClassifier._losses.items() if loss.is_convex])
def test_most_coefficients_are_exactly_zero_under_l1(cancer, loss):
    X, y = cancer
    model = LinearClassifier(loss, lam=0.03, penalty="l1", solver=SOLVER).fit(X, y)
    assert 1 <= np.count_nonzero(model.coef_) <= 15
    assert model.gap_ <= 1e-3 * model.objective_
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("l1_ratio", [0.1, 0.5, 0.9])
def test_the_elastic_net_is_that_of_scikit_learn(diabetes, l1_ratio):
    X, y = diabetes
    model = LinearRegressor(lam=0.1, penalty="elasticnet", l1_ratio=l1_ratio, solver=SOLVER, gap_rel=1e-8).fit(X, y)
    same = SklearnElasticNet(alpha=0.1, l1_ratio=l1_ratio, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-3)
    np.testing.assert_array_equal(model.coef_ == 0.0, same.coef_ == 0.0)
    assert model.intercept_ == pytest.approx(same.intercept_, abs=1e-3)


def test_l1_is_the_lasso(diabetes):
    X, y = diabetes
    model = LinearRegressor(lam=0.1, penalty="l1", solver=SOLVER, gap_rel=1e-8).fit(X, y)
    same = SklearnElasticNet(alpha=0.1, l1_ratio=1.0, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-3)
    np.testing.assert_array_equal(model.coef_ == 0.0, same.coef_ == 0.0)


def test_l2_is_what_it_was(cancer):
    X, y = cancer
    named, given = LinearClassifier(lam=1e-2), LinearClassifier(penalty=L2(1e-2))
    np.testing.assert_array_equal(named.fit(X, y).coef_, given.fit(X, y).coef_)


def test_coefficients_can_be_kept_non_negative(diabetes):
    X, y = diabetes
    model = LinearRegressor(penalty=Boxed(L2(1e-4), lower=0.0), solver=SOLVER).fit(X, y)
    assert (model.coef_ >= 0.0).all()
    assert (model.coef_ == 0.0).any()


@pytest.mark.parametrize("sparse_data", [False, True])
def test_sparse_coefficients_predict_the_same(cancer, sparse_data):
    X, y = cancer
    X = sp.csr_matrix(X) if sparse_data else X
    model = LinearClassifier("logistic", lam=0.03, penalty="l1", solver=SOLVER).fit(X, y)
    dense, scores, probability = model.coef_.copy(), model.decision_function(X), model.predict_proba(X)
    assert model.sparsify() is model
    assert sp.issparse(model.coef_)
    assert model.coef_.nnz == np.count_nonzero(dense)
    np.testing.assert_allclose(model.decision_function(X), scores)
    np.testing.assert_allclose(model.predict_proba(X), probability)
    assert model.densify() is model
    np.testing.assert_array_equal(model.coef_, dense)


def test_a_regressor_and_several_classes_can_be_sparse_too(diabetes):
    X, y = diabetes
    model = LinearRegressor(lam=0.1, penalty="l1", solver=SOLVER).fit(X, y)
    before, coef = model.predict(X), model.coef_.copy()
    np.testing.assert_allclose(model.sparsify().predict(X), before)
    np.testing.assert_array_equal(model.densify().coef_, coef)
    X, y = load_iris(return_X_y=True)
    several = LinearClassifier(lam=0.05, penalty="l1", solver=SOLVER).fit(X, y)
    before = several.decision_function(X)
    np.testing.assert_allclose(several.sparsify().decision_function(X), before)


def test_a_sparse_model_can_be_fitted_on(cancer):
    X, y = cancer
    model = LinearClassifier(lam=0.03, penalty="l1", solver=SOLVER, warm_start=True).fit(X, y).sparsify()
    steps = model.n_iter_
    assert model.fit(X, y).n_iter_ <= steps
    assert isinstance(model.coef_, np.ndarray)


def test_a_sparse_model_is_saved_like_a_dense_one(tmp_path, cancer):
    X, y = cancer
    model = LinearClassifier(lam=0.03, penalty="l1", solver=SOLVER).fit(X, y)
    save_model(model.sparsify(), tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.coef_, model.densify().coef_)
    assert (back.penalty, back.l1_ratio) == ("l1", 0.5)


@pytest.mark.parametrize(
    "penalty",
    [
        L1(0.1),
        L2(0.1, center=np.ones(10), weights=np.arange(1.0, 11.0)),
        ElasticNet(0.1, l1_ratio=0.7),
        SquaredLp(0.1, p=1.3),
        Entropy(0.1, prior=np.arange(1.0, 11.0)),
        Quadratic(0.1, 2.0 * np.eye(10)),
        Quadratic(0.1, sp.eye_array(10)),
        Boxed(L1(0.1), lower=0.0, upper=np.arange(1.0, 11.0)),
        BlockSum([(4, L1(0.1)), (6, Boxed(L2(0.1), lower=0.0))]),
    ],
    ids=lambda penalty: type(penalty).__name__,
)
def test_a_regularizer_comes_back_as_it_went(tmp_path, diabetes, penalty):
    X, y = diabetes
    model = clone(LinearRegressor(penalty=penalty, solver=SOLVER)).fit(X, y)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert type(back.penalty) is type(penalty)
    assert back.penalty.value(model.coef_) == penalty.value(model.coef_)


def test_what_cannot_be_saved_is_refused(tmp_path, diabetes):
    X, y = diabetes
    own = LinearRegressor(penalty=Cubic(0.1), solver="cutting_plane").fit(X, y)
    with pytest.raises(ModelFileError, match="`penalty` cannot be saved: a Cubic"):
        save_model(own, tmp_path / "model.uc")


@pytest.mark.parametrize(
    "lie",
    [
        {"object": {"dict": [["command", "true"]]}, "kind": "os.system"},
        {"object": {"dict": [["lam", -1.0]]}, "kind": "L1"},
        {"object": {"dict": [["other", 1.0]]}, "kind": "L1"},
        {"object": {"dict": [["reg", {"object": {"dict": []}, "kind": "Nothing"}]]}, "kind": "Boxed"},
        {"object": {"dict": [["blocks", 3]]}, "kind": "BlockSum"},
        {"object": {"dict": []}, "kind": "L1"},
        {"kind": "L1"},
        {"array": "nothing"},
        [1, 2],
    ],
)
def test_a_penalty_that_lies_is_refused(tmp_path, diabetes, lie):
    X, y = diabetes
    save_model(LinearRegressor(penalty=L1(0.1), solver=SOLVER).fit(X, y), tmp_path / "model.uc")
    edit(tmp_path / "model.uc", lambda header: header["params"].update(penalty=lie))
    with pytest.raises(ModelFileError, match="is not a model file of undercut, or is damaged"):
        load_model(tmp_path / "model.uc")


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ({"penalty": "l3"}, "The 'penalty' parameter"),
        ({"penalty": None}, "The 'penalty' parameter"),
        ({"l1_ratio": 1.5}, "The 'l1_ratio' parameter"),
    ],
)
def test_a_penalty_outside_its_domain_is_refused(setting, rule):
    with pytest.raises(ValueError, match=rule):
        LinearClassifier(**setting).fit(np.eye(2), [0, 1])
