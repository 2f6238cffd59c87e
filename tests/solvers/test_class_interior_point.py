"""Interior points for the Crammer-Singer loss: the optimum at any lambda, with a bound, whatever the features are."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from undercut import L1, L2, Hinge, LinearRisk, MulticlassRisk, Status, Stop, minimize
from undercut.errors import CapabilityError
from undercut.losses import CrammerSinger, Softmax
from undercut.solvers import ClassInteriorPoint, ProximalSweeps
from undercut.solvers.newton.interior.class_program import ClassProgram, Equations

SHAPES = {"tall": (60, 4), "square": (12, 12), "wide": (10, 40), "one feature": (30, 1)}
shapes = pytest.mark.parametrize("shape", SHAPES)
intercepts = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])
lambdas = pytest.mark.parametrize("lam", [1e2, 1e-1, 1e-4, 1e-8])


def data(shape, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    n, d = SHAPES[shape]
    X = rng.standard_normal((n, d)) * np.logspace(-2, 2, d) + 1.0
    y = (X @ rng.standard_normal((d, n_classes)) / 100.0 + rng.standard_normal((n, n_classes))).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def reference(X, y, lam, weight, costs, fit_intercept):
    K = int(y.max()) + 1
    W, b = cp.Variable((K, X.shape[1])), cp.Variable(K)
    scores = X @ W.T + (np.ones((y.size, 1)) @ cp.reshape(b, (1, K), order="C") if fit_intercept else 0.0)
    own = cp.sum(cp.multiply(scores, np.eye(K)[y]), axis=1)
    losses = cp.max(scores + costs[y], axis=1) - own
    problem = cp.Problem(cp.Minimize(0.5 * lam * cp.sum_squares(W) + (weight / weight.sum()) @ losses))
    return problem.solve(solver=cp.CLARABEL)


@shapes
@intercepts
@lambdas
def test_bounds_bracket_the_optimum(shape, fit_intercept, lam):
    X, y = data(shape)
    risk = MulticlassRisk(X, y, CrammerSinger(), fit_intercept=fit_intercept)
    result = minimize(risk, L2(lam), ClassInteriorPoint(), stop=Stop(gap_rel=1e-7, gap_abs=1e-12, max_steps=100))
    optimum = reference(X, y, lam, np.ones(y.size), CrammerSinger().costs(3), fit_intercept)
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= optimum + 1e-6 * (1.0 + abs(optimum))
    assert result.objective >= optimum - 1e-6 * (1.0 + abs(optimum))
    assert result.objective == pytest.approx(L2(lam).value(result.w) + risk.value(result.w), rel=1e-6, abs=1e-12)


@intercepts
def test_weights_and_costs_count(fit_intercept):
    X, y = data("tall")
    weight = np.random.default_rng(1).random(y.size)
    weight[5:9] = 0.0
    costs = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 0.5, 0.0]])
    risk = MulticlassRisk(X, y, CrammerSinger(label_loss=costs), sample_weight=weight, fit_intercept=fit_intercept)
    result = minimize(risk, L2(1e-3), ClassInteriorPoint(), stop=Stop(gap_rel=1e-7))
    assert result.objective == pytest.approx(reference(X, y, 1e-3, weight, costs, fit_intercept), rel=1e-5)


@pytest.mark.parametrize("form", [sp.csr_array, lambda X: X.astype(np.float32)], ids=["sparse", "float32"])
@pytest.mark.parametrize("shape", ["tall", "wide"])
@intercepts
def test_every_form_of_x_gives_the_same_optimum(form, shape, fit_intercept):
    X, y = data(shape)
    X = X.astype(np.float32).astype(np.float64)
    found = [
        minimize(
            MulticlassRisk(given, y, CrammerSinger(), fit_intercept=fit_intercept),
            L2(1e-4), ClassInteriorPoint(), stop=Stop(gap_rel=1e-8),
        ).objective
        for given in (X, form(X))
    ]  # fmt: skip
    assert found[0] == pytest.approx(found[1], rel=1e-7)


@intercepts
def test_the_bound_never_falls_and_the_objective_never_rises(fit_intercept):
    X, y = data("tall", n_classes=5)
    trace = minimize(
        MulticlassRisk(X, y, CrammerSinger(), fit_intercept=fit_intercept), L2(1e-6), ClassInteriorPoint(),
        stop=Stop(gap_rel=1e-9),
    ).trace  # fmt: skip
    assert (np.diff([row.lower_bound for row in trace]) >= 0.0).all()
    assert (np.diff([row.objective for row in trace]) <= 0.0).all()
    assert len(trace) < 50


def test_features_of_very_different_sizes_take_a_few_steps_where_sweeps_take_thousands():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5)) * np.array([1e-3, 1.0, 1e2, 1e4, 1.0])
    y = np.digitize(X[:, 1] + X[:, 0] * 1e3 + 0.3 * rng.standard_normal(400), [-0.7, 0.7])
    risk, stop = MulticlassRisk(X, y, CrammerSinger(), fit_intercept=True), Stop(gap_rel=1e-6, max_steps=40)
    assert minimize(risk, L2(1e-5), ClassInteriorPoint(), stop=stop).status is Status.CONVERGED
    assert minimize(risk, L2(1e-5), ProximalSweeps(), stop=stop).status is Status.MAX_STEPS


def test_a_warm_start_counts():
    X, y = data("tall")
    risk = MulticlassRisk(X, y, CrammerSinger(), fit_intercept=True)
    best = minimize(risk, L2(1e-3), ClassInteriorPoint(), stop=Stop(gap_rel=1e-9))
    again = minimize(risk, L2(1e-3), ClassInteriorPoint(), w0=best.w, stop=Stop(gap_rel=1e-6))
    assert again.trace[0].objective == pytest.approx(best.objective, rel=1e-9)
    assert again.status is Status.CONVERGED


@intercepts
def test_a_step_solves_the_linearized_equations(fit_intercept):
    rng = np.random.default_rng(0)
    X, y = data("tall")
    risk = MulticlassRisk(X, y, CrammerSinger(), fit_intercept=fit_intercept)
    own = np.eye(3)[y] / y.size
    program = ClassProgram(risk.features, CrammerSinger().costs(3)[y], own, 1e-2, free=fit_intercept)
    W = rng.standard_normal((3, program.size))
    at = program.start(W - W.mean(axis=0), 0.5)
    assert np.allclose(at.q.sum(axis=1), program.caps)
    assert np.allclose(at.q * at.z, 0.5 / 3.0 * program.caps[:, None])
    aim = -0.7 * at.q * at.z
    move = Equations(program, at).solve(aim)
    ahead = at.moved(move, 1.0)
    assert np.allclose(at.q * move.z + at.z * move.q, aim)
    assert np.allclose(ahead.q.sum(axis=1), program.caps)
    assert np.allclose(ahead.z, ahead.top[:, None] - program.margins - program.scores(ahead.W))
    assert np.allclose(program.stiffness(ahead.W), program.forces(own - ahead.q), atol=1e-9)


@pytest.mark.parametrize(
    ("risk", "reg", "message"),
    [
        (LinearRisk(np.eye(2), np.array([1.0, -1.0]), Hinge()), L2(0.1), "CrammerSinger loss"),
        (MulticlassRisk(np.eye(2), np.arange(2), Softmax()), L2(0.1), "CrammerSinger loss"),
        (MulticlassRisk(np.eye(2), np.arange(2), CrammerSinger()), L1(0.1), "L2 without center"),
        (MulticlassRisk(np.eye(2), np.arange(2), CrammerSinger()), L2(0.1, center=np.ones(4)), "L2 without center"),
        (
            MulticlassRisk(np.eye(2), np.arange(2), CrammerSinger(), fit_intercept=True, n_classes=3),
            L2(0.1),
            "positive weight for every class",
        ),
        (
            MulticlassRisk(sp.eye_array(7000, format="csr"), np.arange(7000) % 2, CrammerSinger()),
            L2(0.1),
            "14000 linear equations",
        ),
        (
            MulticlassRisk(sp.eye_array(4, 10**7, format="csr"), np.arange(4) % 2, CrammerSinger()),
            L2(0.1),
            "dense copy of X",
        ),
    ],
)
def test_what_does_not_fit_is_refused(risk, reg, message):
    with pytest.raises(CapabilityError, match=message):
        minimize(risk, reg, ClassInteriorPoint())
