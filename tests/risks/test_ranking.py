"""Ranking risks against all pairs and all permutations, and what they make of odd queries."""

from __future__ import annotations

import math
import tracemalloc
from functools import partial
from itertools import permutations
from unittest.mock import patch

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import ndcg_score

from undercut import L2, CuttingPlane, Hinge, LinearRisk, NdcgRisk, PairwiseRisk, ProximalBundle, Stop, minimize
from undercut.errors import DataError, ParameterError
from undercut.risks import (
    AveragePrecisionRisk,
    ListwiseRisk,
    OrdinalRisk,
    PrecisionAtRisk,
    ReciprocalRankRisk,
    WeightedPairwiseRisk,
)
from undercut.risks.ranking.gains import exponential_gain, half_gain, log_discount
from undercut.risks.ranking.worst_ranking import PlaceAssignment
from undercut.testing import check_risk


def by_query(qid):
    return [np.flatnonzero(np.asarray(qid) == q) for q in dict.fromkeys(np.asarray(qid).tolist())]


# ----------------------------------------------------------------------------- the formulas, over pairs, permutations


def pairwise(s, y, qid, power=0.5):
    """The mean over the pairs of a query, queries weighted by a power of their number of pairs."""
    value, total = 0.0, 0.0
    for rows in by_query(qid):
        losses = [max(0.0, 1.0 - s[i] + s[j]) for i in rows for j in rows if y[i] > y[j]]
        if losses:
            value += len(losses) ** power * np.mean(losses)
            total += len(losses) ** power
    return value / total


def structured(s, y, qid, gain, loss):
    """``mean_q max_pi loss(y in the order of pi) + sum_i (c[pi(i)] - c[ideal(i)]) s_i`` over all permutations."""
    worst = []
    for rows in by_query(qid):
        gains = gain(y[rows])
        if not gains.any():
            continue
        c = np.sort(gains)[::-1] / gains.max()
        ideal = float(gains @ s[rows]) / gains.max()
        orders = [np.array(order) for order in permutations(range(rows.size))]
        worst.append(max(loss(y[rows][order]) + float(c @ s[rows][order]) - ideal for order in orders))
    return np.mean(worst)


def ndcg_loss(ranked, k, gain=lambda y: y, discount=log_discount):
    discounts = discount(np.arange(1.0, ranked.size + 1)) * (np.arange(ranked.size) < k)
    return 1.0 - gain(ranked) @ discounts / (np.sort(gain(ranked))[::-1] @ discounts)


def precision_loss(ranked, k):
    return 1.0 - (ranked[:k] > 0).sum() / min(k, (ranked > 0).sum(), ranked.size)


def reciprocal_rank_loss(ranked):
    return 1.0 - 1.0 / (1 + np.flatnonzero(ranked > 0)[0])


def average_precision_loss(ranked):
    places = 1.0 + np.flatnonzero(ranked > 0)
    return 1.0 - np.mean(np.arange(1.0, places.size + 1) / places)


def binary(s, y, qid, loss):
    return structured(s, y, qid, lambda y: (y > 0) * 1.0, loss)


def inverted(s, y, qid):
    """``mean_q max_pi loss(y in the order of pi) + mean over pairs of [pi inverts (i, j)] (s_j - s_i)`` for AP."""
    worst = []
    for rows in by_query(qid):
        good, bad = rows[y[rows] > 0], rows[y[rows] <= 0]
        if good.size:
            values = []
            for order in permutations(rows):
                place = {row: at for at, row in enumerate(order)}
                pairs = [s[j] - s[i] if place[j] < place[i] else 0.0 for i in good for j in bad]
                values.append(average_precision_loss(y[list(order)]) + (np.mean(pairs) if pairs else 0.0))
            worst.append(max(values))
    return np.mean(worst)


def listwise(s, y, qid, gain=lambda y: y):
    """``sum_q sqrt(G_q) sum_i gain_i / G_q (log sum exp(s) - s_i)``, over the sum of the roots."""
    value, total = 0.0, 0.0
    for rows in by_query(qid):
        gains = gain(y[rows])
        if y[rows].any() and gains.any():
            weight = np.sqrt(gains.sum())
            value += weight * float(gains / gains.sum() @ (np.log(np.exp(s[rows]).sum()) - s[rows]))
            total += weight
    return value / total


