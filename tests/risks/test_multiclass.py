"""The multiclass risk against brute force, its own formulas, and a conic solver."""

from __future__ import annotations

import math
import warnings
from functools import cache
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st
from scipy.special import logsumexp
from tests.risks.test_linear_risk import LAYOUTS

from undercut import L2, CuttingPlane, Lbfgs, LineSearchBundle, MulticlassRisk, Newton, Stop, minimize
from undercut.contracts import MulticlassLoss
from undercut.errors import CapabilityError, DataError, ParameterError
from undercut.losses import CrammerSinger, Softmax
from undercut.risks.scores.classes.multiclass import class_scores
from undercut.risks.scores.classes.softmax_scores import pseudo_inverse
from undercut.solvers import TruncatedNewton
from undercut.testing import check_risk

COSTS = np.array([[0.0, 2.0, 0.5], [1.0, 0.0, 3.0], [0.0, 0.7, 0.0]])
LOSSES = {"softmax": Softmax(), "crammer_singer": CrammerSinger(), "costs": CrammerSinger(COSTS)}
losses = pytest.mark.parametrize("name", LOSSES)
intercepts = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])


def data(seed=0, n=40, d=4, K=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7) + 0.3
    y = rng.permutation(np.arange(n) % K)
    X[np.arange(n), y % d] += 1.0
    return X, y, rng.random(n) + 0.1


def losses_by_formula(loss, y, S):
    own = S[np.arange(y.size), y]
    if isinstance(loss, Softmax):
        return logsumexp(S, axis=1) - own
    return (S + loss.costs(S.shape[1])[y]).max(axis=1) - own


@losses
@intercepts
@pytest.mark.parametrize("layout", LAYOUTS)
def test_keeps_the_contract_of_a_risk(name, fit_intercept, layout):
    X, y, weight = data()
    check_risk(MulticlassRisk(LAYOUTS[layout](X), y, LOSSES[name], weight, fit_intercept=fit_intercept))


@losses
@intercepts
def test_the_value_is_the_weighted_mean_of_the_formula(name, fit_intercept, rng):
    X, y, weight = data()
    risk = MulticlassRisk(X, y, LOSSES[name], weight, fit_intercept=fit_intercept)
    for W in rng.standard_normal((5, 3, 4)):
        b = risk.intercepts(W.ravel())
        values = losses_by_formula(LOSSES[name], y, X @ W.T + b)
        assert risk.value(W.ravel()) == pytest.approx(float(weight @ values / weight.sum()), rel=1e-12)
        assert b.sum() == pytest.approx(0.0, abs=1e-12)
        assert fit_intercept or not b.any()


@given(st.integers(0, 10_000), st.booleans())
def test_the_margin_loss_is_the_worst_of_all_labelings(seed, integer):
    """``R = max_yhat sum_i weight_i (label_loss[y_i, yhat_i] + s_i,yhat - s_i,y)``."""
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(1, 5)), int(rng.integers(2, 4))
    S = rng.integers(-1, 2, (n, K)).astype(float) if integer else rng.standard_normal((n, K))
    y, weight, costs = rng.integers(0, K, n), rng.dirichlet(np.ones(n)), rng.random((K, K)) * 2.0
    np.fill_diagonal(costs, 0.0)
    phi = class_scores(CrammerSinger(costs), y, weight, K, fit_intercept=False)

    def total(labels):
        return sum(w * (costs[a, k] + s[k] - s[a]) for w, a, k, s in zip(weight, y, labels, S, strict=True))

    value, slopes, _ = phi.evaluate(S.ravel())
    assert value == pytest.approx(max(map(total, product(range(K), repeat=n))), abs=1e-13)
    assert slopes.reshape(n, K).sum(axis=1) == pytest.approx(0.0, abs=1e-15)


