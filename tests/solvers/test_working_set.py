"""Working sets for L1 and the elastic net."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from tests.catalogue import LOSSES, SMOOTH, Problem

from undercut import (
    L1,
    L2,
    ElasticNet,
    FunctionRisk,
    Hinge,
    Huber,
    LinearRisk,
    Logistic,
    MulticlassRisk,
    Squared,
    Status,
    Stop,
    minimize,
)
from undercut.errors import CapabilityError, ParameterError
from undercut.losses import CrammerSinger, Softmax
from undercut.maps.csr import SparseDesign
from undercut.maps.design import as_design
from undercut.solvers import LevelBundle, WorkingSet
from undercut.solvers.auto import resolve
from undercut.solvers.bounds import balanced
from undercut.solvers.coordinate.dual.conjugates import smooth_conjugate
from undercut.solvers.coordinate.working import class_columns, class_problem
from undercut.solvers.coordinate.working.class_columns import ClassColumns, LikelyPairs
from undercut.solvers.coordinate.working.class_problem import ClassGramColumns, ClassProblem
from undercut.solvers.coordinate.working.column_parts import some_columns
from undercut.solvers.coordinate.working.columns import Tolerance, column_norms
from undercut.solvers.coordinate.working.direct_columns import SparseColumns
from undercut.solvers.coordinate.working.gram_columns import CompactColumns, GramColumns
from undercut.solvers.coordinate.working.pointwise_problem import PointwiseProblem
from undercut.solvers.coordinate.working.sampled_columns import SampledColumns
from undercut.solvers.coordinate.working.sparse_problem import Effort

EXACT = Stop(gap_rel=1e-8, max_steps=200)
REGS = {"l1": L1(0.02), "elastic_net": ElasticNet(0.05, l1_ratio=0.6)}
smooth = pytest.mark.parametrize("loss", SMOOTH)
regs = pytest.mark.parametrize("reg", REGS.values(), ids=REGS)


def clarabel(problem, reg):
    """The optimum according to a conic solver."""
    w, b = cp.Variable(problem.d), cp.Variable()
    losses = problem.case.atom(problem.y, problem.X @ w + (b if problem.fit_intercept else 0.0))
    penalty = reg.terms.l1 * cp.norm1(w) + 0.5 * reg.terms.l2 * cp.sum_squares(w)
    program = cp.Problem(cp.Minimize(penalty + problem._shares() @ losses))
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(program.value)


def problem_of(loss, n, d, seed):
    """A random problem with correlated features."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + rng.standard_normal((n, 1))
    return X, LOSSES[loss].draw_targets(rng, n)


@regs
@smooth
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_bounds_bracket_the_optimum_of_a_conic_solver(loss, reg, sparse, fit_intercept):
    problem = Problem(loss, fit_intercept=fit_intercept, weighted=True)
    result = minimize(problem.risk(sparse=sparse), reg, WorkingSet(), stop=EXACT)
    optimum = clarabel(problem, reg)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= optimum * (1.0 + 1e-7)
    assert result.objective == pytest.approx(optimum, rel=1e-6)


@smooth
@pytest.mark.parametrize("reg", [L1(1e-3), ElasticNet(1e-3, l1_ratio=0.9)], ids=["l1", "elastic_net"])
def test_every_bound_lies_below_the_best_objective_and_none_decreases(loss, reg):
    X, y = problem_of(loss, 60, 150, seed=3)
    result = minimize(LinearRisk(X, y, LOSSES[loss].loss, fit_intercept=True), reg, WorkingSet(), stop=EXACT)
    bounds = [row.lower_bound for row in result.trace]
    objectives = [row.objective for row in result.trace]
    assert result.status is Status.CONVERGED
    assert bounds == sorted(bounds)
    assert max(bounds) <= result.objective
    assert objectives == sorted(objectives, reverse=True)


