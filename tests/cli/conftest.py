"""The command line, and a file of samples for it."""

import sys

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_breast_cancer
from sklearn.preprocessing import scale

from undercut.cli import main


@pytest.fixture
def undercut(monkeypatch, capsys, request):
    """Run a command; its exit code, standard output and standard error, which a failing test shows."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["undercut", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        request.node.add_report_section("call", "undercut", printed.out + printed.err)
        return ended.value.code or 0, printed.out, printed.err

    return run


@pytest.fixture
def cancer(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    path = tmp_path / "cancer.svm"
    dump_svmlight_file(scale(X), np.where(y == 1, 1, -1), str(path), zero_based=False)
    return path
