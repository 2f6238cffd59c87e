"""``undercut train --task sequence``."""

import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from undercut import SequenceLabeler, load_model
from undercut.io import ConllData, load_conll
from undercut.maps import TemplateFeatures

NOUNS, VERBS = ["dog", "cat", "bird", "house"], ["runs", "sees", "eats"]


@pytest.fixture
def chunks(tmp_path):
    """Sentences of a grammar that templates can learn."""
    rng, lines = np.random.default_rng(0), []
    for _ in range(60):
        for _ in range(rng.integers(1, 4)):
            lines += ["the DT B-NP", f"{rng.choice(NOUNS)} NN I-NP", f"{rng.choice(VERBS)} VB B-VP", ". . O"]
        lines.append("")
    path = tmp_path / "chunks.txt"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("loss", ["m3n", "crf"])
def test_a_file_of_columns_is_learned_as_in_python(chunks, undercut, tmp_path, loss):
    options = ("--template", "word[0]", "--template", "pos[-1] pos[0]", "--min-count", 2, "--lambda", 1e-3)
    model = tmp_path / "m.uc"
    code, out, _ = undercut("train", "--task", "sequence", chunks, "--loss", loss, *options, "-o", model)
    assert code == 0
    assert "lower bound" in out
    data = load_conll(chunks)
    features = TemplateFeatures(["word[0]", "pos[-1] pos[0]"], min_count=2)
    same = SequenceLabeler(loss, lam=1e-3, features=features)
    same.fit(ConllData(data.columns[:-1], data.lengths), data.sentences(-1))
    saved = load_model(model)
    np.testing.assert_allclose(saved.coef_, same.coef_)
    assert saved.features_.names() == same.features_.names()
    code, out, _ = undercut("evaluate", model, chunks)
    assert code == 0
    assert ["chunk", "F1", "1"] in [line.split() for line in out.splitlines()]
    code, out, _ = undercut("predict", model, chunks)
    assert [sentence.split() for sentence in out.split("\n\n")] == data.sentences(-1)


def test_labels_need_not_be_there_to_be_predicted(chunks, undercut, tmp_path):
    model, bare = tmp_path / "m.uc", tmp_path / "bare.txt"
    undercut("train", "--task", "sequence", chunks, "--lambda", 1e-2, "-o", model)
    bare.write_text("the DT\nzebra NN\nruns VB\n")
    code, out, _ = undercut("predict", model, bare)
    assert (code, out.split()) == (0, ["B-NP", "I-NP", "B-VP"])
    code, _, err = undercut("evaluate", model, bare)
    assert code == 1
    assert "the templates need 2 columns; the data have 1" in err


def test_probabilities_are_those_of_a_crf(chunks, undercut, tmp_path):
    for loss in ("crf", "m3n"):
        undercut("train", "--task", "sequence", chunks, "--loss", loss, "--lambda", 1e-2, "-o", tmp_path / f"{loss}.uc")
    _, out, _ = undercut("predict", tmp_path / "crf.uc", chunks, "--scores")
    assert out.startswith(f"# labels {' '.join(load_model(tmp_path / 'crf.uc').classes_)}\n")
    rows = np.loadtxt(out.splitlines())
    np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    code, _, err = undercut("predict", tmp_path / "m3n.uc", chunks, "--scores")
    assert code == 1
    assert "only a model with --loss crf has them" in err


def test_templates_may_stand_in_a_file(chunks, undercut, tmp_path):
    (tmp_path / "templates.txt").write_text("# comment\nword[0]\n\npos[0]\n")
    code, _, _ = undercut(
        "train", "--task", "sequence", chunks, "--template", tmp_path / "templates.txt", "-o", tmp_path / "m.uc"
    )
    assert code == 0
    assert load_model(tmp_path / "m.uc").features.templates == ("word[0]", "pos[0]")


def test_rows_of_a_query_are_a_sequence(undercut, tmp_path):
    rng = np.random.default_rng(0)
    y, qid = np.tile([1, 2, 3], 40), np.repeat(np.arange(24), 5)
    X = (np.eye(4)[y] + 0.1 * rng.standard_normal((120, 4))).round(3)  # which the file holds exactly
    dump_svmlight_file(X, y, str(tmp_path / "x.svm"), query_id=qid, zero_based=False)
    code, _, _ = undercut("train", "--task", "sequence", tmp_path / "x.svm", "--lambda", 1e-3, "-o", tmp_path / "m.uc")
    assert code == 0
    same = SequenceLabeler(lam=1e-3).fit(X, y, lengths=[5] * 24)
    np.testing.assert_allclose(load_model(tmp_path / "m.uc").coef_, same.coef_, atol=1e-6)
    _, out, _ = undercut("evaluate", tmp_path / "m.uc", tmp_path / "x.svm")
    assert "token accuracy" in out
    assert "sequences             24" in out


