"""Chains with weights for the pairs that occur only: the risk of all pairs where the other weights are zero."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st

from undercut import (
    L2,
    ChainRisk,
    Lbfgs,
    LineSearchBundle,
    NonconvexBundle,
    SequenceLabeler,
    Stop,
    load_model,
    minimize,
    save_model,
)
from undercut.errors import ParameterError
from undercut.maps.chains import ChainWeights
from undercut.risks import CRF, M3N
from undercut.testing import check_risk

LOSSES = {"m3n": M3N(), "crf": CRF()}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
OPTIONS = {"start": True, "end": True, "bias": True, "n_labels": 4}


def words(lengths=(3, 1, 4, 2), d=8, seed=0):
    """Tokens with a few of d features each; the label 3 never occurs."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    X = rng.integers(1, 4, (n, d)) * (rng.random((n, d)) < 0.3)
    return sp.csr_array(X.astype(float)), rng.integers(0, 3, n), list(lengths)


def risks(loss, data, **options):
    X, y, lengths = data
    return tuple(ChainRisk(X, y, loss, lengths, pairs=pairs, **OPTIONS | options) for pairs in ("seen", "all"))


def expanded(seen, full, w):
    """The weights of all pairs: zero where a pair has none."""
    return full.design.pack(seen.unpack(w))


def restricted(seen, full, w):
    return seen.design.pack(full.unpack(w))


