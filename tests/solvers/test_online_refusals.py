"""What the online solvers refuse: before the first pass over the data, with the need, the lack and the remedy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.catalogue import ALL, Problem
from tests.solvers.test_online_solvers import BOUNDED_SLOPES, every, own

from undercut import L2, FunctionRisk, Hinge, LinearRisk, Ramp, minimize
from undercut.errors import CapabilityError, ParameterError
from undercut.solvers.online import Adaptive, OptimisticProximal, Pegasos, Proximal


def refusal_of(risk, reg, solver):
    with pytest.raises(CapabilityError) as refusal:
        minimize(risk, reg, solver)
    return str(refusal.value)


@every
def test_an_intercept_that_is_minimized_out_is_refused_with_a_remedy(solver):
    problem = Problem("hinge", fit_intercept=True)
    message = refusal_of(problem.risk(), problem.reg, solver)
    assert f"{type(solver).__name__} needs a risk that is a mean over samples" in message
    assert "LinearRisk is not" in message
    assert "constant feature instead of the intercept" in message


@every
def test_a_function_without_samples_is_refused_with_a_remedy(solver):
    calls = []
    risk = FunctionRisk(lambda w: calls.append(w) or (0.0, np.zeros(2)), n_params=2)
    message = refusal_of(risk, L2(1.0), solver)
    assert "needs a risk that is a mean over samples" in message
    assert "FunctionRisk is not" in message
    assert "batch solver" in message
    assert calls == []


@every
@pytest.mark.parametrize(
    "reg", [L2(1.0, center=np.ones(5)), L2(1.0, weights=np.full(5, 2.0))], ids=["center", "weights"]
)
def test_a_center_or_weights_are_refused(solver, reg):
    message = refusal_of(Problem("hinge").risk(), reg, solver)
    assert f"{type(solver).__name__} needs L2(lam) without center and weights" in message


class Counted(LinearRisk):
    """A risk that counts its evaluations."""

    evaluations = 0

    def value(self, w):
        type(self).evaluations += 1
        return super().value(w)

    def cut(self, w):
        type(self).evaluations += 1
        return super().cut(w)


NEEDS_BOUND = {
    "bound": Proximal(tau="bound"),
    "epsilon": OptimisticProximal(epsilon=0.1, sampling="replacement"),
}


@pytest.mark.parametrize("solver", NEEDS_BOUND.values(), ids=NEEDS_BOUND)
@pytest.mark.parametrize("loss", [name for name in ALL if name not in BOUNDED_SLOPES])
@pytest.mark.parametrize("make", [lambda loss: loss, own], ids=["compiled", "own"])
def test_unbounded_slopes_are_refused_before_the_first_pass_where_the_bound_must_be_known(solver, loss, make):
    problem, Counted.evaluations = Problem(loss), 0
    risk = Counted(problem.X, problem.y, make(problem.case.loss))
    message = refusal_of(risk, problem.reg, solver)
    assert f"{type(solver).__name__}(" in message
    assert "loss has bounded slopes; got LinearRisk with" in message
    assert "use a loss like Hinge" in message
    assert Counted.evaluations == 0


class NoInfimum(Hinge):
    """A loss whose author does not know how low it goes."""

    def infimum(self, y):
        return np.full_like(y, -np.inf)


@pytest.mark.parametrize("solver", [Adaptive(), Proximal(), *NEEDS_BOUND.values()], ids=lambda s: type(s).__name__)
def test_a_risk_without_a_lower_bound_is_refused_where_the_ball_must_be_known(solver):
    """With an infinite R the balance would add no curvature at all."""
    problem, Counted.evaluations = Problem("hinge"), 0
    message = refusal_of(Counted(problem.X, problem.y, NoInfimum()), problem.reg, solver)
    assert "needs a bound on |w|" in message
    assert "implement `infimum` of the loss, or use Pegasos" in message
    assert Counted.evaluations == 0


@pytest.mark.parametrize("solver", [Pegasos(), OptimisticProximal()], ids=["pegasos", "optimistic"])
def test_a_risk_without_a_lower_bound_is_played_without_projection(solver):
    problem = Problem("hinge", lam=0.5)
    result = minimize(LinearRisk(problem.X, problem.y, NoInfimum()), problem.reg, solver)
    assert result.objective <= 1.1 * problem.optimum().value


@every
def test_a_loss_that_is_not_convex_is_refused_before_the_first_pass(solver):
    problem, Counted.evaluations = Problem("hinge"), 0
    message = refusal_of(Counted(problem.X, problem.y, Ramp()), problem.reg, solver)
    assert "needs a convex risk" in message
    assert Counted.evaluations == 0


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Pegasos(n_passes=0), "`n_passes` must be at least 1; got 0"),
        (lambda: Adaptive(batch_size=0), "`batch_size` must be at least 1; got 0"),
        (lambda: Proximal(sampling="cyclic"), "`sampling` is 'shuffle' or 'replacement'; got 'cyclic'"),
        (lambda: Pegasos(evaluate_every=0), "`evaluate_every` must be at least 1, or None; got 0"),
        (lambda: Proximal(tau="best"), "`tau` is 'balance' or 'bound'; got 'best'"),
        (lambda: Proximal(n_passes=-1), "`n_passes` must be at least 1; got -1"),
        (lambda: OptimisticProximal(epsilon=0.0), "`epsilon` must be positive, or None; got 0.0"),
        (lambda: OptimisticProximal(epsilon=math.nan), "`epsilon` must be positive, or None; got nan"),
        (lambda: OptimisticProximal(epsilon=0.1), "`epsilon` needs sampling='replacement'.*; got 'shuffle'"),
        (
            lambda: OptimisticProximal(epsilon=0.1, sampling="replacement", project=False),
            "`epsilon` needs project=True.*; got False",
        ),
        (lambda: OptimisticProximal(delta=0.0), r"`delta` must be in \(0, 1\]; got 0.0"),
        (lambda: OptimisticProximal(delta=1.5), r"`delta` must be in \(0, 1\]; got 1.5"),
    ],
)
def test_a_setting_outside_its_domain_is_refused_with_rule_and_value(make, rule):
    with pytest.raises(ParameterError, match=rule):
        make()
