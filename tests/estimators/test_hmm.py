"""Hidden Markov models as estimators: words and connected words in any form, files, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

from undercut import HmmClassifier, HmmRecognizer, load_model, save_model
from undercut.errors import DataError, ModelFileError, ParameterError

SHAPES = {"rise": np.linspace(-1.0, 1.0, 10), "fall": np.linspace(1.0, -1.0, 10), "hill": np.sin(np.linspace(0, 3, 10))}


def said(words, rng, noise=0.35):
    curve = np.concatenate([SHAPES[word] for word in words])
    return np.column_stack([curve, np.gradient(curve)]) + noise * rng.standard_normal((curve.size, 2))


def isolated(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = [str(word) for word in rng.choice(list(SHAPES), n)]
    return [said([word], rng) for word in y], y


def sentences(n=30, seed=0):
    rng = np.random.default_rng(seed)
    y = [[str(word) for word in rng.choice(list(SHAPES), rng.integers(1, 4))] for _ in range(n)]
    return [said(words, rng, 0.2) for words in y], y


@pytest.fixture(scope="module")
def classifier():
    return HmmClassifier(3, 1).fit(*isolated())


@pytest.fixture(scope="module")
def recognizer():
    return HmmRecognizer(3, 1).fit(*sentences())


def test_words_are_learned_and_the_margin_lowers_the_risk(classifier):
    X, y = isolated(seed=1)
    assert classifier.score(X, y) > 0.8
    assert classifier.certificate_ == "local"
    assert classifier.gap_ <= 0.01 * classifier.objective_
    assert classifier.objective_ < classifier.result_.trace[0].objective


def test_full_covariances_learn_too():
    X, y = isolated()
    model = HmmClassifier(2, 1, covariance="full").fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.parameters_.shape == (model.layout_.n_params,)
    assert model.layout_.n_moments == 6


def test_one_matrix_with_offsets_is_the_same_as_a_list(classifier):
    X, y = isolated()
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in X])])
    model = HmmClassifier(3, 1).fit(np.concatenate(X), y, offsets=offsets)
    np.testing.assert_array_equal(model.parameters_, classifier.parameters_)
    np.testing.assert_array_equal(model.predict(np.concatenate(X), offsets), classifier.predict(X))


def test_the_units_of_the_features_do_not_matter(classifier):
    X, y = isolated()
    other = [100.0 * x + 7.0 for x in X]
    model = HmmClassifier(3, 1).fit(other, y)
    np.testing.assert_allclose(model.center_, classifier.center_, rtol=1e-6, atol=1e-9)
    assert model.objective_ == pytest.approx(classifier.objective_, rel=1e-2)


def test_probabilities_sum_to_one_and_choose_as_predict_does(classifier):
    X, _ = isolated(seed=1)
    probabilities = classifier.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(classifier.classes_[probabilities.argmax(axis=1)], classifier.predict(X))


def test_states_go_from_the_first_to_the_last_one_by_one(classifier):
    for path in classifier.predict_states(isolated(seed=1)[0]):
        assert (path[0], path[-1]) == (0, 2)
        assert set(np.diff(path).tolist()) <= {0, 1}


def test_a_weight_of_2_equals_duplicating_the_utterance():
    X, y = isolated(20)
    weight = np.where(np.arange(20) < 5, 2.0, 1.0)
    weighted = HmmClassifier(3, 1, gap_rel=1e-5).fit(X, y, weight)
    doubled = HmmClassifier(3, 1, gap_rel=1e-5).fit([*X, *X[:5]], [*y, *y[:5]])
    np.testing.assert_allclose(weighted.center_, doubled.center_, rtol=1e-6, atol=1e-9)
    assert weighted.objective_ == pytest.approx(doubled.objective_, rel=1e-4)


def test_half_precision_is_widened_before_its_squares_overflow():
    X, y = isolated(20)
    narrow = [(1e4 * x).astype(np.float16) for x in X]
    with np.errstate(over="ignore"):
        assert np.isinf(narrow[0] ** 2).any()
    wide = [x.astype(np.float64) for x in narrow]
    np.testing.assert_array_equal(
        HmmClassifier(3, 1).fit(narrow, y).parameters_, HmmClassifier(3, 1).fit(wide, y).parameters_
    )


def test_utterances_can_be_normalized_one_by_one():
    X, y = isolated()
    model = HmmClassifier(3, 1, normalize="utterance").fit(X, y)
    louder = [(3.0 + at) * x + at for at, x in enumerate(X)]
    np.testing.assert_allclose(model.decision_function(louder), model.decision_function(X))


def test_constant_features_are_harmless():
    X, y = isolated()
    model = HmmClassifier(3, 1).fit([np.column_stack([x, np.full(len(x), 5.0)]) for x in X], y)
    assert np.isfinite(model.parameters_).all()
    assert model.score([np.column_stack([x, np.full(len(x), 5.0)]) for x in X], y) > 0.8


@pytest.mark.parametrize(("kind", "data"), [(HmmClassifier, isolated), (HmmRecognizer, sentences)])
def test_a_device_computes_the_same_scores(kind, data, device, request):
    here = request.getfixturevalue("classifier" if kind is HmmClassifier else "recognizer")
    model = kind(3, 1, device=device).fit(*data())
    np.testing.assert_allclose(model.parameters_, here.parameters_, rtol=1e-6, atol=1e-9)
    X = data(seed=1)[0]
    for mine, other in zip(model.predict_states(X), here.predict_states(X), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_a_warm_start_goes_on_from_the_last_solution():
    X, y = isolated()
    model = HmmClassifier(3, 1, warm_start=True).fit(X, y)
    first = model.objective_
    model.fit(X, y)
    assert model.result_.trace[0].objective <= first
    with pytest.raises(
        ParameterError, match=r"3 words of 3 states with 1 Gaussians of 2 features .diag.; got 3 words of 2 states"
    ):
        model.set_params(n_states=2).fit(X, y)


def test_connected_words_are_recognized(recognizer):
    X, y = sentences(seed=1)
    assert recognizer.score(X, y) > 0.8
    predicted = recognizer.predict(X)
    assert len(predicted) == len(y)
    assert all(words.size >= 1 for words in predicted)
    assert recognizer.certificate_ == "local"
    paths = recognizer.predict_states(X)
    assert all(path[0] == 0 and path[-1] == 2 for path in paths)


@pytest.mark.parametrize("name", ["classifier", "recognizer"])
def test_files_hold_the_whole_model(name, tmp_path, request):
    model = request.getfixturevalue(name)
    save_model(model, tmp_path / "model.uc")
    loaded = load_model(tmp_path / "model.uc")
    X, _ = isolated(seed=1)
    for ours, theirs in zip(loaded.predict(X), model.predict(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.get_params() == model.get_params()
    assert (loaded.layout_, loaded.objective_) == (model.layout_, model.objective_)


def test_a_file_whose_parts_do_not_fit_is_refused(classifier, tmp_path):
    broken = clone(classifier)
    vars(broken).update({name: value for name, value in vars(classifier).items() if name.endswith("_")})
    broken.parameters_ = classifier.parameters_[:-1]
    save_model(broken, tmp_path / "model.uc")
    with pytest.raises(ModelFileError, match="does not fit"):
        load_model(tmp_path / "model.uc")


def test_the_manners_of_scikit_learn_are_kept(classifier):
    assert is_classifier(classifier)
    assert not is_classifier(HmmRecognizer())
    assert clone(HmmClassifier(4, lam=0.1)).get_params()["lam"] == 0.1
    with pytest.raises(NotFittedError):
        HmmClassifier().predict(isolated()[0])
    with pytest.raises(NotFittedError):
        HmmRecognizer().predict(isolated()[0])


X, Y = isolated(12)
ROWS = np.concatenate(X)
SPOILED = [X[0], np.where(np.arange(10)[:, None] == 4, np.nan, X[1]), *X[2:]]


@pytest.mark.parametrize(
    ("samples", "y", "rest", "message"),
    [
        ([X[0][:2], *X[1:]], Y, {}, "at least one frame per state, 3; utterance 0 has 2: use fewer states"),
        (SPOILED, Y, {}, "X must be finite; token 4 of sequence 1 contains NaN"),
        ([1e150 * x for x in X], Y, {}, "squares of features must not overflow"),
        (X, Y[:-1], {}, "one label per utterance; got 11 labels for 12 utterances"),
        (X, ["rise"] * 12, {}, "at least 2 different labels"),
        (X, Y, {"sample_weight": [float(word != "hill") for word in Y]}, "'hill' has none"),
        (ROWS, Y, {"offsets": [0, 10, 120]}, "one label per utterance; got 12 labels for 2"),
        (ROWS, Y, {"offsets": [0, 10, 119]}, "offsets must go from 0 to the number of frames, 120; got 0 to 119"),
        (ROWS, Y, {"offsets": [0, 20, 10, 120]}, "offsets must increase; recording 1 goes from 20 to 10"),
        (ROWS, Y, {"offsets": [0.0, 120.0]}, "offsets must be a list of at least two integers"),
        (ROWS, Y, {}, "X must be a list of utterances; got one matrix of shape .*: pass its `offsets`"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_its_place(samples, y, rest, message):
    with pytest.raises(DataError, match=message):
        HmmClassifier(3, 1).fit(samples, y, **rest)


@pytest.mark.parametrize(
    "settings",
    [{"n_states": 0}, {"n_mixtures": -1}, {"lam": 0.0}, {"theta": (1.0, 0.0, 1.0)}, {"theta": (1.0,)},
     {"theta": ("1",) * 3}, {"variance_floor": 0.0}, {"covariance": "tied"}, {"margin": 0.0}],
)  # fmt: skip
def test_settings_outside_their_domain_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        HmmClassifier(**{"n_states": 3, "n_mixtures": 1} | settings).fit(X, Y)


def test_other_features_than_those_of_the_fit_are_refused(classifier):
    with pytest.raises(DataError, match="X must have the 2 features of the fit; got 1 features"):
        classifier.predict([x[:, :1] for x in X])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["rise"] * 12, "a list of words for each utterance; utterance 0 has 'rise'"),
        ([[]] + [["rise"]] * 11, "at least one word; utterance 0 has none"),
        ([["rise", "fall"]] * 11, "one list of words per utterance; got 11 for 12"),
        ([["rise", "fall"] * 2] * 12, "at least one frame per state of its words, 3 x 4; utterance 0 has 10"),
    ],
)
def test_bad_sequences_of_words_are_refused(y, message):
    with pytest.raises(DataError, match=message):
        HmmRecognizer(3, 1).fit(X, y)
