"""A race of solvers: it brackets the optimum, shares what is known, can be repeated, and names who made a step."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st

from undercut import L2, CuttingPlane, Hinge, LinearClassifier, LinearRisk, LineSearchBundle, Logistic, Stop, minimize
from undercut.contracts import Cut
from undercut.errors import CapabilityError, NonfiniteError, ParameterError
from undercut.solvers import DualCoordinate, Newton, Race, TruncatedNewton
from undercut.solvers.auto import resolve
from undercut.solvers.race import TRIAL
from undercut.trace import Status

BOTH = (LineSearchBundle(), DualCoordinate())


def problem(seed, n=300, d=400, density=0.05):
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density=density, format="csr", random_state=rng)
    y = np.where(X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    return LinearRisk(X, y, Hinge())


@given(seed=st.integers(0, 1000), lam=st.sampled_from([1e-6, 1e-4, 1e-2]), deterministic=st.booleans())
def test_bounds_bracket_the_optimum_of_each_candidate(seed, lam, deterministic):
    risk = problem(seed, n=60, d=80)
    result = minimize(
        risk, L2(lam), Race(candidates=BOTH, deterministic=deterministic), stop=Stop(gap_rel=1e-5, max_seconds=5)
    )
    alone = minimize(risk, L2(lam), CuttingPlane(), stop=Stop(gap_rel=1e-6, max_seconds=5))
    assert result.lower_bound <= alone.objective * (1.0 + 1e-12)
    assert alone.lower_bound <= result.objective * (1.0 + 1e-12)
    assert result.objective == pytest.approx(L2(lam).value(result.w) + risk.value(result.w), rel=1e-12)


def test_the_bound_never_falls_and_the_objective_never_rises():
    trace = minimize(problem(0), L2(1e-6), Race(candidates=BOTH, deterministic=True), stop=Stop(gap_rel=1e-7)).trace
    assert all(a.lower_bound <= b.lower_bound and a.objective >= b.objective for a, b in pairwise(trace))


def test_a_deterministic_race_repeats_itself():
    race = Race(candidates=BOTH, deterministic=True)
    runs = [minimize(problem(1), L2(1e-6), race, stop=Stop(gap_rel=1e-6)) for _ in range(2)]
    assert runs[0].w.tolist() == runs[1].w.tolist()
    assert [row.solver for row in runs[0].trace] == [row.solver for row in runs[1].trace]


def test_the_trace_and_the_result_say_who_did_what():
    result = minimize(problem(1), L2(1e-7), Race(candidates=BOTH, deterministic=True), stop=Stop(gap_rel=1e-9))
    assert {row.solver for row in result.trace} == {"LineSearchBundle", "DualCoordinate"}
    assert "% LineSearchBundle" in result.detail
    assert "% DualCoordinate" in result.detail


def test_the_most_promising_candidate_has_the_longest_first_turn():
    """The cost of a step is its evaluations and passes, so the first turns can be added up."""
    race = Race(candidates=BOTH[::-1], deterministic=True)
    trace = minimize(problem(1), L2(1e-4), race, stop=Stop(gap_rel=1e-13, max_steps=100)).trace
    names = [row.solver for row in trace]
    second = names.index("LineSearchBundle")
    assert names[:second] == ["DualCoordinate"] * second
    back = names.index("DualCoordinate", second)
    costs = [DualCoordinate.pass_cost * row.n_passes + 2.0 * row.n_evaluations for row in trace]
    first_cost = costs[second - 1]
    assert costs[back - 2] - first_cost <= TRIAL * first_cost <= costs[back - 1] - first_cost


def test_products_with_the_hessian_count_in_a_deterministic_race():
    X = np.random.default_rng(0).standard_normal((40, 60))
    risk = LinearRisk(X, np.sign(X[:, 0]), Logistic())
    result = minimize(risk, L2(1e-4), TruncatedNewton(), stop=Stop(gap_rel=1e-6))
    steps = result.trace[-1].step
    assert result.trace[-1].n_passes >= 2 * steps
    assert minimize(risk, L2(1e-4), TruncatedNewton(), stop=Stop(max_passes=3)).status is Status.MAX_PASSES


def test_a_solver_alone_is_named_in_its_trace():
    assert {row.solver for row in minimize(problem(0), L2(0.1), CuttingPlane()).trace} == {"CuttingPlane"}


def test_a_candidate_that_cannot_finish_leaves_the_race_to_the_others():
    class Fragile(LinearRisk):
        """Planes taken by ``cut`` are not finite; those of a line are."""

        def cut(self, w):
            raise NonfiniteError("no plane")

    X, y = np.random.default_rng(0).standard_normal((50, 5)), np.repeat([1.0, -1.0], 25)
    race = Race(candidates=(LineSearchBundle(), CuttingPlane()), deterministic=True)
    result = minimize(Fragile(X, y, Hinge()), L2(1e-3), race, stop=Stop(gap_rel=1e-9))
    assert result.status is Status.CONVERGED
    with pytest.raises(NonfiniteError):
        Fragile(X, y, Hinge()).cut(np.zeros(5))


def test_a_candidate_that_does_not_fit_is_refused_before_the_first_pass():
    with pytest.raises(CapabilityError, match="Newton needs a smooth risk"):
        minimize(problem(0), L2(0.1), Race(candidates=(LineSearchBundle(), Newton())))


def test_a_race_needs_a_candidate():
    with pytest.raises(ParameterError, match="at least one solver"):
        Race(candidates=())


def test_a_race_in_which_nobody_moves_is_stalled():
    class Flat(LinearRisk):
        """A risk whose planes say nothing."""

        def plane(self, scores, at):
            return Cut(np.zeros(self.n_params), 0.0, at.value)

    race = Race(candidates=(LineSearchBundle(),))
    result = minimize(
        Flat(np.eye(2), np.array([1.0, -1.0]), Hinge()), L2(1e-3), race, stop=Stop(gap_rel=1e-9, max_steps=5000)
    )
    assert result.status is Status.STALLED


def test_auto_races_where_no_rule_decides_and_a_seed_makes_it_repeatable():
    X, y = problem(0, d=1200).design.X, problem(0, d=1200).y
    risk = LinearRisk(X, y, Logistic(), fit_intercept=True)
    assert isinstance(resolve("auto", risk, L2(0.1)), Race)
    assert not resolve("auto", risk, L2(0.1)).deterministic
    assert resolve("deterministic", risk, L2(0.1)).deterministic
    settings = {"loss": "logistic", "random_state": 0, "gap_rel": 1e-10}
    fits = [LinearClassifier(lam=0.1, **settings).fit(X, y) for _ in range(2)]
    assert fits[0].coef_.tolist() == fits[1].coef_.tolist()
