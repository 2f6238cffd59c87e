"""The novelty detector keeps the property of nu, agrees with libsvm, and says when it has nothing to separate."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.svm import OneClassSVM

from undercut import NoveltyDetector, load_model, save_model

nus = pytest.mark.parametrize("nu", [0.02, 0.1, 0.3, 0.7, 0.95])


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return rng.standard_normal((203, 4)) * (rng.random((203, 4)) < 0.8) + [3.0, 1.0, 1.0, 0.0]


@nus
def test_at_most_nu_are_novel_and_at_least_nu_are_support_vectors(X, nu):
    model = NoveltyDetector(nu, gap_rel=1e-10).fit(X)
    decision, rounding = model.decision_function(X), 1e-9 * abs(model.offset_)
    assert (decision < -rounding).mean() <= nu <= (decision <= rounding).mean()


@nus
def test_agrees_with_libsvm(X, nu):
    theirs = OneClassSVM(kernel="linear", nu=nu, tol=1e-10).fit(X)
    ours = NoveltyDetector(nu, lam=1.0 / (nu * len(X)), gap_rel=1e-10).fit(X)
    size = np.abs(theirs.coef_).max()
    np.testing.assert_allclose(ours.coef_, theirs.coef_.ravel(), atol=1e-4 * size)
    assert ours.offset_ == pytest.approx(float(theirs.offset_[0]), rel=1e-4)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X).ravel(), rtol=1e-3, atol=1e-3 * size)


def test_lambda_only_scales_and_does_not_change_predictions(X):
    one, other = (NoveltyDetector(0.1, lam, gap_rel=1e-9).fit(X) for lam in (1.0, 1e-6))
    np.testing.assert_allclose(other.coef_ * 1e-6, one.coef_, rtol=1e-4, atol=1e-6)
    far = one.decision_function(X)
    clear = np.abs(far) > 1e-4 * np.abs(far).max()
    np.testing.assert_array_equal(one.predict(X)[clear], other.predict(X)[clear])


def test_the_certificate_brackets_a_far_more_accurate_fit(X):
    rough, fine = (NoveltyDetector(0.1, gap_rel=gap).fit(X) for gap in (0.1, 1e-9))
    assert rough.lower_bound_ <= fine.objective_ < 0.0
    assert fine.lower_bound_ <= rough.objective_
    assert rough.gap_ <= 0.1 * abs(rough.objective_)


def test_scores_offset_decision_and_prediction_fit_together(X):
    model = NoveltyDetector(0.2).fit(X)
    np.testing.assert_array_equal(model.decision_function(X), model.score_samples(X) - model.offset_)
    np.testing.assert_array_equal(model.predict(X), np.where(model.decision_function(X) >= 0.0, 1, -1))
    np.testing.assert_array_equal(NoveltyDetector(0.2).fit_predict(X), model.predict(X))
    assert model.intercept_ == -model.offset_


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_and_dense_data_give_the_same_model(X, index, dtype):
    X = X.astype(dtype)
    S = sp.csr_matrix(X)
    S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    dense, sparse = (NoveltyDetector(0.1, gap_rel=1e-8).fit(Z) for Z in (X, S))
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-7)
    np.testing.assert_allclose(sparse.decision_function(S), dense.decision_function(X), atol=1e-3)


def test_weights_stand_for_repeated_samples(X):
    counts = np.random.default_rng(1).integers(0, 4, len(X))
    weighted = NoveltyDetector(0.1, gap_rel=1e-9).fit(X, sample_weight=counts)
    repeated = NoveltyDetector(0.1, gap_rel=1e-9).fit(np.repeat(X, counts, axis=0))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-8)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)


def test_warm_start_begins_where_the_last_fit_ended(X):
    model = NoveltyDetector(0.1, warm_start=True).fit(X)
    reached = model.objective_
    assert model.fit(X).result_.trace[0].objective == pytest.approx(reached, rel=1e-9)
    assert model.fit(X[:, :2]).coef_.shape == (2,)


def test_a_frame_keeps_its_names_and_a_model_file_gives_all_back(X, tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = NoveltyDetector(0.1, lam=0.5).fit(frame)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.predict(frame), model.predict(frame))
    assert (back.offset_, back.nu, back.lam) == (model.offset_, 0.1, 0.5)
    assert back.lower_bound_ == model.lower_bound_
    assert list(back.feature_names_in_) == list("abcd")


def test_where_nothing_can_be_separated_it_says_so(X):
    with pytest.warns(UserWarning, match="origin lies among the samples"):
        model = NoveltyDetector(0.5).fit(X - X.mean(axis=0))
    assert not model.coef_.any()
    assert (model.predict(X) == 1).all()


def test_a_fit_that_ends_early_warns_and_keeps_its_certificate(X):
    with pytest.warns(ConvergenceWarning, match="raise max_steps"):
        model = NoveltyDetector(0.1, gap_rel=1e-12, max_steps=2).fit(X)
    assert model.lower_bound_ <= model.objective_


@pytest.mark.parametrize("settings", [{"nu": 0.0}, {"nu": 1.1}, {"lam": 0.0}, {"solver": "bundle"}])
def test_a_wrong_setting_is_named(X, settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        NoveltyDetector(**settings).fit(X)


def test_before_a_fit_there_is_no_prediction(X):
    with pytest.raises(NotFittedError):
        NoveltyDetector().predict(X)
    assert not hasattr(NoveltyDetector(), "offset_")