def exchanged(s, y, qid, power):
    """Pairs weighted by gain and mean discount, queries by a power of the sum of these weights."""
    value, total = 0.0, 0.0
    for rows in by_query(qid):
        places = np.empty(rows.size)
        places[np.argsort(-y[rows], kind="stable")] = log_discount(np.arange(1.0, rows.size + 1))
        mean = np.array([places[y[rows] == y[i]].mean() for i in rows])
        pairs = [(i, j) for i in range(rows.size) for j in range(rows.size) if y[rows[i]] > y[rows[j]]]
        if pairs:
            weights = np.array([(y[rows[i]] - y[rows[j]]) * (mean[i] - mean[j]) for i, j in pairs])
            hinges = np.array([max(0.0, 1.0 - s[rows[i]] + s[rows[j]]) for i, j in pairs])
            value += weights.sum() ** (power - 1.0) * float(weights @ hinges)
            total += weights.sum() ** power
    return value / total


def shifted_log(places):
    return np.maximum(0.0, 1.0 - 0.3 * np.log(places))


CASES = {
    "pairwise": (PairwiseRisk, pairwise),
    "ndcg@1": (partial(NdcgRisk, k=1), partial(structured, gain=lambda y: y, loss=partial(ndcg_loss, k=1))),
    "ndcg@2": (partial(NdcgRisk, k=2), partial(structured, gain=lambda y: y, loss=partial(ndcg_loss, k=2))),
    "ndcg@10": (NdcgRisk, partial(structured, gain=lambda y: y, loss=partial(ndcg_loss, k=10))),
    "own ndcg@3": (
        partial(NdcgRisk, k=3, gain=exponential_gain, discount=shifted_log),
        partial(
            structured,
            gain=exponential_gain,
            loss=partial(ndcg_loss, k=3, gain=exponential_gain, discount=shifted_log),
        ),
    ),
    "precision@1": (partial(PrecisionAtRisk, k=1), partial(binary, loss=partial(precision_loss, k=1))),
    "precision@3": (partial(PrecisionAtRisk, k=3), partial(binary, loss=partial(precision_loss, k=3))),
    "mrr": (ReciprocalRankRisk, partial(binary, loss=reciprocal_rank_loss)),
    "map": (AveragePrecisionRisk, inverted),
    "pairwise by query": (partial(PairwiseRisk, weighting="query"), partial(pairwise, power=0.0)),
    "pairwise by pair": (partial(PairwiseRisk, weighting="pair"), partial(pairwise, power=1.0)),
    "weighted pairwise": (WeightedPairwiseRisk, partial(exchanged, power=0.5)),
    "weighted pairwise by query": (partial(WeightedPairwiseRisk, weighting="query"), partial(exchanged, power=0.0)),
    "listwise": (ListwiseRisk, listwise),
    "listwise, half gains": (partial(ListwiseRisk, gain=half_gain), partial(listwise, gain=half_gain)),
}
STRUCTURED = [name for name in CASES if "pairwise" not in name and "listwise" not in name]
RISKS = {name: risk for name, (risk, _) in CASES.items()} | {"ordinal": OrdinalRisk}


@st.composite
def documents(draw, max_queries=3, max_size=6):
    """Scores with ties, grades and ids of a few small queries in any order, one pair of grades among them."""
    sizes = draw(st.lists(st.integers(1, max_size), min_size=1, max_size=max_queries))
    qid = draw(st.permutations([q for q, size in enumerate(sizes) for _ in range(size)] + [99, 99]))
    n = len(qid)
    y = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), float)
    y[np.flatnonzero(np.array(qid) == 99)] = 0.0, 1.0
    numbers = st.one_of(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 1.5]), st.floats(-3.0, 3.0))
    scores = np.array(draw(st.lists(numbers, min_size=n, max_size=n)))
    return scores, y, np.array(qid)


@pytest.mark.parametrize("name", CASES)
@given(drawn=documents(), short=st.sampled_from([0, 64]))
def test_equals_its_formula_over_all_pairs_or_permutations(name, drawn, short):
    risk, formula = CASES[name]
    scores, y, qid = drawn
    with patch("undercut.risks.ranking.worst_ranking.SHORT", short):
        assert risk(np.eye(y.size), y, qid).value(scores) == pytest.approx(formula(scores, y, qid), abs=1e-12)


