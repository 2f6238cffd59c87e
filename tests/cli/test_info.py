"""``undercut info``: every model and checkpoint tells what it is, without data."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from undercut import L2, Hinge, LinearClassifier, LinearRisk, Stop, estimators, load_model, minimize, save_model
from undercut.callbacks import Checkpoint
from undercut.cli.commands.info import largest_places
from undercut.estimators import (
    CertifiedEstimator,
    HmmClassifier,
    HmmRecognizer,
    KernelClassifier,
    Ranker,
    SequenceLabeler,
    StructuredEstimator,
)
from undercut.estimators.online.online_model import OnlineModel
from undercut.maps.templates import TemplateFeatures

KINDS = [
    kind
    for kind in (getattr(estimators, name) for name in estimators.__all__)
    if isinstance(kind, type) and issubclass(kind, CertifiedEstimator) and kind is not CertifiedEstimator
    if not issubclass(kind, StructuredEstimator)  # models of one's own are not saved; that of RNA has its own tests
]


def fitted(kind):
    """A small model of any kind."""
    X, y = load_iris(return_X_y=True)
    X, y = X[:100] + 1.0, y[:100]
    takes = inspect.signature(kind).parameters
    settings = {"lam": 0.1} if "lam" in takes else {"lams": [0.1], "cv": 2} if "lams" in takes else {}
    if issubclass(kind, HmmClassifier):
        return kind(**settings).fit(X, y[::10], offsets=np.arange(0, 101, 10))
    if issubclass(kind, HmmRecognizer):
        return kind(**settings).fit(X, [[label] for label in y[::10]], offsets=np.arange(0, 101, 10))
    if issubclass(kind, SequenceLabeler):
        return kind(**settings).fit([X[::2], X[1::2]], [y[::2], y[1::2]])
    if issubclass(kind, Ranker):
        return kind(**settings).fit(X, y, qid=np.tile(np.arange(10), 10))
    return kind(**settings).fit(X, y)


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_tells_its_kind_certificate_settings_and_size(kind, undercut, tmp_path):
    model = fitted(kind)
    save_model(model, tmp_path / "m.uc")
    code, out, err = undercut("info", tmp_path / "m.uc", "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert (report["model"], report["features"]) == (kind.__name__, 4)
    assert report["objective"] == model.objective_
    chosen = report["settings"] | report
    assert chosen["C" if kind is KernelClassifier else "lambda"] in (0.1, 1.0)
    if hasattr(model, "classes_"):
        assert report["classes"] == [0, 1]
    code, out, _ = undercut("info", tmp_path / "m.uc")
    assert out.startswith("model ")
    assert kind.__name__ in out


def test_the_largest_coefficients_are_named(undercut, tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = LinearClassifier(lam=1e-2).fit(pd.DataFrame(X), y)
    save_model(model, tmp_path / "m.uc")
    report = json.loads(undercut("info", tmp_path / "m.uc", "--json", "--top", 2)[1])
    for label, row in enumerate(model.coef_):
        best = np.argsort(-np.abs(row))[:2]
        assert report[f"largest_coefficients_of_class_{label}"] == {X.columns[at]: row[at] for at in best}


@pytest.mark.parametrize(
    ("row", "places"),
    [
        ([0.0, 0.5, -0.5 * (1.0 + 1e-15), 0.1], [1, 2, 3]),
        ([0.0] * 20 + [1e-10, 1.0], [21, 20]),
        ([0.0, 0.0], []),
    ],
)
def test_coefficients_of_one_size_are_in_order_and_zeros_are_left_out(row, places):
    assert largest_places(np.array(row), 3).tolist() == places


def test_the_coefficients_of_words_are_named_by_their_templates(undercut, tmp_path):
    words = [[("the", "DT"), ("cat", "NN")], [("a", "DT"), ("dog", "NN")]]
    features = TemplateFeatures(["word[0]"])
    model = SequenceLabeler(lam=0.1, features=features).fit(words, [["B", "I"], ["B", "I"]])
    save_model(model, tmp_path / "m.uc")
    report = json.loads(undercut("info", tmp_path / "m.uc", "--json")[1])
    assert set(report["largest_coefficients_of_class_B"]) <= set(model.features_.names())


def test_a_model_of_the_command_line_knows_its_command_and_data(undercut, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.svm").write_text("1 1:1\n-1 1:-1\n")
    undercut("train", "a.svm", "--lambda", 0.5, "-q")
    report = json.loads(undercut("info", "model.uc", "--json")[1])
    assert report["command"] == "undercut train a.svm --lambda 0.5"
    assert (report["data"], report["samples"], report["status"]) == ("a.svm", 2, "converged")
    undercut("train", "a.svm", "--online", "-q")
    report = json.loads(undercut("info", "model.uc", "--json")[1])
    assert report["samples_seen"] == 2
    assert isinstance(load_model("model.uc"), OnlineModel)


def test_a_checkpoint_tells_how_far_it_is(undercut, tmp_path):
    rng = np.random.default_rng(0)
    risk = LinearRisk(rng.standard_normal((50, 9)), rng.choice([-1.0, 1.0], 50), Hinge())
    stop, saved = Stop(max_steps=5), Checkpoint(tmp_path / "run.ck")
    result = minimize(risk, L2(1e-4), "line_search_bundle", stop=stop, callbacks=[saved])
    code, out, err = undercut("info", tmp_path / "run.ck", "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report["run"]["step"] == 5
    assert report["run"]["lower_bound"] == result.lower_bound
    assert (report["settings"]["risk.loss"], report["settings"]["reg.lam"]) == ("Hinge", "0.0001")
    assert "step 5" in undercut("info", tmp_path / "run.ck")[1]


def test_a_file_that_is_neither_is_refused(undercut, tmp_path):
    (tmp_path / "x").write_text("1 1:1\n")
    code, _, err = undercut("info", tmp_path / "x")
    assert code == 1
    assert "is not a model file" in err
