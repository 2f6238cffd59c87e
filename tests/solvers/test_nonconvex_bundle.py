"""NonconvexBundle is Algorithms 4-6 of the paper, ends at stationary points, and brackets the optimum of a convex J."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from scipy.optimize import nnls
from tests.catalogue import ALL, Problem

from undercut import L2, FunctionRisk, LinearRisk, NonconvexBundle, Ramp, Status, Stop, minimize
from undercut.errors import ParameterError
from undercut.problems import PROBLEMS
from undercut.risks import TransductiveRisk
from undercut.solvers.auto import resolve

SEARCHES = [None, "greedy", "full", "single"]
NONCONVEX = [name for name, problem in PROBLEMS.items() if not problem.convex]
searches = pytest.mark.parametrize("line_search", SEARCHES, ids=["plain", "greedy", "full", "single"])


# The tables of the paper


@pytest.mark.parametrize(
    ("d", "lam", "n_evaluations", "objective"),
    [
        (100, 0.5, 20, "-8.163"),
        (100, 1.0, 8, "24.93"),
        (1000, 0.5, 19, "-83.16"),
        (1000, 1.0, 7, "250.0"),
        (10_000, 1.0, 6, "2500"),
    ],
)
def test_without_line_search_the_evaluations_of_table_2_are_counted(d, lam, n_evaluations, objective):
    problem = PROBLEMS["chained_mifflin_2"]
    w0 = problem.start(d)
    result = minimize(problem.risk(d), L2(lam, center=w0), NonconvexBundle(), w0=w0, stop=Stop(gap_rel=1e-3))
    assert result.status is Status.CONVERGED
    assert result.certificate == "local"
    assert result.n_evaluations == n_evaluations
    assert f"{result.objective:#.4g}".rstrip(".") == objective


@pytest.mark.parametrize("lam", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("d", [100, 1000])
def test_a_greedy_search_saves_evaluations_there(d, lam):
    problem = PROBLEMS["chained_mifflin_2"]
    w0 = problem.start(d)
    plain, greedy = (
        minimize(problem.risk(d), L2(lam, center=w0), NonconvexBundle(line_search=kind), w0=w0)
        for kind in (None, "greedy")
    )
    assert plain.status is greedy.status is Status.CONVERGED
    assert greedy.n_evaluations < plain.n_evaluations
    assert greedy.objective <= plain.objective + 2e-3 * abs(plain.objective)


# The algorithms as printed, once more


def simplex_qp(H, b):
    """``argmin 1/2 alpha' H alpha - b' alpha`` on the simplex, by Clarabel."""
    n, scale = b.size, max(np.abs(H).max(), np.abs(b).max())
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    rows = sp.csc_matrix(np.vstack([np.ones((1, n)), -np.eye(n)]))
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(n)]
    P, right = sp.csc_matrix(np.triu(H / scale)), np.r_[1.0, np.zeros(n)]
    alpha = np.maximum(clarabel.DefaultSolver(P, -b / scale, rows, right, cones, settings).solve().x, 0.0)
    return alpha / alpha.sum()


@dataclass
class Printed:
    """NRBM with every plane kept, line by line as in Algorithms 4 to 6; w is measured from zero."""

    fun: object
    lam: float
    w: np.ndarray
    planes: list = field(default_factory=list)  # [a, b, s], the aggregated plane first
    rows: list = field(default_factory=list)  # (objective, gap, kind)

    def evaluate(self, w):
        value, a = self.fun(w)
        return value + 0.5 * self.lam * w @ w, value, a

    def run(self, n_steps):
        f, R, a = self.evaluate(self.w)
        self.best, self.f, self.R = self.w, f, R
        self.planes = [[a, R - a @ self.w, 0.0], [a, R - a @ self.w, 0.0]]
        target = -a / self.lam
        for _ in range(n_steps):
            kind = self.update_bundle(target)
            target, gap = self.minimize_approximation()
            self.rows.append((self.f, gap, kind))
        return self.rows

    def update_bundle(self, w):
        f, R, a = self.evaluate(w)
        s = 0.5 * self.lam * (w - self.best) @ (w - self.best)
        if f < self.f:
            for plane in self.planes:
                plane[2] += s
                plane[1] = min(plane[1], R - plane[0] @ w - plane[2])
            self.planes.append([a, R - a @ w, 0.0])
            self.best, self.f, self.R = w, f, R
            return "descent"
        b, upper, kind = R - a @ w, self.R - a @ self.best - s, "null"
        if b > upper:
            b = self.f - 0.5 * self.lam * w @ w - a @ w
            if b > upper:
                kind, a = "null2", -self.lam * self.best
                b = self.f - 0.5 * self.lam * w @ w - a @ w
        self.planes.append([a, b, s])
        return kind

    def minimize_approximation(self):
        A, b, s = (np.array(column) for column in zip(*self.planes, strict=True))
        alpha = simplex_qp(A @ A.T / self.lam, b)
        a, offset = alpha @ A, alpha @ b
        self.planes[0] = [a, offset, alpha @ s]
        return -a / self.lam, self.f - offset + a @ a / (2.0 * self.lam)


def bowls(rng, d):
    """A sum of minima and maxima of three parabolas each."""
    m = int(rng.integers(1, 4))
    centers, bend, offset = rng.standard_normal((m, 3, d)), rng.uniform(0.2, 2.0, (m, 3)), rng.standard_normal((m, 3))
    lowest = rng.random(m) < 0.6

    def fun(w):
        value, a = 0.0, np.zeros(d)
        for c, k, o, low in zip(centers, bend, offset, lowest, strict=True):
            values = k * ((w - c) ** 2).sum(axis=1) + o
            at = values.argmin() if low else values.argmax()
            value, a = value + values[at], a + 2.0 * k[at] * (w - c[at])
        return float(value), a

    return fun


def waves(rng, d):
    """Waves on a slope: a step may land in another valley, where the slope says nothing about this one."""
    ways, phase = 3.0 * rng.standard_normal((3, d)), rng.uniform(0.0, 6.0, 3)
    tilt = rng.standard_normal(d)

    def fun(w):
        at = ways @ w + phase
        return float(np.sin(at).sum() + tilt @ w), np.cos(at) @ ways + tilt

    return fun


def creases(rng, d):
    """A sum of absolute values, some of them subtracted."""
    m = int(rng.integers(2, 7))
    ways, at, share = rng.standard_normal((m, d)), rng.standard_normal(m), rng.choice([1.0, 1.0, -0.6], m)

    def fun(w):
        off = ways @ w - at
        return float(share @ np.abs(off)), (share * np.sign(off)) @ ways

    return fun


def ramps(rng, d):
    """A robust classifier of few samples."""
    risk = LinearRisk(rng.standard_normal((7, d)), rng.choice([-1.0, 1.0], 7), Ramp(floor=-0.5))

    def fun(w):
        cut = risk.cut(w)
        return cut.value, cut.a

    return fun


FAMILIES = {"bowls": bowls, "waves": waves, "creases": creases, "ramps": ramps}


def draw(family, seed):
    """A random function, its number of parameters, and a start."""
    rng = np.random.default_rng([seed, len(family)])
    d = int(rng.integers(1, 4))
    return FAMILIES[family](rng, d), d, rng.standard_normal(d)


def kinds_of(trace):
    names = ("n_descent", "n_null", "n_null2")
    return [name[2:] for last, now in pairwise(trace) for name in names if getattr(now, name) > getattr(last, name)]


def same_as_printed(family, seed, lam, n_steps):
    fun, d, w0 = draw(family, seed)
    expected = Printed(fun, lam, w0).run(n_steps)
    solver, stop = NonconvexBundle(master_accuracy=0.0), Stop(gap_rel=0.0, max_steps=n_steps)
    result = minimize(FunctionRisk(fun, d, convex=False), L2(lam), solver, w0=w0, stop=stop)
    return expected, result


@pytest.mark.parametrize("family", ["bowls", "waves"])
@pytest.mark.parametrize("seed", range(15))
def test_the_steps_are_those_of_the_algorithm_as_printed(family, seed):
    lam, n_steps = [0.3, 1.0, 5.0][seed % 3], 8
    expected, result = same_as_printed(family, seed, lam, n_steps)
    objectives, gaps, kinds = zip(*expected, strict=True)
    n = len(result.trace) - 1  # fewer where the gap is exactly zero
    assert kinds_of(result.trace) == list(kinds)[:n]
    np.testing.assert_allclose([row.objective for row in result.trace[1:]], objectives[:n], rtol=1e-6, atol=1e-8)
    size = 1e-7 * max(1.0, *np.abs(objectives))
    np.testing.assert_allclose([row.gap for row in result.trace[1:]], gaps[:n], rtol=1e-3, atol=size)


def test_the_comparison_with_the_printed_algorithm_meets_every_kind_of_step():
    kinds = {
        kind for seed in range(15) for _, _, kind in same_as_printed("waves", seed, [0.3, 1.0, 5.0][seed % 3], 8)[0]
    }
    assert kinds == {"descent", "null", "null2"}


def test_every_evaluation_is_a_descent_or_a_null_step():
    for family in FAMILIES:
        for line_search in SEARCHES:
            fun, d, w0 = draw(family, 3)
            solver = NonconvexBundle(line_search=line_search)
            result = minimize(FunctionRisk(fun, d, convex=False), L2(0.5), solver, w0=w0, stop=Stop(max_steps=40))
            for row in result.trace:
                assert row.n_evaluations == 1 + row.n_descent + row.n_null + row.n_null2


def test_a_center_and_weights_are_a_change_of_variables(rng):
    fun, d, _ = draw("bowls", 5)
    center, weights = rng.standard_normal(d), rng.uniform(0.5, 2.0, d)

    def moved(v):
        value, a = fun(center + v / weights)
        return value, a / weights

    stop = Stop(gap_rel=1e-4, max_steps=40)
    solver = NonconvexBundle(master_accuracy=0.0)
    there = minimize(FunctionRisk(moved, d, convex=False), L2(0.5), solver, stop=stop)
    risk, reg = FunctionRisk(fun, d, convex=False), L2(0.5, center=center, weights=weights)
    here = minimize(risk, reg, solver, stop=stop)
    assert here.n_evaluations == there.n_evaluations
    np.testing.assert_allclose([r.objective for r in here.trace], [r.objective for r in there.trace], rtol=1e-6)
    np.testing.assert_allclose(here.w, center + there.w / weights, rtol=1e-4, atol=1e-6)


# Stationary points


def distance_from_stationary(fun, lam, w, radius, rng):
    """The smallest convex combination of gradients of J within ``radius``, and the largest of these gradients."""
    steps = rng.standard_normal((300, w.size))
    steps *= radius * (rng.random((300, 1)) ** (1.0 / w.size)) / np.linalg.norm(steps, axis=1, keepdims=True)
    points = np.vstack([w, w + steps])
    G = np.array([fun(v)[1] + lam * v for v in points])
    largest = float(np.linalg.norm(G, axis=1).max())
    force = 1e4 * max(1.0, largest)
    alpha, _ = nnls(np.vstack([G.T, np.full(len(G), force)]), np.r_[np.zeros(w.size), force])
    return float(np.linalg.norm(alpha @ G)), largest


@searches
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=12)
@given(seed=st.integers(0, 10**6), lam=st.sampled_from([0.1, 0.5, 3.0]))
def test_the_solution_is_stationary(line_search, family, seed, lam):
    """The gap is ``1/2 lam |w - model's minimizer|^2`` plus the mean squared distance of the planes, as energies."""
    fun, d, w0 = draw(family, seed)
    risk = FunctionRisk(fun, d, convex=False)
    stop = Stop(gap_rel=0.0, gap_abs=1e-7, max_evaluations=400)
    result = minimize(risk, L2(lam), NonconvexBundle(line_search=line_search), w0=w0, stop=stop)
    assert result.objective == pytest.approx(fun(result.w)[0] + 0.5 * lam * result.w @ result.w, rel=1e-12, abs=1e-12)
    assert result.objective <= fun(w0)[0] + 0.5 * lam * w0 @ w0
    if result.status is Status.CONVERGED:
        radius = 10.0 * math.sqrt(2.0 * 1e-7 / lam)
        off, largest = distance_from_stationary(fun, lam, result.w, radius, np.random.default_rng(seed))
        assert off <= 10.0 * math.sqrt(2.0 * 1e-7 * lam) + 1e-2 * largest


