"""The multivariate classifier as its users meet it."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import metrics
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.model_files import edit

from undercut import (
    CuttingPlane,
    LinearClassifier,
    MultivariateClassifier,
    MultivariateRisk,
    SquaredHinge,
    Status,
    load_model,
    save_model,
)
from undercut.errors import ConstantModelWarning, DataError, ModelFileError, ParameterError
from undercut.measures import AveragePrecision, BalancedError, ContingencyMeasure, FBeta, PrecisionAt

NAMES = ["f1", "f0.5", "precision@50", "recall@50", "prbep", "roc_auc", "balanced_error"]
names = pytest.mark.parametrize("name", NAMES)


def few_at_the_top(estimator):
    """Two samples are all that ``predict`` calls positive."""
    if estimator.measure not in ("precision@2", "recall@2"):
        return {}
    return {"check_classifiers_train": "asks for most labels to be right"}


CHECKED = ["f1", "f0.5", "precision@2", "recall@2", "prbep", "roc_auc", "balanced_error"]


@pytest.mark.filterwarnings("ignore::undercut.errors.ConstantModelWarning")  # random labels
@parametrize_with_checks([MultivariateClassifier(name) for name in CHECKED], expected_failed_checks=few_at_the_top)
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rare():
    """One positive in twenty."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 8))
    y = X[:, 0] + X[:, 1] + 0.5 * rng.standard_normal(2000) > 2.4
    return X, y.astype(int)


@names
def test_the_certificate_brackets_a_far_more_accurate_fit(cancer, name):
    rough = MultivariateClassifier(name, lam=1e-2, gap_rel=1e-2).fit(*cancer)
    fine = MultivariateClassifier(name, lam=1e-2, gap_rel=1e-5).fit(*cancer)
    assert rough.lower_bound_ <= fine.objective_ * (1 + 1e-12)
    assert fine.lower_bound_ <= rough.objective_ * (1 + 1e-12)
    assert rough.gap_ <= 1e-2 * rough.objective_
    assert fine.gap_ <= 1e-5 * fine.objective_


@names
def test_the_objective_is_that_of_its_coefficients_and_intercept(cancer, name):
    X, y = cancer
    model = MultivariateClassifier(name, lam=1e-2, threshold="own", surrogate="own").fit(X, y)
    w, signs = model.coef_.ravel(), np.where(y == 1, 1.0, -1.0)
    with_constant = MultivariateRisk(np.column_stack([X, np.ones(y.size)]), signs, name)
    value = with_constant.value(np.append(w, model.intercept_))
    assert model.objective_ == pytest.approx(0.5 * model.lam * float(w @ w) + value, rel=1e-9)


TOP = pytest.mark.parametrize("name", ["precision@30", "recall@150", "prbep", "roc_auc@0.1"])


@pytest.fixture(scope="module")
def overlapping():
    """A rare class that no direction lifts above the best of the others."""
    rng = np.random.default_rng(1)
    X, w = rng.standard_normal((3000, 20)), rng.standard_normal(20) / np.sqrt(20)
    return X, (X @ w + rng.standard_normal(3000) > 1.8).astype(int)


@pytest.fixture(scope="module")
def outliers():
    """A rare class, some of whose samples are far on the wrong side."""
    rng = np.random.default_rng(0)
    y = (rng.random(3000) < 0.15) * 1
    X = rng.standard_normal((3000, 6))
    X[:, 0] += 2.5 * y
    X[(y == 1) & (rng.random(3000) < 0.02), 0] -= 40.0
    return X, y


@TOP
def test_a_bound_that_learns_nothing_gives_way_to_another_surrogate(overlapping, name):
    X, y = overlapping
    model = MultivariateClassifier(name, lam=1e-2).fit(X[:1000], y[:1000])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantModelWarning)
        own = MultivariateClassifier(name, lam=1e-2, surrogate="own").fit(X[:1000], y[:1000])
    assert own.surrogate_ == own._measure()
    assert model.surrogate_ in (SquaredHinge(), AveragePrecision())
    assert model.score(X[1000:], y[1000:]) > own.score(X[1000:], y[1000:]) + 0.01
    assert model.gap_ <= 1e-3 * model.objective_
    if name.startswith("precision"):
        assert model.predict(X[:1000]).sum() == 30


