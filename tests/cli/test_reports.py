"""Reports as tables and as JSON, options from a file, standard input and output, logs."""

from __future__ import annotations

import io
import json
import re
import sys

import numpy as np
import pytest
from sklearn import metrics
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_diabetes, load_iris
from sklearn.preprocessing import scale

from undercut import LinearClassifier, LinearRegressor, OnlineClassifier, Quantile, lam_from_C, load_model
from undercut.cli import main
from undercut.io import load_svmlight


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with small files of every kind."""
    monkeypatch.chdir(tmp_path)
    for name, (X, y) in {"cancer": load_breast_cancer(return_X_y=True), "iris": load_iris(return_X_y=True)}.items():
        dump_svmlight_file(scale(X), y, f"{name}.svm", zero_based=False)
    X, y = load_diabetes(return_X_y=True)
    dump_svmlight_file(scale(X), y / 100.0, "diabetes.svm", zero_based=False)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4))
    y = np.clip(np.round(X[:, 0] + 1), 0, 2)
    dump_svmlight_file(X, y, "queries.svm", zero_based=False, query_id=np.repeat(np.arange(20), 6))
    (tmp_path / "words.txt").write_text(
        "the DT B-NP\ncat NN I-NP\nruns VB B-VP\n\na DT B-NP\ndog NN I-NP\nsits VB B-VP\n"
    )
    return tmp_path


def feed(monkeypatch, content):
    """Make this what standard input holds."""
    raw = io.BufferedReader(io.BytesIO(content if isinstance(content, bytes) else content.encode()))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))


def test_a_training_reports_the_same_as_a_table_and_as_json(folder, undercut):
    code, out, _ = undercut("train", "cancer.svm", "--lambda", 1e-2, "--test", "cancer.svm")
    table = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines())
    code, out, err = undercut("train", "cancer.svm", "--lambda", 1e-2, "--test", "cancer.svm", "--json")
    assert (code, err) == (0, "")
    report, model = json.loads(out), load_model("model.uc")
    assert report["objective"] == model.objective_ == pytest.approx(float(table["objective"]))
    assert report["lower_bound"] == model.lower_bound_
    assert report["gap"] == model.gap_
    assert report["steps"] == model.n_iter_
    assert (report["status"], report["model"]) == ("converged", "model.uc")
    assert report["seconds"] >= 0.0
    assert report["test"]["accuracy"] == pytest.approx(float(table["test accuracy"]), abs=1e-5)


def test_a_local_certificate_has_no_bound_in_json(folder, undercut):
    _, out, _ = undercut("train", "cancer.svm", "--loss", "ramp", "--lambda", 1e-2, "--json")
    report = json.loads(out)
    assert report["lower_bound"] is report["gap"] is None
    assert report["model_gap"] == load_model("model.uc").gap_


@pytest.mark.parametrize(
    ("file", "options", "names"),
    [
        ("cancer.svm", ("--loss", "logistic"), {"accuracy", "log_loss", "macro_f1", "f1_of_class_1", "roc_area"}),
        ("iris.svm", ("--multi-class", "crammer_singer"), {"accuracy", "macro_f1", "roc_area"}),
        ("cancer.svm", ("--measure", "f1"), {"accuracy", "f1"}),
        ("cancer.svm", ("--kernel", "rbf"), {"accuracy", "roc_area"}),
        ("diabetes.svm", ("--loss", "quantile:0.9"), {"pinball_loss", "mean_absolute_error", "r2"}),
        ("diabetes.svm", ("--loss", "poisson"), {"poisson_deviance", "mean_absolute_error"}),
        ("queries.svm", ("--loss", "ndcg@5"), {"ndcg@10", "exponential_ndcg@10", "map", "precision@10", "err@10"}),
        ("words.txt", ("--task", "sequence"), {"token_accuracy", "sequence_accuracy", "chunk_f1"}),
        ("cancer.svm", ("--online",), {"accuracy", "roc_area"}),
    ],
)
def test_evaluation_prints_what_belongs_to_the_task_and_the_risk(folder, undercut, file, options, names):
    code, _, err = undercut("train", file, *options, "--lambda", 1e-1) if "--kernel" not in options else undercut(
        "train", file, *options
    )  # fmt: skip
    assert code == 0, err
    code, out, err = undercut("evaluate", "model.uc", file, "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert names <= report.keys()
    model = load_model("model.uc")
    if "--online" in options or "--measure" in options:
        assert report["test_risk"] > 0.0
    elif "--kernel" not in options:  # on the training data it is the part of the objective that is not the penalty
        square = np.sum(np.square(model.coef_)) + np.sum(np.square(getattr(model, "transitions_", 0.0)))
        square += sum(np.sum(np.square(getattr(model, name, 0.0))) for name in ("start_", "end_"))
        square += np.sum(np.square(model.intercept_)) if "--task" in options else 0.0
        assert report["test_risk"] + 0.05 * square == pytest.approx(model.objective_, rel=1e-6)


def test_losses_take_a_setting(folder, undercut):
    code, _, _ = undercut("train", "diabetes.svm", "--loss", "quantile:0.9", "--lambda", 1e-2)
    assert code == 0
    model = load_model("model.uc")
    assert model.loss == Quantile(0.9)
    X, y, _ = load_svmlight("diabetes.svm")
    assert model.objective_ == pytest.approx(LinearRegressor(Quantile(0.9), lam=1e-2).fit(X, y).objective_, rel=1e-3)
    for loss, words in [("hinge:3", "--loss hinge has no setting"), ("quantile:2", "must lie between 0 and 1"),
                        ("quantile:x", "could not convert"), ("quantle:0.9", "did you mean quantile?")]:  # fmt: skip
        code, _, err = undercut("train", "diabetes.svm", "--loss", loss)
        assert code == 2
        assert words in err


@pytest.mark.parametrize(
    ("file", "options"),
    [("cancer.svm", ()), ("cancer.svm", ("--class-weight", "1:5,0:1")), ("diabetes.svm", ("--loss", "squared")),
     ("cancer.svm", ("--online",)), ("queries.svm", ("--loss", "pairwise")), ("words.txt", ("--task", "sequence")),
     ("cancer.svm", ("--measure", "f1")), ("cancer.svm", ("--weights", "weights.txt"))],
)  # fmt: skip
def test_C_is_lambda_for_every_model(folder, undercut, file, options):
    weights = np.random.default_rng(1).random(569)
    np.savetxt("weights.txt", weights)
    code, _, err = undercut("train", file, *options, "--C", 0.25, "--gap", 1e-2) if "--online" not in options else (
        undercut("train", file, *options, "--C", 0.25))  # fmt: skip
    assert code == 0, err
    y = None if file == "words.txt" else load_svmlight(file).y
    total = {"queries.svm": 20, "words.txt": 2}.get(file) or y.size
    if "--class-weight" in options:
        total = 5 * np.sum(y == 1) + np.sum(y == 0)
    total = 1 if "--measure" in options else weights.sum() if "--weights" in options else total
    assert load_model("model.uc").lam == pytest.approx(lam_from_C(0.25, total))


def test_weights_and_class_weights_are_those_of_python(folder, undercut):
    weights = np.random.default_rng(1).random(569)
    np.savetxt("weights.txt", weights)
    code, _, _ = undercut("train", "cancer.svm", "--weights", "weights.txt", "--class-weight", "0:3,1:0.5",
                          "--lambda", 1e-2)  # fmt: skip
    assert code == 0
    X, y, _ = load_svmlight("cancer.svm")
    same = LinearClassifier(lam=1e-2, class_weight={0: 3.0, 1: 0.5}).fit(X, y.astype(int), weights)
    assert load_model("model.uc").objective_ == pytest.approx(same.objective_, rel=1e-3)
    np.savetxt("short.txt", weights[:5])
    for file, code, words in [("short.txt", 1, "one weight per sample, 569; got 5"), ("words.txt", 1, "words.txt")]:
        ended, _, err = undercut("train", "cancer.svm", "--weights", file)
        assert ended == code
        assert words in err
    code, _, err = undercut("train", "queries.svm", "--loss", "pairwise", "--weights", "weights.txt")
    assert code in (1, 2)
    assert "weights" in err


def test_probabilities_and_scores_have_a_header_that_names_the_labels(folder, undercut):
    undercut("train", "iris.svm", "--loss", "logistic", "--multi-class", "multinomial", "--lambda", 1e-2)
    model, X = load_model("model.uc"), load_svmlight("iris.svm").X
    for option, values in [("--probabilities", model.predict_proba(X)), ("--scores", model.decision_function(X))]:
        code, out, _ = undercut("predict", "model.uc", "iris.svm", option)
        assert (code, out.splitlines()[0]) == (0, "# labels 0 1 2")
        np.testing.assert_array_equal(np.loadtxt(out.splitlines()), values)
    undercut("train", "iris.svm")
    code, _, err = undercut("predict", "model.uc", "iris.svm", "--probabilities")
    assert code == 1
    assert "--probabilities need a classifier with --loss logistic" in err


def test_files_without_labels_are_predicted(folder, undercut, monkeypatch):
    undercut("train", "iris.svm", "--lambda", 1e-2)
    _, expected, _ = undercut("predict", "model.uc", "iris.svm")
    bare = re.sub(r"(?m)^\S+ ", "", (folder / "iris.svm").read_text())
    (folder / "bare.svm").write_text(bare)
    assert undercut("predict", "model.uc", "bare.svm") == (0, expected, "")
    feed(monkeypatch, bare)
    assert undercut("predict", "model.uc", "-", "-o", "-") == (0, expected, "")


def test_models_and_data_go_through_standard_input_and_output(folder, monkeypatch, capsysbinary):
    feed(monkeypatch, (folder / "cancer.svm").read_bytes())
    monkeypatch.setattr(sys, "argv", ["undercut", "train", "-", "-o", "-", "--lambda", "0.1"])
    with pytest.raises(SystemExit):
        main()
    model, report = capsysbinary.readouterr()
    assert b"converged" in report
    (folder / "m.uc").write_bytes(model)
    saved = load_model("m.uc")
    assert saved.training_["data"] == "-"
    feed(monkeypatch, model)
    monkeypatch.setattr(sys, "argv", ["undercut", "evaluate", "-", "cancer.svm", "--json"])
    with pytest.raises(SystemExit):
        main()
    X, y, _ = load_svmlight("cancer.svm")
    assert json.loads(capsysbinary.readouterr().out)["accuracy"] == metrics.accuracy_score(y, saved.predict(X))


def test_an_error_in_standard_input_names_it(folder, undercut, monkeypatch):
    feed(monkeypatch, b"1 1:0.5\n-1 x:2\n")
    code, _, err = undercut("train", "-")
    assert code == 1
    assert err.startswith("undercut: error: standard input:2: ")


def test_a_stream_learns_from_standard_input(folder, undercut, monkeypatch):
    feed(monkeypatch, (folder / "cancer.svm").read_bytes())
    options = ("--online", "--lambda", 1e-2, "--chunk-rows", 100)
    assert undercut("train", "-", *options, "-q")[0] == 0
    X, y, _ = load_svmlight("cancer.svm")
    same = OnlineClassifier(lam=1e-2).fit_stream((X[at : at + 100], y[at : at + 100]) for at in range(0, y.size, 100))
    np.testing.assert_array_equal(load_model("model.uc").coef_, same.coef_)
    for extra, words in [(("--passes", 2), "--passes must be 1"), (("--C", 1), "can be read twice")]:
        command = [word for word in options if extra[0] != "--C" or word not in ("--lambda", 1e-2)]
        code, _, err = undercut("train", "-", *command, *extra)
        assert code == 2
        assert words in err


def test_a_stream_reports_the_loss_before_learning(folder, undercut):
    code, out, _ = undercut("train", "diabetes.svm", "--online", "--loss", "squared", "--chunk-rows", 442, "--json")
    assert code == 0
    y = load_svmlight("diabetes.svm").y
    assert json.loads(out)["progressive_loss"] == pytest.approx(0.5 * np.mean(y**2))  # one chunk, at zero


def test_a_configuration_holds_any_option_and_what_is_typed_counts_more(folder, undercut):
    (folder / "run.toml").write_text(
        'file = "cancer.svm"\nloss = "logistic"\nlambda = 1\nmax-steps = 50\nintercept = false\n'
        'class_weight = "0:2,1:1"\noutput = "c.uc"\n'
    )
    assert undercut("train", "--config", "run.toml", "--lambda", 0.5)[0] == 0
    model = load_model("c.uc")
    assert (model.loss, model.lam, model.max_steps, model.fit_intercept) == ("logistic", 0.5, 50, False)
    assert model.class_weight == {0: 2.0, 1: 1.0}
    assert undercut("train", "--config", "run.toml", "--C", 2)[0] == 0  # in place of the lambda of the file
    command = load_model("c.uc").training_["command"]
    assert command == (
        "undercut train cancer.svm --loss logistic --no-intercept --class-weight 0:2,1:1 --C 2.0 --max-steps 50 "
        "--output c.uc"
    )
    before = load_model("c.uc").coef_
    assert undercut(*command.split()[1:])[0] == 0
    np.testing.assert_array_equal(load_model("c.uc").coef_, before)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lamda = 1", "lamda is not an option of train; did you mean lambda?"),
        ("lambda = 'x'", "lambda must be a number; got 'x'"),
        ("max-steps = 1.5", "max-steps must be a whole number; got 1.5"),
        ("quiet = 1", "quiet must be true or false; got 1"),
        ("lambda 1", "must be a TOML file"),
        ("passes = 2", "--passes needs --online"),
    ],
)
def test_a_mistake_in_a_configuration_is_named(folder, undercut, text, words):
    (folder / "run.toml").write_text(text)
    code, _, err = undercut("train", "cancer.svm", "--config", "run.toml")
    assert code in (1, 2)
    assert words in err


def test_training_without_data_says_so(folder, undercut):
    code, _, err = undercut("train", "--lambda", 1)
    assert code == 2
    assert "FILE is missing" in err


def test_a_log_file_holds_the_report_and_the_notes_with_the_time(folder, undercut):
    undercut("train", "iris.svm", "--lambda", 1e-1, "-q", "--log-file", "run.log")
    (folder / "wide.svm").write_text("1 9:1\n")
    assert undercut("predict", "model.uc", "wide.svm", "-q", "--log-file", "run.log")[2] == ""
    lines = (folder / "run.log").read_text().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", line) for line in lines)
    assert sum("objective" in line for line in lines) == 2  # the number, and that of the gap
    assert "ignored 1 feature never seen in training" in lines[-1]
    code, _, err = undercut("train", "iris.svm", "--log-file", "none/run.log")
    assert code == 1
    assert "none/run.log" in err


def test_json_and_a_model_cannot_both_go_to_standard_output(folder, undercut):
    code, _, err = undercut("train", "iris.svm", "--json", "-o", "-")
    assert code == 2
    assert "--json and --output - both write to standard output" in err


def test_a_trace_is_summarized_in_json(folder, undercut):
    undercut("train", "cancer.svm", "--trace", "run.jsonl")
    code, out, _ = undercut("trace", "run.jsonl", "--json")
    assert code == 0
    assert json.loads(out)["runs"]["run.jsonl"]["objective"] == load_model("model.uc").objective_
