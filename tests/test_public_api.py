"""The public face: everything announced is there, documented, and of one version."""

from __future__ import annotations

import importlib.metadata
import inspect
import pathlib
import tomllib

import pytest

import undercut
from undercut import contracts, errors
from undercut.losses import NAMES

ROOT = pathlib.Path(__file__).parent.parent
PUBLIC = sorted(undercut.__all__)


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_announced_is_there(name):
    assert hasattr(undercut, name)


def test_no_more_is_announced_than_people_can_overlook():
    assert 40 <= len(PUBLIC) <= 64


def test_nothing_is_announced_twice():
    assert len(PUBLIC) == len(set(PUBLIC))


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_public_is_documented(name):
    thing = getattr(undercut, name)
    assert inspect.getdoc(thing)
    own = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    assert own
    assert not own.startswith(f"{name}("), "a docstring that a dataclass made up"


@pytest.mark.parametrize("name", [name for name in PUBLIC if inspect.isclass(getattr(undercut, name))])
def test_every_public_method_is_documented_or_keeps_a_contract_that_is(name):
    kind = getattr(undercut, name)
    for attribute, member in inspect.getmembers(kind, inspect.isfunction):
        if not attribute.startswith("_") and member.__module__.startswith("undercut") and attribute in vars(kind):
            contract = getattr(contracts.Risk, attribute, None)
            assert inspect.getdoc(member) or inspect.getdoc(contract), f"{name}.{attribute}"


@pytest.mark.parametrize("name", NAMES)
def test_every_registered_loss_has_a_line_in_the_catalogue(name):
    row = f'| `"{name}"` | `{NAMES[name].__name__}('
    assert row in (ROOT / "docs" / "catalogue.md").read_text(encoding="utf-8")


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert undercut.__version__ == project["version"]


def test_the_version_is_the_installed_one():
    try:
        installed = importlib.metadata.version("undercut")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("not installed, only on the path")
    assert undercut.__version__ == installed


def test_every_error_is_ours_and_a_standard_one():
    """Callers may catch either."""
    found = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, Exception)]
    for kind in [kind for kind in found if not issubclass(kind, Warning)]:
        assert issubclass(kind, errors.UndercutError)
        if kind is not errors.UndercutError:
            standard = [
                base for base in kind.__mro__ if base.__module__ == "builtins" and base not in (Exception, object)
            ]
            assert any(base is not BaseException for base in standard), kind
