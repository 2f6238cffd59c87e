"""A SequenceLabeler with hidden layers: it learns what a linear one cannot, is repeatable, saved and continued."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from undercut import SequenceLabeler, load_model, save_model
from undercut.errors import DataError, ParameterError
from undercut.estimators import SequenceLabelerCV
from undercut.maps.boltzmann import ContrastiveDivergence

RNG = np.random.default_rng(0)
SHAPES = RNG.random((18, 20)) < 0.5


def words(n, seed):
    """Letters of six shapes each, so that a label is not one place in the space of pixels."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in rng.integers(2, 6, n):
        letters = rng.integers(0, 18, length)
        X.append((SHAPES[letters] ^ (rng.random((length, 20)) < 0.1)).astype(np.float64))
        y.append(["abc"[letter % 3] for letter in letters])
    return X, y


TRAIN, TEST = words(150, 1), words(50, 2)
SETTINGS = {"loss": "crf", "lam": 1e-3, "hidden": (24,), "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return SequenceLabeler(**SETTINGS, pretrain=ContrastiveDivergence(n_passes=30, batch_size=20)).fit(*TRAIN)


def test_a_network_learns_what_a_linear_chain_cannot(model):
    linear = SequenceLabeler("crf", lam=1e-3).fit(*TRAIN)
    assert model.certificate_ == "local"
    assert model.score(*TEST) > linear.score(*TEST) + 0.05
    np.testing.assert_allclose(model.predict_marginals(TEST[0])[0].sum(axis=1), 1.0)


def test_the_penalty_is_the_distance_from_the_start(model):
    assert model.center_.shape == model.result_.w.shape
    away = model.result_.w - model.center_
    assert model.objective_ >= 0.5 * model.lam * float(away @ away)
    assert [layer[0].shape for layer in model.layers_] == [(24, 20)]


def test_the_random_state_makes_a_fit_repeatable():
    settings = SETTINGS | {"max_steps": 5}
    with pytest.warns(ConvergenceWarning):
        one, same, other = (
            SequenceLabeler(**(settings | {"random_state": seed})).fit(*TRAIN).objective_ for seed in (0, 0, 1)
        )
    assert one == same != other


@pytest.mark.parametrize("activation", ["sigmoid", "relu"])
def test_a_model_file_predicts_the_same(model, tmp_path, activation):
    own = model if activation == "sigmoid" else SequenceLabeler(**SETTINGS, activation="relu").fit(*TRAIN)
    save_model(own, tmp_path / "m.uc")
    loaded = load_model(tmp_path / "m.uc")
    np.testing.assert_array_equal(np.concatenate(loaded.predict(TEST[0])), np.concatenate(own.predict(TEST[0])))
    assert loaded.get_params()["hidden"] == (24,)
    again = loaded.set_params(warm_start=True).fit(*TRAIN)
    assert again.objective_ <= own.objective_ * (1.0 + 1e-6)
    assert again.n_iter_ <= 0.8 * own.n_iter_


def test_a_damaged_layer_is_refused(model, tmp_path):
    state = model.state()
    state.fitted["layers_"] = {"list": []}
    with pytest.raises(ValueError, match="do not fit the sizes"):
        SequenceLabeler.from_state(state)


def test_a_warm_start_of_another_shape_is_refused(model):
    warm = SequenceLabeler(**SETTINGS, warm_start=True)
    vars(warm).update({name: value for name, value in vars(model).items() if name.endswith("_")})
    warm.hidden = (7,)
    with pytest.raises(
        DataError, match="a warm start needs the layers and labels of the last fit, 20-24-3; got 20-7-3"
    ):
        warm.fit(*TRAIN)


def test_a_linear_fit_after_a_network_starts_anew(model):
    warm = SequenceLabeler("crf", lam=1e-3, warm_start=True)
    vars(warm).update({name: value for name, value in vars(model).items() if name.endswith("_")})
    assert warm.fit(*TRAIN).certificate_ == "global"
    assert warm.layers_ == []
    assert warm.coef_.shape == (3, 20)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_tensors_are_fitted_as_arrays(device):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X, y = np.concatenate(TRAIN[0]), [label for part in TRAIN[1] for label in part]
    lengths = [len(part) for part in TRAIN[0]]
    settings = SETTINGS | {"max_steps": 8}
    array = SequenceLabeler(**settings).fit(X, y, lengths=lengths)
    tensor = SequenceLabeler(**settings, device=device).fit(X, y, lengths=lengths)
    given = SequenceLabeler(**settings).fit(torch.as_tensor(X, device=device), y, lengths=lengths)
    assert tensor.objective_ == pytest.approx(array.objective_, rel=1e-3)
    assert given.objective_ == tensor.objective_
    there = torch.as_tensor(X, device=device)
    assert given.score(there, y, lengths=lengths) == tensor.score(X, y, lengths=lengths)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": (0,)}, "`hidden` must be the sizes"),
        ({"hidden": (5,), "pretrain": "rbm", "activation": "relu"}, "`pretrain` makes sigmoid layers"),
        ({"pretrain": "rbm"}, "`pretrain` is for networks"),
        ({"device": "cpu"}, "`device` is for networks"),
        ({"hidden": (5,), "pairs": "seen"}, "a network has weights for all pairs"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(settings, message):
    with pytest.raises(ParameterError, match=message):
        SequenceLabeler("crf", **settings).fit(*TRAIN)


def test_pixels_of_a_byte_are_refused_by_a_binary_machine():
    with pytest.raises(DataError, match=r"needs features in \[0, 1\]; got values from 0 to 255"):
        SequenceLabeler(hidden=(4,), pretrain="rbm").fit([255.0 * part for part in TRAIN[0]], TRAIN[1])


def test_a_path_of_lambda_is_for_linear_models():
    with pytest.raises(ParameterError, match="a path of lambda is for linear models: use GridSearchCV"):
        SequenceLabelerCV([1e-2], hidden=(4,)).fit(*TRAIN)


def test_features_whose_products_would_overflow_are_refused():
    with pytest.raises(DataError, match=r"must not exceed 1e\+100; got 1e\+200: scale the features"):
        SequenceLabeler(hidden=(4,)).fit([1e200 * part for part in TRAIN[0]], TRAIN[1])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_tensors_of_any_kind_are_taken_or_refused():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X, y = torch.as_tensor(np.concatenate(TRAIN[0])), [label for part in TRAIN[1] for label in part]
    lengths = [len(part) for part in TRAIN[0]]
    settings = SETTINGS | {"max_steps": 2}
    plain = SequenceLabeler(**settings).fit(X, y, lengths=lengths).objective_
    for given in (X.clone().requires_grad_(), X.to(torch.int64), X > 0.5):
        assert SequenceLabeler(**settings).fit(given, y, lengths=lengths).objective_ == pytest.approx(plain)
    with pytest.raises(DataError, match=r"X must be a dense tensor, or a sparse matrix of SciPy; got .*sparse_coo"):
        SequenceLabeler(**settings).fit(X.to_sparse(), y, lengths=lengths)


@pytest.mark.parametrize("setting", [{"n_passes": 2.5}, {"batch_size": 0}, {"step_size": 0.0}, {"momentum": 1.0}])
def test_settings_of_pretraining_have_domains(setting):
    with pytest.raises(ParameterError, match=f"`{next(iter(setting))}` must be"):
        ContrastiveDivergence(**setting)
