"""Truncated Newton: the answers of Newton's method with products only, in few passes, certified."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from tests.catalogue import SMOOTH, Problem

from undercut import L2, Hinge, LinearRisk, Logistic, MulticlassRisk, Newton, Squared, Status, Stop, minimize
from undercut.deadline import time_limit
from undercut.errors import CapabilityError, ParameterError
from undercut.losses import Huber, Softmax
from undercut.maps.design import as_design
from undercut.regularizers import Quadratic
from undercut.risks.scores.hessians import LinearHessian
from undercut.solvers import TruncatedNewton
from undercut.solvers.newton import truncated_newton
from undercut.solvers.newton.truncated_newton import Proof, conjugate_gradients

FORMS = {
    "dense": np.asarray,
    "narrow": lambda X: X.astype(np.float32),
    "sparse": sp.csr_array,
    "sparse32": lambda X: sp.csr_array(X.astype(np.float32)),
}
SOLVERS = (TruncatedNewton(), Newton())
forms = pytest.mark.parametrize("form", FORMS)
intercepts = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])


def features(rng, n=60, d=7):
    """Features with different scales, means that are not zero, and zeros among them; exact in float32."""
    X = np.where(rng.random((n, d)) < 0.6, 1.0 + rng.standard_normal((n, d)), 0.0) * np.logspace(-1, 1, d)
    return X.astype(np.float32).astype(np.float64)


def matrix_of(hessian, d):
    return np.stack([hessian.product(column) for column in np.eye(d)], axis=1)


# --- Products -----------------------------------------------------------------------------------------------------


@forms
@pytest.mark.parametrize("share", [1.0, 0.2], ids=["most rows", "few rows"])
def test_a_design_multiplies_with_its_weighted_gram_matrix(rng, form, share):
    X = features(rng)
    g = np.where(rng.random(60) < share, rng.random(60), 0.0)
    design, v = as_design(FORMS[form](X)), rng.standard_normal(7)
    gram = (X.T * g) @ X
    np.testing.assert_allclose(design.gram_product(g, v), gram @ v, rtol=1e-12)
    np.testing.assert_allclose(design.squared_rmatvec(g), np.diag(gram), rtol=1e-12)


@pytest.mark.parametrize("loss", SMOOTH)
@intercepts
def test_products_and_diagonal_are_those_of_the_hessian(loss, fit_intercept):
    problem = Problem(loss, fit_intercept, weighted=True)
    risk, w = problem.risk(), 0.3 * np.random.default_rng(1).standard_normal(problem.d)
    hessian, exact = risk.curvature(w), risk.hessian(w)
    size = np.abs(exact).max()
    np.testing.assert_allclose(matrix_of(hessian, problem.d), exact, atol=1e-10 * size)
    np.testing.assert_allclose(hessian.diagonal(), np.diag(exact), atol=1e-10 * size)


@forms
@intercepts
def test_products_of_several_classes_are_those_of_the_hessian(rng, form, fit_intercept):
    X, y = features(rng, d=4), np.arange(60) % 3
    risk = MulticlassRisk(FORMS[form](X), y, Softmax(), rng.random(60), fit_intercept=fit_intercept)
    w = 0.3 * rng.standard_normal(12)
    hessian, exact = risk.curvature(w), risk.hessian(w)
    np.testing.assert_allclose(matrix_of(hessian, 12), exact, atol=1e-10 * np.abs(exact).max())
    if fit_intercept:  # an approximation, never smaller than the diagonal itself
        assert (hessian.diagonal() >= np.diag(exact) - 1e-12).all()
    else:
        np.testing.assert_allclose(hessian.diagonal(), np.diag(exact), rtol=1e-10)


# --- Directions ---------------------------------------------------------------------------------------------------


def test_conjugate_gradients_end_once_the_residual_is_the_asked_share(rng):
    root = rng.standard_normal((30, 30))
    A, b = root @ root.T + np.eye(30), rng.standard_normal(30)
    scale = np.diag(A)
    for forcing in (0.5, 1e-2, 1e-6):
        residual = b - A @ conjugate_gradients(lambda v: A @ v, b, lambda v: v / scale, forcing).x
        assert residual @ (residual / scale) <= 1.01 * forcing**2 * (b @ (b / scale))


def test_a_matrix_that_rounding_makes_indefinite_does_not_spoil_the_direction(rng):
    b = rng.standard_normal(5)
    x = conjugate_gradients(lambda v: np.array([1.0, 1.0, 1.0, 1.0, -1.0]) * v, b, np.copy, 1e-9).x
    assert np.isfinite(x).all()
    assert b @ x >= 0.0


def test_conjugate_gradients_see_the_clock(rng):
    """Once the time is over, one product ends them."""
    products = []
    diagonal = np.logspace(-9, 0, 50)

    def product(v):
        products.append(v)
        return diagonal * v

    with time_limit(0.0):
        found = conjugate_gradients(product, rng.standard_normal(50), np.copy, 1e-12)
    assert len(products) == found.products == 1
    assert np.isfinite(found.x).all()


# --- Runs ---------------------------------------------------------------------------------------------------------


@forms
@intercepts
def test_agrees_with_newton_where_features_have_very_different_scales(rng, form, fit_intercept):
    X = features(rng, n=200, d=30)
    y = np.sign(X @ rng.standard_normal(30) + rng.standard_normal(200))
    risk = LinearRisk(FORMS[form](X), y, Logistic(), fit_intercept=fit_intercept)
    found, exact = (minimize(risk, L2(1e-3), solver, stop=Stop(gap_rel=1e-8)) for solver in SOLVERS)
    assert found.status is Status.CONVERGED
    assert found.objective == pytest.approx(exact.objective, rel=2e-8)
    assert found.lower_bound <= exact.objective * (1.0 + 1e-12)


def test_any_quadratic_regularizer_will_do(rng):
    X, root = features(rng, n=100, d=6), rng.standard_normal((6, 6))
    y = np.sign(X @ rng.standard_normal(6) + 0.1)
    weights, center = np.linspace(0.1, 3.0, 6), np.arange(6.0)
    B = root @ root.T + np.eye(6)
    for reg in (L2(0.1, center, weights), Quadratic(0.1, B, center), Quadratic(0.1, sp.csc_array(B))):
        risk = LinearRisk(X, y, Logistic())
        found, exact = (minimize(risk, reg, solver, stop=Stop(gap_rel=1e-8)) for solver in SOLVERS)
        assert found.status is Status.CONVERGED
        np.testing.assert_allclose(found.w, exact.w, rtol=1e-3, atol=1e-3)


def test_ridge_regression_takes_one_step_if_the_system_is_solved_exactly(rng):
    X = features(rng, n=80, d=120)
    y, lam = X @ rng.standard_normal(120), 1e-2
    result = minimize(LinearRisk(X, y, Squared()), L2(lam), TruncatedNewton(forcing=1e-9), stop=Stop(gap_rel=1e-6))
    assert result.n_steps == 1
    exact = np.linalg.solve(X.T @ X / 80 + lam * np.eye(120), X.T @ y / 80)
    np.testing.assert_allclose(result.w, exact, rtol=1e-4, atol=1e-6)


def test_products_stay_few_where_features_have_very_different_scales(rng, monkeypatch):
    """Without a preconditioner this takes hundreds."""
    X = rng.standard_normal((300, 50)) * np.logspace(-3, 3, 50)
    y = np.sign(X @ (rng.standard_normal(50) / np.logspace(-3, 3, 50)) + 0.5 * rng.standard_normal(300))
    risk, products = LinearRisk(X, y, Logistic()), []
    plain = LinearHessian.product

    def counted(self, v):
        products.append(None)
        return plain(self, v)

    monkeypatch.setattr(LinearHessian, "product", counted)
    result = minimize(risk, L2(1e-8), TruncatedNewton(), stop=Stop(gap_rel=1e-3, max_steps=40))
    assert result.status is Status.CONVERGED
    assert len(products) <= 200


def correlated(rng, form, loss, *, fit_intercept, n=400, d=20):
    """Features with eigenvalues from 1 to 1e-6, which scaling the parameters does not change."""
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    X = (rng.standard_normal((n, d)) * np.logspace(0, -3, d)) @ turn
    X[::3] = 0.0
    score = X @ turn.T @ np.logspace(0, 3, d)
    if loss == "softmax":
        y = (score[:, None] * np.arange(3) + 5.0 * rng.gumbel(size=(n, 3))).argmax(axis=1)
        return MulticlassRisk(FORMS[form](X), y, Softmax(), fit_intercept=fit_intercept)
    return LinearRisk(
        FORMS[form](X), np.sign(score + 5.0 * rng.standard_normal(n)), Logistic(), fit_intercept=fit_intercept
    )


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("kind", ["logistic", "softmax, together", "softmax, by class", "softmax, by means"])
@intercepts
def test_an_approximate_inverse_is_symmetric_positive_definite_and_near_the_inverse(
    rng, form, kind, fit_intercept, monkeypatch
):
    loss, _, way = kind.partition(", ")
    monkeypatch.setattr("undercut.risks.scores.hessians.CHEAP", np.inf if way == "together" else 0.0)
    is_large = way == "by means"
    if is_large:
        monkeypatch.setattr("undercut.risks.scores.hessians.LARGEST", 0)
    risk = correlated(rng, form, loss, fit_intercept=fit_intercept)
    hessian, ridge = risk.curvature(0.1 * rng.standard_normal(risk.n_params)), np.full(risk.n_params, 1e-9)
    inverse = hessian.inverse(ridge)
    columns = np.stack([inverse(column) for column in np.eye(risk.n_params)], axis=1)
    np.testing.assert_allclose(columns, columns.T, atol=1e-6 * np.abs(columns).max())
    root = np.linalg.cholesky(columns + columns.T)
    H = matrix_of(hessian, risk.n_params) + np.diag(ridge)
    sizes = np.linalg.eigvalsh(0.5 * root.T @ H @ root)
    sizes = sizes[sizes > 0.02] if is_large else sizes  # the direction common to all classes has no curvature
    assert sizes.max() / sizes.min() < (100.0 if is_large else 12.0)
    scale = np.sqrt(np.diag(H))
    assert np.linalg.cond(H / np.outer(scale, scale)) > 1e3


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_an_inverse_is_exact_where_few_samples_have_a_second_derivative(rng, form):
    X, bend = rng.standard_normal((500, 20)), np.where(rng.random(500) < 0.15, rng.random(500), 0.0)
    hessian, ridge, v = LinearHessian(as_design(FORMS[form](X)), bend), np.full(20, 1e-3), rng.standard_normal(20)
    exact = np.linalg.solve((X.T * bend) @ X + np.diag(ridge), v)
    np.testing.assert_allclose(hessian.inverse(ridge)(v), exact, rtol=1e-8)


def test_an_inverse_costs_more_products_the_fewer_samples_these_read(rng):
    X = as_design(sp.random(5000, 100, density=0.3, format="csr", random_state=rng))
    costs = [
        LinearHessian(X, np.where(np.arange(5000) < used, 1.0, 0.0)).inversion_cost() for used in (5000, 1000, 500)
    ]
    assert costs == sorted(costs)
    assert costs[-1] > 3.0 * costs[0]


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@intercepts
def test_an_approximate_inverse_saves_products_where_features_are_correlated(rng, loss, fit_intercept, monkeypatch):
    risk, reg, stop = correlated(rng, "sparse", loss, fit_intercept=fit_intercept), L2(1e-9), Stop(gap_rel=1e-5)
    kind, products = type(risk.curvature(np.zeros(risk.n_params))), []
    plain = kind.product

    def counted(self, v):
        products.append(None)
        return plain(self, v)

    monkeypatch.setattr(kind, "product", counted)
    ours = minimize(risk, reg, TruncatedNewton(), stop=stop)
    with_inverse = len(products)
    monkeypatch.setattr(kind, "inversion_cost", lambda self: np.inf)
    other = minimize(risk, reg, TruncatedNewton(), stop=stop)
    assert ours.status is other.status is Status.CONVERGED
    assert ours.lower_bound <= other.objective
    assert other.lower_bound <= ours.objective
    assert with_inverse < 0.8 * (len(products) - with_inverse)


def test_an_inverse_is_kept_while_directions_take_fewer_products_than_a_new_one_costs(rng, monkeypatch):
    risk, reg = correlated(rng, "sparse", "softmax", fit_intercept=True), L2(1e-9)
    kind, made, solver = type(risk.curvature(np.zeros(risk.n_params))), [], TruncatedNewton()
    plain = kind.inverse

    def counted(self, ridge):
        made.append(None)
        return plain(self, ridge)

    monkeypatch.setattr(kind, "inverse", counted)
    for cost, expected in ((9.0, range(1, 4)), (1.1, range(4, 100)), (np.inf, range(1))):
        made.clear()
        monkeypatch.setattr(kind, "inversion_cost", lambda self, cost=cost: cost)
        result = minimize(risk, reg, solver, stop=Stop(gap_rel=1e-5))
        assert result.status is Status.CONVERGED
        assert len(made) in expected


def counted_calls(monkeypatch, kind, name):
    calls, plain = [], getattr(kind, name)

    def counted(self, *given):
        calls.append(name)
        return plain(self, *given)

    monkeypatch.setattr(kind, name, counted)
    return calls


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@intercepts
def test_the_hessian_needs_no_product_for_scores_that_the_line_knows(rng, loss, fit_intercept, monkeypatch):
    """Along a line one product is enough; those of conjugate gradients are counted elsewhere."""
    risk = correlated(rng, "dense", loss, fit_intercept=fit_intercept)
    by_gradients = counted_calls(monkeypatch, type(risk.curvature(np.zeros(risk.n_params))), "product")
    products = counted_calls(monkeypatch, type(risk.design), "matvec")
    result = minimize(risk, L2(0.1), TruncatedNewton(), stop=Stop(gap_rel=1e-6))
    assert result.n_steps >= 2
    assert len(products) == result.n_steps + (len(by_gradients) if loss == "softmax" else 0)


def test_the_diagonal_is_made_again_only_after_a_long_direction(rng, monkeypatch):
    made = counted_calls(monkeypatch, LinearHessian, "diagonal")
    monkeypatch.setattr(LinearHessian, "inversion_cost", lambda self: np.inf)
    risk = correlated(rng, "dense", "logistic", fit_intercept=False)
    for kept in (0, 1000):
        made.clear()
        monkeypatch.setattr("undercut.solvers.newton.truncated_newton.KEPT", kept)
        result = minimize(risk, L2(1e-6), TruncatedNewton(), stop=Stop(gap_rel=1e-5))
        assert result.n_steps >= 2
        assert len(made) == (1 if kept else result.n_steps)


def test_a_risk_without_a_hessian_is_refused(signs):
    with pytest.raises(CapabilityError, match=r"TruncatedNewton needs a smooth risk .* no `curvature\(w\)`"):
        minimize(LinearRisk(*signs, Hinge()), L2(0.1), TruncatedNewton())


@pytest.mark.parametrize("forcing", [0.0, 1.0, -0.5, float("nan")])
def test_the_share_is_checked(forcing):
    with pytest.raises(ParameterError, match="`forcing` must be between 0 and 1"):
        TruncatedNewton(forcing=forcing)


def test_an_inverse_that_costs_less_than_a_product_is_made_at_once_and_used_again(monkeypatch, rng):
    X = rng.standard_normal((3000, 4))
    y = (X @ rng.standard_normal((4, 3)) + rng.gumbel(size=(3000, 3))).argmax(axis=1)
    risk = MulticlassRisk(X, y, Softmax())
    hessian = risk.curvature(np.zeros(12))
    assert hessian.inversion_cost() <= 1.0
    made = counted_calls(monkeypatch, type(hessian), "inverse")
    scaled = counted_calls(monkeypatch, type(hessian), "diagonal")
    result = minimize(risk, L2(1e-4), TruncatedNewton(), w0=np.full(12, 0.01), stop=Stop(gap_rel=1e-8))
    assert result.status is Status.CONVERGED
    assert len(result.trace) > 3
    assert (len(made), len(scaled)) == (1, 0)


def test_a_sampled_hessian_that_rounding_makes_indefinite_has_an_inverse():
    rng = np.random.default_rng(3)
    X = 1e4 * rng.standard_normal((13, 5)) * (rng.random((13, 5)) < 0.6)
    y = X @ rng.standard_normal(5) + 10.0 * rng.standard_normal(13)
    risk = LinearRisk(sp.csr_array(X), y, Huber(1.0), fit_intercept=True)
    assert minimize(risk, L2(1e-8), TruncatedNewton()).status is Status.CONVERGED


def test_an_inverse_that_gives_no_direction_is_replaced_by_the_diagonal(rng, monkeypatch):
    monkeypatch.setattr(LinearHessian, "inversion_cost", lambda self: 0.5)
    monkeypatch.setattr(LinearHessian, "inverse", lambda self, ridge: lambda v: 0.0 * v)
    risk = LinearRisk(rng.standard_normal((40, 5)), rng.standard_normal(40), Squared())
    assert minimize(risk, L2(1e-3), TruncatedNewton()).status is Status.CONVERGED


def rare_words(n=700, d=2100, n_classes=12):
    """Words so rare that they nearly tell the class of every sample."""
    rng = np.random.default_rng(0)
    X = sp.random_array((n, d), density=5.0 / d, rng=rng, format="csr")
    y = (X @ rng.standard_normal((d, n_classes)) + 0.05 * rng.standard_normal((n, n_classes))).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return MulticlassRisk(X, y, Softmax())


def test_directions_are_damped_after_a_step_that_was_far_too_long(monkeypatch):
    risk, reg, stop = rare_words(), L2(1e-8), Stop(gap_rel=1e-2, max_steps=200)
    state = TruncatedNewton().init(risk, reg, np.zeros(risk.n_params))
    states = [state := TruncatedNewton().step(risk, reg, state) for _ in range(12)]
    short = [at for at, state in enumerate(states) if 0.0 < state.t < truncated_newton.LONG]
    assert short
    assert all(states[at].damping > (states[at - 1].damping if at else 0.0) for at in short)
    restored = [TruncatedNewton().restored(risk, reg, replace(state, inverse=None)) for state in states]
    for state, again in zip(states, restored, strict=True):
        if state.inverse is not None:
            np.testing.assert_array_equal(again.inverse(state.cut.a), state.inverse(state.cut.a))
    damped = minimize(risk, reg, TruncatedNewton(), stop=stop)
    monkeypatch.setattr(truncated_newton, "_damping", lambda *_: 0.0)
    plain = minimize(risk, reg, TruncatedNewton(), stop=stop)
    assert damped.status is plain.status is Status.CONVERGED
    assert damped.objective == pytest.approx(plain.objective, rel=1e-2)


def test_mu_makes_the_next_direction_about_as_long_as_the_step_that_was_taken():
    curvature, gradient, t = 2.0, 6.0, 0.1  # of one parameter: the direction was gradient / curvature
    mu = truncated_newton._damping(0.0, t, curvature)
    assert gradient / (curvature + mu) == pytest.approx(t * gradient / curvature)
    assert truncated_newton._damping(1.0, 1.0, curvature) < 1.0
    assert truncated_newton._damping(1.0, 4.0, curvature) < truncated_newton._damping(1.0, 1.0, curvature)


def test_the_last_direction_is_computed_until_its_residual_proves_the_gap(rng):
    A = np.diag(np.logspace(-6, 2, 40))
    target, reg = 1e-4 * rng.standard_normal(40), L2(1e-6)
    inverse = np.linalg.inv(A + 1e-3 * np.eye(40))
    rough = conjugate_gradients(lambda v: A @ v, target, lambda v: inverse @ v, 0.2)
    gap = float(target @ np.linalg.solve(A, target))
    fine = conjugate_gradients(lambda v: A @ v, target, lambda v: inverse @ v, 0.2, proof=Proof(reg, gap))
    assert reg.conjugate(rough.residual) > 0.25 * gap
    assert reg.conjugate(fine.residual) <= 0.25 * gap
    far = conjugate_gradients(lambda v: A @ v, target, lambda v: inverse @ v, 0.2, proof=Proof(reg, 1e-12))
    assert far.products == rough.products  # the objective itself is not near enough


def test_the_gap_of_ill_conditioned_features_closes_with_the_objective(rng, monkeypatch):
    X = np.cumsum(rng.standard_normal((800, 60)), axis=1)
    risk = LinearRisk(X, np.where(rng.standard_normal(800) + X[:, 30] > 0.0, 1.0, -1.0), Logistic())
    stop = Stop(gap_rel=1e-6, max_steps=100)
    with_proof = minimize(risk, L2(1e-7), TruncatedNewton(), stop=stop)
    monkeypatch.setattr(Proof, "lacks", lambda *_: False)
    without = minimize(risk, L2(1e-7), TruncatedNewton(), stop=stop)
    assert with_proof.status is without.status is Status.CONVERGED
    assert len(with_proof.trace) < len(without.trace)
