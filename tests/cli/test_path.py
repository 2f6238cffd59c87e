"""``undercut path``."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from undercut.io import load_model


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 6))
    path = tmp_path_factory.mktemp("data") / "two.svm"
    dump_svmlight_file(X, np.where(X[:, 0] + rng.standard_normal(120) > 0.0, 1, -1), str(path))
    return path


def test_the_choice_is_printed_and_its_model_written_and_drawn(undercut, file, tmp_path):
    model, plot = tmp_path / "model.uc", tmp_path / "path.png"
    code, out, err = undercut(
        "path", file, "--loss", "hinge", "--cv", 3, "--lambdas", "1e1:1e-4:6", "--extend", "-o", model, "--plot", plot
    )
    assert (code, err) == (0, "")
    (chosen,) = [line for line in out.splitlines() if line.endswith("<- chosen")]
    saved = load_model(model)
    assert float(chosen.split()[0]) == pytest.approx(saved.lam, rel=1e-2)
    assert saved.gap_ <= 1e-3 * saved.objective_
    assert plot.stat().st_size > 1000


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_json_holds_every_point_with_its_certificate(undercut, file, penalty):
    code, out, _ = undercut(
        "path", file, "--cv", 2, "--lambdas", "1,0.1,0.01", "--penalty", penalty, "--extend", "--json"
    )
    report = json.loads(out)
    assert code == 0
    for point in report["path"]:
        assert 0.0 <= point["gap"] <= 1e-3 * point["objective"]
    assert [point["chosen"] for point in report["path"]].count(True) == 1
    assert report["lambda"] == next(point["lambda"] for point in report["path"] if point["chosen"])


def test_without_folds_it_is_the_path_alone_and_epsilon_is_proved(undercut, file):
    code, out, _ = undercut("path", file, "--lambdas", "1,0.01", "--epsilon", 0.05, "--json")
    report = json.loads(out)
    assert (code, report["certified"]) == (0, [0.01, 1.0])
    assert len(report["path"]) > 2
    assert "score" not in report["path"][0]


def test_a_kernel_machine_has_a_grid_of_C_and_gamma(undercut, file, tmp_path):
    options = ("--cv", 2, "--Cs", "0.1,1", "--gammas", "scale,0.1", "-o", tmp_path / "machine.uc", "--json")
    code, out, _ = undercut("path", file, "--kernel", "rbf", *options)
    report = json.loads(out)
    assert code == 0
    assert len(report["grid"]) == 4
    assert report["score"] == max(point["score"] for point in report["grid"])
    assert report["C"] == load_model(tmp_path / "machine.uc").C


def test_weights_reach_the_grid_of_a_kernel_machine(undercut, file, tmp_path):
    weights = tmp_path / "weights.txt"
    np.savetxt(weights, np.arange(120) % 2)  # as if every other sample were not there
    options = ("--kernel", "rbf", "--cv", 2, "--Cs", "1", "--weights", weights, "--json", "-o", tmp_path / "machine.uc")
    code, _, _ = undercut("path", file, *options)
    assert code == 0
    assert load_model(tmp_path / "machine.uc").n_support_.sum() <= 60


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--plot", "path.xyz"], "a picture must be one of"),
        (["--plot", "none/path.png"], "cannot write to none/path.png"),
        (["--cv", "2", "--output", "none/model.uc"], "cannot write to none/model.uc"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_anything_is_read(undercut, tmp_path, options, words):
    code, _, err = undercut("path", tmp_path / "missing.svm", *options)
    assert code == 1
    assert words in err


def test_queries_and_sequences_have_paths_too(undercut, tmp_path):
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((60, 3)), np.repeat(np.arange(12), 5)
    dump_svmlight_file(X, np.where(X[:, 0] > 0.0, 1, 0), str(tmp_path / "queries.svm"), query_id=qid)
    for options in (("--loss", "pairwise"), ("--task", "sequence")):
        code, out, _ = undercut("path", tmp_path / "queries.svm", *options, "--cv", 2, "--lambdas", "1,0.1", "--extend")
        assert code == 0
        assert "<- chosen" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--output", "model.uc"], "needs --cv"),
        (["--lambdas", "a,b"], "1e-2:1e-8:20"),
        (["--lambdas", "1,-1"], "--lambdas must be positive"),
        (["--lambdas", ","], "--lambdas must hold at least one"),
        (["--nu", "0.1"], "No such option"),
        (["--kernel", "rbf"], "needs --cv"),
        (["--gammas", "1"], "needs --kernel"),
        (["--scoring", "accuracy"], "needs --cv"),
        (["--kernel", "rbf", "--cv", "2", "--scoring", "roc_auc"], "--kernel and --scoring exclude each other"),
        (["--kernel", "rbf", "--cv", "2", "--lambdas", "1,0.1"], "--kernel and --lambdas exclude each other"),
        (["--kernel", "rbf", "--cv", "2", "--rule", "best"], "--kernel and --rule exclude each other"),
        (["--kernel", "rbf", "--cv", "2", "--extend"], "--kernel and --extend exclude each other"),
        (["--cv", "2", "--lambdas", "1e-7,1e-8", "--rule", "worst"], "--rule must be"),
        (["--cv", "2", "--lambdas", "1e-7,1e-8", "--early", "always"], "--early must be"),
    ],
)
def test_what_cannot_be_done_is_refused_in_the_words_of_the_command_line(undercut, file, options, words):
    code, _, err = undercut("path", file, *options)
    assert code == 2
    assert words in " ".join(err.replace("│", " ").split())


@pytest.mark.filterwarnings("always::undercut.estimators.cross_validated.SelectionWarning")
def test_the_end_of_the_grid_is_a_warning_on_standard_error(undercut, file):
    code, _, err = undercut("path", file, "--cv", 2, "--lambdas", "1e-7,1e-8", "--quiet")
    assert code == 0
    assert "set --lambdas to larger ones, or --extend" in err


def test_a_path_without_a_choice_is_its_table_alone(undercut, file):
    _, out, _ = undercut("path", file, "--lambdas", "1,0.1")
    assert len(out.rstrip("\n").splitlines()) == 3
    assert not out.endswith("\n\n")


def test_a_configuration_holds_the_file_and_the_options_of_a_path(undercut, file, tmp_path):
    config = tmp_path / "path.toml"
    config.write_text(f'file = "{file}"\ncv = 2\nlambdas = "1,0.1,0.01"\nextend = true\njson = true\n')
    _, typed, _ = undercut("path", file, "--cv", 2, "--lambdas", "1,0.1,0.01", "--extend", "--json")
    code, out, _ = undercut("path", "--config", config)
    assert code == 0
    assert json.loads(out)["lambda"] == json.loads(typed)["lambda"]
    config.write_text("lambdsa = 1")
    code, _, err = undercut("path", "--config", config, file)
    assert code == 2
    assert "lambdsa is not an option of path; did you mean lambdas?" in err
