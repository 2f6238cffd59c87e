"""Performance measures and their risk, against all labelings, subsets and pairs of small samples."""

from __future__ import annotations

import math
from itertools import combinations, permutations, product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings, strategies as st
from sklearn import metrics

from undercut import L2, Hinge, LinearRisk, MultivariateRisk, Status, Stop, minimize
from undercut.errors import CapabilityError, DataError, NonfiniteError, ParameterError
from undercut.measures import (
    AveragePrecision,
    BalancedError,
    BreakEven,
    ContingencyMeasure,
    FBeta,
    Matthews,
    PartialRocArea,
    PrecisionAt,
    Ranked,
    RecallAt,
    RocArea,
    contingency,
    measure_named,
)
from undercut.measures.base import Prices
from undercut.testing import check_risk


def error_rate(tp, fp, fn, tn):
    return (fp + fn) / (tp + fp + fn + tn)


def exactly_right(tp, fp, fn, tn):
    """Neither concave in fp nor anything else."""
    return 1.0 * (fp + fn > 0)


def free_up_to_two(tp, fp, fn, tn):
    """Single mistakes cost nothing."""
    return np.maximum(0.0, fp + fn - 2.0)


THRESHOLD = {
    "f1": FBeta(),
    "f0.3": FBeta(0.3),
    "f5": FBeta(5.0),
    "balanced_error": BalancedError(),
    "mcc": Matthews(),
    "error_rate": ContingencyMeasure(error_rate),
    "exactly_right": ContingencyMeasure(exactly_right),
    "free_up_to_two": ContingencyMeasure(free_up_to_two),
}
TOP = {"precision@1": PrecisionAt(1), "precision@3": PrecisionAt(3), "recall@2": RecallAt(2), "prbep": BreakEven()}
PAIRS = {"roc_auc": RocArea(), "roc_auc@0.5": PartialRocArea(0.5), "average_precision": AveragePrecision()}
MEASURES = THRESHOLD | TOP | PAIRS
measures = pytest.mark.parametrize("name", MEASURES)
intercepts = pytest.mark.parametrize("fit_intercept", [False, True], ids=["plain", "intercept"])


# --------------------------------------------------------------------------------------------------- by enumeration


def table_of(y, z):
    return tuple(float(np.sum((y == a) & (z == b))) for a, b in ((1, 1), (-1, 1), (1, -1), (-1, -1)))


def loss_by_formula(measure, tp, fp, fn, tn):
    if isinstance(measure, FBeta):
        precision, recall = (tp / (tp + fp) if tp else 0.0), tp / (tp + fn)
        weight = measure.beta**2
        return 1.0 - ((1 + weight) * precision * recall / (weight * precision + recall) if tp else 0.0)
    if isinstance(measure, BalancedError):
        return (fn / (fn + tp) + fp / (fp + tn)) / 2
    if isinstance(measure, Matthews):
        spread = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
        return 1.0 - ((tp * tn - fp * fn) / spread if spread else 0.0)
    return float(measure.fun(tp, fp, fn, tn))


def threshold_planes(risk):
    """``(Delta, slopes)`` of every labeling."""
    y, prices = risk.y, np.where(risk.y > 0, risk.phi.prices.miss, risk.phi.prices.alarm)
    labelings = [np.array(z, dtype=float) for z in product((-1, 1), repeat=y.size)]
    return [(loss_by_formula(risk.measure, *table_of(y, z)), prices * (z - y) / 2) for z in labelings]


def top_planes(measure, y):
    n_positive = int(np.sum(y > 0))
    k = n_positive if isinstance(measure, BreakEven) else measure.k
    total = k if isinstance(measure, PrecisionAt) else n_positive
    planes = []
    for chosen in combinations(range(y.size), k):
        top = np.isin(np.arange(y.size), chosen)
        fp, fn, tp = top & (y < 0), ~top & (y > 0), int(np.sum(top & (y > 0)))
        exchanges = min(k, n_positive) - tp
        slopes = np.zeros(y.size)
        if exchanges:
            slopes = exchanges / total * (fp / fp.sum() - fn / fn.sum())
        planes.append((1 - tp / total, slopes))
    return planes