@TOP
def test_the_certificate_is_that_of_the_surrogate_that_was_asked_for(overlapping, name):
    X, y = overlapping
    model = MultivariateClassifier(name, lam=1e-2, surrogate="average_precision").fit(X[:1000], y[:1000])
    w, risk = model.coef_[0], MultivariateRisk(X[:1000], np.where(y[:1000] == 1, 1.0, -1.0), AveragePrecision())
    assert model.surrogate_ == AveragePrecision()
    assert model.objective_ == pytest.approx(0.5 * model.lam * float(w @ w) + risk.value(w))


def test_the_squared_hinge_has_the_prices_of_the_measure(rare):
    X, y = rare
    model = MultivariateClassifier("balanced_error", lam=1e-2, surrogate="squared_hinge", threshold="own").fit(X, y)
    same = LinearClassifier("squared_hinge", lam=1e-2, class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(model.coef_, same.coef_, atol=0.02)
    np.testing.assert_allclose(model.intercept_, same.intercept_, atol=0.02)
    assert model.objective_ == pytest.approx(same.objective_, rel=2e-3)


def test_labels_that_are_wrong_far_away_lead_to_the_bound_of_the_measure(outliers):
    """The squared hinge grows with the square of a violation, the bound of F1 linearly."""
    X, y = outliers
    model = MultivariateClassifier("f1", lam=1e-3).fit(X[:600], y[:600])
    assert model.surrogate_ == FBeta()
    squared = MultivariateClassifier("f1", lam=1e-3, surrogate="squared_hinge").fit(X[:600], y[:600])
    assert model.score(X[600:], y[600:]) > squared.score(X[600:], y[600:]) + 0.05


def test_the_score_is_the_measure_itself(rare):
    X, y = rare
    model = MultivariateClassifier("f1", lam=1e-3).fit(X, y)
    assert model.score(X, y) == pytest.approx(metrics.f1_score(y, model.predict(X)))
    area = MultivariateClassifier("roc_auc", lam=1e-3).fit(X, y)
    assert area.score(X, y) == pytest.approx(metrics.roc_auc_score(y, area.decision_function(X)))
    balanced = MultivariateClassifier("balanced_error", lam=1e-3).fit(X, y)
    assert balanced.score(X, y) == pytest.approx(metrics.balanced_accuracy_score(y, balanced.predict(X)))
    top = MultivariateClassifier("precision@20", lam=1e-3).fit(X, y)
    assert top.score(X, y) == pytest.approx(np.mean(y[np.argsort(-top.decision_function(X))[:20]]))


def test_f1_of_a_rare_class_beats_the_hinge_loss(rare):
    X, y = rare
    ours = MultivariateClassifier("f1", lam=1e-3).fit(X[:1000], y[:1000])
    hinge = LinearClassifier(lam=1e-3).fit(X[:1000], y[:1000])
    assert ours.score(X[1000:], y[1000:]) > metrics.f1_score(y[1000:], hinge.predict(X[1000:]))


def test_the_intercept_is_not_penalized(rare):
    """A common shift of all features moves only the intercept."""
    X, y = rare
    settings = {"lam": 1e-2, "threshold": "own", "surrogate": "own"}
    model = MultivariateClassifier("f1", gap_rel=1e-6, **settings).fit(X, y)
    moved = MultivariateClassifier("f1", gap_rel=1e-6, **settings).fit(X + 3.0, y)
    assert moved.objective_ == pytest.approx(model.objective_, rel=2e-6)
    with pytest.warns(ConstantModelWarning):
        without = MultivariateClassifier("f1", fit_intercept=False, **settings).fit(X, y)
    assert without.intercept_ == 0.0
    assert without.lower_bound_ >= model.lower_bound_ * (1 - 1e-3)


def test_of_the_top_as_many_are_predicted_as_were_asked_for(rare):
    X, y = rare
    assert MultivariateClassifier("precision@50").fit(X, y).predict(X).sum() == 50
    assert MultivariateClassifier("prbep").fit(X, y).predict(X).sum() == y.sum()


@pytest.mark.parametrize("labels", [("no", "yes"), (False, True), (-7, 3)])
def test_any_two_labels_do_and_the_second_is_positive(cancer, labels):
    X, y = cancer
    model = MultivariateClassifier(lam=1e-2).fit(X, np.array(labels)[y])
    assert list(model.classes_) == list(labels)
    assert set(model.predict(X)) == set(labels)
    np.testing.assert_array_equal(model.coef_, MultivariateClassifier(lam=1e-2).fit(X, y).coef_)
    assert model.score(X, np.array(labels)[y]) == pytest.approx(metrics.f1_score(y, model.predict(X) == labels[1]))


def test_more_than_two_classes_are_refused():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(DataError, match=r"Only binary classification is supported.*3 classes"):
        MultivariateClassifier().fit(X, y)


def test_labels_that_the_fit_does_not_know_are_refused_by_score(cancer):
    X, y = cancer
    with pytest.raises(DataError, match="labels of the fit"):
        MultivariateClassifier(lam=1e-1).fit(X, y).score(X, y + 1)


@names
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_and_dense_data_give_the_same_model(cancer, name, index, dtype):
    X, y = cancer
    X = np.where(np.abs(X) > 0.5, X, 0.0).astype(dtype)
    S = sp.csr_matrix(X)
    S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    dense = MultivariateClassifier(name, lam=1e-1, gap_rel=1e-6).fit(X, y)
    sparse = MultivariateClassifier(name, lam=1e-1, gap_rel=1e-6).fit(S, y)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=2e-6)
    assert sparse.score(S, y) == pytest.approx(dense.score(X, y), abs=0.01)