def stationary_points_on_a_line(ways, at, share, lam):
    """Of ``lam/2 w^2 + sum_i share_i |ways_i w - at_i|``: vertices of its pieces, and kinks whose slopes enclose 0."""
    kinks = np.unique(at / ways)
    edges = np.r_[-np.inf, kinks, np.inf]
    middles = np.r_[kinks[0] - 1.0, 0.5 * (kinks[1:] + kinks[:-1]), kinks[-1] + 1.0]
    slopes = np.array([(share * np.sign(ways * m - at)) @ ways for m in middles])
    vertices = [-s / lam for s, low, high in zip(slopes, edges[:-1], edges[1:], strict=True) if low < -s / lam < high]
    enclosing = [
        kink
        for kink, left, right in zip(kinks, slopes[:-1], slopes[1:], strict=True)
        if min(left, right) <= -lam * kink <= max(left, right)
    ]
    return np.array(vertices + enclosing)


@searches
@given(
    seed=st.integers(0, 10**6), m=st.integers(1, 6), lam=st.sampled_from([0.05, 0.5, 3.0]), start=st.floats(-4.0, 4.0)
)
def test_on_a_line_the_solution_is_one_of_the_stationary_points(line_search, seed, m, lam, start):
    rng = np.random.default_rng(seed)
    ways, at, share = rng.uniform(0.3, 2.0, m), rng.standard_normal(m), rng.uniform(-1.0, 2.0, m)

    def fun(w):
        off = ways * w[0] - at
        return float(share @ np.abs(off)), np.array([(share * np.sign(off)) @ ways])

    stop = Stop(gap_rel=0.0, gap_abs=1e-8, max_evaluations=500)
    solver = NonconvexBundle(line_search=line_search)
    result = minimize(FunctionRisk(fun, 1, convex=False), L2(lam), solver, w0=np.array([start]), stop=stop)
    assert result.status is Status.CONVERGED
    known = stationary_points_on_a_line(ways, at, share, lam)
    assert np.abs(known - result.w).min() <= 10.0 * math.sqrt(2.0 * 1e-8 / lam)


