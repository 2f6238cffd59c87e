"""The transductive classifier as its users meet it: the label -1 means unlabelled."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from undercut import LinearClassifier, TransductiveClassifier, load_model, save_model
from undercut.errors import CapabilityError, DataError, ParameterError
from undercut.solvers import ConvexConcave

NO_LABEL = "its labels are -1 and 1, and -1 means unlabelled here"


@pytest.mark.filterwarnings("ignore::undercut.errors.ConstantModelWarning")  # random labels
@parametrize_with_checks(
    [TransductiveClassifier(), TransductiveClassifier(balance=None)],
    expected_failed_checks=lambda estimator: {"check_classifiers_classes": NO_LABEL},
)
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def clouds(n=80, n_labelled=8, n_classes=2, d=4, seed=0, apart=1.5):
    """Samples around one center per class, all labels, and those that are shown."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, d)) + apart * rng.standard_normal((n_classes, d))[y]
    return X, y, np.where(np.arange(n) < n_labelled, y, -1)


def objective(model, X, y, gamma):
    """J by its formula, of a binary model whose second class is positive."""
    s = X @ model.coef_[0] + model.intercept_[0]
    free = y == -1
    sign = np.where(y == model.classes_[1], 1.0, -1.0)
    labelled = np.maximum(0.0, 1.0 - sign * s)[~free].mean()
    unlabelled = np.maximum(0.0, 1.0 - np.abs(s))[free].mean() if free.any() else 0.0
    return 0.5 * model.lam * model.coef_[0] @ model.coef_[0] + labelled + gamma * unlabelled


