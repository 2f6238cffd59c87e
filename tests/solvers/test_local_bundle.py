"""LocalBundle: after every step its planes leave room at the best point, and the new one improves the model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from undercut import L2, FunctionRisk, NonconvexBundle
from undercut.solvers.nonconvex.local_bundle import Kind, LocalBundle, Trial

SEARCHES = [None, "greedy", "full", "single"]


def wavy(seed, d):
    """Waves and creases on a slope: every kind of step happens."""
    rng = np.random.default_rng(seed)
    ways, phase, tilt = 3.0 * rng.standard_normal((3, d)), rng.uniform(0.0, 6.0, 3), rng.standard_normal(d)
    crease = rng.standard_normal(d)

    def fun(w):
        at = ways @ w + phase
        fold = crease @ w - 0.3
        slope = np.cos(at) @ ways + tilt - 0.5 * np.sign(fold) * crease
        return float(np.sin(at).sum() + tilt @ w - 0.5 * abs(fold)), slope

    return FunctionRisk(fun, d, convex=False)


def trial_at(risk, reg, w):
    cut = risk.cut(w)
    return Trial(w, cut, reg.value(w) + cut.value)


def room_left(bundle, best):
    """``R(w*) - <a, w*> - b - s`` of every plane but the flat one, which lies below R everywhere."""
    live = bundle.planes.live[bundle.planes.live != bundle.planes.flat]
    return best.cut.value - bundle.planes.A[live] @ best.w - bundle.planes.b[live] - bundle.locality[live]


def newest(bundle, before):
    """The slot a plane was just added to."""
    (slot,) = set(bundle.planes.live.tolist()) - set(before)
    return slot


def filled(seed, d, n, lower_bound=-math.inf, *, aggregate_every=0, lam=0.5):
    """A bundle that has absorbed n random trials, and all that happened."""
    rng = np.random.default_rng([seed, 7])
    risk, reg = wavy(seed, d), L2(lam, center=rng.standard_normal(d), weights=rng.uniform(0.5, 2.0, d))
    best = trial_at(risk, reg, rng.standard_normal(d))
    bundle = LocalBundle(reg, d, lower_bound)
    bundle.add(best.cut)
    for at in range(n):
        trial = trial_at(risk, reg, best.w + rng.standard_normal(d) * rng.choice([0.01, 0.3, 2.0]))
        before = bundle.planes.live.tolist()
        kind = bundle.absorb(trial, best)
        yield bundle, kind, trial, best, newest(bundle, before)
        best = trial if trial.objective < best.objective else best
        if aggregate_every and at % aggregate_every == 0:
            bundle.minimize(1e-12)
            bundle.aggregate()


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 4), aggregate_every=st.integers(0, 3))
def test_every_plane_leaves_its_room_at_the_best_point(seed, d, aggregate_every):
    """Conditions (14) and (15), whatever was absorbed and aggregated before."""
    for bundle, _, trial, last, _ in filled(seed, d, 12, -50.0, aggregate_every=aggregate_every):
        best = trial if trial.objective < last.objective else last
        assert (room_left(bundle, best) >= -1e-9 * max(1.0, abs(best.objective))).all()
        assert (bundle.locality[bundle.planes.live] >= 0.0).all()


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 4))
def test_the_plane_of_a_null_step_lifts_the_model_at_the_trial_to_the_best_value(seed, d):
    """Condition (16)."""
    for bundle, kind, trial, best, slot in filled(seed, d, 12, aggregate_every=2):
        if kind is not Kind.DESCENT:
            lifted = bundle.reg.value(trial.w) + bundle.planes.A[slot] @ trial.w + bundle.planes.b[slot]
            assert lifted >= best.objective - 1e-9 * max(1.0, abs(best.objective))


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 4))
def test_a_step_descends_exactly_where_the_trial_is_better(seed, d):
    for bundle, kind, trial, best, slot in filled(seed, d, 12):
        assert (kind is Kind.DESCENT) == (trial.objective < best.objective)
        if kind is Kind.DESCENT:  # the plane is taken as it is
            np.testing.assert_array_equal(bundle.planes.A[slot], trial.cut.a)
            assert bundle.planes.b[slot] == trial.cut.b
            assert bundle.locality[slot] == 0.0
        else:
            M = bundle.reg.lam * bundle.reg.weights**2
            assert bundle.locality[slot] == pytest.approx(0.5 * M @ (trial.w - best.w) ** 2, rel=1e-12)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 4))
def test_a_null_step_leaves_the_other_planes_alone_and_a_descent_step_only_lowers_them(seed, d):
    last = {}
    for bundle, kind, trial, best, slot in filled(seed, d, 12):
        for at, (a, b, s) in last.items():
            np.testing.assert_array_equal(bundle.planes.A[at], a)
            if kind is Kind.DESCENT:
                length = 0.5 * (bundle.reg.lam * bundle.reg.weights**2) @ (trial.w - best.w) ** 2
                assert bundle.locality[at] == pytest.approx(s + length, rel=1e-12)
                assert bundle.planes.b[at] == pytest.approx(
                    min(b, trial.cut.value - a @ trial.w - bundle.locality[at]), rel=1e-12, abs=1e-12
                )
            else:
                assert (bundle.planes.b[at], bundle.locality[at]) == (b, s)
        last = {
            at: (bundle.planes.A[at].copy(), bundle.planes.b[at], bundle.locality[at])
            for at in bundle.planes.live
            if at != slot
        }
        last[slot] = bundle.planes.A[slot].copy(), bundle.planes.b[slot], bundle.locality[slot]


def kinds_met(seeds):
    return {kind for seed in seeds for _, kind, *_ in filled(seed, 2, 12)}


def test_every_kind_of_step_is_met_by_these_tests():
    assert kinds_met(range(30)) == set(Kind)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 3))
def test_a_replaced_plane_makes_the_model_smallest_at_the_best_point(seed, d):
    """Algorithm 6, line 6: the plane's own quadratic has its minimum at w*, ``s`` below J(w*)."""
    for bundle, kind, _, best, slot in filled(seed, d, 12):
        if kind is Kind.NULL2:
            np.testing.assert_allclose(
                bundle.reg.conjugate_argmax(-bundle.planes.A[slot]), best.w, rtol=1e-9, atol=1e-9
            )
            lowest = bundle.reg.value(best.w) + bundle.planes.A[slot] @ best.w + bundle.planes.b[slot]
            assert lowest == pytest.approx(best.objective - bundle.locality[slot], rel=1e-9, abs=1e-9)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 4), lower_bound=st.sampled_from([-math.inf, -50.0]))
