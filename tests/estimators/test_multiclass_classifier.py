"""Joint fits of several classes agree with LIBLINEAR and scikit-learn, and say what goes with what."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from undercut import LinearClassifier, MulticlassRisk, lam_from_C, load_model, save_model
from undercut.errors import ParameterError
from undercut.losses import CrammerSinger

JOINT = {"crammer_singer": "hinge", "multinomial": "logistic"}
joint = pytest.mark.parametrize("multi_class", JOINT)


def make(multi_class, **settings):
    return LinearClassifier(JOINT[multi_class], multi_class=multi_class, **settings)


@pytest.mark.parametrize("C", [0.01, 1.0, 10.0])
def test_agrees_with_liblinear_on_the_crammer_singer_loss(iris, C):
    X, y = iris
    lam = lam_from_C(C, y.size)
    theirs = LinearSVC(multi_class="crammer_singer", C=C, fit_intercept=False, tol=1e-10, max_iter=10**6).fit(X, y)
    ours = make("crammer_singer", lam=lam, fit_intercept=False, gap_rel=1e-8).fit(X, y)
    W = theirs.coef_
    reached = 0.5 * lam * float((W**2).sum()) + MulticlassRisk(X, y, CrammerSinger()).value(W.ravel())
    assert ours.lower_bound_ <= reached * (1.0 + 1e-12)
    assert ours.objective_ == pytest.approx(reached, rel=1e-5)
    np.testing.assert_allclose(ours.coef_, W, atol=2e-2 * np.abs(W).max())


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_agrees_with_scikit_learn_on_the_softmax(iris, C, fit_intercept):
    X, y = iris
    theirs = LogisticRegression(C=C, fit_intercept=fit_intercept, tol=1e-10, max_iter=10**5).fit(X, y)
    ours = make("multinomial", lam=lam_from_C(C, y.size), fit_intercept=fit_intercept, gap_rel=1e-12).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


@joint
def test_the_certificate_is_that_of_one_problem(iris, multi_class):
    rough, fine = (make(multi_class, lam=1e-3, gap_rel=gap).fit(*iris) for gap in (1e-1, 1e-7))
    assert rough.lower_bound_ <= fine.objective_ * (1.0 + 1e-12)
    assert fine.gap_ <= 1e-7 * fine.objective_
    assert fine.result_.objective == fine.objective_
    assert (fine.coef_.shape, fine.intercept_.shape) == ((3, 4), (3,))
    assert fine.score(*iris) > 0.95


@joint
def test_two_classes_are_left_with_one_row(iris, multi_class):
    X, y = iris[0], np.where(iris[1] == 1, "yes", "no")
    model = make(multi_class, lam=1e-2, gap_rel=1e-9).fit(X, y)
    assert (model.coef_.shape, model.intercept_.shape) == ((1, 4), (1,))
    # |w_0|^2 + |w_1|^2 is half of |w_1 - w_0|^2 at the optimum; and the margin of the difference is 1.
    alone = LinearClassifier(JOINT[multi_class], lam=5e-3, gap_rel=1e-9).fit(X, y)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-3)
    np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=1e-2)
    if multi_class == "multinomial":
        np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), atol=1e-4)


def test_probabilities_are_those_of_the_softmax(iris):
    model = make("multinomial").fit(*iris)
    P = model.predict_proba(iris[0])
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(P[:, 1] / P[:, 0]), np.diff(model.decision_function(iris[0]))[:, 0], rtol=1e-6)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(iris[0])), P)
    assert not hasattr(make("crammer_singer"), "predict_proba")


def test_costly_mistakes_are_avoided(iris):
    """Taking class 2 for class 1 costs a hundred times more than the other way round."""
    X, y = iris[0][:, :2], iris[1]
    costs = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 100.0, 0.0]])
    plain, careful = (make("crammer_singer", lam=1e-2, label_loss=M).fit(X, y) for M in (None, costs))
    wrong = [np.sum((model.predict(X) == 1) & (y == 2)) for model in (plain, careful)]
    assert wrong[1] < wrong[0]


@joint
def test_sparse_narrow_and_framed_data_give_the_same_model(iris, multi_class):
    X, y = iris[0].astype(np.float32), iris[1]
    model = make(multi_class, lam=1e-2, gap_rel=1e-8).fit(X.astype(np.float64), y)
    S = sp.csr_matrix(X)
    wide = S.copy()
    wide.indices, wide.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    for Z in (X, S, wide, pd.DataFrame(X, columns=list("abcd"))):
        same = make(multi_class, lam=1e-2, gap_rel=1e-8).fit(Z, y)
        assert same.objective_ == pytest.approx(model.objective_, rel=1e-7)
        np.testing.assert_array_equal(same.predict(Z), model.predict(X.astype(np.float64)))


@joint
def test_class_weights_act_like_sample_weights(iris, multi_class):
    X, y = iris
    weighted = make(multi_class, lam=1e-2, gap_rel=1e-9, class_weight={0: 1.0, 1: 3.0, 2: 1.0}).fit(X, y)
    same = make(multi_class, lam=1e-2, gap_rel=1e-9).fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    np.testing.assert_allclose(weighted.coef_, same.coef_, atol=1e-6)


@joint
@pytest.mark.parametrize("n_classes", [2, 3])
def test_warm_start_begins_where_the_last_fit_ended(iris, multi_class, n_classes):
    X, y = iris[0], iris[1] % n_classes
    model = make(multi_class, lam=1e-3, warm_start=True, gap_rel=1e-6).fit(X, y)
    reached = model.objective_
    assert model.fit(X, y).result_.trace[0].objective == pytest.approx(reached, rel=1e-4)


@joint
def test_a_model_file_gives_all_back(iris, multi_class, tmp_path):
    model = make(multi_class).fit(*iris)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.decision_function(iris[0]), model.decision_function(iris[0]))
    assert back.multi_class == multi_class
    if multi_class == "multinomial":
        np.testing.assert_array_equal(back.predict_proba(iris[0]), model.predict_proba(iris[0]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "logistic", "multi_class": "crammer_singer"}, 'loss="hinge".*multi_class="ovr"'),
        ({"loss": "hinge", "multi_class": "multinomial"}, 'loss="logistic".*multi_class="ovr"'),
        ({"label_loss": np.zeros((3, 3))}, 'belongs to multi_class="crammer_singer"'),
        ({"multi_class": "crammer_singer", "label_loss": -np.ones((3, 3))}, "label_loss"),
        ({"multi_class": "crammer_singer", "label_loss": np.zeros((2, 2))}, r"shape \(3, 3\)"),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_remedy(iris, settings, message):
    with pytest.raises(ValueError, match=message):
        LinearClassifier(**settings).fit(*iris)


def three_classes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4))
    return X, (X[:, :3] + 0.5 * rng.standard_normal((80, 3))).argmax(axis=1)


@cache
def attainable(multi_class):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make(multi_class, lam=1e-12, max_steps=200).fit(*three_classes()).objective_


@joint
@pytest.mark.parametrize("scale", [1e10, 1e20, 1e31, 1e60, 1e100])
@pytest.mark.parametrize("lam", [1e-12, 1e-4])
def test_no_bound_is_false_however_badly_the_features_are_scaled(multi_class, scale, lam):
    """Scaled features admit coefficients scaled down, which cost next to nothing."""
    X, y = three_classes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = make(multi_class, lam=lam, max_steps=100).fit(X * scale, y)
    assert model.lower_bound_ <= attainable(multi_class) * (1.0 + 1e-9)


def test_an_unknown_way_is_named(iris):
    with pytest.raises(ValueError, match="multi_class"):
        LinearClassifier(multi_class="ovo").fit(*iris)
    assert issubclass(ParameterError, ValueError)
