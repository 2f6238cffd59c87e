"""KernelClassifier: scikit-learn's SVC with a certificate."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.model_files import edit

from undercut import KernelClassifier, Status, load_model, save_model
from undercut.errors import DataError, ModelFileError
from undercut.estimators.cross_validated import SelectionWarning
from undercut.estimators.kernels.kernel_search import kernel_search
from undercut.solvers import KernelHedging, PairDescent

TIGHT = {"gap_rel": 1e-7}


@pytest.fixture(scope="module")
def cancer(cancer):
    X, y = cancer
    rows = np.random.default_rng(0).permutation(y.size)[:200]
    return X[rows], y[rows]


def within_the_gap(estimator):
    """A sample counted twice and a sample repeated are alike up to the gap, and the check is stricter; so with SVC."""
    reason = "problems are solved to a gap"
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


@pytest.mark.filterwarnings("ignore::undercut.errors.ConstantModelWarning")  # random labels
@parametrize_with_checks(
    [
        KernelClassifier(),
        KernelClassifier(solver="hedging"),
        KernelClassifier(solver="bundle"),
        KernelClassifier(kernel="linear"),
    ],
    expected_failed_checks=within_the_gap,
)
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_agrees_with_svc(cancer, kernel, C):
    X, y = cancer
    ours, theirs = KernelClassifier(C, kernel, **TIGHT).fit(X, y), SVC(C=C, kernel=kernel, tol=1e-6).fit(X, y)
    size = np.abs(theirs.decision_function(X)).max()
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-3 * size)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.intercept_[0] == pytest.approx(theirs.intercept_[0], abs=2e-3 * size)
    assert np.abs(ours.dual_coef_).max() <= C * (1.0 + 1e-9)
    assert set(ours.support_[np.abs(ours.dual_coef_[0]) > 1e-3 * C]) <= set(theirs.support_)
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
    assert ours.n_support_.sum() == ours.support_.size


@pytest.mark.parametrize("weights", [{"class_weight": "balanced"}, {"class_weight": {0: 3.0, 1: 0.5}}, {}])
def test_weights_mean_what_they_mean_to_svc(cancer, weights):
    X, y = cancer
    sample_weight = np.random.default_rng(0).uniform(0.0, 2.0, y.size)
    ours = KernelClassifier(**weights, **TIGHT).fit(X, y, sample_weight)
    theirs = SVC(**weights, tol=1e-6)
    if weights.get("class_weight") == "balanced":  # SVC balances counts, we balance weights
        counts = np.bincount(y, weights=sample_weight)
        theirs.set_params(class_weight=dict(enumerate(sample_weight.sum() / (2.0 * counts))))
    theirs.fit(X, y, sample_weight)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=5e-3)


def test_a_sample_with_weight_two_is_there_twice(cancer):
    X, y = cancer
    weight = np.random.default_rng(0).integers(0, 3, y.size)
    rows = np.repeat(np.arange(y.size), weight)
    weighted = KernelClassifier(gamma=0.05, gap_rel=1e-9).fit(X, y, weight)
    repeated = KernelClassifier(gamma=0.05, gap_rel=1e-9).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-4)


@pytest.mark.parametrize(
    "solver", ["descent", "hedging", "bundle", PairDescent(), KernelHedging(), KernelHedging(blocks=3)]
)
def test_every_solver_reaches_the_same_certified_optimum(cancer, solver):
    X, y = cancer
    best = KernelClassifier(**TIGHT).fit(X, y)
    model = KernelClassifier(solver=solver).fit(X, y)
    assert model.certificate_ == "global"
    assert model.gap_ <= 1e-3 * model.objective_
    assert model.lower_bound_ <= best.objective_
    assert model.objective_ >= best.lower_bound_


def test_the_bundle_method_finds_the_same_function(cancer, iris):
    for X, y in (cancer, iris):
        machine, bundle = (KernelClassifier(solver=solver, **TIGHT).fit(X, y) for solver in ("descent", "bundle"))
        np.testing.assert_allclose(bundle.decision_function(X), machine.decision_function(X), atol=5e-3)
        assert bundle.objective_ == pytest.approx(machine.objective_, rel=1e-6)
    again = bundle.set_params(warm_start=True).fit(*iris)
    for result in again.result_:
        assert result.trace[0].objective <= result.objective * (1.0 + 1e-6)


def test_several_classes_are_fitted_one_against_the_rest(iris):
    X, y = iris
    ours = KernelClassifier(**TIGHT).fit(X, y)
    theirs = OneVsRestClassifier(SVC(tol=1e-6)).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=5e-3)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.dual_coef_.shape == (3, ours.support_.size)
    assert len(ours.result_) == 3
    assert ours.objective_ == pytest.approx(sum(result.objective for result in ours.result_))


def test_a_kernel_may_be_a_function_or_a_matrix(cancer):
    X, y = cancer
    named = KernelClassifier(gamma=0.05).fit(X, y)
    function = KernelClassifier(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.05)).fit(X, y)
    K = rbf_kernel(X, gamma=0.05)
    matrix = KernelClassifier(kernel="precomputed").fit(K, y)
    for other, data in ((function, X), (matrix, K)):
        np.testing.assert_allclose(other.decision_function(data), named.decision_function(X), atol=1e-8)
    assert matrix.support_vectors_.shape == (0, 0)
    assert clone(matrix).__sklearn_tags__().input_tags.pairwise


def test_sparse_samples_give_the_same_model(cancer):
    X, y = cancer
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = KernelClassifier().fit(X, y)
    for index in (np.int32, np.int64):
        S = sp.csr_matrix(X)
        S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
        sparse = KernelClassifier().fit(S, y)
        assert sp.issparse(sparse.support_vectors_)
        np.testing.assert_allclose(sparse.decision_function(S), dense.decision_function(X), atol=1e-8)
    assert sparse._gamma == pytest.approx(SVC().fit(sp.csr_matrix(X), y)._gamma)


def test_the_gram_matrix_need_not_be_stored(cancer):
    X, y = cancer
    stored, tiled = KernelClassifier().fit(X, y), KernelClassifier(store_gram=False).fit(X, y)
    assert tiled.gap_ <= 1e-3 * tiled.objective_
    assert tiled.objective_ == pytest.approx(stored.objective_, rel=1e-3)


@pytest.mark.parametrize("solver", ["descent", "hedging"])
def test_a_warm_start_goes_on(cancer, solver):
    X, y = cancer
    model = KernelClassifier(solver=solver, warm_start=True, gap_rel=1e-5).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ <= max(1, first // 3)
    model.set_params(C=1.1).fit(X, y)
    assert model.gap_ <= 1e-5 * model.objective_
    model.fit(X[:100], y[:100])
    assert model.support_.max() < 100


def test_a_limit_warns_and_keeps_the_certificate(cancer):
    X, y = cancer
    with pytest.warns(ConvergenceWarning, match="step limit"):
        model = KernelClassifier(solver=KernelHedging(), max_steps=3).fit(X, y)
    assert model.lower_bound_ <= KernelClassifier().fit(X, y).objective_ <= model.objective_


def test_progress_is_shown_only_on_request(cancer, capsys):
    KernelClassifier().fit(*cancer)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("params", "X", "rule"),
    [
        ({"kernel": "precomputed"}, np.ones((4, 3)), "must be square"),
        ({"kernel": "precomputed"}, np.triu(np.ones((4, 4))), "must be symmetric; it differs from its transpose by 1"),
        ({"kernel": "precomputed"}, np.ones((4, 4)) - 2.0 * np.eye(4), "smallest eigenvalue is -2"),
        ({"kernel": "sigmoid", "gamma": 1.0}, np.arange(8.0).reshape(4, 2) - 3.0, "smallest eigenvalue is"),
    ],
)
def test_what_is_no_kernel_is_refused(params, X, rule):
    with pytest.raises(DataError, match=rule):
        KernelClassifier(**params).fit(X, [0, 1, 0, 1])


def test_other_bad_input_is_refused(cancer):
    X, y = cancer
    with pytest.raises(ValueError, match="'C' parameter of KernelClassifier must be a float in the range \\(0"):
        KernelClassifier(C=0.0).fit(X, y)
    with pytest.raises(DataError, match="at least 2 classes; got 1 class"):
        KernelClassifier().fit(X, np.ones(y.size))
    with pytest.raises(DataError, match="every class must have a sample of positive weight; class 0 has none"):
        KernelClassifier().fit(X, y, sample_weight=(y == 1).astype(float))


def test_more_samples_than_memory_are_refused_at_once():
    n = 3_000_000
    X = sp.csr_matrix((n, 1), dtype=np.float64)
    with pytest.raises(DataError, match=r"3000000 samples needs 3\.35e\+04 GiB"):
        KernelClassifier().fit(X, np.arange(n) % 2)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, pd.DataFrame])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_a_model_file_gives_the_model_back(tmp_path, iris, form, kernel):
    X, y = iris
    data, labels = form(X), np.array(["a", "b", "c"])[y]
    if isinstance(data, pd.DataFrame):
        data.columns = list("abcd")
    model = KernelClassifier(C=2.0, kernel=kernel).fit(data, labels)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.predict(data), model.predict(data))
    np.testing.assert_array_equal(back.decision_function(data), model.decision_function(data))
    for name in ("objective_", "lower_bound_", "gap_", "n_iter_", "n_features_in_", "certificate_", "C", "kernel"):
        assert getattr(back, name) == getattr(model, name)
    for name in ("support_", "n_support_", "dual_coef_", "intercept_", "classes_"):
        np.testing.assert_array_equal(getattr(back, name), getattr(model, name))
    assert not hasattr(back, "coef_")


def test_a_model_of_a_matrix_can_be_saved_and_one_of_a_function_cannot(tmp_path, cancer):
    X, y = cancer
    K = rbf_kernel(X)
    model = KernelClassifier(kernel="precomputed").fit(K, y)
    save_model(model, tmp_path / "model.uc")
    np.testing.assert_array_equal(load_model(tmp_path / "model.uc").predict(K), model.predict(K))
    with pytest.raises(ModelFileError, match="`kernel` cannot be saved: the function rbf_kernel"):
        save_model(KernelClassifier(kernel=rbf_kernel).fit(X, y), tmp_path / "model.uc")


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["fitted"].update(n_features_in_=3),
        lambda h: h["fitted"].update(_n_fitted=1),
        lambda h: h["fitted"].update(n_support_={"list": [1]}),
        lambda h: h["fitted"].update(_gamma="wide"),
        lambda h: h["fitted"].update(_gamma=-1.0),
        lambda h: h["fitted"].pop("support_"),
        lambda h: h["fitted"].update(predict=1.0),
        lambda h: h["params"].update(kernel="exec"),
        lambda h: h["params"].update(C=-1.0),
        lambda h: h["fitted"].update(classes_={"labels": [0, 1, 2]}),
        lambda h: h["fitted"].update(classes_={"labels": [1, 1]}),
    ],
)
def test_a_file_that_lies_is_refused(tmp_path, cancer, change):
    save_model(KernelClassifier().fit(*cancer), tmp_path / "model.uc")
    edit(tmp_path / "model.uc", change)
    with pytest.raises(ModelFileError, match=r"model\.uc"):
        load_model(tmp_path / "model.uc")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device": "cpu", "store_gram": False}, "`device` keeps the Gram matrix"),
        ({"device": "cpu", "solver": "bundle"}, "`device` is for solver='hedging'"),
        ({"store_gram": False, "solver": "descent"}, "store_gram=False is for solver='hedging'"),
        ({"store_gram": False, "kernel": "precomputed"}, "a kernel that is not precomputed"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(cancer, settings, message):
    X, y = cancer
    with pytest.raises(ValueError, match=message):
        KernelClassifier(**settings).fit(X @ X.T if "kernel" in settings else X, y)


@pytest.mark.parametrize("store_gram", [True, False])
def test_a_kernel_that_is_not_positive_semidefinite_is_refused(cancer, store_gram):
    X, y = cancer
    with pytest.raises(DataError, match="smallest eigenvalue is -"):
        KernelClassifier(kernel="sigmoid", gamma=1.0, coef0=-1.0, store_gram=store_gram).fit(X, y)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_features_that_overflow_are_refused(cancer, kernel):
    X, y = cancer
    with pytest.raises(DataError, match="must be finite"), np.errstate(all="ignore"):
        KernelClassifier(kernel=kernel, gamma=1.0).fit(X * 1e200, y)


def test_parameters_of_numpy_are_saved(cancer, tmp_path):
    X, y = cancer
    model = KernelClassifier(kernel="poly", degree=np.int64(2), coef0=np.float32(1.0)).fit(X, y)
    save_model(model, tmp_path / "m.uc")
    np.testing.assert_array_equal(load_model(tmp_path / "m.uc").decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("solver", ["descent", "hedging", "bundle"])
@pytest.mark.parametrize(("C", "gamma"), [(1e-3, 10.0), (0.01, 50.0)])
def test_where_several_intercepts_are_best_the_middle_one_is_taken(solver, C, gamma):
    """Every coefficient is at its bound there, and the left end of these intercepts predicts one class only."""
    X, y = make_moons(300, noise=0.25, random_state=1)
    ours = KernelClassifier(C, gamma=gamma, solver=solver, **TIGHT).fit(X, y)
    theirs = SVC(C=C, gamma=gamma, tol=1e-6).fit(X, y)
    assert ours.score(X, y) >= theirs.score(X, y) - 0.02
    assert ours.intercept_[0] == pytest.approx(theirs.intercept_[0], abs=0.02)


def test_a_time_limit_ends_coordinate_descent_between_its_slices(cancer, monkeypatch):
    X, y = cancer
    monkeypatch.setattr("undercut.solvers.coordinate.pair_descent.SLICE", 20 * y.size)
    whole = KernelClassifier(C=100.0, gap_rel=1e-6).fit(X, y)
    assert whole.n_iter_ > 5
    with pytest.warns(ConvergenceWarning, match="time limit"):
        part = KernelClassifier(C=100.0, gap_rel=1e-6, max_seconds=1e-9).fit(X, y)
    assert part.lower_bound_ <= whole.objective_


def test_hedging_goes_on_from_a_start_that_it_is_long_worse_than(cancer):
    X, y = cancer
    model = KernelClassifier(C=1000.0, solver="hedging", max_steps=60, warm_start=True, gap_rel=1e-4)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    model.set_params(max_steps=10_000).fit(X, y)
    assert model.result_.status is Status.CONVERGED


def test_a_search_warns_of_a_best_C_at_the_end_of_its_grid():
    X, y = make_moons(80, noise=0.1, random_state=0)
    with pytest.warns(SelectionWarning, match=r"the best C, 1, is the largest .* set `Cs` to larger ones$"):
        choice = kernel_search(KernelClassifier(gap_rel=1e-2), X, y, Cs=[1e-2, 1e-1, 1.0], gammas=[3.0], cv=3)
    assert choice.best.C == 1.0


def test_a_search_names_a_fold_with_a_single_class():
    X, y = make_moons(20, noise=0.1, random_state=0)
    by_class = [(np.flatnonzero(y == 0), np.flatnonzero(y == 1))]
    with pytest.raises(DataError, match="fold 1 of 1 has samples of a single class to train on"):
        kernel_search(KernelClassifier(), X, y, Cs=[1.0], cv=by_class)


def test_a_search_takes_dataframes_and_keeps_their_names():
    pandas = pytest.importorskip("pandas")
    X, y = make_moons(40, noise=0.2, random_state=0)
    frame, labels = pandas.DataFrame(X, columns=["a", "b"]), pandas.Series(np.where(y, "up", "down"))
    choice = kernel_search(KernelClassifier(), frame, labels, Cs=[1.0], cv=2)
    assert choice.best.feature_names_in_.tolist() == ["a", "b"]
    assert choice.best.classes_.tolist() == ["down", "up"]
