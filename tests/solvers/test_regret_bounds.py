"""Regret bounds: what they say of each other, and that no game ever costs more than they allow."""

from __future__ import annotations

import math
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest
from tests.catalogue import LOSSES

from undercut._jit import online as kernel
from undercut.maps.design import as_design
from undercut.solvers.online import Adaptive, Pegasos, Proximal
from undercut.solvers.online.bounds import (
    balanced_bound,
    phases_to_guarantee,
    proximal_bound,
    rounds_by_curvature,
    rounds_to_guarantee,
    single_tau_bound,
    subgradient_bound,
)
from undercut.solvers.online.game import Samples

ROUNDS, D = 60, 4
LAMBDAS = [1e-3, 0.05, 1.0]
games = pytest.mark.parametrize("loss", ["hinge", "logistic", "epsilon_insensitive", "absolute", "quantile", "squared"])
lambdas = pytest.mark.parametrize("lam", LAMBDAS)
adversaries = pytest.mark.parametrize("adversary", ["random", "stubborn", "spiteful"])


class Played(NamedTuple):
    """A game and what it cost."""

    regret: float
    tau: np.ndarray
    G: np.ndarray
    R: float


def target(case, adversary, x, w, rng):
    """The adversary's answer: by chance, by one hidden w, or whatever hurts w most."""
    if adversary == "spiteful":
        against = -1.0 if x @ w > 0.0 else 1.0
        return against if case.targets == "signs" else 2.0 * against
    score = float(x @ np.arange(1.0, D + 1.0)) if adversary == "stubborn" else float(rng.standard_normal())
    return score if case.targets == "reals" else (1.0 if score > 0.0 else -1.0)


