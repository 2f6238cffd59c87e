"""Dual coordinate descent: its bound, its intercept, its shrinking and its state, against other solvers."""

from __future__ import annotations

import math
from dataclasses import fields
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from sklearn.svm import LinearSVC
from tests.catalogue import LOSSES, MARGIN, Problem

from undercut import L1, L2, ElasticNet, Exponential, Hinge, LinearRisk, Logistic, Ramp, Squared, Status, Stop, minimize
from undercut._jit.dual_coordinate import RIDGE, ROW_COST, shuffle
from undercut.contracts import MulticlassLoss
from undercut.errors import CapabilityError
from undercut.losses import CrammerSinger, Softmax
from undercut.maps.design import WithConstant, as_design
from undercut.risks import MulticlassRisk
from undercut.solvers import SOLVERS, DualCoordinate, LineSearchBundle
from undercut.solvers.bounds import LINE_ACCURACY, ROUNDING
from undercut.solvers.coordinate import dual_coordinate
from undercut.solvers.coordinate.dual.class_descent import MarginDescent
from undercut.solvers.coordinate.dual.conjugates import conjugate_of, has_conjugate
from undercut.solvers.coordinate.dual.pointwise_descent import PointwiseDescent, pointwise_descent
from undercut.solvers.coordinate.dual.pointwise_dual import pointwise_dual
from undercut.solvers.coordinate.dual.start import End, best_start, halved

KNOWN = tuple(name for name, case in LOSSES.items() if has_conjugate(case.loss))
losses = pytest.mark.parametrize("loss", KNOWN)
intercepts = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
TIGHT = Stop(gap_rel=1e-6, max_steps=3000)


def assert_certified(result, optimum, gap_rel=1e-6):
    size = max(1.0, abs(optimum))
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= optimum + 1e-9 * size
    assert optimum - 1e-7 * size <= result.objective <= optimum + gap_rel * abs(result.objective) + 1e-9 * size


