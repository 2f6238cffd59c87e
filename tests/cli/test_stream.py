"""``undercut train --online`` as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_diabetes
from sklearn.preprocessing import scale
from tests.model_files import edit, entry

from undercut import LinearClassifier, OnlineClassifier, load_model, save_model
from undercut.cli import main
from undercut.errors import ModelFileError
from undercut.io import load_svmlight


@pytest.fixture
def cancer(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(y.size)
    path = tmp_path / "cancer.svm"
    dump_svmlight_file(scale(X)[order], np.where(y == 1, 1, -1)[order], str(path), zero_based=False)
    return path


@pytest.fixture
def trained(cancer, undercut, tmp_path):
    """A model of one pass, and the command that made it."""
    command = ("train", "--online", cancer, "--lambda", "1e-2", "--chunk-rows", "50", "-o", tmp_path / "m.uc")
    assert undercut(*command, "-q") == (0, "", "")
    return command


def test_a_file_is_streamed_as_python_would(cancer, undercut, tmp_path):
    code, out, _ = undercut(
        "train", "--online", cancer, "--lambda", "1e-2", "--passes", "2", "--chunk-rows", "50", "-o", tmp_path / "m.uc"
    )
    assert code == 0
    assert "1138" in out
    assert "m.uc" in out
    X, y, _ = load_svmlight(cancer)
    same = OnlineClassifier(lam=1e-2)
    for _ in range(2):
        for at in range(0, y.size, 50):
            same.partial_fit(X[at : at + 50], y[at : at + 50].astype(int))
    saved = load_model(tmp_path / "m.uc")
    np.testing.assert_array_equal(saved.coef_, same.coef_)
    assert saved.n_samples_seen_ == 2 * 569


def test_a_stream_reports_the_same_names_in_json_as_a_fit(trained, undercut):
    report = json.loads(undercut(*trained, "--json")[1])
    assert set(report) >= {"objective", "lower_bound", "gap", "steps", "seconds", "status", "model"}
    assert (report["gap"], report["steps"], report["status"]) == (None, 569, "done")


def test_evaluate_and_predict_read_a_streamed_model(cancer, trained, undercut, tmp_path):
    code, out, err = undercut("evaluate", tmp_path / "m.uc", cancer)
    assert (code, err) == (0, "")
    assert "accuracy" in out
    assert "ROC area" in out
    assert "R2" not in out
    code, labels, _ = undercut("predict", tmp_path / "m.uc", cancer)
    assert code == 0
    _, y, _ = load_svmlight(cancer)
    accuracy = np.mean(np.array(labels.split(), dtype=int) == y)
    assert accuracy > 0.9
    assert f"{accuracy:.6g}" in out
    code, scores, _ = undercut("predict", tmp_path / "m.uc", cancer, "--scores")
    assert code == 0
    np.testing.assert_array_equal(np.loadtxt(scores.splitlines()) > 0.0, np.array(labels.split(), int) > 0)


def test_evaluate_reads_a_streamed_regressor(undercut, tmp_path):
    X, y = load_diabetes(return_X_y=True)
    dump_svmlight_file(scale(X), y / 100.0, str(tmp_path / "d.svm"), zero_based=False)
    code, _, _ = undercut("train", "--online", tmp_path / "d.svm", "--loss", "absolute", "-o", tmp_path / "m.uc", "-q")
    assert code == 0
    code, out, _ = undercut("evaluate", tmp_path / "m.uc", tmp_path / "d.svm")
    assert code == 0
    assert "R2" in out


def test_start_goes_on_where_the_last_run_ended(cancer, trained, undercut, tmp_path):
    assert load_model(tmp_path / "m.uc").n_samples_seen_ == 569
    code, _, _ = undercut(*trained, "--start", tmp_path / "m.uc", "-q")
    assert code == 0
    went_on = load_model(tmp_path / "m.uc")
    assert went_on.n_samples_seen_ == 2 * 569
    undercut(*trained, "--passes", "2", "-q")
    np.testing.assert_array_equal(went_on.coef_, load_model(tmp_path / "m.uc").coef_)


@pytest.mark.parametrize("loss", ["huber_hinge", "quantile", "huber", "epsilon_insensitive", "logistic"])
def test_start_goes_on_with_any_loss(cancer, undercut, tmp_path, loss):
    command = ("train", "--online", cancer, "--loss", loss, "-o", tmp_path / "m.uc", "-q")
    assert undercut(*command)[0] == 0
    code, _, err = undercut(*command, "--start", tmp_path / "m.uc")
    assert (code, err) == (0, "")
    assert load_model(tmp_path / "m.uc").n_samples_seen_ == 2 * 569


@pytest.mark.parametrize(
    "change",
    [["--lambda", "1e-3"], ["--loss", "logistic"], ["--solver", "pegasos"], ["--no-intercept"]],
)
def test_start_refuses_other_settings(trained, undercut, tmp_path, change):
    before = (tmp_path / "m.uc").read_bytes()
    code, _, err = undercut(*trained, *change, "--start", tmp_path / "m.uc")
    assert code == 2
    assert f"--start was trained with {change[0].replace('no-', '')} " in err
    assert (tmp_path / "m.uc").read_bytes() == before


def test_start_refuses_a_batch_model(cancer, undercut, tmp_path):
    X, y, _ = load_svmlight(cancer)
    for model in (LinearClassifier().fit(X, y), OnlineClassifier(n_passes=1).fit(X, y)):
        save_model(model, tmp_path / "b.uc")
        code, _, err = undercut("train", "--online", cancer, "--start", tmp_path / "b.uc", "-o", tmp_path / "m.uc")
        assert code == 2
        assert "--start must be a model of train --online" in err


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--max-seconds", "3"], 2, "--max-seconds is not for --online"),
        (["--class-weight", "balanced"], 2, "--class-weight needs all the data and is not for --online: give pairs"),
        (["--solver", "newton"], 2, "solver"),
        (["--loss", "hing"], 2, "--loss must be one of hinge"),
        (["--lambda", "0"], 2, "lam"),
        (["--chunk-rows", "0"], 2, "--chunk-rows"),
        (["--passes", "0"], 2, "passes"),
        (["--classes", "a,b"], 1, "--classes must be numbers separated by commas; got 'a,b'"),
        (["--classes", "1"], 1, "at least 2 classes"),
        (["--start", "none.uc"], 1, "none.uc"),
    ],
)
def test_a_wrong_option_is_named(cancer, undercut, tmp_path, options, code, message):
    ended, _, err = undercut("train", "--online", cancer, "-o", tmp_path / "m.uc", *options)
    assert ended == code
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "m.uc").exists()


def lines(tmp_path, text):
    (tmp_path / "some.svm").write_text(text)
    return tmp_path / "some.svm"


def test_a_new_class_in_a_later_chunk_is_refused_until_it_is_named(undercut, tmp_path):
    file = lines(tmp_path, "1 1:1\n-1 1:-1\n" * 5 + "7 1:2\n")
    command = ("train", "--online", file, "--chunk-rows", "2", "-o", tmp_path / "m.uc")
    code, out, err = undercut(*command)
    assert (code, out) == (1, "")
    assert "7" in err
    assert "is not among [-1, 1]" in err
    assert undercut(*command, "--classes", "-1,1,7", "-q")[0] == 0
    assert load_model(tmp_path / "m.uc").classes_.tolist() == [-1, 1, 7]


def test_a_first_chunk_of_one_class_needs_the_others_named(undercut, tmp_path):
    file = lines(tmp_path, "1 1:1\n" * 4 + "-1 1:-1\n" * 4)
    command = ("train", "--online", file, "--chunk-rows", "2", "-o", tmp_path / "m.uc")
    code, _, err = undercut(*command)
    assert code == 1
    assert "classes" in err
    assert undercut(*command, "--classes", "-1,1")[0] == 0


@pytest.mark.parametrize("bad", ["1 1:x", "1 2:1 1:1", "1 0:1", "1 1:nan"])
def test_a_malformed_line_in_a_later_chunk_is_named(undercut, tmp_path, bad):
    file = lines(tmp_path, "1 1:1 3:1\n-1 1:-1\n" * 5 + bad + "\n")
    code, out, err = undercut("train", "--online", file, "--chunk-rows", "2", "-o", tmp_path / "m.uc")
    assert (code, out) == (1, "")
    assert "some.svm:11:" in err
    assert "Traceback" not in err


def test_later_chunks_may_show_more_features_than_the_first(undercut, tmp_path):
    file = lines(tmp_path, "1 1:1\n-1 1:-1\n1 9:1\n-1 2:1\n")
    command = ("train", "--online", file, "--chunk-rows", "2", "-o", tmp_path / "m.uc", "-q")
    assert undercut(*command)[0] == 0
    grown = load_model(tmp_path / "m.uc")
    assert grown.n_features_in_ == 9
    assert undercut(*command, "--n-features", "9")[0] == 0
    np.testing.assert_array_equal(load_model(tmp_path / "m.uc").coef_, grown.coef_)
    code, _, err = undercut(*command, "--n-features", "8")
    assert code == 1
    assert "some.svm:3: feature index must be at most 8" in err
    assert "pass --n-features 9 or more" in err


def test_an_empty_file_is_refused(undercut, tmp_path):
    code, _, err = undercut("train", "--online", lines(tmp_path, ""), "-o", tmp_path / "m.uc")
    assert code == 1
    assert "some.svm" in err


def interrupt_at(monkeypatch, chunk):
    """Ctrl-C while that chunk is learned."""
    whole, calls = OnlineClassifier.partial_fit, []

    def partial_fit(self, *arguments, **options):
        calls.append(1)
        if len(calls) == chunk:
            raise KeyboardInterrupt
        return whole(self, *arguments, **options)

    monkeypatch.setattr(OnlineClassifier, "partial_fit", partial_fit)


def test_ctrl_c_saves_what_was_learned_and_start_goes_on(cancer, undercut, tmp_path, monkeypatch):
    command = ("train", "--online", cancer, "--chunk-rows", "50", "-o", tmp_path / "m.uc")
    with monkeypatch.context() as patched:
        interrupt_at(patched, 3)
        code, out, _ = undercut(*command)
    assert code == 130
    assert "100 samples" in out
    saved = load_model(tmp_path / "m.uc")
    assert saved.n_samples_seen_ == 100
    assert saved.coef_.any()
    assert undercut(*command, "--start", tmp_path / "m.uc", "-q")[0] == 0
    went_on = load_model(tmp_path / "m.uc")
    assert went_on.n_samples_seen_ == 569
    assert undercut(*command, "-q")[0] == 0
    np.testing.assert_array_equal(went_on.coef_, load_model(tmp_path / "m.uc").coef_)


def test_ctrl_c_before_anything_is_learned_saves_nothing(cancer, undercut, tmp_path, monkeypatch):
    interrupt_at(monkeypatch, 1)
    monkeypatch.setattr(sys, "argv", ["undercut", "train", "--online", str(cancer), "-o", str(tmp_path / "m.uc")])
    with pytest.raises((SystemExit, KeyboardInterrupt)) as ended:
        main()
    assert ended.type is KeyboardInterrupt or ended.value.code not in (0, None)
    assert not (tmp_path / "m.uc").exists()


def rng_of(header):
    """The state of the generator of the first game."""
    return entry(header["fitted"]["_games"]["list"][0], "rng")[1]["generator"]


def set_entry(stored, name, value):
    entry(stored, name)[1] = value


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["fitted"].pop("_games"),
        lambda h: h["fitted"].update(_games={"list": []}),
        lambda h: h["fitted"].update(_games=7),
        lambda h: h["fitted"].update(_games={"list": ["PCG64"]}),
        lambda h: h["fitted"]["_games"]["list"].append(h["fitted"]["_games"]["list"][0]),
        lambda h: set_entry(rng_of(h), "bit_generator", "os.system"),
        lambda h: set_entry(rng_of(h), "state", None),
        lambda h: set_entry(entry(rng_of(h), "state")[1], "state", "x"),
        lambda h: set_entry(entry(rng_of(h), "state")[1], "state", -1),
        lambda h: set_entry(h["fitted"]["_games"]["list"][0], "rng", 7),
        lambda h: set_entry(h["fitted"]["_games"]["list"][0], "v", {"array": "coef_"}),
        lambda h: h["fitted"].update(n_samples_seen_="many"),
        lambda h: h["fitted"].update(n_samples_seen_=-1),
        lambda h: h["fitted"].update(_excess=float("nan")),
        lambda h: h["fitted"].update(_excess=-1.0),
        lambda h: h["fitted"].update(_seen=float("nan")),
        lambda h: h["fitted"].update(_seen=-569.0),
        lambda h: h["fitted"].update(_seen=None),
        lambda h: h["fitted"].pop("_seen"),
        lambda h: h["params"].update(fit_intercept=False),
        lambda h: h["params"].update(batch_size=0),
        lambda h: h["params"].update(solver="newton"),
        lambda h: h.update(estimator="OnlineRegressor"),
        lambda h: h.update(estimator="LinearClassifier", params={}),
    ],
)
def test_a_stream_header_that_lies_is_refused(trained, tmp_path, change):
    edit(tmp_path / "m.uc", change)
    with pytest.raises(ModelFileError, match=r"m\.uc"):
        load_model(tmp_path / "m.uc")


def peak_memory(file, output):
    """The peak resident memory of a run, in MB."""
    program = (
        "import sys; from undercut.cli import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code, ended.code\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "print(next(line.split()[1] for line in lines if line.startswith('VmHWM')))\n"
    )
    command = [sys.executable, "-c", program, "train", "--online", str(file), "--chunk-rows", "500", "-q"]
    run = subprocess.run([*command, "-o", str(output)], capture_output=True, text=True, check=True)
    return int(run.stdout.split()[-1]) / 1024.0


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs the peak memory of a process")
def test_memory_does_not_grow_with_the_file(tmp_path):
    rng = np.random.default_rng(0)
    rows = "".join(
        f"{1 if i % 2 else -1} " + " ".join(f"{j + 1}:{x:.4f}" for j, x in enumerate(rng.random(50))) + "\n"
        for i in range(2000)
    )
    (tmp_path / "small.svm").write_text(rows * 10)
    with open(tmp_path / "large.svm", "w") as file:
        for _ in range(65):
            file.write(rows)
    assert (tmp_path / "large.svm").stat().st_size > 55e6
    small, large = (peak_memory(tmp_path / f"{name}.svm", tmp_path / "m.uc") for name in ("small", "large"))
    assert load_model(tmp_path / "m.uc").n_samples_seen_ == 130_000
    assert large - small < 25.0
