"""Small problems in one compiled call: every loss with every penalty, and bounds that hold at any lambda."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.catalogue import LOSSES, Problem
from tests.regularizers.cases import CASES, optimum

from undercut import L1, L2, Absolute, ElasticNet, Hinge, LinearRisk, Logistic, Quantile, Status, Stop, minimize
from undercut._jit.central_path import follow
from undercut.contracts import MarginLoss, SmoothLoss
from undercut.errors import CapabilityError
from undercut.regularizers import BlockSum, Boxed, Entropy, Quadratic, SquaredLp
from undercut.risks.scores.mean_loss import FreeSmooth
from undercut.solvers import InteriorPoint, SmallProgram
from undercut.solvers.auto import resolve

PENALTIES = [name for name, case in CASES.items() if not isinstance(case.make(1.0), Quadratic)]
TIGHT = Stop(gap_rel=1e-7, max_steps=2)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("penalty", [*PENALTIES, "l2"])
@pytest.mark.parametrize("loss", LOSSES)
def test_one_step_brackets_the_optimum(loss, penalty, fit_intercept):
    problem = Problem(loss, fit_intercept=fit_intercept, weighted=fit_intercept)
    reg = L2(problem.lam) if penalty == "l2" else CASES[penalty].make(problem.lam)
    known = problem.optimum().value if penalty == "l2" else optimum(penalty, problem).value
    result = minimize(problem.risk(), reg, SmallProgram(), stop=TIGHT)
    assert result.status is Status.CONVERGED
    assert result.n_steps == 1
    assert result.lower_bound <= known * (1.0 + 1e-9)
    assert result.objective == pytest.approx(known, rel=1e-6)
    assert result.objective == pytest.approx(reg.value(result.w) + problem.risk().value(result.w), rel=1e-12)


REGULARIZERS = (
    L2,
    L1,
    lambda lam: ElasticNet(lam, 0.5),
    lambda lam: Boxed(L2(lam), lower=0.0),
    lambda lam: Boxed(L1(lam), lower=-0.5, upper=1.0),
    Entropy,
    lambda lam: SquaredLp(lam, 1.5),
)


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, d = draw(st.integers(1, 25)), draw(st.integers(1, 25))
    case = LOSSES[draw(st.sampled_from(sorted(LOSSES)))]
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0.2, 1.0])))
    X = X.round() if draw(st.booleans()) else X
    risk = LinearRisk(X, case.draw_targets(rng, n), case.loss, fit_intercept=draw(st.booleans()))
    return risk, draw(st.sampled_from(REGULARIZERS))(10.0 ** draw(st.floats(-9.0, 3.0)))


@given(problems())
@settings(max_examples=60, deadline=None)
def test_bounds_hold_for_any_loss_and_penalty_at_any_lambda(problem):
    risk, reg = problem
    found = minimize(risk, reg, SmallProgram(), stop=Stop(gap_rel=1e-6, max_steps=2))
    again = minimize(risk, reg, "level_bundle", w0=found.w, stop=Stop(gap_rel=1e-6, max_steps=5))
    size = 1e-9 * (1.0 + abs(found.objective))
    assert found.lower_bound <= again.objective + size
    assert again.lower_bound <= found.objective + size
    assert found.objective == pytest.approx(reg.value(found.w) + risk.value(found.w), rel=1e-9, abs=1e-15)


def random_risk(loss, n, d, **settings):
    rng = np.random.default_rng(0)
    y = rng.standard_normal(n)
    return LinearRisk(rng.standard_normal((n, d)), np.sign(y) if isinstance(loss, MarginLoss) else y, loss, **settings)


@pytest.mark.parametrize("lam", [1e-8, 1e-3, 1e3])
def test_solutions_are_as_sparse_as_those_of_interior_point_steps(lam):
    risk = random_risk(Quantile(0.7), 20, 40)
    at_once = minimize(risk, L1(lam), SmallProgram(), stop=TIGHT)
    by_steps = minimize(risk, L1(lam), InteriorPoint(), stop=Stop(gap_rel=1e-7, max_steps=100))
    assert at_once.objective == pytest.approx(by_steps.objective, rel=1e-6)
    assert np.count_nonzero(at_once.w) <= max(np.count_nonzero(by_steps.w), 20)


def test_parameters_at_a_bound_are_exactly_there():
    w = minimize(random_risk(Absolute(), 40, 8), Boxed(L2(1e-3), lower=0.0, upper=0.05), SmallProgram(), stop=TIGHT).w
    assert np.count_nonzero((w == 0.0) | (w == 0.05)) > 3


def test_where_the_path_is_cut_short_the_bound_still_holds(monkeypatch):
    problem = Problem("absolute")
    monkeypatch.setattr("undercut.solvers.newton.small_program.MAX_STEPS", 3)
    result = minimize(problem.risk(), L1(problem.lam), SmallProgram(), stop=TIGHT)
    assert result.lower_bound <= optimum("l1", problem).value <= result.objective
    assert result.status is not Status.CONVERGED


def test_where_the_path_is_cut_short_others_take_over(monkeypatch):
    problem = Problem("hinge", fit_intercept=True)
    monkeypatch.setattr("undercut.solvers.newton.small_program.MAX_STEPS", 3)
    result = minimize(problem.risk(), L1(problem.lam), stop=Stop(gap_rel=1e-6))
    assert result.status is Status.CONVERGED
    assert result.trace[1].solver == "SmallProgram"
    assert result.trace[-1].solver == "InteriorPoint"


def test_compiled_code_serves_arrays_of_any_layout():
    risk = random_risk(Hinge(), 12, 3)
    X, y = np.asfortranarray(risk.design.X), np.repeat(risk.y, 2)[::2]
    X.flags.writeable = y.flags.writeable = False
    same = minimize(LinearRisk(X, y, Hinge()), L1(0.01), SmallProgram())
    assert same.objective == minimize(risk, L1(0.01), SmallProgram()).objective


class Doubled(Logistic):
    """A loss of the user's own, which compiled code does not know."""

    def value_slope(self, y, scores):
        value, slope = super().value_slope(y, scores)
        return 2.0 * value, 2.0 * slope

    def curvature(self, y, scores):
        return 2.0 * super().curvature(y, scores)


