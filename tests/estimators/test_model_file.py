"""Model files round-trip, and hostile ones run nothing."""

import pickle
import struct

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from tests.model_files import edit

from undercut import LinearClassifier, LinearRegressor, Logistic, Quantile, load_model, save_model
from undercut.errors import ModelFileError


@pytest.fixture
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture
def saved(tmp_path, iris):
    save_model(LinearClassifier().fit(*iris), tmp_path / "model.uc")
    return tmp_path / "model.uc"


@pytest.mark.parametrize("loss", ["hinge", "logistic", "huber_hinge"])
@pytest.mark.parametrize("labels", [[0, 1, 2], ["a", "b", "c"], [1.0, 2.0, 4.0]])
def test_a_classifier_comes_back_as_it_went(tmp_path, iris, loss, labels):
    X, y = iris
    model = LinearClassifier(loss=loss, lam=1e-3).fit(X, np.array(labels)[y])
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))
    for name in ("objective_", "lower_bound_", "gap_", "n_iter_", "n_features_in_"):
        assert getattr(back, name) == getattr(model, name)
    assert back.lam == 1e-3


def test_a_binary_classifier_and_its_feature_names_come_back(tmp_path, iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = LinearClassifier(loss=Logistic()).fit(frame, y == 1)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.predict_proba(frame), model.predict_proba(frame))
    assert list(back.feature_names_in_) == list("abcd")


@pytest.mark.parametrize("loss", ["poisson", "squared", Quantile(0.9)])
def test_a_regressor_comes_back_as_it_went(tmp_path, loss):
    X, y = load_diabetes(return_X_y=True)
    model = LinearRegressor(loss, lam=1e-2).fit(X, y)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back._loss() == model._loss()


def test_saving_replaces_a_model_only_once_complete(saved, iris):
    LinearClassifier().fit(*iris)
    assert [path.name for path in saved.parent.iterdir()] == ["model.uc"]


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("a model file ran code",)


def test_a_pickle_is_refused_and_not_run(tmp_path):
    (tmp_path / "bomb.uc").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelFileError, match=r"bomb\.uc is not a model file"):
        load_model(tmp_path / "bomb.uc")


@pytest.mark.parametrize("content", [b"", b"\x00" * 8, b"not a model", struct.pack("<Q", 2**60) + b"{}"])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "model.uc").write_bytes(content)
    with pytest.raises(ModelFileError, match="not a model file"):
        load_model(tmp_path / "model.uc")


def test_a_truncated_file_is_refused_wherever_it_ends(saved):
    whole = saved.read_bytes()
    for size in range(0, len(whole), 7):
        saved.write_bytes(whole[:size])
        with pytest.raises(ModelFileError):
            load_model(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.update(version=99),
        lambda h: h.update(estimator="os.system"),
        lambda h: h.update(estimator=["LinearClassifier"]),
        lambda h: h["params"].update(loss="__import__"),
        lambda h: h["params"].update(loss={"object": {"dict": [["width", 1.0]]}, "kind": "Hinge"}),
        lambda h: h["params"].update(loss={"object": {"dict": []}, "kind": ["Hinge"]}),
        lambda h: h["params"].update(loss={"pickle": "gASVAAAA"}),
        lambda h: h["params"].update(other=1.0),
        lambda h: h["fitted"].update(predict=1.0),
        lambda h: h["fitted"].pop("coef_"),
        lambda h: h["fitted"].update(coef_={"labels": ["a", "b"]}),
        lambda h: h["params"].update(lam=-1.0),
        lambda h: h["params"].update(lam="1"),
        lambda h: h.update(params=[]),
        lambda h: h["fitted"].update(classes_={"labels": [0, 1]}),
        lambda h: h["fitted"].update(classes_=7),
        lambda h: h["fitted"].pop("objective_"),
        lambda h: h["fitted"].update(objective_="low"),
        lambda h: h["fitted"].update(certificate_="sure"),
    ],
)
def test_a_header_that_lies_is_refused(saved, change):
    edit(saved, change)
    with pytest.raises(ModelFileError, match=r"model\.uc"):
        load_model(saved)


def test_coefficients_that_are_not_finite_are_refused(tmp_path, iris):
    model = LinearClassifier().fit(*iris)
    model.coef_[0, 0] = np.nan
    save_model(model, tmp_path / "model.uc")
    with pytest.raises(ModelFileError, match="not finite"):
        load_model(tmp_path / "model.uc")


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.uc"):
        load_model(tmp_path / "none.uc")


def test_a_loss_of_ones_own_cannot_be_saved(tmp_path, iris):
    class Mine(Logistic):
        pass

    with pytest.raises(ModelFileError, match="Mine"):
        save_model(LinearClassifier(loss=Mine()).fit(*iris), tmp_path / "model.uc")