def play(solver, loss, lam, adversary, seed):
    """One row per round, the radius known to both sides; what w_t costs is noted before it moves."""
    case, rng = LOSSES[loss], np.random.default_rng([seed, 7])
    R = min(2.0, 1.0 / math.sqrt(lam))
    game = solver.new_game(D)
    X, y, cost, tau, G = np.empty((ROUNDS, D)), np.empty(ROUNDS), 0.0, [], []
    for t in range(ROUNDS):
        w, before = game.last, game.numbers[kernel.TAU_SUM]
        X[t] = rng.standard_normal(D) * (1.0 + (t > ROUNDS // 2))
        y[t] = target(case, adversary, X[t], w, rng)
        cost += 0.5 * lam * float(w @ w) + float(case.formula(y[t], X[t] @ w))
        samples = Samples.of(as_design(X[t : t + 1]), y[t : t + 1], np.ones(1), case.loss)
        solver.absorb(game, samples, lam, R)
        tau.append(game.numbers[kernel.TAU_SUM] - before)
        G.append(game.numbers[kernel.G])
    return Played(cost - least_cost(case, X, y, lam, R), np.array(tau), np.array(G), R)


def least_cost(case, X, y, lam, R):
    """``min_{|u| <= R} sum_t f_t(u)`` according to Clarabel."""
    u = cp.Variable(D)
    total = 0.5 * lam * ROUNDS * cp.sum_squares(u) + cp.sum(case.atom(y, X @ u))
    program = cp.Problem(cp.Minimize(total), [cp.norm(u) <= R])
    program.solve(solver=cp.CLARABEL)
    assert program.status == cp.OPTIMAL
    return float(program.value)


@games
@lambdas
@adversaries
def test_algorithm_1_never_regrets_more_than_lemma_1_allows(loss, lam, adversary):
    for seed in range(2):
        played = play(Pegasos(), loss, lam, adversary, seed)
        assert played.regret <= subgradient_bound(np.full(ROUNDS, lam), played.G) + 1e-6
        assert not played.tau.any()


@games
@lambdas
@adversaries
def test_algorithm_2_never_regrets_more_than_corollary_1_and_theorem_1_allow(loss, lam, adversary):
    for seed in range(2):
        played = play(Proximal(), loss, lam, adversary, seed)
        constant = np.full(ROUNDS, lam)
        at_these = proximal_bound(played.tau, constant, played.G, played.R)
        assert played.regret <= at_these + 1e-6
        assert at_these <= balanced_bound(constant, played.G, played.R) * (1.0 + 1e-9)
        assert (played.tau > 0.0).all()


@pytest.mark.parametrize("loss", ["hinge", "logistic", "epsilon_insensitive", "absolute", "quantile"])  # known G
@lambdas
@adversaries
def test_a_single_tau_never_regrets_more_than_theorem_2_allows(loss, lam, adversary):
    for seed in range(2):
        played = play(Proximal(tau="bound", n_passes=ROUNDS), loss, lam, adversary, seed)
        assert not played.tau[1:].any()
        assert played.regret <= proximal_bound(played.tau, np.full(ROUNDS, lam), played.G, played.R) + 1e-6
        bound = single_tau_bound(float(played.tau[0]), played.R, float(played.G.max()), lam, ROUNDS)
        assert played.regret <= bound + 1e-6


@games
@lambdas
@adversaries
def test_adaptive_never_regrets_more_than_its_own_bound_allows(loss, lam, adversary):
    """``sum_t 3 tau_t R^2 + 2 G_t^2 / (lambda_{1:t} + tau_{1:t})`` at its balanced tau (Bartlett et al. 2008)."""
    for seed in range(2):
        played = play(Adaptive(), loss, lam, adversary, seed)
        total = lam * np.arange(1, ROUNDS + 1) + np.cumsum(played.tau)
        assert played.regret <= np.sum(3.0 * played.tau * played.R**2 + 2.0 * played.G**2 / total) + 1e-6


@lambdas
def test_some_game_comes_near_its_bound(lam):
    """Bounds that hold because they are absurd would test nothing."""
    shares = []
    for seed in range(4):
        played = play(Proximal(), "absolute", lam, "spiteful", seed)
        shares.append(played.regret / proximal_bound(played.tau, np.full(ROUNDS, lam), played.G, played.R))
    assert max(shares) > 0.02


def random_rounds(seed, T=25):
    rng = np.random.default_rng(seed)
    return rng.random(T) + 0.01, 3.0 * rng.random(T) + 0.1, float(rng.random() + 0.2)


@pytest.mark.parametrize("seed", range(10))
def test_curvature_of_zero_gives_lemma_1(seed):
    lam, G, R = random_rounds(seed)
    assert proximal_bound(np.zeros(lam.size), lam, G, R) == pytest.approx(subgradient_bound(lam, G), rel=1e-14)


@pytest.mark.parametrize("seed", range(10))
def test_no_choice_of_tau_beats_half_the_balanced_bound(seed):
    """Prop. 1: all curvature belongs into the first round."""
    lam, G, R = random_rounds(seed)
    half = 0.5 * balanced_bound(lam, G, R)
    first = np.eye(lam.size)[0]
    grid = [proximal_bound(tau * first, lam, G, R) for tau in np.linspace(0.0, 20.0, 4001)]
    assert half <= min(grid) * (1.0 + 1e-12)
    assert half == pytest.approx(min(grid), rel=1e-4)
    rng = np.random.default_rng(seed)
    for scale in (0.01, 0.1, 1.0):
        assert half <= proximal_bound(scale * rng.random(lam.size), lam, G, R) * (1.0 + 1e-12)


@pytest.mark.parametrize(("R", "G", "lam", "T"), [(1.0, 2.0, 0.1, 100), (30.0, 1.0, 1e-3, 10**6), (0.1, 5.0, 2.0, 1)])
def test_the_single_tau_bound_is_convex_in_tau(R, G, lam, T):
    taus = np.linspace(0.0, 5.0 * G * math.sqrt(T) / R, 400)
    values = np.array([single_tau_bound(float(tau), R, G, lam, T) for tau in taus])
    assert (np.diff(values, 2) >= -1e-9 * values.max()).all()


@pytest.mark.parametrize(("R", "G", "lam", "T"), [(1.0, 2.0, 0.1, 100), (3.0, 1.0, 1e-3, 5000), (0.1, 5.0, 2.0, 7)])
@pytest.mark.parametrize("tau", [0.0, 0.01, 1.0, 30.0])
def test_the_single_tau_bound_lies_above_twice_corollary_1(R, G, lam, T, tau):
    """The sum over rounds is replaced by an integral, which is larger."""
    exact = proximal_bound(tau * np.eye(1, T)[0], np.full(T, lam), np.full(T, G), R)
    assert 2.0 * exact <= single_tau_bound(tau, R, G, lam, T) * (1.0 + 1e-12)


@pytest.mark.parametrize(("R", "G", "lam", "T"), [(1.0, 2.0, 0.1, 100), (3.0, 1.0, 1e-3, 5000)])
def test_without_curvature_the_bound_is_logarithmic(R, G, lam, T):
    """Corollary 2."""
    assert single_tau_bound(0.0, R, G, lam, T) == pytest.approx(G**2 / lam * (1.0 + math.log(T)), rel=1e-14)


@pytest.mark.parametrize(("R", "G", "T"), [(1.0, 2.0, 100), (3.0, 1.0, 5000)])
def test_without_lambda_the_bound_is_a_square_root(R, G, T):
    """Corollary 3."""
    tau, limit = G * math.sqrt(T) / (2.0 * R), 4.0 * R * G * math.sqrt(T)
    errors = [abs(single_tau_bound(tau, R, G, lam, T) - limit) for lam in (1e-4, 1e-6, 1e-8)]
    assert errors[-1] <= 1e-4 * limit
    assert errors[0] > errors[1] > errors[2]


def test_a_single_round_of_no_subgradient_costs_nothing():
    assert subgradient_bound([1.0], [0.0]) == 0.0
    assert balanced_bound([1.0, 1.0], [1.0, 1e-9], R=1e-6) > 0.0


ARGUMENTS = {"epsilon": 0.1, "delta": 0.2, "R": 2.0, "G": 3.0, "lam": 0.01}


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("base", [{}, {"R": 1e4}], ids=["ball", "curvature"])
def test_a_guarantee_takes_longer_the_more_is_asked_and_the_harder_the_game(name, base):
    given = ARGUMENTS | base
    rounds = [rounds_to_guarantee(**(given | {name: given[name] * factor})) for factor in (0.25, 0.5, 1.0, 2.0, 4.0)]
    steps = np.diff(rounds)
    assert (steps >= 0.0).all() if name in ("R", "G") else (steps <= 0.0).all()


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("G", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("lam", [1e-6, 1e-2, 1.0])
def test_the_rounds_by_curvature_are_the_first_to_suffice(epsilon, G, lam):
    delta = 0.2
    T = rounds_by_curvature(epsilon, delta, G, lam)

    def left(rounds):
        return G**2 * (1.0 + math.log(rounds)) / (delta * lam * rounds)

    assert T == int(T) >= 1
    assert left(T) <= epsilon
    assert T == 1 or left(T - 2.0 - 1e-9 * T if T > 3 else 1.0) > epsilon


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.49, 5.0])
@pytest.mark.parametrize("radius", [0.01, 0.7, 1.0, 32.0, 1e4])
@pytest.mark.parametrize("lam", [1e-6, 2.0**-10, 0.3, 10.0])
def test_the_phases_are_as_many_as_an_iterate_on_the_sphere_can_cause(epsilon, radius, lam):
    R, count = min(1.0, radius), 1
    while radius >= R - math.sqrt(2.0 * epsilon / lam):
        R, count = math.sqrt(2.0) * R, count + 1
    assert count <= phases_to_guarantee(epsilon, radius, lam) <= count + 1


@pytest.mark.parametrize("power", [2, 7, 20])
def test_in_the_ball_of_the_paper_the_phases_are_those_of_algorithm_3(power):
    lam = 2.0**-power
    assert phases_to_guarantee(0.499, 1.0 / math.sqrt(lam), lam) == 3 + power
