"""What the command line offers before anything runs: help, completion, suggestions."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

COMMANDS = ("train", "path", "predict", "evaluate", "info", "export", "trace", "demo")


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_that_one_must_type_is_cut_off(undercut, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = undercut(command, "--help")
    assert code == 0
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("command", ["train", "path", "evaluate", "info", "trace", "demo"])
def test_every_command_that_reports_does_so_in_json(undercut, command):
    assert "--json" in undercut(command, "--help")[1]


def test_a_mistyped_option_or_command_gets_the_nearest_one(undercut):
    assert "--lambda" in undercut("train", "a.svm", "--lamda", "1")[2]
    assert "'evaluate'" in undercut("evalute")[2]


@pytest.mark.parametrize(
    ("options", "suggestion"),
    [
        (("--loss", "logistc"), "did you mean logistic?"),
        (("--solver", "newtn"), "did you mean newton?"),
        (("--kernel", "rbff"), "did you mean rbf?"),
        (("--multi-class", "crammer"), "did you mean crammer_singer?"),
        (("--measure", "prbp"), "did you mean prbep?"),
        (("--online", "--solver", "pegaso"), "did you mean pegasos?"),
        (("--task", "sequence", "--loss", "crff"), "did you mean crf?"),
    ],
)
def test_a_mistyped_name_gets_the_nearest_one(undercut, tmp_path, options, suggestion):
    (tmp_path / "a.svm").write_text("1 1:1\n-1 1:-1\n")
    code, _, err = undercut("train", tmp_path / "a.svm", *options)
    assert code == 2
    assert suggestion in err
    assert "parameter" not in err


def complete(*words):
    """What a shell offers behind these words."""
    environment = os.environ | {
        "_UNDERCUT_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1),
    }  # fmt: skip
    program = [sys.executable, "-c", "from undercut.cli import main; main()"]
    return subprocess.run(program, env=environment, capture_output=True, text=True).stdout.split()


def test_a_shell_completes_commands_options_and_names():
    assert complete("undercut", "ev") == ["evaluate"]
    assert complete("undercut", "train", "--lamb") == ["--lambda"]
    assert complete("undercut", "train", "--loss", "squ") == ["squared_hinge", "squared"]


def test_the_help_installs_the_completion(undercut):
    out = undercut("--help")[1]
    assert re.search(r"--install-completion", out)
