"""Folds, weights and scores that cannot be chosen by are refused by name; a choice that says nothing is told."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold

from undercut.errors import ConstantModelWarning, DataError, ParameterError
from undercut.estimators import (
    LinearClassifierCV,
    LinearRegressorCV,
    MultivariateClassifierCV,
    RankerCV,
    SequenceLabelerCV,
)
from undercut.estimators.folds import checked_splits

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = np.where(X[:, 0] + RNG.standard_normal(60) > 0.0, "yes", "no")


@pytest.mark.parametrize(
    ("cv", "rule"),
    [
        ([], "at least one fold; got none"),
        ([(np.arange(30), [])], "fold 1 of 1 to hold out: none"),
        ([(np.arange(30), np.arange(30, 60)), ([], [1])], "fold 2 of 2 to train on: none"),
        ([(np.arange(30), [60])], r"rows from 0 to 59; fold 1 of 1 to hold out: \[60\]"),
        ([(np.arange(30), [1.5])], "rows from 0 to 59"),
    ],
    ids=str,
)
def test_folds_without_samples_are_refused_with_their_number(cv, rule):
    with pytest.raises(DataError, match=rule):
        LinearClassifierCV([0.1], cv=cv).fit(X, Y)


def test_folds_may_be_masks():
    (split,) = checked_splits([(np.arange(60) < 40, np.arange(60) >= 40)], 60)
    assert split.train.tolist() == list(range(40))
    assert split.held_out.tolist() == list(range(40, 60))


def test_a_fold_without_weight_on_a_second_class_is_refused():
    with pytest.raises(DataError, match=r"fold 1 of 5 has samples of a single class to train on, \['yes'\]"):
        LinearClassifierCV([0.1]).fit(X, Y, sample_weight=(Y == "yes") * 1.0)


def test_a_score_that_is_no_number_is_refused_with_its_fold():
    with pytest.raises(DataError, match=r"fold 1 of 5: the score .* must be finite; got nan"):
        LinearClassifierCV([0.1, 0.01], scoring=lambda model, X, y: np.nan).fit(X, Y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_the_score_of_a_single_sample_is_refused_where_it_is_not_defined():
    with pytest.raises(DataError, match=r"fold 1 of 20: the score"):
        LinearRegressorCV([0.1, 0.01], cv=KFold(20)).fit(X[:20], X[:20, 0])


def test_errors_of_a_fold_name_it():
    relevances, queries = np.r_[np.arange(20) % 2, np.zeros(10)], np.repeat(np.arange(3), 10)
    with pytest.raises(DataError, match=r"fold \d of 3: ndcg@10 needs a query with a relevant document"):
        RankerCV([0.1], cv=3).fit(X[:30], relevances, qid=queries)
    with pytest.raises(DataError, match=r"fold 2 of 2: a query must have documents of at least 2 grades"):
        RankerCV([0.1], cv=[(np.arange(10), np.arange(10, 20)), (np.arange(20, 30), np.arange(10))]).fit(
            X[:30], relevances, qid=queries
        )
    negatives = np.flatnonzero(np.unique(Y)[1] != Y)[:5]
    with pytest.raises(DataError, match=r"fold 1 of 1: f1 needs at least one positive sample; got none among 5"):
        MultivariateClassifierCV([0.1], cv=[(np.setdiff1d(np.arange(Y.size), negatives), negatives)]).fit(X, Y)


def test_a_choice_that_tells_no_samples_apart_is_told():
    rare = (X[:, 0] > 1.0) & (X[:, 1] > 0.0)
    with pytest.warns(ConstantModelWarning, match='calls all samples False, .* class_weight="balanced"'):
        LinearClassifierCV([10.0, 3.0], gap_rel=1e-6, loss="logistic").fit(X, rare)


def test_a_loss_that_is_not_convex_is_refused_by_its_name():
    with pytest.raises(ParameterError, match=r"convex `loss`.*'ramp'"):
        LinearClassifierCV([0.1], loss="ramp").fit(X, Y)


def test_sequences_are_scored_by_functions_only():
    with pytest.raises(ValueError, match="'scoring' parameter of SequenceLabelerCV must be a callable or None"):
        SequenceLabelerCV([0.1], scoring="accuracy").fit([X], [Y.tolist()])


@pytest.mark.filterwarnings("ignore::undercut.estimators.cross_validated.SelectionWarning")
def test_samples_left_out_one_by_one_are_scored_by_the_error_that_is_asked_for():
    y = X[:, 0] + RNG.standard_normal(60)
    lams = [1.0, 0.1]
    each = [(np.delete(np.arange(60), at), [at]) for at in range(60)]
    scoring = "neg_mean_absolute_error"
    own = LinearRegressorCV(lams, cv="loo", scoring=scoring).fit(X, y)
    folds = LinearRegressorCV(lams, cv=each, scoring=scoring, rule="one_standard_error", gap_rel=1e-8).fit(X, y)
    np.testing.assert_allclose(own.cv_results_["mean_test_score"], folds.cv_results_["mean_test_score"], rtol=1e-6)
    with pytest.raises(ParameterError, match=r"neg_mean_squared_error.*; got 'r2'"):
        LinearRegressorCV(lams, cv="loo", scoring="r2").fit(X, y)


def test_counts_have_a_grid_that_is_found():
    """Their risk is negative, which says nothing about how far it can fall."""
    y = np.random.default_rng(1).poisson(np.exp(3.0 + X[:, 0])).astype(float)
    found = LinearRegressorCV(loss="poisson", cv=3).fit(X, y)
    assert found.lams_.size > 8
    assert found.best_score_ > 0.9


@pytest.mark.filterwarnings("ignore::undercut.errors.ConstantModelWarning")
def test_equal_samples_have_a_path_although_rounding_gives_them_a_slope():
    equal, queries = np.full((60, 2), 0.3), np.repeat(np.arange(6), 10)
    assert LinearRegressorCV(cv=2).fit(equal, X[:, 0]).lams_[0] == 1.0
    assert RankerCV(cv=2).fit(equal, np.arange(60) % 3, qid=queries).lams_[0] == 1.0


@pytest.mark.parametrize("size", [1e-90, 1e90])
def test_features_of_any_size_have_a_grid(size):
    plain, scaled = (LinearClassifierCV(cv=2, loss="squared_hinge").fit(factor * X, Y) for factor in (1.0, size))
    assert scaled.lams_ / size**2 == pytest.approx(plain.lams_, rel=2e-3)


def test_features_too_large_for_a_square_are_refused():
    with pytest.raises(DataError, match="scale the features"):
        LinearClassifierCV(cv=2).fit(1e200 * X, Y)
