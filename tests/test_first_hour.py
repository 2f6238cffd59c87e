"""The page ``docs/first-hour.md``: every command on it runs as it stands there and prints what it shows."""

from __future__ import annotations

import doctest
import io
import math
import re
import shlex
import sys
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from undercut.cli import main
from undercut.display import Display

PAGE = Path(__file__).parents[1] / "docs" / "first-hour.md"
BLOCK = re.compile(r"^```(python|console|toml \S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Shell:
    """Runs ``undercut ... | undercut ... > file`` in this process."""

    def __init__(self, monkeypatch):
        self.monkeypatch = monkeypatch

    def run(self, line):
        """What a line prints, standard error first."""
        line, _, target = line.partition(" > ")
        content, errors = b"", ""
        for command in line.split(" | "):
            content, err = self._run(shlex.split(command), content)
            errors += err
        if target:
            Path(target.strip()).write_bytes(content)
            content = b""
        return errors + content.decode()

    def _run(self, words, given):
        if words[0] == "cat":
            return b"".join(Path(name).read_bytes() for name in words[1:]), ""
        assert words[0] == "undercut", words
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        self.monkeypatch.setattr(sys, "argv", words)
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(given))))
        self.monkeypatch.setattr(sys, "stdout", out)
        with redirect_stderr(err), pytest.raises(SystemExit):
            main()
        out.flush()
        return out.buffer.getvalue(), err.getvalue()


def examples(text):
    """The commands of a block with what each prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def test_every_command_of_the_first_hour_prints_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    never = {"every": math.inf}  # a slow machine would show progress between the lines
    monkeypatch.setattr(Display.__init__, "__kwdefaults__", Display.__init__.__kwdefaults__ | never)
    monkeypatch.setattr("undercut.callbacks.EVERY", math.inf)
    shell, commands = Shell(monkeypatch), set()
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(text, PAGE.name, "exec"), {})
        elif kind.startswith("toml"):
            Path(kind.split()[1]).write_text(text)
        else:
            for command, shown in examples(text):
                printed = shell.run(command)
                assert doctest.OutputChecker().check_output(shown, printed, FLAGS), f"$ {command}\n{printed}"
                commands |= set(re.findall(r"undercut (\w+)", command))
    assert commands >= {"train", "path", "predict", "evaluate", "info", "export", "trace", "demo"}


def test_no_row_of_who_has_it_leaves_undercut_alone_without():
    lines = (PAGE.parent / "who-has-it.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert rows[0][-1] == "undercut"
    for row in rows:
        assert len(row) == 6
        assert row[-1] != "no" or "no" in row[1:-1]