@pytest.mark.parametrize("line_search", ["greedy", "full"])
def test_two_trials_a_rounding_apart_do_not_make_a_point_stationary(line_search):
    """The last step's length is the full step but for rounding, so both trials of a search are all but one point.

    Which of their values is smaller is a matter of rounding then, and a second null step between them closes the gap.
    """
    rng = np.random.default_rng(6)
    ways, at, share = rng.uniform(0.3, 2.0, 6), rng.standard_normal(6), rng.uniform(-1.0, 2.0, 6)

    def fun(w):
        off = ways * w[0] - at
        return float(share @ np.abs(off)), np.array([(share * np.sign(off)) @ ways])

    result = run(fun, 1, 3.0, line_search, np.zeros(1), gap_rel=1e-4)
    slope = fun(result.w)[1] + 3.0 * result.w
    step = 0.05 * -np.sign(slope)
    ahead = fun(result.w + step)[0] + 1.5 * float((result.w + step) @ (result.w + step))
    assert result.objective <= ahead


@searches
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), lam=st.sampled_from([0.5, 3.0]))
def test_a_start_at_the_solution_stays_there(line_search, family, seed, lam):
    fun, d, w0 = draw(family, seed)
    risk, solver = FunctionRisk(fun, d, convex=False), NonconvexBundle(line_search=line_search)
    first = minimize(risk, L2(lam), solver, w0=w0, stop=Stop(gap_rel=0.0, gap_abs=1e-7, max_evaluations=400))
    again = minimize(risk, L2(lam), solver, w0=first.w, stop=Stop(gap_rel=0.0, gap_abs=1e-6, max_evaluations=400))
    assert again.objective <= first.objective
    if first.status is Status.CONVERGED and is_valley(fun, lam, first.w):
        assert again.objective >= first.objective - 1e-5 * max(1.0, abs(first.objective))
        assert np.linalg.norm(again.w - first.w) <= 0.05