def wide(seed=0, n=300, d=2000, density=0.02, noise=0.3):
    """Normalized sparse rows with more features than samples, and labels of a noisy linear rule."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=density, format="csr", rng=rng)
    scores = X @ rng.standard_normal(d)
    return X, np.where(scores + noise * scores.std() * rng.standard_normal(n) > 0.0, 1.0, -1.0)


@losses
@intercepts
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_bounds_bracket_the_known_optimum(loss, fit_intercept, weighted, sparse):
    problem = Problem(loss, fit_intercept, weighted)
    result = minimize(problem.risk(sparse=sparse), problem.reg, DualCoordinate(), stop=TIGHT)
    assert_certified(result, problem.optimum().value)
    b = problem.risk().intercept(result.w)
    assert result.objective == pytest.approx(problem.objective(result.w, b), rel=1e-10)


@losses
@intercepts
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_a_center_and_weights_of_the_penalty_are_respected(loss, fit_intercept, sparse):
    problem = Problem(loss, fit_intercept, weighted=True, shifted=True)
    result = minimize(problem.risk(sparse=sparse), problem.reg, DualCoordinate(), stop=TIGHT)
    assert_certified(result, problem.optimum().value)


@losses
@intercepts
@pytest.mark.parametrize("lam", [1e-3, 1.0, 1e3])
def test_it_converges_from_weak_to_strong_regularization(loss, fit_intercept, lam):
    problem = Problem(loss, fit_intercept, lam=lam)
    result = minimize(problem.risk(), problem.reg, "dual_coordinate", stop=Stop(gap_rel=1e-4, max_steps=2000))
    assert_certified(result, problem.optimum().value, 1e-4)


@losses
@intercepts
@pytest.mark.parametrize("lam", [1e-9, 1e-6, 1e8])
def test_bounds_are_valid_at_absurd_lambdas(loss, fit_intercept, lam):
    problem = Problem(loss, fit_intercept, lam=lam)
    result = minimize(problem.risk(), problem.reg, DualCoordinate(), stop=Stop(gap_rel=1e-4, max_steps=15))
    best = minimize(problem.risk(), problem.reg, stop=Stop(gap_rel=1e-9, max_steps=300)).objective
    assert np.isfinite(result.w).all()
    assert result.lower_bound <= best * (1.0 + 1e-9)
    if result.status is Status.CONVERGED:
        assert result.objective <= best * (1.0 + 2e-4)


@losses
@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.9])
def test_the_elastic_net_agrees_with_a_conic_solver(loss, ratio):
    problem, lam = Problem(loss, weighted=True), 0.1
    w = cp.Variable(problem.d)
    penalty = lam * (ratio * cp.norm1(w) + 0.5 * (1.0 - ratio) * cp.sum_squares(w))
    program = cp.Problem(cp.Minimize(penalty + problem._shares() @ problem.case.atom(problem.y, problem.X @ w)))
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    result = minimize(problem.risk(), ElasticNet(lam, ratio), DualCoordinate(), stop=TIGHT)
    assert_certified(result, program.value)


@intercepts
def test_the_elastic_net_sets_parameters_to_zero(fit_intercept):
    problem, reg = Problem("hinge", fit_intercept, d=20), ElasticNet(0.2, 0.8)
    result = minimize(problem.risk(), reg, DualCoordinate(), stop=Stop(gap_rel=1e-9, max_steps=3000))
    reference = minimize(problem.risk(), reg, stop=TIGHT)
    assert result.objective == pytest.approx(reference.objective, rel=1e-5)
    assert 0 < np.count_nonzero(result.w) < 20


def kinks():
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((12, 4)), np.where(np.arange(12) % 2, 1.0, -1.0)
    weight = np.ones(12)
    weight[3:6] = 0.0
    yield "duplicates", np.repeat(X[:3], 4, axis=0), y, None
    yield "zero rows", np.where(np.arange(12)[:, None] < 5, 0.0, X), y, None
    yield "nothing but zeros", np.zeros((12, 4)), y, None
    yield "one class", X, np.ones(12), None
    yield "zero weights", X, y, weight
    yield "one sample", X[:1], y[:1], None
    yield "integers", np.round(X), y, None


@pytest.mark.parametrize("case", list(kinks()), ids=lambda case: case[0])
@losses
@intercepts
def test_ties_and_empty_rows_do_no_harm(case, loss, fit_intercept):
    _, X, y, weight = case
    risk, reg = LinearRisk(X, y, LOSSES[loss].loss, weight, fit_intercept=fit_intercept), L2(0.1)
    result = minimize(risk, reg, DualCoordinate(), stop=Stop(gap_rel=1e-5, gap_abs=1e-9, max_steps=3000))
    reference = minimize(risk, reg, LineSearchBundle(), stop=Stop(gap_rel=1e-6, gap_abs=1e-10, max_steps=500))
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= reference.objective + 1e-12
    assert result.objective == pytest.approx(reference.objective, rel=2e-5, abs=1e-8)


@given(
    loss=st.sampled_from(KNOWN),
    fit_intercept=st.booleans(),
    lam=st.floats(1e-4, 1e3),
    n=st.integers(1, 25),
    d=st.integers(1, 30),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=60, deadline=None)
def test_the_bound_never_exceeds_what_another_solver_reaches(loss, fit_intercept, lam, n, d, seed):
    problem = Problem(loss, fit_intercept, weighted=True, lam=lam, n=n, d=d, seed=seed)
    ours = minimize(problem.risk(sparse=True), problem.reg, DualCoordinate(), stop=Stop(gap_rel=1e-4, max_steps=60))
    other = minimize(problem.risk(), problem.reg, stop=Stop(gap_rel=1e-6, gap_abs=1e-12, max_steps=200))
    assert ours.lower_bound <= other.objective * (1.0 + 1e-9) + 1e-12
    assert ours.objective >= other.lower_bound * (1.0 - 1e-9) - 1e-12


@losses
def test_the_conjugate_is_that_of_the_loss(loss):
    """Fenchel: ``l(s) = max_u -s u - l*(-u)`` over a fine grid of u."""
    case = LOSSES[loss]
    y = np.array([1.0, -1.0])
    form = conjugate_of(case.loss, y)
    scores = np.linspace(-3.0, 3.0, 31)
    for at in range(2):
        u = np.linspace(max(form.low[at], -20.0), min(form.high[at], 20.0), 40001)
        star = -form.target[at] * u + form.zone * np.abs(u) + 0.5 * form.ridge * u**2
        if form.logistic:
            size = np.clip(np.abs(u), 1e-300, 1.0 - 1e-16)
            star = size * np.log(size) + (1.0 - size) * np.log(1.0 - size)
        found = [(-s * u - star).max() for s in scores]
        np.testing.assert_allclose(found, case.formula(y[at], scores), atol=1e-6)


def test_it_agrees_with_liblinear():
    X, y = wide()
    lam = 1e-4
    result = minimize(LinearRisk(X, y, Hinge()), L2(lam), DualCoordinate(), stop=Stop(gap_rel=1e-6, max_steps=3000))
    theirs = LinearSVC(loss="hinge", dual=True, fit_intercept=False, C=1.0 / (lam * y.size), tol=1e-9, max_iter=10**6)
    w = theirs.fit(sp.csr_matrix(X), y).coef_.ravel()
    assert result.objective == pytest.approx(L2(lam).value(w) + LinearRisk(X, y, Hinge()).value(w), rel=2e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_rows_are_read_in_place(dtype, index):
    X, y = wide()
    X = X.astype(dtype)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    dense = np.asarray(X.todense(), dtype=dtype)
    assert np.shares_memory(pointwise_dual(LinearRisk(X, y, Hinge()), L2(0.1)).rows.values, X.data)
    assert np.shares_memory(pointwise_dual(LinearRisk(dense, y, Hinge()), L2(0.1)).rows.values, dense)
    found = [minimize(LinearRisk(data, y, Hinge()), L2(1e-3), DualCoordinate(), stop=TIGHT) for data in (X, dense)]
    assert found[0].objective == pytest.approx(found[1].objective, rel=2e-6)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 6)], ids=["plain", "weights"])
def test_a_constant_feature_need_not_be_stored(sparse, weights):
    problem, reg = Problem("hinge"), L2(0.05, weights=weights)
    X = sp.csr_array(problem.X) if sparse else problem.X
    implied = LinearRisk(WithConstant(as_design(X)), problem.y, Hinge())
    stored = LinearRisk(np.column_stack([problem.X, np.ones(problem.n)]), problem.y, Hinge())
    found = [minimize(risk, reg, DualCoordinate(), stop=TIGHT) for risk in (implied, stored)]
    assert found[0].status is Status.CONVERGED
    assert found[0].objective == pytest.approx(found[1].objective, rel=2e-6)


def arrays_of(state):
    return [getattr(state.descent, each.name) for each in fields(state.descent) if each.name in ("a", "v", "order")]


@pytest.mark.parametrize("loss", MARGIN[:3])
@intercepts
def test_a_step_leaves_its_state_as_it_was_and_repeats_itself(loss, fit_intercept):
    solver, reg = DualCoordinate(), L2(1e-4)
    X, y = wide()
    risk = LinearRisk(X, y, LOSSES[loss].loss, fit_intercept=fit_intercept)
    state = solver.init(risk, reg, np.zeros(risk.n_params))
    for _ in range(12):
        before = [array.copy() for array in arrays_of(state)]
        first, second = solver.step(risk, reg, state), solver.step(risk, reg, state)
        for was, now in zip(before, arrays_of(state), strict=True):
            np.testing.assert_array_equal(was, now)
        for one, other in zip(arrays_of(first), arrays_of(second), strict=True):
            np.testing.assert_array_equal(one, other)
        # A line search with a free intercept starts from the last one, and may give up a share of the decrease.
        slack = LINE_ACCURACY * (state.progress.objective - first.progress.objective) + 1e-12
        assert abs(first.progress.objective - second.progress.objective) <= slack
        state = first


@losses
@intercepts
def test_every_step_tightens_the_bracket(loss, fit_intercept):
    problem = Problem(loss, fit_intercept, lam=1e-3)
    trace = minimize(problem.risk(), problem.reg, DualCoordinate(), stop=Stop(max_steps=40)).trace
    for last, now in pairwise(trace):
        assert now.objective <= last.objective
        assert now.lower_bound >= last.lower_bound
        assert now.n_passes > last.n_passes


def test_a_start_near_the_optimum_saves_passes():
    X, y = wide(n=500, d=300, density=0.1)
    risk, reg = LinearRisk(X, y, LOSSES["logistic"].loss), L2(1e-4)
    cold = minimize(risk, reg, DualCoordinate(), stop=Stop(gap_rel=1e-5))
    warm = minimize(risk, reg, DualCoordinate(), w0=cold.w, stop=Stop(gap_rel=1e-5))
    assert warm.trace[-1].n_passes <= 0.5 * cold.trace[-1].n_passes


@pytest.mark.parametrize("scale", [1.0, 1e3])
@losses
def test_any_start_leads_to_the_optimum(loss, scale):
    problem = Problem(loss, fit_intercept=True)
    w0 = scale * np.random.default_rng(7).standard_normal(problem.d)
    result = minimize(problem.risk(), problem.reg, DualCoordinate(), w0=w0, stop=TIGHT)
    assert_certified(result, problem.optimum().value)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
def test_the_sweeps_vector_stays_within_the_rounding_that_a_bound_allows_for(loss):
    """``v`` is not computed anew; its distance to ``X' a`` and its length are bounded."""
    X, y = wide()
    risk, reg = LinearRisk(X, y, LOSSES[loss].loss), L2(1e-5)
    descent = pointwise_descent(risk, reg, np.zeros(y.size))
    descent.run(20 * descent.dual.pass_work)
    drift = ROUNDING * descent.dual.reach * descent.work / ROW_COST
    assert 0.0 < np.linalg.norm(descent.v - X.T @ descent.a) <= drift <= 1e-6 * np.linalg.norm(descent.v)
    assert np.linalg.norm(descent.v) <= descent.dual.reach
    at_sweeps, anew = descent.bound(math.inf), descent.bound(0.0)
    assert at_sweeps <= anew <= at_sweeps + 1e-6 * abs(anew)
    assert np.linalg.norm(descent.v - X.T @ descent.a) == pytest.approx(0.0, abs=1e-12)


