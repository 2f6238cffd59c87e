"""The registry of losses: what a class says about itself reaches estimators, command line and compiled passes."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from tests.catalogue import LOSSES, NONCONVEX

from undercut import LinearClassifier, LinearRegressor, OnlineClassifier, OnlineRegressor, losses
from undercut.cli.options.names import NAMES as OPTION_NAMES
from undercut.contracts import Loss, MarginLoss, RegressionLoss
from undercut.errors import ParameterError

CATALOGUE = {**LOSSES, **NONCONVEX}
DOCS = Path(__file__).parents[2] / "docs" / "catalogue.md"
every_name = pytest.mark.parametrize("name", losses.NAMES)


def defined():
    """Every loss class that some module of ``undercut.losses`` defines."""
    modules = [importlib.import_module(f"undercut.losses.{m.name}") for m in pkgutil.iter_modules(losses.__path__)]
    found = {kind for module in modules for kind in vars(module).values() if inspect.isclass(kind)}
    return {kind for kind in found if issubclass(kind, Loss) and kind.__module__.startswith("undercut.losses.")}


def test_no_loss_is_forgotten_in_registry_package_catalogue_or_docs():
    assert defined() == set(losses.NAMES.values())
    assert {kind.__name__ for kind in defined()} <= set(losses.__all__)
    assert {name: type(case.loss) for name, case in CATALOGUE.items()} == losses.NAMES
    text = DOCS.read_text(encoding="utf-8")
    assert [name for name in losses.NAMES if f'| `"{name}"` |' not in text] == []


@every_name
def test_a_name_and_settings_make_the_loss(name):
    loss = CATALOGUE[name].loss
    assert losses.named(name, **asdict(loss)) == loss


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ParameterError, match=r"must be one of hinge, squared_hinge.*; got 'hinged'"):
        losses.named("hinged")


def test_a_name_belongs_to_one_loss():
    with pytest.raises(ParameterError, match="must be unique; got 'hinge'"):
        losses.registry.registered("hinge")(losses.Squared)
    assert losses.NAMES["hinge"] is losses.Hinge


@every_name
def test_the_lipschitz_constant_is_the_largest_slope(name):
    case = CATALOGUE[name]
    targets = {"signs": [-1.0, 1.0], "reals": [-2.5, 3.0], "counts": [0.0, 7.0], "unlabelled": [-1.0, 0.0, 1.0]}
    slopes = np.concatenate(
        [case.loss.value_slope(np.full(4001, y), np.linspace(-60.0, 60.0, 4001))[1] for y in targets[case.targets]]
    )
    if math.isfinite(case.loss.lipschitz):
        assert np.abs(slopes).max() == pytest.approx(case.loss.lipschitz, rel=1e-9)
    else:
        assert np.abs(slopes).max() > 50.0


@every_name
def test_every_convex_loss_is_compiled(name):
    loss = CATALOGUE[name].loss
    assert (losses.compiled_slope(loss) is not None) is loss.is_convex


def test_no_two_losses_share_a_compiled_slope():
    numbers = [slope.number for case in LOSSES.values() if (slope := losses.compiled_slope(case.loss))]
    assert len(set(numbers)) == len(LOSSES)


def test_a_setting_given_as_an_integer_reaches_the_compiled_loops_as_a_float():
    assert type(losses.compiled_slope(losses.Huber(width=2)).setting) is float


@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        (LinearClassifier, MarginLoss),
        (OnlineClassifier, MarginLoss),
        (LinearRegressor, RegressionLoss),
        (OnlineRegressor, RegressionLoss),
    ],
)
def test_estimators_take_every_registered_loss_of_their_kind(estimator, kind):
    online = estimator in (OnlineClassifier, OnlineRegressor)
    expected = [name for name, loss in losses.of_kind(kind).items() if loss.is_convex or not online]
    for name in expected:
        assert type(estimator(loss=name)._loss()) is losses.NAMES[name]
    with pytest.raises(ValueError, match=f"must be one of {', '.join(map(repr, expected))}, or a Loss"):
        estimator(loss="none of them")._loss()


@pytest.mark.parametrize("kind", [MarginLoss, RegressionLoss])
def test_the_command_line_takes_every_registered_loss(kind):
    assert set(losses.of_kind(kind)) <= set(OPTION_NAMES["losses"].split(", "))