def pair_planes(y):
    """Every set of pairs taken for inverted."""
    pairs = [(i, j) for i in np.flatnonzero(y > 0) for j in np.flatnonzero(y < 0)]
    planes = []
    for inverted in product((0, 1), repeat=len(pairs)):
        slopes = np.zeros(y.size)
        for (i, j), wrong in zip(pairs, inverted, strict=True):
            slopes[i] -= wrong / len(pairs)
            slopes[j] += wrong / len(pairs)
        planes.append((sum(inverted) / len(pairs), slopes))
    return planes


def partial_planes(y, most):
    """Every set of pairs with the negatives of a share, those of all such shares together."""
    negatives = np.flatnonzero(y < 0)
    planes = []
    for chosen in combinations(negatives, math.ceil(most * negatives.size)):
        rows = np.union1d(np.flatnonzero(y > 0), chosen)
        for loss, slopes in pair_planes(y[rows]):
            planes.append((loss, np.zeros(y.size)))
            planes[-1][1][rows] = slopes
    return planes


def ranking_planes(y):
    """``(1 - average precision, slopes of the inverted pairs)`` of every ranking."""
    positives, negatives = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    planes = []
    for order in permutations(range(y.size)):
        place = np.argsort(order)
        ranks = np.sort(place[positives]) + 1.0
        slopes = np.zeros(y.size)
        for i, j in product(positives, negatives):
            slopes[[i, j]] += np.array([-1.0, 1.0]) * (place[j] < place[i]) / (positives.size * negatives.size)
        planes.append((1.0 - np.mean(np.arange(1.0, ranks.size + 1.0) / ranks), slopes))
    return planes


def planes_of(risk):
    measure, y = risk.measure, risk.y
    if isinstance(measure, PartialRocArea):
        return partial_planes(y, measure.most)
    if isinstance(measure, AveragePrecision):
        return ranking_planes(y)
    if isinstance(measure, RocArea):
        return pair_planes(y)
    return top_planes(measure, y) if isinstance(measure, tuple(map(type, TOP.values()))) else threshold_planes(risk)


def value_by_enumeration(risk, scores):
    return max(loss + slopes @ scores for loss, slopes in planes_of(risk))


def value_at_best_intercept(risk, scores):
    """The lowest point of the highest line, among all places where two lines meet."""
    lines = {}
    for loss, slopes in planes_of(risk):
        rise = round(float(slopes.sum()), 12)
        lines[rise] = max(lines.get(rise, -np.inf), loss + slopes @ scores)
    meets = [(h - g) / (q - p) for (p, h), (q, g) in combinations(lines.items(), 2)] or [0.0]
    return min(max(height + rise * b for rise, height in lines.items()) for b in meets)


def is_defined(measure, y):
    try:
        measure.check(int(np.sum(y > 0)), int(np.sum(y < 0)))
        assume(not isinstance(measure, RocArea) or np.sum(y > 0) * np.sum(y < 0) <= 9)  # 2^9 sets of pairs
        assume(not isinstance(measure, AveragePrecision) or y.size <= 6)  # 720 rankings
    except DataError:
        return False
    return True


labels = st.lists(st.sampled_from([-1.0, 1.0]), min_size=1, max_size=8)
ties = st.sampled_from([0.0, 0.5, -0.5, 1.0, -1.0, 2.0, 7.0])
samples = labels.flatmap(
    lambda y: st.tuples(
        st.just(np.array(y)),
        st.lists(st.one_of(ties, st.floats(-30, 30)), min_size=len(y), max_size=len(y)).map(np.array),
    )
)


@measures
@given(sample=samples)
@settings(max_examples=60, deadline=None)
def test_the_risk_is_the_maximum_over_all_labelings(name, sample):
    y, scores = sample
    measure = MEASURES[name]
    assume(is_defined(measure, y))
    risk = MultivariateRisk(np.eye(y.size), y, measure)
    cut = risk.cut(scores)
    assert cut.value == pytest.approx(value_by_enumeration(risk, scores), abs=1e-12)
    assert any(np.allclose(cut.a, slopes, atol=1e-14) for _, slopes in planes_of(risk))