def test_a_certificate_at_moderate_accuracy_reads_the_data_once(monkeypatch):
    X, y = wide()
    risk = LinearRisk(X, y, Hinge())
    calls = {"matvec": 0, "rmatvec": 0}
    for name in calls:
        plain = getattr(risk.design, name)
        monkeypatch.setattr(
            risk.design, name, lambda v, name=name, plain=plain: calls.update({name: calls[name] + 1}) or plain(v)
        )
    result = minimize(risk, L2(1e-4), DualCoordinate(), stop=Stop(gap_rel=1e-3))
    assert result.status is Status.CONVERGED
    assert calls == {"matvec": result.trace[-1].n_evaluations - 1, "rmatvec": 1}  # the first point is zero


def test_samples_that_shrinking_left_out_by_mistake_come_back():
    solver, problem = DualCoordinate(), Problem("hinge")
    risk = problem.risk()
    state = solver.init(risk, problem.reg, np.zeros(problem.d))
    state = solver.step(risk, problem.reg, state)
    state.descent.active = 1
    for _ in range(25):
        state = solver.step(risk, problem.reg, state)
    assert state.progress.objective == pytest.approx(problem.optimum().value, rel=1e-6)


def test_conjugate_gradients_on_the_face_save_passes_where_regularization_is_weak(monkeypatch):
    X, y = wide(n=1000, d=300, density=0.1, noise=0.5)
    risk, reg, stop = LinearRisk(X, y, Hinge()), L2(1e-6), Stop(gap_rel=1e-3, max_passes=5000)
    fast = minimize(risk, reg, DualCoordinate(), stop=stop)
    monkeypatch.setattr(PointwiseDescent, "pace", PointwiseDescent.pace._replace(first=math.inf))
    slow = minimize(risk, reg, DualCoordinate(), stop=stop)
    assert fast.status is Status.CONVERGED
    assert fast.trace[-1].n_passes < 0.5 * slow.trace[-1].n_passes


