"""``--task hmm`` and ``--task connected``: archives in, words out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from undercut.io import ConnectedData


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
    options = (
        "--task",
        "hmm",
        "--states",
        "3",
        "--mixtures",
        "1",
        "--lambda",
        "0.1",
        "--margin",
        "2",
        "--theta",
        "1,4,1",
    )
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
    assert "margin 2" in printed
    assert "theta 1.0, 4.0, 1.0" in printed


@pytest.fixture
def sentences(tmp_path):
    """Utterances of one to three words, and the first three of them without words."""
    rng = np.random.default_rng(0)
    shapes = {"rise": np.linspace(-1.0, 1.0, 9), "fall": np.linspace(2.5, 0.5, 9)}
    y = [[str(word) for word in rng.choice(list(shapes), rng.integers(1, 4))] for _ in range(24)]
    curves = [np.concatenate([shapes[word] for word in words])[:, None] for words in y]
    X = np.concatenate(curves)
    data = ConnectedData(
        X + 0.5 * rng.standard_normal(X.shape), np.concatenate([[0], np.cumsum([len(curve) for curve in curves])]), y
    )
    np.savez(tmp_path / "said.npz", **data.arrays)
    new = ConnectedData(data.X[: data.offsets[3]], data.offsets[:4], None)
    np.savez(tmp_path / "new.npz", **new.arrays)
    return tmp_path, y


def test_connected_words_are_trained_evaluated_and_predicted(sentences, undercut):
    folder, y = sentences
    model = folder / "loop.uc"
    options = ("--task", "connected", "--states", "2", "--mixtures", "1", "--lambda", "0.1")
    code, printed, _ = undercut("train", folder / "said.npz", *options, "-o", model)
    assert code == 0
    assert "model gap" in printed
    report = json.loads(undercut("evaluate", model, folder / "said.npz", "--json")[1])
    assert (report["recordings"], report["words"]) == (24, sum(map(len, y)))
    assert report["word_error"] < 0.1
    assert report["recordings_without_error"] > 0.9
    code, printed, _ = undercut("predict", model, folder / "new.npz")
    assert [line.split() for line in printed.splitlines()] == y[:3]
    assert "HmmRecognizer" in undercut("info", model)[1]
    more = (*options, "-o", folder / "more.uc", "--start", model)
    assert undercut("train", folder / "said.npz", *more)[0] == 0
    for given, message in (
        (("predict", model, folder / "new.npz", "--scores"), "--scores is for models of single words"),
        (("evaluate", model, folder / "new.npz"), "must have arrays 'words' and 'word_offsets'"),
        (("train", folder / "new.npz", *options), "must have arrays 'words' and 'word_offsets'"),
        (("train", folder / "said.npz", "--task", "hmm"), "must have an array 'label' or 'digit'"),
        (("train", folder / "said.npz", *options[:2], "--valid", model), "--valid is not for --task connected"),
        (
            ("train", folder / "said.npz", *options[:2], "--states", "10"),
            "one frame per state, 10; utterance 1 has 9",
        ),
    ):
        code, _, error = undercut(*given)
        assert code != 0
        assert message in error


def test_words_that_no_model_has_are_refused(sentences, undercut):
    folder, _ = sentences
    options = ("--task", "connected", "--states", "2", "--mixtures", "1", "-o", folder / "loop.uc")
    undercut("train", folder / "said.npz", *options)
    with np.load(folder / "said.npz") as said:
        np.savez(folder / "other.npz", **{**said, "words": np.arange(said["words"].size)})
    code, _, error = undercut("evaluate", folder / "loop.uc", folder / "other.npz")
    assert code == 1
    assert "some of the words must be among the model's, ['fall', 'rise']; got 0" in error


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
        ("speech.npz", ("--task", "hmm", "--theta", "1,x,1"), 2, "--theta must be three numbers such as 1,4,1"),
        ("speech.npz", ("--task", "hmm", "--theta", "1,4"), 2, "--theta must be three positive numbers"),
        (
            "speech.npz",
            ("--task", "hmm", "--margin", "0"),
            2,
            "--margin must be a float in the range (0.0, inf); got 0.0",
        ),
        ("speech.npz", ("--states", "3"), 2, "--states needs --task hmm or connected"),
        ("speech.npz", ("--task", "hmm", "--decode", "mea"), 2, "--decode needs --task rna"),
    ],
)
def test_what_does_not_fit_is_refused(file, options, code, message, files, undercut):
    got, _, error = undercut("train", files / file, *options, "-o", files / "m.uc")
    assert got == code
    assert message in error