def is_valley(fun, lam, w):
    """Whether J is higher all around: from a stationary point that is no minimum a solver may well leave."""
    rng = np.random.default_rng(0)
    around = rng.standard_normal((100, w.size))
    around *= 0.05 / np.linalg.norm(around, axis=1, keepdims=True)
    here = fun(w)[0] + 0.5 * lam * w @ w
    return all(fun(v)[0] + 0.5 * lam * v @ v > here + 1e-6 for v in w + around)


@searches
def test_the_objective_never_rises(line_search):
    for family in FAMILIES:
        for seed in range(5):
            fun, d, w0 = draw(family, seed)
            solver = NonconvexBundle(line_search=line_search)
            result = minimize(FunctionRisk(fun, d, convex=False), L2(0.5), solver, w0=w0, stop=Stop(max_steps=60))
            for last, now in pairwise(result.trace):
                assert now.objective <= last.objective
                assert now.gap >= 0.0
                assert now.n_evaluations > last.n_evaluations


@searches
def test_the_same_call_gives_the_same_result(line_search):
    fun, d, w0 = draw("waves", 4)
    risk, solver = FunctionRisk(fun, d, convex=False), NonconvexBundle(line_search=line_search)
    first, second = (minimize(risk, L2(0.3), solver, w0=w0, stop=Stop(max_steps=80)) for _ in range(2))
    np.testing.assert_array_equal(first.w, second.w)
    assert [(r.objective, r.lower_bound) for r in first.trace] == [(r.objective, r.lower_bound) for r in second.trace]


