"""What is loaded when: importing the package or asking for help must not wait for what only a fit needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import undercut

HEAVY = {"matplotlib", "numba", "numpy", "pandas", "piqp", "rich", "scipy", "sklearn", "torch"}
COMMAND = """
import sys; from undercut.cli import main
sys.argv = ['undercut', *{0!r}.split()]
try: main()
except SystemExit: pass
"""
RUN = """
from undercut import FunctionRisk, L2, minimize
minimize(FunctionRisk(lambda w: (float(w @ w), 2.0 * w), n_params=2), L2(1.0))
"""


def run(program: str) -> str:
    """What a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout


def loaded(program: str) -> set[str]:
    """The packages that a new interpreter has loaded after a program."""
    modules = run(f"{program}\nimport sys; print(); print(*sys.modules)").splitlines()[-1].split()
    return {name.partition(".")[0] for name in modules}


def seconds(package: str) -> float:
    """The shortest of several imports, each in a new interpreter."""
    program = f"import time; began = time.perf_counter(); import {package}; print(time.perf_counter() - began)"
    return min(float(run(program)) for _ in range(3))


@pytest.mark.parametrize(
    ("program", "allowed"),
    [
        ("import undercut; dir(undercut)", set()),
        ("import undercut.errors", set()),
        ("import undercut.cli", set()),
        (COMMAND.format("--version"), set()),
        (COMMAND.format("--help"), {"rich"}),
        (COMMAND.format("train --help"), {"rich"}),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_used(program, allowed):
    assert loaded(program) & HEAVY <= allowed


def test_the_core_loads_no_package_for_pictures_progress_or_estimators():
    core = ("contracts", "losses", "regularizers", "risks", "solvers", "io", "callbacks")
    program = "\n".join(f"import undercut.{module}" for module in core)
    assert not loaded(program) & {"matplotlib", "rich", "sklearn"}


def test_pictures_and_progress_are_loaded_when_they_are_drawn():
    assert not loaded(f"import undercut.plotting\n{RUN}") & {"matplotlib", "rich"}


def test_importing_costs_at_most_a_quarter_of_a_support_vector_machine():
    assert seconds("undercut") <= 0.25 * seconds("sklearn.svm")


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "undercut", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"undercut {undercut.__version__}\n"