@pytest.mark.parametrize("name", THRESHOLD)
@given(sample=samples)
@settings(max_examples=60, deadline=None)
def test_the_free_intercept_is_the_best_of_all(name, sample):
    y, scores = sample
    measure = THRESHOLD[name]
    assume(is_defined(measure, y))
    risk = MultivariateRisk(np.eye(y.size), y, measure, fit_intercept=True)
    cut, b = risk.cut(scores), risk.intercept(scores)
    assert cut.value == pytest.approx(value_at_best_intercept(risk, scores), abs=1e-10)
    assert value_by_enumeration(risk, scores + b) == pytest.approx(cut.value, abs=1e-10)
    assert cut.a.sum() == pytest.approx(0.0, abs=1e-14)


@measures
@intercepts
@given(sample=samples)
@settings(max_examples=20, deadline=None)  # implied by the maximum over all labelings
def test_the_risk_bounds_the_loss_of_what_is_predicted(name, fit_intercept, sample):
    y, scores = sample
    measure = MEASURES[name]
    assume(is_defined(measure, y))
    risk = MultivariateRisk(np.eye(y.size), y, measure, fit_intercept=fit_intercept)
    shift = risk.intercept(scores) if measure.sees_intercept else 0.0
    value = risk.value(scores)
    assert value >= measure.label_loss(y, scores + shift) - 1e-9 * max(1.0, abs(shift))
    assert value >= risk.lower_bound - 1e-12
    assert measure.label_loss(y, y) == pytest.approx(risk.lower_bound)


@measures
@intercepts
@given(sample=samples, data=st.data())
@settings(max_examples=20, deadline=None)  # implied by the maximum over all labelings
def test_planes_lie_below_the_risk(name, fit_intercept, sample, data):
    y, scores = sample
    assume(is_defined(MEASURES[name], y))
    risk = MultivariateRisk(np.eye(y.size), y, MEASURES[name], fit_intercept=fit_intercept)
    cut = risk.cut(scores)
    other = np.array(data.draw(st.lists(st.one_of(ties, st.floats(-30, 30)), min_size=y.size, max_size=y.size)))
    assert cut.a @ scores + cut.b == pytest.approx(cut.value, abs=1e-10)
    assert cut.a @ other + cut.b <= risk.value(other) + 1e-10


# ------------------------------------------------------------------------------------------------- as a risk of w


def draw(n=40, d=5, seed=0, share=0.3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    scores = X @ rng.standard_normal(d) + rng.standard_normal(n)
    return X, np.where(scores > np.quantile(scores, 1.0 - share), 1.0, -1.0)


def wide(X):
    return sp.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape)


LAYOUTS = {
    "dense": lambda X: X,
    "narrow": lambda X: X.astype(np.float32),
    "csr": sp.csr_array,
    "csr_int64": lambda X: wide(sp.csr_array(X)),
}


@measures
@intercepts
@pytest.mark.parametrize("layout", LAYOUTS)
def test_keeps_the_contract_of_a_risk(name, fit_intercept, layout):
    X, y = draw()
    check_risk(MultivariateRisk(LAYOUTS[layout](X), y, MEASURES[name], fit_intercept=fit_intercept))


@measures
@intercepts
@pytest.mark.parametrize("kind", ["zero_rows", "all_zero", "duplicates", "integers", "rare", "frequent"])
def test_keeps_the_contract_on_degenerate_data(name, fit_intercept, kind):
    X, y = draw(n=16, d=3)
    X, y = {
        "zero_rows": lambda: (np.where(np.arange(16)[:, None] % 2, X, 0.0), y),
        "all_zero": lambda: (0.0 * X, y),
        "duplicates": lambda: (np.repeat(X, 3, axis=0), np.repeat(y, 3)),
        "integers": lambda: (np.round(X), y),
        "rare": lambda: (X, np.where(np.arange(16) == 3, 1.0, -1.0)),
        "frequent": lambda: (X, np.where(np.arange(16) == 3, -1.0, 1.0)),
    }[kind]()
    check_risk(MultivariateRisk(X, y, MEASURES[name], fit_intercept=fit_intercept))


