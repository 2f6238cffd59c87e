"""Compiled functions work where no compiled code can be stored."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import undercut
from undercut._jit.compile import njit, on_compile

SOURCE = Path(undercut.__file__).parent
EVALUATE = """
import undercut.estimators
from undercut import Hinge, LinearRisk
print(LinearRisk([[-1.0], [1.0]], [-1.0, 1.0], Hinge()).value([0.0]))
"""


@pytest.fixture
def unwritable(tmp_path):
    """A copy of the package where files stand in the places of all cache folders, which binds root as well."""
    package = tmp_path / "site" / "undercut"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "_jit" / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG"))}
    return kept | {"PYTHONPATH": str(package.parent), "HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1"}


def test_without_a_writable_cache_folder_a_risk_has_its_value_after_one_warning(unwritable):
    done = subprocess.run([sys.executable, "-c", EVALUATE], env=unwritable, capture_output=True, text=True)
    assert done.stdout == "1.0\n", done.stderr
    assert done.stderr.count("RuntimeWarning") == 1
    assert "set NUMBA_CACHE_DIR" in done.stderr


def test_the_command_line_warns_in_one_line(unwritable):
    command = [sys.executable, "-m", "undercut", "train", "none.svm"]
    done = subprocess.run(command, env=unwritable, capture_output=True, text=True)
    warning, error = done.stderr.splitlines()
    assert warning.startswith("undercut: warning: no cache folder is writable")
    assert "none.svm" in error


def test_every_compiled_function_has_this_decorator():
    for file in (SOURCE / "_jit").glob("*.py"):
        if file.name != "compile.py":
            assert "from numba import njit" not in file.read_text(encoding="utf-8"), file.name


def test_garbage_waits_while_a_function_is_compiled():
    def increased(x):
        return x + 1.0

    increased.__module__ = f"{undercut.__name__}.made_up"
    seen = []
    assert gc.isenabled()
    with on_compile(lambda: seen.append(gc.isenabled())):
        assert njit()(increased)(1.0) == 2.0
    assert seen == [False]
    assert gc.isenabled()


@pytest.mark.parametrize("module", [None, "numpy", "undercutter.made_up"])
def test_functions_of_others_are_compiled_as_ever(module):
    def increased(x):
        return x + 1.0

    increased.__module__ = module
    seen = []
    with on_compile(lambda: seen.append(gc.isenabled())):
        assert numba.njit(increased)(1.0) == 2.0
    assert seen == [True]


def test_garbage_is_collected_again_after_a_function_that_cannot_be_compiled():
    def wrong(x):
        return x.nothing

    wrong.__module__ = f"{undercut.__name__}.made_up"
    with pytest.raises(Exception, match="nothing"):
        njit()(wrong)(1.0)
    assert gc.isenabled()