@searches
@pytest.mark.parametrize("max_planes", [1, 2, 5])
@pytest.mark.parametrize("name", ["chained_mifflin_2", "chained_crescent_2", "active_faces"])
def test_few_planes_are_enough(line_search, max_planes, name):
    """The aggregated plane carries on what the dropped ones knew; the flat one is there where a bound is known."""
    problem = PROBLEMS[name]
    w0 = problem.start(6)
    solver = NonconvexBundle(max_planes=max_planes, line_search=line_search)
    stop = Stop(gap_rel=1e-3, max_evaluations=3000)
    result = minimize(problem.risk(6), L2(1.0, center=w0), solver, w0=w0, stop=stop)
    assert max(row.n_cuts for row in result.trace) <= max_planes + 2
    assert result.status is Status.CONVERGED
    if name == "chained_mifflin_2":  # the only one with a single minimum
        many = minimize(problem.risk(6), L2(1.0, center=w0), NonconvexBundle(line_search=line_search), w0=w0)
        assert result.objective == pytest.approx(many.objective, rel=5e-3)


@searches
def test_few_planes_are_enough_for_a_transductive_machine(line_search, rng):
    X = rng.standard_normal((40, 4)) + np.where(np.arange(40) % 2, 1.0, -1.0)[:, None]
    y = np.where(np.arange(40) < 10, np.where(np.arange(40) % 2, 1.0, -1.0), 0.0)
    risk = TransductiveRisk(X, y, fit_intercept=True)
    solver = NonconvexBundle(max_planes=3, line_search=line_search)
    result = minimize(risk, L2(0.1), solver, stop=Stop(gap_rel=1e-3, max_evaluations=3000))
    assert result.status is Status.CONVERGED
    assert max(row.n_cuts for row in result.trace) <= 3 + 2


# Convex risks


@searches
@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("lam", [0.05, 1.0, 1e3])
def test_on_a_convex_risk_the_optimum_is_found_and_proved(line_search, loss, lam):
    problem = Problem(loss, fit_intercept=True, lam=lam)
    optimum = problem.optimum().value
    stop = Stop(gap_rel=1e-4, max_steps=1000)
    result = minimize(problem.risk(), problem.reg, NonconvexBundle(line_search=line_search), stop=stop)
    assert result.status is Status.CONVERGED
    assert result.certificate == "global"
    assert {row.certificate for row in result.trace} == {"global"}
    assert optimum * (1.0 - 1e-7) <= result.objective <= optimum + 1e-4 * abs(result.objective) + 1e-12
    assert result.lower_bound <= optimum + 1e-12 * max(1.0, abs(optimum))
    assert result.trace[-1].n_null2 == 0