@smooth
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_large_lambda_is_optimal_at_zero_without_a_step(loss, fit_intercept):
    X, y = problem_of(loss, 40, 10, seed=1)
    risk = LinearRisk(X, y, LOSSES[loss].loss, fit_intercept=fit_intercept)
    lam_max = float(np.abs(risk.cut(np.zeros(10)).a).max())
    result = minimize(risk, L1(1.01 * lam_max), WorkingSet(), stop=EXACT)
    assert result.n_steps == 0
    assert not result.w.any()
    assert minimize(risk, L1(0.99 * lam_max), WorkingSet(), stop=EXACT).w.any()


def one_hot(n, n_features, n_groups, seed=0):
    """Rows with an entry 1 in each group of features, and the scores of a random model."""
    rng = np.random.default_rng(seed)
    width = n_features // n_groups
    columns = np.stack([group * width + rng.integers(0, width, n) for group in range(n_groups)], axis=1)
    X = sp.csr_array((np.ones(n * n_groups), columns.ravel(), np.arange(0, n * n_groups + 1, n_groups)))
    return X, X @ rng.standard_normal(X.shape[1])


@pytest.mark.parametrize("n_groups", [1, 5])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "huber_hinge"])
@pytest.mark.parametrize("share", [0.3, 1e-3, 1e-5])
def test_the_gap_closes_on_separable_data(n_groups, loss, share):
    """Samples beyond the margin have no curvature, and shifts of all weights of a group cost nothing."""
    X, scores = one_hot(2000, 20, n_groups)
    risk = LinearRisk(X, np.where(scores > np.median(scores), 1.0, -1.0), LOSSES[loss].loss, fit_intercept=True)
    lam = share * float(np.abs(risk.cut(np.zeros(20)).a).max())
    result = minimize(risk, L1(lam), WorkingSet(), stop=Stop(gap_rel=1e-6, max_steps=60))
    assert result.status is Status.CONVERGED


def test_models_of_correlated_positive_features_are_minimized_to_the_end():
    """Coordinate descent looks converged long before: every coordinate is at its minimum when it is visited."""
    rng = np.random.default_rng(2)
    X = np.maximum(rng.standard_normal((400, 10)) @ rng.standard_normal((10, 60)) + 2.0, 0.0)
    risk = LinearRisk(X, np.sign(X @ rng.standard_normal(60)), Logistic())
    lam = 0.01 * float(np.abs(risk.cut(np.zeros(60)).a).max())
    result = minimize(risk, L1(lam), WorkingSet(), stop=Stop(gap_rel=1e-6, max_steps=10))
    assert result.status is Status.CONVERGED


def test_slopes_at_the_limits_of_their_loss_prove_a_bound():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((84, 5))
    y = X @ rng.standard_normal(5) + rng.standard_normal(84)
    risk = LinearRisk(X, y, Huber(0.1))
    assert 0.1 * (1.0 / 84.0) / (1.0 / 84.0) > 0.1
    assert minimize(risk, ElasticNet(0.01), WorkingSet(), stop=EXACT).status is Status.CONVERGED


