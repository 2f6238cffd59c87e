"""``undercut train --kernel``."""

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_breast_cancer
from sklearn.preprocessing import scale

from undercut import KernelClassifier, load_model
from undercut.io import load_svmlight


@pytest.fixture
def cancer(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    path = tmp_path / "cancer.svm"
    dump_svmlight_file(scale(X)[:250], np.where(y == 1, 1, -1)[:250], str(path), zero_based=False)
    return path


@pytest.mark.parametrize(
    ("options", "params"),
    [
        (("--kernel", "rbf", "--C", 10, "--gamma", 0.05), {"kernel": "rbf", "C": 10.0, "gamma": 0.05}),
        (("--kernel", "rbf", "--gamma", "auto", "--solver", "hedging"), {"gamma": "auto", "solver": "hedging"}),
        (("--kernel", "poly", "--degree", 2, "--coef0", 1), {"kernel": "poly", "degree": 2, "coef0": 1.0}),
        (("--kernel", "linear", "--solver", "bundle", "--no-intercept"),
         {"kernel": "linear", "solver": "bundle", "fit_intercept": False}),
    ],
)  # fmt: skip
def test_a_kernel_machine_is_trained_as_in_python(cancer, undercut, tmp_path, options, params):
    model = tmp_path / "m.uc"
    code, out, _ = undercut("train", cancer, *options, "-o", model)
    assert code == 0
    assert "lower bound" in out
    X, y, _ = load_svmlight(cancer)
    same = KernelClassifier(**params).fit(X, y.astype(int))
    assert f"{same.support_.size} of 250 samples" in out
    saved = load_model(model)
    np.testing.assert_allclose(saved.decision_function(X), same.decision_function(X))
    code, out, _ = undercut("evaluate", model, cancer)
    assert code == 0
    assert f"{same.score(X, y):.6g}" in out
    code, out, _ = undercut("predict", model, cancer, "--scores")
    np.testing.assert_allclose(np.loadtxt(out.splitlines()), same.decision_function(X))


def test_a_run_continues_from_a_model(cancer, undercut, tmp_path):
    model, short = tmp_path / "m.uc", ("--kernel", "rbf", "--solver", "hedging", "--gap", 1e-6)
    code, _, _ = undercut("train", cancer, *short, "--max-steps", 40, "-o", model)
    assert code == 3
    first = load_model(model)
    code, _, _ = undercut("train", cancer, *short, "--start", model, "-o", model)
    assert code == 0
    assert load_model(model).gap_ < first.gap_
    part = tmp_path / "part.svm"
    part.write_text("".join(cancer.read_text().splitlines(keepends=True)[:100]))
    code, _, err = undercut("train", part, *short, "--start", model, "-o", model)
    assert code == 2
    assert "--start was fitted to 250 samples, and the data have 100" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kernel", "rbff"), "got 'rbff'; did you mean rbf?"),
        (("--kernel", "rbf", "--lambda", 1), "--lambda is not for --kernel: use --C"),
        (("--kernel", "rbf", "--C", 0), "--C must be a float in the range (0.0, inf); got 0.0"),
        (
            ("--kernel", "rbf", "--gamma", "much"),
            "--gamma must be one of auto, scale or a float in the range (0.0, inf); got 'much'",
        ),
        (
            ("--kernel", "rbf", "--solver", "newton"),
            "--solver must be one of auto, bundle, descent, hedging; got 'newton'",
        ),
        (("--kernel", "rbf", "--loss", "logistic"), "--loss and --kernel exclude each other"),
        (("--kernel", "rbf", "--penalty", "l1"), "--penalty is not for --kernel"),
        (("--kernel", "rbf", "--online"), "--kernel is not for --online"),
        (("--kernel", "rbf", "--degree", 2), "--degree needs --kernel poly"),
        (("--penalty", "l2", "--l1-ratio", 0.5), "--l1-ratio needs --penalty elasticnet"),
        (("--C", 1, "--lambda", 1), "--lambda and --C exclude each other"),
        (("--device", "cuda"), "--device needs --kernel"),
    ],
)
def test_options_that_do_not_go_together_are_refused(cancer, undercut, options, message):
    code, _, err = undercut("train", cancer, *options)
    assert code == 2
    assert message in err


def test_a_matrix_that_is_not_positive_semidefinite_is_refused_with_its_eigenvalue(cancer, undercut):
    code, _, err = undercut("train", cancer, "--kernel", "sigmoid", "--gamma", 3)
    assert code == 1
    assert "smallest eigenvalue is -" in err
