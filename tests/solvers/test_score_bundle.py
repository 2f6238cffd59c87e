"""The level bundle in the space of the scores, beside the one in the space of the weights."""

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L1, L2, FunctionRisk, MultivariateRisk, PairwiseRisk, Stop, minimize
from undercut.errors import CapabilityError
from undercut.risks import PrecisionAtRisk
from undercut.selection.warm import WarmRuns
from undercut.solvers import LevelBundle, ScoreBundle
from undercut.solvers.auto import resolve
from undercut.solvers.bundle.score_bundle import LONG_STEPS, PairRisk

N_STEPS = 300


def wide(seed=0, n=40, d=200):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.2)
    return sp.csr_matrix(X), np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 2.0, 1.0, -1.0)


RISKS = {
    "f1": lambda: MultivariateRisk(*wide(), "f1", fit_intercept=True),
    "prbep": lambda: MultivariateRisk(*wide(), "prbep"),
    "pairwise": lambda: PairwiseRisk(*wide()),
}
risks = pytest.mark.parametrize("make", RISKS.values(), ids=RISKS)


@risks
@pytest.mark.parametrize("start", [False, True], ids=["at zero", "elsewhere"])
def test_its_first_steps_are_those_of_the_level_bundle(make, start, rng):
    risk, w0 = make(), rng.standard_normal(200) if start else None
    ours, other = (minimize(risk, L2(1e-3), s, w0=w0, stop=Stop(max_steps=8)) for s in (ScoreBundle(), LONG_STEPS))
    np.testing.assert_allclose([row.objective for row in ours.trace], [row.objective for row in other.trace], rtol=1e-6)
    np.testing.assert_allclose(ours.w, other.w, atol=1e-6)


@risks
def test_the_bounds_bracket_the_optimum_and_the_objective_is_that_of_w(make):
    risk, reg = make(), L2(1e-4)
    ours, other = (minimize(risk, reg, solver, stop=Stop(gap_rel=1e-5)) for solver in (ScoreBundle(), LONG_STEPS))
    assert ours.objective == pytest.approx(reg.value(ours.w) + risk.value(ours.w), rel=1e-10)
    assert ours.lower_bound <= other.objective * (1 + 1e-12)
    assert other.lower_bound <= ours.objective * (1 + 1e-12)


def test_planes_are_kept_for_the_next_lambda():
    carried, fresh = WarmRuns(RISKS["f1"](), ScoreBundle()), RISKS["f1"]()
    for lam in (1e-2, 3e-3):
        result = carried(L2(lam))
        alone = minimize(fresh, L2(lam), ScoreBundle())
        assert abs(result.objective - alone.objective) <= 2e-3 * alone.objective
    assert result.n_steps < alone.n_steps


def test_auto_takes_it_for_measures_of_wide_data_alone():
    X, y = wide()
    assert isinstance(resolve("auto", MultivariateRisk(X, y, "f1"), L2(0.1)), ScoreBundle)
    assert isinstance(resolve("auto", MultivariateRisk(X[:, :100], y, "f1"), L2(0.1)), LevelBundle)
    assert isinstance(resolve("auto", MultivariateRisk(X, y, "f1"), L2(0.1, center=np.ones(200))), LevelBundle)


@pytest.mark.parametrize(
    ("risk", "reg", "message"),
    [
        (FunctionRisk(lambda w: (0.0, 0.0 * w), 3), L2(0.1), "a function of scores X w; got FunctionRisk"),
        (MultivariateRisk(np.eye(2), [1.0, -1.0], "f1"), L1(0.1), "quadratic regularizer"),
        (MultivariateRisk(np.eye(2), [1.0, -1.0], "f1"), L2(0.1, weights=np.ones(2)), "without `center` and `weights`"),
    ],
)
def test_other_problems_are_refused_with_the_solver_for_them(risk, reg, message):
    with pytest.raises(CapabilityError, match=message):
        minimize(risk, reg, ScoreBundle())


def test_a_bound_that_is_proved_in_every_fourth_step_holds_in_all_of_them():
    risk, stop = RISKS["f1"](), Stop(gap_rel=1e-4)
    seldom, always = (minimize(risk, L2(1e-4), LevelBundle(bound_every=every), stop=stop) for every in (4, 1))
    bounds = [row.lower_bound for row in seldom.trace]
    assert bounds == sorted(bounds)
    assert len(set(bounds)) < 0.5 * len(bounds)
    assert max(bounds) <= always.objective
    assert seldom.objective <= always.objective * (1 + 2e-4)


def separable(n=300, d=2000):
    """Wide data that a model with a small lambda fits, so that the optimum is close to zero."""
    rng = np.random.default_rng(0)
    X = sp.random(n, d, 0.01, "csr", random_state=0)
    return X, rng.integers(0, 5, n), np.repeat(np.arange(n // 20), 20)


NEAR_ZERO = {
    "precision": lambda: PrecisionAtRisk(*separable(), k=5),
    "roc_auc": lambda: MultivariateRisk(separable()[0], np.where(separable()[1] > 3, 1.0, -1.0), "roc_auc"),
}


@pytest.mark.parametrize("solver", [ScoreBundle(), LevelBundle()], ids=["pairs", "plain"])
@pytest.mark.parametrize("make", NEAR_ZERO.values(), ids=NEAR_ZERO)
def test_an_optimum_close_to_zero_takes_few_steps(make, solver):
    risk, reg = make(), L2(1e-5)
    result = minimize(risk, reg, solver, stop=Stop(gap_rel=1e-2, max_steps=N_STEPS))
    assert result.status.name == "CONVERGED"
    assert result.objective < 1e-3 * risk.value(np.zeros(risk.n_params))
    assert result.objective == pytest.approx(reg.value(result.w) + risk.value(result.w), rel=1e-6)


def test_a_line_of_pairs_is_that_of_the_weights(rng):
    risk, start = RISKS["f1"](), rng.standard_normal(200)
    pairs = PairRisk(risk, start)
    one, other = pairs.first(), rng.standard_normal(41)
    scores = np.append(risk.design.matvec(pairs.weights(np.tile(other, 2))), start @ pairs.weights(np.tile(other, 2)))
    direction = np.concatenate([other, scores])
    ours, plain = pairs.along(one, direction), risk.along(pairs.weights(one), pairs.weights(direction))
    assert ours.minimizer(0.1, 1.0) == pytest.approx(plain.minimizer(0.1, 1.0))
    for line in (ours, ours.turn(0.0, direction)):
        assert line.value(0.5) == pytest.approx(plain.value(0.5))
        assert line.cut(0.5).value == pytest.approx(plain.cut(0.5).value)
