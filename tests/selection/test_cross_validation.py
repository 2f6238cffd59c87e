"""Cross-validation along the path: the scores of fits of their own, for less work, and no choice that is not proved."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, LeaveOneOut
from sklearn.utils.estimator_checks import parametrize_with_checks

from undercut import LineSearchBundle
from undercut.errors import DataError, ParameterError
from undercut.estimators import (
    LinearClassifier,
    LinearClassifierCV,
    LinearRegressor,
    LinearRegressorCV,
    MultivariateClassifierCV,
    Ranker,
    RankerCV,
    SequenceLabeler,
    SequenceLabelerCV,
)
from undercut.estimators.cross_validated import Given, SelectionWarning
from undercut.io import load_model, save_model
from undercut.maps.design import as_design
from undercut.selection.leave_one_out import left_out_errors
from undercut.selection.shared_rows import SharedRows

LAMS = np.geomspace(1.0, 1e-3, 4)


def two_classes(n=150, d=6):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, np.where(X[:, 0] + 0.5 * X[:, 1] + rng.standard_normal(n) > 0.0, "yes", "no")


X, Y = two_classes()


@pytest.mark.filterwarnings("ignore::undercut.estimators.cross_validated.SelectionWarning")
@pytest.mark.filterwarnings("ignore::undercut.errors.ConstantModelWarning")  # the largest lambda
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"loss": "logistic", "fit_intercept": False},
        {"loss": "logistic", "penalty": "l1", "class_weight": "balanced"},
        {"scoring": "roc_auc", "cv": KFold(4, shuffle=True, random_state=0)},
    ],
)
def test_the_scores_are_those_of_a_grid_search(settings):
    # under the largest lambda w = 0, and with balanced classes rounding decides the sign of the intercept
    lams = LAMS[1:] if "class_weight" in settings else LAMS
    own = LinearClassifierCV(lams, gap_rel=1e-5, **settings | {"rule": "one_standard_error"}).fit(X, Y)
    plain = {name: settings[name] for name in settings if name not in ("rule", "cv", "scoring")}
    search = {name: settings[name] for name in settings if name in ("cv", "scoring")}
    other = GridSearchCV(LinearClassifier(gap_rel=1e-5, **plain), {"lam": list(lams)}, **search).fit(X, Y)
    assert set(other.cv_results_) <= set(own.cv_results_)
    for name in ("mean_test_score", "std_test_score"):
        assert own.cv_results_[name] == pytest.approx(other.cv_results_[name], abs=2e-3)
    assert own.cv_results_["params"] == [{"lam": lam} for lam in lams]


def test_the_best_lambda_is_that_of_a_grid_search_although_fits_end_early():
    lams = np.geomspace(10.0, 1e-3, 6)
    solver = LineSearchBundle()  # whose gap falls in several steps
    own = LinearClassifierCV(lams, gap_rel=1e-8, solver=solver).fit(X, Y)
    other = GridSearchCV(LinearClassifier(gap_rel=1e-8, solver=solver), {"lam": list(lams)}).fit(X, Y)
    assert own.lam_ == other.best_params_["lam"]
    assert own.best_score_ == other.best_score_
    assert own.n_decided_ > 0
    assert own.cv_results_["n_decided"].sum() == own.n_decided_


def test_the_estimator_is_the_plain_one_at_the_choice(tmp_path):
    own = LinearClassifierCV(LAMS, rule="one_standard_error").fit(X, Y)
    plain = LinearClassifier(lam=own.lam_).fit(X, Y)
    assert type(own.best_estimator_) is LinearClassifier
    assert own.coef_ == pytest.approx(plain.coef_)
    assert own.gap_ <= 1e-3 * own.objective_
    assert (own.predict(X) == plain.predict(X)).all()
    save_model(own.best_estimator_, tmp_path / "model.uc")
    assert (load_model(tmp_path / "model.uc").predict(X) == plain.predict(X)).all()
    save_model(own, tmp_path / "choice.uc")
    loaded = load_model(tmp_path / "choice.uc")
    assert (loaded.lam_, loaded.best_score_) == (own.lam_, own.best_score_)
    assert (loaded.predict(X) == plain.predict(X)).all()


def test_the_one_standard_error_rule_takes_a_stronger_lambda():
    best = LinearClassifierCV(LAMS, extend=True).fit(X, Y)
    simple = LinearClassifierCV(LAMS, extend=True, rule="one_standard_error").fit(X, Y)
    table = simple.cv_results_
    error = table["std_test_score"][best.best_index_] / np.sqrt(5)
    assert simple.lam_ >= best.lam_
    assert simple.best_score_ >= best.best_score_ - error
    assert (table["mean_test_score"][: simple.best_index_] < best.best_score_ - error).all()


@pytest.mark.parametrize("settings", [{}, {"multi_class": "multinomial", "loss": "logistic"}])
def test_several_classes_share_one_grid_that_is_found(settings):
    own = LinearClassifierCV(cv=3, **settings).fit(*load_iris(return_X_y=True))
    assert own.coef_.shape == (3, 4)
    assert own.lams_[0] > own.lam_ >= own.lams_[-1]
    assert own.best_score_ > 0.9


def test_threads_find_the_same_and_folds_can_be_sent_to_processes():
    settings = {"lams": LAMS[1:], "cv": 2, "loss": "logistic", "extend": True}
    alone = LinearClassifierCV(**settings).fit(X, Y)
    threads = LinearClassifierCV(**settings, n_jobs=2).fit(X, Y)
    assert threads.lam_ == alone.lam_
    assert threads.cv_results_["mean_test_score"] == pytest.approx(alone.cv_results_["mean_test_score"], abs=0.02)
    make = alone._maker(Given(X, Y, {"sample_weight": None}, 150), np.arange(100), np.arange(100, 150), "fold 1")
    sent = pickle.loads(pickle.dumps(make))()
    assert sent.risks[0].value(np.ones(6)) == make().risks[0].value(np.ones(6))


def test_groups_stay_together():
    groups = np.arange(150) // 10
    own = LinearClassifierCV(LAMS[1:], cv=GroupKFold(3), extend=True).fit(X, Y, groups=groups)
    assert own.cv_results_["split2_test_score"].size == own.lams_.size


def test_weights_reach_the_folds():
    weight = np.where(Y == "yes", 3.0, 1.0)
    own = LinearClassifierCV(LAMS[2:3], cv=3).fit(X, Y, sample_weight=weight)
    other = LinearClassifierCV(LAMS[2:3], cv=3, class_weight={"yes": 3.0, "no": 1.0}).fit(X, Y)
    assert own.best_score_ == other.best_score_
    assert own.coef_ == pytest.approx(other.coef_)


def test_it_is_cloned_with_all_its_settings():
    own = LinearClassifierCV(LAMS, 3, loss="logistic", extend=True)
    copy = clone(own)
    assert copy.get_params() == own.get_params() | {"lams": copy.lams}
    assert "lam" not in own.get_params()


# --- Regression ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_leaving_out_every_sample_equals_as_many_fits(fit_intercept):
    rng = np.random.default_rng(0)
    X, lams = rng.standard_normal((12, 3)), np.array([1.0, 1e-2])
    y = X @ [1.0, -2.0, 0.0] + rng.standard_normal(12)
    errors = left_out_errors(sp.csr_matrix(X), y, lams, fit_intercept=fit_intercept)
    for at, lam in enumerate(lams):
        for left in range(12):
            rest = np.delete(np.arange(12), left)
            model = LinearRegressor(lam=lam, fit_intercept=fit_intercept, gap_rel=1e-12).fit(X[rest], y[rest])
            assert errors[at, left] == pytest.approx(y[left] - model.predict(X[left : left + 1])[0], rel=1e-4)


def test_leave_one_out_chooses_by_the_mean_squared_error():
    X, y = load_diabetes(return_X_y=True)
    with pytest.warns(
        SelectionWarning, match=r"the smallest of the grid, .* set `lams` to smaller ones, or extend=True$"
    ):
        own = LinearRegressorCV(cv=LeaveOneOut()).fit(X, y)
    mean = (left_out_errors(X, y, own.lams_, fit_intercept=True) ** 2).mean(axis=1)
    assert own.lam_ == own.lams_[mean.argmin()]
    assert own.best_score_ == pytest.approx(-mean.min())


def test_leave_one_out_is_refused_where_it_has_no_closed_form():
    with pytest.raises(ParameterError, match="closed form"):
        LinearRegressorCV(loss="absolute", cv="loo").fit(X, X[:, 0])
    with pytest.raises(DataError, match="cv=10"):
        left_out_errors(sp.csr_matrix((10_000, 10_000)), np.zeros(10_000), np.ones(1), fit_intercept=True)


def test_a_regressor_chooses_what_predicts_best():
    X, y = load_diabetes(return_X_y=True)
    own = LinearRegressorCV(loss="huber", cv=3).fit(X, y)
    assert own.best_score_ == max(own.cv_results_["mean_test_score"])
    assert own.score(X, y) > 0.4


# --- Measures, rankings, sequences --------------------------------------------------------------------------------


def test_a_measure_is_cross_validated_without_copies_of_the_rows():
    own = MultivariateClassifierCV([1.0, 0.1, 0.01, 1e-3], cv=3, measure="f1", extend=True).fit(X, Y)
    assert own.best_score_ > 0.6
    assert own.gap_ <= 1e-3 * own.objective_


def test_rows_of_a_design_without_a_copy_give_the_same_products():
    rng = np.random.default_rng(0)
    A, rows = rng.standard_normal((6, 3)), np.array([4, 1, 2])
    shared = SharedRows(as_design(A), rows)
    assert shared.matvec(A[0]) == pytest.approx(A[rows] @ A[0])
    assert shared.rmatvec(A[0]) == pytest.approx(A[rows].T @ A[0])


def test_queries_stay_together():
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((200, 4)), np.repeat(np.arange(20), 10)
    y = np.clip(np.round(X @ [1.0, -1.0, 0.5, 0.0] + 0.5 * rng.standard_normal(200)), 0, 2)
    own = RankerCV([10.0, 1.0, 0.1, 0.01], cv=4, extend=True).fit(X, y, qid=qid)
    train, test = next(GroupKFold(4).split(X, y, qid))
    first = Ranker(lam=own.lam_).fit(X[train], y[train], qid=qid[train])
    found = own.cv_results_["split0_test_score"][own.best_index_]
    assert found == pytest.approx(first.score(X[test], y[test], qid=qid[test]), abs=0.02)
    by_map = RankerCV([1.0, 0.1], cv=4, scoring="map", extend=True).fit(X, y, qid=qid, sample_weight=np.ones(200))
    assert by_map.best_score_ != own.best_score_


def sentences():
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((4, 3)) for _ in range(24)]
    return X, [["up" if row[0] + 0.3 * rng.standard_normal() > 0.0 else "down" for row in rows] for rows in X]


def test_sequences_are_held_out_as_a_whole():
    X, y = sentences()
    own = SequenceLabelerCV([1.0, 0.1, 0.01], cv=3, extend=True).fit(X, y)
    train, test = next(KFold(3).split(X))
    first = SequenceLabeler(lam=own.lam_).fit([X[i] for i in train], [y[i] for i in train])
    found = own.cv_results_["split0_test_score"][own.best_index_]
    assert found == pytest.approx(first.score([X[i] for i in test], [y[i] for i in test]), abs=0.04)


def test_sequences_in_one_matrix_have_the_same_folds():
    X, y = sentences()
    lists = SequenceLabelerCV([0.1, 0.01], cv=3, extend=True).fit(X, y)
    flat = SequenceLabelerCV([0.1, 0.01], cv=3, extend=True).fit(
        np.concatenate(X), [label for part in y for label in part], lengths=[4] * 24
    )
    assert flat.cv_results_["mean_test_score"] == pytest.approx(lists.cv_results_["mean_test_score"])
    own = SequenceLabelerCV([0.1], cv=3, scoring=lambda model, X, y: model.score(X, y)).fit(X, y)
    assert own.best_score_ == pytest.approx(lists.cv_results_["mean_test_score"][lists.lams_ == 0.1][0])


# --- Bad input ----------------------------------------------------------------------------------------------------


def test_a_fold_with_a_single_class_is_named():
    y = np.array(["a"] * 10 + ["b"] * 10)
    with pytest.raises(DataError, match=r"fold 1 of 2 has samples of a single class to train on, .*'b'"):
        LinearClassifierCV([0.1], cv=KFold(2)).fit(np.eye(20), y)


@pytest.mark.parametrize(("lams", "noise", "end"), [([1e-3, 1e-4], 1.0, "largest"), ([10.0, 1.0], 0.1, "smallest")])
def test_a_best_lambda_at_the_end_of_the_grid_warns_and_goes_on_where_wanted(lams, noise, end):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 40))
    y = X[:, 0] + noise * rng.standard_normal(60)
    with pytest.warns(SelectionWarning, match=rf"the {end} of the grid, .*, or extend=True$"):
        LinearRegressorCV(lams, cv=3).fit(X, y)
    own = LinearRegressorCV(lams, cv=3, extend=True).fit(X, y)
    assert own.lams_.size > 2
    assert (np.diff(own.lams_) < 0.0).all()
    assert 0 < own.best_index_ < own.lams_.size - 1


@pytest.mark.filterwarnings("ignore::undercut.estimators.cross_validated.SelectionWarning")
def test_fits_that_meet_a_limit_are_counted_in_one_warning():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ConvergenceWarning)
        LinearClassifierCV([1e-4, 1e-5], cv=2, max_steps=1, solver="line_search_bundle").fit(X, Y)
    told = [str(each.message) for each in seen]
    assert sum(text.startswith("4 of 4 fits of the folds met a limit") for text in told) == 1
    assert len(told) == 2  # and the fit to all samples


@pytest.mark.parametrize("lams", [[], [0.1, -0.1]])
def test_a_bad_grid_is_refused(lams):
    with pytest.raises(ValueError, match="lams"):
        LinearClassifierCV(lams).fit(X, Y)


CHECKED = [
    LinearClassifierCV([0.1], cv=2),
    LinearRegressorCV([0.1], cv=2),
]


@pytest.mark.filterwarnings("ignore::undercut.errors.ConstantModelWarning")  # random labels
@parametrize_with_checks(CHECKED)
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_a_grid_that_was_found_goes_on_beyond_its_end_where_asked(rng):
    X = rng.standard_normal((80, 3))
    y = X @ [1.0, 2.0, 3.0]  # the weaker the penalty, the better
    with pytest.warns(SelectionWarning, match=r"the smallest of the grid, .*, or extend=True$"):
        found = LinearRegressorCV(cv=2).fit(X, y)
    assert found.lam_ == found.lams_[-1]
    with pytest.warns(
        SelectionWarning, match=r"of the grid and of 20 lambdas added to it, .* set `lams` to smaller ones$"
    ):
        longer = LinearRegressorCV(cv=2, extend=True).fit(X, y)
    assert longer.lam_ < found.lam_
    np.testing.assert_allclose(longer.lams_[: found.lams_.size], found.lams_)


def test_the_folds_of_a_ranking_are_solved_to_a_share_of_their_gain():
    """As the plain estimator is; relative to an objective near 1 alone a gap of 1 % would be most of the gain."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = (0.2 * X[:, 0] + rng.standard_normal(80) > 0.0) * 1
    own = RankerCV([1.0], cv=2, gap_rel=1e-2).fit(X, y, qid=np.repeat(np.arange(8), 10))
    assert own.cv_results_["max_gap"].max() < 1e-3