@pytest.mark.parametrize("name", RISKS)
@given(drawn=documents(), seed=st.integers(0, 100))
def test_planes_support_the_risk_at_kinks_too(name, drawn, seed):
    scores, y, qid = drawn
    risk = RISKS[name](np.eye(y.size), y, qid)
    cut = risk.cut(scores)
    assert cut.a @ scores + cut.b == pytest.approx(risk.value(scores), abs=1e-12)
    rng = np.random.default_rng(seed)
    for size in (0.1, 1.0, 10.0):
        other = scores + size * rng.standard_normal(scores.size)
        assert cut.a @ other + cut.b <= risk.value(other) + 1e-12


def random_problem(seed=0, n=60, d=4, n_queries=7, n_grades=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.clip(np.round(X @ rng.standard_normal(d) + rng.standard_normal(n)), 0, n_grades - 1)
    return X, y, rng.integers(0, n_queries, n)


@pytest.mark.parametrize("name", RISKS)
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, lambda X: X.astype(np.float32)])
def test_keeps_the_contract_of_a_risk(name, convert):
    X, y, qid = random_problem()
    check_risk(RISKS[name](convert(X), y, qid))
    check_risk(RISKS[name](convert(X), y), scale=0.1)


# ------------------------------------------------------------------------------------------------ exactness, at scale


@pytest.mark.parametrize("n_grades", [2, 5, 400])
def test_counts_the_pairs_of_long_queries(n_grades, rng):
    n = 400
    scores, y = 2.0 * rng.standard_normal(n).round(1), rng.integers(0, n_grades, n).astype(float)
    margins = np.maximum(0.0, 1.0 - scores[:, None] + scores)[y[:, None] > y]
    assert PairwiseRisk(np.eye(n), y).value(scores) == pytest.approx(margins.mean(), rel=1e-12)


def test_pairs_do_not_see_a_large_constant(rng):
    _, y, qid = random_problem()
    risk = PairwiseRisk(np.eye(60), y, qid)
    scores = rng.standard_normal(60)
    assert risk.value(scores + 1e9) == pytest.approx(risk.value(scores), rel=1e-6)


def test_binary_pairs_of_one_query_are_the_area_under_the_roc_curve(rng):
    """As the scale grows the hinge of a pair is its score difference or nothing; at scale 0 every pair costs 1."""
    y, scores = np.repeat([1.0, 0.0], [30, 70]), rng.standard_normal(100)
    risk = PairwiseRisk(np.eye(100), y)
    assert risk.value(0.0 * scores) == pytest.approx(1.0)
    inverted = np.maximum(0.0, scores[None, y == 0] - scores[y == 1, None]).mean()
    assert risk.value(1e6 * scores) / 1e6 == pytest.approx(inverted, rel=1e-5)


def full_assignment(gains, discounts, scores):
    """The assignment of all documents to all places."""
    c = np.sort(gains)[::-1] / gains.max()
    discounts = np.append(discounts, np.zeros(gains.size))[: gains.size]
    worth = np.outer(c, scores) - np.outer(discounts, gains) / (np.sort(gains)[::-1] @ discounts)
    place, column = linear_sum_assignment(worth, maximize=True)
    return 1.0 + float(worth[place, column].sum())


