"""The online solvers through ``minimize``: what they return, when they stop, what they promise and refuse."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.catalogue import ALL, Problem, own

from undercut import CuttingPlane, Hinge, LinearRisk, Status, Stop, minimize
from undercut._jit import online as kernel
from undercut.errors import CapabilityError
from undercut.maps.design import WithConstant, as_design
from undercut.solvers.online import ONLINE_SOLVERS, Adaptive, OptimisticProximal, Pegasos, Proximal
from undercut.solvers.online.bounds import phases_to_guarantee, rounds_by_curvature

SOLVERS = {
    "pegasos": Pegasos(n_passes=6),
    "adaptive": Adaptive(n_passes=6),
    "balance": Proximal(n_passes=6),
    "bound": Proximal(n_passes=6, tau="bound"),
    "optimistic": OptimisticProximal(n_passes=6),
}
every = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS.keys())
OVERFLOWING = ("exponential", "poisson")  # their slopes have no bound, and grow faster than any step shrinks
TAME = tuple(loss for loss in ALL if loss not in OVERFLOWING)
BOUNDED_SLOPES = ("hinge", "huber_hinge", "logistic", "absolute", "epsilon_insensitive", "quantile", "huber")


def pairs(losses):
    """Every solver with every loss that it takes."""
    cases = [(name, loss) for name in SOLVERS for loss in losses if name != "bound" or loss in BOUNDED_SLOPES]
    return pytest.mark.parametrize(
        ("solver", "loss"), [(SOLVERS[name], loss) for name, loss in cases], ids=[f"{n}-{loss}" for n, loss in cases]
    )


@every
def test_the_same_seed_gives_the_same_result(solver):
    problem = Problem("hinge")
    first, second = (minimize(problem.risk(), problem.reg, solver) for _ in range(2))
    np.testing.assert_array_equal(first.w, second.w)
    assert [row.objective for row in first.trace] == [row.objective for row in second.trace]


@every
def test_another_seed_gives_another_result(solver):
    problem = Problem("hinge")
    last = replace(solver, evaluate_every=None)
    first, second = (minimize(problem.risk(), problem.reg, replace(last, seed=seed)).w for seed in (1, 2))
    assert not np.allclose(first, second, rtol=1e-3)


@pairs(ALL)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("average", [False, True], ids=["last", "average"])
def test_the_result_is_the_best_of_a_trace_that_never_rises(solver, loss, sparse, average):
    problem = Problem(loss, weighted=True)
    result = minimize(problem.risk(sparse=sparse), problem.reg, replace(solver, average=average))
    assert result.status is Status.MAX_PASSES
    assert [row.step for row in result.trace] == list(range(7))
    assert [row.n_passes for row in result.trace] == list(range(7))
    for last, now in pairwise(result.trace):
        assert now.objective <= last.objective
    assert result.objective == min(row.objective for row in result.trace)
    assert result.objective == pytest.approx(problem.objective(result.w, 0.0), rel=1e-12)
    assert result.objective >= problem.optimum().value * (1.0 - 1e-7)


@pytest.mark.parametrize("name", ["pegasos", "adaptive", "balance", "optimistic"])  # "bound" looks ahead at n_passes
@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_the_best_of_a_longer_run_is_the_best_iterate_evaluated(name, loss):
    """Each prefix of the run, reported without evaluation, is one of the iterates."""
    problem, solver, n_passes = Problem(loss), SOLVERS[name], 4
    best = minimize(problem.risk(), problem.reg, replace(solver, n_passes=n_passes))
    lasts = [
        minimize(problem.risk(), problem.reg, replace(solver, n_passes=n, evaluate_every=None)).w
        for n in range(1, n_passes + 1)
    ]
    values = [problem.objective(w, 0.0) for w in [np.zeros(problem.d), *lasts]]
    assert best.objective == pytest.approx(min(values), rel=1e-12)


@every
def test_evaluating_less_often_is_the_same_run_with_fewer_rows_that_tell(solver):
    problem = Problem("hinge")
    each, third = (minimize(problem.risk(), problem.reg, replace(solver, evaluate_every=k)) for k in (1, 3))
    assert third.n_evaluations == 1 + 2
    assert each.n_evaluations == 1 + 6
    assert third.objective >= each.objective
    assert third.objective == pytest.approx(problem.objective(third.w, 0.0), rel=1e-12)


@every
def test_without_evaluation_the_last_iterate_is_the_result(solver):
    problem = Problem("hinge")
    result = minimize(problem.risk(), problem.reg, replace(solver, evaluate_every=None))
    assert result.status is Status.MAX_PASSES
    assert result.n_evaluations == 0
    assert result.objective == math.inf
    assert problem.objective(result.w, 0.0) < problem.objective(np.zeros(problem.d), 0.0)


@every
@pytest.mark.parametrize("evaluate_every", [None, 1, 150])
def test_many_passes_without_a_better_objective_are_no_stall(solver, evaluate_every):
    problem = Problem("hinge")
    start = problem.optimum().w
    long = replace(solver, n_passes=150, evaluate_every=evaluate_every)
    result = minimize(problem.risk(), problem.reg, long, w0=start)
    assert result.status is Status.MAX_PASSES
    assert result.trace[-1].n_passes == 150


@every
def test_passes_too_few_to_evaluate_are_not_thrown_away(solver):
    """The end of the run is always evaluated."""
    problem = Problem("hinge")
    result = minimize(problem.risk(), problem.reg, replace(solver, n_passes=2, evaluate_every=5))
    assert result.objective < problem.objective(np.zeros(problem.d), 0.0)


@every
def test_the_mean_of_the_iterates_differs_from_the_last(solver):
    problem = Problem("hinge")
    last, mean = (
        minimize(problem.risk(), problem.reg, replace(solver, evaluate_every=None, average=average)).w
        for average in (False, True)
    )
    assert not np.allclose(last, mean, rtol=1e-3)
    assert problem.objective(mean, 0.0) < problem.objective(np.zeros(problem.d), 0.0)


@every
@pytest.mark.parametrize("lam", [1e-7, 1e-4])
def test_the_mean_of_the_iterates_stays_in_the_ball(solver, lam):
    problem = Problem("hinge", n=200, lam=lam)
    result = minimize(problem.risk(), problem.reg, replace(solver, evaluate_every=None, average=True))
    assert np.linalg.norm(result.w) <= math.sqrt(1.0 / lam) * (1.0 + 1e-6)


@every
def test_sampling_with_replacement_is_another_way_to_the_same_optimum(solver):
    problem = Problem("hinge", lam=0.5)
    solver = replace(solver, n_passes=60)
    results = [minimize(problem.risk(), problem.reg, replace(solver, sampling=s)) for s in ("shuffle", "replacement")]
    assert not np.array_equal(results[0].w, results[1].w)
    for result in results:
        assert result.objective <= 1.05 * problem.optimum().value


@every
def test_iterates_stay_in_the_ball_unless_told_otherwise(solver):
    problem = Problem("hinge", lam=1e-4)
    inside = minimize(problem.risk(), problem.reg, replace(solver, evaluate_every=None, n_passes=1))
    assert np.linalg.norm(inside.w) <= 100.0 * (1.0 + 1e-9)


@pairs(TAME)
def test_the_optimum_lies_in_the_ball(solver, loss):
    problem = Problem(loss, weighted=True)
    radius = solver.init(problem.risk(), problem.reg, np.zeros(problem.d)).radius
    assert np.linalg.norm(problem.optimum().w) <= radius


@pairs(ALL)
@pytest.mark.parametrize("lam", [1e-8, 1e-3, 1e3])
def test_numbers_stay_finite_at_any_lambda(solver, loss, lam):
    problem = Problem(loss, lam=lam)
    result = minimize(problem.risk(), problem.reg, solver)
    assert np.isfinite(result.w).all()
    assert math.isfinite(result.objective)
    assert all(math.isfinite(row.objective) for row in result.trace)
    assert result.objective <= problem.objective(np.zeros(problem.d), 0.0) * (1.0 + 1e-12)


@pairs(ALL)
@pytest.mark.parametrize("lam", [1e-8, 1e-3])
def test_the_last_iterate_is_finite_at_any_lambda(solver, loss, lam):
    problem = Problem(loss, lam=lam)
    result = minimize(problem.risk(), problem.reg, replace(solver, evaluate_every=None))
    assert np.isfinite(result.w).all()


@pytest.mark.parametrize("loss", TAME)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_the_optimistic_method_comes_near_the_optimum(loss, sparse):
    problem = Problem(loss, weighted=True)
    result, optimum = minimize(problem.risk(sparse=sparse), problem.reg, OptimisticProximal()), problem.optimum().value
    assert result.objective - optimum <= 0.02 * (problem.objective(np.zeros(problem.d), 0.0) - optimum)


@pytest.mark.parametrize("lam", [1e-5, 1e-3, 0.1, 10.0])
def test_the_optimistic_method_comes_near_the_optimum_at_any_lambda(lam):
    problem = Problem("hinge", n=200, lam=lam)
    result, optimum = minimize(problem.risk(), problem.reg, OptimisticProximal(n_passes=60)), problem.optimum().value
    assert result.objective - optimum <= 0.05 * (1.0 - optimum)


@pytest.mark.parametrize("batch_size", [1, 3, 30])
def test_a_constant_feature_takes_the_place_of_an_intercept(batch_size):
    """Penalized like the others: the problem with a column of ones."""
    problem = Problem("logistic")
    solver = OptimisticProximal(batch_size=batch_size, n_passes=5)
    results = [
        minimize(LinearRisk(X, problem.y, problem.case.loss), problem.reg, solver)
        for X in (WithConstant(as_design(problem.X)), np.column_stack([problem.X, np.ones(problem.n)]))
    ]
    np.testing.assert_allclose(results[0].w, results[1].w, rtol=1e-9)
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-10)


@pairs(TAME)
def test_without_a_certificate_no_bound_is_claimed(solver, loss):
    problem = Problem(loss)
    result = minimize(problem.risk(), problem.reg, solver)
    assert result.certificate == "none"
    assert result.lower_bound == -math.inf


@pairs(TAME)
@pytest.mark.parametrize("evaluate_every", [1, None])
def test_a_certificate_bounds_the_optimum_from_below(solver, loss, evaluate_every):
    problem = Problem(loss, weighted=True)
    certified = replace(solver, certify=True, evaluate_every=evaluate_every)
    result = minimize(problem.risk(), problem.reg, certified)
    assert result.certificate == "global"
    assert -math.inf < result.lower_bound <= problem.optimum().value + 1e-9
    assert result.objective == pytest.approx(problem.objective(result.w, 0.0), rel=1e-12)
    assert result.lower_bound >= problem.risk().lower_bound - 1e-12
    assert (result.trace[-1].objective, result.trace[-1].lower_bound) == (result.objective, result.lower_bound)


@pytest.mark.parametrize("loss", BOUNDED_SLOPES)
@pytest.mark.parametrize("seed", range(3))
def test_a_guarantee_is_kept(loss, seed):
    """Probability 0.9 each, and far more in practice."""
    problem, epsilon = Problem(loss, lam=0.5, n=400, seed=seed), 0.1
    solver = OptimisticProximal(epsilon=epsilon, sampling="replacement", n_passes=10**5, seed=seed, evaluate_every=None)
    result = minimize(problem.risk(), problem.reg, solver, stop=Stop(max_seconds=20))
    assert result.status is Status.GUARANTEED
    certified = minimize(problem.risk(), problem.reg, stop=Stop(gap_rel=1e-6))
    assert problem.objective(result.w, 0.0) <= certified.lower_bound + epsilon


@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "exponential"])
@pytest.mark.parametrize("make", [lambda loss: loss, own], ids=["compiled", "own"])
def test_no_guarantee_is_given_where_slopes_have_no_bound(loss, make):
    problem = Problem(loss, lam=0.5)
    solver = OptimisticProximal(epsilon=0.1, sampling="replacement")
    with pytest.raises(CapabilityError, match="needs a linear risk whose loss has bounded slopes"):
        minimize(LinearRisk(problem.X, problem.y, make(problem.case.loss)), problem.reg, solver)


@pytest.mark.parametrize("evaluate_every", [1, 7, 10**6, None])
def test_a_guarantee_is_kept_however_often_the_objective_is_evaluated(evaluate_every):
    problem, epsilon = Problem("hinge", lam=0.2, n=200), 0.2
    solver = OptimisticProximal(
        epsilon=epsilon, delta=0.5, sampling="replacement", n_passes=10**5, evaluate_every=evaluate_every
    )
    result = minimize(problem.risk(), problem.reg, solver)
    assert result.status is Status.GUARANTEED
    assert problem.objective(result.w, 0.0) <= problem.optimum().value + epsilon


def test_the_failures_of_all_phases_add_up_to_delta_where_the_risk_at_zero_is_large():
    """Targets of size 1000: the ball is larger than ``1 / sqrt(lam)``, and R grows more often."""
    problem = Problem("absolute", lam=0.5)
    solver = OptimisticProximal(epsilon=0.1, delta=0.2, sampling="replacement")
    lengths = {}
    for factor in (1.0, 1000.0):
        risk = LinearRisk(problem.X, factor * problem.y, problem.case.loss)
        state = solver.init(risk, problem.reg, np.zeros(problem.d))
        state.game.numbers[[kernel.G, kernel.R]] = 3.0, 1.0
        _, _, _, length, _ = solver.phases(state.game, problem.lam, state.radius)
        n_phases = phases_to_guarantee(0.1, state.radius, problem.lam)
        assert length == rounds_by_curvature(0.1, 0.2 / n_phases, 3.0, problem.lam)
        lengths[factor] = length
    assert lengths[1000.0] > 2.0 * lengths[1.0]


@pytest.mark.parametrize("start", [0.0, 0.1, 3.0, 1e6])
def test_a_guaranteed_run_starts_inside_the_ball_it_hypothesizes(start):
    """The regret bound holds for a first iterate with ``|w| < R`` only, and the ball S holds every iterate."""
    problem = Problem("hinge", lam=0.01)
    solver = OptimisticProximal(epsilon=0.01, sampling="replacement", n_passes=1)
    state = solver.init(problem.risk(), problem.reg, np.full(problem.d, start))
    assert np.linalg.norm(state.game.last) <= state.radius * (1.0 + 1e-12)
    solver.open(state.game, problem.lam, state.radius)
    assert np.linalg.norm(state.game.last) < state.game.numbers[kernel.R]
    np.testing.assert_array_equal(state.game.average, state.game.last)


def test_a_start_outside_the_ball_is_projected_but_reported_as_given():
    problem = Problem("hinge", lam=1e-2)
    start = np.full(problem.d, 1e6)
    result = minimize(problem.risk(), problem.reg, Pegasos(n_passes=2, evaluate_every=None), w0=start)
    assert np.linalg.norm(result.w) <= 10.0 * (1.0 + 1e-9)
    state = Pegasos().init(problem.risk(), problem.reg, start)
    assert state.progress.objective == pytest.approx(problem.objective(start, 0.0))


def test_a_guarantee_that_takes_too_long_is_not_claimed():
    problem = Problem("hinge")
    result = minimize(problem.risk(), problem.reg, OptimisticProximal(epsilon=1e-3, sampling="replacement", n_passes=5))
    assert result.status is Status.MAX_PASSES


@every
def test_the_start_is_where_the_search_starts(solver):
    problem = Problem("hinge")
    start = problem.optimum().w
    before = start.copy()
    result = minimize(problem.risk(), problem.reg, solver, w0=start)
    assert result.trace[0].objective == pytest.approx(problem.optimum().value, rel=1e-9)
    assert result.objective <= problem.optimum().value * (1.0 + 1e-12)
    np.testing.assert_array_equal(start, before)


@every
def test_the_driver_may_end_a_run_first(solver):
    problem = Problem("hinge")
    result = minimize(problem.risk(), problem.reg, solver, stop=Stop(max_passes=2))
    assert result.status is Status.MAX_PASSES
    assert result.n_steps == 2
    stopped = minimize(problem.risk(), problem.reg, solver, callbacks=[lambda row: row.step == 3])
    assert stopped.status is Status.STOPPED
    assert stopped.n_steps == 3


@pytest.mark.parametrize("at", [1, 2, 4])
@every
def test_ctrl_c_inside_a_pass_keeps_the_best_so_far(solver, at):
    problem = Problem("hinge")

    class Interrupted(LinearRisk):
        left = at

        def value(self, w):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().value(w)

    result = minimize(Interrupted(problem.X, problem.y, Hinge()), problem.reg, solver)
    assert result.status is Status.STOPPED
    assert np.isfinite(result.w).all()
    if result.trace:
        assert result.objective == pytest.approx(problem.objective(result.w, 0.0), rel=1e-12)
        assert result.objective == result.trace[-1].objective


def test_ctrl_c_inside_a_mini_batch_leaves_the_state_before_the_pass():
    problem = Problem("hinge")

    class Interrupted(Hinge):
        left = 45

        def value_slope(self, y, scores):
            if y.size == 1:
                type(self).left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().value_slope(y, scores)

    solver = Pegasos(n_passes=6)
    result = minimize(LinearRisk(problem.X, problem.y, Interrupted()), problem.reg, solver)
    whole = minimize(problem.risk(), problem.reg, replace(solver, n_passes=1))
    assert result.status is Status.STOPPED
    assert result.n_steps == 1
    np.testing.assert_allclose(result.w, whole.w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", BOUNDED_SLOPES)
def test_curvature_in_the_first_round_is_that_of_the_bound_for_ones_own_loss_too(loss):
    """All of it in round 1, and far from the zero of Algorithm 1."""
    problem, solver = Problem(loss, lam=1e-3), Proximal(tau="bound", n_passes=6)
    sums = []
    for given in (problem.case.loss, own(problem.case.loss)):
        risk = LinearRisk(problem.X, problem.y, given)
        state = solver.init(risk, problem.reg, np.zeros(problem.d))
        sums.append(solver.step(risk, problem.reg, state).game.numbers[kernel.TAU_SUM])
    assert sums[0] > 100.0 * problem.lam
    assert sums[1] == pytest.approx(sums[0], rel=1e-12)


def test_every_online_solver_has_a_name():
    assert {type(solver) for solver in SOLVERS.values()} == set(ONLINE_SOLVERS.values())


@pytest.mark.parametrize("lam", [1e-3, 0.05])
def test_an_online_start_saves_a_batch_solver_evaluations(lam):
    problem = Problem("hinge", n=200, lam=lam)
    online = minimize(problem.risk(), problem.reg, OptimisticProximal())
    result = minimize(problem.risk(), problem.reg, CuttingPlane(), w0=online.w)
    assert result.trace[0].objective == pytest.approx(online.objective, rel=1e-12)
    assert result.lower_bound <= problem.optimum().value + 1e-9


def test_the_result_says_which_iterate_it_is():
    problem = Problem("hinge")
    best = minimize(problem.risk(), problem.reg, OptimisticProximal(n_passes=7))
    reached = next(row.step for row in best.trace if row.objective == best.objective)
    assert f"last iterate after pass {reached}, the best that was evaluated" in best.message
    blind = minimize(problem.risk(), problem.reg, Pegasos(n_passes=3, evaluate_every=None, average=True))
    assert "mean of the iterates after pass 3" in blind.message


def test_a_copy_of_a_game_draws_the_same_numbers_and_leaves_the_first_alone():
    game = Pegasos(seed=3).new_game(2)
    copy = game.copy(averaging=False)
    drawn = copy.rng.integers(0, 2**63, 5)
    assert np.array_equal(game.rng.integers(0, 2**63, 5), drawn)
    assert not np.array_equal(copy.rng.integers(0, 2**63, 5), drawn)
