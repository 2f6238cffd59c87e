"""``undercut train`` beyond sums of pointwise losses: measures, ranking, novelty, penalties, joint classes."""

import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.preprocessing import scale

from undercut import LinearClassifier, MultivariateClassifier, NoveltyDetector, Ranker, load_model
from undercut.io import load_svmlight


@pytest.fixture
def queries(tmp_path):
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((300, 5)), np.repeat(np.arange(30), 10)
    y = np.clip(np.round(X @ [1.0, -1.0, 0.5, 0.0, 0.0]), 0, 2)
    dump_svmlight_file(X, y, str(tmp_path / "queries.svm"), query_id=qid, zero_based=False)
    return tmp_path / "queries.svm"


@pytest.mark.parametrize("measure", ["f1", "precision@50", "recall@50", "prbep", "roc_auc", "balanced_error"])
def test_a_measure_is_trained_and_evaluated(cancer, undercut, tmp_path, measure):
    code, out, _ = undercut("train", cancer, "--measure", measure, "--lambda", 1e-2, "-o", tmp_path / "m.uc")
    assert code == 0
    assert "lower bound" in out
    X, y, _ = load_svmlight(cancer)
    same = MultivariateClassifier(measure, lam=1e-2).fit(X, y.astype(int))
    saved = load_model(tmp_path / "m.uc")
    np.testing.assert_allclose(saved.coef_, same.coef_)
    _, out, _ = undercut("evaluate", tmp_path / "m.uc", cancer)
    assert f"{same.score(X, y.astype(int)):.6g}" in out


def test_a_threshold_is_chosen_by_validation(cancer, undercut, tmp_path):
    code, _, err = undercut(
        "train", cancer, "--measure", "f1", "--threshold", "cv", "--lambda", 1, "-o", tmp_path / "m.uc"
    )
    assert code == 0, err
    X, y, _ = load_svmlight(cancer)
    same = MultivariateClassifier("f1", lam=1.0, threshold="cv").fit(X, y.astype(int))
    np.testing.assert_allclose(load_model(tmp_path / "m.uc").intercept_, same.intercept_)
    code, _, err = undercut("train", cancer, "--threshold", "cv")
    assert code == 2
    assert "--threshold" in err