@pytest.mark.parametrize("k", [1, 3, 10, 60])
@pytest.mark.parametrize("gains", [(0, 1, 2), (0, 0, 0, 1, 3, 7), (1, 2, 5), tuple(range(40))])
@pytest.mark.parametrize("scale", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("short", [0, 60])
def test_settled_documents_do_not_change_the_worst_ranking(k, gains, scale, short, monkeypatch):
    monkeypatch.setattr("undercut.risks.ranking.worst_ranking.SHORT", short)
    rng = np.random.default_rng([k, len(gains)])
    for _ in range(5):
        gain = rng.choice(gains, 60).astype(float)
        gain[:2] = 1.0, 2.0
        scores = scale * (rng.standard_normal(60) + 0.5 * gain).round(1)
        discounts = log_discount(np.arange(1.0, k + 1.0))
        weights, loss = PlaceAssignment(gain, discounts).worst(scores)
        np.testing.assert_allclose(np.sort(weights), np.sort(gain / gain.max()))
        assert loss + weights @ scores == pytest.approx(full_assignment(gain, discounts, scores), rel=1e-12)


def test_a_long_query_leaves_little_to_assign(monkeypatch, rng):
    """3000 documents of 4 gains, k = 10: less than 2k documents for each gain."""
    shapes = []

    def watched(worth, maximize):
        shapes.append(worth.shape)
        return linear_sum_assignment(worth, maximize=maximize)

    monkeypatch.setattr("undercut.risks.ranking.worst_ranking.linear_sum_assignment", watched)
    NdcgRisk(rng.standard_normal((3000, 3)), rng.integers(0, 4, 3000)).cut(np.ones(3))
    assert len(shapes) == 1
    assert max(shapes[0]) <= 2 * 10 * 4


@pytest.mark.parametrize("k", [1, 3, 10])
def test_bounds_the_loss_of_the_models_own_rankings(k, rng):
    X, y, qid = random_problem()
    w = 0.3 * rng.standard_normal(4)
    losses = [
        1.0 - ndcg_score([y[rows]], [X[rows] @ w], k=k) for rows in by_query(qid) if y[rows].any() and rows.size > 1
    ]
    assert NdcgRisk(X, y, qid, k=k).value(w) >= np.mean(losses)


@pytest.mark.parametrize("name", [name for name in RISKS if "listwise" not in name])
def test_is_zero_where_every_grade_beats_the_next_by_enough(name):
    y, qid = np.array([0.0, 2.0, 1.0, 0.0, 1.0, 0.0]), [1, 1, 1, 1, 2, 2]
    assert RISKS[name](y[:, None], y, qid).value(np.array([3.0])) == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("name", ["pairwise", "weighted pairwise", "listwise", "map", "ordinal"])
def test_many_irrelevant_documents_and_noise_do_not_make_the_constant_model_optimal(name, rng):
    """150 documents, 30 % relevant: the structured hinges are minimized by w = 0 here, and no other may be."""
    X, qid = rng.standard_normal((20 * 150, 5)), np.repeat(np.arange(20), 150)
    worth = X[:, 0] + 3.0 * rng.standard_normal(X.shape[0])
    y = (worth > np.quantile(worth, 0.7)) + 1.0 * (worth > np.quantile(worth, 0.86))
    result = minimize(RISKS[name](X, y, qid), L2(1e-3), stop=Stop(gap_rel=1e-2))
    assert result.w[0] > 5.0 * np.abs(result.w[1:]).max()
    assert result.objective < RISKS[name](X, y, qid).value(np.zeros(5)) - 2.0 * result.gap


def test_sample_weights_are_those_of_queries():
    X, y, qid = random_problem()
    weight = np.where(qid == qid[0], 2.0, 1.0)
    again = np.flatnonzero(qid == qid[0])
    twice = np.concatenate([np.arange(y.size), again])
    ids = np.concatenate([qid, np.full(again.size, qid.max() + 1)])
    for name in ("pairwise", "weighted pairwise", "listwise", "map"):
        weighted, repeated = RISKS[name](X, y, qid, sample_weight=weight), RISKS[name](X[twice], y[twice], ids)
        assert weighted.value(np.ones(4)) == pytest.approx(repeated.value(np.ones(4)), rel=1e-12)
    weight[again[0]] = 3.0
    with pytest.raises(DataError, match="equal for all documents of a query"):
        PairwiseRisk(X, y, qid, sample_weight=weight)
    with pytest.raises(DataError, match="positive in a query"):
        PairwiseRisk(X, y, qid, sample_weight=np.zeros(y.size))


def test_the_hessian_of_a_listwise_risk_is_that_of_finite_differences(rng):
    X, y, qid = random_problem()
    risk, w = ListwiseRisk(X, y, qid), rng.standard_normal(4)
    hessian = np.stack([risk.curvature(w).product(e) for e in np.eye(4)])
    steps = [(risk.cut(w + 1e-6 * e).a - risk.cut(w - 1e-6 * e).a) / 2e-6 for e in np.eye(4)]
    np.testing.assert_allclose(hessian, np.stack(steps), atol=1e-8)
    assert (risk.curvature(w).diagonal() >= np.diag(hessian) - 1e-12).all()


def test_documents_of_one_grade_may_have_any_scores():
    X = np.array([[5.0], [3.0], [9.0], [-4.0], [0.0], [-1.0]])
    y = [2, 1, 2, 0, 0, 0]
    for name in ("pairwise", "ndcg@2", "ndcg@10", "precision@3", "mrr"):
        assert RISKS[name](X, y).value(np.array([2.0])) == pytest.approx(0.0, abs=1e-14)


# --------------------------------------------------------------------------------------------------------- the optimum


def pairwise_program(X, y, qid, w):
    terms = []
    for rows in by_query(qid):
        pairs = [(i, j) for i in rows for j in rows if y[i] > y[j]]
        if pairs:
            upper, lower = np.array(pairs).T
            terms.append(cp.sum(cp.pos(1.0 - (X[upper] - X[lower]) @ w)) / len(pairs))
    return sum(terms) / len(terms)


def ndcg_program(X, y, qid, w):
    """All permutations of each query as linear constraints."""
    terms = []
    for rows in by_query(qid):
        if y[rows].any():
            gains = y[rows]
            c = np.sort(gains)[::-1] / gains.max()
            orders = [np.array(order) for order in permutations(range(rows.size))]
            planes = np.array([c @ X[rows][order] - gains @ X[rows] / gains.max() for order in orders])
            terms.append(cp.max(np.array([ndcg_loss(gains[order], 10) for order in orders]) + planes @ w))
    return sum(terms) / len(terms)


def threshold_weights(y, qid):
    """For each threshold the weights of the documents: equal queries, and both sides of the threshold half each."""
    share = np.zeros(y.size)
    for rows in by_query(qid):
        share[rows] = 1.0 / rows.size
    sides = [y > grade for grade in np.unique(y)[:-1]]
    return [np.where(above, 0.5 / share[above].sum(), 0.5 / share[~above].sum()) * share for above in sides]


def ordinal_program(X, y, qid, w):
    grades, weights = np.unique(y), threshold_weights(y, qid)
    b = cp.Variable(grades.size - 1)
    signs = [np.where(y > grade, 1.0, -1.0) for grade in grades[:-1]]
    return sum(weights[k] @ cp.pos(1.0 - cp.multiply(z, X @ w - b[k])) for k, z in enumerate(signs))


PROGRAMS = {
    PairwiseRisk: (pairwise_program, 60),
    NdcgRisk: (ndcg_program, 25),
    OrdinalRisk: (ordinal_program, 60),
}


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("lam", [1e-9, 1e-4, 0.05, 1e3])
@pytest.mark.parametrize("solver", ["auto", CuttingPlane(), ProximalBundle()])
def test_bounds_bracket_the_optimum_of_a_conic_solver(kind, lam, solver):
    program, n = PROGRAMS[kind]
    X, y, qid = random_problem(n=n, d=3, seed=1)
    w = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(0.5 * lam * cp.sum_squares(w) + program(X, y, qid, w)))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    optimum = 0.5 * lam * float(w.value @ w.value) + kind(X, y, qid).value(w.value)
    result = minimize(kind(X, y, qid), L2(lam), solver, stop=Stop(gap_rel=1e-6, max_steps=2000))
    assert result.lower_bound <= optimum * (1.0 + 1e-7)
    assert result.objective >= problem.value * (1.0 - 1e-6)
    assert result.objective <= optimum * (1.0 + 2e-6)