def test_conjugate_gradients_on_shares_of_classes_save_passes_where_regularization_is_weak(monkeypatch):
    rng = np.random.default_rng(3)
    X, _ = wide(n=150, d=60, density=0.2)
    risk = MulticlassRisk(X, rng.integers(0, 4, 150), CrammerSinger())
    reg, stop = L2(1e-5), Stop(gap_rel=1e-5, max_passes=3000)
    fast = minimize(risk, reg, DualCoordinate(), stop=stop)
    monkeypatch.setattr(MarginDescent, "has_face", False)
    slow = minimize(risk, reg, DualCoordinate(), stop=stop)
    assert fast.status is Status.CONVERGED
    assert fast.trace[-1].n_passes < 0.5 * slow.trace[-1].n_passes


def test_a_step_ends_when_its_slice_of_work_is_done():
    X, y = wide(n=2000, d=300)
    risk, reg, solver = LinearRisk(X, y, Hinge()), L2(1e-8), DualCoordinate()
    state = solver.init(risk, reg, np.zeros(300))
    limit = 2 * dual_coordinate.SLICE + state.descent.dual.pass_work
    for _ in range(15):
        last, state = state, solver.step(risk, reg, state)
        assert state.descent.work - last.descent.work <= limit


def test_features_too_large_to_square_end_in_a_status_not_in_an_exception():
    problem = Problem("squared")
    with np.errstate(all="ignore"):
        risk = LinearRisk(1e160 * problem.X, problem.y, Squared())
        result = minimize(risk, L2(0.1), DualCoordinate(), stop=Stop(max_steps=20))
    assert np.isfinite(result.w).all()
    assert result.lower_bound <= result.objective


