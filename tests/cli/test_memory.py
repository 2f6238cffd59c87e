"""``--memory``: the rows of a file stay on disk, and what is trained, predicted and evaluated is the same."""

from __future__ import annotations

import bz2
import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from undercut import load_model


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((9, 3))
    for name, width in (("train", 8), ("test", 9)):
        X = rng.standard_normal((150, width)) * (rng.random((150, width)) < 0.5)
        dump_svmlight_file(X, (X @ truth[:width]).argmax(axis=1), f"{name}.svm", zero_based=False)
    (tmp_path / "train.svm.bz2").write_bytes(bz2.compress((tmp_path / "train.svm").read_bytes()))
    return tmp_path


@pytest.mark.parametrize("file", ["train.svm", "train.svm.bz2"])
@pytest.mark.parametrize("options", [(), ("--loss", "logistic", "--multi-class", "multinomial")])
def test_a_model_of_rows_on_disk_is_the_one_of_rows_in_memory(files, undercut, file, options):
    common = ("train", file, *options, "--lambda", 1e-2, "--gap", 1e-8, "--test", "test.svm", "--json")
    reports = []
    for memory in ((), ("--memory", "8GB", "--cache", "caches")):
        code, out, err = undercut(*common, *memory, "-o", f"model{len(memory)}.uc")
        assert code == 0, err
        reports.append(json.loads(out))
    assert reports[1]["objective"] == pytest.approx(reports[0]["objective"], rel=1e-7)
    assert reports[1]["test"]["accuracy"] == pytest.approx(reports[0]["test"]["accuracy"], abs=0.02)
    np.testing.assert_allclose(load_model("model4.uc").coef_, load_model("model0.uc").coef_, atol=1e-2)
    assert len(list((files / "caches").iterdir())) == 2


def test_predictions_and_measures_are_those_of_rows_in_memory(files, undercut):
    undercut("train", "train.svm", "--loss", "logistic", "--lambda", 1e-3)
    for command in (("predict",), ("predict", "--scores"), ("predict", "--probabilities"), ("evaluate", "--json")):
        code, expected, _ = undercut(command[0], "model.uc", "test.svm", *command[1:])
        assert code == 0
        code, out, err = undercut(command[0], "model.uc", "test.svm", *command[1:], "--memory", "8GB")
        assert code == 0, err
        assert "ignored 1 feature never seen in training" in err
        if command[0] == "evaluate":
            expected, out = json.loads(expected), json.loads(out)
            assert out == pytest.approx(expected)
        else:
            assert out.splitlines()[:1] == expected.splitlines()[:1]
            words = [line.split() for line in (out + expected).splitlines() if not line.startswith("#")]
            np.testing.assert_allclose(np.array(words[:150], float), np.array(words[150:], float), rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--memory", "much"), "--memory must be a number of bytes, or a text such as 500MB or 2GB; got 'much'"),
        (("--cache", "here"), "--cache needs --memory"),
        (("--memory", "1MB"), "--memory must be at least"),
        (("--memory", "8GB", "--kernel", "rbf"), "X must be in memory for KernelClassifier"),
        (("--memory", "8GB", "--online"), "--memory is not for --online"),
    ],
)
def test_what_cannot_be_is_refused_in_the_words_of_the_options(files, undercut, options, message):
    code, _, err = undercut("train", "train.svm", *options)
    assert code in (1, 2)
    assert message in err


def test_tables_are_refused(files, undercut):
    (files / "table.csv").write_text("a,b\n1,2\n3,4\n")
    code, _, err = undercut("train", "table.csv", "--target", "b", "--memory", "1GB")
    assert code == 2
    assert "--memory is for SVMlight files" in err