def classes(n, d, n_classes, seed=0, density=0.4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    y = (X @ rng.standard_normal((d, n_classes)) + rng.standard_normal((n, n_classes))).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def softmax_by_clarabel(X, y, weight, reg, fit_intercept):
    """The optimum according to a conic solver."""
    n_classes = int(y.max()) + 1
    W, b = cp.Variable((X.shape[1], n_classes)), cp.Variable(n_classes)
    scores = X @ W + (np.ones((y.size, 1)) @ cp.reshape(b, (1, n_classes), order="C") if fit_intercept else 0.0)
    own = cp.sum(cp.multiply(np.eye(n_classes)[y], scores), axis=1)
    penalty = reg.terms.l1 * cp.sum(cp.abs(W)) + 0.5 * reg.terms.l2 * cp.sum_squares(W)
    program = cp.Problem(cp.Minimize(penalty + (weight / weight.sum()) @ (cp.log_sum_exp(scores, axis=1) - own)))
    program.solve(solver=cp.CLARABEL)
    return float(program.value)


@regs
@pytest.mark.parametrize(
    ("shape", "density", "kind"),
    [
        ((60, 6), 0.4, SampledColumns),
        ((60, 20), 0.08, ClassGramColumns),
        ((40, 120), 0.04, ClassColumns),
        ((40, 110), 0.04, LikelyPairs),
    ],
    ids=["dense", "gram", "direct", "pairs"],
)
@pytest.mark.parametrize(("sparse", "fit_intercept"), [(False, True), (True, False)])
def test_softmax_agrees_with_a_conic_solver(reg, shape, density, kind, sparse, fit_intercept, monkeypatch):
    monkeypatch.setattr(class_problem, "SMALL", 0)
    if kind is LikelyPairs:
        kind = ClassColumns
        monkeypatch.setattr(class_columns, "APART", 0.0)
    X, y = classes(*shape, 3, density=density)
    weight = np.random.default_rng(1).integers(0, 3, y.size) + (np.arange(y.size) < 3)
    risk = MulticlassRisk(sp.csr_array(X) if sparse else X, y, Softmax(), weight, fit_intercept=fit_intercept)
    assert isinstance(ClassProblem(risk, reg, np.ones(shape[1])).columns(np.arange(shape[1])), kind)
    result = minimize(risk, reg, WorkingSet(), stop=EXACT)
    optimum = softmax_by_clarabel(X, y, weight, reg, fit_intercept)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= optimum * (1.0 + 1e-6)
    assert result.objective == pytest.approx(optimum, rel=1e-5)
    assert result.objective == pytest.approx(reg.value(result.w) + risk.value(result.w), rel=1e-12)


@pytest.mark.parametrize("share", [0.9, 1e-2, 1e-4])
def test_softmax_is_certified_at_any_lambda_and_exactly_sparse(share):
    X, y = classes(200, 40, 4)
    X = np.hstack([X, X[:, :3], np.ones((200, 1)), np.zeros((200, 1))])
    risk = MulticlassRisk(X, y, Softmax(), fit_intercept=True)
    lam = share * float(np.abs(risk.cut(np.zeros(risk.n_params)).a).max())
    result = minimize(risk, L1(lam), WorkingSet(), stop=Stop(gap_rel=1e-6, max_steps=60))
    assert result.status is Status.CONVERGED
    assert (result.w.reshape(4, -1)[:, -1] == 0.0).all()
    assert np.count_nonzero(result.w) < result.w.size
    again = minimize(risk, L1(lam), WorkingSet(), w0=result.w, stop=Stop(gap_rel=2e-6))
    assert again.n_steps <= 1


def test_auto_takes_working_sets_for_sparse_softmax():
    X, y = classes(30, 5, 3)
    assert isinstance(resolve("auto", MulticlassRisk(X, y, Softmax()), L1(0.1)), WorkingSet)
    assert not isinstance(resolve("auto", MulticlassRisk(X, y, CrammerSinger()), L1(0.1)), WorkingSet)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(SMOOTH),
    st.sampled_from(["l1", "elastic_net"]),
    st.integers(1, 30),
    st.integers(1, 20),
    st.integers(-9, 3),
    st.booleans(),
    st.booleans(),
    st.integers(0, 10_000),
)
def test_any_small_problem_has_a_valid_bound_at_any_lambda(loss, reg, n, d, exponent, sparse, fit_intercept, seed):
    X, y = problem_of(loss, n, d, seed)
    X[:, 0] = 1.0
    X[:, -1] = 0.0 if seed % 3 else X[:, 0]
    weight = np.random.default_rng(seed).integers(0, 3, n) + (np.arange(n) == 0)
    risk = LinearRisk(sp.csr_matrix(X) if sparse else X, y, LOSSES[loss].loss, weight, fit_intercept=fit_intercept)
    penalty = L1(10.0**exponent) if reg == "l1" else ElasticNet(10.0**exponent, l1_ratio=0.5)
    result = minimize(risk, penalty, WorkingSet(), stop=Stop(gap_rel=1e-6, max_steps=50, max_seconds=1.0))
    other = minimize(risk, penalty, LevelBundle(), stop=Stop(gap_rel=1e-3, max_steps=10))
    scale = abs(result.objective) + 1e-9
    assert result.lower_bound <= other.objective + 1e-9 * scale
    assert other.lower_bound <= result.objective + 1e-9 * scale
    assert result.objective == pytest.approx(penalty.value(result.w) + risk.value(result.w), rel=1e-12)