@searches
@pytest.mark.parametrize("loss", ["hinge", "absolute", "logistic", "poisson"])
@pytest.mark.parametrize("lam", [1e-6, 1e-3, 0.1, 10.0, 1e3])
def test_the_bounds_bracket_the_optimum_at_every_step(line_search, loss, lam):
    """However small lambda is, and however early the run ends."""
    problem = Problem(loss, lam=lam, n=20, d=3)
    optimum = problem.optimum().value
    size = max(1.0, abs(optimum))
    stop = Stop(gap_rel=1e-5, max_evaluations=60)
    result = minimize(problem.risk(), problem.reg, NonconvexBundle(line_search=line_search), stop=stop)
    assert result.certificate == "global"
    assert np.isfinite(result.w).all()
    for row in result.trace:
        assert row.lower_bound <= optimum + 1e-11 * size
        assert row.objective >= optimum - 1e-7 * size
    for last, now in pairwise(result.trace):
        assert now.lower_bound >= min(last.lower_bound, now.objective)
        assert now.objective <= last.objective


@searches
@pytest.mark.parametrize("max_planes", [1, 3])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "absolute"])
def test_on_a_convex_risk_few_planes_prove_the_optimum_too(line_search, max_planes, loss):
    problem = Problem(loss, lam=0.1)
    optimum = problem.optimum().value
    solver = NonconvexBundle(max_planes=max_planes, line_search=line_search)
    result = minimize(problem.risk(), problem.reg, solver, stop=Stop(gap_rel=1e-2, max_steps=5000))
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= optimum + 1e-12
    assert result.objective <= optimum + 1e-2 * result.objective
    assert max(row.n_cuts for row in result.trace) <= max_planes + 2


@pytest.mark.parametrize("loss", ["hinge", "squared", "logistic"])
def test_on_a_convex_risk_declared_otherwise_the_same_optimum_is_found(loss):
    """Without the proof."""
    problem = Problem(loss, lam=0.1)
    risk = problem.risk()
    declared = FunctionRisk(lambda w: (risk.value(w), risk.cut(w).a), risk.n_params, lower_bound=0.0, convex=False)
    result = minimize(declared, problem.reg, stop=Stop(gap_rel=1e-4, max_evaluations=2000))
    assert result.status is Status.CONVERGED
    assert result.certificate == "local"
    assert result.objective == pytest.approx(problem.optimum().value, rel=1e-2)


# Edge cases: a status and a message, never a hang or NaN


def assert_ended_well(result, w0):
    assert result.status in Status
    assert result.message
    assert result.w.shape == w0.shape
    assert np.isfinite(result.w).all()
    assert not math.isnan(result.objective)
    assert not math.isnan(result.lower_bound)


def run(fun, n, lam, line_search, w0, **options):
    options = {"max_evaluations": 500} | options
    risk = FunctionRisk(fun, n, convex=options.pop("convex", False), lower_bound=options.pop("lower_bound", -math.inf))
    result = minimize(risk, L2(lam), NonconvexBundle(line_search=line_search), w0=w0, stop=Stop(**options))
    assert_ended_well(result, w0)
    return result


@searches
@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_a_constant_risk_leaves_the_regularizer(line_search, n, scale):
    result = run(lambda w: (7.0, np.zeros(n)), n, 0.1, line_search, np.full(n, scale))
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.w, np.zeros(n), atol=1e-6)
    assert result.objective == pytest.approx(7.0, rel=1e-3)


@searches
@pytest.mark.parametrize("at_kink", [-1.0, 0.0, 1.0])
def test_a_start_on_a_ridge_is_left_unless_its_subgradient_vanishes(line_search, at_kink):
    """Any of the subgradients there is fair, and one of them says that all is well."""

    def ridge(w):
        return -float(abs(w[0])), np.array([at_kink if w[0] == 0.0 else -np.sign(w[0])])

    result = run(ridge, 1, 1.0, line_search, np.zeros(1))
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(0.0 if at_kink == 0.0 else -0.5, rel=1e-2)


