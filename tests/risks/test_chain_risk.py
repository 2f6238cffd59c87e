"""Chains against brute force over all labelings, and far beyond what brute force can do."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st
from scipy.special import logsumexp, softmax

from undercut import L2, ChainRisk, CuttingPlane, Lbfgs, LineSearchBundle, NonconvexBundle, Stop, minimize
from undercut.contracts import BatchedRisk, LineRisk
from undercut.errors import DataError, ParameterError
from undercut.maps.chains import BLOCK_TOKENS, Chains
from undercut.risks import CRF, M3N
from undercut.testing import check_risk

LABEL_LOSS = ((0.0, 2.0, 0.5), (1.0, 0.0, 3.0), (0.0, 1.5, 0.0))
LOSSES = {"m3n": M3N(), "m3n with costs": M3N(LABEL_LOSS), "crf": CRF()}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@dataclass
class Case:
    """A few short sequences over three labels."""

    lengths: tuple[int, ...]
    seed: int = 0
    d: int = 2
    K: int = 3
    scale: float = 1.0
    extras: dict[str, bool] = field(default_factory=lambda: {"start": True, "end": True, "bias": True})

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        self.X = [rng.integers(-2, 3, (n, self.d)).astype(float) for n in self.lengths]
        self.y = [rng.integers(0, self.K, n) for n in self.lengths]
        self.weight = rng.random(len(self.lengths)) + 0.1
        self.shares = self.weight / self.weight.sum()

    def risk(self, loss):
        return ChainRisk(self.X, self.y, loss, sample_weight=self.weight, n_labels=self.K, **self.extras)

    def w(self, risk):
        rng = np.random.default_rng(self.seed + 1)
        return self.scale * rng.integers(-3, 4, risk.n_params).astype(float)


def labelings(n, K):
    return [np.array(p) for p in itertools.product(range(K), repeat=n)]


def score(weights, X, p):
    """The score of a labeling, by its formula."""
    total = weights.start[p[0]] + weights.end[p[-1]]
    total += sum(weights.emissions[k] @ x + weights.bias[k] for k, x in zip(p, X, strict=True))
    return total + sum(weights.transitions[a, b] for a, b in itertools.pairwise(p))


def joint_feature(risk, X, p):
    """The derivative of a labeling's score in w."""
    return np.array([score(risk.unpack(e), X, p) for e in np.eye(risk.n_params)])


def label_loss_of(loss, y, p, K):
    table = loss.table(K)
    return sum(table[a, b] for a, b in zip(y, p, strict=True))


def brute_force_value(case, risk, w):
    weights, total = risk.unpack(w), 0.0
    for X, y, share in zip(case.X, case.y, case.shares, strict=True):
        scores = np.array([score(weights, X, p) for p in labelings(len(X), case.K)])
        true = score(weights, X, y)
        if isinstance(risk.loss, CRF):
            total += share * (logsumexp(scores) - true)
        else:
            losses = [label_loss_of(risk.loss, y, p, case.K) for p in labelings(len(X), case.K)]
            total += share * max(scores + np.array(losses) - true)
    return total


cases = st.builds(
    Case,
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple),
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([0.0, 0.1, 1.0, 30.0, 1e4]),
    extras=st.fixed_dictionaries({name: st.booleans() for name in ("start", "end", "bias")}),
)


@given(case=cases, loss=st.sampled_from(list(LOSSES.values())))
def test_values_are_those_of_all_labelings(case, loss):
    risk = case.risk(loss)
    w = case.w(risk)
    np.testing.assert_allclose(risk.value(w), brute_force_value(case, risk, w), rtol=1e-9, atol=1e-9)


@given(case=cases)
def test_the_gradient_of_a_crf_is_the_expected_joint_feature_less_the_true_one(case):
    risk = case.risk(CRF())
    w = case.w(risk)
    weights, expected = risk.unpack(w), np.zeros(risk.n_params)
    for X, y, share in zip(case.X, case.y, case.shares, strict=True):
        paths = labelings(len(X), case.K)
        probability = softmax([score(weights, X, p) for p in paths])
        expected += share * sum(q * joint_feature(risk, X, p) for q, p in zip(probability, paths, strict=True))
        expected -= share * joint_feature(risk, X, y)
    np.testing.assert_allclose(risk.cut(w).a, expected, rtol=1e-8, atol=1e-8)


