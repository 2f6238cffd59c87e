"""``--task hmm``: archives in, words out."""

from __future__ import annotations

import json

import numpy as np
import pytest


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    words = np.arange(24) % 2
    parts = [np.linspace(-1.0, 1.0, 9)[:, None] * (1 - 2 * word) + 0.3 * rng.standard_normal((9, 2)) for word in words]
    np.savez(tmp_path / "speech.npz", X=np.concatenate(parts), offsets=np.arange(25) * 9, digit=words)
    np.savez(tmp_path / "unknown.npz", X=np.concatenate(parts[:3]), offsets=np.arange(4) * 9)
    return tmp_path


@pytest.fixture
def model(files, undercut):
    options = ("--task", "hmm", "--states", "3", "--mixtures", "1", "--lambda", "0.1")
    code, printed, _ = undercut("train", files / "speech.npz", *options, "-o", files / "words.uc")
    assert code == 0
    assert "model gap" in printed
    return files / "words.uc"


def test_words_are_evaluated_and_predicted(model, files, undercut):
    code, printed, _ = undercut("evaluate", model, files / "speech.npz", "--json")
    report = json.loads(printed)
    assert (code, report["recordings"], report["frames"]) == (0, 24, 216)
    assert report["accuracy"] > 0.9
    code, printed, _ = undercut("predict", model, files / "unknown.npz")
    assert printed.split() == ["0", "1", "0"]
    code, printed, _ = undercut("predict", model, files / "unknown.npz", "--probabilities")
    header, *lines = printed.splitlines()
    assert header == "# labels 0 1"
    assert all(sum(map(float, line.split())) == pytest.approx(1.0) for line in lines)
    code, printed, _ = undercut("info", model)
    assert "HmmClassifier" in printed


def test_a_start_of_other_sizes_is_refused(model, files, undercut):
    options = ("--task", "hmm", "--mixtures", "1", "-o", files / "more.uc", "--start", model)
    code, _, _ = undercut("train", files / "speech.npz", *options, "--states", "3", "--lambda", "0.1")
    assert code == 0
    code, _, error = undercut("train", files / "speech.npz", *options, "--states", "2")
    assert code == 2
    assert "a warm start needs the words, states, Gaussians, features" in error


@pytest.mark.parametrize(
    ("file", "options", "code", "message"),
    [
        ("unknown.npz", ("--task", "hmm"), 1, "must have an array 'label' or 'digit'"),
        ("speech.npz", ("--task", "hmm", "--states", "20"), 1, "at least one frame per state, 20"),
        ("speech.npz", ("--task", "hmm", "--states", "0"), 2, "--states must be"),
        ("speech.npz", ("--task", "hmm", "--valid", "speech.npz"), 2, "--valid is not for --task hmm"),
        ("speech.npz", ("--states", "3"), 2, "--states needs --task hmm"),
        ("speech.npz", ("--task", "hmm", "--decode", "mea"), 2, "--decode needs --task rna"),
    ],
)
def test_what_does_not_fit_is_refused(file, options, code, message, files, undercut):
    got, _, error = undercut("train", files / file, *options, "-o", files / "m.uc")
    assert got == code
    assert message in error