def several_classes(n_classes, *, loss="mistakes", seed=0):
    rng = np.random.default_rng([seed, n_classes])
    X = rng.standard_normal((40, 8)) * (rng.random((40, 8)) < 0.6)
    X[3] = 0.0
    y = np.arange(40) % n_classes
    label_loss = (1.0 - np.eye(n_classes)) * rng.integers(0, 4, (n_classes, n_classes))
    losses = {"mistakes": CrammerSinger(), "label_loss": CrammerSinger(label_loss), "softmax": Softmax()}
    return X, y, losses[loss], rng.random(40)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("name", ["mistakes", "label_loss", "softmax"])
@pytest.mark.parametrize("lam", [1e-3, 1e-1, 1e3])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_several_classes_agree_with_the_bundle(n_classes, name, lam, sparse):
    X, y, loss, weight = several_classes(n_classes, loss=name)
    risk = MulticlassRisk(sp.csr_array(X) if sparse else X, y, loss, weight)
    ours = minimize(risk, L2(lam), DualCoordinate(), stop=Stop(gap_rel=1e-6, max_steps=100))
    other = minimize(risk, L2(lam), LineSearchBundle(), stop=Stop(gap_rel=1e-6))
    assert ours.status is Status.CONVERGED
    assert ours.lower_bound <= other.objective * (1.0 + 1e-12)
    assert ours.objective == pytest.approx(other.objective, rel=3e-6)


@given(
    n_classes=st.integers(2, 6),
    lam=st.floats(1e-5, 1e4),
    seed=st.integers(0, 10**6),
    name=st.sampled_from(["mistakes", "label_loss", "softmax"]),
)
@settings(max_examples=40, deadline=None)
def test_the_bound_of_several_classes_never_exceeds_the_optimum(n_classes, lam, seed, name):
    X, y, loss, weight = several_classes(n_classes, loss=name, seed=seed)
    weight[5:9] = 0.0
    risk = MulticlassRisk(X, y, loss, weight)
    ours = minimize(risk, L2(lam), DualCoordinate(), stop=Stop(gap_rel=1e-4, max_steps=25))
    other = minimize(risk, L2(lam), LineSearchBundle(), stop=Stop(gap_rel=1e-5, max_steps=200))
    assert ours.lower_bound <= other.objective * (1.0 + 1e-12)
    assert ours.objective >= other.lower_bound * (1.0 - 1e-12)


@pytest.mark.parametrize("name", ["mistakes", "softmax"])
def test_a_step_over_several_classes_leaves_its_state_as_it_was(name):
    X, y, loss, weight = several_classes(5, loss=name)
    solver, reg, risk = DualCoordinate(), L2(1e-3), MulticlassRisk(X, y, loss, weight)
    state = solver.init(risk, reg, np.zeros(risk.n_params))
    for _ in range(6):
        arrays = [array for array in vars(state.descent).values() if isinstance(array, np.ndarray)]
        before = [array.copy() for array in arrays]
        after = solver.step(risk, reg, state)
        for was, now in zip(before, arrays, strict=True):
            np.testing.assert_array_equal(was, now)
        state = after


