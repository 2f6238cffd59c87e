"""The level bundle in the space of the scores, beside the one in the space of the weights."""

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L1, L2, FunctionRisk, MultivariateRisk, PairwiseRisk, Stop, minimize
from undercut.errors import CapabilityError
from undercut.selection.warm import WarmRuns
from undercut.solvers import LevelBundle, ScoreBundle
from undercut.solvers.auto import resolve
from undercut.solvers.bundle.score_bundle import LONG_STEPS


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