@intercepts
def test_the_error_rate_is_the_mean_hinge_loss(fit_intercept, rng):
    X, y = draw()
    ours = MultivariateRisk(X, y, ContingencyMeasure(error_rate), fit_intercept=fit_intercept)
    hinge = LinearRisk(X, y, Hinge(), fit_intercept=fit_intercept)
    for w in rng.standard_normal((5, 5)):
        assert ours.value(w) == pytest.approx(hinge.value(w), rel=1e-12)


@pytest.mark.parametrize("beta", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("block", [1, 7, 10**6])
def test_linear_search_and_trying_all_tables_agree(beta, block, rng, monkeypatch):
    monkeypatch.setattr(contingency, "BLOCK", block)
    fast = FBeta(beta)
    slow = ContingencyMeasure(fast.loss)
    for share in (0.02, 0.3, 0.9):
        X, y = draw(n=150, share=share)
        quick, thorough = MultivariateRisk(X, y, fast), MultivariateRisk(X, y, slow)
        for w in rng.standard_normal((5, 5)) * np.array([[0.01], [0.1], [1.0], [10.0], [100.0]]):
            assert quick.value(w) == pytest.approx(thorough.value(w), rel=1e-12)


@pytest.mark.parametrize("name", [*TOP, "roc_auc"])
def test_a_ranking_does_not_see_the_intercept(name, rng):
    X, y = draw()
    risk, scores = MultivariateRisk(X, y, MEASURES[name]), rng.standard_normal(40)
    assert risk.phi.evaluate(scores + 3.0).value == pytest.approx(risk.phi.evaluate(scores).value, rel=1e-12)
    free = MultivariateRisk(X, y, MEASURES[name], fit_intercept=True)
    w = rng.standard_normal(5)
    assert free.value(w) == risk.value(w)
    assert risk.intercept(w) == 0.0


@pytest.mark.parametrize("name", TOP)
def test_the_intercept_of_the_top_lets_k_pass(name, rng):
    X, y = draw()
    risk, w = MultivariateRisk(X, y, TOP[name], fit_intercept=True), rng.standard_normal(5)
    assert np.sum(X @ w + risk.intercept(w) > 0.0) == TOP[name].size(int(np.sum(y > 0)))


def test_the_intercept_of_the_roc_area_has_the_least_balanced_error(rng):
    X, y = draw()
    risk, w = MultivariateRisk(X, y, "roc_auc", fit_intercept=True), rng.standard_normal(5)
    reached = BalancedError().label_loss(y, X @ w + risk.intercept(w))
    best = min(BalancedError().label_loss(y, X @ w - cutoff) for cutoff in [*(X @ w), -1e9])
    assert reached == pytest.approx(best)


# ---------------------------------------------------------------------------------------------------------- prices


def noisy(n=400, share=0.1, noise=2.0):
    """A rare class that overlaps with the rest."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 3))
    merit = X[:, 0] + noise * rng.standard_normal(n)
    return X, np.where(merit > np.quantile(merit, 1.0 - share), 1.0, -1.0)


def test_the_prices_of_f1_are_its_marginal_losses_at_the_best_threshold_along_the_class_means():
    X, y = noisy()
    scores = X @ (X[y > 0].mean(axis=0) - X[y < 0].mean(axis=0))
    best = max(metrics.f1_score(y, np.where(scores >= cut, 1, -1)) for cut in scores)
    miss, alarm = MultivariateRisk(X, y, "f1").phi.prices
    assert miss == pytest.approx(1.0 / (2 * np.sum(y > 0) - 1))  # the most expensive single mistake
    assert alarm / miss == pytest.approx(best / (2.0 - best), rel=0.05)


def test_prices_are_equal_where_the_classes_are_separable():
    assert len(set(MultivariateRisk(np.eye(4), np.array([1.0, -1.0, -1.0, -1.0]), "f1").phi.prices)) == 1


def test_the_risk_of_the_balanced_error_is_the_mean_hinge_loss_of_the_classes():
    X, y = noisy()
    w = np.array([0.7, -0.2, 0.1])
    losses = np.maximum(0.0, 1.0 - y * (X @ w))
    expected = 0.5 * (losses[y > 0].mean() + losses[y < 0].mean())
    assert MultivariateRisk(X, y, "balanced_error").value(w) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["f1", "mcc", "balanced_error"])
def test_a_rare_class_under_noise_is_learned(name):
    """With equal prices w = 0 minimizes the bound of F1 here."""
    X, y = noisy()
    risk = MultivariateRisk(X, y, name, fit_intercept=True)
    w = minimize(risk, L2(1e-3), stop=Stop(gap_rel=1e-2)).w
    constant = min(risk.measure.label_loss(y, np.full(y.size, sign)) for sign in (1.0, -1.0))
    assert risk.measure.label_loss(y, X @ w + risk.intercept(w)) < constant - 0.05


# --------------------------------------------------------------------------------------------------------- optimum


def oracle(risk, X, lam):
    """J at Clarabel's minimizer, by enumeration."""
    w, b, bound = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable()
    free = risk.fit_intercept and risk.measure.sees_intercept
    planes = planes_of(risk)
    A, losses = np.array([slopes for _, slopes in planes]), np.array([loss for loss, _ in planes])
    rows = A @ X @ w + losses + (A.sum(axis=1) * b if free else 0.0) <= bound
    program = cp.Problem(cp.Minimize(0.5 * lam * cp.sum_squares(w) + bound), [rows])
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    scores = X @ w.value
    value = value_at_best_intercept if free else value_by_enumeration
    return 0.5 * lam * float(w.value @ w.value) + value(risk, scores)


@measures
@intercepts
@pytest.mark.parametrize("lam", [1e-3, 1e-1, 1e3])
def test_bounds_bracket_the_optimum_of_a_conic_solver(name, fit_intercept, lam):
    X, y = draw(n=7, d=2, share=0.5)
    risk = MultivariateRisk(X, y, MEASURES[name], fit_intercept=fit_intercept)
    expected = oracle(risk, X, lam)
    result = minimize(risk, L2(lam), stop=Stop(gap_rel=1e-7, gap_abs=1e-9, max_steps=2000))
    assert result.status is Status.CONVERGED
    assert result.lower_bound <= expected + 1e-9
    assert result.objective <= expected * (1 + 1e-6) + 1e-8


@measures
@intercepts
@pytest.mark.parametrize("lam", [1e-9, 1e-6, 1e-3, 1.0, 1e3])
def test_lower_bounds_hold_from_tiny_to_huge_lambda(name, fit_intercept, lam):
    X, y = draw()
    risk = MultivariateRisk(X, y, MEASURES[name], fit_intercept=fit_intercept)
    rough = minimize(risk, L2(lam), stop=Stop(gap_rel=1e-2, max_steps=300))
    fine = minimize(risk, L2(lam), "cutting_plane", stop=Stop(gap_rel=1e-4, max_steps=300))
    assert max(rough.lower_bound, fine.lower_bound) <= min(rough.objective, fine.objective) * (1 + 1e-12)


# ------------------------------------------------------------------------------------------ what is reported, names


@pytest.mark.parametrize("tied", [False, True])
def test_reports_what_scikit_learn_reports(tied, rng):
    y = np.where(rng.random(200) < 0.3, 1.0, -1.0)
    scores = y + 2.0 * rng.standard_normal(200)
    scores = np.round(scores) if tied else scores
    z = np.where(scores > 0.0, 1.0, -1.0)
    for beta in (0.5, 1.0, 3.0):
        assert 1.0 - FBeta(beta).label_loss(y, scores) == pytest.approx(metrics.fbeta_score(y, z, beta=beta))
    assert 1.0 - BalancedError().label_loss(y, scores) == pytest.approx(metrics.balanced_accuracy_score(y, z))
    assert 1.0 - RocArea().label_loss(y, scores) == pytest.approx(metrics.roc_auc_score(y, scores))
    if not tied:
        top = np.argsort(-scores)
        assert 1.0 - PrecisionAt(20).label_loss(y, scores) == pytest.approx(np.mean(y[top[:20]] > 0))
        assert 1.0 - RecallAt(20).label_loss(y, scores) == pytest.approx(np.sum(y[top[:20]] > 0) / np.sum(y > 0))
        assert BreakEven().label_loss(y, scores) == RecallAt(int(np.sum(y > 0))).label_loss(y, scores)


def test_ties_share_the_top():
    """As if drawn by lot: four samples of equal score compete for two places, one of them positive."""
    y, scores = np.array([1.0, -1.0, 1.0, -1.0, -1.0, -1.0]), np.array([5.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    assert 1.0 - PrecisionAt(3).label_loss(y, scores) == pytest.approx((1 + 2 / 4) / 3)
    assert 1.0 - RecallAt(6).label_loss(y, scores) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("f1", FBeta(1.0)),
        ("f0.5", FBeta(0.5)),
        ("f2", FBeta(2)),
        ("f1e-05", FBeta(1e-5)),
        ("precision@10", PrecisionAt(10)),
        ("recall@10", RecallAt(10)),
        ("prbep", BreakEven()),
        ("roc_auc", RocArea()),
        ("balanced_error", BalancedError()),
    ],
)
def test_a_name_stands_for_a_measure_and_back(name, measure):
    assert measure_named(name) == measure
    assert measure.name == name


@pytest.mark.parametrize(
    ("name", "message"),
    [("F1", "such as 'f1'.*got 'F1'"), ("precision", "precision@10"), ("f0", "beta"), ("recall@0", "`k`"), ("", "f1")],
)
def test_an_unknown_name_is_refused(name, message):
    with pytest.raises(ParameterError, match=message):
        MultivariateRisk(np.eye(2), [1.0, -1.0], name)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (FBeta, -1.0),
        (FBeta, np.inf),
        (FBeta, np.nan),
        (FBeta, 1e-200),
        (PrecisionAt, 0),
        (PrecisionAt, 2.0),
        (RecallAt, True),
    ],
)
def test_settings_outside_their_domain_are_refused(kind, value):
    with pytest.raises(ParameterError, match="must be"):
        kind(value)


