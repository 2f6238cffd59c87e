"""Hidden Markov models: densities, paths, likelihoods and margins against other ways to compute them."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hmmlearn import _hmmc
from scipy.stats import multivariate_normal

from undercut._jit import hmm_sums
from undercut.errors import DataError, ParameterError
from undercut.risks.structured.hmm.connected import fit_connected
from undercut.risks.structured.hmm.frames import Frames
from undercut.risks.structured.hmm.layout import HmmLayout
from undercut.risks.structured.hmm.paths import aligned, looped
from undercut.risks.structured.hmm.risk import ConnectedRisk, WordRisk
from undercut.risks.structured.hmm.start import Likelihood, clusters, fit_words
from undercut.testing import check_risk

LAYOUT = HmmLayout(n_words=2, n_states=2, n_mixtures=2, n_features=2)
LENGTHS = np.array([5, 4, 6])
Y = np.array([0, 1, 0])


def draw(layout=LAYOUT, lengths=LENGTHS, seed=0):
    rng = np.random.default_rng(seed)
    w = 0.3 * rng.standard_normal(layout.n_params)
    return Frames(rng.standard_normal((lengths.sum(), layout.n_features)), lengths, layout), w


def path_score(frames, w, s, states, begins):
    """The score of a path, term by term."""
    layout, weights = frames.layout, frames.layout.unpack(w)
    rows = frames.host[frames.offsets[s] : frames.offsets[s + 1]]
    scores = (layout.moments(rows) @ weights.gaussians.T).reshape(len(rows), layout.n_all_states, -1).max(axis=2)
    total = sum(scores[t, q] for t, q in enumerate(states)) + weights.leave[states[-1]]
    total += sum(weights.enter[q // layout.n_states] for q, begin in zip(states, begins, strict=True) if begin)
    for t, (before, after) in enumerate(pairwise(states), start=1):
        total += weights.leave[before] if begins[t] or before != after else weights.stay[before]
    return total


def paths_of(layout, n_frames):
    """All paths through any words, as states and beginnings of words."""
    S = layout.n_states

    def grow(states, begins):
        if len(states) == n_frames:
            if states[-1] % S == S - 1:
                yield states, begins
            return
        last = states[-1]
        yield from grow([*states, last], [*begins, False])
        if last % S < S - 1:
            yield from grow([*states, last + 1], [*begins, False])
            return
        for c in range(layout.n_words):
            yield from grow([*states, c * S], [*begins, True])

    for c in range(layout.n_words):
        yield from grow([c * S], [True])


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_products_with_moments_are_log_densities(covariance):
    rng = np.random.default_rng(0)
    layout = HmmLayout(1, 1, 3, 4, covariance)
    factors = rng.standard_normal((3, 4, 4)) + 2.0 * np.eye(4)
    full = factors @ factors.transpose(0, 2, 1)
    covariances = np.array([np.diag(each) for each in full]) if covariance == "diag" else full
    means, weights, X = rng.standard_normal((3, 4)), np.array([0.2, 0.3, 0.5]), rng.standard_normal((5, 4))
    scores = layout.moments(X) @ layout.natural(weights, means, covariances).T
    shapes = [np.diag(each) if covariance == "diag" else each for each in covariances]
    for k in range(3):
        expected = np.log(weights[k]) + multivariate_normal(means[k], shapes[k]).logpdf(X)
        np.testing.assert_allclose(scores[:, k], expected)


@pytest.mark.parametrize("n_states", [1, 2])
def test_best_paths_are_those_of_an_exhaustive_search(n_states):
    layout = HmmLayout(2, n_states, 2, 2)
    frames, w = draw(layout)
    weights = layout.unpack(w)
    found = looped(frames, weights)
    words = frames.word_scores(weights)
    for s, n in enumerate(LENGTHS):
        scored = [(path_score(frames, w, s, *path), *path) for path in paths_of(layout, n)]
        best = max(scored, key=lambda each: each[0])
        assert path_score(frames, w, s, found[s].states, found[s].begins) == pytest.approx(best[0])
        for c in range(2):
            single = max(score for score, states, begins in scored if sum(begins) == 1 and states[0] // n_states == c)
            assert words[s, c] == pytest.approx(single)
        said = np.array([1, 0])
        (path,) = aligned(frames.take(np.array([s])), weights, said, np.array([0, 2]))
        forced = max(
            score for score, states, begins in scored
            if [q // n_states for q, begin in zip(states, begins, strict=True) if begin] == said.tolist()
        )  # fmt: skip
        assert path.words(layout).tolist() == said.tolist()
        assert path_score(frames, w, s, path.states, path.begins) == pytest.approx(forced)


def test_likelihoods_and_expected_counts_are_those_of_hmmlearn():
    rng = np.random.default_rng(0)
    S, n = 3, 7
    scores, stay = rng.standard_normal((n, S)), np.log(np.array([0.6, 0.7, 0.8]))
    leave = np.log1p(-np.exp(stay))
    transitions = np.diag(np.exp(stay)) + np.diag(np.exp(leave[:-1]), k=1)
    start = np.eye(S)[0]
    with np.errstate(divide="ignore"):
        _, forward = _hmmc.forward_log(start, transitions, scores)
    shares, moves = scores.copy(), np.zeros((2, S))
    value = hmm_sums.expect(shares, stay, leave, np.array([0, n]), np.ones(1), moves)
    assert value == pytest.approx(forward[-1, -1] + leave[-1])  # its models may end anywhere, ours in the last state
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(moves.sum(axis=0), shares.sum(axis=0))


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_likelihood_grows_with_the_iterations(covariance):
    rng = np.random.default_rng(0)
    layout = HmmLayout(2, 3, 2, 3, covariance)
    lengths, y = np.full(20, 12), np.arange(20) % 2
    X = (
        rng.standard_normal((240, 3))
        + np.tile(np.repeat(np.arange(3.0), 4), 20)[:, None] * np.repeat(1 - 2 * y, 12)[:, None]
    )
    values = [fit_words(X, lengths, y, layout, Likelihood(n_em=n, tol=0.0)).log_likelihood for n in (1, 2, 4, 8)]
    assert all(after >= before for before, after in pairwise(values))
    frames = Frames(X, lengths, layout)
    w = fit_words(X, lengths, y, layout, Likelihood()).w
    assert (frames.word_scores(layout.unpack(w)).argmax(axis=1) == y).mean() >= 0.9


def test_a_weight_of_2_equals_duplicating_the_utterance():
    frames, _ = draw(lengths=np.array([28, 29, 30, 29, 28, 32]))
    y, rows = np.array([0, 1, 0, 1, 0, 1]), np.array([0, 1, 2, 3, 4, 5, 1, 4])
    weight = np.array([1.0, 2.0, 1.0, 1.0, 2.0, 1.0])
    more, settings = frames.take(rows), Likelihood(n_em=2, tol=0.0, variance_floor=0.1)
    weighted = fit_words(frames.host, frames.lengths, y, LAYOUT, settings, weight).w
    doubled = fit_words(more.host, more.lengths, y[rows], LAYOUT, settings).w
    once, twice = WordRisk(frames, y, weight), WordRisk(more, y[rows])
    assert once.value(weighted) == pytest.approx(twice.value(weighted))
    np.testing.assert_allclose(weighted, doubled, rtol=1e-6)


def connected_risk(frames, margin=1.0):
    words, ends = np.array([0, 1, 1, 0]), np.array([0, 2, 3, 4])
    labels = np.array([0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0])
    return ConnectedRisk(frames, labels, words, ends, margin=margin)


@pytest.mark.parametrize("make", [lambda frames: WordRisk(frames, Y, [1.0, 2.0, 0.5]), connected_risk])
@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_subgradients_are_slopes(make, covariance):
    frames, w = draw(HmmLayout(2, 2, 2, 2, covariance))
    risk = make(frames)
    cut = risk.cut(w)
    assert cut.value == risk.value(w) > 0.0
    numeric = np.array([(risk.value(w + h) - risk.value(w - h)) / 2e-6 for h in 1e-6 * np.eye(w.size)])
    np.testing.assert_allclose(cut.a, numeric, atol=1e-7)


@pytest.mark.parametrize("make", [lambda frames: WordRisk(frames, Y), connected_risk])
def test_planes_hold_everywhere_and_where_all_paths_tie(make):
    check_risk(make(draw()[0]))


def test_where_all_paths_tie_the_slope_is_the_limit_of_gradients():
    """That of points where early words, late states and first Gaussians are a little better."""
    layout = HmmLayout(3, 2, 2, 2)
    frames, _ = draw(layout, np.array([5, 4, 6, 7]))
    risk, near = WordRisk(frames, np.array([0, 1, 2, 1])), np.zeros(layout.n_params)
    weights = layout.unpack(near)
    weights.enter[:] = -1e-2 * np.arange(3)
    weights.gaussians[:, 0] = np.tile([0.0, -1e-5, 1e-4, 9e-5], 3)
    np.testing.assert_array_equal(risk.cut(np.zeros(layout.n_params)).a, risk.cut(near).a)


@pytest.mark.parametrize("make", [lambda frames, m: WordRisk(frames, Y, margin=m), connected_risk])
def test_a_larger_margin_is_the_same_in_other_units(make):
    """Scores are linear in w along a ray from zero: only the ratio of scores and margin counts."""
    frames, w = draw()
    once, ten = make(frames, 1.0), make(frames, 10.0)
    assert ten.value(10.0 * w) == pytest.approx(10.0 * once.value(w))
    np.testing.assert_allclose(ten.cut(10.0 * w).a, once.cut(w).a)
    assert ten.batch(np.arange(3)).value(w) == pytest.approx(ten.value(w))
    with pytest.raises(ParameterError, match="`margin` must be positive and finite"):
        make(frames, 0.0)


def test_the_margin_of_connected_words_is_that_of_the_worst_path():
    frames, w = draw()
    risk = connected_risk(frames)
    labels, S = risk.labels, LAYOUT.n_states
    excess = []
    for s, n in enumerate(LENGTHS):
        truth = labels[frames.offsets[s] : frames.offsets[s + 1]]
        said = risk.words[risk.ends[s] : risk.ends[s + 1]].tolist()
        paths = [(path_score(frames, w, s, *path), *path) for path in paths_of(LAYOUT, n)]
        worst = max(score + sum(q // S != c for q, c in zip(states, truth, strict=True)) for score, states, _ in paths)
        true = max(
            score for score, states, begins in paths
            if [q // S for q, begin in zip(states, begins, strict=True) if begin] == said
        )  # fmt: skip
        excess.append((worst - true) / n)
    assert risk.value(w) == pytest.approx(np.mean(excess))


@pytest.mark.parametrize("make", [lambda frames: WordRisk(frames, Y), connected_risk])
def test_batches_add_up_to_the_risk(make):
    frames, w = draw()
    risk = make(frames)
    parts = [risk.batch(np.array([s])) for s in range(3)]
    assert np.mean([part.value(w) for part in parts]) == pytest.approx(risk.value(w))
    np.testing.assert_allclose(np.mean([part.cut(w).a for part in parts], axis=0), risk.cut(w).a)


def test_sums_do_not_depend_on_how_frames_are_divided(monkeypatch):
    frames, w = draw()
    whole = WordRisk(frames, Y).cut(w)
    monkeypatch.setattr("undercut.risks.structured.hmm.frames.BLOCK_FRAMES", 3)
    parts = Frames(frames.X, frames.lengths, LAYOUT)
    assert len(parts.blocks) > 1
    np.testing.assert_allclose(WordRisk(parts, Y).cut(w).a, whole.a)


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_a_device_gives_the_same_risks_paths_and_batches(covariance, device):
    torch = pytest.importorskip("torch")
    frames, w = draw(HmmLayout(2, 2, 2, 2, covariance))
    there = Frames(torch.as_tensor(frames.X, device=device), frames.lengths, frames.layout)
    rows = np.array([2, 0])
    for make in (lambda frames: WordRisk(frames, Y), connected_risk):
        np.testing.assert_allclose(make(there).cut(w).a, make(frames).cut(w).a, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(make(there).batch(rows).cut(w).a, make(frames).batch(rows).cut(w).a, atol=1e-12)
    weights = frames.layout.unpack(w)
    np.testing.assert_allclose(there.word_scores(weights), frames.word_scores(weights))
    for mine, other in zip(looped(there, weights), looped(frames, weights), strict=True):
        np.testing.assert_array_equal(mine.states, other.states)


def test_a_device_may_hold_single_precision(device):
    torch = pytest.importorskip("torch")
    frames, w = draw()
    there = Frames(torch.as_tensor(frames.X, dtype=torch.float32, device=device), frames.lengths, LAYOUT)
    np.testing.assert_allclose(WordRisk(there, Y).cut(w).a, WordRisk(frames, Y).cut(w).a, rtol=1e-4, atol=1e-5)


def test_boundaries_of_words_are_found():
    rng = np.random.default_rng(0)
    layout = HmmLayout(2, 2, 1, 1)
    words = rng.integers(0, 2, 60)
    parts = rng.integers(4, 12, 60)
    shapes = {0: (-2.0, 2.0), 1: (4.0, -4.0)}
    X = np.concatenate([np.repeat(shapes[c], [n // 2, n - n // 2]) for c, n in zip(words, parts, strict=True)])[:, None]
    X = X + 0.3 * rng.standard_normal(X.shape)
    ends = np.arange(0, 61, 3)
    lengths = np.add.reduceat(parts, ends[:-1])
    fit = fit_connected(X, lengths, words, ends, layout, Likelihood())
    assert (fit.lengths == parts).mean() > 0.9


def test_constant_features_get_the_variance_floor():
    lengths, y = np.full(4, 6), np.array([0, 1, 0, 1])
    X = np.column_stack([np.ones(24), np.arange(24.0)])
    w = fit_words(X, lengths, y, LAYOUT, Likelihood()).w
    assert np.isfinite(w).all()
    assert np.isfinite(WordRisk(Frames(X, lengths, LAYOUT), y).value(w))


def test_a_word_without_data_is_refused():
    with pytest.raises(DataError, match="every word must have an utterance; word 1 has none"):
        fit_words(np.ones((8, 2)), np.array([4, 4]), np.zeros(2, np.int64), LAYOUT, Likelihood())


@pytest.mark.parametrize("sizes", [{"n_states": 0}, {"n_mixtures": -1}, {"n_features": 0}, {"covariance": "tied"}])
def test_sizes_outside_their_domain_are_refused(sizes):
    given = {"n_words": 2, "n_states": 2, "n_mixtures": 1, "n_features": 1} | sizes
    with pytest.raises(ParameterError, match=f"`{next(iter(sizes))}`"):
        HmmLayout(**given)


def test_clusters_separate_what_is_apart():
    X = np.array([[0.0], [0.1], [5.0], [5.1], [9.0]])
    at = clusters(X, 3, np.ones(5))
    assert [at[i] == at[j] for i, j in product((0, 2), (1, 3))] == [True, False, False, True]
    assert len(set(at.tolist())) == 3