@pytest.mark.filterwarnings("always::undercut.errors.ConstantModelWarning")
def test_a_model_that_has_learned_nothing_is_announced_in_the_words_of_the_command_line(undercut, tmp_path):
    X, y = np.random.default_rng(0).standard_normal((60, 3)), (np.arange(60) % 10 == 0) * 1
    dump_svmlight_file(X, y, str(tmp_path / "noise.svm"), query_id=np.arange(60) // 10, zero_based=False)
    options = ("--loss", "structured_mrr", "--lambda", 1, "-o", tmp_path / "m.uc")
    code, _, err = undercut("train", tmp_path / "noise.svm", *options)
    assert code == 0
    assert "learned nothing" in err
    assert 'use --loss ndcg@10, "pairwise" or "map"' in err


@pytest.mark.parametrize("loss", ["pairwise", "ndcg@10", "precision@3", "mrr", "ordinal"])
def test_a_ranking_loss_reads_the_query_ids(queries, undercut, tmp_path, loss):
    code, _, _ = undercut("train", queries, "--loss", loss, "--lambda", 1e-2, "-o", tmp_path / "m.uc")
    assert code == 0
    X, y, qid = load_svmlight(queries)
    same = Ranker(loss, lam=1e-2).fit(X, y, qid=qid)
    np.testing.assert_allclose(load_model(tmp_path / "m.uc").coef_, same.coef_)
    _, out, _ = undercut("evaluate", tmp_path / "m.uc", queries)
    assert f"{same.score(X, y, qid=qid):.6g}" in out
    code, out, _ = undercut("predict", tmp_path / "m.uc", queries)
    assert code == 0
    assert len(out.splitlines()) == 300


def test_measures_of_rankings_are_printed_by_their_names(queries, undercut, tmp_path):
    undercut("train", queries, "--loss", "pairwise", "--weighting", "pair", "-o", tmp_path / "m.uc")
    X, y, qid = load_svmlight(queries)
    model = load_model(tmp_path / "m.uc")
    assert model.weighting == "pair"
    _, out, _ = undercut("evaluate", tmp_path / "m.uc", queries, "--metrics", "ndcg@3,err@5", "--json")
    report = json.loads(out)
    assert report["ndcg@3"] == model.score(X, y, qid=qid, metric="ndcg@3")
    assert report["err@5"] == model.score(X, y, qid=qid, metric="err@5")
    assert "map" not in report
    code, _, err = undercut("evaluate", tmp_path / "m.uc", queries, "--metrics", "ndgc")
    assert code == 2
    assert "a measure of rankings must be one of 'ndcg'" in err


def test_measures_of_rankings_are_refused_for_other_models(cancer, undercut, tmp_path):
    undercut("train", cancer, "--lambda", 1, "-o", tmp_path / "m.uc")
    code, _, err = undercut("evaluate", tmp_path / "m.uc", cancer, "--metrics", "map")
    assert code == 2
    assert "--metrics is for rankings; got 'map' for a LinearClassifier" in err


def test_novelty_is_detected_without_labels(undercut, tmp_path):
    X = 3.0 + np.random.default_rng(0).standard_normal((200, 2))
    dump_svmlight_file(X, np.zeros(200), str(tmp_path / "x.svm"), zero_based=False)
    code, _, _ = undercut("train", tmp_path / "x.svm", "--nu", 0.1, "-o", tmp_path / "m.uc")
    assert code == 0
    assert isinstance(load_model(tmp_path / "m.uc"), NoveltyDetector)
    _, out, _ = undercut("evaluate", tmp_path / "m.uc", tmp_path / "x.svm")
    assert float(out.split("share of novel samples")[1].split()[0]) == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_a_penalty_that_makes_zeros_counts_the_others(cancer, undercut, tmp_path, penalty):
    code, out, _ = undercut("train", cancer, "--penalty", penalty, "--lambda", 0.05, "-o", tmp_path / "m.uc")
    assert code == 0
    saved = load_model(tmp_path / "m.uc")
    assert 0 < np.count_nonzero(saved.coef_) < 30
    assert f"{np.count_nonzero(saved.coef_)} of 30 are not zero" in out
    assert saved.penalty == penalty


@pytest.mark.parametrize(("loss", "multi_class"), [("hinge", "crammer_singer"), ("logistic", "multinomial")])
def test_classes_are_fitted_jointly(undercut, tmp_path, loss, multi_class):
    X, y = load_iris(return_X_y=True)
    dump_svmlight_file(scale(X), y, str(tmp_path / "iris.svm"), zero_based=False)
    code, _, _ = undercut("train", tmp_path / "iris.svm", "--loss", loss, "--multi-class", multi_class, "--lambda",
                          1e-2, "-o", tmp_path / "m.uc")  # fmt: skip
    assert code == 0
    same = LinearClassifier(loss, lam=1e-2, multi_class=multi_class).fit(scale(X), y)
    assert load_model(tmp_path / "m.uc").objective_ == pytest.approx(same.objective_, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--measure", "f1", "--loss", "hinge"), "--loss and --measure exclude each other"),
        (("--nu", 0.1, "--measure", "f1"), "--measure and --nu exclude each other"),
        (("--measure", "f2x"), "'precision@10'"),
        (("--nu", 2), "--nu must be a float in the range (0.0, 1.0]; got 2.0"),
        (("--loss", "ndcg@0"), "--loss must be one of"),
        (("--loss", "ndcg"), "ndcg@k"),
        (("--loss", "pairwise", "--no-intercept"), "--no-intercept is not for --loss pairwise"),
        (("--nu", 0.1, "--class-weight", "balanced"), "--class-weight is not for --nu"),
        (("--measure", "f1", "--penalty", "l1"), "--penalty is not for --measure"),
        (("--penalty", "l3"), "--penalty must be one of elasticnet, l1, l2; got 'l3'"),
        (("--penalty", "elasticnet", "--l1-ratio", 2), "--l1-ratio must be a float in the range [0.0, 1.0]; got 2.0"),
        (("--multi-class", "multinomial"), "--multi-class multinomial goes with --loss logistic"),
        (("--online", "--measure", "f1"), "--measure is not for --online"),
    ],
)
def test_options_that_do_not_fit_are_refused(cancer, undercut, options, message):
    code, _, err = undercut("train", cancer, *options)
    assert code == 2
    assert message in err


def test_a_ranking_of_a_file_without_queries_is_refused_with_the_remedy(cancer, queries, undercut, tmp_path):
    code, _, err = undercut("train", cancer, "--loss", "pairwise", "-o", tmp_path / "m.uc")
    assert code == 1
    assert "write qid:1 behind the target" in err
    undercut("train", queries, "--loss", "pairwise", "-o", tmp_path / "m.uc")
    queries.write_text("1 1:1\n0 2:1\n")
    code, _, err = undercut("evaluate", tmp_path / "m.uc", queries)
    assert code == 1
    assert "write qid:1 behind the target" in err


def test_a_relevance_below_zero_is_refused_with_the_remedy(queries, undercut):
    queries.write_text("-1 qid:1 1:1\n1 qid:1 2:1\n")
    code, _, err = undercut("train", queries, "--loss", "ndcg@10")
    assert code == 1
    assert "shift the grades" in err
