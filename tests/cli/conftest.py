"""The command line as a fixture."""

import sys

import pytest

from undercut.cli import main


@pytest.fixture
def undercut(monkeypatch, capsys):
    """Run a command; its exit code, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["undercut", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out, printed.err

    return run
