"""The command line as a user types it."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_diabetes, load_iris
from sklearn.preprocessing import scale

from undercut import LinearClassifier, load_model
from undercut.trace import read_trace, read_traces


@pytest.fixture
def model(cancer, undercut, tmp_path):
    assert undercut("train", cancer, "-o", tmp_path / "model.uc", "-q") == (0, "", "")
    return tmp_path / "model.uc"


def test_train_prints_the_certificate_and_saves_what_python_would_fit(cancer, undercut, tmp_path):
    code, out, _ = undercut("train", cancer, "--loss", "hinge", "--lambda", "1e-3", "--output", tmp_path / "m.uc")
    assert code == 0
    X, y = load_breast_cancer(return_X_y=True)
    same = LinearClassifier(lam=1e-3).fit(scale(X), y)
    saved = load_model(tmp_path / "m.uc")
    assert saved.objective_ == pytest.approx(same.objective_, rel=1e-3)
    np.testing.assert_allclose(saved.coef_, same.coef_, atol=0.02)
    assert f"{saved.objective_:.6g}"[:6] in out
    for word in ("objective", "lower bound", "gap", "converged", "m.uc"):
        assert word in out


def test_train_writes_a_trace_that_trace_reads_and_plots(cancer, undercut, tmp_path):
    undercut("train", cancer, "-o", tmp_path / "m.uc", "--trace", tmp_path / "run.jsonl")
    rows = read_trace(tmp_path / "run.jsonl")
    assert rows[-1].objective == load_model(tmp_path / "m.uc").objective_
    code, out, _ = undercut("trace", tmp_path / "run.jsonl", "--plot", tmp_path / "run.png")
    assert code == 0
    assert f"step {rows[-1].step}" in out
    assert (tmp_path / "run.png").stat().st_size > 1000


def test_several_classes_share_a_trace(undercut, tmp_path):
    X, y = load_iris(return_X_y=True)
    dump_svmlight_file(X, y, str(tmp_path / "iris.svm"), zero_based=False)
    code, _, _ = undercut("train", tmp_path / "iris.svm", "-o", tmp_path / "m.uc", "--trace", tmp_path / "run.jsonl")
    assert code == 0
    assert list(read_traces(tmp_path / "run.jsonl")) == ["class 0", "class 1", "class 2"]


def test_predict_and_evaluate_agree(cancer, model, undercut, tmp_path):
    code, out, _ = undercut("predict", model, cancer)
    assert code == 0
    labels = np.array(out.split(), dtype=int)
    _, y = load_breast_cancer(return_X_y=True)
    accuracy = np.mean(labels == np.where(y == 1, 1, -1))
    code, out, _ = undercut("evaluate", model, cancer)
    assert code == 0
    assert f"{accuracy:.6g}" in out
    assert "ROC area" in out
    undercut("predict", model, cancer, "--scores", "-o", tmp_path / "scores.txt")
    assert ((np.loadtxt(tmp_path / "scores.txt") > 0) == (labels > 0)).all()


def test_regression_by_the_loss_alone(undercut, tmp_path):
    X, y = load_diabetes(return_X_y=True)
    dump_svmlight_file(X, y, str(tmp_path / "diabetes.svm"), zero_based=False)
    code, _, _ = undercut("train", tmp_path / "diabetes.svm", "--loss", "absolute", "-o", tmp_path / "m.uc")
    assert code == 0
    code, out, _ = undercut("evaluate", tmp_path / "m.uc", tmp_path / "diabetes.svm")
    assert code == 0
    assert "R2" in out
    code, _, err = undercut("predict", tmp_path / "m.uc", tmp_path / "diabetes.svm", "--scores")
    assert code == 1
    assert "classifiers" in err


def test_ending_early_exits_with_3_and_start_continues(cancer, undercut, tmp_path):
    common = ("train", cancer, "--lambda", "1e-6", "--solver", "line_search_bundle", "-o", tmp_path / "m.uc")
    code, out, _ = undercut(*common, "--max-steps", "5")
    assert code == 3
    assert "raise --max-steps, loosen --gap" in out
    before = load_model(tmp_path / "m.uc").objective_
    code, _, _ = undercut(*common, "--start", tmp_path / "m.uc", "--trace", tmp_path / "run.jsonl")
    assert code == 0
    assert read_trace(tmp_path / "run.jsonl")[0].objective == pytest.approx(before, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--loss", "hing"], 2, "--loss must be one of hinge"),
        (["--lambda", "0"], 2, "lam"),
        (["--lambda", "abc"], 2, "--lambda"),
        (["--lamda", "1"], 2, "No such option"),
        (["--solver", "bundle"], 2, "solver"),
        (["--class-weight", "even"], 2, "--class-weight must be balanced"),
        (["--loss", "squared", "--class-weight", "balanced"], 2, "--class-weight is not for --loss squared"),
        (["--passes", "3"], 2, "--passes needs --online"),
        (["--classes", "1,2"], 2, "--classes needs --online"),
        (["--start", "none.uc"], 1, "none.uc"),
        (["--output", "no/such/folder/model.uc"], 1, "no/such/folder/model.uc"),
        (["--n-features", "3"], 1, "cancer.svm:1:"),
    ],
)
def test_a_wrong_option_is_named(cancer, undercut, options, code, message):
    ended, _, err = undercut("train", cancer, *options)
    assert ended == code
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("+1 1:0.5\n-1 1:x\n", "bad.svm:2:"),
        ("+1 1:0.5\n+1 1:1\n", "at least 2 classes"),
        ("", "bad.svm"),
        ("1 1:nan\n-1 1:1\n", "bad.svm:1:"),
    ],
)
def test_a_bad_file_is_one_line_on_standard_error(undercut, tmp_path, text, message):
    (tmp_path / "bad.svm").write_text(text)
    code, out, err = undercut("train", tmp_path / "bad.svm", "-o", tmp_path / "m.uc")
    assert (code, out) == (1, "")
    assert message in err
    assert not (tmp_path / "m.uc").exists()


def test_a_missing_file_and_a_wrong_model_say_so(cancer, undercut, tmp_path):
    assert undercut("train", tmp_path / "none.svm")[0] == 1
    code, _, err = undercut("evaluate", cancer, cancer)
    assert code == 1
    assert "not a model file" in err


def test_unknown_labels_are_refused_and_unknown_features_ignored_unless_strict(model, undercut, tmp_path):
    (tmp_path / "other.svm").write_text("7 1:1\n")
    code, _, err = undercut("evaluate", model, tmp_path / "other.svm")
    assert code == 1
    assert "[-1, 1]; got 7" in err
    (tmp_path / "wide.svm").write_text("1 31:1\n")
    code, out, err = undercut("predict", model, tmp_path / "wide.svm")
    assert code == 0
    assert err.endswith("wide.svm: ignored 1 feature never seen in training, beyond the 30 of the model\n")
    (tmp_path / "narrow.svm").write_text("1\n")
    assert undercut("predict", model, tmp_path / "narrow.svm") == (0, out, "")
    for command in ("predict", "evaluate"):
        code, _, err = undercut(command, model, tmp_path / "wide.svm", "--strict")
        assert code == 1
        assert "1 feature that the model never saw" in err


def test_help_names_every_command(undercut):
    code, out, _ = undercut("--help")
    assert code == 0
    for command in ("train", "predict", "evaluate", "trace", "demo"):
        assert command in out


def test_demo_trains_certifies_and_plots(undercut, tmp_path):
    code, out, _ = undercut("demo", "--plot", tmp_path / "plot.png")
    assert code == 0
    assert "LIBLINEAR" in out
    assert "No w has an objective below" in out
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_demo_reports_numbers_in_json_and_nothing_beside_it(undercut, tmp_path):
    code, out, err = undercut("demo", "--plot", tmp_path / "plot.png", "--json")
    runs = json.loads(out)["runs"]
    assert (code, err) == (0, "")
    assert runs[0]["gap"] == runs[0]["objective"] - runs[0]["lower_bound"]
    assert runs[-1]["lower_bound"] is None


def test_errors_of_the_system_name_the_file_without_a_number(undercut, tmp_path):
    code, _, err = undercut("train", tmp_path / "missing.svm")
    assert (code, err) == (1, f"undercut: error: {tmp_path / 'missing.svm'}: no such file or directory\n")


def test_demo_says_once_that_it_waits_for_compilation(undercut, monkeypatch, tmp_path):
    def compile_twice(tell):
        tell()
        tell()
        return nullcontext()

    monkeypatch.setattr("undercut.cli.commands.demo.on_compile", compile_twice)
    _, out, _ = undercut("demo", "--plot", tmp_path / "plot.png")
    assert out.count("Compiling, once on this machine") == 1


@pytest.mark.skipif(os.name != "posix", reason="signals are sent the POSIX way")
def test_ctrl_c_saves_the_best_model_so_far(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 200))
    dump_svmlight_file(X, np.where(rng.random(3000) < 0.5, 1, -1), str(tmp_path / "noise.svm"), zero_based=False)
    command = [sys.executable, "-m", "undercut", "train", str(tmp_path / "noise.svm"), "--solver", "line_search_bundle"]
    command += ["--lambda", "1e-9", "--gap", "1e-9", "--no-intercept", "-o", str(tmp_path / "m.uc")]
    trace = tmp_path / "run.jsonl"
    run = subprocess.Popen([*command, "--trace", str(trace)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (trace.exists() and trace.read_text().count("\n") > 5):  # some steps
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 130, err
    assert "stopped" in out
    assert load_model(tmp_path / "m.uc").coef_.any()


def test_a_line_number_is_no_emoji(tmp_path, undercut):
    (tmp_path / "bad").write_text("1 1:1\n" * 99 + "1 1:x\n")
    _, _, err = undercut("train", tmp_path / "bad")
    assert ":100: " in err