def test_a_measure_of_ones_own_has_no_name():
    with pytest.raises(CapabilityError, match="no name"):
        _ = ContingencyMeasure(error_rate).name


# ------------------------------------------------------------------------------------------------------------ edges


@pytest.mark.parametrize(
    ("name", "y", "message"),
    [
        ("f1", [-1, -1], "f1 needs at least one positive sample; got none among 2"),
        ("prbep", [-1], "at least one positive"),
        ("precision@1", [-1, -1], "at least one positive"),
        ("precision@3", [1, -1], "precision@3 needs at least 3 samples; got 2"),
        ("recall@3", [1, -1], "recall@3 needs at least 3 samples"),
        ("roc_auc", [1, 1], "both classes; got 2 positive and 0 negative"),
        ("roc_auc", [-1], "both classes"),
        ("balanced_error", [1], "both classes"),
        ("f1", [0, 1], "-1 or"),
        ("f1", [1], "one target per row"),
        ("f1", [], "at least one"),
    ],
)
def test_data_a_measure_is_not_defined_on_are_refused(name, y, message):
    with pytest.raises(DataError, match=message):
        MultivariateRisk(np.ones((len(y) if message != "one target per row" else 2, 1)), y, name)


@pytest.mark.parametrize("name", ["f1", "prbep", "precision@1", "recall@1"])
@intercepts
def test_positives_alone_can_be_right(name, fit_intercept):
    for n in (1, 4):
        risk = MultivariateRisk(np.ones((n, 1)), np.ones(n), name, fit_intercept=fit_intercept)
        check_risk(risk)
        assert risk.value(np.array([5.0])) == pytest.approx(risk.lower_bound)