def test_the_aggregated_plane_keeps_the_minimum_of_the_model(seed, d, lower_bound):
    for bundle, *_ in filled(seed, d, 10, lower_bound, aggregate_every=3):
        model = bundle.minimize(1e-13)
        bundle.aggregate()
        slot = bundle.planes.aggregate
        size = 1e-8 * max(1.0, abs(model.lower_bound))
        assert bundle.planes.b[slot] - bundle.reg.conjugate(-bundle.planes.A[slot]) == pytest.approx(
            model.lower_bound, abs=size
        )
        again = bundle.minimize(1e-13)
        assert again.lower_bound == pytest.approx(model.lower_bound, abs=size)
        np.testing.assert_allclose(again.w, model.w, atol=1e-4)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 4), max_planes=st.integers(1, 4))
def test_the_aggregated_plane_stands_in_for_all_that_is_dropped(seed, d, max_planes):
    """Right after an aggregation every other plane may go: the minimum of the model stays."""
    bundle, *_ = list(filled(seed, d, 12, -50.0, aggregate_every=4))[-1]
    model = bundle.minimize(1e-13)
    bundle.aggregate()
    bundle.make_room(max_planes)
    assert len(bundle) <= max_planes - 1 + 2
    again = bundle.minimize(1e-13)
    assert again.lower_bound == pytest.approx(model.lower_bound, abs=1e-7 * max(1.0, abs(model.lower_bound)))


def test_there_is_one_aggregated_plane():
    bundle, *_ = list(filled(0, 3, 40, -50.0, aggregate_every=1))[-1]
    assert len(bundle) == 1 + 1 + 40 + 1  # flat, first, absorbed, aggregated
    assert bundle.planes.kept.sum() == 2


def test_the_flat_plane_is_never_lowered():
    """It lies below the risk everywhere, near the best point or not."""
    for bundle, *_ in filled(1, 2, 60, -50.0, aggregate_every=1):
        assert bundle.planes.b[bundle.planes.flat] == -50.0
        assert bundle.locality[bundle.planes.flat] == 0.0
        assert not bundle.planes.A[bundle.planes.flat].any()


def test_more_planes_than_the_first_capacity_keep_their_locality():
    bundle, _, trial, last, _ = list(filled(2, 2, 90))[-1]
    best = trial if trial.objective < last.objective else last
    assert bundle.locality.size == bundle.planes.b.size >= 91
    assert (room_left(bundle, best) >= -1e-9).all()


@pytest.mark.parametrize("line_search", SEARCHES)
@pytest.mark.parametrize("max_planes", [1, 3, 200])
@pytest.mark.parametrize("seed", range(4))
def test_the_conditions_hold_at_every_step_of_a_run(line_search, max_planes, seed):
    """Where planes are dropped and slots used again too."""
    risk, reg = wavy(seed, 2), L2(0.5)
    solver = NonconvexBundle(line_search=line_search, max_planes=max_planes)
    state = solver.init(risk, reg, np.zeros(2))
    for _ in range(40):
        state = solver.step(risk, reg, state)
        assert (room_left(state.bundle, state.best) >= -1e-9 * max(1.0, abs(state.best.objective))).all()
        assert state.progress.gap >= 0.0


@pytest.mark.parametrize("max_planes", [1, 2, 200])
def test_the_gap_never_widens_in_a_row_of_null_steps(max_planes):
    """The best point stays and the model only improves, planes dropped or not (Prop. 1)."""
    seen = 0
    for seed in range(6):
        risk, reg = wavy(seed, 2), L2(0.5)
        solver = NonconvexBundle(max_planes=max_planes, master_accuracy=0.0)
        state = solver.init(risk, reg, np.zeros(2))
        for _ in range(40):
            last, state = state.progress, solver.step(risk, reg, state)
            if state.progress.n_descent == last.n_descent:
                seen += 1
                assert state.progress.gap <= last.gap + 1e-8 * max(1.0, abs(last.objective))
    assert seen > 10
