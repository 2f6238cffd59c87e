"""RnaFolder: texts in, texts out, whatever the input looks like."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from undercut import load_model, save_model
from undercut.errors import DataError, ModelFileError
from undercut.estimators import RnaFolder
from undercut.io.dot_bracket import partners
from undercut.io.rna import RnaData
from undercut.measures.base_pairs import mean_pair_scores, pair_scores

X = ["GGGAAAUCCC", "CCGAAACGG", "AGGCUUUUGCCA", "AAAAAA"]
Y = ["(((....)))", "(((...)))", ".(((....))).", "......"]


@pytest.fixture(scope="module")
def folder():
    return RnaFolder(lam=0.01).fit(X, Y)


@pytest.mark.parametrize("loss", ["crf", "margin"])
@pytest.mark.parametrize("decode", ["mea", "viterbi"])
def test_helices_are_learned_with_a_certificate(loss, decode):
    folder = RnaFolder(loss, lam=0.01, decode=decode).fit(X, Y)
    assert folder.predict(X) == Y
    assert folder.certificate_ == "global"
    assert folder.gap_ <= 0.01 * folder.objective_
    assert folder.score(X, Y) == 1.0


@pytest.mark.parametrize("delta", ["pairs", "hamming"])
def test_other_losses_learn_too(delta):
    assert RnaFolder("margin", lam=1e-3, delta=delta, decode="viterbi").fit(X, Y).predict(X) == Y


def test_probabilities_of_pairs_are_a_symmetric_matrix(folder):
    probability = folder.predict_pairs(X)[0]
    assert probability.shape == (10, 10)
    assert np.array_equal(probability, probability.T)
    assert probability.sum(axis=1).max() <= 1.0 + 1e-9
    assert probability[0, 9] > 0.5


def test_a_larger_gamma_predicts_more_pairs(folder):
    few, many = (clone(folder).set_params(gamma=gamma) for gamma in (0.1, 100.0))
    for model in (few, many):
        vars(model).update({name: value for name, value in vars(folder).items() if name.endswith("_")})
    assert "".join(few.predict(X)).count("(") <= "".join(many.predict(X)).count("(")


def test_lower_case_and_T_are_read_as_upper_case_and_U(folder):
    assert folder.predict(["gggaaatccc"]) == folder.predict(["GGGAAAUCCC"])


def test_other_letters_pair_with_none_and_are_counted():
    with pytest.warns(UserWarning, match="left out of the structures: 2 letters"):
        folder = RnaFolder(lam=0.01).fit([*X, "GGNAAANCC"], [*Y, "((.....))"])
    assert folder.left_out_ == {"letters": 2}
    assert folder.predict(["NNNNNNNNN"]) == ["........."]


def test_what_the_grammar_does_not_know_is_dropped_with_a_count():
    sequences = ["GAAAG", "GAC", "G" + "A" * 31 + "GAAACC"]
    structures = ["(...)", "(.)", "(" + "." * 31 + "(...))"]
    with pytest.warns(UserWarning, match="1 pairs other than AU, CG, GU"):
        folder = RnaFolder(lam=0.01).fit([*X, *sequences], [*Y, *structures])
    assert folder.left_out_ == {
        "pairs other than AU, CG, GU": 1,
        "pairs around short hairpins": 1,
        "pairs at long loops": 1,
    }


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ("GAAAG", "(...)", "sequence 4: positions 1 and 5 hold G and G"),
        ("GAC", "(.)", "sequence 4: the hairpin inside 1-3"),
        ("G" + "A" * 31 + "GAAACC", "(" + "." * 31 + "(...))", "sequence 4: the loop between 1-38 and 33-37"),
    ],
)
def test_or_refused_where_asked(x, y, message):
    with pytest.raises(DataError, match=message):
        RnaFolder(outside="refuse").fit([*X, x], [*Y, y])


def test_pseudoknots_are_refused_or_dropped_with_a_count():
    x = "GGAAGGCAAACCUCCA"
    y = "((..[[....)).]]."
    with pytest.raises(DataError, match=r"sequence 4: pairs must be nested.*drop_pseudoknots=True"):
        RnaFolder().fit([*X, x], [*Y, y])
    with pytest.warns(UserWarning, match="2 crossing pairs"):
        RnaFolder(lam=0.01, drop_pseudoknots=True).fit([*X, x], [*Y, y])


@pytest.mark.parametrize(
    ("sequences", "structures", "message"),
    [
        (["ACGU", ""], ["....", ""], "sequence 1: must be a text of at least one letter; got ''"),
        (["ACGU"], [[3, -1, -1, 0]], "sequence 0: a structure must be a text"),
        (["ACGU"], ["..."], "sequence 0: a structure must be as long as its sequence; got 3 for 4"),
        (["ACGU"], ["....", "...."], "one structure per sequence; got 2 for 1"),
        (["ACGU"], ["...."], "at least one structure must have a pair"),
        (["AC GU"], ["....."], "sequence 0: must have letters only; got ' ' at position 3"),
        ([], [], "at least one sequence"),
        ("ACGU", "....", "must be a list of sequences"),
        ([3], ["."], "sequence 0: must be a text"),
        (["GAAAC"], ["((..)"], r"sequence 0: every bracket must be closed; '\(' at position 1 is not"),
        (["GAAAC"], None, "y must have a structure for every sequence; got none"),
    ],
)
def test_bad_input_is_refused_with_its_place(sequences, structures, message):
    with pytest.raises(DataError, match=message):
        RnaFolder().fit(sequences, structures)


def test_data_of_a_file_are_taken_as_they_are():
    data = RnaData(list("abcd"), [""] * 4, X, Y)
    folder = RnaFolder(lam=0.01).fit(data)
    assert folder.predict(data) == Y
    assert folder.score(data) == 1.0


def test_a_model_file_gives_the_same_predictions(folder, tmp_path):
    save_model(folder, tmp_path / "rna.uc")
    again = load_model(tmp_path / "rna.uc")
    assert again.predict(X) == folder.predict(X)
    assert again.get_params() == folder.get_params()
    assert again.objective_ == folder.objective_


def test_a_model_file_with_other_weights_is_refused(folder, tmp_path):
    damaged = clone(folder)
    vars(damaged).update(vars(folder))
    damaged.coef_ = folder.coef_[:5]
    save_model(damaged, tmp_path / "rna.uc")
    with pytest.raises(ModelFileError, match="does not fit 336 weights"):
        load_model(tmp_path / "rna.uc")


def test_a_warm_start_needs_fewer_steps():
    cold = RnaFolder(lam=0.01, warm_start=True).fit(X, Y)
    steps = cold.n_iter_
    assert cold.fit(X, Y).n_iter_ < steps


def test_a_weight_of_two_equals_a_duplicate():
    weighted = RnaFolder(lam=0.1, gap_rel=1e-4).fit(X, Y, sample_weight=[2.0, 1.0, 1.0, 1.0])
    doubled = RnaFolder(lam=0.1, gap_rel=1e-4).fit([X[0], *X], [Y[0], *Y])
    assert weighted.objective_ == pytest.approx(doubled.objective_, rel=2e-4)


def test_threads_fold_the_same(folder):
    assert RnaFolder(lam=0.01, n_jobs=2).fit(X, Y).coef_ == pytest.approx(folder.coef_, abs=1e-6)


def test_scores_count_pairs():
    truth, predicted = partners("((((....))))"), partners("(((......)))")
    assert pair_scores([truth], [predicted])[:2] == (0.75, 1.0)
    empty = partners("......")
    assert pair_scores([empty], [empty]) == (1.0, 1.0, 1.0)
    mean = mean_pair_scores([truth, empty], [predicted, empty])
    assert mean.sensitivity == pytest.approx(0.875)
    with pytest.raises(DataError, match="the same length; got 12 and 6"):
        pair_scores([truth], [empty])