def test_k_beyond_the_positives_leaves_a_loss_that_the_bound_knows():
    y = np.array([1.0, -1.0, -1.0, -1.0])
    precision, recall = (MultivariateRisk(np.eye(4), y, name) for name in ("precision@4", "recall@2"))
    assert precision.lower_bound == pytest.approx(3 / 4)
    assert recall.lower_bound == 0.0
    assert recall.value(10.0 * y) == pytest.approx(0.0)
    check_risk(precision)
    check_risk(recall)


def test_recall_below_the_positives_leaves_a_loss_that_the_bound_knows():
    assert MultivariateRisk(np.eye(3), np.array([1.0, 1.0, -1.0]), "recall@1").lower_bound == pytest.approx(0.5)


def test_a_function_that_is_not_finite_is_refused():
    with pytest.raises(DataError, match="tp, fp, fn, tn = 1, 0, 0, 1"):
        MultivariateRisk(np.eye(2), [1.0, -1.0], ContingencyMeasure(lambda tp, fp, fn, tn: np.nan * tp))
    risk = MultivariateRisk(
        np.eye(2), [1.0, -1.0], ContingencyMeasure(lambda tp, fp, fn, tn: np.where(tp > 0, 0.0, np.nan))
    )
    with pytest.raises(DataError, match="NaN for tp, fp = 0, 0"):
        risk.value(np.zeros(2))