@losses
@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 5.0, 30.0])
def test_no_intercepts_are_better_and_the_slopes_of_every_class_balance(name, scale):
    for seed in range(5):
        _, y, weight = data(seed)
        rng = np.random.default_rng(seed)
        S = scale * rng.standard_normal((y.size, 3))
        weight /= weight.sum()
        phi = class_scores(LOSSES[name], y, weight, 3, fit_intercept=True)
        value, slopes, _ = phi.evaluate(S.ravel())
        b = phi.intercepts(S.ravel())
        assert np.abs(slopes.reshape(-1, 3).sum(axis=0)).max() <= 2e-14
        for size in (1e-3, 0.1, 1.0, 10.0):
            for shift in size * rng.standard_normal((20, 3)):
                assert value <= weight @ losses_by_formula(LOSSES[name], y, S + b + shift) + 1e-13 * max(1.0, scale)


@losses
def test_intercepts_of_separated_classes_balance_slopes_however_small(name):
    """Far from the margin the softmax has slopes of any size, and they balance relative to it."""
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    for scale in (10.0, 100.0, 600.0):
        S = rng.standard_normal((30, 3))
        S[np.arange(30), y] += scale
        phi = class_scores(LOSSES[name], y, np.full(30, 1.0 / 30.0), 3, fit_intercept=True)
        value, slopes, _ = phi.evaluate(S.ravel())
        assert value >= 0.0
        slopes = slopes.reshape(-1, 3)
        assert np.abs(slopes.sum(axis=0)).max() <= 1e-12 * np.abs(slopes).sum()


@losses
def test_what_was_evaluated_before_does_not_matter(name, rng):
    X, y, weight = data()
    risk = MulticlassRisk(X, y, LOSSES[name], weight, fit_intercept=True)
    w = rng.standard_normal(risk.n_params)
    fresh = risk.value(w)
    for scale in (1e3, 1e-3, 30.0, 1e6, 1e12):
        risk.value(scale * rng.standard_normal(risk.n_params))
        assert risk.value(w) == pytest.approx(fresh, rel=1e-12)


@losses
@intercepts
def test_a_sample_weight_stands_for_repeated_rows(name, fit_intercept, rng):
    X, y, _ = data()
    counts = rng.integers(0, 4, y.size)
    rows = np.repeat(np.arange(y.size), counts)
    weighted = MulticlassRisk(X, y, LOSSES[name], counts, fit_intercept=fit_intercept)
    repeated = MulticlassRisk(X[rows], y[rows], LOSSES[name], fit_intercept=fit_intercept)
    for w in rng.standard_normal((5, weighted.n_params)):
        assert weighted.value(w) == pytest.approx(repeated.value(w), rel=1e-12)


@losses
@intercepts
def test_degenerate_data_keep_the_contract(name, fit_intercept):
    """Zero rows, duplicates, constant scores, scores on kinks, a class that occurs once."""
    X = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [-1.0, 1.0], [0.0, 0.0], [1.0, -1.0]])
    risk = MulticlassRisk(X, np.array([0, 1, 0, 2, 1, 0]), LOSSES[name], fit_intercept=fit_intercept)
    check_risk(risk)
    points = [np.array(point, dtype=float) for point in product((-1.0, 0.0, 1.0), repeat=6)]
    cuts = [risk.cut(w) for w in points[::7]]
    for v in points:
        assert max(float(cut.a @ v) + cut.b for cut in cuts) <= risk.value(v) + 1e-12


@losses
def test_a_class_without_samples_does_no_harm_without_intercepts(name):
    X, y, _ = data(K=2)
    check_risk(MulticlassRisk(X, y, LOSSES[name], n_classes=3))


def test_a_class_without_samples_gets_a_finite_margin_intercept_and_no_softmax_one():
    X, y, _ = data(K=2)
    risk = MulticlassRisk(X, y, CrammerSinger(), n_classes=3, fit_intercept=True)
    check_risk(risk)
    assert np.isfinite(risk.intercepts(np.zeros(risk.n_params))).all()
    with pytest.raises(DataError, match="class 2 has none"):
        MulticlassRisk(X, y, Softmax(), n_classes=3, fit_intercept=True)


