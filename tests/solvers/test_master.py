"""The master problem ``min 1/2 alpha' H alpha - b' alpha`` on the simplex, over every kind of planes we could think of.

For a feasible alpha with gradient ``g = H alpha - b`` the number ``alpha'g - min g`` bounds how far alpha is from the
optimum, so every solution is checked by itself; a conic solver has the second word.
"""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from undercut.solvers.bundle.master import Master

EPS = np.finfo(np.float64).eps
ROUNDING = 1e-11  # of a gradient, relative to the numbers it is made of
LAMBDAS = [1e-9, 1e-6, 1e-3, 1.0, 1e3]
SLOTS = 64


def draw_planes(kind: str, rng: np.random.Generator, k: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """k planes ``<a, w> + b`` over d parameters."""
    A, b = rng.standard_normal((k, d)), rng.standard_normal(k)
    some = rng.integers(0, max(1, k // 3), k)
    if kind == "same_slopes":
        A = A[some]
    elif kind == "duplicates":
        A, b = A[some], b[some]
    elif kind == "norms":
        A *= 10.0 ** rng.uniform(-6, 6, (k, 1))
    elif kind == "scaled":
        scale = 10.0 ** rng.uniform(-6, 6, k)
        A, b = A * scale[:, None], b * scale
    elif kind == "flat":
        A[some] = 0.0
    elif kind == "all_flat":
        A[:] = 0.0
    elif kind == "parallel":
        A[:] = A[0]
    elif kind == "collinear":
        A = np.outer(A[:, 0], A[0])
    elif kind == "aggregated":
        for i in range(1, k):
            if i % 2:
                share = rng.dirichlet(np.ones(i))
                A[i], b[i] = share @ A[:i], share @ b[:i]
    elif kind == "nearly_dependent":
        noise = 10.0 ** rng.uniform(-14, -4, (k, 1))
        A, b = A[some] + noise * A, b[some] + noise[:, 0] * b
    elif kind == "integers":
        A, b = np.round(A), np.round(b)
    elif kind == "tangents":  # of |v|^2 / 2 at points ever closer together
        points = A[0] + 10.0 ** np.linspace(0, -8, k)[:, None] * A
        A, b = points, -0.5 * (points**2).sum(axis=1)
    elif kind == "separable":  # of a hinge loss: most planes alike, an optimum far away
        margins = 1.0 + np.abs(A)
        A, b = -margins / d, 1.0 - 1e-3 * np.abs(b)
    return A, b


KINDS = [
    "random", "same_slopes", "duplicates", "norms", "scaled", "flat", "all_flat", "parallel", "collinear",
    "aggregated", "nearly_dependent", "integers", "tangents", "separable",
]  # fmt: skip


def gap_and_rounding(H, b, live, alpha):
    """``alpha'g - min g`` in extended precision, and what double precision makes of numbers of that size."""
    H, b, alpha = (v.astype(np.longdouble) for v in (H[np.ix_(live, live)], b[live], alpha[live]))
    g = H @ alpha - b
    return float(alpha @ g - g.min()), ROUNDING * float((np.abs(H) @ alpha).max() + np.abs(b).max())


def assert_feasible(alpha, live):
    assert np.isfinite(alpha).all()
    assert (alpha >= 0.0).all()
    assert abs(alpha.sum() - 1.0) <= 16 * EPS
    assert abs(alpha[live].sum() - 1.0) <= 16 * EPS  # nothing outside


def dual_value(A, b, lam, alpha):
    """From the planes, whose rounding is that of their norm, not of its square."""
    z = alpha @ A
    return float(alpha @ b - 0.5 * z @ z / lam)


def conic_solution(A, b, lam):
    """A feasible alpha from Clarabel, which sees ``z = A' alpha / sqrt(lam)`` instead of the Gram matrix."""
    (k, d), scale = A.shape, float(np.abs(b).max()) or 1.0
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    P = sp.diags_array(np.r_[np.zeros(k), np.full(d, 1.0 / scale)], format="csc")
    rows = np.block(
        [[A.T / np.sqrt(lam), -np.eye(d)], [np.ones((1, k)), np.zeros((1, d))], [-np.eye(k), np.zeros((k, d))]]
    )
    right = np.r_[np.zeros(d), 1.0, np.zeros(k)]
    cones = [clarabel.ZeroConeT(d + 1), clarabel.NonnegativeConeT(k)]
    solver = clarabel.DefaultSolver(P, np.r_[-b / scale, np.zeros(d)], sp.csc_array(rows), right, cones, settings)
    weights = np.nan_to_num(np.maximum(np.array(solver.solve().x)[:k], 0.0))
    return weights / weights.sum() if weights.sum() > 0.0 else np.full(k, 1.0 / k)


class Sequence:
    """Planes that come, go and reuse slots, the way a bundle does it."""

    def __init__(self, kind, seed, lam, k, d):
        self.rng, self.lam = np.random.default_rng(seed), lam
        self.A, self.planes_b = draw_planes(kind, self.rng, k, d)
        self.H, self.b = np.zeros((SLOTS, SLOTS)), np.zeros(SLOTS)
        self.holder = np.full(SLOTS, -1)  # which plane is in a slot
        self.master = Master(SLOTS)
        self.put(0)
        self.master.alpha[0] = 1.0

    @property
    def live(self):
        return np.flatnonzero(self.holder >= 0)

    def put(self, plane):
        slot = int(np.flatnonzero(self.holder < 0)[0])
        self.holder[slot] = plane
        live = self.live
        self.H[slot, live] = self.H[live, slot] = self.A[self.holder[live]] @ self.A[plane] / self.lam
        self.b[slot] = self.planes_b[plane]

    def drop_some(self):
        idle = self.live[self.master.alpha[self.live] == 0.0]
        self.holder[idle[self.rng.random(idle.size) < 0.5]] = -1

    def solve(self, accuracy):
        """Solve, and check that the gap proves optimality or, where it cannot, that a conic solver does no better."""
        live, alpha = self.live, self.master.alpha
        A, b, size = self.A[self.holder[live]], self.b[live], float(np.abs(self.b[live]).max())
        self.master.solve(self.H, self.b, live, accuracy * size)
        assert_feasible(alpha, live)
        gap, rounding = gap_and_rounding(self.H, self.b, live, alpha)
        if gap > accuracy * size + rounding:
            best = dual_value(A, b, self.lam, conic_solution(A, b, self.lam))
            assert dual_value(A, b, self.lam, alpha[live]) >= best - accuracy * size - 1e-8 * (abs(best) + size)


# A Gram matrix squares the spread of the norms: beyond 1e16 the difference of two planes is lost in it.
CASES = [(kind, lam) for kind in KINDS for lam in LAMBDAS if lam >= 1e-3 or kind not in ("norms", "scaled")]


@pytest.mark.parametrize(("kind", "lam"), CASES)
@given(
    seed=st.integers(0, 2**32),
    k=st.integers(1, 40),
    d=st.integers(1, 12),
    accuracy=st.sampled_from([1e-3, 1e-9, 1e-15]),
)
@settings(max_examples=12)
def test_every_solution_of_a_sequence_is_optimal_to_its_tolerance(kind, lam, seed, k, d, accuracy):
    sequence = Sequence(kind, seed, lam, k, d)
    sequence.solve(accuracy)
    for plane in range(1, k):
        sequence.put(plane)
        if sequence.rng.random() < 0.8:
            sequence.solve(accuracy)
        if sequence.rng.random() < 0.4:
            sequence.drop_some()
    sequence.solve(accuracy)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lam", [1e-3, 1.0, 1e3])
def test_a_conic_solver_finds_nothing_better(kind, lam):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        k, d = 12, 5
        A, b = draw_planes(kind, rng, k, d)
        H, live, master = A @ A.T / lam, np.arange(k), Master(k)
        master.alpha[0] = 1.0
        master.solve(H, b, live, 1e-12)
        _, rounding = gap_and_rounding(H, b, live, master.alpha)
        best = dual_value(A, b, lam, conic_solution(A, b, lam))
        assert dual_value(A, b, lam, master.alpha) >= best - 1e-12 - max(rounding, 1e-9 * (abs(best) + np.abs(b).max()))


@pytest.mark.parametrize("kind", KINDS)
def test_solving_again_changes_nothing_that_matters(kind):
    A, b = draw_planes(kind, np.random.default_rng(1), 15, 4)
    H, live, master = A @ A.T, np.arange(15), Master(15)
    master.alpha[0] = 1.0
    master.solve(H, b, live, 1e-10)
    first = dual_value(A, b, 1.0, master.alpha)
    for _ in range(5):
        master.solve(H, b, live, 1e-10)
        _, rounding = gap_and_rounding(H, b, live, master.alpha)
        assert dual_value(A, b, 1.0, master.alpha) >= first - rounding


def test_a_single_plane_has_all_the_weight():
    master = Master(4)
    master.alpha[2] = 1.0
    master.solve(np.zeros((4, 4)), np.zeros(4), np.array([2]), 0.0)
    assert master.alpha.tolist() == [0.0, 0.0, 1.0, 0.0]


def test_without_slopes_the_highest_plane_has_all_the_weight():
    master, b = Master(3), np.array([0.3, 0.7, -1.0])
    master.alpha[0] = 1.0
    master.solve(np.zeros((3, 3)), b, np.arange(3), 0.0)
    np.testing.assert_allclose(master.alpha, [0.0, 1.0, 0.0], atol=1e-15)


def test_two_opposite_planes_share_the_weight():
    """``|w|``: slopes +1 and -1, the minimum in the middle."""
    master = Master(2)
    master.alpha[0] = 1.0
    master.solve(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros(2), np.arange(2), 0.0)
    np.testing.assert_allclose(master.alpha, [0.5, 0.5], atol=1e-15)


def test_slots_out_of_use_are_ignored():
    """Their numbers may be left over from planes long gone."""
    H, b = np.diag([1.0, 1e9, 1.0]), np.array([0.0, 1e9, 0.0])
    H[1, :], H[:, 1] = 1e9, 1e9
    master = Master(3)
    master.alpha[0] = 1.0
    master.solve(H, b, np.array([0, 2]), 1e-15)
    np.testing.assert_allclose(master.alpha, [0.5, 0.0, 0.5], atol=1e-15)


def test_more_room_keeps_the_weights(rng):
    A, b = draw_planes("random", rng, 8, 3)
    H, live, master = A @ A.T, np.arange(8), Master(8)
    master.alpha[0] = 1.0
    master.solve(H, b, live, 1e-13)
    alpha = master.alpha.copy()
    master.grow(16)
    np.testing.assert_array_equal(master.alpha[:8], alpha)
    assert (master.alpha[8:] == 0.0).all()
    master.solve(np.pad(H, (0, 8)), np.pad(b, (0, 8)), live, 1e-13)
    np.testing.assert_allclose(master.alpha[:8], alpha, atol=1e-10)


def test_a_start_from_any_feasible_point_reaches_the_optimum(rng):
    A, b = draw_planes("random", rng, 20, 6)
    H, live, master = A @ A.T, np.arange(20), Master(20)
    for _ in range(20):
        master.reset(rng.dirichlet(np.full(20, 0.2)))
        master.solve(H, b, live, 1e-12)
        assert_feasible(master.alpha, live)
        gap, rounding = gap_and_rounding(H, b, live, master.alpha)
        assert gap <= 1e-12 + rounding
