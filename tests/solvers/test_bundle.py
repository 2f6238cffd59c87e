"""The bundle: bounds hold for any weights, no plane is lost by accident, limited memory keeps the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from undercut import L2, Cut
from undercut.solvers.bundle.bundle import FIRST_CAPACITY, Bundle

D = 4
REGS = {
    "plain": L2(0.3),
    "center": L2(0.3, center=np.array([1.0, -2.0, 0.5, 0.0])),
    "weights": L2(0.3, weights=np.array([0.5, 1.0, 2.0, 0.1])),
    "both": L2(0.3, center=np.array([1.0, -2.0, 0.5, 0.0]), weights=np.array([0.5, 1.0, 2.0, 0.1])),
}
regs = pytest.mark.parametrize("reg", REGS.values(), ids=REGS.keys())


def tangent(w):
    """A plane of ``R(v) = |v - 1|_1 + |v|^2 / 2``, whose infimum is positive."""
    a = np.sign(w - 1.0) + w
    value = float(np.abs(w - 1.0).sum() + 0.5 * w @ w)
    return Cut(a, value - float(a @ w), value)


def true_risk(v):
    return float(np.abs(v - 1.0).sum() + 0.5 * v @ v)


def live_planes(bundle):
    """Slopes and offsets of the planes in use."""
    live = bundle.planes.used
    return bundle.planes.A[live].copy(), bundle.planes.b[live].copy()


def model_value(bundle, w):
    A, b = live_planes(bundle)
    return float((A @ w + b).max())


def filled(reg, n, *, seed=0, lower_bound=0.0, tol=1e-12):
    """A bundle after n steps, planes where the model said."""
    bundle, rng = Bundle(reg, D, lower_bound), np.random.default_rng(seed)
    w, bound = rng.standard_normal(D), -math.inf
    for _ in range(n):
        bundle.add(tangent(w))
        w, bound, _ = bundle.minimize(tol)
    return bundle, w, bound


@regs
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12))
def test_any_weights_prove_a_bound(reg, seed, n):
    """``alpha' b - reg*(-A' alpha) <= reg(v) + max_i <a_i, v> + b_i <= J(v)`` for every v."""
    rng = np.random.default_rng(seed)
    bundle = Bundle(reg, D, 0.0)
    for _ in range(n):
        bundle.add(tangent(3.0 * rng.standard_normal(D)))
    A, b = live_planes(bundle)
    alpha = rng.dirichlet(np.ones(b.size))
    bound = float(alpha @ b) - reg.conjugate(-(alpha @ A))
    for v in 3.0 * rng.standard_normal((10, D)):
        assert bound <= reg.value(v) + model_value(bundle, v) + 1e-12
        assert model_value(bundle, v) <= true_risk(v) + 1e-12


@regs
def test_the_bound_is_the_minimum_of_the_model(reg):
    bundle, w, bound = filled(reg, 15)
    assert bound == pytest.approx(reg.value(w) + model_value(bundle, w), rel=1e-10)


@regs
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-12])
def test_a_loose_minimum_still_bounds_the_model_from_below(reg, tol):
    bundle, _, bound = filled(reg, 15, tol=tol)
    exact = bundle.minimize(1e-13).lower_bound
    assert bound <= exact + 1e-12
    assert bound >= exact - tol - 1e-12


@regs
@pytest.mark.parametrize("lower_bound", [0.0, -math.inf])
def test_adding_planes_never_lowers_the_bound(reg, lower_bound, rng):
    bundle, last = Bundle(reg, D, lower_bound), -math.inf
    for _ in range(80):
        bundle.add(tangent(3.0 * rng.standard_normal(D)))
        bound = bundle.minimize(1e-13).lower_bound
        assert bound >= last - 1e-11
        last = bound


@regs
def test_the_weights_are_a_convex_combination(reg, rng):
    bundle, *_ = filled(reg, 30)
    assert bundle.alpha.size == len(bundle)
    assert (bundle.alpha >= 0.0).all()
    assert bundle.alpha.sum() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("lower_bound", [0.0, 0.7, -3.0])
def test_a_known_lower_bound_is_a_flat_plane(lower_bound):
    bundle = Bundle(L2(1.0), D, lower_bound)
    assert len(bundle) == 1
    assert bundle.minimize(0.0).lower_bound == lower_bound


@pytest.mark.parametrize("unknown", [-math.inf, math.nan])
def test_an_unknown_lower_bound_is_no_plane(unknown):
    assert len(Bundle(L2(1.0), D, unknown)) == 0


@regs
def test_planes_with_weight_are_never_dropped(reg):
    bundle, _, bound = filled(reg, 30)
    weighted = int((bundle.alpha > 0.0).sum())
    bundle.drop_idle(0)
    assert len(bundle) >= weighted
    assert bundle.alpha.sum() == pytest.approx(1.0, abs=1e-14)
    assert bundle.minimize(1e-12).lower_bound == pytest.approx(bound, abs=1e-11)


@regs
def test_the_flat_plane_is_never_dropped(reg, rng):
    bundle = Bundle(reg, D, -100.0)  # far below: it has no weight
    for _ in range(10):
        bundle.add(tangent(rng.standard_normal(D)))
        bundle.minimize(1e-12)
        bundle.drop_idle(0)
        A, b = live_planes(bundle)
        assert (-100.0 in b[(A == 0.0).all(axis=1)]) is True


def test_a_plane_is_dropped_once_it_has_been_idle_for_too_long():
    bundle = Bundle(L2(1.0), 1)
    bundle.add(Cut(np.array([0.0]), 1.0, 1.0))
    bundle.add(Cut(np.array([0.0]), 0.0, 0.0))  # below the other everywhere
    for step in range(1, 5):
        bundle.minimize(0.0)
        bundle.drop_idle(3)
        assert len(bundle) == (2 if step <= 3 else 1)


@regs
def test_dropping_and_reusing_slots_keeps_bounds_and_model_in_step(reg, rng):
    """Slots are overwritten again and again; a stale number anywhere would show as a wrong minimum."""
    bundle = Bundle(reg, D, 0.0)
    w = rng.standard_normal(D)
    for step in range(120):
        bundle.add(tangent(w if step % 3 else 2.0 * rng.standard_normal(D)))
        w, bound, _ = bundle.minimize(1e-12)
        assert bound == pytest.approx(reg.value(w) + model_value(bundle, w), rel=1e-9, abs=1e-10)
        bundle.drop_idle(step % 4)


@regs
def test_what_is_known_at_two_points_stays_true_as_planes_come_go_and_grow(reg, rng):
    """The center stays, or becomes the last minimizer, or is a new point; slots are reused and the capacity grows."""
    bundle, center = Bundle(reg, D, 0.0), rng.standard_normal(D)
    point = center
    for step in range(4 * FIRST_CAPACITY):
        bundle.add(tangent(point + rng.standard_normal(D)))
        center = (center, point, rng.standard_normal(D))[step % 3]
        point, value = bundle.minimize_near(center, 0.5, 1e-12)
        assert value == pytest.approx(reg.value(point) + model_value(bundle, point), rel=1e-12)
        best = value + 0.25 * (reg.along(point, point - center)[1])
        for other in point + 0.1 * rng.standard_normal((5, D)):
            near = reg.value(other) + model_value(bundle, other) + 0.25 * reg.along(other, other - center)[1]
            assert near >= best - 1e-9
        if step % 50 == 49:
            bundle.drop_idle(10)


@regs
def test_growth_keeps_every_plane(reg, rng):
    n = 3 * FIRST_CAPACITY
    bundle = Bundle(reg, D, 0.0)
    cuts = [tangent(3.0 * rng.standard_normal(D)) for _ in range(n)]
    for cut in cuts:
        bundle.add(cut)
    assert len(bundle) == n + 1
    A, _ = live_planes(bundle)
    assert {tuple(a) for a in A} == {tuple(cut.a) for cut in cuts} | {(0.0,) * D}
    w, bound, _ = bundle.minimize(1e-12)
    assert bound == pytest.approx(reg.value(w) + model_value(bundle, w), rel=1e-9)


@regs
def test_growth_between_two_minimizations_does_not_change_the_bound(reg, rng):
    bundle, _, bound = filled(reg, FIRST_CAPACITY - 1)
    for _ in range(FIRST_CAPACITY):
        bundle.add(Cut(np.zeros(D), -1e3, -1e3))  # far below
    assert bundle.minimize(1e-13).lower_bound == pytest.approx(bound, abs=1e-11)


@regs
@pytest.mark.parametrize("max_planes", [1, 2, 3, 7])
@pytest.mark.parametrize("lower_bound", [0.0, -math.inf])
def test_making_room_keeps_the_combination_of_all_planes(reg, max_planes, lower_bound):
    """The aggregated plane takes over weight, slope and offset of those that leave: ``A' alpha`` and ``alpha' b``."""
    bundle, rng = Bundle(reg, D, lower_bound), np.random.default_rng(0)
    for _ in range(25):
        bundle.make_room(max_planes)
        bundle.add(tangent(2.0 * rng.standard_normal(D)))
        bundle.minimize(1e-13)
        (A, b), alpha = live_planes(bundle), bundle.alpha
        before = (alpha @ A, float(alpha @ b))
        bundle.make_room(max_planes)
        (A, b), alpha = live_planes(bundle), bundle.alpha
        assert alpha.sum() == pytest.approx(1.0, abs=1e-14)
        np.testing.assert_allclose(alpha @ A, before[0], atol=1e-12)
        assert float(alpha @ b) == pytest.approx(before[1], abs=1e-12)


@regs
@pytest.mark.parametrize("max_planes", [1, 2, 3, 7])
def test_making_room_keeps_the_bound(reg, max_planes):
    bundle, w, last = Bundle(reg, D, 0.0), np.full(D, 2.0), -math.inf
    for _ in range(40):
        bundle.make_room(max_planes)
        bundle.add(tangent(w))
        w, bound, _ = bundle.minimize(1e-13)
        assert bound >= last - 1e-11
        last = bound


@regs
@pytest.mark.parametrize("max_planes", [1, 2, 5])
def test_making_room_leaves_room_for_one_plane(reg, max_planes, rng):
    bundle = Bundle(reg, D, 0.0)
    for _ in range(30):
        bundle.make_room(max_planes)
        assert len(bundle) <= max_planes + 1  # one below the limit, the flat one and the aggregate
        bundle.add(tangent(2.0 * rng.standard_normal(D)))
        assert len(bundle) <= max_planes + 2
        bundle.minimize(1e-12)


@regs
def test_the_aggregated_plane_lies_below_the_risk(reg, rng):
    bundle, w = Bundle(reg, D, 0.0), 2.0 * rng.standard_normal(D)
    for _ in range(30):
        bundle.make_room(2)
        bundle.add(tangent(w))
        w = bundle.minimize(1e-12).w
        for v in 2.0 * rng.standard_normal((5, D)):
            assert model_value(bundle, v) <= true_risk(v) + 1e-11


def test_a_center_moves_the_problem_and_nothing_else(rng):
    """``w -> w - center``: planes move along, the bound stays."""
    center = rng.standard_normal(D)
    plain, moved = Bundle(L2(0.3), D), Bundle(L2(0.3, center=center), D)
    for _ in range(20):
        cut = tangent(rng.standard_normal(D))
        plain.add(cut)
        moved.add(Cut(cut.a, cut.b - float(cut.a @ center), cut.value))
        here, there = plain.minimize(1e-13), moved.minimize(1e-13)
        assert here.lower_bound == pytest.approx(there.lower_bound, abs=1e-11)
        np.testing.assert_allclose(here.w, there.w - center, atol=1e-5)
