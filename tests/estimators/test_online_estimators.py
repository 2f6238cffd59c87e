"""The online estimators as their users meet them: fits, streams, refusals that leave the model as it was."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from undercut import LinearClassifier, OnlineClassifier, OnlineRegressor, Quantile, Status, load_model, save_model
from undercut.errors import DataError
from undercut.solvers.online import ONLINE_SOLVERS, OptimisticProximal, Pegasos

solvers = pytest.mark.parametrize("solver", ONLINE_SOLVERS)


def shuffled(X, y):
    order = np.random.default_rng(0).permutation(y.size)
    return X[order], y[order]


@pytest.fixture(scope="module")
def cancer(cancer):
    return shuffled(*cancer)


@pytest.fixture(scope="module")
def iris(iris):
    return shuffled(*iris)


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), y / 100.0


def chunks(X, y, size=50):
    return [(X[at : at + size], y[at : at + size]) for at in range(0, y.size, size)]


def streamed(model, pieces, **first):
    for X, y in pieces:
        model.partial_fit(X, y, **first)
    return model


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber_hinge", "logistic"])
def test_every_loss_with_tame_slopes_classifies(cancer, loss):
    model = OnlineClassifier(loss=loss, lam=1e-2, n_passes=10).fit(*cancer)
    assert model.score(*cancer) > 0.93
    assert model.objective_ < 1.0
    assert model.result_.status is Status.MAX_PASSES
    assert model.n_iter_ == 10


@pytest.mark.parametrize("loss", ["squared", "absolute", "epsilon_insensitive", "quantile", "huber", Quantile(0.5)])
def test_every_loss_regresses(diabetes, loss):
    model = OnlineRegressor(loss=loss, lam=1e-3, n_passes=20).fit(*diabetes)
    assert model.score(*diabetes) > 0.35
    assert model.coef_.shape == (10,)
    assert isinstance(model.intercept_, float)


@solvers
def test_every_solver_has_a_name(cancer, solver):
    model = OnlineClassifier(lam=0.05, solver=solver, n_passes=20).fit(*cancer)
    assert model.score(*cancer) > 0.93


def test_a_fit_comes_near_the_certified_optimum(cancer):
    """The intercept is a penalized constant feature: the same problem with a column of ones."""
    X, y = cancer
    exact = LinearClassifier(lam=1e-2, fit_intercept=False, gap_rel=1e-6).fit(np.column_stack([X, np.ones(y.size)]), y)
    model = OnlineClassifier(lam=1e-2, n_passes=30).fit(X, y)
    assert exact.lower_bound_ <= model.objective_ <= 1.1 * exact.objective_


def test_a_certificate_is_given_when_asked_for(cancer):
    X, y = cancer
    exact = LinearClassifier(lam=1e-2, fit_intercept=False, gap_rel=1e-6).fit(np.column_stack([X, np.ones(y.size)]), y)
    sure, unsure = (OnlineClassifier(lam=1e-2, certify=certify, n_passes=5).fit(X, y) for certify in (True, False))
    assert -math.inf < sure.lower_bound_ <= exact.objective_
    assert sure.gap_ == sure.objective_ - sure.lower_bound_
    assert unsure.lower_bound_ == -math.inf
    np.testing.assert_array_equal(sure.coef_, unsure.coef_)


@pytest.mark.parametrize("kind", [np.random.RandomState, np.random.default_rng], ids=["RandomState", "Generator"])
def test_a_generator_draws_the_order_of_samples(cancer, kind):
    first, second, other = (
        OnlineClassifier(lam=1e-3, n_passes=2, random_state=kind(seed)).fit(*cancer).coef_ for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)
    model = OnlineClassifier(lam=1e-3, n_passes=2, random_state=kind(1))
    assert not np.array_equal(model.fit(*cancer).coef_, model.fit(*cancer).coef_), "each fit draws anew"


def test_a_stream_draws_its_seed_once(cancer):
    seeds = np.random.RandomState(1)
    streamed(OnlineClassifier(random_state=seeds), chunks(*cancer))
    fresh = np.random.RandomState(1)
    fresh.randint(2**31 - 1)
    assert seeds.randint(1000) == fresh.randint(1000)


def test_the_order_of_samples_follows_the_random_state(cancer):
    first, again, other = (
        OnlineClassifier(lam=1e-3, n_passes=2, random_state=seed).fit(*cancer).coef_ for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other, rtol=1e-3)
    default, zero = (OnlineClassifier(n_passes=2, random_state=seed).fit(*cancer).coef_ for seed in (None, 0))
    np.testing.assert_array_equal(default, zero)


@solvers
@pytest.mark.parametrize("average", [False, True], ids=["last", "average"])
def test_a_stream_is_the_sum_of_its_chunks(cancer, solver, average):
    pieces = chunks(*cancer)
    settings = {"lam": 1e-2, "solver": solver, "average": average}
    one = streamed(OnlineClassifier(**settings), pieces)
    other = OnlineClassifier(**settings).fit_stream(iter(pieces))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert one.n_samples_seen_ == other.n_samples_seen_ == 569
    assert one.score(*cancer) > 0.9


def test_a_stream_may_be_read_again_if_it_can(cancer):
    pieces = chunks(*cancer)
    by_list = OnlineClassifier(lam=1e-2).fit_stream(pieces, n_passes=3)
    by_function = OnlineClassifier(lam=1e-2).fit_stream(lambda: iter(pieces), n_passes=3)
    by_hand = streamed(OnlineClassifier(lam=1e-2), 3 * pieces)
    np.testing.assert_array_equal(by_list.coef_, by_function.coef_)
    np.testing.assert_array_equal(by_list.coef_, by_hand.coef_)
    assert by_list.n_samples_seen_ == 3 * 569


@pytest.mark.parametrize("kind", [OnlineClassifier, OnlineRegressor])
def test_a_generator_cannot_be_read_twice(cancer, kind):
    read = []

    def generate():
        read.append(1)
        yield from chunks(*cancer)

    with pytest.raises(DataError, match="a generator can be read once, and n_passes = 2: pass a function"):
        kind().fit_stream(generate(), n_passes=2)
    assert read == []


@solvers
@pytest.mark.parametrize("average", [False, True])
def test_a_stream_whose_chunks_grow_ends_where_the_full_width_would(iris, solver, average):
    X, y = iris
    full = sp.csr_matrix(np.where(np.arange(4) <= np.arange(y.size)[:, None] // 40, X, 0.0))
    starts = range(0, y.size, 30)
    known = [(full[at : at + 30], y[at : at + 30]) for at in starts]
    grown = [(part[:, : max(1, int(part.indices.max()) + 1)], labels) for part, labels in known]
    assert len({part.shape[1] for part, _ in grown}) > 1
    make = partial(OnlineClassifier, lam=1e-2, solver=solver, average=average)
    same, wide = make().fit_stream(known, classes=[0, 1, 2]), make().fit_stream(grown, classes=[0, 1, 2])
    np.testing.assert_array_equal(wide.coef_, same.coef_)
    np.testing.assert_array_equal(wide.intercept_, same.intercept_)
    narrow = wide.widened(full[:, :2])
    assert narrow.shape[1] == wide.n_features_in_ == 4


@pytest.mark.parametrize("kind", [OnlineClassifier, OnlineRegressor])
def test_a_stream_without_chunks_is_refused(kind):
    with pytest.raises(DataError, match="at least one chunk"):
        kind().fit_stream([])


def test_a_stream_starts_anew(cancer):
    pieces = chunks(*cancer)
    model = OnlineClassifier(lam=1e-2).fit_stream(pieces[5:])
    model.fit_stream(pieces)
    np.testing.assert_array_equal(model.coef_, OnlineClassifier(lam=1e-2).fit_stream(pieces).coef_)


def test_a_fit_after_a_stream_starts_anew(cancer):
    model = OnlineClassifier(lam=1e-2, n_passes=3).fit_stream(chunks(*cancer))
    model.fit(*cancer)
    np.testing.assert_array_equal(model.coef_, OnlineClassifier(lam=1e-2, n_passes=3).fit(*cancer).coef_)


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_a_stream_after_a_fit_goes_on_from_it(cancer, diabetes, kind):
    model, (X, y) = (OnlineClassifier(lam=1e-2), cancer) if kind == "classifier" else (OnlineRegressor(), diabetes)
    model.fit(X, y)
    before = model.coef_.copy()
    model.partial_fit(X[:1], y[:1])
    assert model.n_samples_seen_ == 1
    fresh = clone(model)
    if kind == "regressor":
        fresh.partial_fit(X[:1], y[:1])
    else:
        fresh.partial_fit(X[:1], y[:1], classes=[0, 1])
    assert not np.array_equal(model.coef_, before) or kind == "classifier"
    assert not np.allclose(model.coef_, fresh.coef_)


def test_a_certificate_does_not_outlive_the_fit_it_belongs_to(cancer):
    X, y = cancer
    model = OnlineClassifier(lam=1e-3, solver="pegasos", certify=True, n_passes=3).fit(X, y)
    model.partial_fit(X[:50], 1 - y[:50])
    assert not hasattr(model, "objective_")
    assert not hasattr(model, "lower_bound_")


def test_a_warm_start_begins_at_the_last_fit(cancer, diabetes):
    model = OnlineClassifier(lam=1e-2, n_passes=10, warm_start=True).fit(*cancer)
    before = model.objective_
    model.set_params(n_passes=1).fit(*cancer)
    assert model.result_.trace[0].objective == pytest.approx(before, rel=1e-12)
    assert model.objective_ <= before
    regressor = OnlineRegressor(lam=1e-2, n_passes=10, warm_start=True).fit(*diabetes)
    before = regressor.objective_
    regressor.fit(*diabetes)
    assert regressor.result_.trace[0].objective == pytest.approx(before, rel=1e-12)


def test_several_classes_are_fitted_one_against_the_rest(iris):
    X, y = iris
    model = OnlineClassifier(lam=1e-3, loss="logistic", n_passes=30).fit(X, y)
    assert model.coef_.shape == (3, 4)
    assert model.score(X, y) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    for code in range(3):
        alone = OnlineClassifier(lam=1e-3, loss="logistic", n_passes=30).fit(X, y == code)
        np.testing.assert_array_equal(model.coef_[code], alone.coef_[0])


@pytest.mark.parametrize("labels", [["a", "b", "c"], [7, 3, 5], [1.0, 2.0, 4.0]])
def test_labels_may_be_anything_that_sorts(iris, labels):
    X, y = iris
    named = np.array(labels)[y]
    model = streamed(OnlineClassifier(lam=1e-3), chunks(X, named), classes=labels)
    assert set(model.predict(X)) <= set(labels)
    assert model.score(X, named) > 0.75
    assert model.classes_.tolist() == sorted(labels)


def test_classes_named_at_first_need_not_be_in_the_first_chunk(iris):
    X, y = iris
    order = np.argsort(y, kind="stable")
    model = OnlineClassifier(lam=1e-3)
    for X_part, y_part in chunks(X[order], y[order]):
        model.partial_fit(X_part, y_part, classes=[0, 1, 2])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.coef_.shape == (3, 4)


def test_sample_weights_of_zero_take_samples_out(cancer):
    X, y = cancer
    weight = (np.arange(y.size) < 300).astype(float)
    model = OnlineClassifier(lam=1e-2, n_passes=40).fit(X, y, sample_weight=weight)
    part = OnlineClassifier(lam=1e-2, n_passes=40).fit(X[:300], y[:300])
    assert model.objective_ == pytest.approx(part.objective_, rel=0.1)


@pytest.mark.parametrize("kind", ["fit", "partial_fit"])
@pytest.mark.parametrize("factor", [1e-3, 100.0])
def test_only_the_ratios_of_sample_weights_matter(diabetes, kind, factor):
    X, y = diabetes
    weight = np.random.default_rng(0).random(y.size) + 0.5
    models = [OnlineRegressor(loss="absolute", lam=1e-2, n_passes=2) for _ in range(2)]
    for model, scaled in zip(models, (weight, factor * weight), strict=True):
        getattr(model, kind)(X, y, sample_weight=scaled)
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-6)


def test_class_weights_are_sample_weights(cancer):
    X, y = cancer
    by_class = streamed(OnlineClassifier(lam=1e-2, class_weight={0: 3.0, 1: 1.0}), chunks(X, y))
    by_sample = OnlineClassifier(lam=1e-2)
    for X_part, y_part in chunks(X, y):
        by_sample.partial_fit(X_part, y_part, sample_weight=np.where(y_part == 0, 3.0, 1.0))
    np.testing.assert_array_equal(by_class.coef_, by_sample.coef_)
    fitted = OnlineClassifier(lam=1e-2, class_weight={0: 3.0, 1: 1.0}, n_passes=2).fit(X, y)
    same = OnlineClassifier(lam=1e-2, n_passes=2).fit(X, y, sample_weight=np.where(y == 0, 3.0, 1.0))
    np.testing.assert_allclose(fitted.coef_, same.coef_, rtol=1e-9)


def test_balanced_class_weights_need_all_the_data(cancer):
    model = OnlineClassifier(class_weight="balanced", n_passes=2)
    with pytest.raises(DataError, match="'balanced' needs all the data: give a dict to partial_fit, or use fit"):
        model.partial_fit(*cancer)
    assert not hasattr(model, "coef_")
    assert model.fit(*cancer).score(*cancer) > 0.9


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_class_weight_that_is_no_weight_is_refused(cancer, value):
    model = OnlineClassifier(class_weight={0: value, 1: 1.0})
    with pytest.raises(ValueError, match="weight"):
        model.partial_fit(*cancer)
    assert not hasattr(model, "coef_")


def test_a_first_chunk_of_a_class_without_weight_is_refused(cancer):
    X, y = cancer
    model = OnlineClassifier(class_weight={0: 0.0, 1: 1.0})
    with pytest.raises(DataError, match="the weights of a chunk must have a positive sum"):
        model.partial_fit(X[y == 0][:20], np.zeros(20, int), classes=[0, 1])
    assert not hasattr(model, "coef_")


def bad_chunks(X, y):
    return {
        "nan": (np.where(np.arange(X.shape[1]) == 1, np.nan, X), y, {}, "NaN"),
        "infinite": (np.where(np.arange(X.shape[1]) == 1, np.inf, X), y, {}, "infinity"),
        "narrow": (X[:, :-1], y, {}, "features"),
        "wide": (np.column_stack([X, X]), y, {}, "features"),
        "empty": (X[:0], y[:0], {}, "0 sample"),
        "lengths": (X, y[:-1], {}, "inconsistent numbers of samples"),
        "no_weight": (X, y, {"sample_weight": np.zeros(y.size)}, "positive sum|at least one non-zero"),
        "negative_weight": (X, y, {"sample_weight": np.full(y.size, -1.0)}, "[Nn]egative"),
        "nan_weight": (X, y, {"sample_weight": np.full(y.size, np.nan)}, "NaN"),
        "flat": (X[:, 0], y, {}, "2D array"),
    }


BAD = tuple(bad_chunks(np.zeros((2, 2)), np.zeros(2)))


def assert_refused_unchanged(model, X, y, good, options, message):
    """The refusal, the model as before, and the same future as a model that never saw the chunk."""
    twin = clone(model)
    streamed(twin, good[:3])
    streamed(model, good[:3])
    before = (model.coef_.copy(), np.copy(model.intercept_), model.n_samples_seen_)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y, **options)
    np.testing.assert_array_equal(model.coef_, before[0])
    np.testing.assert_array_equal(model.intercept_, before[1])
    assert model.n_samples_seen_ == before[2]
    streamed(model, good[3:5])
    streamed(twin, good[3:5])
    np.testing.assert_array_equal(model.coef_, twin.coef_)
    model.predict(good[0][0])


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_chunk_is_refused_and_leaves_the_classifier_as_it_was(cancer, kind):
    X, y, options, message = bad_chunks(cancer[0][:40], cancer[1][:40])[kind]
    assert_refused_unchanged(OnlineClassifier(lam=1e-2), X, y, chunks(*cancer), options, message)


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_chunk_is_refused_and_leaves_the_regressor_as_it_was(diabetes, kind):
    X, y, options, message = bad_chunks(diabetes[0][:40], diabetes[1][:40])[kind]
    assert_refused_unchanged(OnlineRegressor(lam=1e-2), X, y, chunks(*diabetes), options, message)


def test_a_target_that_is_not_finite_is_refused(diabetes):
    X, y = diabetes[0][:40], diabetes[1][:40].copy()
    y[3] = np.nan
    assert_refused_unchanged(OnlineRegressor(lam=1e-2), X, y, chunks(*diabetes), {}, "NaN")


def test_a_target_the_loss_refuses_is_refused(diabetes):
    X, y = diabetes[0][:40], -np.ones(40)
    model = OnlineRegressor("poisson", lam=1.0)
    assert_refused_unchanged(model, X, y, chunks(*diabetes), {}, "non-negative; got -1.0")


def test_a_new_class_in_a_later_chunk_is_refused(cancer):
    X, y = cancer[0][:40], np.where(np.arange(40) == 7, 5, cancer[1][:40])
    message = r"class .*5.* is not among \[0, 1\]: name all classes at the first partial_fit"
    assert_refused_unchanged(OnlineClassifier(lam=1e-2), X, y, chunks(*cancer), {}, message)


def test_other_classes_in_a_later_call_are_refused(cancer):
    message = r"`classes` must stay \[0, 1\]; got \[0, 1, 2\]"
    options = {"classes": [0, 1, 2]}
    assert_refused_unchanged(OnlineClassifier(lam=1e-2), *cancer, chunks(*cancer), options, message)


def test_a_first_chunk_of_one_class_asks_for_the_others(cancer):
    X, y = cancer
    model = OnlineClassifier()
    with pytest.raises(DataError, match=r"at least 2 classes; got 1 class: .*name all in `classes`"):
        model.partial_fit(X[y == 1], y[y == 1])
    assert not hasattr(model, "coef_")
    model.partial_fit(X[y == 1], y[y == 1], classes=[0, 1])
    assert model.coef_.shape == (1, 30)


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_first_chunk_does_not_spoil_the_next(cancer, kind):
    X, y, options, message = bad_chunks(cancer[0][:40], cancer[1][:40])[kind]
    model = OnlineClassifier(lam=1e-2)
    if kind not in ("narrow", "wide"):  # any width is right at first
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X, y, **options)
    streamed(model, chunks(*cancer))
    np.testing.assert_array_equal(model.coef_, streamed(OnlineClassifier(lam=1e-2), chunks(*cancer)).coef_)


@solvers
@pytest.mark.parametrize("average", [False, True], ids=["last", "average"])
@pytest.mark.parametrize("data", ["cancer", "iris", "diabetes"])
def test_a_paused_stream_goes_on_bit_for_bit(request, tmp_path, solver, average, data):
    X, y = request.getfixturevalue(data)
    kind = OnlineRegressor if data == "diabetes" else OnlineClassifier
    make = kind(lam=1e-2, solver=solver, average=average, random_state=5, batch_size=3)
    pieces = chunks(X, y, 40)
    whole = streamed(clone(make), pieces)
    model = clone(make)
    for at, (X_part, y_part) in enumerate(pieces):
        model.partial_fit(X_part, y_part)
        if at % 2:
            save_model(model, tmp_path / "model.uc")
            model = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    np.testing.assert_array_equal(model.intercept_, whole.intercept_)
    assert model.n_samples_seen_ == whole.n_samples_seen_ == y.size


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": Pegasos()},
        {"solver": OptimisticProximal(batch_size=5, sampling="replacement")},
        {"class_weight": {0: 5.0, 1: 1.0}},
    ],
    ids=["solver", "solver_settings", "class_weight"],
)
def test_a_paused_stream_keeps_its_settings(cancer, tmp_path, settings):
    pieces = chunks(*cancer)
    whole = streamed(OnlineClassifier(lam=1e-2, **settings), pieces)
    model = streamed(OnlineClassifier(lam=1e-2, **settings), pieces[:5])
    save_model(model, tmp_path / "model.uc")
    model = streamed(load_model(tmp_path / "model.uc"), pieces[5:])
    np.testing.assert_array_equal(model.coef_, whole.coef_)


def test_a_fitted_model_comes_back_as_it_went(cancer, tmp_path):
    for certify in (False, True):
        model = OnlineClassifier(lam=1e-2, n_passes=2, certify=certify).fit(*cancer)
        save_model(model, tmp_path / "model.uc")
        back = load_model(tmp_path / "model.uc")
        np.testing.assert_array_equal(back.decision_function(cancer[0]), model.decision_function(cancer[0]))
        assert (back.objective_, back.lower_bound_) == (model.objective_, model.lower_bound_)


def test_feature_names_come_back_with_the_stream(iris, tmp_path):
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = streamed(OnlineClassifier(), [(frame[:75], y[:75])])
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    assert back.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        back.partial_fit(frame[list("dcba")], y)


@pytest.mark.parametrize(
    "convert",
    [
        lambda X: X.astype(np.float32),
        lambda X: sp.csr_matrix(X),
        lambda X: sp.csc_array(X),
        lambda X: pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])]),
        np.asfortranarray,
        lambda X: X.tolist(),
    ],
    ids=["float32", "csr", "csc", "pandas", "fortran", "lists"],
)
def test_any_kind_of_matrix_will_do(cancer, convert):
    X, y = cancer
    X = X.astype(np.float32).astype(np.float64)
    for name in ("fit", "partial_fit"):
        plain, other = OnlineClassifier(lam=1e-2, n_passes=2), OnlineClassifier(lam=1e-2, n_passes=2)
        getattr(plain, name)(X, y)
        getattr(other, name)(convert(X), y)
        np.testing.assert_allclose(other.coef_, plain.coef_, rtol=1e-4, atol=1e-6)


def test_long_indices_will_do(cancer):
    X, y = cancer
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    model = OnlineClassifier(lam=1e-2).partial_fit(wide, y)
    np.testing.assert_allclose(model.coef_, OnlineClassifier(lam=1e-2).partial_fit(X, y).coef_, rtol=1e-9)


def test_integers_will_do(iris):
    X, y = np.round(10 * iris[0]).astype(int), iris[1]
    model = OnlineClassifier().partial_fit(X, y)
    np.testing.assert_array_equal(model.coef_, OnlineClassifier().partial_fit(X.astype(float), y).coef_)


def test_without_an_intercept_there_is_none(cancer, diabetes):
    assert OnlineClassifier(fit_intercept=False, n_passes=2).fit(*cancer).intercept_.tolist() == [0.0]
    assert OnlineClassifier(fit_intercept=False).partial_fit(*cancer).intercept_.tolist() == [0.0]
    assert OnlineRegressor(fit_intercept=False).partial_fit(*diabetes).intercept_ == 0.0


def test_the_mean_of_a_stream_is_never_empty(cancer):
    """A phase that has just begun has no iterates of its own yet; what was learned must not vanish."""
    X, y = cancer
    model = OnlineClassifier(lam=1e-4, average=True)
    for at in range(20):
        model.partial_fit(X[at : at + 1], y[at : at + 1], classes=[0, 1])
        assert model.coef_.any()


def test_a_pipeline_may_end_in_an_online_model(cancer):
    model = make_pipeline(StandardScaler(), OnlineClassifier(lam=1e-2, n_passes=3)).fit(*cancer)
    assert model.score(*cancer) > 0.93


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"solver": "line_search_bundle"}, "solver"),
        ({"n_passes": 0}, "n_passes"),
        ({"batch_size": 0}, "batch_size"),
        ({"lam": 0.0}, "lam"),
        ({"loss": "squared"}, "loss"),
        ({"average": "yes"}, "average"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_setting_outside_its_domain_is_refused(cancer, settings, name, method):
    model = OnlineClassifier(**settings)
    with pytest.raises(ValueError, match=name):
        getattr(model, method)(*cancer)
    assert not hasattr(model, "coef_")