def test_a_frame_keeps_its_names(cancer):
    X, y = cancer
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    model = MultivariateClassifier(lam=1e-1).fit(frame, y)
    assert list(model.feature_names_in_) == list(frame.columns)
    np.testing.assert_array_equal(model.predict(frame), MultivariateClassifier(lam=1e-1).fit(X, y).predict(X))


def test_warm_start_begins_where_the_last_fit_ended(cancer):
    model = MultivariateClassifier(lam=1e-2, warm_start=True, gap_rel=1e-4).fit(*cancer)
    first, reached = model.result_.trace[0].objective, model.objective_
    again = model.fit(*cancer).result_.trace[0].objective
    assert again == pytest.approx(reached, rel=1e-9)
    assert again < first


def test_a_fit_that_ends_early_warns_with_the_remedy_and_keeps_its_certificate(cancer):
    model = MultivariateClassifier(lam=1e-6, max_steps=2)
    with pytest.warns(ConvergenceWarning, match=r"raise max_steps.*lower bound"):
        model.fit(*cancer)
    assert model.result_.status is Status.MAX_STEPS
    assert model.lower_bound_ <= model.objective_


def test_ctrl_c_keeps_the_best_solution(cancer, monkeypatch):
    calls = 0
    original = FBeta.worst

    def interrupted(self, ranked):
        nonlocal calls
        calls += 1
        if calls == 200:
            raise KeyboardInterrupt
        return original(self, ranked)

    monkeypatch.setattr(FBeta, "worst", interrupted)
    model = MultivariateClassifier(lam=1e-4, gap_rel=0.0, surrogate="own")
    with pytest.raises(KeyboardInterrupt):
        model.fit(*cancer)
    assert model.result_.status is Status.STOPPED
    assert model.score(*cancer) > 0.9


def test_lives_in_pipelines_grid_searches_and_clones(cancer):
    X, y = cancer
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MultivariateClassifier()), {"multivariateclassifier__lam": [1e-3, 1e-1]}, cv=3
    )
    assert search.fit(X, y).best_score_ > 0.95
    model = MultivariateClassifier(FBeta(2.0), solver=CuttingPlane(max_planes=20))
    assert clone(model).get_params() == model.get_params()