@pytest.mark.parametrize(
    ("loss", "n", "reg", "remedy"),
    [
        (Doubled(), 10, L1(0.1), "InteriorPoint or LineSearchBundle"),
        (Hinge(), 10, Quadratic(0.1, np.eye(3)), "LevelBundle"),
        (Hinge(), 3_000_000, L1(0.1), "InteriorPoint"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_remedy(loss, n, reg, remedy):
    risk = random_risk(loss, n, 3)
    with pytest.raises(CapabilityError, match=f"SmallProgram .*{remedy}"):
        SmallProgram().check(risk, reg)
    assert resolve("auto", risk, reg) is not None


def test_blocks_of_penalties_are_one_program():
    risk = random_risk(Hinge(), 30, 6)
    reg = BlockSum([(3, L1(0.01)), (3, L2(0.1))])
    result = minimize(risk, reg, stop=TIGHT)
    assert result.n_steps == 1
    assert result.gap <= 1e-7 * result.objective


@pytest.mark.parametrize("name", [name for name, case in LOSSES.items() if case.targets == "signs"])
def test_an_intercept_far_out_is_found_at_once_where_there_is_one_class(name):
    loss = LOSSES[name].loss
    risk = LinearRisk(np.eye(4), np.ones(4), loss, fit_intercept=True)
    assert risk.value(np.zeros(4)) == 0.0
    if isinstance(loss, SmoothLoss):
        assert isinstance(risk.phi, FreeSmooth)
        assert risk.phi.evaluate(np.zeros(4)).slopes.any() == np.False_


def test_a_wide_problem_is_never_solved_by_equations_of_the_size_of_its_parameters(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2500)) * np.exp(2.5 * rng.standard_normal(2500))
    risk = LinearRisk(X, np.where(X @ rng.standard_normal(2500) > 0.0, 1.0, -1.0), Logistic(), fit_intercept=True)
    sizes = []

    def noted(*args):
        sizes.append(args[-3])
        return follow(*args)

    monkeypatch.setattr("undercut.solvers.newton.small_program.follow", noted)
    result = minimize(risk, L1(1e-7), SmallProgram(), stop=Stop(gap_rel=0.0, max_steps=5))
    assert sizes == [True]  # by the samples, and no second attempt
    assert result.lower_bound <= result.objective


def test_a_very_small_problem_has_a_second_attempt():
    assert SmallProgram().init(random_risk(Hinge(), 250, 3), L1(0.1), np.zeros(3)).attempts == 2
    assert SmallProgram().init(random_risk(Hinge(), 300, 3), L1(0.1), np.zeros(3)).attempts == 1