@measures
@intercepts
@pytest.mark.parametrize("scale", [1e-300, 1e12, 1e100])
def test_scores_of_any_size_do_no_harm(name, fit_intercept, scale, rng):
    X, y = draw()
    risk = MultivariateRisk(X, y, MEASURES[name], fit_intercept=fit_intercept)
    cut = risk.cut(scale * rng.standard_normal(5))
    assert np.isfinite(cut.a).all()
    assert cut.value >= risk.lower_bound - 1e-9 * scale


@measures
@intercepts
def test_scores_that_overflow_are_called_so(name, fit_intercept):
    X, y = draw()
    risk = MultivariateRisk(1e200 * X, y, MEASURES[name], fit_intercept=fit_intercept)
    with pytest.raises(NonfiniteError), np.errstate(over="ignore", invalid="ignore"):
        risk.cut(np.full(5, 1e200))


@pytest.mark.parametrize("scale", [0.0, 0.05, 1.0, 20.0])
def test_the_linear_search_finds_the_worst_table_of_the_matthews_correlation(scale, rng):
    by_all_tables = ContingencyMeasure(Matthews().loss)
    for _ in range(30):
        positives, negatives = (np.sort(rng.standard_normal(rng.integers(1, 60)) * scale)[::-1] for _ in range(2))
        ranked = Ranked.of(positives + rng.integers(-1, 3), negatives, Prices(*rng.choice([0.5, 0.02, 0.001], 2)))
        found = Matthews().value(ranked, Matthews().worst(ranked))
        assert found == pytest.approx(by_all_tables.value(ranked, by_all_tables.worst(ranked)), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("level", [0.0, 1e6])
@pytest.mark.parametrize("scale", [0.0, 1e-3, 0.1, 1.0, 20.0])
def test_placing_documents_between_their_neighbors_finds_the_worst_average_precision(scale, level, rng):
    """Each negative by itself, at the best of all places."""
    for _ in range(20):
        n, m = rng.integers(1, 40, 2)
        ranked = Ranked.of(*(np.sort(rng.standard_normal(size).round(1) * scale)[::-1] + level for size in (n, m)))
        precision = np.arange(1.0, n + 1.0) / (np.arange(1.0, n + 1.0) + np.arange(m + 1.0)[:, None])
        gains = (precision[:-1] - precision[1:]) / n + (ranked.negatives[:, None] - ranked.positives) / (n * m)
        best = np.maximum(np.cumsum(gains[:, ::-1], axis=1).max(axis=1), 0.0).sum()
        found = AveragePrecision().violate(ranked)
        assert found.value == pytest.approx(best, rel=1e-9, abs=1e-9 + 1e-15 * level)
        at = found.positives @ ranked.positives + found.negatives @ ranked.negatives
        assert found.positives.sum() == pytest.approx(-found.negatives.sum())
        assert found.value - at <= 1.0 + 1e-12


def test_equal_scores_have_the_partial_area_of_a_random_order():
    y = np.where(np.arange(40) < 10, 1.0, -1.0)
    assert PartialRocArea(0.1).label_loss(y, np.zeros(40)) == pytest.approx(1.0 - 0.05)
    assert PartialRocArea(1.0).label_loss(y, np.zeros(40)) == pytest.approx(0.5)
