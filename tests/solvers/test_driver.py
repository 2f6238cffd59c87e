"""The driver: every way a run can end, what it keeps, and what it refuses before it starts."""

from __future__ import annotations

import math
import re
import time

import numpy as np
import pytest
from tests.catalogue import SOLVERS, Problem
from tests.kernel_problems import machine
from tests.structured_models import Multiclass

from undercut import (
    L2,
    Cut,
    CuttingPlane,
    FunctionRisk,
    Hinge,
    LinearRisk,
    LineSearchBundle,
    Logistic,
    Progress,
    Status,
    Stop,
    StructuredRisk,
    minimize,
)
from undercut.errors import DataError, ParameterError

solvers = pytest.mark.parametrize("solver", SOLVERS)
EXACT = Stop(gap_rel=0.0, max_steps=200)
QUADRATIC = FunctionRisk(lambda w: (float(w @ w), 2.0 * w), n_params=2)


def smooth_if_needed(solver):
    """A problem every solver accepts."""
    smooth = solver in ("lbfgs", "newton", "truncated_newton")
    return Problem("logistic" if smooth else "hinge", fit_intercept=True, lam=0.01)


class Failing(LinearRisk):
    """A risk whose k-th plane, and all after it, fail in a given way."""

    def __init__(self, problem, at, fail):
        super().__init__(problem.X, problem.y, problem.case.loss, fit_intercept=problem.fit_intercept)
        self.left, self.fail = at, fail

    def plane(self, scores, at):
        self.left -= 1
        return super().plane(scores, at) if self.left > 0 else self.fail()


def interrupt():
    raise KeyboardInterrupt


def nan_value():
    return Cut(np.zeros(5), 0.0, math.nan)


def infinite_slope():
    return Cut(np.array([0.0, 0.0, math.inf, 0.0, 0.0]), 0.0, 1.0)


def assert_usable(problem, result):
    """What was reached before the end: a finite point, its objective, a valid bound."""
    optimum = problem.optimum().value
    assert np.isfinite(result.w).all()
    assert result.w.shape == (problem.d,)
    assert result.lower_bound <= optimum + 1e-12
    assert not math.isnan(result.gap)
    if result.trace:
        b = problem.risk().intercept(result.w)
        assert result.objective == pytest.approx(problem.objective(result.w, b), rel=1e-10)
    else:
        assert result.objective == math.inf


@solvers
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_ctrl_c_inside_the_risk_keeps_the_best_solution_so_far(solver, at):
    problem = smooth_if_needed(solver)
    result = minimize(Failing(problem, at, interrupt), problem.reg, SOLVERS[solver].solver, stop=EXACT)
    assert result.status is Status.STOPPED
    assert "w0" in result.message  # how to go on
    assert_usable(problem, result)


@solvers
@pytest.mark.parametrize("fail", [nan_value, infinite_slope])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_risk_that_is_not_finite_ends_the_run_with_the_last_good_solution(solver, fail, at):
    problem = smooth_if_needed(solver)
    result = minimize(Failing(problem, at, fail), problem.reg, SOLVERS[solver].solver, stop=EXACT)
    assert result.status is Status.NONFINITE
    assert_usable(problem, result)
    step = re.search(r"at step (\d+): ", result.message)
    assert step is not None
    assert int(step[1]) == (result.n_steps + 1 if result.trace else int(step[1]))
    assert ("value of the risk is nan" if fail is nan_value else "not finite at parameter 2") in result.message


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_function_that_is_never_finite_returns_the_start(bad):
    risk = FunctionRisk(lambda w: (bad, np.zeros(2)), n_params=2)
    result = minimize(risk, L2(1.0), w0=np.array([3.0, 4.0]))
    assert result.status is Status.NONFINITE
    assert result.w.tolist() == [3.0, 4.0]
    assert result.objective == math.inf
    assert result.trace == []
    assert (result.n_evaluations, result.n_steps) == (0, 0)


@solvers
@pytest.mark.parametrize("answer", [True, 1, "stop"])
def test_a_callback_that_says_so_stops_the_run(solver, answer):
    problem, seen = smooth_if_needed(solver), []

    def third_time(progress):
        seen.append(progress)
        return answer if len(seen) == 3 else None

    result = minimize(problem.risk(), problem.reg, SOLVERS[solver].solver, stop=EXACT, callbacks=[third_time])
    assert result.status is Status.STOPPED
    assert seen == result.trace
    assert len(seen) == 3


@solvers
def test_callbacks_see_every_row_of_the_trace(solver):
    problem, seen, also = smooth_if_needed(solver), [], []
    callbacks = [seen.append, lambda row: also.append(row) or False]
    stop = Stop(gap_rel=SOLVERS[solver].gap_rel)
    result = minimize(problem.risk(), problem.reg, SOLVERS[solver].solver, stop=stop, callbacks=iter(callbacks))
    assert result.status is Status.CONVERGED
    assert seen == also == result.trace