class OwnLoss(MulticlassLoss):
    def value_slope(self, y, S):
        return Softmax().value_slope(y, S)

    def along(self, y, S, D, t):
        return Softmax().along(y, S, D, t)


@pytest.mark.parametrize(
    ("risk", "reg", "words"),
    [
        (MulticlassRisk(np.eye(3), np.arange(3), OwnLoss()), L2(0.1), "needs the CrammerSinger or the Softmax loss"),
        (
            MulticlassRisk(WithConstant(as_design(np.eye(3))), np.arange(3), CrammerSinger(), fit_intercept=True),
            L2(0.1),
            "leave one of them out",
        ),
        (MulticlassRisk(np.eye(3), np.arange(3), CrammerSinger()), ElasticNet(0.1), "L2 without center"),
        (MulticlassRisk(np.eye(3), np.arange(3), CrammerSinger()), L2(0.1, center=np.ones(9)), "L2 without center"),
    ],
)
def test_what_it_cannot_solve_for_several_classes_is_refused(risk, reg, words):
    with pytest.raises(CapabilityError, match=words):
        minimize(risk, reg, DualCoordinate())


def test_it_is_known_by_name():
    assert SOLVERS["dual_coordinate"] is DualCoordinate


@pytest.mark.parametrize(
    ("loss", "reg", "words"),
    [
        (Exponential(), L2(0.1), "loss whose conjugate it knows"),
        (Ramp(), L2(0.1), "loss whose conjugate it knows"),
        (Hinge(), L1(0.1), "needs L2, or ElasticNet with l1_ratio below 1"),
        (Hinge(), ElasticNet(0.1, 1.0), "needs L2, or ElasticNet with l1_ratio below 1"),
    ],
)
def test_what_it_cannot_solve_is_refused(loss, reg, words):
    with pytest.raises(CapabilityError, match=words):
        minimize(LinearRisk(np.eye(2), np.array([1.0, -1.0]), loss), reg, DualCoordinate())


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_the_ends_of_two_runs_predict_the_next_one(loss):
    X, y = wide(n=300, d=200, noise=0.5)
    risk, ends = LinearRisk(X, y, LOSSES[loss].loss), []
    for lam in (1e-3, 5e-4):
        state = DualCoordinate().init(risk, L2(lam), np.zeros(risk.n_params))
        while state.progress.gap > 1e-6 * state.progress.objective:
            state = DualCoordinate().step(risk, L2(lam), state)
        last = state.descent
        ends.append(End(lam, last.a, last.dual.at_end(last.a)))
    dual = pointwise_dual(risk, L2(2.5e-4))
    best = minimize(risk, L2(2.5e-4), stop=Stop(gap_rel=1e-6)).objective
    scaled, one, two = (
        dual.value(*start)
        for start in (halved(dual, 2.0 * ends[1].a), best_start(dual, ends[1], None), best_start(dual, *ends[::-1]))
    )
    assert scaled <= one <= two <= best
    assert best - two < 0.5 * (best - scaled)


def test_margins_that_are_just_missed_are_lifted():
    missed, lifted = np.sum([missed_and_lifted(seed) for seed in range(6)], axis=0)
    assert lifted < 0.75 * missed


def test_a_lifted_point_that_is_worse_does_not_replace_the_plain_one(monkeypatch):
    monkeypatch.setattr(PointwiseDescent, "lifted", lambda self, scores: 1e3 * np.ones_like(self.v))
    result = minimize(Problem("hinge", n=200, d=20).risk(), L2(1e-2), DualCoordinate(), stop=Stop(gap_rel=1e-6))
    assert result.status is Status.CONVERGED


def test_conjugate_gradients_wait_as_long_as_sweeps_halve_the_gap():
    X, y = wide()
    descent = pointwise_descent(LinearRisk(X, y, Hinge()), L2(1e-6), np.zeros(y.size))
    first = descent.pace.first * descent.dual.pass_work
    while not descent.face.has_begun:
        assert descent.work - descent.halved < first + descent.dual.pass_work
        descent.run(1)
    assert descent.work - descent.halved >= first
    descent.halved = descent.work
    assert descent.is_hard(descent.pace.first)


