"""The interior point method on piecewise-linear losses: optima, bounds, kinks, refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from scipy.optimize import linprog
from tests.catalogue import LOSSES, Problem
from tests.regularizers.cases import CASES, optimum

from undercut import (
    L1,
    L2,
    Absolute,
    ElasticNet,
    EpsilonInsensitive,
    Hinge,
    LinearRisk,
    LineSearchBundle,
    Logistic,
    Quantile,
    Status,
    Stop,
    minimize,
)
from undercut.contracts import PiecewiseLinearLoss, RegressionLoss, SmoothLoss
from undercut.errors import CapabilityError
from undercut.regularizers import Boxed, Entropy, Quadratic
from undercut.solvers import InteriorPoint
from undercut.solvers.newton.factor import Factor
from undercut.solvers.newton.interior import crossover

PIECEWISE = [name for name, case in LOSSES.items() if isinstance(case.loss, PiecewiseLinearLoss)]
TIGHT = Stop(gap_rel=1e-8, max_steps=100)
losses = pytest.mark.parametrize("loss", PIECEWISE)
intercepts = pytest.mark.parametrize("fit_intercept", [False, True])


def random_risk(loss, n, d, *, fit_intercept=False, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    X, noise = rng.standard_normal((n, d)), rng.standard_normal(n)
    y = X @ rng.standard_normal(d) + 2.0 * noise + 0.3
    y = np.where(y > 0.0, 1.0, -1.0) if isinstance(loss, Hinge) else y
    return LinearRisk(X, y, loss, rng.random(n) + 0.1 if weighted else None, fit_intercept=fit_intercept)


def lasso_optimum(risk, lam):
    """``min R(w) + lam |w|_1`` as a linear program, by HiGHS."""
    X, (left, kinks, jumps) = risk.design.X, risk.loss.pieces(risk.y)
    n, d = X.shape
    A = np.hstack([X, np.ones((n, 1))]) if risk.fit_intercept else X
    free, count = A.shape[1], jumps.size * n
    cost = np.concatenate([A.T @ (risk.weight * left), np.outer(jumps, risk.weight).ravel(), np.full(d, lam)])
    above = np.hstack([np.tile(A, (jumps.size, 1)), -np.eye(count), np.zeros((count, d))])
    sizes = np.vstack([np.hstack([s * np.eye(d, free), np.zeros((d, count)), -np.eye(d)]) for s in (1.0, -1.0)])
    bounds = [(None, None)] * free + [(0.0, None)] * (count + d)
    limits = np.concatenate([kinks.ravel(), np.zeros(2 * d)])
    found = linprog(cost, np.vstack([above, sizes]), limits, bounds=bounds, method="highs")
    assert found.status == 0
    return found.fun - float(risk.weight @ (left * kinks[0]))


@losses
@intercepts
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
def test_bounds_bracket_the_optimum_that_clarabel_finds(loss, fit_intercept, weighted, shifted):
    problem = Problem(loss, fit_intercept, weighted=weighted, shifted=shifted)
    result = minimize(problem.risk(), problem.reg, InteriorPoint(), stop=TIGHT)
    optimum = problem.optimum().value
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= optimum * (1.0 + 1e-9)
    assert result.objective == pytest.approx(optimum, rel=1e-7)
    assert result.objective == pytest.approx(problem.objective(result.w, problem.risk().intercept(result.w)), rel=1e-12)


@losses
@intercepts
@pytest.mark.parametrize("lam", [1e-6, 1e-2, 0.3, 100.0])
def test_the_l1_penalty_agrees_with_a_linear_program(loss, fit_intercept, lam):
    risk = random_risk(LOSSES[loss].loss, 40, 6, fit_intercept=fit_intercept, weighted=True)
    result = minimize(risk, L1(lam), InteriorPoint(), stop=TIGHT)
    optimum = lasso_optimum(risk, lam)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= optimum + 1e-9 * abs(optimum)
    assert result.objective == pytest.approx(optimum, rel=1e-7)


@losses
@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_the_elastic_net_agrees_with_its_two_ends_and_lies_between(loss, ratio):
    risk = random_risk(LOSSES[loss].loss, 60, 8, fit_intercept=True)
    result = minimize(risk, ElasticNet(0.05, ratio), InteriorPoint(), stop=TIGHT)
    assert result.status is Status.CONVERGED
    ends = [minimize(risk, reg, InteriorPoint(), stop=TIGHT) for reg in (L2(0.05), L1(0.05))]
    reg = ElasticNet(0.05, ratio)
    assert result.objective <= min(reg.value(end.w) + risk.value(end.w) for end in ends) * (1.0 + 1e-8)
    if ratio in (0.0, 1.0):
        assert result.objective == pytest.approx(ends[int(ratio)].objective, rel=1e-7)


@losses
@intercepts
@pytest.mark.parametrize("lam", [1e-9, 1e-6, 1e-3, 1.0, 1e3])
def test_few_steps_reach_a_small_gap_at_any_lambda(loss, fit_intercept, lam):
    risk = random_risk(LOSSES[loss].loss, 300, 10, fit_intercept=fit_intercept)
    result = minimize(risk, L2(lam), InteriorPoint(), stop=Stop(gap_rel=1e-8, max_steps=35))
    assert result.status is Status.CONVERGED


@losses
@intercepts
def test_the_bound_never_decreases_and_the_objective_never_increases(loss, fit_intercept):
    risk = random_risk(LOSSES[loss].loss, 80, 5, fit_intercept=fit_intercept)
    trace = minimize(risk, L2(1e-5), InteriorPoint(), stop=TIGHT).trace
    assert all(now.lower_bound >= last.lower_bound for last, now in itertools.pairwise(trace))
    assert all(now.objective <= last.objective for last, now in itertools.pairwise(trace))


@losses
@intercepts
def test_dense_and_sparse_rows_give_the_same_optimum(loss, fit_intercept):
    problem = Problem(loss, fit_intercept)
    values = [minimize(problem.risk(sparse=sparse), problem.reg, InteriorPoint(), stop=TIGHT) for sparse in (0, 1)]
    assert values[0].objective == pytest.approx(values[1].objective, rel=1e-8)


@losses
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_any_start_leads_to_the_optimum(loss, scale):
    problem = Problem(loss, fit_intercept=True)
    w0 = scale * np.random.default_rng(5).standard_normal(problem.d)
    result = minimize(problem.risk(), problem.reg, InteriorPoint(), w0=w0, stop=TIGHT)
    assert result.objective == pytest.approx(problem.optimum().value, rel=1e-7)


def test_a_start_at_the_optimum_is_not_left_for_a_worse_point():
    problem = Problem("hinge", fit_intercept=True)
    first = minimize(problem.risk(), problem.reg, InteriorPoint(), stop=TIGHT)
    again = minimize(problem.risk(), problem.reg, InteriorPoint(), w0=first.w, stop=Stop(gap_rel=1e-6))
    assert again.objective <= first.objective
    assert again.status is Status.CONVERGED


@pytest.mark.parametrize("loss", LOSSES)
@intercepts
@pytest.mark.parametrize("case", ["l1", "elastic_net", "non_negative_l2", "non_negative_l1", "boxed_l1", "blocks"])
def test_every_loss_with_kinks_and_bounds_agrees_with_clarabel(loss, fit_intercept, case):
    problem = Problem(loss, fit_intercept)
    reg = CASES[case].make(problem.lam)
    result = minimize(problem.risk(), reg, InteriorPoint(), stop=Stop(gap_rel=1e-7, max_steps=100))
    known = optimum(case, problem).value
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= known + 1e-9 * abs(known)
    assert result.objective == pytest.approx(known, rel=1e-6)
    assert result.objective == pytest.approx(reg.value(result.w) + problem.risk().value(result.w), rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 30),
    d=st.integers(2, 30),
    exponent=st.floats(-9.0, 3.0),
    loss=st.sampled_from(sorted(LOSSES)),
    penalty=st.sampled_from(
        [
            L1,
            ElasticNet,
            lambda lam: Boxed(L2(lam), lower=0.0),
            lambda lam: Boxed(L1(lam), lower=-0.5, upper=1.0),
            lambda lam: Boxed(ElasticNet(lam), upper=0.25),
        ]
    ),
    fit_intercept=st.booleans(),
)
def test_any_small_problem_is_certified(seed, n, d, exponent, loss, penalty, fit_intercept):
    risk = Problem(loss, fit_intercept, n=n, d=d, seed=seed).risk()
    result = minimize(risk, penalty(10.0**exponent), stop=Stop(gap_rel=1e-6, max_seconds=5.0))
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= result.objective


@losses
@intercepts
def test_parameters_that_are_zero_at_the_optimum_are_exactly_zero(loss, fit_intercept):
    """A linear program has a solution with no more parameters than samples."""
    risk = random_risk(LOSSES[loss].loss, 12, 40, fit_intercept=fit_intercept)
    assert np.count_nonzero(minimize(risk, L1(1e-3), InteriorPoint(), stop=TIGHT).w) <= 12


def test_a_loss_of_the_users_own_is_bounded_by_its_tangent_plane():
    class Distance(RegressionLoss, SmoothLoss):
        def value_slope(self, y, scores):
            root = np.sqrt(1.0 + (scores - y) ** 2)
            return root - 1.0, (scores - y) / root

        def curvature(self, y, scores):
            return (1.0 + (scores - y) ** 2) ** -1.5

    risk = random_risk(Distance(), 30, 4, fit_intercept=True)
    ours = minimize(risk, L1(0.01), InteriorPoint(), stop=Stop(gap_rel=1e-6))
    bundle = minimize(risk, L1(0.01), "level_bundle", stop=Stop(gap_rel=1e-5))
    assert ours.status is Status.CONVERGED
    assert bundle.lower_bound <= ours.objective <= bundle.objective * (1.0 + 1e-6)


def test_a_quadratic_penalty_of_a_matrix_agrees_with_the_bundle():
    risk = random_risk(Absolute(), 50, 4, fit_intercept=True)
    B = np.diag([1.0, 2.0, 3.0, 4.0]) + 0.3
    reg = Quadratic(0.1, B, center=np.ones(4))
    ours = minimize(risk, reg, InteriorPoint(), stop=TIGHT)
    bundle = minimize(risk, reg, LineSearchBundle(), stop=Stop(gap_rel=1e-7))
    assert ours.objective == pytest.approx(bundle.objective, rel=2e-7)


def assert_agrees_with_the_bundle(X, y, loss, weight=None, *, fit_intercept=False, reg=None):
    risk, reg = LinearRisk(X, y, loss, weight, fit_intercept=fit_intercept), reg or L2(0.05)
    ours = minimize(risk, reg, InteriorPoint(), stop=Stop(gap_rel=1e-7, gap_abs=1e-12, max_steps=100))
    bundle = minimize(risk, reg, stop=Stop(gap_rel=1e-6, gap_abs=1e-10, max_steps=2000))
    assert ours.status is Status.CONVERGED
    assert ours.lower_bound <= bundle.objective + 1e-10
    assert bundle.lower_bound <= ours.objective + 1e-10


@intercepts
@pytest.mark.parametrize("reg", [L2(0.05), L1(0.02)], ids=["L2", "L1"])
class TestKinks:
    X = np.random.default_rng(3).standard_normal((24, 4))
    signs = np.where(np.arange(24) % 3 == 0, 1.0, -1.0)

    def test_rows_of_zeros(self, fit_intercept, reg):
        X = self.X.copy()
        X[::4] = 0.0
        assert_agrees_with_the_bundle(X, self.signs, Hinge(), fit_intercept=fit_intercept, reg=reg)

    def test_one_class(self, fit_intercept, reg):
        assert_agrees_with_the_bundle(self.X, np.ones(24), Hinge(), fit_intercept=fit_intercept, reg=reg)

    def test_constant_and_empty_features(self, fit_intercept, reg):
        X = self.X.copy()
        X[:, 0], X[:, 1] = 1.0, 0.0
        assert_agrees_with_the_bundle(X, self.signs, Hinge(), fit_intercept=fit_intercept, reg=reg)

    def test_weights_of_zero_and_of_very_different_size(self, fit_intercept, reg):
        weight = np.where(np.arange(24) % 2 == 0, 0.0, 10.0 ** -(np.arange(24) % 7))
        assert_agrees_with_the_bundle(self.X, self.signs, Hinge(), weight, fit_intercept=fit_intercept, reg=reg)

    def test_duplicate_rows_with_contradictory_targets(self, fit_intercept, reg):
        X, y = np.repeat(self.X[:8], 3, axis=0), np.tile([0.0, 0.0, 1.0], 8)
        assert_agrees_with_the_bundle(X, y, Absolute(), fit_intercept=fit_intercept, reg=reg)

    def test_two_kinks_at_the_same_place(self, fit_intercept, reg):
        y = self.X[:, 0].round()
        assert_agrees_with_the_bundle(self.X, y, EpsilonInsensitive(epsilon=0.0), fit_intercept=fit_intercept, reg=reg)

    def test_a_single_sample(self, fit_intercept, reg):
        assert_agrees_with_the_bundle(self.X[:1], np.ones(1), Quantile(0.3), fit_intercept=fit_intercept, reg=reg)

    def test_more_features_than_samples(self, fit_intercept, reg):
        X = np.random.default_rng(4).standard_normal((6, 15))
        assert_agrees_with_the_bundle(X, np.arange(6.0), Absolute(), fit_intercept=fit_intercept, reg=reg)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 30),
    d=st.integers(1, 12),
    exponent=st.floats(-9.0, 3.0),
    loss=st.sampled_from([Hinge(), Absolute(), Quantile(0.9), EpsilonInsensitive(0.5)]),
    penalty=st.sampled_from([L2, L1, ElasticNet]),
    fit_intercept=st.booleans(),
)
def test_the_bound_holds_on_rounded_random_problems(seed, n, d, exponent, loss, penalty, fit_intercept):
    """Small integers make ties and kinks; every point of another solver lies above the bound."""
    rng = np.random.default_rng(seed)
    X, y = rng.integers(-2, 3, (n, d)).astype(float), rng.integers(-2, 3, n).astype(float)
    y = np.where(y > 0.0, 1.0, -1.0) if isinstance(loss, Hinge) else y
    risk, reg = LinearRisk(X, y, loss, fit_intercept=fit_intercept), penalty(10.0**exponent)
    result = minimize(risk, reg, InteriorPoint(), stop=Stop(gap_rel=1e-6, max_steps=60))
    assert result.objective == pytest.approx(reg.value(result.w) + risk.value(result.w), rel=1e-12, abs=1e-15)
    assert result.status in (Status.CONVERGED, Status.STALLED, Status.MAX_STEPS)
    other = minimize(risk, reg, stop=Stop(gap_rel=1e-3, max_steps=20))
    assert result.lower_bound <= min(result.objective, other.objective) + 1e-12


def test_a_risk_that_overflows_ends_with_a_status():
    risk = LinearRisk(np.full((3, 2), 1e200), np.array([1.0, -1.0, 1.0]), Hinge())
    result = minimize(risk, L2(1e-3), InteriorPoint(), w0=np.full(2, 1e200))
    assert result.status is Status.NONFINITE


def test_an_interrupted_step_leaves_the_state_as_it_was():
    risk, reg, solver = random_risk(Hinge(), 50, 4), L2(1e-3), InteriorPoint()
    state = solver.init(risk, reg, np.zeros(4))
    first = solver.step(risk, reg, state)
    solver.step(risk, reg, first)
    again = solver.step(risk, reg, state)
    assert np.array_equal(first.at.x, again.at.x)
    assert first.progress == again.progress


class Bare:
    """A design with products only."""

    shape = (2, 2)

    def matvec(self, w):
        return w.copy()

    def rmatvec(self, g):
        return g.copy()


@pytest.mark.parametrize(
    ("risk", "reg", "need"),
    [
        (LinearRisk(np.eye(2), [1.0, -1.0], Logistic()), L2(1.0), "kink"),
        (LinearRisk(Bare(), [1.0, -1.0], Hinge()), L2(1.0), "`weighted_gram"),
        (LinearRisk(np.eye(2), [1.0, -1.0], Hinge()), Entropy(1.0), "penalty"),
    ],
)
def test_what_it_cannot_solve_is_refused_with_the_need_and_a_remedy(risk, reg, need):
    with pytest.raises(CapabilityError, match=rf"InteriorPoint needs .*{need}.*use "):
        minimize(risk, reg, InteriorPoint())


def test_nearly_singular_equations_are_solved_in_directions_that_cholesky_loses():
    """``1e-9 I + 1e8 x x'``: the small eigenvalue is below the rounding of the large one."""
    x = np.array([3.0, 4.0]) / 5.0
    across = np.array([-4.0, 3.0]) / 5.0
    factor = Factor(1e-9 * np.eye(2) + 1e8 * np.outer(x, x))
    solved = factor.solve(1e-9 * across, lambda v: 1e-9 * v + 1e8 * x * (x @ v))
    np.testing.assert_allclose(solved, across, rtol=1e-4)