def test_the_weights_are_those_of_pairs_that_occur():
    X = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0], [5.0, 0.0]])
    risk = ChainRisk(X, [0, 1, 2, 2], CRF(), [3, 1], pairs="seen", start=True, end=True, bias=True)
    has = risk.unpack(np.ones(risk.n_params))
    np.testing.assert_array_equal(has.emissions, [[1, 0], [0, 1], [1, 0]])
    np.testing.assert_array_equal(has.transitions, [[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal([has.start, has.end, has.bias], [[1, 0, 1], [0, 0, 1], [1, 1, 1]])
    assert risk.n_params == 3 + 2 + 2 + 1 + 3


@given(seed=st.integers(0, 10_000), loss=st.sampled_from(list(LOSSES.values())), scale=st.sampled_from([0.0, 1.0, 1e3]))
def test_values_and_planes_are_those_of_all_pairs_with_zeros(seed, loss, scale):
    seen, full = risks(loss, words(seed=seed))
    w = scale * np.random.default_rng(seed).standard_normal(seen.n_params)
    cut, whole = seen.cut(w), full.cut(expanded(seen, full, w))
    assert cut.value == pytest.approx(whole.value, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(cut.a, restricted(seen, full, whole.a), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(restricted(seen, full, expanded(seen, full, w)), w)


@given(seed=st.integers(0, 1000))
def test_the_map_and_its_transpose_agree(seed):
    design = risks(CRF(), words(seed=seed))[0].design
    rng = np.random.default_rng(seed)
    w, g = rng.standard_normal(design.shape[1]), rng.standard_normal(design.shape[0])
    assert g @ design.matvec(w) == pytest.approx(design.rmatvec(g) @ w)


@every_loss
@pytest.mark.parametrize("scale", [0.3, 100.0])
def test_it_is_a_convex_risk_with_a_line(loss, scale):
    check_risk(risks(loss, words())[0], scale=scale)


@every_loss
@pytest.mark.parametrize("solver", [NonconvexBundle(line_search="single"), LineSearchBundle()], ids=str)
def test_fewer_weights_cannot_do_better(loss, solver):
    seen, full = (minimize(risk, L2(1e-2), solver, stop=Stop(gap_rel=1e-6)) for risk in risks(loss, words((5,) * 20)))
    assert seen.objective > full.lower_bound
    assert seen.lower_bound > full.objective  # and do worse where pairs that never occur could be told so


@every_loss
def test_the_optimum_is_that_of_all_pairs_under_a_penalty_that_forbids_the_others(loss):
    seen, full = risks(loss, words())
    has = expanded(seen, full, np.ones(seen.n_params)) > 0.0
    forbidding = L2(0.1, weights=np.where(has, 1.0, 1e4))
    a, b = (minimize(risk, reg, stop=Stop(gap_rel=1e-7)) for risk, reg in ((seen, L2(0.1)), (full, forbidding)))
    assert a.objective == pytest.approx(b.objective, rel=1e-5)


@every_loss
def test_batches_have_the_same_weights_and_add_up(loss):
    risk = risks(loss, words())[0]
    w = np.random.default_rng(0).standard_normal(risk.n_params)
    parts = [risk.batch(np.array([s])) for s in range(risk.n_samples)]
    assert {part.n_params for part in parts} == {risk.n_params}
    assert np.mean([part.value(w) for part in parts]) == pytest.approx(risk.value(w))
    np.testing.assert_allclose(np.mean([part.cut(w).a for part in parts], axis=0), risk.cut(w).a, atol=1e-12)


@every_loss
def test_every_form_of_the_features_has_the_same_pairs(loss):
    X, y, lengths = words()
    stored_zero = X.copy()
    stored_zero.data[0] = 0.0
    wide = sp.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape)
    cuts = []
    for form in (X, X.toarray(), X.toarray().astype(np.float32), X.astype(int), X.tocoo(), wide):
        risk = ChainRisk(form, y, loss, lengths, pairs="seen", **OPTIONS)
        cuts.append(risk.cut(np.linspace(-1.0, 1.0, risk.n_params)))
        np.testing.assert_allclose(cuts[-1].a, cuts[0].a, atol=1e-12)
    plain = ChainRisk(stored_zero.toarray(), y, loss, lengths, pairs="seen", **OPTIONS)
    assert ChainRisk(stored_zero, y, loss, lengths, pairs="seen", **OPTIONS).n_params == plain.n_params


def test_a_sequence_without_weight_has_no_pairs():
    X, y, lengths = words()
    weighted = ChainRisk(X, y, CRF(), lengths, [1.0, 0.0, 1.0, 0.0], pairs="seen", **OPTIONS)
    kept = np.r_[0:3, 4:8]
    alone = ChainRisk(X[kept], y[kept], CRF(), [3, 4], pairs="seen", **OPTIONS)
    w = np.linspace(-1.0, 1.0, alone.n_params)
    assert weighted.n_params == w.size
    assert weighted.value(w) == pytest.approx(alone.value(w))


def test_many_tokens_in_threads_are_the_same_as_in_one():
    seen, full = risks(CRF(), words((7, 3, 11) * 200, d=30))
    w = np.random.default_rng(0).standard_normal(seen.n_params)
    whole = full.cut(expanded(seen, full, w))
    np.testing.assert_allclose(seen.cut(w).a, restricted(seen, full, whole.a), atol=1e-12)


def test_tokens_without_features_leave_the_chain():
    X, y, lengths = words()
    risk = ChainRisk(sp.csr_array(X.shape), y, CRF(), lengths, pairs="seen")
    assert not risk.unpack(np.ones(risk.n_params)).emissions.any()
    check_risk(risk)


def test_other_pairs_are_refused():
    X, y, lengths = words()
    with pytest.raises(ParameterError, match="`pairs` is 'all' or 'seen'; got 'some'"):
        ChainRisk(X, y, CRF(), lengths, pairs="some")


class TestBesideCRFsuite:
    """Its model has the same weights: its log-likelihood, marginals and optimum are ours."""

    C2 = 0.05

    @pytest.fixture
    def data(self):
        return words((4, 1, 3, 6, 2, 5) * 6, d=12, seed=3)

    @pytest.fixture
    def tagger(self, data, tmp_path):
        pycrfsuite = pytest.importorskip("pycrfsuite")
        trainer = pycrfsuite.Trainer(verbose=False)
        for items, labels in zip(self.items(data), self.labels(data), strict=True):
            trainer.append(items, labels)
        trainer.set_params({"c1": 0.0, "c2": self.C2, "epsilon": 1e-9, "delta": 1e-12, "max_iterations": 2000})
        path = str(tmp_path / "model")
        trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        return tagger

    @staticmethod
    def items(data):
        """The features of each token by name, with their values, and marks at both ends of a sequence."""
        X, _, lengths = data
        tokens = [{str(j): x for j, x in enumerate(row) if x} for row in X.toarray().tolist()]
        for end, length in zip(np.cumsum(lengths), lengths, strict=True):
            tokens[end - length]["first"] = tokens[end - 1]["last"] = 1.0
        return [tokens[end - n : end] for end, n in zip(np.cumsum(lengths), lengths, strict=True)]

    @staticmethod
    def labels(data):
        return [part.astype(str).tolist() for part in np.split(data[1], np.cumsum(data[2])[:-1])]

    @pytest.fixture
    def risk(self, data):
        X, y, lengths = data
        return ChainRisk(X, y, CRF(), lengths, pairs="seen", start=True, end=True)

    @staticmethod
    def weights_of(tagger, risk):
        info, K, d = tagger.info(), 3, 12
        emissions, ends = np.zeros((K, d)), {"first": np.zeros(K), "last": np.zeros(K)}
        for (name, label), value in info.state_features.items():
            (ends[name] if name in ends else emissions[:, int(name)])[int(label)] = value
        transitions = np.zeros((K, K))
        for (before, after), value in info.transitions.items():
            transitions[int(before), int(after)] = value
        return risk.design.pack(ChainWeights(emissions, transitions, ends["first"], ends["last"], np.zeros(K)))

    def test_likelihoods_and_marginals_are_the_same(self, data, tagger, risk):
        w = self.weights_of(tagger, risk)
        marginals = np.split(risk.marginals(w), np.cumsum(data[2])[:-1])
        losses = []
        for items, labels, ours in zip(self.items(data), self.labels(data), marginals, strict=True):
            tagger.set(items)
            losses.append(-np.log(tagger.probability(labels)))
            theirs = [[tagger.marginal(label, t) for label in "012"] for t in range(len(labels))]
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
        assert risk.value(w) == pytest.approx(np.mean(losses), rel=1e-6)

    def test_the_optimum_is_the_same(self, tagger, risk):
        reg = L2(2.0 * self.C2 / risk.n_samples)
        w = self.weights_of(tagger, risk)
        best = minimize(risk, reg, Lbfgs(), stop=Stop(gap_rel=1e-7))
        assert np.count_nonzero(w) == risk.n_params
        assert best.lower_bound <= reg.value(w) + risk.value(w) <= best.objective * (1.0 + 1e-5)


def test_an_estimator_has_zeros_for_pairs_it_has_not_seen(tmp_path):
    X, y, lengths = words((5,) * 20)
    model = SequenceLabeler("crf", lam=1e-2, pairs="seen", gap_rel=1e-6).fit(X, y, lengths=lengths)
    seen, full = risks(CRF(), (X, y, lengths), n_labels=3)
    np.testing.assert_array_equal(model.coef_ != 0.0, seen.unpack(np.ones(seen.n_params)).emissions)
    w = full.design.pack(ChainWeights(model.coef_, model.transitions_, model.start_, model.end_, model.intercept_))
    assert L2(1e-2).value(w) + full.value(w) == pytest.approx(model.objective_)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    assert back.pairs == "seen"
    np.testing.assert_array_equal(back.predict(X, lengths=lengths), model.predict(X, lengths=lengths))
    again = model.set_params(warm_start=True).fit(X, y, lengths=lengths)
    assert again.result_.trace[0].objective <= (1.0 + 1e-5) * again.objective_