def test_one_class_alone_has_no_margin_risk_left():
    X = data()[0]
    y = np.zeros(len(X))
    assert MulticlassRisk(X, y, CrammerSinger(), n_classes=2, fit_intercept=True).value(np.zeros(8)) == 0.0
    assert MulticlassRisk(X, y, CrammerSinger(), n_classes=2).value(np.zeros(8)) == pytest.approx(1.0)


def test_softmax_of_two_classes_is_the_logistic_loss_and_huge_scores_do_not_overflow():
    S = np.array([[0.0, 3.0], [1e300, -1e300], [-800.0, 800.0], [40.0, 0.0]])
    values, slopes = Softmax().value_slope(np.array([0, 0, 0, 0]), S)
    np.testing.assert_allclose(values, [np.logaddexp(0.0, 3.0), 0.0, 1600.0, np.log1p(np.exp(-40.0))], rtol=1e-14)
    assert slopes[3, 0] == -slopes[3, 1] == pytest.approx(-np.exp(-40.0), rel=1e-12)


@pytest.mark.parametrize("other", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("own", [0.0, np.inf, -np.inf, np.nan])
def test_softmax_of_infinite_scores_is_infinite_or_its_limit_and_never_nan(own, other):
    S, y = np.array([[own, 1.0, other], [0.0, 1.0, 0.0]]), np.array([0, 0])
    expected = np.log1p(np.exp(1.0)) if own == 0.0 and other == -np.inf else np.inf
    finite = np.log(2.0 + np.exp(1.0))
    np.testing.assert_allclose(Softmax().value_slope(y, S)[0], [expected, finite], rtol=1e-14)
    np.testing.assert_allclose(Softmax().along(y, S, np.zeros_like(S), 1.0).values, [expected, finite], rtol=1e-14)


@losses
@intercepts
def test_scores_that_overflow_make_an_infinite_risk_and_a_line_search_stays_short_of_it(name, fit_intercept):
    X, y, _ = data()
    risk = MulticlassRisk(X * 1e200, y, LOSSES[name], fit_intercept=fit_intercept)
    direction = np.linspace(-1.0, 1.0, 12) * 1e100
    line = risk.along(np.zeros(12), direction)
    with np.errstate(over="ignore", invalid="ignore"):  # of the products with X
        assert risk.value(1e100 * direction) == np.inf
        assert line.value(1e100) == np.inf
        assert math.isfinite(line.value(line.minimizer(-1.0, 0.0)))


@cache
def optimum(name, fit_intercept, lam):
    """W, b and the value of the optimum according to Clarabel, evaluated by the formula."""
    X, y, weight = data()
    loss, K = LOSSES[name], 3
    W, b = cp.Variable((K, X.shape[1])), cp.Variable((1, K))
    S = X @ W.T + (np.ones((y.size, 1)) @ b if fit_intercept else 0.0)
    own = cp.sum(cp.multiply(np.eye(K)[y], S), axis=1)
    most = cp.log_sum_exp(S, axis=1) if name == "softmax" else cp.max(S + loss.costs(K)[y], axis=1)
    program = cp.Problem(cp.Minimize(0.5 * lam * cp.sum_squares(W) + (weight / weight.sum()) @ (most - own)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what it reached is evaluated by the formula
        program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    S = X @ W.value.T + (b.value if fit_intercept else 0.0)
    mean = float(weight @ losses_by_formula(loss, y, S) / weight.sum())
    return W.value, 0.5 * lam * float(np.sum(W.value**2)) + mean


SOLVERS = {
    "line_search": LineSearchBundle(),
    "cutting_plane": CuttingPlane(),
    "newton": Newton(),
    "truncated_newton": TruncatedNewton(),
    "lbfgs": Lbfgs(),
}


@losses
@intercepts
@pytest.mark.parametrize("solver", SOLVERS)
def test_agrees_with_a_conic_solver(name, fit_intercept, solver):
    if solver in ("newton", "truncated_newton", "lbfgs") and name != "softmax":
        pytest.skip("needs a smooth loss")
    X, y, weight = data()
    risk = MulticlassRisk(X, y, LOSSES[name], weight, fit_intercept=fit_intercept)
    result = minimize(risk, L2(0.05), SOLVERS[solver], stop=Stop(gap_rel=1e-7))
    W, best = optimum(name, fit_intercept, 0.05)
    assert result.lower_bound <= best * (1.0 + 1e-12)
    assert best <= result.objective * (1.0 + 1e-8)
    assert result.objective <= best * (1.0 + 1e-6)
    np.testing.assert_allclose(result.w.reshape(W.shape), W, atol=5e-3)


@losses
@intercepts
@pytest.mark.parametrize("lam", [1e-9, 1e-6, 1e-3, 1.0, 1e3])
def test_bounds_bracket_the_optimum_for_every_lambda(name, fit_intercept, lam):
    X, y, weight = data()
    risk = MulticlassRisk(X, y, LOSSES[name], weight, fit_intercept=fit_intercept)
    _, best = optimum(name, fit_intercept, lam)
    for steps in (1, 5, 50, 2000):
        result = minimize(risk, L2(lam), stop=Stop(gap_rel=1e-4, max_steps=steps))
        assert result.lower_bound <= best * (1.0 + 1e-9)
        assert best <= result.objective * (1.0 + 1e-5)


def test_newton_is_refused_where_there_is_no_hessian():
    X, y, _ = data()
    risk = MulticlassRisk(X, y, CrammerSinger())
    with pytest.raises(CapabilityError, match="smooth"):
        minimize(risk, L2(0.1), Newton())
    assert not hasattr(risk, "hessian")


def test_sparse_data_are_never_made_dense():
    n, d = 50, 10_000_000
    X = sp.csr_array((np.ones(n), (np.arange(n), np.arange(n) * 1000)), shape=(n, d))
    risk = MulticlassRisk(X, np.arange(n) % 2, CrammerSinger(), fit_intercept=True)
    assert risk.cut(np.zeros(2 * d)).a.shape == (2 * d,)


def test_a_loss_of_ones_own_needs_no_more_than_its_formulas():
    class Squares(MulticlassLoss):
        def value_slope(self, y, S):
            rest = S - np.eye(S.shape[1])[y]
            return 0.5 * (rest**2).sum(axis=1), rest

        def along(self, y, S, D, t):
            values, slopes = self.value_slope(y, S + t * D)
            return values, (slopes * D).sum(axis=1), (D**2).sum(axis=1)

    X, y, _ = data()
    check_risk(MulticlassRisk(X, y, Squares()))
    with pytest.raises(CapabilityError, match="Squares is neither"):
        MulticlassRisk(X, y, Squares(), fit_intercept=True)


@pytest.mark.parametrize(
    ("y", "settings", "message"),
    [
        ([0, 1], {}, "one class per row"),
        ([0, 1, -1], {}, "classes 0, 1"),
        ([0, 1, 0.5], {}, "classes 0, 1"),
        ([0, 1, np.nan], {}, "classes 0, 1"),
        (["a", "b", "a"], {}, "classes 0, 1"),
        ([0, 0, 0], {}, "at least 2"),
        ([0, 1, 2], {"n_classes": 2}, "exceed every class"),
        ([0, 1, 2], {"sample_weight": [1.0, 1.0, -1.0]}, "non-negative"),
        ([0, 1, 0], {"loss": CrammerSinger(COSTS)}, r"shape \(2, 2\)"),
    ],
)
def test_bad_data_get_a_clear_error(y, settings, message):
    with pytest.raises(DataError, match=message):
        MulticlassRisk(np.eye(3), y, **{"loss": CrammerSinger(), **settings})


@pytest.mark.parametrize(
    ("costs", "message"),
    [([[0.0, 1.0]], "square"), ([[0.0, -1.0], [1.0, 0.0]], "non-negative"), ([[1.0, 1.0], [1.0, 0.0]], "diagonal")],
)
def test_costs_outside_their_domain_are_refused(costs, message):
    with pytest.raises(ParameterError, match=message):
        CrammerSinger(costs)


def test_a_short_shift_of_the_intercepts_needs_no_scores():
    rng = np.random.default_rng(0)
    S, y = 5.0 * rng.standard_normal((50, 4)), np.arange(50) % 4
    weight = rng.random(50) * (np.arange(50) > 3)
    phi = class_scores(Softmax(), y, weight / weight.sum(), 4, fit_intercept=True)
    start, step = phi._at(S, np.zeros(4)), np.array([0.3, -0.2, 0.1, -0.2])
    moved, exact = phi._shifted(start, step, S), phi._at(S, step)
    assert moved.value == pytest.approx(exact.value, rel=1e-14)
    np.testing.assert_allclose(moved.slopes, exact.slopes, atol=1e-16)
    np.testing.assert_allclose(moved.b, exact.b, atol=1e-16)


def test_the_best_intercepts_do_not_depend_on_the_start():
    rng = np.random.default_rng(1)
    S, y = 3.0 * rng.standard_normal((200, 3)), rng.integers(0, 3, 200)
    phi = class_scores(Softmax(), y, np.full(200, 1 / 200), 3, fit_intercept=True)
    best = phi.settle(S)
    for b in ([0.01, 0.0, -0.01], [20.0, -5.0, -15.0]):
        found = phi.settle_from(phi._at(S, np.array(b)), S)
        np.testing.assert_allclose(found.slopes.sum(axis=0), 0.0, atol=1e-14)
        np.testing.assert_allclose(found.b, best.b, atol=1e-10)


@pytest.mark.parametrize("smallest", [1.0, 1e-5, 1e-30])
def test_the_pseudo_inverse_is_that_of_the_singular_values(rng, smallest):
    P = rng.dirichlet(np.ones(5), size=20) * [1.0, 1.0, 1.0, 1.0, smallest]
    P /= P.sum(axis=1, keepdims=True)
    C = np.diag(P.sum(axis=0)) - P.T @ P
    inverse = pseudo_inverse(C)
    np.testing.assert_allclose(C @ inverse @ C, C, atol=1e-12)
    np.testing.assert_allclose(inverse, np.linalg.pinv(C, hermitian=True), rtol=1e-6, atol=1e-8)


@intercepts
def test_a_softmax_line_keeps_what_its_search_evaluated(fit_intercept, monkeypatch):
    X, y, weight = data()
    risk = MulticlassRisk(X, y, Softmax(), weight, fit_intercept=fit_intercept)
    rng = np.random.default_rng(0)
    w, direction = rng.standard_normal(12), rng.standard_normal(12)
    line = risk.along(w, -risk.cut(w).a)
    t = line.minimizer(0.0, 1e-3, accuracy=1e-3)
    fresh = risk.cut(w - t * risk.cut(w).a)
    calls = []
    monkeypatch.setattr(Softmax, "value_slope", lambda *given: calls.append(given))
    kept, turned = line.cut(t), line.turn(t, direction)
    assert turned.value(0.0) == kept.value
    assert calls == []
    assert t > 0.0
    assert kept.value == pytest.approx(fresh.value, rel=1e-12)
    np.testing.assert_allclose(kept.a, fresh.a, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_second_derivatives_follow_from_the_slopes(n_classes, rng):
    S, D, y = (
        rng.standard_normal((30, n_classes)),
        rng.standard_normal((30, n_classes)),
        rng.integers(n_classes, size=30),
    )
    weight = np.where(np.arange(30) < 3, 0.0, rng.random(30))
    phi = class_scores(Softmax(), y, weight, n_classes, fit_intercept=False)
    second = phi.curvature(phi.settle(S))
    P = np.exp(S) / np.exp(S).sum(axis=1, keepdims=True)
    blocks = weight[:, None, None] * (P[:, :, None] * np.eye(n_classes) - P[:, :, None] * P[:, None, :])
    shift = rng.standard_normal(n_classes)
    np.testing.assert_allclose(second.through(D, shift), np.einsum("ikl,il->ik", blocks, D + shift), atol=1e-14)
    np.testing.assert_allclose(second.C, blocks.sum(axis=0), atol=1e-13)
    np.testing.assert_allclose(second.traces(), np.trace(blocks, axis1=1, axis2=2), atol=1e-14)