@searches
def test_a_start_on_a_jump_of_the_subgradient_leads_to_a_stationary_point(line_search):
    def risk(w):
        return float(abs(w[0]) - 0.5 * abs(w[1])), np.array([1.0, -0.5])  # at the origin one of four corners

    def fun(w):
        value = float(abs(w[0]) - 0.5 * abs(w[1]))
        return value, np.array([1.0 if w[0] >= 0.0 else -1.0, -0.5 if w[1] >= 0.0 else 0.5])

    assert risk(np.zeros(2)) == (fun(np.zeros(2))[0], pytest.approx(fun(np.zeros(2))[1]))
    result = run(fun, 2, 1.0, line_search, np.zeros(2), gap_rel=1e-4)
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.w, [0.0, 0.5], atol=0.02)


@searches
@pytest.mark.parametrize("lam", [1e-300, 1e-160, 1e-100])
def test_a_lambda_that_overflows_says_so(line_search, lam):
    def fun(w):
        return float(np.abs(w - 1.0).sum()), np.sign(w - 1.0)

    result = run(fun, 2, lam, line_search, np.zeros(2))
    if result.status is Status.NONFINITE:
        assert "larger lambda" in result.message


@searches
def test_a_lambda_that_overflows_leaves_the_start(line_search):
    w0 = np.array([0.3])
    result = run(lambda w: (float(np.sin(w[0])), np.cos(w)), 1, 1e-310, line_search, w0)
    assert result.status is Status.NONFINITE
    assert "larger lambda" in result.message
    np.testing.assert_array_equal(result.w, w0)


def steep(w):
    """``exp(3 |w|) - 5 exp(|w|)``: two valleys at ``|w| = log(5/3) / 2``, and an overflow not far away."""
    size = abs(w[0])
    with np.errstate(over="ignore", invalid="ignore"):
        value, slope = np.exp(3.0 * size) - 5.0 * np.exp(size), 3.0 * np.exp(3.0 * size) - 5.0 * np.exp(size)
    return float(value), np.array([np.sign(w[0]) * slope])


@searches
@pytest.mark.parametrize("lam", [1e-8, 1e-3, 1.0, 100.0])
def test_a_risk_that_overflows_on_the_way_ends_with_a_status(line_search, lam):
    result = run(steep, 1, lam, line_search, np.array([2.0]), max_evaluations=100)
    assert result.objective <= steep(np.array([2.0]))[0] + 2.0 * lam


@pytest.mark.parametrize("line_search", ["greedy", "full"])
@pytest.mark.parametrize("lam", [1e-3, 1.0])
def test_a_search_gets_past_an_overflow(line_search, lam):
    """The model's minimizer overflows, but the way there does not, and what was found on it is not lost."""
    result = run(steep, 1, lam, line_search, np.array([2.0]))
    assert result.status is Status.CONVERGED
    assert abs(result.w[0]) == pytest.approx(0.5 * math.log(5.0 / 3.0), abs=0.05)


@searches
def test_a_subgradient_that_is_nan_at_the_start_is_reported(line_search):
    result = run(lambda w: (0.0, np.full(2, math.nan)), 2, 1.0, line_search, np.ones(2))
    assert result.status is Status.NONFINITE
    assert "at step 0" in result.message
    assert "nan" in result.message or "not finite" in result.message
    np.testing.assert_array_equal(result.w, np.ones(2))


@searches
def test_a_subgradient_that_is_nan_later_keeps_the_best_point(line_search):
    def fun(w):
        return float(w @ w), np.where(w < 0.5, math.nan, 2.0 * w)

    result = run(fun, 2, 1e-2, line_search, np.full(2, 3.0))
    assert result.status in (Status.NONFINITE, Status.STALLED, Status.MAX_EVALUATIONS)
    assert result.objective <= 18.0 + 0.09
    assert math.isfinite(result.objective)


@searches
def test_a_value_that_is_nan_everywhere_but_at_the_start_keeps_the_start(line_search):
    def fun(w):
        return (1.0 if (w == 1.0).all() else math.nan), np.ones(2)

    result = run(fun, 2, 1.0, line_search, np.ones(2))
    assert result.status is Status.NONFINITE
    np.testing.assert_array_equal(result.w, np.ones(2))