def test_a_function_of_ones_own_is_minimized(rare):
    X, y = rare[0][:300], rare[1][:300]
    mine = ContingencyMeasure(lambda tp, fp, fn, tn: 0.5 * (fn / (tp + fn) + fp / (fp + tn)))
    ours = MultivariateClassifier(mine, lam=1e-2).fit(X, y)
    known = MultivariateClassifier(BalancedError(), lam=1e-2).fit(X, y)
    assert max(ours.lower_bound_, known.lower_bound_) <= min(ours.objective_, known.objective_) * (1 + 1e-9)
    assert ours.score(X, y) == pytest.approx(1.0 - BalancedError().label_loss(2.0 * y - 1, ours.decision_function(X)))


# ------------------------------------------------------------------------------------------------------ model files


@pytest.mark.parametrize("measure", [*NAMES, FBeta(0.3), PrecisionAt(7)])
def test_a_model_comes_back_as_it_went(tmp_path, cancer, measure):
    X, y = cancer
    model = MultivariateClassifier(measure, lam=0.03).fit(X, np.array(["bad", "good"])[y])
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))
    assert back._measure() == model._measure()
    for name in ("objective_", "lower_bound_", "gap_", "n_iter_", "n_features_in_", "lam"):
        assert getattr(back, name) == getattr(model, name)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["params"].update(measure="__import__"),
        lambda h: h["params"].update(measure="f0"),
        lambda h: h["params"].update(measure=7),
        lambda h: h["params"].update(measure={"object": {"dict": []}, "kind": "system"}),
        lambda h: h["params"].update(measure={"object": {"dict": []}, "kind": "Hinge"}),
        lambda h: h["fitted"].update(classes_={"labels": [0, 1, 2]}),
        lambda h: h["params"].update(lam=-1.0),
        lambda h: h.update(estimator="LinearClassifier"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, cancer, change):
    save_model(MultivariateClassifier(lam=1e-1).fit(*cancer), tmp_path / "model.uc")
    edit(tmp_path / "model.uc", change)
    with pytest.raises(ModelFileError, match=r"model\.uc"):
        load_model(tmp_path / "model.uc")


class Mine(FBeta):
    """A measure of one's own that borrows a name."""


@pytest.mark.parametrize("measure", [ContingencyMeasure(lambda tp, fp, fn, tn: fn + fp), Mine()])
def test_a_measure_of_ones_own_cannot_be_saved(tmp_path, measure):
    model = MultivariateClassifier(measure, lam=0.1).fit([[-1.0], [1.0], [-1.0], [1.0]], [0, 1, 0, 1])
    with pytest.raises(ModelFileError, match=r"`measure.* cannot be saved"):
        save_model(model, tmp_path / "model.uc")


# ----------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": 0.0}, "lam"),
        ({"measure": "accuracy"}, "'f1'.*got 'accuracy'"),
        ({"measure": 1.0}, "measure"),
        ({"solver": "bundle"}, "solver"),
        ({"gap_rel": -1.0}, "gap_rel"),
        ({"max_steps": 0}, "max_steps"),
    ],
)
def test_a_wrong_setting_is_named(cancer, settings, message):
    with pytest.raises(ValueError, match=message):
        MultivariateClassifier(**settings).fit(*cancer)


def test_an_unknown_name_is_an_error_of_ours(cancer):
    with pytest.raises(ParameterError):
        MultivariateClassifier("auc").fit(*cancer)


def test_one_class_is_refused():
    with pytest.raises(DataError, match="at least 2 classes"):
        MultivariateClassifier().fit([[1.0], [2.0]], [0, 0])


def test_fewer_samples_than_k_are_refused_in_fit_and_score(cancer):
    X, y = cancer
    with pytest.raises(DataError, match="precision@600 needs at least 600 samples; got 569"):
        MultivariateClassifier("precision@600").fit(X, y)
    model = MultivariateClassifier("precision@50", lam=1e-1).fit(X, y)
    with pytest.raises(DataError, match="got 20"):
        model.score(X[:20], y[:20])


@names
def test_constant_features_zero_rows_and_duplicates_do_no_harm(name):
    X = np.array([[0.0, 1.0, 0.0], [2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 1.0, 0.0]] * 10)
    y = np.array([0, 1, 1, 0, 0] * 10)
    for lam in (1e-9, 1.0, 1e3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = MultivariateClassifier(name, lam=lam, max_steps=300).fit(X, y)
        assert np.isfinite(model.coef_).all()
        assert model.lower_bound_ <= model.objective_