@given(case=cases, loss=st.sampled_from([LOSSES["m3n"], LOSSES["m3n with costs"]]))
def test_the_subgradient_of_an_m3n_is_that_of_a_maximizing_labeling(case, loss):
    """With one sequence at a time there is nothing to mix it with."""
    for s, (X, y) in enumerate(zip(case.X, case.y, strict=True)):
        risk = case.risk(loss).batch(np.array([s]))
        share = case.shares[s] * len(case.X)
        w = case.w(risk)
        weights, cut = risk.unpack(w), risk.cut(w)
        paths = labelings(len(X), case.K)
        values = np.array([score(weights, X, p) + label_loss_of(loss, y, p, case.K) for p in paths])
        best = [p for p, value in zip(paths, values, strict=True) if value >= values.max() - 1e-9 * abs(values).max()]
        true = joint_feature(risk, X, y)
        assert any(np.allclose(cut.a, share * (joint_feature(risk, X, p) - true), atol=1e-9) for p in best)


@given(case=cases)
def test_decoding_finds_the_labeling_of_the_highest_score(case):
    risk = case.risk(CRF())
    w = case.w(risk)
    weights, found = risk.unpack(w), np.split(risk.decode(w), np.cumsum(case.lengths)[:-1])
    for X, p in zip(case.X, found, strict=True):
        scores = np.array([score(weights, X, q) for q in labelings(len(X), case.K)])
        assert score(weights, X, p) >= scores.max() - 1e-9 * (1.0 + abs(scores).max())


@given(case=cases)
def test_marginals_are_sums_over_labelings(case):
    risk = case.risk(CRF())
    w = case.w(risk)
    weights, found = risk.unpack(w), np.split(risk.marginals(w), np.cumsum(case.lengths)[:-1])
    for X, marginals in zip(case.X, found, strict=True):
        paths = labelings(len(X), case.K)
        probability = softmax([score(weights, X, p) for p in paths])
        expected = np.zeros((len(X), case.K))
        for q, p in zip(probability, paths, strict=True):
            expected[np.arange(len(X)), p] += q
        np.testing.assert_allclose(marginals, expected, atol=1e-8)


@every_loss
@pytest.mark.parametrize("scale", [0.3, 100.0, 1e4])
@pytest.mark.parametrize("extras", [{}, {"start": True, "end": True, "bias": True}], ids=["plain", "all"])
def test_it_is_a_convex_risk_with_a_line(loss, scale, extras):
    risk = Case((3, 1, 5, 2), extras=extras).risk(loss)
    assert isinstance(risk, LineRisk)
    assert isinstance(risk, BatchedRisk)
    check_risk(risk, scale=scale)


@every_loss
@given(seed=st.integers(0, 1000))
def test_sparse_and_narrow_rows_give_the_same_planes(loss, seed):
    case = Case((3, 1, 4), seed=seed, d=5)
    w = case.w(case.risk(loss))
    expected = case.risk(loss).cut(w)
    stacked, lengths, y = np.concatenate(case.X), list(case.lengths), np.concatenate(case.y)
    wide = sp.csr_array(stacked)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for X in (
        stacked,
        stacked.astype(np.float32),
        stacked.astype(int),
        sp.csr_matrix(stacked),
        sp.coo_array(stacked),
        wide,
    ):
        cut = ChainRisk(X, y, loss, lengths, case.weight, n_labels=case.K, **case.extras).cut(w)
        np.testing.assert_allclose(cut.a, expected.a, atol=1e-12)
        assert cut.value == pytest.approx(expected.value, rel=1e-12)
    lists = ChainRisk(
        [sp.csr_array(X) for X in case.X], case.y, loss, None, case.weight, n_labels=case.K, **case.extras
    )
    np.testing.assert_allclose(lists.cut(w).a, expected.a, atol=1e-12)


