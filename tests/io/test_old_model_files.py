"""Model files of earlier versions still load.

The files under ``version_1`` were written by undercut 0.1, from the 12 rows in ``expected.json``; those under
``version_2`` are the same models and one with names of features.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from undercut import ElasticNet, HuberHinge, Quantile, load_model, save_model
from undercut.regularizers import L1

FOLDER = Path(__file__).parent / "version_1"
SECOND = Path(__file__).parent / "version_2"
KNOWN = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
X = np.array(KNOWN["X"])
SENTENCES = [[("the", "DT"), ("dog", "NN")], [("a", "DT"), ("cat", "NN"), ("sits", "VB")]]
PREDICT = {
    "sequence_labeler": lambda model: np.concatenate(model.predict_marginals([X[:4], X[4:7], X[7:]])),
    "template_labeler": lambda model: np.concatenate(model.predict(SENTENCES)),
    "multinomial_classifier": lambda model: model.predict(X),
    "linear_regressor": lambda model: model.predict(X),
    "online_regressor": lambda model: model.predict(X),
    "ranker": lambda model: model.predict(X),
}


def outputs(name, model):
    return PREDICT.get(name, lambda model: model.decision_function(X))(model)


@pytest.mark.parametrize("folder", [FOLDER, SECOND], ids=lambda folder: folder.name)
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.uc")))
def test_an_old_file_predicts_as_it_did_and_is_saved_as_a_new_one(folder, name, tmp_path):
    model = load_model(folder / f"{name}.uc")
    compare = np.testing.assert_array_equal if type(model).__name__ != "KernelClassifier" else close
    compare(outputs(name, model), KNOWN["expected"][name])
    if name != "online_classifier":
        assert model.certificate_ in ("global", "local", "none")
        assert model.gap_ >= 0.0
    save_model(model, tmp_path / "model.uc")
    compare(outputs(name, load_model(tmp_path / "model.uc")), KNOWN["expected"][name])


def test_a_file_of_version_2_keeps_names_of_features_and_parameters_that_are_objects():
    model = load_model(SECOND / "named_classifier.uc")
    expected = json.loads((SECOND / "expected.json").read_text(encoding="utf-8"))["named_classifier"]
    frame = pd.DataFrame(X, columns=[f"column {at}" for at in range(X.shape[1])])
    np.testing.assert_array_equal(model.decision_function(frame), expected)
    assert (model.penalty, model.class_weight) == (ElasticNet(1e-2, l1_ratio=0.1), {"a": 2.0, "b": 1.0, "c": 0.5})


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


def test_parameters_that_are_objects_come_back():
    model = load_model(FOLDER / "linear_regressor.uc")
    assert (model.loss, model.penalty) == (Quantile(0.9), L1(0.1))
    assert load_model(FOLDER / "linear_classifier.uc").loss == HuberHinge()
    assert load_model(FOLDER / "template_labeler.uc").features.templates == ("word[0]", "pos[-1] word[0]")


@pytest.mark.parametrize("folder", [FOLDER, SECOND], ids=lambda folder: folder.name)
def test_an_old_stream_goes_on_bit_for_bit(folder):
    model = load_model(folder / "online_classifier.uc")
    assert (model.n_samples_seen_, model.stream_position_) == (12, 0)
    model.partial_fit(X, np.arange(12) % 3)
    np.testing.assert_array_equal(model.decision_function(X), KNOWN["expected"]["online_classifier_resumed"])
