"""Long runs on the command line: checkpoints, traces that grow, signals, and refusals before hours are spent."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris
from tests.forks import exit_code, forked, needs_fork

from undercut import load_model
from undercut.cli import main
from undercut.trace import read_trace, read_traces


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a file of two classes that takes many steps, one of three classes, and one of a stream."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 40))
    y = np.where(X[:, 0] + rng.standard_normal(300) > 0.0, 1, -1)
    dump_svmlight_file(X, y, "two.svm", zero_based=False)
    dump_svmlight_file(*load_iris(return_X_y=True), "three.svm", zero_based=False)
    return tmp_path


FIT = ("train", "two.svm", "--lambda", "1e-6", "--gap", "1e-6", "--solver", "line_search_bundle", "-q")
STREAM = ("train", "two.svm", "--online", "--chunk-rows", "20", "-q")


def child_of(*arguments):
    """The process id of a command that runs beside the test."""

    def command():
        sys.argv = ["undercut", *arguments]
        main()

    return forked(command)


def wait_until(holds, seconds=20.0):
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(1e-3)


def rows_in(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_slices_make_the_same_model_as_one_run(folder, undercut):
    assert undercut(*FIT, "-o", "one.uc")[0] == 0
    one = load_model("one.uc")
    limits = [str(10 * at) for at in range(1, one.n_iter_ // 10 + 1)]
    assert undercut(*FIT, "-o", "m.uc", "--checkpoint", "run.ck", "--max-steps", limits[0])[0] == 3
    for limit in limits[1:]:
        assert undercut(*FIT, "-o", "m.uc", "--resume", "run.ck", "--max-steps", limit)[0] == 3
    assert undercut(*FIT, "-o", "m.uc", "--resume", "run.ck", "--trace", "run.jsonl")[0] == 0
    last = load_model("m.uc")
    np.testing.assert_array_equal(last.coef_, one.coef_)
    assert (last.objective_, last.lower_bound_, last.n_iter_) == (one.objective_, one.lower_bound_, one.n_iter_)
    assert [row.step for row in read_trace("run.jsonl")] == list(range(one.n_iter_ + 1))


@needs_fork
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_run_with_model_trace_and_checkpoint(folder, undercut, number, code):
    command = [*FIT, "--gap", "1e-14", "-o", "m.uc", "--trace", "run.jsonl", "--checkpoint", "run.ck"]
    child = child_of(*command)
    wait_until(lambda: rows_in(folder / "run.jsonl") > 6)  # written while the run goes on
    os.kill(child, number)
    assert exit_code(child) == code
    steps = read_trace("run.jsonl")
    assert json.loads((folder / "run.jsonl").read_text().splitlines()[-1])["status"] == "STOPPED"
    assert load_model("m.uc").objective_ == steps[-1].objective
    again = [*FIT, "--resume", "run.ck", "-o", "m.uc", "--trace", "run.jsonl"]
    again = [word.replace("1e-14", "1e-6") for word in again]
    assert undercut(*again, "--max-steps", str(steps[-1].step + 1))[0] == 3
    more = read_trace("run.jsonl")
    assert more[: len(steps)] == steps
    assert len(more) == len(steps) + 1


@needs_fork
def test_a_signal_ends_a_stream_after_the_chunk_in_hand(folder, undercut):
    undercut(*STREAM, "--passes", "40", "-o", "whole.uc")
    command = (
        *STREAM,
        "--passes",
        "40",
        "-o",
        "m.uc",
        "--trace",
        "run.jsonl",
        "--checkpoint",
        "run.ck",
        "--every",
        "0",
    )
    child = child_of(*command)
    wait_until(lambda: rows_in(folder / "run.jsonl") > 20)
    os.kill(child, signal.SIGTERM)
    assert exit_code(child) == 143
    part = load_model("m.uc")
    assert part.n_samples_seen_ == read_trace("run.jsonl")[-1].step
    assert undercut(*STREAM, "--passes", "40", "-o", "m.uc", "--resume", "run.ck")[0] == 0
    whole, resumed = load_model("whole.uc"), load_model("m.uc")
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    assert resumed.n_samples_seen_ == whole.n_samples_seen_ > part.n_samples_seen_
    assert resumed.training_["progressive_loss"] == whole.training_["progressive_loss"]


def test_several_classes_go_on_together(folder, undercut):
    fit = ("train", "three.svm", "--solver", "line_search_bundle", "-q", "--jobs", "2")
    assert undercut(*fit, "-o", "one.uc")[0] == 0
    assert undercut(*fit, "-o", "m.uc", "--checkpoint", "run.ck", "--max-steps", "4")[0] == 3
    assert (
        undercut(*fit, "-o", "m.uc", "--resume", "run.ck", "--checkpoint", "other.ck", "--trace", "run.jsonl")[0] == 0
    )
    np.testing.assert_array_equal(load_model("m.uc").coef_, load_model("one.uc").coef_)
    assert set(read_traces("run.jsonl")) == {"class 0", "class 1", "class 2"}
    assert (folder / "other.ck").exists()
    code, out, _ = undercut("trace", "run.jsonl", "run.jsonl")
    assert code == 0
    assert "class 2" in out


def test_the_first_line_of_a_trace_says_what_was_trained(folder, undercut):
    undercut(*FIT, "-o", "m.uc", "--trace", "run.jsonl")
    first = json.loads((folder / "run.jsonl").read_text().splitlines()[0])
    assert first["data"] == "two.svm"
    assert first["settings"]["lambda"] == 1e-6
    assert {"undercut", "risk", "regularizer", "solver", "stop"} <= set(first)


def test_a_checkpoint_of_another_problem_is_refused_and_stays(folder, undercut):
    undercut(*FIT, "-o", "m.uc", "--checkpoint", "run.ck", "--max-steps", "3")
    before = (folder / "run.ck").read_bytes()
    resume = [*FIT, "-o", "m.uc", "--resume", "run.ck"]
    for words, message in [
        (["--lambda", "1e-5"], "--lambda was 1e-06 and is 1e-05"),
        (["--no-intercept"], "--intercept was True and is False"),
        (["--solver", "cutting_plane"], "--solver was LineSearchBundle and is CuttingPlane"),
        (["--loss", "absolute"], "--loss was Hinge and is Absolute"),
    ]:
        code, _, err = undercut(*resume, *words)
        assert code == 1
        assert message in err
    X, y = np.ones((4, 2)), np.array([1, -1, 1, -1])
    dump_svmlight_file(X, y, "two.svm", zero_based=False)
    code, _, err = undercut(*resume)
    assert code == 1
    assert "the data differ" in err
    assert (folder / "run.ck").read_bytes() == before


@needs_fork
def test_a_run_that_is_not_over_is_not_replaced(folder, undercut):
    fit = (*FIT, "--gap", "1e-14", "-o", "m.uc", "--trace", "t.jsonl")
    child = child_of(*fit, "--checkpoint", "run.ck", "--every", "0")
    wait_until(lambda: rows_in(folder / "t.jsonl") > 5)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    before = (folder / "run.ck").read_bytes()
    code, _, err = undercut(*FIT, "-o", "m.uc", "--checkpoint", "run.ck")
    assert code == 1
    assert "--resume" in err
    assert (folder / "run.ck").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--checkpoint", "none/run.ck"], "none/run.ck"),
        (["--checkpoint", "."], "folder"),
        (["--trace", "none/run.jsonl"], "none/run.jsonl"),
        (["--resume", "none.ck"], "no such checkpoint: none.ck"),
        (["--resume", "two.svm"], "two.svm is not a checkpoint"),
        (["--checkpoint", "two.svm"], "it is not replaced"),
        (["--every", "5"], "--every needs --checkpoint or --resume"),
        (["--checkpoint", "run.ck", "--every", "-1"], "--every"),
    ],
)
def test_what_cannot_work_is_refused_at_once(folder, undercut, options, message):
    before = (folder / "two.svm").read_bytes()
    code, _, err = undercut(*FIT, "-o", "m.uc", *options)
    assert code in (1, 2)
    assert message in err
    assert not (folder / "m.uc").exists()
    assert (folder / "two.svm").read_bytes() == before
    assert not list(folder.glob("*.partial"))


def test_a_stream_refuses_the_checkpoint_of_another(folder, undercut):
    assert undercut(*STREAM, "-o", "m.uc", "--checkpoint", "run.ck")[0] == 0
    undercut(*FIT, "-o", "m.uc", "--checkpoint", "batch.ck", "--max-steps", "3")
    for path, words, message in [
        ("run.ck", ["--lambda", "0.5"], "--lambda was 0.0001 and is 0.5"),
        ("run.ck", ["--loss", "squared"], "it trains a OnlineClassifier, not a OnlineRegressor"),
        ("batch.ck", [], "no checkpoint of train --online"),
    ]:
        code, _, err = undercut(*STREAM, "-o", "m.uc", "--resume", path, *words)
        assert code == 1
        assert message in err
    code, _, err = undercut(*FIT, "-o", "m.uc", "--resume", "run.ck")
    assert code == 1
    assert "another problem" in err


def test_a_file_of_another_kind_is_named_once_and_kept(folder, undercut):
    assert undercut(*FIT, "--max-steps", 3, "-o", "m.uc")[0] == 3
    code, _, err = undercut(*FIT, "--resume", "m.uc")
    assert (code, "a file of another kind, such as a model" in err) == (1, True)
    before = (folder / "two.svm").read_bytes()
    code, _, err = undercut(*FIT, "--checkpoint", "two.svm")
    assert (code, err.count("two.svm is not a checkpoint")) == (1, 1)
    assert (folder / "two.svm").read_bytes() == before