@pytest.mark.parametrize("lam", [1e-9, 1e-6, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", "huber"])
def test_a_small_problem_is_certified_at_any_lambda(loss, lam):
    X, y = problem_of(loss, 100, 20, seed=5)
    result = minimize(LinearRisk(X, y, LOSSES[loss].loss), L1(lam), WorkingSet(), stop=Stop(gap_rel=1e-6))
    assert result.status is Status.CONVERGED


@pytest.mark.parametrize("sparse", [False, True])
def test_kinks_of_the_data_do_not_matter(sparse):
    """Duplicate, constant and zero columns, and samples without weight, even where their losses would overflow."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 8))
    X = np.hstack([X, X, np.ones((50, 1)), np.zeros((50, 1))])
    y = np.sign(X[:, 0] + 0.3)
    weight = np.ones(50)
    weight[:5] = 0.0
    X[:5] *= 1e200
    risk = LinearRisk(sp.csr_array(X) if sparse else X, y, Logistic(), weight, fit_intercept=True)
    alone = LinearRisk(X[5:, [*range(8), 16]], y[5:], Logistic(), fit_intercept=True)
    result = minimize(risk, L1(0.01), WorkingSet(), stop=EXACT)
    assert result.status is Status.CONVERGED
    assert result.w[-1] == 0.0
    assert result.objective == pytest.approx(minimize(alone, L1(0.01), WorkingSet(), stop=EXACT).objective, rel=1e-7)


def test_one_class_needs_no_features():
    X, _ = problem_of("logistic", 20, 5, seed=0)
    result = minimize(LinearRisk(X, np.ones(20), Logistic(), fit_intercept=True), L1(0.1), WorkingSet())
    assert not result.w.any()
    assert result.lower_bound <= result.objective < 1e-6


def test_agrees_with_the_lasso_of_scikit_learn_on_wide_sparse_data():
    from sklearn.linear_model import Lasso

    rng = np.random.default_rng(0)
    X = sp.random_array((200, 3000), density=0.02, rng=rng, format="csr")
    y = X[:, :10].sum(axis=1) + 0.1 * rng.standard_normal(200)
    risk = LinearRisk(X, y, Squared())
    lam = float(np.abs(risk.cut(np.zeros(3000)).a).max()) / 50.0
    result = minimize(risk, L1(lam), WorkingSet(), stop=EXACT)
    peer = Lasso(alpha=lam, fit_intercept=False, tol=1e-10, max_iter=100_000).fit(sp.csc_matrix(X), y)
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.w, peer.coef_, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_any_float_and_index_width_is_read(dtype, index):
    X, y = problem_of("logistic", 60, 30, seed=2)
    narrow = X.astype(np.float32).astype(dtype)
    S = sp.csr_matrix(narrow)
    S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    results = [minimize(LinearRisk(A, y, Logistic()), L1(0.01), WorkingSet(), stop=EXACT) for A in (narrow, S)]
    assert all(result.status is Status.CONVERGED for result in results)
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-7)


@pytest.mark.parametrize("ids", [[1], [0, 2, 5], list(range(6)), []])
def test_some_columns_are_those_of_the_matrix_by_rows_and_by_columns(ids):
    X = sp.random(9, 6, density=0.4, format="csr", random_state=3)
    some = some_columns(SparseDesign(X), np.array(ids, np.int64))
    columns = SparseColumns(SparseDesign(X), np.array(ids, np.int64))
    starts, rows, values = columns.parts
    assert np.array_equal(some.X.toarray(), X.toarray()[:, ids])
    assert np.array_equal(sp.csc_array((values, rows, starts), shape=(9, len(ids))).toarray(), X.toarray()[:, ids])


@pytest.mark.parametrize("columns", [[4], [5, 0, 3], list(range(6)), []])
def test_the_gram_matrix_of_some_columns_is_a_part_of_that_of_all(columns):
    rng = np.random.default_rng(5)
    parts = (rng.standard_normal(9), np.array([0, 3, 3, 5, 1, 0, 4, 2, 5]), np.array([0, 4, 4, 7, 9]))
    design = SparseDesign(sp.csr_matrix(parts, shape=(4, 6)))  # column 3 twice in a row, and an empty row
    g = np.array([0.5, 1.0, 0.0, 2.0])
    chosen = np.array(columns, np.int64)
    expected = design.weighted_gram(g)[np.ix_(chosen, chosen)]
    np.testing.assert_allclose(design.partial_gram(g, chosen), expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_norms_of_columns_do_not_depend_on_the_layout(order, dtype):
    X = np.random.default_rng(6).standard_normal((50, 7)).astype(dtype)
    weight = np.linspace(0.0, 1.0, 50)
    norms = column_norms(as_design(np.asarray(X, order=order)), weight)
    np.testing.assert_allclose(norms, np.sqrt(weight @ X.astype(np.float64) ** 2), rtol=1e-12)


def test_scores_that_are_carried_on_stay_those_of_the_parameters():
    """Objectives of 60 steps in a row are those of their parameters, though few are computed from these."""
    X, y = problem_of("squared_hinge", 80, 40, seed=3)
    risk, reg, solver = LinearRisk(X, y, LOSSES["squared_hinge"].loss, fit_intercept=True), L1(1e-4), WorkingSet()
    state = solver.init(risk, reg, np.zeros(40))
    for _ in range(60):
        state = solver.step(risk, reg, state)
        assert state.progress.objective == pytest.approx(
            reg.value(state.solution) + risk.value(state.solution), rel=1e-13
        )


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_model_of_few_likely_columns_ends_where_that_of_all_does(fit_intercept):
    """Columns without a common row: those with a gradient below l1 stay at zero whatever the others do."""
    X, _ = one_hot(2000, 40, 1)
    y = np.random.default_rng(4).choice([-1.0, 1.0], 2000)
    risk = LinearRisk(X, y, Logistic(), fit_intercept=fit_intercept)
    problem = PointwiseProblem(risk, L1(0.5 * float(np.abs(risk.cut(np.zeros(40)).a).max())), np.ones(40))
    columns, point = problem.columns(np.arange(40)), problem.point(np.zeros(2000))
    at = problem.iterate(np.zeros(40), point, 0.0)
    arguments = (problem.model(at)[0], at.w, point.gradient, problem.penalty, Tolerance(1e-10), 30)
    part, whole = columns.minimize(*arguments), GramColumns.minimize(columns, *arguments)
    assert isinstance(columns, CompactColumns)
    assert 0 < np.count_nonzero(part.w) < 20
    assert part.w == pytest.approx(whole.w, abs=1e-9)
    assert part.scores == pytest.approx(whole.scores, abs=1e-9)


def test_a_whole_newton_step_evaluates_the_loss_once(monkeypatch):
    """A quadratic loss needs no search: the value at the start is known, and that at the end is kept."""
    X, y = problem_of("squared", 50, 5, seed=2)
    problem = PointwiseProblem(LinearRisk(X, y, Squared()), L1(0.01), np.ones(5))
    point = problem.point(np.zeros(50))
    calls, mean = [], problem.mean
    monkeypatch.setattr(problem, "mean", lambda scores: calls.append(1) or mean(scores))
    start = problem.iterate(np.zeros(5), point, 0.0)
    problem.descend(problem.columns(np.arange(5)), start, point.gradient, 1e-12, Effort(1, 30))
    assert len(calls) == 1


def many_samples(n=20_000, d=10, rate=0.5, *, fit_intercept=False):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d))
    scores = 2.0 * X[:, 0] - X[:, 1] + rng.logistic(size=n)
    y = np.where(scores > np.quantile(scores, 1.0 - rate), 1.0, -1.0)
    return LinearRisk(X, y, Logistic(), fit_intercept=fit_intercept)


def many_class_samples(n=40_000, *, lacks_class=False, fit_intercept=False):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n, 6))
    y = (X @ rng.standard_normal((6, 3)) + rng.gumbel(size=(n, 3))).argmax(axis=1)
    if lacks_class:
        y[y == 2] = 1
        y[0] = 2
    return MulticlassRisk(X, y, Softmax(), fit_intercept=fit_intercept)


@pytest.mark.parametrize("make", [many_samples, many_class_samples])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_many_samples_begin_near_the_solution_for_some_of_them(make, fit_intercept):
    risk, reg = make(fit_intercept=fit_intercept), L1(1e-3)
    best = minimize(risk, reg, WorkingSet(), stop=EXACT)
    start = WorkingSet().init(risk, reg, np.zeros(risk.n_params))
    at_zero = risk.value(np.zeros(risk.n_params))
    assert start.progress.objective - best.objective < 0.05 * (at_zero - best.objective)
    assert start.progress.lower_bound <= best.objective


@pytest.mark.parametrize(
    ("risk", "share"),
    [
        (many_samples(n=900), 0.01),
        (many_samples(), 0.5),
        (
            many_samples(rate=0.002, fit_intercept=True),
            1e-3,
        ),
        (many_class_samples(39_999), 0.01),
        (many_class_samples(), 0.5),
        (many_class_samples(lacks_class=True, fit_intercept=True), 0.01),
    ],
    ids=["few samples", "large lambda", "few positives", "fewer samples", "large lambda, classes", "a class lacks"],
)
def test_where_some_samples_say_little_the_start_is_zero(risk, share):
    lam = share * float(np.abs(risk.cut_at_zero.a).max())
    assert not WorkingSet().init(risk, L1(lam), np.zeros(risk.n_params)).w.any()


def test_the_plane_at_zero_is_kept():
    risk = many_samples(n=100)
    plain = risk.cut(np.zeros(risk.n_params))
    np.testing.assert_allclose(risk.cut_at_zero.a, plain.a)
    assert risk.cut_at_zero is risk.cut_at_zero
    assert risk.cut_at_zero.value == plain.value


def test_a_warm_start_at_the_solution_needs_no_step():
    X, y = problem_of("squared", 60, 100, seed=4)
    risk = LinearRisk(X, y, Squared())
    first = minimize(risk, L1(0.05), WorkingSet(), stop=Stop(gap_rel=1e-10))
    assert minimize(risk, L1(0.05), WorkingSet(), w0=first.w, stop=EXACT).n_steps == 0


def test_screened_parameters_are_zero_at_the_solution():
    X, y = problem_of("squared", 60, 100, seed=6)
    risk, reg, solver = LinearRisk(X, y, Squared()), L1(0.2), WorkingSet()
    solution = minimize(risk, reg, LevelBundle(), stop=Stop(gap_rel=1e-7, max_seconds=20.0)).w
    state = solver.init(risk, reg, np.zeros(100))
    for _ in range(4):
        state = solver.step(risk, reg, state)
    assert not state.alive.all()
    assert np.abs(solution[~state.alive]).max() <= 1e-6


@smooth
def test_a_conjugate_is_the_largest_difference(loss):
    """``l*(v) = sup_s v s - l(s)``, by a grid; infinite beyond the slopes of the loss."""
    case = LOSSES[loss]
    known = smooth_conjugate(case.loss)
    y = case.draw_targets(np.random.default_rng(0), 6)
    s = np.linspace(-6.0, 6.0, 200_001)
    for target in y:
        column = np.full_like(s, target)
        values, slopes = case.loss.value_slope(column, s)
        for v in slopes[20_000:180_000:20_000]:
            exact = float(known.weighted(np.array([target]), np.ones(1), np.array([v]))[0])
            assert exact == pytest.approx(float((v * s - values).max()), abs=1e-6)


@smooth
def test_a_conjugate_is_infinite_where_no_score_has_such_a_slope(loss):
    case = LOSSES[loss]
    known = smooth_conjugate(case.loss)
    y = case.draw_targets(np.random.default_rng(0), 6)
    for v in (-40.0, -2.0, -1.0, -0.3, 0.0, 0.3, 1.0, 2.0, 40.0):
        slopes = np.full_like(y, v)
        ends = [case.loss.value_slope(y, np.full_like(y, s))[1] for s in (-50.0, 50.0)]
        is_slope = np.ones(y.size, bool) if known.is_slope is None else known.is_slope(y, slopes)
        assert np.array_equal(is_slope, (ends[0] - 1e-9 <= slopes) & (slopes <= ends[1] + 1e-9))
        assert np.array_equal(is_slope, np.isfinite(known.weighted(y, np.ones_like(y), slopes)))


@pytest.mark.parametrize("intercept", [False, True])
@smooth
def test_points_and_iterates_know_the_second_derivatives_at_their_scores(loss, intercept):
    case = LOSSES[loss]
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((30, 4)), case.draw_targets(rng, 30)
    weight = rng.integers(0, 3, 30).astype(float)
    problem = PointwiseProblem(LinearRisk(X, y, case.loss, weight, fit_intercept=intercept), L1(0.01), np.ones(4))
    point = problem.point(X @ rng.standard_normal(4))
    start = problem.iterate(np.zeros(4), point, 0.0)
    end = problem.descend(problem.columns(np.arange(4)), start, point.gradient, 1e-9, Effort(1, 30))
    for bend, scores in ((point.bend, point.scores + point.intercept), (end.bend, end.scores)):
        np.testing.assert_allclose(bend, problem.weight * case.loss.curvature(y, scores), atol=1e-12)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20))
def test_balanced_slopes_sum_to_zero_and_only_shrink(slopes):
    slopes = np.array(slopes)
    result = balanced(slopes)
    assert abs(math.fsum(result)) <= 1e-12 * np.abs(slopes).sum()
    assert (np.abs(result) <= np.abs(slopes)).all()
    assert (result * slopes >= 0.0).all()


@pytest.mark.parametrize(
    ("risk", "reg", "rule"),
    [
        (LinearRisk(np.eye(2), np.array([1.0, -1.0]), Logistic()), L2(1.0), "positive l1_ratio"),
        (LinearRisk(np.eye(2), np.array([1.0, -1.0]), Logistic()), ElasticNet(1.0, l1_ratio=0.0), "positive l1_ratio"),
        (LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge()), L1(1.0), "smooth loss"),
        (FunctionRisk(lambda w: (0.0, w), 2, lower_bound=0.0), L1(1.0), "LinearRisk"),
        (MulticlassRisk(np.eye(2), np.array([0, 1]), CrammerSinger()), L1(1.0), "smooth loss"),
    ],
)
def test_other_problems_are_refused(risk, reg, rule):
    with pytest.raises(CapabilityError, match=rule):
        minimize(risk, reg, WorkingSet())


def test_a_working_set_must_grow():
    with pytest.raises(ParameterError, match="growth"):
        WorkingSet(growth=1.0)
