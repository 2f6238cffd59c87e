"""Folding: every quantity is compared with the list of all nested structures of short sequences."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from undercut import L2, Stop, StructuredRisk, minimize
from undercut._jit.folding import MIN_HAIRPIN, NO_PAIR, PAIR_TYPE
from undercut._jit.rings import LOG, SUM
from undercut.errors import CapabilityError, DataError, NonfiniteError, ParameterError
from undercut.io.dot_bracket import dot_bracket, partners
from undercut.risks import FoldingModel, LikelihoodRisk
from undercut.risks.structured.folding.model import letters, no_bonus
from undercut.risks.structured.folding.sums import Workspace, fill
from undercut.testing import check_structured_model

MODEL = FoldingModel()
SEQUENCES = ["GGGAAAUCCAC", "ACGCGCAG", "GCNUGCANCAGU", "GGAGACGAUACUCACUCC"]  # the last has room for two branches


def structures(x):
    """All nested structures of x with canonical pairs and hairpins of at least 3."""
    s = letters(x)

    def between(i, j):
        if j - i <= MIN_HAIRPIN:
            return [()]
        found = list(between(i + 1, j))
        for k in range(i + MIN_HAIRPIN + 1, j):
            if PAIR_TYPE[s[i + 1], s[k + 1]] != NO_PAIR:
                found += [((i, k), *a, *b) for a in between(i + 1, k) for b in between(k + 1, j)]
        return found

    for pairs in between(0, len(x)):
        y = np.full(len(x), -1)
        for i, j in pairs:
            y[i], y[j] = j, i
        yield y


def random_sequence(rng, n):
    return "".join(rng.choice(list("ACGU"), n))


@pytest.mark.parametrize("delta", ["missed", "pairs", "hamming"])
def test_decoding_and_sums_agree_with_enumeration(delta, rng):
    model = FoldingModel(delta)
    Y = [list(structures(x))[-1] for x in SEQUENCES]
    check_structured_model(model, SEQUENCES, Y, structures, n_points=5)


@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0, 300.0])
def test_the_best_structure_has_the_highest_score(scale, rng):
    for x in SEQUENCES:
        w = scale * rng.standard_normal(MODEL.n_params)
        scores = [w @ MODEL.joint_feature(x, y) for y in structures(x)]
        assert w @ MODEL.joint_feature(x, MODEL.predict(MODEL.prepare(w), x)) == pytest.approx(max(scores))


@pytest.mark.parametrize("gamma", [0.25, 1.0, 6.0])
def test_no_structure_is_expected_to_be_more_accurate(gamma, rng):
    for x in SEQUENCES:
        prepared = MODEL.prepare(0.5 * rng.standard_normal(MODEL.n_params))
        probability = MODEL.marginals(prepared, x)
        unpaired = 1.0 - probability.sum(axis=1)

        def accuracy(y, x=x, probability=probability, unpaired=unpaired):
            return gamma * (probability * MODEL.parts(x, y)).sum() + unpaired[y < 0].sum()

        best = MODEL.most_accurate(prepared, x, gamma)
        assert accuracy(best) == pytest.approx(max(map(accuracy, structures(x))))


def test_a_structure_of_every_kind_of_loop_is_counted():
    """One multi-loop with two branches: a bulge in one, a 1x2 loop in the other."""
    structure = ".(" + "((.(...)))" + "." + "((.((....))..))" + ".)."
    x = structure.translate(str.maketrans("().", "GCA"))
    y = partners(structure)
    counts = dict(zip(MODEL.parameter_names, MODEL.joint_feature(x, y), strict=True))
    counts = {name: count for name, count in counts.items() if count}
    assert counts["multi_base"] == 1.0
    assert counts["multi_paired"] == 3.0
    assert counts["external_unpaired"] == 2.0
    assert counts["external_paired"] == 1.0
    assert counts["internal_explicit_1_2"] == 1.0
    assert counts["internal_length_at_least_3"] == counts["internal_asymmetry_at_least_1"] == 1.0
    assert "internal_length_at_least_4" not in counts
    assert counts["hairpin_length_at_least_3"] == 2.0
    assert counts["hairpin_length_at_least_4"] == 1.0
    assert counts["bulge_length_at_least_1"] == counts["bulge_0x1_nucleotides_A"] == 1.0
    assert counts["multi_unpaired"] == 2.0
    assert counts["helix_stacking_CGCG"] == 3.0
    assert counts["base_pair_CG"] == 8.0
    assert counts["dangle_left_CGA"] == 3.0  # behind both branches and the outermost pair
    assert counts["dangle_right_GCA"] == counts["dangle_left_GCG"] == 1.0  # inside the pair that closes the loop


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ("GAAAG", "(...)", "positions 1 and 5 hold G and G: pairs are AU, CG and GU"),
        ("GAAC", "(..)", "the hairpin inside 1-4 has fewer than 3 unpaired positions"),
        ("G" + "A" * 31 + "GAAACC", "(" + "." * 31 + "(...))", "the loop between 1-38 and 33-37 has more than 30"),
        ("GAAACA", "(...)", "as many positions as the sequence has letters; got 5 for 6"),
    ],
)
def test_a_structure_outside_the_grammar_is_refused_with_its_place(x, y, message):
    with pytest.raises(DataError, match=message):
        MODEL.joint_feature(x, partners(y))


def test_partners_that_do_not_agree_are_refused():
    with pytest.raises(DataError, match="partners must agree"):
        MODEL.joint_feature("GAAAC", np.array([4, -1, -1, -1, -1]))


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_sums_are_stable_for_long_sequences_and_large_weights(scale, rng):
    """The scaled sum equals the one in logarithms, and probabilities are probabilities."""
    x = random_sequence(rng, 300)
    w = scale * rng.standard_normal(MODEL.n_params)
    prepared = MODEL.prepare(w)
    log_z, expected = MODEL.log_partition(prepared, x)
    in_logs = fill(prepared._replace(numbers=None), letters(x), no_bonus(len(x)), Workspace().reserve(300)).log_z
    best = w @ MODEL.joint_feature(x, MODEL.predict(prepared, x))
    assert log_z == pytest.approx(in_logs, rel=1e-9)
    assert best <= log_z * (1 + 1e-12) <= best + 300 * math.log(4)
    probability = MODEL.marginals(prepared, x)
    assert probability.min() >= 0.0
    assert probability.sum(axis=1).max() <= 1.0 + 1e-9
    at = dict(zip(MODEL.parameter_names, expected, strict=True))
    n_pairs = sum(at[f"base_pair_{pair}"] for pair in ("AU", "CG", "GU"))
    assert n_pairs == pytest.approx(0.5 * probability.sum())


def test_the_ring_follows_the_size_of_the_scores(rng):
    """Small scores are summed as they are, those of a long helix with a scale, huge ones in logarithms."""
    work = Workspace().reserve(300)
    x = "G" * 145 + "AAAA" + "C" * 145
    w = np.zeros(MODEL.n_params)
    w[MODEL.parameter_names.index("base_pair_CG")] = 4.0
    for factor, ring, scaled in ((0.0, SUM, False), (1.0, SUM, True), (100.0, LOG, False)):
        filled = fill(MODEL.prepare(factor * w), letters(x), no_bonus(len(x)), work)
        assert filled.ring is ring
        assert (filled.tail[0] != filled.tail[-1]) == scaled
        assert filled.log_z >= 4.0 * factor * 145


def test_the_gradient_of_log_z_is_the_expected_feature(rng):
    x = random_sequence(rng, 60)
    w, direction = (0.3 * rng.standard_normal(MODEL.n_params) for _ in range(2))
    high, low = (MODEL.log_partition(MODEL.prepare(w + t * direction), x)[0] for t in (1e-4, -1e-4))
    expected = MODEL.log_partition(MODEL.prepare(w), x)[1]
    assert (high - low) / 2e-4 == pytest.approx(expected @ direction, rel=1e-6)


@pytest.mark.parametrize("kind", [StructuredRisk, LikelihoodRisk])
def test_both_risks_learn_a_helix_with_a_certificate(kind):
    X, Y = ["GGGAAAUCCC", "CCGAAACGG"], [partners("(((....)))"), partners("(((...)))")]
    result = minimize(kind(MODEL, X, Y), L2(0.01), stop=Stop(gap_rel=1e-2))
    assert result.status.name == "CONVERGED"
    assert result.certificate == "global"
    scores = MODEL.prepare(result.w)
    assert [dot_bracket(MODEL.predict(scores, x)) for x in X] == ["(((....)))", "(((...)))"]


@pytest.mark.parametrize("kind", [StructuredRisk, LikelihoodRisk])
def test_threads_share_the_sequences(kind, rng):
    X = [random_sequence(rng, n) for n in (30, 50, 9, 40, 5)]
    Y = [MODEL.predict(MODEL.prepare(rng.standard_normal(MODEL.n_params)), x) for x in X]
    w = 0.2 * rng.standard_normal(MODEL.n_params)
    one, two = (kind(MODEL, X, Y, n_jobs=n_jobs).cut(w) for n_jobs in (1, 2))
    assert two.value == pytest.approx(one.value)
    assert two.a == pytest.approx(one.a)


def test_a_longer_sequence_after_a_shorter_one_is_right(rng):
    """The memory of a thread grows, and nothing of an earlier sequence is left in it."""
    model, w = FoldingModel(), rng.standard_normal(MODEL.n_params)
    X = [random_sequence(rng, n) for n in (40, 90, 20)]
    alone = [FoldingModel().log_partition(model.prepare(w), x)[0] for x in X]
    assert [model.log_partition(model.prepare(w), x)[0] for x in X] == pytest.approx(alone)


def test_there_are_336_named_parameters():
    assert MODEL.n_params == len(set(MODEL.parameter_names)) == 336


def test_bad_settings_are_refused():
    with pytest.raises(ParameterError, match="`delta` must be 'missed', 'pairs' or 'hamming'; got 'f1'"):
        FoldingModel("f1")
    with pytest.raises(DataError, match="at least one letter"):
        MODEL.predict(MODEL.prepare(np.zeros(336)), "")
    with pytest.raises(NonfiniteError, match="must be finite"):
        MODEL.prepare(np.full(336, np.inf))


def test_slack_rescaling_is_refused():
    with pytest.raises(CapabilityError, match="folding decodes margin rescaling only"):
        MODEL.decode(MODEL.prepare(np.zeros(336)), "GAAAC", partners("(...)"), "slack")


def test_a_model_may_be_pickled():
    assert pickle.loads(pickle.dumps(FoldingModel("pairs"))).delta == "pairs"
