"""``undercut train`` where the problem is not convex: the ramp loss, and unlabelled samples."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_iris
from sklearn.preprocessing import scale

from undercut import TransductiveClassifier, load_model
from undercut.io import load_svmlight
from undercut.solvers import driver
from undercut.trace import read_trace, read_traces


@pytest.fixture
def files(tmp_path):
    """Few labelled samples, many without a label, and their labels to test on."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y, labelled = scale(X), np.where(y == 1, 1, -1), np.arange(y.size) % 20 == 0
    dump_svmlight_file(X[labelled], y[labelled], str(tmp_path / "labelled.svm"), zero_based=False)
    dump_svmlight_file(X[~labelled], np.zeros((~labelled).sum()), str(tmp_path / "more.svm"), zero_based=False)
    dump_svmlight_file(X[~labelled], y[~labelled], str(tmp_path / "test.svm"), zero_based=False)
    return tmp_path


def test_unlabelled_samples_give_what_python_would_fit(files, undercut):
    code, out, _ = undercut("train", files / "labelled.svm", "--unlabelled", files / "more.svm", "--gamma", 2,
                            "--lambda", 1e-2, "-o", files / "m.uc")  # fmt: skip
    assert code == 0
    assert "model gap" in out
    assert "lower bound" not in out
    X, y, _ = load_svmlight(files / "labelled.svm")
    more, _, _ = load_svmlight(files / "more.svm")
    few = np.concatenate([(y > 0.0).astype(int), np.full(more.shape[0], -1)])
    same = TransductiveClassifier(lam=1e-2, gamma=2.0).fit(sp.vstack([X, more], format="csr"), few)
    saved = load_model(files / "m.uc")
    np.testing.assert_allclose(saved.coef_, same.coef_, rtol=1e-6, atol=1e-9)
    assert saved.classes_.tolist() == [-1, 1]
    assert saved.certificate_ == "local"


def test_unlabelled_samples_help_on_these_data(files, undercut):
    accuracy = {}
    for name, extra in (("alone", ()), ("both", ("--unlabelled", files / "more.svm"))):
        undercut("train", files / "labelled.svm", *extra, "--lambda", 1e-2, "-o", files / "m.uc", "-q")
        _, out, _ = undercut("evaluate", files / "m.uc", files / "test.svm")
        accuracy[name] = float(out.split("accuracy")[1].split()[0])
    assert accuracy["both"] > accuracy["alone"] + 0.05


def test_several_classes_learn_from_unlabelled_samples(undercut, tmp_path):
    X, y = load_iris(return_X_y=True)
    X, labelled = scale(X), np.arange(y.size) % 10 == 0
    dump_svmlight_file(X[labelled], y[labelled] + 5, str(tmp_path / "labelled.svm"), zero_based=False)
    dump_svmlight_file(X[~labelled], y[~labelled], str(tmp_path / "more.svm"), zero_based=False)
    code, _, _ = undercut("train", tmp_path / "labelled.svm", "--unlabelled", tmp_path / "more.svm", "-o",
                          tmp_path / "m.uc", "--trace", tmp_path / "run.jsonl", "--max-seconds", 20)  # fmt: skip
    assert code == 0
    assert load_model(tmp_path / "m.uc").classes_.tolist() == [5, 6, 7]
    assert {row.certificate for row in read_traces(tmp_path / "run.jsonl")["class 1"]} == {"local"}


def test_a_fit_goes_on_from_a_saved_one(files, undercut):
    settings = ("train", files / "labelled.svm", "--unlabelled", files / "more.svm", "--lambda", 1e-2)
    undercut(*settings, "-o", files / "first.uc", "-q")
    code, _, _ = undercut(*settings, "-o", files / "second.uc", "--start", files / "first.uc", "-q")
    assert code == 0
    first, second = load_model(files / "first.uc"), load_model(files / "second.uc")
    assert second.objective_ <= first.objective_ + 1e-12
    assert second.n_iter_ < first.n_iter_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gamma", 2), "--gamma needs --kernel or --unlabelled"),
        (("--balance", "labelled"), "--balance needs --unlabelled"),
        (("--unlabelled", "more.svm", "--loss", "ramp"), "--loss must be hinge with --unlabelled"),
        (("--unlabelled", "more.svm", "--gamma", -1), "--gamma must be a float in the range [0.0, inf); got -1.0"),
        (("--unlabelled", "more.svm", "--balance", "half"), "--balance must be labelled, none, or a number"),
        (
            ("--unlabelled", "more.svm", "--balance", 1.5),
            "--balance must be one of labelled, a float in the range (0.0, 1.0); got 1.5",
        ),
        (("--unlabelled", "more.svm", "--online"), "--unlabelled is not for --online"),
        (("--unlabelled", "more.svm", "--class-weight", "heavy"), "--class-weight must be balanced"),
        (
            ("--unlabelled", "more.svm", "--no-intercept", "--balance", "labelled"),
            "leaves none: use no --balance",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(files, undercut, monkeypatch, options, message):
    monkeypatch.chdir(files)
    code, _, err = undercut("train", "labelled.svm", *options)
    assert code == 2
    assert message in err


def test_unlabelled_samples_may_have_features_that_the_labelled_ones_have_not(files, undercut):
    (files / "wide.svm").write_text("0 1:1 99:1\n")
    code, _, _ = undercut("train", files / "labelled.svm", "--unlabelled", files / "wide.svm", "-o", files / "m.uc")
    assert code == 0
    assert load_model(files / "m.uc").n_features_in_ == 99


def test_the_ramp_loss_reports_a_model_gap_and_its_trace_says_so(files, undercut):
    code, out, _ = undercut("train", files / "test.svm", "--loss", "ramp", "--lambda", 1e-3, "-o", files / "m.uc",
                            "--trace", files / "run.jsonl")  # fmt: skip
    assert code == 0
    assert "not a bound on the optimum" in out
    rows = read_trace(files / "run.jsonl")
    assert rows[-1].n_descent + rows[-1].n_null + rows[-1].n_null2 == rows[-1].n_evaluations - 1
    _, out, _ = undercut("trace", files / "run.jsonl", "--plot", files / "run.png")
    assert "model minimum" in out


def test_a_convex_solver_is_refused_for_the_ramp_loss(files, undercut):
    code, _, err = undercut("train", files / "test.svm", "--loss", "ramp", "--solver", "cutting_plane")
    assert code == 1
    assert "use NonconvexBundle" in err


def test_ctrl_c_saves_a_model_with_the_labels_of_the_file(files, undercut, monkeypatch):
    """Also where it ends the run on the labelled samples, from which the search was to start."""
    steps, record = [], driver._Run._record

    def recorded(self, state):
        steps.append(state)
        if len(steps) == 2:
            raise KeyboardInterrupt
        return record(self, state)

    monkeypatch.setattr(driver._Run, "_record", recorded)
    code, _, _ = undercut("train", files / "labelled.svm", "--unlabelled", files / "more.svm", "-o", files / "m.uc")
    assert code == 130
    assert load_model(files / "m.uc").classes_.tolist() == [-1, 1]


def test_a_second_ctrl_c_saves_nothing(files, undercut, monkeypatch):
    def recorded(self, state):
        raise KeyboardInterrupt

    monkeypatch.setattr(driver._Run, "_record", recorded)
    code, _, err = undercut("train", files / "labelled.svm", "--unlabelled", files / "more.svm", "-o", files / "m.uc")
    assert code == 130
    assert "there is no model to save" in err
    assert not (files / "m.uc").exists()