def test_thresholds_are_those_of_the_conic_solver_up_to_ties():
    X, y, qid = random_problem(n_grades=5)
    risk, weights = OrdinalRisk(X, y, qid), threshold_weights(*random_problem(n_grades=5)[1:])
    for w in (np.zeros(4), np.ones(4), minimize(risk, L2(1e-3)).w):
        thresholds = risk.thresholds(w)
        signs = np.where(y[:, None] > np.unique(y)[:-1], 1.0, -1.0)
        hinges = np.maximum(0.0, 1.0 - signs * ((X @ w)[:, None] - thresholds))
        assert float((np.stack(weights, axis=1) * hinges).sum()) == pytest.approx(risk.value(w), rel=1e-12)


def test_ordinal_regression_with_two_grades_is_a_balanced_support_vector_machine(rng):
    X, y = rng.standard_normal((50, 3)), np.where(rng.random(50) < 0.3, 4.0, 2.0)
    balanced = np.where(y == 4.0, 1.0 / np.sum(y == 4.0), 1.0 / np.sum(y != 4.0))
    binary = LinearRisk(X, np.where(y == 4.0, 1.0, -1.0), Hinge(), sample_weight=balanced, fit_intercept=True)
    for w in rng.standard_normal((5, 3)):
        assert OrdinalRisk(X, y).value(w) == pytest.approx(binary.value(w), rel=1e-12)
        assert OrdinalRisk(X, y).thresholds(w) == pytest.approx([-binary.intercept(w)])


