"""The choice of what a model is trained by in place of a measure."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from undercut import MultivariateClassifier, MultivariateClassifierCV
from undercut.errors import ConstantModelWarning
from undercut.estimators.linear.surrogates import Surrogate, Validation
from undercut.estimators.linear.thresholds import stratified_folds
from undercut.maps.design import as_design
from undercut.measures import BreakEven, PrecisionAt, RecallAt


class Fixed(Surrogate):
    """A model that is known before it is fitted, and that counts its fits."""

    def __init__(self, w):
        self.name, self.w, self.n_fits = "fixed", np.asarray(w), 0

    @property
    def trained_by(self):
        return BreakEven()

    def risk(self, design, signs):
        return self.part(design, signs, np.arange(signs.size))

    def part(self, design, signs, rows):
        self.n_fits += 1
        return self.w


def choice(surrogates, measure=BreakEven(), solve=lambda risk, start, problem, rough: risk, is_over=lambda: False):  # noqa: B008
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(400) > 1.0, 1.0, -1.0)
    validation = Validation(
        measure=measure,
        design=as_design(X),
        signs=y,
        folds=stratified_folds(y),
        is_tuned=False,
        random_state=0,
        solve=solve,
        is_over=is_over,
    )
    return validation.best(surrogates)


def test_a_surrogate_that_is_clearly_better_is_chosen():
    poor, good = Fixed([1.0, 2.0, 0.0]), Fixed([1.0, 0.0, 0.0])
    assert choice([poor, good]).surrogate is good
    assert choice([good, poor]).surrogate is good


def test_of_two_that_do_not_differ_by_more_than_noise_the_first_is_kept():
    first, second = Fixed([1.0, 0.02, 0.0]), Fixed([1.0, 0.0, 0.02])
    assert choice([first, second]).surrogate is first
    assert choice([second, first]).surrogate is second


def test_a_surrogate_that_is_behind_after_two_folds_is_given_up():
    good, poor = Fixed([1.0, 0.0, 0.0]), Fixed([0.0, 1.0, 0.0])
    choice([good, poor])
    assert (good.n_fits, poor.n_fits) == (5, 2)


def test_where_the_measure_does_not_tell_two_rankings_apart_the_average_precision_does():
    """Both have nothing but positives among the first two; the rest of the order differs."""
    first, second = Fixed([1.0, 0.7, 0.0]), Fixed([1.0, 0.0, 0.0])
    assert choice([first, second], PrecisionAt(2)).surrogate is second
    assert choice([second, first], PrecisionAt(2)).surrogate is second


def test_a_surrogate_whose_fits_take_too_many_steps_is_given_up_unless_it_is_the_first():
    slow, good = Fixed([0.0, 1.0, 0.0]), Fixed([1.0, 0.0, 0.0])
    solve = lambda risk, start, problem, rough: None if rough.max_steps < 1000 else risk  # noqa: E731
    assert choice([slow, good], solve=solve).surrogate is slow
    assert (slow.n_fits, good.n_fits) == (5, 1)


def test_fits_of_a_fold_begin_at_what_the_leader_learned_without_the_same_fold():
    starts = []

    def solve(risk, start, problem, rough):
        starts.append(start)
        return risk + 0.01 * len(starts)

    choice([Fixed([1.0, 2.0, 0.0]), Fixed([1.0, 0.0, 0.0]), Fixed([1.0, 0.1, 0.0])], solve=solve)
    assert starts[:5] == [None] * 5
    first, second = np.array([1.0, 2.0, 0.0]), np.array([1.0, 0.0, 0.0])
    np.testing.assert_allclose(starts[5:10], [first + 0.01 * number for number in range(1, 6)])
    np.testing.assert_allclose(starts[10:12], [second + 0.01 * number for number in range(6, 8)])


def test_nothing_is_chosen_after_an_interruption():
    assert choice([Fixed([1.0, 0.0, 0.0])], is_over=lambda: True) is None


@pytest.mark.parametrize(("measure", "expected"), [(PrecisionAt(40), 8), (RecallAt(40), 8), (PrecisionAt(2), 1)])
def test_a_part_of_the_samples_has_a_part_of_the_top(measure, expected):
    assert measure.of_part(200, 1000).k == expected
    assert BreakEven().of_part(200, 1000) == BreakEven()


def overlapping(seed, n=600):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6))
    return X, (X[:, 0] + X[:, 1] + 1.2 * rng.standard_normal(n) > 2.0) * 1


def test_the_fit_to_all_samples_begins_at_the_best_point_that_is_known():
    X, y = overlapping(2)
    model = MultivariateClassifier("f1", lam=1e-3, surrogate="own", threshold="own", gap_rel=1e-2)
    minimizer, signs = model._minimizer(), np.where(y == 1, 1.0, -1.0)
    best = model.fit(X, y).coef_[0]
    poor = [np.zeros(6), best, -best]
    fitted = model._fitted_to_all(minimizer, model._surrogate("own"), as_design(X), signs, poor)
    assert fitted.result.trace[0].objective == pytest.approx(model.objective_)


def test_cross_validation_chooses_the_surrogate_and_its_lambda_together():
    X, y = overlapping(0)
    search = MultivariateClassifierCV([1.0, 0.1, 1e-2], cv=3, measure="precision@30", gap_rel=1e-2, extend=True)
    search.fit(X, y)
    name = search.best_params_["surrogate"]
    assert name in ("squared_hinge", "average_precision")
    plain = MultivariateClassifier("precision@30", lam=search.lam_, surrogate=name, gap_rel=1e-2).fit(X, y)
    np.testing.assert_array_equal(search.coef_, plain.coef_)
    with pytest.warns(ConstantModelWarning, match='use surrogate="auto"'):
        own = clone(search).set_params(surrogate="own").fit(X, y)
    assert search.best_score_ > own.best_score_


def test_a_chosen_lambda_is_judged_with_the_threshold_that_the_fit_has():
    X, y = overlapping(1)
    settings = {"lams": [1.0], "cv": 3, "measure": "f1", "gap_rel": 1e-2, "surrogate": "own"}
    tuned, own = (MultivariateClassifierCV(threshold=name, **settings).fit(X, y) for name in ("cv", "own"))
    assert tuned.best_score_ > own.best_score_


def test_a_bound_that_equal_scores_minimize_is_not_chosen_by_luck():
    """On noise, whose held-out samples may happen to prefer any order."""
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((300, 10)), rng.integers(0, 2, 300)
    model = MultivariateClassifier("precision@10", lam=1e-4).fit(X, y)
    assert model.coef_.any()
    assert model.surrogate_ != PrecisionAt(10)
