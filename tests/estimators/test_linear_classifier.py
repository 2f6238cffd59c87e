"""The linear classifier as its users meet it."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from undercut import Hinge, HuberHinge, LinearClassifier, LinearRisk, LineSearchBundle, Status, lam_from_C
from undercut.errors import ConstantModelWarning


@pytest.mark.parametrize("loss", [name for name, loss in LinearClassifier._losses.items() if loss.is_convex])
def test_the_certificate_brackets_a_far_more_accurate_fit(cancer, loss):
    rough = LinearClassifier(loss=loss, lam=1e-3, gap_rel=1e-2).fit(*cancer)
    fine = LinearClassifier(loss=loss, lam=1e-3, gap_rel=1e-8).fit(*cancer)
    assert rough.lower_bound_ <= fine.objective_ * (1 + 1e-12)
    assert fine.lower_bound_ <= rough.objective_ * (1 + 1e-12)
    assert rough.gap_ <= 1e-2 * rough.objective_
    assert fine.gap_ <= 1e-8 * fine.objective_


def test_agrees_with_liblinear_on_the_hinge_loss(cancer):
    X, y = cancer
    C = 0.1
    theirs = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-10, max_iter=1_000_000).fit(X, y)
    ours = LinearClassifier(lam=lam_from_C(C, y.size), fit_intercept=False, gap_rel=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-4)
    w = theirs.coef_.ravel()
    reached = 0.5 * ours.lam * float(w @ w) + LinearRisk(X, np.where(y == 1, 1.0, -1.0), Hinge()).value(w)
    assert ours.lower_bound_ <= reached <= ours.objective_ * (1 + 1e-6)


def test_agrees_with_scikit_learn_on_the_logistic_loss_with_an_unpenalized_intercept(cancer):
    X, y = cancer
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(X, y)
    ours = LinearClassifier(loss="logistic", lam=lam_from_C(0.5, y.size), gap_rel=1e-12).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


def test_probabilities_belong_to_the_logistic_loss_alone(cancer, iris):
    assert not hasattr(LinearClassifier(), "predict_proba")
    model = LinearClassifier(loss="logistic").fit(*iris)
    np.testing.assert_allclose(model.predict_proba(iris[0]).sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(iris[0])), model.predict_proba(iris[0]))


def test_several_classes_are_fitted_one_against_the_rest(iris):
    X, y = iris
    model = LinearClassifier(lam=1e-3).fit(X, y)
    alone = LinearClassifier(lam=1e-3).fit(X, y == 2)
    np.testing.assert_array_equal(model.coef_[2], alone.coef_[0])
    assert model.coef_.shape == (3, 4)
    assert len(model.result_) == 3
    assert model.objective_ == pytest.approx(sum(result.objective for result in model.result_))
    assert model.n_iter_ == max(result.n_steps for result in model.result_)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("labels", [("no", "yes"), (False, True), (-7, 3)])
def test_any_two_labels_do(cancer, labels):
    X, y = cancer
    model = LinearClassifier(lam=1e-2).fit(X, np.array(labels)[y])
    assert set(model.predict(X)) == set(labels)
    np.testing.assert_array_equal(model.coef_, LinearClassifier(lam=1e-2).fit(X, y).coef_)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_and_dense_data_give_the_same_model(cancer, index, dtype):
    X, y = cancer
    X = np.where(np.abs(X) > 0.5, X, 0.0).astype(dtype)
    S = sp.csr_matrix(X)
    S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    dense = LinearClassifier(lam=1e-2, gap_rel=1e-8).fit(X, y)
    sparse = LinearClassifier(lam=1e-2, gap_rel=1e-8).fit(S, y)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-7)
    np.testing.assert_array_equal(sparse.predict(S), dense.predict(X))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_give_the_same_model_and_keep_their_names(cancer, frame):
    X, y = cancer
    names = [f"f{i}" for i in range(X.shape[1])]
    table = frame({name: X[:, i] for i, name in enumerate(names)})
    model = LinearClassifier(lam=1e-2, gap_rel=1e-9).fit(table, y)
    np.testing.assert_allclose(model.coef_, LinearClassifier(lam=1e-2, gap_rel=1e-9).fit(X, y).coef_, atol=1e-4)
    assert list(model.feature_names_in_) == names


def test_class_weights_act_like_sample_weights(cancer):
    X, y = cancer
    weighted = LinearClassifier(loss="logistic", lam=1e-2, class_weight={0: 3.0, 1: 1.0}).fit(X, y)
    same = LinearClassifier(loss="logistic", lam=1e-2).fit(X, y, sample_weight=np.where(y == 0, 3.0, 1.0))
    np.testing.assert_allclose(weighted.coef_, same.coef_)
    balanced = LinearClassifier(lam=1e-2, class_weight="balanced").fit(X, y)
    assert (balanced.predict(X) == 0).mean() >= (LinearClassifier(lam=1e-2).fit(X, y).predict(X) == 0).mean()


def test_warm_start_begins_where_the_last_fit_ended(cancer):
    model = LinearClassifier(lam=1e-4, warm_start=True, gap_rel=1e-4).fit(*cancer)
    first, reached = model.result_.trace[0].objective, model.objective_
    again = model.fit(*cancer).result_.trace[0].objective
    assert again == pytest.approx(reached, rel=1e-9)
    assert again < first


def test_warm_start_is_dropped_where_classes_or_features_differ(cancer, iris):
    model = LinearClassifier(warm_start=True).fit(*cancer)
    model.fit(*iris)
    np.testing.assert_array_equal(model.coef_, LinearClassifier().fit(*iris).coef_)


def test_a_fit_that_ends_early_warns_with_the_remedy_and_keeps_its_certificate(cancer):
    model = LinearClassifier(lam=1e-8, max_steps=3, solver="line_search_bundle")
    with pytest.warns(ConvergenceWarning, match=r"raise max_steps.*lower bound"):
        model.fit(*cancer)
    assert model.result_.status is Status.MAX_STEPS
    assert model.lower_bound_ <= model.objective_
    with pytest.warns(ConvergenceWarning, match="raise max_seconds"):
        LinearClassifier(lam=1e-8, max_seconds=1e-9).fit(*cancer)


def test_ctrl_c_keeps_the_best_solution_of_every_class(iris, monkeypatch):
    calls = 0
    original = LinearRisk.along

    def interrupted(self, w, direction):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return original(self, w, direction)

    monkeypatch.setattr(LinearRisk, "along", interrupted)
    model = LinearClassifier(solver="line_search_bundle")
    with pytest.raises(KeyboardInterrupt):
        model.fit(*iris)
    assert model.interrupted_
    assert [result.status for result in model.result_] == [Status.CONVERGED, Status.STOPPED, Status.MAX_STEPS]
    assert model.predict(iris[0]).shape == (150,)


def test_lives_in_pipelines_grid_searches_and_clones(cancer):
    X, y = cancer
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LinearClassifier()), {"linearclassifier__lam": [1e-3, 1e-1]}, cv=3, n_jobs=2
    )
    assert search.fit(X, y).best_score_ > 0.95
    model = LinearClassifier(loss=HuberHinge(0.1), solver=LineSearchBundle(max_planes=20))
    assert clone(model).get_params() == model.get_params()
    assert clone(model).fit(X, y).gap_ <= 1e-3


def test_progress_is_shown_on_request_only(cancer, capsys):
    LinearClassifier(verbose=1).fit(*cancer)
    LinearClassifier().fit(*cancer)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": 0.0}, "lam"),
        ({"lam": -1.0}, "lam"),
        ({"loss": "hing"}, "'hinge'.*got 'hing'"),
        ({"solver": "bundle"}, "solver"),
        ({"gap_rel": -1.0}, "gap_rel"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_seconds": 0.0}, "max_seconds"),
        ({"class_weight": "even"}, "class_weight"),
    ],
)
def test_a_wrong_setting_is_named(cancer, settings, message):
    with pytest.raises(ValueError, match=message):
        LinearClassifier(**settings).fit(*cancer)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[1.0], [np.nan]], [0, 1], "NaN"),
        ([[1.0], [np.inf]], [0, 1], "infinity"),
        ([[1.0], [2.0]], [0, 0], "at least 2 classes"),
        ([[1.0], [2.0]], [0, 1, 1], "inconsistent"),
        ([[1.0], [2.0]], [0.1, 0.2], "Unknown label type"),
        (np.empty((0, 1)), [], "0 sample"),
    ],
)
def test_bad_data_get_a_clear_error(X, y, message):
    with pytest.raises(ValueError, match=message):
        LinearClassifier().fit(X, y)


def test_constant_features_zero_rows_and_duplicates_do_no_harm():
    X = np.array([[0.0, 1.0, 0.0], [2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 1.0, 0.0]])
    y = np.array([0, 1, 1, 0, 0])
    for loss in LinearClassifier._losses:
        for lam in (1e-9, 1.0, 1e3):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.simplefilter("ignore", ConstantModelWarning)
                model = LinearClassifier(loss=loss, lam=lam, max_steps=500).fit(X, y)
            assert np.isfinite(model.coef_).all()
            assert model.lower_bound_ <= model.objective_


@pytest.mark.parametrize("scale", [1e10, 1e20, 1e26, 1e31, 1e36, 1e60, 1e150])
@pytest.mark.parametrize("lam", [1e-12, 1e-4])
def test_no_bound_is_false_however_badly_the_features_are_scaled(scale, lam):
    """Scaled features admit coefficients scaled down, which cost next to nothing."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(80) > 0, 1, -1)
    attainable = LinearClassifier(lam=1e-12, gap_rel=1e-6).fit(X, y).objective_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearClassifier(lam=lam, max_steps=150).fit(X * scale, y)
    assert model.lower_bound_ <= attainable * (1.0 + 1e-9)