@every_loss
def test_a_token_without_features_is_scored_by_its_neighbours(loss):
    X = sp.csr_array(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]))
    check_risk(ChainRisk(X, [0, 1, 2], loss, lengths=[3]))


@every_loss
def test_constant_scores_leave_every_labeling_as_good(loss):
    case = Case((4, 2))
    risk = case.risk(loss)
    zero = np.zeros(risk.n_params)
    assert risk.value(zero) == pytest.approx(brute_force_value(case, risk, zero))
    np.testing.assert_allclose(risk.marginals(zero), 1.0 / 3.0)


def test_a_single_label_leaves_no_loss():
    for loss in (M3N(), CRF()):
        risk = ChainRisk([np.ones((3, 2))], [[0, 0, 0]], loss)
        assert risk.value(np.ones(risk.n_params)) == 0.0
        assert not risk.cut(np.ones(risk.n_params)).a.any()


def test_a_chain_of_one_token_is_multiclass_classification():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 3)), rng.integers(0, 4, 20)
    risk = ChainRisk(X, y, CRF(), lengths=np.ones(20, int), n_labels=4)
    w = rng.standard_normal(risk.n_params)
    scores = X @ risk.unpack(w).emissions.T
    expected = np.mean(logsumexp(scores, axis=1) - scores[np.arange(20), y])
    assert risk.value(w) == pytest.approx(expected)