@searches
def test_an_objective_without_a_minimum_falls_until_a_limit_is_met(line_search):
    """``-2 w^2`` outweighs the regularizer."""

    def fun(w):
        return float(-2.0 * w @ w), -4.0 * w

    result = run(fun, 2, 1.0, line_search, np.ones(2), gap_rel=0.0, max_evaluations=150)
    assert result.status is Status.MAX_EVALUATIONS
    assert result.objective < -100.0


@searches
@pytest.mark.parametrize("n", [1, 2])
def test_a_minimum_of_zero_is_found(line_search, n):
    """Where a relative gap can never be met exactly."""

    def fun(w):
        size = float(np.abs(w).sum())
        return min(size, 1.0), np.sign(w) if size < 1.0 else np.zeros(n)

    result = run(fun, n, 0.1, line_search, np.full(n, 0.4))
    assert result.status in (Status.CONVERGED, Status.STALLED)
    assert abs(result.objective) <= 1e-6


@pytest.mark.parametrize("name", NONCONVEX)
@pytest.mark.parametrize("lam", [0.1, 1.0, 100.0])
def test_the_default_stop_ends_every_test_problem(name, lam):
    problem = PROBLEMS[name]
    w0 = problem.start(10)
    guarded = Stop(max_evaluations=3000, max_seconds=30.0)
    result = minimize(problem.risk(10), L2(lam, center=w0), w0=w0, stop=guarded)
    assert_ended_well(result, w0)
    assert result.status is Status.CONVERGED
    assert result.objective <= problem.fun(w0)[0]


@searches
@pytest.mark.parametrize("name", NONCONVEX)
@pytest.mark.parametrize("lam", [1e-12, 1e-6])
def test_next_to_no_regularizer_is_survived(line_search, name, lam):
    problem = PROBLEMS[name]
    w0 = problem.start(10)
    solver = NonconvexBundle(line_search=line_search)
    result = minimize(problem.risk(10), L2(lam), solver, w0=w0, stop=Stop(max_evaluations=40))
    assert_ended_well(result, w0)
    assert result.objective <= problem.fun(w0)[0] + 0.5 * lam * w0 @ w0


def test_nothing_given_is_modified():
    fun, d, w0 = draw("bowls", 2)
    before, center = w0.copy(), np.ones(d)
    minimize(FunctionRisk(fun, d, convex=False), L2(0.5, center=center), w0=w0, stop=Stop(max_steps=20))
    np.testing.assert_array_equal(w0, before)
    np.testing.assert_array_equal(center, np.ones(d))


# Settings


def test_auto_picks_the_greedy_search_for_a_risk_that_is_not_convex():
    risk = FunctionRisk(lambda w: (0.0, w), 1, convex=False)
    assert resolve("auto", risk, L2(1.0)) == NonconvexBundle(line_search="greedy")
    assert resolve("nonconvex_bundle", risk, L2(1.0)) == NonconvexBundle()


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"line_search": "exact"}, "`line_search` is None, 'greedy', 'full' or 'single'; got 'exact'"),
        ({"max_planes": 0}, "`max_planes` must be at least 1; got 0"),
        ({"max_trials": 0}, "`max_trials` must be at least 1; got 0"),
        ({"master_accuracy": 1.0}, "`master_accuracy` must be in .*; got 1.0"),
    ],
)
def test_a_setting_outside_its_domain_is_refused(settings, rule):
    with pytest.raises(ParameterError, match=rule):
        NonconvexBundle(**settings)


@pytest.mark.parametrize("max_trials", [1, 2, 5])
def test_a_search_spends_no_more_than_it_may(max_trials):
    problem = PROBLEMS["chained_crescent_2"]
    w0 = problem.start(10)
    solver = NonconvexBundle(line_search="greedy", max_trials=max_trials)
    result = minimize(problem.risk(10), L2(1.0, center=w0), solver, w0=w0, stop=Stop(max_evaluations=1000))
    assert result.status is Status.CONVERGED
    for last, now in pairwise(result.trace):
        assert now.n_evaluations - last.n_evaluations <= max_trials