def test_convergence_counts_more_than_a_callback():
    problem = Problem("hinge")
    result = minimize(problem.risk(), problem.reg, stop=Stop(gap_rel=10.0), callbacks=[lambda row: True])
    assert result.status in (Status.CONVERGED, Status.STOPPED)
    assert result.status is Status.STOPPED or result.gap <= 10.0 * result.objective


def test_ctrl_c_inside_a_callback_stops_the_run():
    problem = Problem("hinge")
    result = minimize(problem.risk(), problem.reg, stop=EXACT, callbacks=[lambda row: interrupt()])
    assert result.status is Status.STOPPED
    assert_usable(problem, result)


def test_an_error_of_the_risk_is_not_swallowed():
    def fun(w):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        minimize(FunctionRisk(fun, n_params=1), L2(1.0))


@solvers
@pytest.mark.parametrize("max_steps", [1, 2, 3])
def test_the_step_limit_is_kept(solver, max_steps):
    problem = smooth_if_needed(solver)
    stop = Stop(gap_rel=0.0, max_steps=max_steps)
    result = minimize(problem.risk(), problem.reg, SOLVERS[solver].solver, stop=stop)
    assert result.status is Status.MAX_STEPS
    assert result.n_steps == max_steps
    assert_usable(problem, result)


@solvers
def test_the_evaluation_limit_is_kept(solver):
    problem = smooth_if_needed(solver)
    stop = Stop(gap_rel=0.0, max_evaluations=4)
    result = minimize(problem.risk(), problem.reg, SOLVERS[solver].solver, stop=stop)
    assert result.status is Status.MAX_EVALUATIONS
    assert result.n_evaluations >= 4
    assert result.trace[-2].n_evaluations < 4


def test_the_time_limit_is_kept():
    def slow(w):
        time.sleep(0.01)
        return float(np.abs(w - 1.0).sum()), np.sign(w - 1.0)

    stop = Stop(gap_rel=0.0, max_seconds=0.05)
    result = minimize(FunctionRisk(slow, n_params=30), L2(1e-3), "cutting_plane", stop=stop)
    assert result.status is Status.MAX_SECONDS
    assert result.trace[-1].seconds >= 0.05
    assert all(row.seconds < 0.05 for row in result.trace[:-1])


def test_a_gap_that_never_closes_ends_stalled():
    """Planes that stay 0.1 below the risk prove no more than that."""

    class Sagging(FunctionRisk):
        def cut(self, w):
            cut = super().cut(w)
            return Cut(cut.a, cut.b - 0.1, cut.value)

    risk = Sagging(lambda w: (float(np.abs(w).sum()), np.sign(w)), n_params=3)
    result = minimize(risk, L2(1.0), w0=np.ones(3))
    assert result.status is Status.STALLED
    assert "rounding" in result.message
    assert result.gap == pytest.approx(0.1)


FAST = ("line_search", "cutting_plane", "lbfgs", "newton")  # those that get there


@pytest.mark.parametrize(("solver", "loss"), [(name, loss) for name in FAST for loss in SOLVERS[name].losses])
def test_a_gap_of_zero_ends_where_rounding_ends_progress(solver, loss):
    problem = Problem(loss, fit_intercept=True)
    stop = Stop(gap_rel=0.0, max_steps=5000)
    result = minimize(problem.risk(), problem.reg, SOLVERS[solver].solver, stop=stop)
    assert result.status in (Status.STALLED, Status.CONVERGED)
    assert result.gap <= 1e-8
    assert_usable(problem, result)


def test_an_absolute_gap_is_enough():
    problem = Problem("hinge")
    result = minimize(problem.risk(), problem.reg, stop=Stop(gap_abs=0.05, gap_rel=0.0))
    assert result.status is Status.CONVERGED
    assert result.gap <= 0.05
    assert result.gap > 0.0


def test_an_unknown_gap_is_never_convergence():
    assert Stop().reached(Progress()) is None
    assert Stop(gap_rel=10.0).reached(Progress(objective=1.0)) is None
    assert Stop().reached(Progress(objective=math.inf, lower_bound=0.0)) is None


def test_the_first_limit_reached_is_the_status():
    row = Progress(step=5, objective=1.0, lower_bound=0.0, n_evaluations=7, n_passes=2.0, seconds=3.0)
    assert Stop(max_steps=5).reached(row) is Status.MAX_STEPS
    assert Stop(max_evaluations=7).reached(row) is Status.MAX_EVALUATIONS
    assert Stop(max_passes=2).reached(row) is Status.MAX_PASSES
    assert Stop(max_seconds=3).reached(row) is Status.MAX_SECONDS
    assert Stop(max_steps=6, max_evaluations=8, max_passes=3, max_seconds=4).reached(row) is None
    assert Stop(gap_abs=1.0, max_steps=1).reached(row) is Status.CONVERGED


def test_a_negative_objective_has_a_positive_tolerance():
    assert Stop(gap_rel=0.1).reached(Progress(objective=-1.0, lower_bound=-1.05)) is Status.CONVERGED
    assert Stop(gap_rel=0.01).reached(Progress(objective=-1.0, lower_bound=-1.05)) is None


