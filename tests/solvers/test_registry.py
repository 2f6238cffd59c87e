"""Every public solver has a name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import undercut.solvers
from undercut.contracts import Solver
from undercut.errors import ParameterError
from undercut.regularizers import L2
from undercut.risks import FunctionRisk
from undercut.solvers import SOLVERS, Race, Relay
from undercut.solvers.auto import resolve


def public_solvers():
    """All classes of the package that are solvers, bases for other solvers excepted."""
    modules = pkgutil.walk_packages(undercut.solvers.__path__, "undercut.solvers.")
    found = {
        kind
        for module in modules
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        if issubclass(kind, Solver) and kind.__module__.startswith("undercut.solvers")
    }
    return {kind for kind in found if not kind.__name__.startswith("_") and getattr(kind, "__final__", False)}


def test_no_public_solver_is_forgotten():
    assert public_solvers() - {Race, Relay} == set(SOLVERS.values())  # those two need candidates


def test_every_class_that_is_not_final_is_a_base_of_another():
    bases = {base for kind in (*SOLVERS.values(), Race, Relay) for base in kind.__mro__}
    modules = pkgutil.walk_packages(undercut.solvers.__path__, "undercut.solvers.")
    for module in modules:
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(kind, Solver) and not kind.__name__.startswith("_"):
                assert kind in bases, f"{kind.__name__} is neither registered nor a base of a registered solver"


@pytest.mark.parametrize("name", SOLVERS)
def test_a_name_is_the_class_in_snake_case_and_makes_the_solver_with_its_defaults(name):
    risk = FunctionRisk(lambda w: (0.0, 0.0 * w), n_params=1)
    assert name == name.lower()
    assert name.replace("_", "") == SOLVERS[name].__name__.lower()
    assert resolve(name, risk, L2(1.0)) == SOLVERS[name]()


def test_an_unknown_name_is_refused_with_the_known_ones():
    risk = FunctionRisk(lambda w: (0.0, 0.0 * w), n_params=1)
    with pytest.raises(ParameterError, match=r"'auto', .*'pegasos'.*; got 'simplex'"):
        resolve("simplex", risk, L2(1.0))