def test_the_gram_matrix_of_sparse_rows_counts_repeated_columns_of_a_row():
    """CSR rows may store a column twice: the entries add up."""
    X = sp.csr_matrix((np.array([1.0, 2.0, 5.0]), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    risk = LinearRisk(X, [1.0], Hinge())
    np.testing.assert_allclose(risk.design.weighted_gram(np.array([2.0])), 2.0 * np.array([[25.0, 15.0], [15.0, 9.0]]))


def test_the_gram_matrix_of_many_sparse_rows_is_the_same_on_any_number_of_threads():
    rng = np.random.default_rng(0)
    X = sp.random(25_000, 20, density=0.5, format="csr", random_state=rng)
    g = rng.random(X.shape[0])
    dense = X.toarray()
    design = LinearRisk(X, np.ones(X.shape[0]), Hinge()).design
    np.testing.assert_allclose(design.weighted_gram(g), (dense.T * g) @ dense, rtol=1e-10)
    assert np.array_equal(design.weighted_gram(g), design.weighted_gram(g))


def wide(n, d):
    X = sp.random_array((n, d), density=1e-4, format="csr", rng=np.random.default_rng(0))
    return LinearRisk(X, np.resize([1.0, -1.0], n), Hinge())


@pytest.mark.parametrize("reg", [L1(1e-3), L2(1e-3)])
def test_more_equations_than_a_step_can_solve_are_refused_before_the_first(reg):
    with pytest.raises(CapabilityError, match=r"20000 linear equations .* use 'auto'"):
        minimize(wide(20_000, 44_000), reg, InteriorPoint())


def test_many_features_are_accepted_where_samples_are_few():
    InteriorPoint().check(wide(50, 44_000), L1(1e-3))


@pytest.mark.parametrize("n_plain", [0, 1], ids=["squares", "intercept"])
def test_a_crossover_without_the_parameters_that_have_squares_is_the_same(rng, n_plain):
    A, squares = rng.standard_normal((6, 15)), rng.random(15) + 0.1
    squares[15 - n_plain :] = 0.0
    soft, force, miss = 0.1 * rng.random(6), rng.standard_normal(15), rng.standard_normal(6)
    whole = crossover._least_change(A, squares, soft, force, miss)
    few = crossover._least_change_of_few(A, squares, soft, force, miss)
    for mine, theirs in zip(few, whole, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-10)


def test_many_features_do_not_make_a_crossover_expensive(rng, monkeypatch):
    X = rng.standard_normal((30, 2500))
    risk = LinearRisk(X, rng.standard_normal(30), EpsilonInsensitive(0.1), fit_intercept=True)
    sizes, solve = [], crossover.lstsq
    monkeypatch.setattr(crossover, "lstsq", lambda M, *args, **named: sizes.append(M.shape) or solve(M, *args, **named))
    assert minimize(risk, L2(1e-5), InteriorPoint(), stop=Stop(gap_rel=1e-9)).status is Status.CONVERGED
    assert all(max(size) <= 2 * 30 + 1 for size in sizes)