@pytest.mark.parametrize("gamma", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("balance", ["labelled", 0.4, None])
def test_the_objective_is_the_formula(gamma, balance):
    X, _, shown = clouds()
    model = TransductiveClassifier(gamma=gamma, balance=balance).fit(X, shown)
    assert model.objective_ == pytest.approx(objective(model, X, shown, gamma), rel=1e-9)
    assert model.certificate_ == "local"
    assert model.lower_bound_ == -math.inf
    assert 0.0 <= model.gap_ <= 1e-3 * model.objective_
    assert model.n_iter_ >= 1


def test_no_model_nearby_is_better(rng):
    X, _, shown = clouds()
    model = TransductiveClassifier(gamma=1.0, balance=None, gap_rel=1e-5).fit(X, shown)
    other = clone(model).fit(X, shown)
    for step in 1e-3 * rng.standard_normal((100, 5)):
        other.coef_, other.intercept_ = model.coef_ + step[:4], model.intercept_ + step[4]
        assert objective(other, X, shown, 1.0) >= model.objective_ - 1e-3


def test_unlabelled_samples_help():
    """Two long clouds side by side, one label each, at places that mislead."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = np.column_stack([np.where(y == 1, 1.5, -1.5), np.zeros(200)]) + rng.standard_normal((200, 2)) * [0.3, 2.0]
    X[0], X[1] = [-1.5, -1.0], [1.5, 1.0]
    shown = np.where(np.arange(200) < 2, y, -1)
    alone = LinearClassifier(lam=0.01).fit(X[:2], y[:2])
    model = TransductiveClassifier(lam=0.01, gamma=1.0).fit(X, shown)
    assert model.score(X, y) >= 0.99 > alone.score(X, y)


# Labels


@pytest.mark.parametrize("kind", [int, float, np.int8])
def test_numbers_are_labels_and_minus_one_is_none(kind):
    X, _, shown = clouds()
    model = TransductiveClassifier().fit(X, shown.astype(kind))
    np.testing.assert_array_equal(model.classes_, [0, 1])
    assert set(model.transduction_.tolist()) <= {0, 1}


def test_strings_are_labels_and_minus_one_is_none():
    X, y, shown = clouds()
    names = np.array(["ham", "spam"], dtype=object)[y]
    names[shown == -1] = -1
    model = TransductiveClassifier().fit(X, names)
    assert model.classes_.tolist() == ["ham", "spam"]
    expected = TransductiveClassifier().fit(X, shown)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.transduction_.tolist() == np.array(["ham", "spam"])[expected.transduction_].tolist()


def test_a_minus_one_that_became_a_string_is_refused():
    """NumPy makes strings of a list of both."""
    X, _, shown = clouds()
    names = [-1 if code == -1 else ["ham", "spam"][code] for code in shown.tolist()]
    with pytest.raises(DataError, match="the label '-1' is text, and only the number -1 means unlabelled"):
        TransductiveClassifier().fit(X, names)


def test_strings_without_unlabelled_samples_are_fine():
    X, y, _ = clouds()
    names = np.array(["ham", "spam"])[y]
    model = TransductiveClassifier().fit(X, names)
    assert model.classes_.tolist() == ["ham", "spam"]
    assert model.transduction_.tolist() == names.tolist()


def test_the_known_labels_are_kept_and_the_others_predicted():
    X, y, shown = clouds(apart=0.3)
    model = TransductiveClassifier().fit(X, shown)
    known = shown != -1
    np.testing.assert_array_equal(model.transduction_[known], y[known])
    np.testing.assert_array_equal(model.transduction_[~known], model.predict(X)[~known])
    assert model.transduction_.shape == y.shape


def test_only_unlabelled_samples_are_refused():
    X, _, _ = clouds()
    with pytest.raises(DataError, match="every sample is unlabelled"):
        TransductiveClassifier().fit(X, np.full(len(X), -1))


def test_one_labelled_class_is_refused_and_named():
    X, _, _ = clouds()
    with pytest.raises(DataError, match=r"got 1 class: 3 \(the label -1 means unlabelled\)"):
        TransductiveClassifier().fit(X, np.where(np.arange(len(X)) < 5, 3, -1))


@pytest.mark.parametrize("balance", ["labelled", None])
def test_a_class_without_weight_is_refused_and_named(balance):
    X, _, shown = clouds()
    refused = pytest.raises(DataError, match="every class needs a positive weight; the class 0 has none")
    with refused:
        TransductiveClassifier(balance=balance).fit(X, shown, sample_weight=np.where(shown == 0, 0.0, 1.0))
    with refused:
        TransductiveClassifier(balance=balance, class_weight={0: 0.0, 1: 1.0}).fit(X, shown)


def test_real_numbers_are_no_labels():
    X, _, _ = clouds()
    with pytest.raises(ValueError, match="continuous"):
        TransductiveClassifier().fit(X, np.linspace(0.0, 1.0, len(X)))


@pytest.mark.parametrize("balance", ["labelled", None])
def test_several_classes_are_fitted_one_against_the_rest(balance):
    X, y, shown = clouds(n=120, n_labelled=12, n_classes=3, apart=3.0)
    model = TransductiveClassifier(balance=balance).fit(X, shown)
    assert model.coef_.shape == (3, 4)
    assert model.intercept_.shape == (3,)
    assert len(model.result_) == 3
    assert model.score(X, y) >= 0.9
    assert model.decision_function(X).shape == (120, 3)
    assert model.certificate_ == "local"
    assert model.objective_ == pytest.approx(sum(result.objective for result in model.result_))
    assert set(model.transduction_.tolist()) <= {0, 1, 2}


# What it reduces to


def same_model(ours, theirs, X, tol):
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=tol)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=20.0 * math.sqrt(tol))


@pytest.mark.parametrize("balance", ["labelled", None])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_without_unlabelled_samples_it_is_the_support_vector_machine(balance, weighted, rng):
    X, y, _ = clouds(apart=0.5)
    weight = rng.random(len(X)) + 0.1 if weighted else None
    ours = TransductiveClassifier(lam=0.1, balance=balance, gap_rel=1e-6).fit(X, y, sample_weight=weight)
    theirs = LinearClassifier(lam=0.1, gap_rel=1e-6).fit(X, y, sample_weight=weight)
    same_model(ours, theirs, X, 1e-5)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_with_a_gamma_of_zero_it_is_the_support_vector_machine_of_the_labelled(fit_intercept):
    X, y, shown = clouds(n_labelled=30, apart=0.5)
    ours = TransductiveClassifier(lam=0.1, gamma=0.0, balance=None, fit_intercept=fit_intercept, gap_rel=1e-6)
    theirs = LinearClassifier(lam=0.1, fit_intercept=fit_intercept, gap_rel=1e-6).fit(X[:30], y[:30])
    same_model(ours.fit(X, shown), theirs, X, 1e-5)


# The balance


@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("solver", ["auto", "convex_concave", "classic_bundle"])
def test_the_mean_score_of_the_unlabelled_shows_the_balance(p, solver):
    X, _, shown = clouds()
    model = TransductiveClassifier(balance=p, solver=solver).fit(X, shown)
    assert model.decision_function(X)[shown == -1].mean() == pytest.approx(2.0 * p - 1.0, abs=1e-9)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_by_default_the_balance_is_that_of_the_labelled_samples(weighted):
    X, y, _ = clouds()
    shown = np.where(np.isin(np.arange(len(X)), [0, 1, 3, 5, 7, 9]), y, -1)  # one of class 0, five of class 1
    weight = np.where(y == 0, 5.0, 1.0) if weighted else None
    model = TransductiveClassifier().fit(X, shown, sample_weight=weight)
    free = shown == -1
    mean = np.average(model.decision_function(X)[free], weights=None if weight is None else weight[free])
    assert mean == pytest.approx(0.0 if weighted else 4.0 / 6.0, abs=1e-9)


def test_a_balance_without_an_intercept_is_refused_with_the_remedy():
    X, _, shown = clouds()
    for balance in ("labelled", 0.5):
        with pytest.raises(ParameterError, match="use balance=None"):
            TransductiveClassifier(balance=balance, fit_intercept=False).fit(X, shown)
    model = TransductiveClassifier(balance=None, fit_intercept=False).fit(X, shown)
    assert model.intercept_.tolist() == [0.0]


@pytest.mark.parametrize("balance", [0.5, np.float64(0.5), np.float32(0.5)], ids=["float", "float64", "float32"])
def test_a_number_for_three_classes_is_refused(balance):
    X, _, shown = clouds(n_classes=3, n_labelled=12)
    with pytest.raises(ParameterError, match="`balance` as a number is for two classes"):
        TransductiveClassifier(balance=balance).fit(X, shown)


@pytest.mark.parametrize("balance", [0.0, 1.0, -0.3, "equal", True])
def test_a_balance_outside_its_domain_is_refused(balance):
    X, _, shown = clouds()
    with pytest.raises(ValueError, match="balance"):
        TransductiveClassifier(balance=balance).fit(X, shown)


@pytest.mark.parametrize("gamma", [-1.0, math.nan, math.inf])
def test_a_gamma_outside_its_domain_is_refused(gamma):
    X, _, shown = clouds()
    with pytest.raises(ValueError, match="gamma"):
        TransductiveClassifier(gamma=gamma).fit(X, shown)


# Kinds of data


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array])
def test_sparse_features_give_the_same_model(index, make):
    X, _, shown = clouds()
    S = make(np.where(np.abs(X) < 0.5, 0.0, X))
    S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    dense = TransductiveClassifier().fit(S.toarray(), shown)
    sparse = TransductiveClassifier().fit(S, shown)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=2e-3)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=0.05)
    np.testing.assert_allclose(sparse.decision_function(S), S @ sparse.coef_[0] + sparse.intercept_[0], rtol=1e-12)


def test_a_data_frame_keeps_its_names():
    X, _, shown = clouds()
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = TransductiveClassifier().fit(frame, pd.Series(shown))
    assert list(model.feature_names_in_) == list("abcd")
    known = TransductiveClassifier().fit(frame.to_numpy(), shown)  # the same order in memory, hence the same sums
    np.testing.assert_array_equal(model.coef_, known.coef_)


def test_single_precision_is_close():
    X, _, shown = clouds()
    model, single = TransductiveClassifier().fit(X, shown), TransductiveClassifier().fit(X.astype(np.float32), shown)
    assert single.objective_ == pytest.approx(model.objective_, rel=1e-2)


def test_it_works_in_a_pipeline():
    X, y, shown = clouds(apart=3.0)
    assert make_pipeline(StandardScaler(), TransductiveClassifier()).fit(X, shown).score(X, y) >= 0.9


# Weights


@pytest.mark.parametrize("balance", ["labelled", 0.5, None])
def test_a_sample_with_weight_two_counts_twice(balance):
    X, _, shown = clouds(apart=0.5)
    more = [0, 3, 20, 21]
    twice = np.r_[np.arange(len(X)), more]
    weight = np.ones(len(X))
    weight[more] = 2.0
    make = TransductiveClassifier(lam=0.1, balance=balance, gap_rel=1e-6)
    heavy = clone(make).fit(X, shown, sample_weight=weight)
    repeated = clone(make).fit(X[twice], shown[twice])
    assert heavy.objective_ == pytest.approx(repeated.objective_, rel=1e-3)
    np.testing.assert_allclose(heavy.decision_function(X), repeated.decision_function(X), atol=0.05)


@pytest.mark.parametrize("balance", ["labelled", 0.5, None])
def test_unlabelled_samples_without_weight_might_as_well_be_missing(balance):
    X, _, shown = clouds(apart=0.5)
    weight = np.where(np.arange(len(X)) >= 50, 0.0, 1.0)
    make = TransductiveClassifier(lam=0.1, balance=balance, gap_rel=1e-6)
    there = clone(make).fit(X, shown, sample_weight=weight)
    missing = clone(make).fit(X[:50], shown[:50])
    assert there.objective_ == pytest.approx(missing.objective_, rel=1e-3)
    np.testing.assert_allclose(there.decision_function(X), missing.decision_function(X), atol=0.05)


def test_class_weights_are_sample_weights_of_the_labelled():
    X, _, shown = clouds(apart=0.5)
    by_class = TransductiveClassifier(lam=0.1, class_weight={0: 1.0, 1: 4.0}).fit(X, shown)
    by_sample = TransductiveClassifier(lam=0.1).fit(X, shown, sample_weight=np.where(shown == 1, 4.0, 1.0))
    np.testing.assert_allclose(by_class.coef_, by_sample.coef_, rtol=1e-9)
    np.testing.assert_allclose(by_class.intercept_, by_sample.intercept_, rtol=1e-9)


def test_balanced_class_weights_count_labelled_samples_only():
    X, y, _ = clouds(apart=0.5)
    shown = np.where(np.isin(np.arange(len(X)), [0, 1, 3, 5]), y, -1)  # one of class 0, three of class 1
    balanced = TransductiveClassifier(lam=0.1, class_weight="balanced").fit(X, shown)
    expected = TransductiveClassifier(lam=0.1, class_weight={0: 3.0, 1: 1.0}).fit(X, shown)
    np.testing.assert_allclose(balanced.coef_, expected.coef_, atol=0.05)  # the same up to rounding, then to the gap
    assert balanced.decision_function(X)[shown == -1].mean() == pytest.approx(0.0, abs=1e-9)


# Solvers, starts, files


@pytest.mark.parametrize("solver", ["nonconvex_bundle", "convex_concave", "classic_bundle", ConvexConcave()])
def test_solvers_for_risks_that_are_not_convex_agree(solver):
    """On clouds so far apart that there is one good valley."""
    X, _, shown = clouds(n_labelled=40, apart=2.0)
    model = TransductiveClassifier(lam=0.1, gamma=0.3, solver=solver).fit(X, shown)
    auto = TransductiveClassifier(lam=0.1, gamma=0.3).fit(X, shown)
    assert model.objective_ == pytest.approx(auto.objective_, rel=0.05)


@pytest.mark.parametrize("solver", ["newton", "cutting_plane", "line_search_bundle"])
def test_a_solver_for_convex_risks_is_refused_with_the_remedy(solver):
    X, _, shown = clouds()
    with pytest.raises(CapabilityError, match="use NonconvexBundle"):
        TransductiveClassifier(solver=solver).fit(X, shown)


def test_the_convex_concave_procedure_ends_where_kinks_coincide():
    """At an optimum several samples lie on the margin, and their kinks in b are a rounding apart."""
    X = 3.0 * np.random.RandomState(0).uniform(size=(20, 3))
    y = X[:, 0].astype(int) % 2
    model = TransductiveClassifier(solver="convex_concave", balance=None, max_steps=300).fit(X, y)
    assert model.objective_ == pytest.approx(LinearClassifier(lam=1e-2).fit(X, y).objective_, rel=1e-2)


def test_a_warm_start_goes_on_from_the_last_solution():
    X, _, shown = clouds(apart=0.5)
    model = TransductiveClassifier(warm_start=True).fit(X, shown)
    first, steps = model.objective_, model.n_iter_
    model.fit(X, shown)
    assert model.objective_ <= first * (1.0 + 1e-12)
    assert model.n_iter_ <= steps


def test_a_warm_start_on_other_data_starts_afresh():
    X, _, shown = clouds()
    model = TransductiveClassifier(warm_start=True).fit(X, shown)
    model.fit(X[:, :2], shown)
    np.testing.assert_array_equal(model.coef_, TransductiveClassifier().fit(X[:, :2], shown).coef_)
    model.fit(X, np.where(shown == -1, -1, shown + 5))
    assert model.classes_.tolist() == [5, 6]


def test_the_same_data_give_the_same_model():
    X, _, shown = clouds()
    first, second = (TransductiveClassifier(random_state=seed).fit(X, shown) for seed in (0, 1))
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_a_run_that_ends_early_warns_once_per_problem_with_what_it_has():
    X, _, shown = clouds(apart=0.2)
    with pytest.warns(ConvergenceWarning, match="step limit"):
        model = TransductiveClassifier(lam=1e-5, max_steps=1, gap_rel=1e-9).fit(X, shown)
    assert np.isfinite(model.coef_).all()
    assert model.transduction_.shape == shown.shape


def test_a_warning_does_not_call_the_models_minimum_a_bound():
    """The gap of a run that is not convex is no certificate."""
    X, _, shown = clouds(apart=0.2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        TransductiveClassifier(lam=1e-4, gamma=5.0, max_steps=2, gap_rel=1e-9).fit(X, shown)
    last = str(caught[-1].message)
    assert "lower bound" not in last
    assert "model" in last


@pytest.mark.parametrize("labels", [[0, 1], ["ham", "spam"], [2.0, 7.0]])
def test_a_model_file_brings_the_model_back(tmp_path, labels):
    X, y, _ = clouds()
    shown = np.array(labels)[y]
    if not isinstance(labels[0], str):
        shown = np.where(np.arange(len(X)) < 8, shown, -1)
    model = TransductiveClassifier(lam=0.1, gamma=0.5, balance=0.4).fit(X, shown)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    assert isinstance(back, TransductiveClassifier)
    assert back.get_params() == model.get_params()
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))
    for name in ("objective_", "gap_", "n_iter_", "n_features_in_", "certificate_"):
        assert getattr(back, name) == getattr(model, name)
    assert back.lower_bound_ == -math.inf


def test_there_are_no_probabilities():
    X, _, shown = clouds()
    assert not hasattr(TransductiveClassifier().fit(X, shown), "predict_proba")


def test_nothing_given_is_modified():
    X, _, shown = clouds()
    weight = np.ones(len(X))
    before = X.copy(), shown.copy()
    TransductiveClassifier(class_weight={0: 1.0, 1: 9.0}).fit(X, shown, sample_weight=weight)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(shown, before[1])
    np.testing.assert_array_equal(weight, 1.0)