def test_a_network_is_trained_evaluated_described_and_continued(undercut, tmp_path):
    rng = np.random.default_rng(0)
    y, qid = np.tile([1, 2, 3], 40), np.repeat(np.arange(24), 5)
    X = (np.repeat(np.eye(4)[y], 3, axis=1) > rng.random((120, 12)) - 0.2).astype(float)
    rows, model = tmp_path / "x.svm", tmp_path / "m.uc"
    dump_svmlight_file(X, y, str(rows), query_id=qid, zero_based=False)
    options = ("--loss", "crf", "--lambda", 1e-3, "--hidden", "6,5", "--pretrain", "rbm", "--seed", 0)
    code, out, _ = undercut("train", "--task", "sequence", rows, *options, "--n-features", 12, "-o", model)
    assert code == 0
    assert "model gap" in out
    same = SequenceLabeler("crf", lam=1e-3, hidden=(6, 5), pretrain="rbm", random_state=0)
    same.fit(X, y.tolist(), lengths=[5] * 24)
    np.testing.assert_allclose(load_model(model).layers_[1][0], same.layers_[1][0], atol=1e-6)
    assert "test risk" in undercut("evaluate", model, rows)[1]
    told = undercut("info", model)[1]
    for fact in ("12-6-5-3, sigmoid", "parameters", "Boltzmann machines, 20 passes", "the distance from the start"):
        assert fact in told
    again = ("--start", model, "--valid", rows, "-o", tmp_path / "n.uc")
    assert undercut("train", "--task", "sequence", rows, *options, "--n-features", 12, *again)[0] == 0
    assert load_model(tmp_path / "n.uc").objective_ <= same.objective_ * (1.0 + 1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--hidden", "4,0"), "--hidden must be sizes of layers, positive integers such as 400,400; got '4,0'"),
        (("--hidden", "many"), "--hidden must be sizes of layers"),
        (("--pretrain", "rbm"), "--pretrain needs --hidden"),
        (("--hidden", "4", "--pretrain", "rbm:0"), "--pretrain must be rbm, or rbm:60 for 60 passes"),
        (("--hidden", "4", "--pretrain", "dbn"), "--pretrain must be rbm, or rbm:60 for 60 passes"),
    ],
)
def test_options_of_no_network_are_refused(undercut, tmp_path, options, message):
    (tmp_path / "x.svm").write_text("1 qid:1 1:1\n2 qid:1 1:0\n")
    code, _, err = undercut("train", "--task", "sequence", tmp_path / "x.svm", *options)
    assert code == 2
    assert message in " ".join(err.split())


def test_passes_of_pretraining_and_the_seed_decide_the_start(undercut, tmp_path):
    X = (np.random.default_rng(0).random((40, 6)) < 0.5).astype(float)
    dump_svmlight_file(
        X, np.arange(40) % 3, str(tmp_path / "x.svm"), query_id=np.repeat(np.arange(8), 5), zero_based=False
    )
    objectives = []
    for at, (passes, seed) in enumerate(((":3", 0), (":3", 0), (":9", 0), (":3", 1))):
        options = ("--hidden", "4", "--pretrain", f"rbm{passes}", "--seed", seed, "--max-steps", 2, "--n-features", 6)
        undercut("train", "--task", "sequence", tmp_path / "x.svm", *options, "-o", tmp_path / f"{at}.uc")
        objectives.append(load_model(tmp_path / f"{at}.uc").objective_)
    assert objectives[0] == objectives[1]
    assert len(set(objectives)) == 3
    report = json.loads(undercut("info", tmp_path / "0.uc", "--json")[1])
    assert (report["layers"], report["pretraining"]) == ([6, 4, 3], "Boltzmann machines, 3 passes")