def missed_and_lifted(seed):
    """By how much the samples miss their margins before conjugate gradients, and after these are lifted."""
    X, y = wide(seed, n=400, d=300, noise=0.5)
    risk, reg = LinearRisk(X, y, Hinge()), L2(1e-6)
    descent = DualCoordinate().init(risk, reg, np.zeros(risk.n_params)).descent
    while not descent.face.has_begun:
        descent.run(1)
    point = descent.settled()
    return [np.maximum(0.0, 1.0 - y * (X @ v)).sum() for v in (point.v, point.lifted(X @ point.v))]


@pytest.mark.parametrize("loss", [name for name in KNOWN if name != "logistic"])
def test_what_samples_could_gain_by_themselves_adds_up_to_the_gap(loss):
    """At a fixed point each sample's own duality gap is its derivative times its room, or less."""
    problem = Problem(loss)
    risk, reg = problem.risk(sparse=True), problem.reg
    descent = pointwise_descent(risk, reg, risk.phi.evaluate(np.zeros(risk.n_samples)).slopes)
    descent.run(2 * descent.dual.pass_work)
    total = 0.0
    for i in range(risk.n_samples):
        alone = descent.copy()
        alone.order, alone.active, alone.position, alone.gain = np.array([i]), 1, 0, 0.0
        alone._sweep(10**9)
        total += descent.dual.strength * alone.gain
    w = descent.dual.primal(descent.v)
    gap = reg.value(w) + risk.value(w) - descent.bound(0.0)
    assert gap * (1.0 - 1e-9) - 1e-12 <= total
    if not descent.dual.terms[:, RIDGE].any() and descent.dual.zone == 0.0:  # linear in between
        assert total == pytest.approx(gap, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("loss", [name for name in KNOWN if name != "logistic"])
def test_given_all_scores_just_those_come_back_that_a_sweep_would_not_leave_out(loss):
    problem = Problem(loss)
    risk = problem.risk()
    descent = pointwise_descent(risk, problem.reg, risk.phi.evaluate(np.zeros(risk.n_samples)).slopes)
    descent.run(3 * descent.dual.pass_work)
    kept = []
    for i in range(risk.n_samples):
        alone = descent.copy()
        alone.order, alone.active, alone.position = np.array([i]), 1, 0
        alone._sweep(10**9)
        kept += [i] * alone.active
    total = descent.look_around(descent.dual.scores(descent.v), 0.0)
    assert sorted(descent.order[: descent.active]) == kept
    assert sorted(descent.order) == list(range(risk.n_samples))
    w = descent.dual.primal(descent.v)
    gap = problem.reg.value(w) + risk.value(w) - descent.bound(0.0)
    assert gap * (1.0 - 1e-9) - 1e-12 <= descent.dual.strength * total


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_a_run_that_knows_its_gap_takes_fewer_certificates(loss):
    X, y = wide()
    risk, gap, known, unknown = LinearRisk(X, y, LOSSES[loss].loss), 1e-6, 0, 0
    for reg in (L2(1e-2), L2(1e-3), L2(1e-4)):
        result = minimize(risk, reg, DualCoordinate(), stop=Stop(gap_rel=gap))
        assert result.status is Status.CONVERGED
        state = DualCoordinate().init(risk, reg, np.zeros(risk.n_params))  # outside of a run no gap is known
        while state.progress.gap > gap * state.progress.objective:
            state = DualCoordinate().step(risk, reg, state)
        known += result.trace[-1].n_evaluations
        unknown += state.progress.n_evaluations
    assert known < unknown


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_certificates_of_the_logistic_loss_are_few(fit_intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 50))
    y = np.where(X @ rng.standard_normal(50) + rng.standard_normal(2000) > 0.0, 1.0, -1.0)
    risk = LinearRisk(X, y, Logistic(), fit_intercept=fit_intercept)
    result = minimize(risk, L2(1e-4), DualCoordinate(), stop=Stop(gap_rel=1e-3))
    assert result.status is Status.CONVERGED
    assert result.trace[-1].n_evaluations < 20


def test_a_strong_penalty_with_an_intercept_does_not_stall():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = 0.1 * rng.standard_normal((20, 20)), np.where(rng.random(20) < 0.4, 1.0, -1.0)
        risk = LinearRisk(X, y, Logistic(), fit_intercept=True)
        assert minimize(risk, L2(100.0), DualCoordinate(), stop=Stop(gap_rel=1e-9)).status is Status.CONVERGED


