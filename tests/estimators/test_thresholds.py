"""Thresholds chosen by validation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import f1_score

from undercut import MultivariateClassifier, MultivariateClassifierCV, load_model, save_model
from undercut.errors import DataError, ParameterError
from undercut.estimators.linear.thresholds import averaged_threshold, best_threshold, stratified_folds
from undercut.measures import BalancedError, FBeta, Matthews, PrecisionAt, RocArea


def rare(seed=0, n=300):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    return X, (X[:, 0] + X[:, 1] + rng.standard_normal(n) > 2.0) * 1


@pytest.mark.parametrize("measure", [FBeta(), FBeta(0.5), BalancedError(), Matthews()], ids=str)
def test_no_other_threshold_is_better(measure, rng):
    y, scores = np.where(rng.random(40) < 0.3, 1.0, -1.0), rng.integers(0, 12, 40) / 2.0
    found = measure.label_loss(y, scores - best_threshold(measure, y, scores))
    assert found <= min(measure.label_loss(y, scores - at) for at in np.arange(-0.25, 6.5, 0.25)) + 1e-12


@pytest.mark.parametrize("measure", [PrecisionAt(5), RocArea()], ids=str)
def test_a_measure_that_does_not_depend_on_it_has_its_own_cutoff(measure, rng):
    y, scores = np.where(np.arange(40) % 3 == 0, 1.0, -1.0), rng.standard_normal(40)
    cutoff = best_threshold(measure, y, scores)
    assert scores.min() < cutoff < scores.max()
    if isinstance(measure, PrecisionAt):
        assert np.count_nonzero(scores > cutoff) == 5


def test_every_sample_is_left_out_once_and_every_fold_has_both_classes():
    y = np.where(np.arange(30) < 4, 1.0, -1.0)
    folds = stratified_folds(y)
    assert len(folds) == 4
    assert sorted(np.concatenate([held_out for _, held_out in folds])) == list(range(30))
    assert all({1.0, -1.0} == set(y[held_out]) for _, held_out in folds)


def test_the_mean_over_resampled_scores_is_nearer_to_the_best_threshold_than_the_best_of_one_sample():
    single, averaged = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        y = np.where(np.arange(400) < 60, 1.0, -1.0)
        scores = rng.standard_normal(400) + 1.5 * (y > 0.0)
        single.append(best_threshold(BalancedError(), y, scores))
        averaged.append(averaged_threshold(BalancedError(), y, scores))
    error = [np.sqrt(np.mean((np.array(found) - 0.75) ** 2)) for found in (averaged, single)]
    assert error[0] < 0.9 * error[1]


def test_the_threshold_is_the_best_one_for_samples_that_the_folds_left_out():
    X, y = rare()
    own = MultivariateClassifier("f1", lam=0.3, surrogate="own", threshold="own").fit(X, y)
    tuned = MultivariateClassifier("f1", lam=0.3, surrogate="own", threshold="cv").fit(X, y)
    np.testing.assert_array_equal(tuned.coef_, own.coef_)
    assert tuned.objective_ == own.objective_
    signs, scores = np.where(y == 1, 1.0, -1.0), np.empty(y.size)
    for train, held_out in stratified_folds(signs):
        part = MultivariateClassifier("f1", lam=0.3, surrogate="own", threshold="own").fit(X[train], y[train])
        scores[held_out] = part.decision_function(X[held_out])
    expected = own.intercept_ - averaged_threshold(FBeta(), signs, scores)
    np.testing.assert_allclose(tuned.intercept_, expected, atol=0.02)


def test_a_bound_with_a_poor_threshold_of_its_own_is_repaired():
    X, y = rare()
    X_new, y_new = rare(seed=1, n=3000)
    own = MultivariateClassifier("roc_auc", lam=1e-2).fit(X, y)
    tuned = MultivariateClassifier("f1", lam=0.3, threshold="cv").fit(X, y)
    plain = MultivariateClassifier("f1", lam=0.3, threshold="own").fit(X, y)
    best = max(f1_score(y_new, own.decision_function(X_new) > at) for at in np.linspace(-3.0, 3.0, 25))
    assert f1_score(y_new, tuned.predict(X_new)) > f1_score(y_new, plain.predict(X_new))
    assert f1_score(y_new, tuned.predict(X_new)) > 0.9 * best


def with_positives(n_positive):
    """Overlapping classes."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(200) < n_positive, 1.0, -1.0)
    return rng.standard_normal((200, 4)) + 0.5 * y[:, None], y


@pytest.mark.parametrize(
    ("measure", "n_positive", "same_as"),
    [("f1", 20, "cv"), ("mcc", 20, "cv"), ("balanced_error", 20, "cv"), ("f1", 19, "own"), ("roc_auc", 20, "own")],
)
def test_validation_is_the_default_where_the_measure_gains_by_it_and_both_classes_have_samples_enough(
    measure, n_positive, same_as
):
    X, y = with_positives(n_positive)
    plain = MultivariateClassifier(measure, lam=0.1, gap_rel=1e-2)
    fitted = {name: clone(plain).set_params(threshold=name).fit(X, y).intercept_[0] for name in ("own", "cv")}
    assert fitted["own"] != fitted["cv"]
    assert clone(plain).fit(X, y).intercept_[0] == fitted[same_as]


def test_the_default_without_an_intercept_is_a_threshold_of_zero():
    assert MultivariateClassifier(fit_intercept=False, lam=0.1).fit(*with_positives(60)).intercept_[0] == 0.0


def test_a_lambda_from_cross_validation_has_the_default_threshold_too():
    X, y = with_positives(60)
    chosen = MultivariateClassifierCV([1.0, 0.1], cv=2, extend=True, gap_rel=1e-2).fit(X, y)
    plain = MultivariateClassifier(lam=chosen.lam_, threshold="cv", gap_rel=1e-2).fit(X, y)
    np.testing.assert_allclose(chosen.intercept_, plain.intercept_, atol=1e-3)  # fits of folds differ in their start


def test_a_fit_that_is_interrupted_in_a_fold_keeps_the_threshold_of_the_bound(monkeypatch):
    X, y = with_positives(60)
    own = MultivariateClassifier(lam=0.1, surrogate="own", threshold="own").fit(X, y)
    original, of_folds = FBeta.worst, itertools.count()

    def interrupted(self, ranked):
        if sum(ranked.sizes) < y.size and next(of_folds) == 5:
            raise KeyboardInterrupt
        return original(self, ranked)

    monkeypatch.setattr(FBeta, "worst", interrupted)
    model = MultivariateClassifier(lam=0.1, surrogate="own")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    np.testing.assert_array_equal(model.intercept_, own.intercept_)


def test_the_choice_comes_back_from_a_model_file(tmp_path):
    X, y = rare()
    model = MultivariateClassifier("f1", lam=0.3, threshold="cv").fit(X, y)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    assert back.threshold == "cv"
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))


def test_a_single_sample_of_a_class_cannot_be_left_out():
    with pytest.raises(DataError, match='needs at least 2 samples of each class; got 1 and 2: use threshold="own"'):
        MultivariateClassifier(threshold="cv").fit(np.arange(3.0)[:, None], [0, 0, 1])


def test_a_threshold_needs_an_intercept():
    with pytest.raises(ParameterError, match="use fit_intercept=True"):
        MultivariateClassifier(threshold="cv", fit_intercept=False).fit(*rare())