# ---------------------------------------------------------------------------------------------------- what comes along


@pytest.mark.parametrize("name", RISKS)
def test_the_order_of_the_rows_does_not_matter(name, rng):
    X, y, qid = random_problem()
    order, w = rng.permutation(60), rng.standard_normal(4)
    one, other = RISKS[name](X, y, qid).cut(w), RISKS[name](X[order], y[order], qid[order]).cut(w)
    assert one.value == pytest.approx(other.value, rel=1e-12)
    np.testing.assert_allclose(one.a, other.a, atol=1e-12)


@pytest.mark.parametrize("name", RISKS)
@pytest.mark.parametrize("convert", [list, lambda q: q.astype(str), lambda q: q - 10**15, lambda q: q + 0.5])
def test_ids_may_be_of_any_sortable_kind(name, convert, rng):
    X, y, qid = random_problem()
    w = rng.standard_normal(4)
    assert RISKS[name](X, y, convert(qid)).value(w) == pytest.approx(RISKS[name](X, y, qid).value(w), rel=1e-12)


@pytest.mark.parametrize("name", RISKS)
def test_without_ids_there_is_one_query(name, rng):
    X, y, _ = random_problem()
    w = rng.standard_normal(4)
    assert RISKS[name](X, y).value(w) == RISKS[name](X, y, np.full(60, 7)).value(w)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "extra",
    [([0.0], [98]), ([0.0, 0.0, 0.0], [98, 98, 98])],
    ids=["one document", "no relevant document"],
)
def test_queries_without_anything_to_rank_contribute_nothing(name, extra, rng):
    X, y, qid = random_problem()
    w = rng.standard_normal(4)
    longer = np.vstack([X, rng.standard_normal((len(extra[0]), 4))]), np.append(y, extra[0]), np.append(qid, extra[1])
    assert RISKS[name](*longer).value(w) == pytest.approx(RISKS[name](X, y, qid).value(w), rel=1e-12)


@pytest.mark.parametrize("name", STRUCTURED)
def test_a_query_of_relevant_documents_only_counts_as_ranked(name, rng):
    X, y, qid = random_problem()
    w = rng.standard_normal(4)
    before, n = RISKS[name](X, y, qid).value(w), sum(y[rows].any() for rows in by_query(qid))
    after = RISKS[name](np.vstack([X, X[:3]]), np.append(y, [1.0, 1.0, 1.0]), np.append(qid, [98] * 3)).value(w)
    assert after == pytest.approx(before * n / (n + 1), rel=1e-12)


def test_pairs_know_negative_grades(rng):
    X, y, qid = random_problem()
    w = rng.standard_normal(4)
    assert PairwiseRisk(X, y - 5.0, qid).value(w) == PairwiseRisk(X, y, qid).value(w)


@pytest.mark.parametrize("name", RISKS)
def test_zero_rows_and_constant_scores_are_nothing_special(name):
    X, y, qid = random_problem()
    risk = RISKS[name](np.zeros_like(X), y, qid)
    result = minimize(risk, L2(0.1))
    assert result.status.name == "CONVERGED"
    assert result.objective == pytest.approx(risk.value(np.ones(4)))


@pytest.mark.parametrize("name", RISKS)
def test_scores_that_overflow_are_infinitely_bad(name):
    X, y, qid = random_problem()
    scores = np.where(X[:, 0] > 0.0, 1.7e308, -1.7e308)
    assert not math.isfinite(RISKS[name](X, y, qid).phi.evaluate(scores).value)


# ----------------------------------------------------------------------------------------------------------- bad input


X3 = np.eye(3)