def test_folds_of_the_letters_are_chosen(undercut, tmp_path):
    rng = np.random.default_rng(0)
    shapes = {letter: rng.integers(0, 2, 128) for letter in "abc"}
    lines, at = [], 0
    for word in range(30):
        for position, letter in enumerate("abc"):
            at += 1
            following = at + 1 if letter != "c" else -1
            pixels = "\t".join(map(str, shapes[letter]))
            lines.append(f"{at}\t{letter}\t{following}\t{word}\t{position + 1}\t{word % 3}\t{pixels}\t")
    (tmp_path / "letter.data").write_text("\n".join(lines) + "\n")
    file, model = tmp_path / "letter.data", tmp_path / "m.uc"
    code, _, _ = undercut("train", "--task", "sequence", file, "--folds", "0-1", "--lambda", 1e-2, "-o", model)
    assert code == 0
    _, out, _ = undercut("evaluate", model, file, "--folds", 2)
    assert "sequences             10" in out
    assert "token accuracy        1" in out
    for folds, message in (("7", "no word in the folds 7"), ("a-b", "--folds must be numbers")):
        code, _, err = undercut("evaluate", model, file, "--folds", folds)
        assert code in (1, 2)
        assert message in err


def test_a_run_continues_from_a_model(chunks, undercut, tmp_path):
    short = ("train", "--task", "sequence", chunks, "--loss", "crf", "--lambda", 1e-4, "-o", tmp_path / "m.uc")
    code, _, _ = undercut(*short, "--max-steps", 5)
    assert code == 3
    first = load_model(tmp_path / "m.uc")
    code, _, _ = undercut(*short, "--start", tmp_path / "m.uc")
    assert code == 0
    assert load_model(tmp_path / "m.uc").objective_ < first.objective_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--task", "sequences"), "--task must be sequence or rna or hmm or connected or absent"),
        (("--task", "sequence", "--loss", "hinge"), "--loss must be m3n or crf"),
        (("--task", "sequence", "--template", "wrod[0]"), "a template looks at word, pos"),
        (("--task", "sequence", "--template", "word[0"), "made of parts like word[-1]"),
        (("--task", "sequence", "--kernel", "rbf"), "--kernel is not for --task sequence"),
        (("--task", "sequence", "--penalty", "l1"), "--penalty is not for --task sequence"),
        (("--task", "sequence", "--folds", "0-7"), "--folds is for letter.data"),
        (("--task", "sequence", "--online"), "--task is not for --online"),
        (("--template", "window"), "--template needs --task sequence"),
        (("--online", "--folds", "1"), "--folds is not for --online"),
        (("--online", "--gap", 0.1), "--gap is not for --online"),
        (("--task", "sequence", "--template", "widnow"), "a template must be window, spelling, or made of"),
        (("--task", "sequence", "--columns", "word,pos,more"), "--columns names word,pos,more"),
        (("--task", "sequence", "--n-features", 9), "--n-features is for SVMlight files"),
    ],
)
def test_options_that_do_not_go_together_are_refused(chunks, undercut, options, message):
    code, _, err = undercut("train", chunks, *options)
    assert code == 2
    assert message in err


def test_predictions_stand_in_the_order_of_the_file(undercut, tmp_path):
    lines = ["1 qid:5 1:1", "2 qid:5 2:1", "1 qid:2 1:1", "1 qid:2 1:1"]
    (tmp_path / "x.svm").write_text("# comment\n" + "\n".join(lines) + "\n")
    undercut("train", "--task", "sequence", tmp_path / "x.svm", "--lambda", 1e-3, "-o", tmp_path / "m.uc")
    _, out, _ = undercut("predict", tmp_path / "m.uc", tmp_path / "x.svm")
    assert out == "1\n2\n\n1\n1\n"
    (tmp_path / "apart.svm").write_text("\n".join([lines[0], lines[2], lines[1]]) + "\n")
    code, _, err = undercut("predict", tmp_path / "m.uc", tmp_path / "apart.svm")
    assert code == 1
    assert "those of qid:5 do not" in err


def test_a_file_of_another_kind_than_the_model_is_refused(chunks, undercut, tmp_path):
    (tmp_path / "x.svm").write_text("1 qid:5 1:1\n2 qid:5 2:1\n")
    undercut("train", "--task", "sequence", tmp_path / "x.svm", "-o", tmp_path / "numbers.uc")
    undercut("train", "--task", "sequence", chunks, "--lambda", 1e-2, "-o", tmp_path / "words.uc")
    for model, file, message in (("numbers", chunks, "labels numbers"), ("words", tmp_path / "x.svm", "labels words")):
        code, _, err = undercut("evaluate", tmp_path / f"{model}.uc", file)
        assert code == 1
        assert message in err
