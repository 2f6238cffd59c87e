"""Paths: every point is certified and equals a fit of its own, for far less work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import (
    ChainRisk,
    FunctionRisk,
    Hinge,
    LinearRisk,
    Logistic,
    MulticlassRisk,
    MultivariateRisk,
    PairwiseRisk,
    Quantile,
    Ramp,
    Squared,
    SquaredHinge,
    Stop,
    StructuredRisk,
    minimize,
)
from undercut.errors import CapabilityError, ParameterError
from undercut.losses import CrammerSinger, Softmax
from undercut.measures import measure_named
from undercut.regularizers import L1, L2, ElasticNet, SquaredLp
from undercut.regularizers.named import named_regularizer
from undercut.risks import CRF, M3N
from undercut.selection import Path, regularization_path
from undercut.selection.grid import first_lambda
from undercut.selection.warm import WarmRuns
from undercut.solvers import DualCoordinate, LineSearchBundle, Newton, NonconvexBundle, ProximalBundle, Race
from undercut.solvers.auto import resolve

LAMS = np.geomspace(1e-1, 1e-4, 4)
FEW_PLANES = 1e3  # a lambda so large that a few planes are enough
STOP = Stop(gap_rel=1e-4)


def data(n=120, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.where(X[:, 0] + 0.5 * X[:, 1] + rng.standard_normal(n) > 0.0, 1.0, -1.0)


def chain(loss):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, 3)), rng.integers(0, 3, 40)
    return ChainRisk(X, y, loss, np.full(10, 4), n_labels=3)


class Signs:
    """A structured model with two labels."""

    n_params = 8

    def joint_feature(self, x, y):
        return 0.5 * y * x

    def label_loss(self, y, y_hat):
        return float(y != y_hat)

    def decode(self, w, x, y, rescaling):
        return -y if y * float(w @ x) < 1.0 else y


X, Y = data()
RISKS = {
    "hinge": LinearRisk(X, Y, Hinge()),
    "hinge, free intercept": LinearRisk(X, Y, Hinge(), fit_intercept=True),
    "logistic": LinearRisk(X, Y, Logistic(), fit_intercept=True),
    "quantile": LinearRisk(X, X[:, 0] + Y, Quantile(0.8)),
    "Crammer and Singer": MulticlassRisk(X, (Y > 0).astype(int) + (X[:, 2] > 1.0), CrammerSinger()),
    "softmax": MulticlassRisk(X, (Y > 0).astype(int) + (X[:, 2] > 1.0), Softmax()),
    "F1": MultivariateRisk(X, Y, measure_named("f1")),
    "pairs": PairwiseRisk(X, Y, np.repeat(np.arange(12), 10)),
    "M3N": chain(M3N()),
    "CRF": chain(CRF()),
    "structured": StructuredRisk(Signs(), X[:30], Y[:30].astype(int)),
    "structured, remembered": StructuredRisk(Signs(), X[:30], Y[:30].astype(int), cache=5),
    "function": FunctionRisk(lambda w: (float(np.abs(w - 1.0).sum()), np.sign(w - 1.0)), n_params=4, lower_bound=0.0),
}
SPARSE = ("l1", "elasticnet")
CASES = [(name, "l2") for name in RISKS] + [(name, kind) for name in ("hinge", "logistic", "pairs") for kind in SPARSE]


@pytest.mark.parametrize(("name", "penalty"), CASES)
def test_every_point_of_a_path_is_certified_and_brackets_the_optimum(name, penalty):
    risk = RISKS[name]
    path = regularization_path(risk, LAMS, penalty=penalty, stop=STOP)
    assert (path.gaps <= 1e-4 * path.objectives).all()
    assert (path.gaps >= 0.0).all()
    for lam, w, objective, bound in zip(path.lams, path.coefficients, path.objectives, path.lower_bounds, strict=True):
        reg = named_regularizer(penalty, lam)
        assert reg.value(w) + risk.value(w) == pytest.approx(objective, rel=1e-9)
        alone = minimize(risk, reg, stop=STOP)
        assert bound <= alone.objective * (1.0 + 1e-12)
        assert alone.lower_bound <= objective * (1.0 + 1e-12)


@pytest.mark.parametrize("name", ["hinge", "F1", "M3N", "structured"])
def test_planes_that_are_carried_save_evaluations(name):
    lams = np.geomspace(1e-1, 1e-3, 6)
    solver = LineSearchBundle() if name == "hinge" else "auto"  # which takes no planes for so few samples
    path = regularization_path(RISKS[name], lams, solver=solver)
    alone = sum(minimize(RISKS[name], L2(lam), solver).n_evaluations for lam in lams)
    assert path.n_evaluations.sum() <= 0.7 * alone


SOLVERS = (
    LineSearchBundle(),
    DualCoordinate(),
    ProximalBundle(),
    NonconvexBundle(line_search="single"),
    Race(candidates=(LineSearchBundle(), DualCoordinate()), deterministic=True),
)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_state_that_is_carried_leads_to_the_optimum_of_the_other_lambda(solver, reverse):
    risk = RISKS["hinge"]
    lams = LAMS[::-1] if reverse else LAMS
    state = None
    for lam in lams:
        reg = L2(float(lam))
        state = solver.init(risk, reg, np.zeros(risk.n_params)) if state is None else solver.carry(risk, reg, state)
        assert state.progress.lower_bound <= minimize(risk, reg, stop=STOP).objective
        for _ in range(400):
            if state.progress.gap <= 1e-4 * state.progress.objective:
                break
            state = solver.step(risk, reg, state)
        assert state.progress.gap <= 1e-4 * state.progress.objective


def test_a_carried_bundle_proves_the_same_bound_as_one_made_anew_for_any_quadratic_regularizer():
    risk, weights = RISKS["hinge"], np.linspace(0.5, 2.0, 8)
    first, second = L2(0.1, weights=weights), L2(0.01, center=np.ones(8))
    solver = LineSearchBundle()
    state = solver.init(risk, first, np.zeros(8))
    for _ in range(10):
        state = solver.step(risk, first, state)
    carried = solver.carry(risk, second, state)
    for _ in range(60):
        carried = solver.step(risk, second, carried)
    assert carried.progress.gap <= 1e-3 * carried.progress.objective
    assert carried.progress.objective == pytest.approx(minimize(risk, second).objective, rel=2e-3)


def test_a_smooth_path_needs_one_evaluation_per_step_and_none_at_its_start():
    path = regularization_path(RISKS["logistic"], LAMS, solver=Newton())
    assert (path.n_evaluations[1:] <= [result.n_steps for result in path.results[1:]]).all()


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_a_working_set_is_carried_without_an_evaluation(penalty):
    path = regularization_path(RISKS["logistic"], LAMS, penalty=penalty, solver="working_set")
    assert (path.n_evaluations[1:] <= [result.n_steps for result in path.results[1:]]).all()
    assert (path.gaps <= 1e-3 * path.objectives).all()


def test_the_winner_of_a_race_begins_the_next_run():
    rng = np.random.default_rng(0)
    X = sp.random(400, 300, density=0.1, format="csr", random_state=rng)
    risk = LinearRisk(X, np.where(rng.random(400) < 0.5, 1.0, -1.0), Hinge())
    race = Race(candidates=(LineSearchBundle(), DualCoordinate()), deterministic=True)
    state = race.init(risk, L2(1e-3), np.zeros(300))
    while state.progress.gap > 1e-3 * state.progress.objective:
        state = race.step(risk, L2(1e-3), state)
    winner = state.runners[state.by].solver
    assert winner.name == state.progress.solver
    for at in (0, 1):  # the next turn may be another one's already
        assert race.carry(risk, L2(5e-4), replace(state, at=at)).runners[0].solver is winner


# --- The grid -----------------------------------------------------------------------------------------------------


def test_lambdas_go_from_strong_to_weak_each_once():
    path = regularization_path(RISKS["hinge"], [1e-3, 1.0, 1e-2, 1.0])
    assert path.lams.tolist() == [1.0, 1e-2, 1e-3]
    assert len(path) == 3


@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet"])
def test_the_grid_begins_where_zero_is_nearly_optimal_and_ends_where_the_risk_stops_falling(penalty):
    risk = RISKS["logistic"]
    path = regularization_path(risk, penalty=penalty)
    at_zero = risk.value(np.zeros(risk.n_params))
    assert 0.98 * at_zero <= path.objectives[0] <= at_zero * (1.0 + 1e-12)
    assert path.risks[-5] - path.risks[-1] <= 0.005 * at_zero
    assert path.risks[-6] - path.risks[-2] > 0.005 * at_zero or len(path) == 9
    assert path.risks[-1] < 0.9 * at_zero


def test_with_l1_the_first_lambda_is_just_below_the_largest_slope():
    slopes = np.abs(RISKS["logistic"].cut(np.zeros(8)).a).max()
    assert first_lambda(RISKS["logistic"], L1) == pytest.approx(0.99 * slopes, rel=2e-3)


def test_a_risk_without_slope_has_a_path_of_zeros():
    path = regularization_path(LinearRisk(np.zeros((4, 2)), np.ones(4), Squared()))
    assert not path.coefficients.any()


@pytest.mark.parametrize("shift", [0.0, -10.0])
def test_a_function_below_zero_has_a_grid_as_well(shift):
    risk = FunctionRisk(lambda w: (float(np.abs(w - 1.0).sum()) + shift, np.sign(w - 1.0)), n_params=3)
    path = regularization_path(risk)
    assert len(path) > 8
    assert path.risks[-1] == pytest.approx(shift, abs=0.1)


@pytest.mark.parametrize(
    ("lams", "rule"),
    [([], "at least one"), ([0.1, -1.0], "positive"), ([0.0], "positive"), ([np.nan], "positive"), ("many", "numbers")],
)
def test_a_bad_grid_is_refused_with_its_values(lams, rule):
    with pytest.raises(ParameterError, match=rule):
        regularization_path(RISKS["hinge"], lams)


def test_an_unknown_penalty_is_refused():
    with pytest.raises(ParameterError, match="'l2', 'l1', 'elasticnet'"):
        regularization_path(RISKS["hinge"], [0.1], penalty="l0")


def test_a_risk_that_is_not_convex_is_refused():
    with pytest.raises(CapabilityError, match="convex"):
        regularization_path(LinearRisk(X, Y, Ramp()), [0.1])


def test_a_penalty_may_be_any_function_of_lambda():
    path = regularization_path(RISKS["hinge"], LAMS, penalty=lambda lam: SquaredLp(lam, p=1.5))
    assert (path.gaps <= 1e-3 * path.objectives).all()


# --- Between the lambdas ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet"])
@pytest.mark.parametrize("name", ["hinge", "logistic"])
def test_a_certified_path_keeps_its_promise_at_random_lambdas(name, penalty):
    risk, epsilon = RISKS[name], 0.02
    path = regularization_path(risk, [0.3, 1e-3], penalty=penalty, epsilon=epsilon)
    assert path.certified == (1e-3, 0.3)
    assert path.epsilon == epsilon
    lams = np.exp(np.random.default_rng(0).uniform(np.log(1e-3), np.log(0.3), 1000))
    for number, lam in enumerate(lams):
        nearest = path.at(lam)
        assert nearest.gap <= epsilon * nearest.objective * (1.0 + 1e-12)
        if number % 100 == 0:  # a solver that knows nothing of the path agrees
            reg = named_regularizer(penalty, lam)
            alone = minimize(risk, reg, stop=STOP)
            assert nearest.lower_bound <= alone.objective * (1.0 + 1e-12)
            assert nearest.objective == pytest.approx(reg.value(nearest.w) + risk.value(nearest.w), rel=1e-9)
            assert nearest.objective <= alone.objective / (1.0 - epsilon)


def test_a_certified_path_takes_more_lambdas_for_a_smaller_epsilon():
    sizes = [len(regularization_path(RISKS["hinge"], [0.3, 1e-3], epsilon=epsilon)) for epsilon in (0.1, 0.01, 1e-3)]
    assert sizes[0] < sizes[1] < sizes[2] < 200


def test_a_certified_path_finds_its_ends_itself():
    risk = RISKS["hinge"]
    path = regularization_path(risk, epsilon=0.05)
    low, high = path.certified
    assert low == path.lams[-1]
    assert high == path.lams[0] == first_lambda(risk, L2)


@pytest.mark.parametrize("lam", [1e-6, 5e-4, 0.02, 0.5, 10.0])
def test_every_path_bounds_the_optimum_at_any_lambda(lam):
    risk = RISKS["quantile"]
    path = regularization_path(risk, [0.3, 1e-2, 1e-3])
    nearest, alone = path.at(lam), minimize(risk, L2(lam), stop=STOP)
    assert nearest.lower_bound <= alone.objective
    assert alone.lower_bound <= nearest.objective


def test_a_solver_that_cannot_reach_epsilon_says_down_to_where_it_is_proved():
    with pytest.warns(UserWarning, match="max_steps"):
        path = regularization_path(
            RISKS["hinge"], [1.0, 1e-6], solver=LineSearchBundle(), epsilon=1e-3, stop=Stop(max_steps=6)
        )
    low, high = path.certified
    assert 1e-6 < low < high == 1.0
    for lam in np.geomspace(low, high, 20):
        nearest = path.at(lam)
        assert nearest.gap <= 1e-3 * nearest.objective * (1.0 + 1e-12)


def test_epsilon_is_refused_where_objectives_may_be_negative():
    risk = FunctionRisk(lambda w: (float(w.sum()), np.ones(2)), n_params=2)
    with pytest.raises(CapabilityError, match="lower_bound"):
        regularization_path(risk, [1.0, 0.1], epsilon=0.1)


def test_epsilon_must_be_a_share():
    with pytest.raises(ParameterError, match="epsilon"):
        regularization_path(RISKS["hinge"], [1.0, 0.1], epsilon=2.0)


def test_a_path_is_what_its_rows_say():
    path = regularization_path(RISKS["logistic"], LAMS, penalty=ElasticNet)
    assert isinstance(path, Path)
    assert path.coefficients.shape == (4, 8)
    assert path.n_nonzero.tolist() == [np.count_nonzero(w) for w in path.coefficients]
    assert {status.name for status in path.statuses} == {"CONVERGED"}


def test_a_solver_for_a_huge_lambda_does_not_stay_for_the_whole_path():
    rng = np.random.default_rng(0)
    X = sp.random(300, 3000, density=0.02, format="csr", random_state=rng)
    risk = LinearRisk(X, np.where(rng.random(300) < 0.5, 1.0, -1.0), Hinge())
    runs = WarmRuns(risk)
    solvers = [runs(L2(lam), STOP).trace[-1].solver for lam in (FEW_PLANES, 1e-3, 1e-5)]
    assert solvers == ["LineSearchBundle", "DualCoordinate", "DualCoordinate"]
    assert solvers[1] == minimize(risk, L2(1e-3)).trace[-1].solver


def test_a_solver_of_a_moderate_lambda_stays_for_the_whole_path():
    rng = np.random.default_rng(0)
    X = sp.random(2000, 100, density=0.1, format="csr", random_state=rng)
    risk = LinearRisk(X, np.where(rng.random(2000) < 0.5, 1.0, -1.0), Hinge())
    runs, first = WarmRuns(risk), resolve("auto", risk, L2(1e-2))
    assert runs(L2(1e-2), STOP).trace[-1].solver == "LineSearchBundle"
    assert runs._chosen(L2(1e-7), 1e-3).solver == first != resolve("auto", risk, L2(1e-7))


def test_a_path_of_a_smooth_loss_follows_the_choice_for_each_lambda():
    rng = np.random.default_rng(0)
    X = sp.random(4000, 1500, density=0.02, format="csr", random_state=rng)
    risk = LinearRisk(X, np.where(rng.random(4000) < 0.5, 1.0, -1.0), SquaredHinge())
    runs = WarmRuns(risk)
    solvers = [runs(L2(lam), STOP).trace[-1].solver for lam in (0.1, 1e-5)]
    assert solvers == ["DualCoordinate", "TruncatedNewton"]
