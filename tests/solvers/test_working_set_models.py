"""Newton steps on the quadratic models of a working set."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L1, LinearRisk, Logistic, Poisson, Squared, SquaredHinge, Status, Stop, minimize
from undercut.accuracy import gap_allowed
from undercut.maps.csr import SparseDesign
from undercut.maps.dense import DenseDesign
from undercut.solvers import WorkingSet
from undercut.solvers.coordinate.working import class_columns, gram_columns, sparse_problem
from undercut.solvers.coordinate.working.class_columns import ClassColumns
from undercut.solvers.coordinate.working.class_model import ClassModel
from undercut.solvers.coordinate.working.columns import Penalty, PointwiseModel, Tolerance, column_norms
from undercut.solvers.coordinate.working.direct_columns import SparseColumns, Trial, WideColumns
from undercut.solvers.coordinate.working.gram_columns import CompactColumns, descend_gram
from undercut.solvers.coordinate.working.pointwise_problem import REACH, PointwiseProblem
from undercut.solvers.coordinate.working.sparse_problem import Effort


def test_a_newton_step_on_a_model_lowers_it_and_ends_in_exact_zeros():
    rng = np.random.default_rng(1)
    X = sp.random(60, 90, density=0.2, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    model = PointwiseModel(rng.standard_normal(60) / 60, rng.uniform(0.1, 1.0, 60) / 60, free=True)
    columns = SparseColumns(SparseDesign(X), np.arange(90))
    trial = Trial(columns, model, Penalty(0.001, 0.0), np.zeros(90), X.T @ model.slopes)
    trial.descend(Tolerance(0.0))
    before, energy = trial.w, trial._energy(trial.w, trial.b, trial.z)
    trial.newton()
    assert trial._energy(trial.w, trial.b, trial.z) < energy
    assert np.count_nonzero(trial.w) < np.count_nonzero(before) - 1
    assert (trial.w * before >= 0.0).all()
    np.testing.assert_allclose(trial.z, X @ trial.w + trial.b, atol=1e-12)


@pytest.mark.parametrize("is_sparse", [True, False])
def test_an_epoch_with_a_free_intercept_is_one_on_centered_columns(is_sparse):
    rng = np.random.default_rng(3)
    X = rng.uniform(0.5, 1.0, (40, 12))  # all columns have much in common with the intercept
    bend = rng.uniform(0.1, 1.0, 40) / 40
    model, penalty = PointwiseModel(rng.standard_normal(40) / 40, bend, free=True), Penalty(1e-4, 1e-3)
    every = np.arange(12)
    columns = SparseColumns(SparseDesign(sp.csr_matrix(X)), every) if is_sparse else WideColumns(DenseDesign(X), every)
    trial = Trial(columns, model, penalty, np.zeros(12), X.T @ model.slopes)
    columns.epoch(trial, every)
    centered = X - bend @ X / bend.sum()
    slopes = model.slopes - bend * model.slopes.sum() / bend.sum()
    fixed = PointwiseModel(slopes, bend, free=False)
    other = WideColumns(DenseDesign(centered), every)
    reference = Trial(other, fixed, penalty, np.zeros(12), centered.T @ slopes)
    other.epoch(reference, every)
    assert np.count_nonzero(trial.w) > 3
    np.testing.assert_allclose(trial.w, reference.w, atol=1e-12)


def test_many_parameters_become_zero_in_few_rounds_where_nearly_every_sample_has_one(monkeypatch):
    rng = np.random.default_rng(2)
    X = sp.random(300, 2000, density=0.01, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    y = rng.poisson(np.exp(0.2 * (X @ rng.standard_normal(2000)))).astype(float)
    risk = LinearRisk(X, y, Poisson(), fit_intercept=True)
    lam = 0.001 * np.abs(risk.cut(np.zeros(2000)).a).max()
    rounds: list[Trial] = []
    descend = Trial.descend
    monkeypatch.setattr(Trial, "descend", lambda trial, tol: rounds.append(trial) or descend(trial, tol))
    assert minimize(risk, L1(lam), WorkingSet(), stop=Stop(gap_rel=1e-6, max_steps=50)).status.name == "CONVERGED"
    assert len(rounds) < 450


@pytest.mark.parametrize("penalty", [Penalty(1e-4, 0.0), Penalty(1e-5, 1e-5)], ids=["l1", "elastic net"])
@pytest.mark.parametrize("seed", range(3))
def test_descent_on_a_gram_matrix_reaches_the_minimum_along_flat_directions(seed, penalty):
    rng = np.random.default_rng(seed)
    X = np.zeros((500, 120))  # thirty groups of features that sum to one
    X[np.arange(500)[:, None], (4 * rng.random((500, 30)) ** 2).astype(int) + 4 * np.arange(30)] = 1.0
    H = X.T @ (X * rng.random((500, 1)) ** 4) / 500
    gradient = H @ rng.standard_normal(120) + 5e-5 * X.T @ rng.standard_normal(500)
    w, left = np.zeros(120), gradient.copy()
    descend_gram(H, left, w, penalty, 1e-9)
    assert penalty.violation(w, left).max() <= 1e-9
    np.testing.assert_allclose(left, gradient + H @ w, atol=1e-11)


@pytest.mark.parametrize("l2", [0.0, 1e-3])
@pytest.mark.parametrize("damping", [0.0, 0.1])
def test_a_model_has_the_same_minimum_pair_by_pair_as_class_by_class(l2, damping, monkeypatch):
    rng = np.random.default_rng(5)
    X = sp.random(80, 60, density=0.1, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    P, weight = rng.dirichlet(np.full(7, 0.5), 80), rng.uniform(0.0, 1.0, 80) / 40
    slopes = weight[:, None] * (P - np.eye(7)[rng.integers(0, 7, 80)])
    model = ClassModel(slopes, P, weight, damping, slopes.sum(axis=0))
    columns, w = ClassColumns(SparseDesign(X), np.arange(60), 7), np.zeros(420)
    penalty, gradient = Penalty(2e-3, l2), columns.gradient(slopes)
    monkeypatch.setattr(class_columns, "NEAR", 0.0)
    moves = []
    for apart in (0.0, np.inf):
        monkeypatch.setattr(class_columns, "APART", apart)
        moves.append(columns.minimize(model, w, gradient, penalty, Tolerance(1e-10), 1000))
    assert 20 < np.count_nonzero(moves[0].w) < 400
    np.testing.assert_allclose(moves[0].w, moves[1].w, atol=1e-6)
    ends = [model.through(move.scores) for move in moves]  # what all classes have in common is free
    np.testing.assert_allclose(*ends, atol=1e-6)


def n_rounds_of_descent():
    """Until columns with much in common have no violations."""
    rng = np.random.default_rng(4)
    X = sp.csr_matrix(np.vstack([np.full((100, 60), 0.4), np.eye(60)]))
    model = PointwiseModel(rng.standard_normal(160) / 160, np.full(160, 1.0 / 160), free=False)
    columns = SparseColumns(SparseDesign(X), np.arange(60))
    trial = Trial(columns, model, Penalty(1e-6, 0.0), np.zeros(60), X.T @ model.slopes)
    tol = Tolerance(1e-5)
    for done in range(200):
        if not trial.descend(tol):
            return done
    return 200


def test_random_orders_save_most_epochs_where_columns_have_much_in_common(monkeypatch):
    random = n_rounds_of_descent()
    monkeypatch.setattr(Trial, "_permuted", lambda trial, active: active)
    assert n_rounds_of_descent() > 3 * random


def test_every_epoch_decreases_the_model_though_its_steps_pass_the_minimizers():
    rng = np.random.default_rng(8)
    X = sp.random(60, 90, density=0.2, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    model = PointwiseModel(rng.standard_normal(60) / 60, rng.uniform(0.1, 1.0, 60) / 60, free=False)
    columns = SparseColumns(SparseDesign(X), np.arange(90))
    trial = Trial(columns, model, Penalty(0.001, 0.001), np.zeros(90), X.T @ model.slopes)
    energies = [trial._energy(trial.w, trial.b, trial.z)]
    for _ in range(20):
        columns.epoch(trial, np.arange(90))
        energies.append(trial._energy(trial.w, trial.b, trial.z))
    assert (np.diff(energies) <= 1e-15).all()
    assert energies[1] < energies[0]


@pytest.mark.parametrize("loss", [Logistic(), Poisson(), SquaredHinge()])
def test_models_after_long_steps_keep_samples_in_reach_and_those_after_short_ones_are_exact(loss):
    rng = np.random.default_rng(9)
    X = rng.standard_normal((40, 5))
    y = rng.poisson(3.0, 40).astype(float) if isinstance(loss, Poisson) else np.sign(X[:, 0])
    problem = PointwiseProblem(LinearRisk(X, y, loss), L1(0.1), np.ones(5))
    scores = 8.0 * rng.standard_normal(40)
    point = problem.point(scores)
    near, _ = problem.model(problem.iterate(np.zeros(5), point, 0.0, moved=0.1))
    far, _ = problem.model(problem.iterate(np.zeros(5), point, 0.0, moved=30.0))
    exact = loss.curvature(y, scores) / 40
    if not isinstance(loss, SquaredHinge):  # its second derivatives vanish where it is zero
        np.testing.assert_allclose(near.bend, exact)
        assert (np.abs(far.slopes) <= REACH * far.bend * (1.0 + 1e-12)).all()
        assert (far.bend > exact).any()
    assert (far.bend >= near.bend).all()


def test_columns_at_hand_are_the_same_as_those_collected_from_the_rows():
    X = sp.random(30, 20, density=0.3, format="csr", random_state=5)
    few, some = np.array([1, 4, 7, 12, 19]), np.array([0, 4, 5, 12, 18, 19])
    design = SparseDesign(X)
    last = SparseColumns(design, few)
    for ids in (some, few[1:4]):
        fresh, copied = SparseColumns(design, ids), SparseColumns(design, ids, last)
        assert all(np.array_equal(one, other) for one, other in zip(fresh.parts, copied.parts, strict=True))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()])
def test_slopes_moved_into_their_limits_prove_a_valid_and_a_better_bound(loss, intercept):
    rng = np.random.default_rng(6)
    frequency = np.minimum(0.5, 3.0 / np.arange(1, 401))
    X = sp.csr_matrix((rng.random((600, 400)) < frequency) * rng.random((600, 400)))
    y = np.where(X @ rng.standard_normal(400) > 0.0, 1.0, -1.0)
    risk = LinearRisk(X, y, loss, fit_intercept=intercept)
    reg = L1(0.03 * float(np.abs(risk.cut_at_zero.a).max()))
    best = minimize(risk, reg, WorkingSet(), stop=Stop(gap_rel=1e-9))
    problem = PointwiseProblem(risk, reg, column_norms(risk.design, risk.weight))
    used = np.flatnonzero(best.w)
    columns, alive = SparseColumns(risk.design, used), np.ones(400, bool)
    start = problem.point(problem.scores(best.w * rng.uniform(0.9, 1.1, 400)))
    outside = np.abs(start.gradient) > reg.terms.l1
    wider = problem._widened(columns, outside.copy())
    assert np.array_equal(wider.ids, np.union1d(used, np.flatnonzero(outside)))
    scaled = problem.bound(start.slopes, start.gradient, alive, best.objective)
    tol = Tolerance(1e-3 * reg.terms.l1)
    moved = problem.moved(scaled, start.bend, wider, tol, alive, best.objective)
    assert scaled.value < moved.value <= best.objective


def test_a_working_set_does_not_hold_the_one_before():
    design = SparseDesign(sp.random_array((50, 8), density=0.05, format="csr", rng=np.random.default_rng(0)))
    first = SparseColumns(design, np.arange(8))
    held = weakref.ref(first)
    second = SparseColumns(design, np.arange(8), first)
    del first
    gc.collect()
    assert held() is None
    assert second.ids.size == 8


def test_features_that_turn_out_not_to_be_needed_leave_the_working_set():
    rng = np.random.default_rng(10)
    X = sp.random(2000, 3000, density=0.01, format="csr", random_state=rng)
    y = np.where(X[:, :30] @ rng.standard_normal(30) > 0.0, 1.0, -1.0)
    risk = LinearRisk(X, y, Logistic())
    reg = L1(0.15 * float(np.abs(risk.cut_at_zero.a).max()))
    solver, state, sizes = WorkingSet(), WorkingSet().init(risk, reg, np.zeros(3000)), []
    for _ in range(6):
        state = solver.step(risk, reg, state)
        sizes.append(state.columns.ids.size)
    assert min(sizes) < 0.5 * sizes[0]
    assert np.isin(np.flatnonzero(state.w), state.columns.ids).all()


@pytest.mark.parametrize(
    ("loss", "n_columns", "kind"),
    [(Squared(), 60, CompactColumns), (SquaredHinge(), 60, SparseColumns), (Squared(), 600, SparseColumns)],
    ids=["one matrix for all models", "another for every model", "too large a matrix"],
)
def test_few_sparse_columns_have_a_gram_matrix_where_all_models_share_it(loss, n_columns, kind):
    rng = np.random.default_rng(3)
    X = sp.random(1000, n_columns, density=2.0 / n_columns, format="csr", random_state=rng)
    risk = LinearRisk(X, np.where(rng.random(1000) < 0.5, 1.0, -1.0), loss)
    problem = PointwiseProblem(risk, L1(0.01), np.ones(n_columns))
    assert type(problem.columns(np.arange(n_columns))) is kind


@pytest.mark.parametrize(
    ("similar", "needs_newton"), [(0.9, False), (0.999, True)], ids=["unlike columns", "similar columns"]
)
def test_a_small_gram_matrix_needs_newton_steps_only_if_its_columns_are_similar(similar, needs_newton, monkeypatch):
    calls, newton = [], gram_columns._newton_on_support
    monkeypatch.setattr(gram_columns, "_newton_on_support", lambda *args: (calls.append(1), newton(*args)))
    H = np.full((6, 6), similar) + (1.0 - similar) * np.eye(6)
    w, penalty = np.zeros(6), Penalty(0.1, 0.0)
    gradient = -H @ np.array([1.0, -2.0, 0.5, 0.0, 0.0, 3.0])
    start = gradient.copy()
    descend_gram(H, gradient, w, penalty, 1e-10)
    np.testing.assert_allclose(gradient, start + H @ w, atol=1e-12)
    assert penalty.violation(w, gradient).max() <= 1e-10
    assert bool(calls) == needs_newton


def test_a_step_of_a_quadratic_loss_is_whole_and_lowers_the_objective(monkeypatch):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((50, 6))
    risk = LinearRisk(X, X @ rng.standard_normal(6) + 1.0, Squared(), fit_intercept=True)
    problem = PointwiseProblem(risk, L1(0.01), np.ones(6))
    point = problem.point(np.zeros(50))
    start, columns = problem.iterate(np.zeros(6), point, 0.0), problem.columns(np.arange(6))
    monkeypatch.setattr(sparse_problem, "minimize_convex", lambda *args, **settings: pytest.fail("no search"))
    end = problem.descend(columns, start, point.gradient, 1e-9, Effort(1, 30))
    assert end.value < start.value
    np.testing.assert_array_equal(end.w, end.last.move.w)


def test_a_step_moves_where_violations_of_parameters_that_are_not_zero_are_small_but_the_bound_is_not(rng):
    X = sp.random(300, 400, density=0.4, format="csr", random_state=rng)
    y = np.where(X @ rng.standard_normal(400) + rng.standard_normal(300) > 0.0, 1.0, -1.0)
    risk, solver = LinearRisk(X, y, Logistic(), fit_intercept=True), WorkingSet()
    reg = L1(0.05 * float(np.abs(risk.cut_at_zero.a).max()))
    w = minimize(risk, reg, solver, stop=Stop(gap_rel=1e-9)).w
    w[np.argmax(np.abs(w))] = 0.0
    before = replace(solver.init(risk, reg, w), decrease=0.0)
    misfit = Penalty(reg.lam, 0.0).misfit(w, before.point.gradient)
    with gap_allowed(lambda progress: 10.0 * misfit):
        after = solver.step(risk, reg, before)
    assert after.progress.objective < before.progress.objective


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=["logistic", "squared hinge"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_matrix_serves_several_models_that_are_similar(loss, fit_intercept, monkeypatch):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((3000, 60))
    y = np.where(X @ rng.standard_normal(60) + 4.0 * rng.standard_normal(3000) > 0.0, 1.0, -1.0)
    risk, stop = LinearRisk(X, y, loss, fit_intercept=fit_intercept), Stop(gap_rel=1e-10)
    made, weighted_gram = [], gram_columns.DenseColumns.weighted_gram
    monkeypatch.setattr(
        gram_columns.DenseColumns, "weighted_gram", lambda self, bend: made.append(1) or weighted_gram(self, bend)
    )
    result, n_made = minimize(risk, L1(1e-3), WorkingSet(), stop=stop), len(made)
    monkeypatch.setattr(gram_columns, "SIMILAR", 0.0)
    other = minimize(risk, L1(1e-3), WorkingSet(), stop=stop)
    assert n_made < len(made) - n_made
    assert result.status is other.status is Status.CONVERGED
    assert result.lower_bound <= other.objective * (1.0 + 1e-14)
    assert other.lower_bound <= result.objective * (1.0 + 1e-14)


def test_a_matrix_whose_last_step_left_most_violations_is_made_again():
    columns = gram_columns.DenseColumns(DenseDesign(np.random.default_rng(0).standard_normal((80, 60))), np.arange(60))
    first = PointwiseModel(np.zeros(80), np.ones(80), free=False)
    near = PointwiseModel(np.zeros(80), np.full(80, 1.05), free=False)
    far = PointwiseModel(np.zeros(80), np.full(80, 1.2), free=False)
    assert columns.at_hand(first, 1.0) is first
    columns.gram(first)
    assert columns.at_hand(near, 0.3).bend is first.bend
    assert columns.at_hand(near, 0.2) is near  # 0.2 > 0.4 * 0.3
    assert columns.at_hand(far, 0.01) is far