@every_loss
def test_many_blocks_add_up_to_the_mean_over_sequences(loss):
    case = Case((7, 3, 11) * (BLOCK_TOKENS // 8))
    risk = case.risk(loss)
    assert len(risk.design.chains.blocks) > 2
    w = 0.3 * case.w(risk)
    some = [case.risk(loss).batch(np.array([s])) for s in range(0, risk.n_samples, 97)]
    batch = risk.batch(np.arange(0, risk.n_samples, 97))
    assert batch.value(w) == pytest.approx(np.mean([one.value(w) for one in some]), rel=1e-12)
    halves = [risk.batch(half) for half in np.array_split(np.arange(risk.n_samples), 2)]
    sizes = np.array([half.n_samples for half in halves]) / risk.n_samples
    assert risk.value(w) == pytest.approx(sizes @ [half.value(w) for half in halves], rel=1e-12)
    np.testing.assert_allclose(risk.cut(w).a, sizes @ [half.cut(w).a for half in halves], atol=1e-10)


def test_blocks_cover_every_sequence_once_and_depend_on_lengths_alone():
    lengths = np.array([BLOCK_TOKENS * 3, 1, 1, BLOCK_TOKENS - 2, 5, BLOCK_TOKENS])
    blocks = Chains(lengths, 2).blocks
    assert [s for first, last in blocks for s in range(first, last)] == list(range(lengths.size))


@every_loss
def test_a_sequence_without_weight_does_not_count_however_large(loss):
    X = [np.ones((2, 1)), np.full((2, 1), 1e300)]
    risk = ChainRisk(X, [[0, 1], [2, 1]], loss, sample_weight=[1.0, 0.0])
    alone = ChainRisk(X[:1], [[0, 1]], loss, n_labels=3)
    w = np.linspace(-30.0, 30.0, risk.n_params)
    assert risk.value(w) == pytest.approx(alone.value(w))
    np.testing.assert_allclose(risk.cut(w).a, alone.cut(w).a)


@every_loss
def test_scores_that_overflow_are_infinite(loss):
    risk = ChainRisk([np.full((2, 1), 1e308)], [[0, 1]], loss, n_labels=3)
    w = np.linspace(-30.0, 30.0, risk.n_params)
    assert risk.value(w) == np.inf


class TestLongChains:
    """10,000 tokens with scores up to 1e4."""

    @pytest.fixture(params=[1.0, 100.0, 1e4], ids="scores of {}".format)
    def long(self, request):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((10_000, 3)), rng.integers(0, 4, 10_000)
        return ChainRisk([X], [y], CRF(), start=True, end=True), request.param * rng.uniform(-1.0, 1.0, 36)

    def test_probabilities_sum_to_one(self, long):
        risk, w = long
        marginals = risk.marginals(w)
        np.testing.assert_allclose(marginals.sum(axis=1), 1.0, atol=1e-10)
        assert marginals.min() >= 0.0

    def test_the_value_is_that_of_a_recursion_in_logarithms(self, long):
        risk, w = long
        parts = risk.design.chains.split(risk.design.matvec(w))
        forward = parts.start + parts.emissions[0]
        for row in parts.emissions[1:]:
            forward = logsumexp(forward[:, None] + parts.transitions, axis=0) + row
        y, at = risk.y, np.arange(risk.y.size)
        true = parts.start[y[0]] + parts.end[y[-1]] + parts.emissions[at, y].sum()
        true += parts.transitions[y[:-1], y[1:]].sum()
        assert risk.value(w) == pytest.approx(logsumexp(forward + parts.end) - true, rel=1e-11)

    def test_the_plane_touches_and_expected_transitions_add_up(self, long):
        risk, w = long
        cut, slopes = risk.cut(w), risk.design.chains.split(risk.phi.evaluate(risk.design.matvec(w)).slopes)
        assert cut.a @ w + cut.b == pytest.approx(cut.value, rel=1e-9)
        assert abs(slopes.transitions.sum()) < 1e-6
        np.testing.assert_allclose(slopes.transitions.sum(axis=1), slopes.emissions[:-1].sum(axis=0), atol=1e-6)

    def test_the_margin_is_attained_and_no_random_labeling_beats_it(self, long):
        crf, w = long
        X, y = crf.design.emissions.features.X, crf.y
        risk = ChainRisk([X], [y], M3N(), start=True, end=True)
        assert risk.value(w) <= crf.value(w) + y.size + 1e-6 * crf.value(w)
        assert risk.value(w) >= crf.value(w) - y.size * np.log(4.0)
        rng, parts = np.random.default_rng(1), risk.design.chains.split(risk.design.matvec(w))

        def total(p):
            ends = parts.start[p[0]] + parts.end[p[-1]] + parts.transitions[p[:-1], p[1:]].sum()
            return ends + parts.emissions[np.arange(y.size), p].sum() + (p != y).sum()

        for _ in range(20):
            assert risk.value(w) >= total(rng.integers(0, 4, y.size)) - total(y)


def test_forbidden_transitions_are_no_trouble():
    """Transitions far below all others: exponentials would vanish, and with them the only way through."""
    A = np.full((3, 3), -1e4)
    A[0, 1] = A[1, 2] = A[2, 0] = 0.0
    risk = ChainRisk([np.zeros((7, 1))], [[0, 1, 2, 0, 1, 2, 0]], CRF())
    w = np.concatenate([np.zeros(3), A.reshape(-1)])
    np.testing.assert_allclose(risk.marginals(w), 1.0 / 3.0, atol=1e-10)
    assert risk.value(w) == pytest.approx(np.log(3.0))


@pytest.mark.parametrize("spread", [490.0, 499.9, 500.1, 520.0])
def test_exponentials_and_logarithms_agree_where_one_gives_way_to_the_other(spread):
    rng = np.random.default_rng(0)
    risk = ChainRisk([rng.standard_normal((30, 4))], [rng.integers(0, 4, 30)], CRF())
    w = rng.uniform(-1.0, 1.0, risk.n_params)
    parts = risk.design.chains.split(risk.design.matvec(w))
    size = np.ptp(parts.transitions) + np.ptp(parts.emissions, axis=1).max()
    below, at = w * (490.0 / size), w * (spread / size)
    assert (risk.value(at) / spread) == pytest.approx(risk.value(below) / 490.0, rel=1e-2)
    check_risk_at(risk, at)


def check_risk_at(risk, w):
    cut, step = risk.cut(w), 1e-6
    for direction in np.random.default_rng(1).standard_normal((5, w.size)):
        change = (risk.value(w + step * direction) - risk.value(w - step * direction)) / (2.0 * step)
        assert cut.a @ direction == pytest.approx(change, rel=1e-4, abs=1e-4)


@every_loss
@pytest.mark.parametrize("lam", [1e-4, 0.1, 1e3])
@pytest.mark.parametrize(
    "solver",
    [NonconvexBundle(line_search="greedy"), LineSearchBundle(), CuttingPlane()],
    ids=lambda s: type(s).__name__,
)
def test_bounds_bracket_one_optimum_whatever_the_solver(loss, lam, solver):
    risk = Case((3, 2, 4, 3, 2)).risk(loss)
    reference = minimize(risk, L2(lam), LineSearchBundle(), stop=Stop(gap_rel=1e-7))
    result = minimize(risk, L2(lam), solver, stop=Stop(gap_rel=1e-4))
    assert result.certificate == "global"
    assert result.gap <= 1e-4 * result.objective
    assert result.lower_bound <= reference.objective * (1.0 + 1e-12)
    assert reference.lower_bound <= result.objective * (1.0 + 1e-12)


def test_quasi_newton_steps_agree_on_a_crf():
    risk = Case((3, 2, 4, 3, 2)).risk(CRF())
    exact = minimize(risk, L2(0.01), Lbfgs(), stop=Stop(gap_rel=1e-8))
    assert minimize(risk, L2(0.01), stop=Stop(gap_rel=1e-6)).objective == pytest.approx(exact.objective, rel=2e-6)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("lam", [0.01, 0.1])
def test_optima_are_those_of_a_conic_solver_over_all_labelings(name, lam):
    case = Case((3, 2, 1, 3), seed=3)
    risk = case.risk(LOSSES[name])
    w, losses = cp.Variable(risk.n_params), []
    for X, y, share in zip(case.X, case.y, case.shares, strict=True):
        paths = labelings(len(X), case.K)
        Psi = np.array([joint_feature(risk, X, p) for p in paths]) - joint_feature(risk, X, y)
        if name == "crf":
            losses.append(share * cp.log_sum_exp(Psi @ w))
        else:
            margins = np.array([label_loss_of(risk.loss, y, p, case.K) for p in paths])
            losses.append(share * cp.max(Psi @ w + margins))
    problem = cp.Problem(cp.Minimize(0.5 * lam * cp.sum_squares(w) + sum(losses)))
    problem.solve(solver=cp.CLARABEL)
    result = minimize(risk, L2(lam), NonconvexBundle(line_search="greedy"), stop=Stop(gap_rel=1e-7))
    assert result.objective == pytest.approx(problem.value, rel=1e-6)


class TestBorder:
    def test_labels_are_numbers_from_zero(self):
        with pytest.raises(DataError, match="labels 0, 1"):
            ChainRisk([np.ones((2, 1))], [["a", "b"]], CRF())
        with pytest.raises(DataError, match="labels 0, 1"):
            ChainRisk([np.ones((2, 1))], [[0, -1]], CRF())

    def test_fewer_labels_than_occur_are_refused(self):
        with pytest.raises(DataError, match=r"`n_labels` must exceed every label in y; got 2 and a label 3"):
            ChainRisk([np.ones((2, 1))], [[0, 3]], CRF(), n_labels=2)

    @pytest.mark.parametrize("table", [((0.0, 1.0),), ((1.0, 1.0), (1.0, 0.0)), ((0.0, -1.0), (1.0, 0.0))])
    def test_a_label_loss_is_square_non_negative_and_zero_where_right(self, table):
        with pytest.raises(ParameterError, match="label_loss"):
            M3N(table)

    def test_a_label_loss_has_a_row_per_label(self):
        with pytest.raises(ParameterError, match=r"one row for each of 3 labels; got 2"):
            ChainRisk([np.ones((2, 1))], [[0, 2]], M3N(1.0 - np.eye(2)))

    def test_losses_compare_by_what_they_are(self):
        assert M3N(np.array(LABEL_LOSS)) == M3N(LABEL_LOSS) != M3N()
        assert CRF() == CRF()