@pytest.mark.parametrize("name", ["gap_abs", "gap_rel"])
@pytest.mark.parametrize("bad", [-1e-3, math.nan])
def test_gaps_must_not_be_negative(name, bad):
    with pytest.raises(ParameterError, match=f"`{name}` must be non-negative; got {bad!r}"):
        Stop(**{name: bad})


@pytest.mark.parametrize("name", ["max_steps", "max_passes", "max_evaluations", "max_seconds"])
@pytest.mark.parametrize("bad", [0, -1, math.nan])
def test_limits_must_be_positive(name, bad):
    with pytest.raises(ParameterError, match=f"`{name}` must be positive; got {bad!r}"):
        Stop(**{name: bad})


@pytest.mark.parametrize("w0", [np.zeros(3), np.zeros((2, 1)), 0.0, [math.nan, 0.0], [math.inf, 0.0]])
def test_a_start_that_does_not_fit_is_refused(w0):
    risk = FunctionRisk(lambda w: (0.0, w), n_params=2)
    with pytest.raises(DataError, match=r"w0 must be finite and of shape \(2,\); got"):
        minimize(risk, L2(1.0), w0=w0)


def test_a_start_may_be_a_list_of_integers():
    risk = FunctionRisk(lambda w: (float(np.abs(w).sum()), np.sign(w)), n_params=2)
    assert minimize(risk, L2(1.0), w0=[1, 2]).status is Status.CONVERGED


def test_a_penalty_that_does_not_fit_is_refused_before_the_first_evaluation():
    calls = []
    risk = FunctionRisk(lambda w: calls.append(w) or (0.0, w), n_params=2)
    with pytest.raises(DataError, match="`center` must have shape"):
        minimize(risk, L2(1.0, center=np.zeros(3)))
    assert calls == []


def test_a_run_without_a_start_begins_at_the_center():
    points = []
    risk = FunctionRisk(lambda w: points.append(w.copy()) or (float(w.sum()), np.ones(2)), n_params=2)
    minimize(risk, L2(1.0, center=np.array([5.0, -5.0])), stop=Stop(max_steps=1))
    assert points[0].tolist() == [5.0, -5.0]


def test_an_objective_that_overflows_is_not_a_solution():
    """The penalty overflows at this start although the risk does not."""
    risk = FunctionRisk(lambda w: (float(np.abs(w).sum()), np.sign(w)), n_params=2, lower_bound=0.0)
    with np.errstate(over="ignore"):
        result = minimize(risk, L2(1.0), w0=np.full(2, 1e200))
    assert result.status is Status.CONVERGED
    assert np.abs(result.w).max() <= 1.0


@pytest.mark.parametrize("solver", [CuttingPlane(), LineSearchBundle()])
def test_a_run_goes_on_from_where_another_was_stopped(solver):
    problem = Problem("hinge", lam=1e-3)
    first = minimize(problem.risk(), problem.reg, solver, stop=Stop(max_steps=5))
    second = minimize(problem.risk(), problem.reg, solver, w0=first.w)
    assert second.status is Status.CONVERGED
    assert second.trace[0].objective <= first.objective * (1.0 + 1e-12)


def test_one_solver_object_serves_any_number_of_runs():
    solver, results = LineSearchBundle(), []
    for loss in (Hinge(), Logistic(), Hinge()):
        problem = Problem("hinge")
        results.append(minimize(LinearRisk(problem.X, problem.y, loss), problem.reg, solver))
    assert results[0].objective == results[2].objective
    np.testing.assert_array_equal(results[0].w, results[2].w)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((lambda w: (0.0, w), L2(1.0)), r"`risk` must be a Risk: wrap a function in FunctionRisk"),
        ((np.eye(2), L2(1.0)), r"`risk` must be a Risk: such as LinearRisk"),
        ((QUADRATIC, 1.0), r"`reg` must be a Regularizer such as L2"),
    ],
)
def test_arguments_of_another_kind_are_refused_with_what_was_meant(arguments, message):
    with pytest.raises(ParameterError, match=message):
        minimize(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"stop": 1e-6}, "`stop` must be a Stop such as"), ({"callbacks": print}, "`callbacks` must be a list")],
)
def test_options_of_another_kind_are_refused_with_what_was_meant(options, message):
    with pytest.raises(ParameterError, match=message):
        minimize(QUADRATIC, L2(1.0), **options)


def test_a_start_that_is_no_array_of_numbers_is_refused():
    with pytest.raises(DataError, match="w0 must be an array of 2 numbers"):
        minimize(QUADRATIC, L2(1.0), w0="a")


def test_auto_knows_what_a_kernel_machine_and_a_cache_ask_for():
    problem = machine(n=60)
    result = minimize(*problem.parts())
    assert result.status is Status.CONVERGED
    assert result.certificate == "global"
    model = Multiclass(2, 3)
    X, y = np.random.default_rng(0).standard_normal((40, 2)), np.arange(40) % 3
    result = minimize(StructuredRisk(model, X, y.tolist(), cache=3), L2(0.01))
    assert result.status is Status.CONVERGED
    assert result.n_evaluations < result.n_steps