def test_far_from_the_optimum_there_are_fewer_certificates_than_sweeps():
    X, y = wide()
    result = minimize(LinearRisk(X, y, Hinge()), L2(1e-4), DualCoordinate(), stop=Stop(gap_rel=0.02))
    assert result.trace[-1].n_passes > 2 * (result.trace[-1].n_evaluations - 1)


def test_a_run_that_a_limit_ends_says_what_its_last_sweeps_prove(monkeypatch):
    monkeypatch.setattr(dual_coordinate, "SLICE", 1)
    X, y = wide()
    risk = LinearRisk(X, y, Hinge())
    result = minimize(risk, L2(1e-4), DualCoordinate(), stop=Stop(max_steps=2))
    *_, before, last = result.trace
    assert before.n_evaluations == 1 < last.n_evaluations
    assert last.lower_bound > before.lower_bound
    assert last.objective < before.objective


@pytest.mark.parametrize("length", [3.0, 1e3, 1e9])
def test_a_start_that_is_too_long_is_cut_to_the_best_length(length):
    X, y = wide()
    dual = pointwise_dual(LinearRisk(X, y, Squared()), L2(1e-4))
    a, z = halved(dual, y / dual.strength)
    best = halved(dual, length * a)
    assert dual.value(*best) >= (1.0 - 1e-6) * dual.value(a, z)
    for share in (0.9, 1.1):
        assert dual.value(share * a, share * z) <= dual.value(a, z)


def test_slopes_at_zero_are_no_start_where_regularization_is_weak():
    risk = LinearRisk(*wide(n=400, d=40, density=0.2), Hinge())
    start = {lam: DualCoordinate().init(risk, L2(lam), np.zeros(40)).descent.a for lam in (1.0, 1e-5)}
    assert start[1.0].all()
    assert not start[1e-5].any()


@pytest.mark.parametrize("lam", [0.1, 1e-3, 1e-5])
def test_the_samples_that_miss_their_margin_at_the_start_have_weight(lam):
    X, y = wide(n=400, d=40, density=0.2)
    risk = LinearRisk(X, y, Hinge())
    w = 1.1 * minimize(risk, L2(lam)).w  # beyond the kinks that the optimum meets
    misses = y * (X @ w) < 1.0
    assert 0 < misses.sum() < 400
    np.testing.assert_array_equal(DualCoordinate().init(risk, L2(lam), w).descent.a != 0.0, misses)


@pytest.mark.parametrize(("n", "count"), [(1, 1), (13, 5), (1000, 3), (1000, 1000)])
def test_the_active_samples_are_permuted_among_themselves(n, count):
    before = np.random.default_rng(0).permutation(n)
    after = before.copy()
    shuffle(after, count, 1)
    assert sorted(after[:count]) == sorted(before[:count])
    assert after[count:].tolist() == before[count:].tolist()


PENALTIES = (L2(0.3), L2(0.3, center=np.arange(5.0)), L2(0.3, weights=np.arange(1.0, 6.0)), ElasticNet(0.3, 0.5))


@losses
@pytest.mark.parametrize("reg", PENALTIES, ids=["plain", "center", "weights", "elastic net"])
def test_the_dual_is_minus_the_conjugates_of_penalty_and_losses_at_all_multiples_of_a_point(loss, reg):
    risk = Problem(loss, d=5).risk()
    dual = pointwise_dual(risk, reg)
    a = dual.inside(np.random.default_rng(0).standard_normal(risk.n_samples))
    z = dual.products(a)
    on_ray = dual.on_ray(a, z)
    for t in (1.0, 0.5, 0.3, 0.0):
        losses_part = float(risk.weight @ conjugate_of(risk.loss, risk.y).values(t * a / dual.cap))
        assert on_ray(t) == pytest.approx(-losses_part - reg.conjugate(t * dual.strength * z), rel=1e-10, abs=1e-12)
        assert dual.bound(t * a, t * z, 0.0) == pytest.approx(on_ray(t), rel=1e-10, abs=1e-12)
        assert dual.bound(t * a, t * z, 0.0) <= on_ray(t)