@pytest.mark.parametrize("name", RISKS)
@pytest.mark.parametrize(
    ("y", "qid", "rule"),
    [
        ([1, 0], None, r"y must have one relevance per row of X, and at least one; got shape \(2,\) for 3 rows"),
        ([1, 0, np.nan], None, "y must be finite; it is nan at row 2"),
        ([1, np.inf, 0], None, "y must be finite; it is inf at row 1"),
        (["a", "b", "c"], None, "y must hold real numbers; got dtype <U1"),
        ([1, 0, 0], [1, 1], r"qid must have one query id per row of X, shape \(3,\); got shape \(2,\)"),
        ([1, 0, 0], [1.0, np.nan, 1.0], "qid must not be missing; it is NaN at row 1"),
        ([1, 0, 0], np.array([1, np.nan, 1], object), "qid must not be missing; it is NaN at row 1"),
        ([1, 0, 0], [1, None, "a"], "qid must hold ids of one kind, integers or strings"),
    ],
)
def test_bad_documents_are_refused(name, y, qid, rule):
    with pytest.raises(DataError, match=rule):
        RISKS[name](X3, y, qid)


@pytest.mark.parametrize("name", RISKS)
def test_no_documents_are_refused(name):
    with pytest.raises(DataError, match="at least one"):
        RISKS[name](np.zeros((0, 2)), np.zeros(0))


@pytest.mark.parametrize("name", STRUCTURED)
def test_negative_relevances_are_refused_where_they_have_no_meaning(name):
    with pytest.raises(DataError, match="a relevance must not be negative; got -1: shift the grades"):
        RISKS[name](X3, [1, 0, -1])


@pytest.mark.parametrize(
    ("name", "y", "qid", "rule"),
    [
        ("pairwise", [1, 1, 1], None, "documents of at least 2 grades to be ranked; got 3 documents in 1 queries"),
        ("pairwise", [0, 1, 2], [1, 2, 3], "documents of at least 2 grades to be ranked; got 3 documents in 3 queries"),
        ("ordinal", [1, 1, 1], None, "at least 2 grades; got only 1"),
        *[(name, [0, 0, 0], [1, 1, 2], "a query must have a relevant document to be ranked") for name in STRUCTURED],
    ],
)
def test_nothing_to_rank_at_all_is_refused(name, y, qid, rule):
    with pytest.raises(DataError, match=rule):
        RISKS[name](X3, y, qid)


@pytest.mark.parametrize("kind", [NdcgRisk, PrecisionAtRisk])
def test_a_list_has_at_least_one_place(kind):
    with pytest.raises(ParameterError, match="`k` must be at least 1; got 0"):
        kind(X3, [1, 0, 0], k=0)


@pytest.mark.parametrize("gain", [lambda y: y - 1, lambda y: y[:2], lambda y: y * np.nan, lambda y: 10.0 ** (400 * y)])
def test_gains_outside_the_domain_are_refused(gain):
    with pytest.raises(DataError, match="gain must map relevances of shape"):
        NdcgRisk(X3, [1, 0, 0], gain=gain)


@pytest.mark.parametrize(
    "discount", [lambda p: p, lambda p: -1.0 / p, lambda p: 0.0 * p, lambda p: 1.0, lambda p: p / 0]
)
def test_discounts_outside_the_domain_are_refused(discount):
    with np.errstate(divide="ignore"), pytest.raises(DataError, match=r"discount must map the places 1 \.\.\. 3"):
        NdcgRisk(X3, [1, 0, 0], discount=discount)


def test_nothing_given_is_modified(rng):
    for name in RISKS:
        X, y, qid = random_problem()
        before = X.copy(), y.copy(), qid.copy()
        RISKS[name](X, y, qid).cut(rng.standard_normal(4))
        for one, other in zip(before, (X, y, qid), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", RISKS)
def test_memory_is_linear_in_the_documents_however_many_pairs_there_are(name, rng):
    n = 40_000  # a pair list would have 5e8 entries; a vector of scores takes 320 KB
    X = sp.csr_array((np.ones(n), (np.arange(n), rng.integers(0, 5, n))), (n, 5))
    y = rng.integers(0, 4, n)
    tracemalloc.start()
    RISKS[name](X, y).cut(rng.standard_normal(5))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * 8 * n
