"""What does not fit together is refused before the first pass, naming the need, the lack and the remedy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.catalogue import ALL, SMOOTH, Problem

from undercut import (
    L2,
    CuttingPlane,
    FunctionRisk,
    Lbfgs,
    LevelBundle,
    LineSearchBundle,
    Newton,
    ProximalBundle,
    minimize,
)
from undercut.contracts import QuadraticRegularizer, Regularizer
from undercut.errors import CapabilityError, ParameterError
from undercut.regularizers import Entropy
from undercut.solvers import DualAscent, LeastSquares, Race, Relay
from undercut.solvers.auto import resolve
from undercut.solvers.choice.conditions import NEWTON_PARAMS

EVERY = [CuttingPlane(), LevelBundle(), LineSearchBundle(), DualAscent(), Lbfgs(), Newton()]
every = pytest.mark.parametrize("solver", EVERY, ids=lambda solver: type(solver).__name__)


class Linear(Regularizer):
    """``sum w`` on the positive orthant: a regularizer that is not quadratic."""

    strong_convexity = 0.0

    def value(self, w):
        return float(w.sum()) if (w >= 0.0).all() else math.inf

    def conjugate(self, z):
        return 0.0 if (z <= 1.0).all() else math.inf

    def conjugate_argmax(self, z):
        return np.zeros_like(z)


def counting(*, convex=True):
    """A risk that notes every evaluation."""
    calls = []

    def fun(w):
        calls.append(w)
        return float(w @ w), 2.0 * w

    return FunctionRisk(fun, n_params=2, convex=convex), calls


def refusal_of(risk, reg, solver):
    with pytest.raises(CapabilityError) as refusal:
        minimize(risk, reg, solver)
    assert isinstance(refusal.value, TypeError)
    return str(refusal.value)


def test_a_line_search_needs_a_line():
    risk, calls = counting()
    message = refusal_of(risk, L2(1.0), LineSearchBundle())
    assert "LineSearchBundle needs a risk with an exact line search" in message
    assert "FunctionRisk has no `along(w, direction)`" in message
    assert "use CuttingPlane" in message
    assert calls == []


@pytest.mark.parametrize("risk", [counting()[0], Problem("hinge").risk()], ids=["function", "hinge"])
def test_newton_needs_a_smooth_risk(risk):
    message = refusal_of(risk, L2(1.0), Newton())
    assert "Newton needs a smooth risk with a Hessian" in message
    assert f"{type(risk).__name__} is not smooth" in message
    assert "use LineSearchBundle" in message or "use CuttingPlane" in message


def test_the_remedy_named_for_newton_is_one():
    """A remedy that is refused in turn helps nobody."""
    risk, _ = counting()
    message = refusal_of(risk, L2(1.0), Newton())
    remedies = {"LineSearchBundle": LineSearchBundle(), "CuttingPlane": CuttingPlane(), "Lbfgs": Lbfgs()}
    named = [solver for name, solver in remedies.items() if f"use {name}" in message]
    assert named
    for solver in named:
        minimize(risk, L2(1.0), solver)


@pytest.mark.parametrize("solver", [solver for solver in EVERY if solver.needs_convex])
def test_a_certificate_needs_a_convex_risk(solver):
    risk, calls = counting(convex=False)
    message = refusal_of(risk, L2(1.0), solver)
    assert f"{type(solver).__name__} needs a convex risk" in message
    assert "FunctionRisk says it is not" in message
    assert "use NonconvexBundle" in message
    assert "declare the risk convex" in message
    assert calls == []


@pytest.mark.parametrize("solver", [solver for solver in EVERY if issubclass(solver.reg_type, QuadraticRegularizer)])
def test_a_quadratic_program_needs_a_quadratic_regularizer(solver):
    risk = Problem("logistic").risk()
    message = refusal_of(risk, Linear(), solver)
    assert f"{type(solver).__name__} needs a quadratic regularizer" in message
    assert "Linear is not" in message
    assert "use L2" in message


@pytest.mark.parametrize("solver", [CuttingPlane(), LevelBundle()])
def test_a_smooth_master_problem_needs_strong_convexity_or_a_proximal_form(solver):
    message = refusal_of(Problem("logistic").risk(), Linear(), solver)
    assert f"{type(solver).__name__} needs a regularizer that is strongly convex or knows its proximal form" in message
    assert "Linear is neither" in message
    assert "implement `near`" in message


def test_a_risk_that_is_not_convex_gets_a_local_certificate():
    risk, _ = counting(convex=False)
    result = minimize(risk, L2(1.0))
    assert result.certificate == "local"
    assert {row.certificate for row in result.trace} == {"local"}


def test_auto_picks_the_level_bundle_for_a_regularizer_that_is_not_quadratic():
    assert isinstance(resolve("auto", Problem("hinge", n=300).risk(), Entropy(0.1)), LevelBundle)
    assert "LevelBundle needs a regularizer that is strongly convex" in refusal_of(counting()[0], Linear(), "auto")


@pytest.mark.parametrize("solver", ["bmrm", "", CuttingPlane, None, 3])
def test_what_is_no_solver_is_refused(solver):
    with pytest.raises(ParameterError, match="`solver` must be 'auto'"):
        minimize(counting()[0], L2(1.0), solver)


@pytest.mark.parametrize("loss", ALL)
def test_auto_picks_newton_for_few_smooth_parameters_and_a_line_search_otherwise(loss):
    picked = resolve("auto", Problem(loss, n=300, d=5).risk(), L2(1.0))
    smooth = LeastSquares if loss == "squared" else Newton
    first = picked.candidates[0] if isinstance(picked, Relay) else picked
    assert isinstance(first, smooth if loss in SMOOTH else LineSearchBundle)


def test_auto_races_for_many_smooth_parameters():
    risk = Problem("logistic", d=NEWTON_PARAMS + 1).risk()
    assert isinstance(resolve("auto", risk, L2(1.0)), Race)


def test_auto_picks_the_proximal_bundle_for_any_other_function():
    assert isinstance(resolve("auto", counting()[0], L2(1.0)), ProximalBundle)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("line_search_bundle", LineSearchBundle),
        ("cutting_plane", CuttingPlane),
        ("dual_ascent", DualAscent),
        ("newton", Newton),
        ("lbfgs", Lbfgs),
    ],
)
def test_a_solver_has_a_name(name, kind):
    assert resolve(name, Problem("logistic").risk(), L2(1.0)) == kind()


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: CuttingPlane(max_planes=0), "`max_planes` must be at least 1; got 0"),
        (lambda: LineSearchBundle(max_planes=0), "`max_planes` must be at least 1; got 0"),
        (lambda: LineSearchBundle(beyond=0.0), r"`beyond` must be in \(0, 1\]; got 0.0"),
        (lambda: LineSearchBundle(beyond=1.5), r"`beyond` must be in \(0, 1\]; got 1.5"),
        (lambda: LineSearchBundle(beyond=math.nan), r"`beyond` must be in \(0, 1\]; got nan"),
        (lambda: CuttingPlane(max_idle=-1), "`max_idle` must be .*; got -1"),
        (lambda: LineSearchBundle(max_idle=-1), "`max_idle` must be .*; got -1"),
        (lambda: CuttingPlane(master_accuracy=-0.1), "`master_accuracy` must be .*; got -0.1"),
        (lambda: LineSearchBundle(master_accuracy=math.nan), "`master_accuracy` must be .*; got nan"),
        (lambda: LevelBundle(least=0.5, most=0.4), "`least` < `most`.*; got"),
        (lambda: LevelBundle(max_idle=-1), "`max_idle` must be .*; got -1"),
        (lambda: Lbfgs(memory=0), "`memory` must be .*; got 0"),
    ],
)
def test_a_setting_outside_its_domain_is_refused_with_rule_and_value(make, rule):
    with pytest.raises(ParameterError, match=rule):
        make()


@every
def test_settings_cannot_change_under_a_run(solver):
    with pytest.raises(AttributeError):
        solver.max_planes = 3
