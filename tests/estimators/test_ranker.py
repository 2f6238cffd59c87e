"""The ranker as its users meet it."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.metrics import ndcg_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold
from tests.model_files import edit

from undercut import L2, CuttingPlane, NdcgRisk, PairwiseRisk, Ranker, Stop, load_model, minimize, save_model
from undercut.errors import DataError, ModelFileError, ParameterError
from undercut.estimators.ranking.ranker import RISKS, RISKS_AT
from undercut.estimators.ranking.retrieval import ranking_score
from undercut.risks.ranking.gains import exponential_gain

LOSSES = [*RISKS, *[f"{measure}@5" for measure in RISKS_AT], "ndcg@10"]


def draw(seed=0, n_queries=60, size=12, noise=0.5):
    """Queries that differ by an offset: documents compare within a query only."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), size)
    X = rng.standard_normal((qid.size, 6))
    merit = X @ [1.0, -1.0, 0.5, 0.0, 0.0, 0.0] + noise * rng.standard_normal(qid.size)
    X += 3.0 * rng.standard_normal((n_queries, 1))[qid]
    return X, np.clip(np.round(merit), 0, 2), qid


@pytest.mark.parametrize("loss", LOSSES)
def test_fits_with_a_certificate(loss):
    X, y, qid = draw()
    model = Ranker(loss, lam=1e-3).fit(X, y, qid=qid)
    assert model.lower_bound_ <= model.objective_
    assert model.gap_ <= 1e-3 * model.objective_
    assert model.coef_.shape == (6,)
    assert model.intercept_ == 0.0
    assert model.result_.objective == model.objective_


@pytest.mark.parametrize("loss", ["pairwise", "ndcg@10", "ndcg@5", "precision@5"])
def test_ranks_new_queries_where_only_comparisons_within_a_query_help(loss):
    X, y, qid = draw()
    X_new, y_new, _ = draw(seed=1)
    regression = Ridge().fit(X, y).predict(X_new)
    ours = Ranker(loss, lam=1e-3).fit(X, y, qid=qid).score(X_new, y_new, qid=qid)
    theirs = np.mean([ndcg_score([y_new[qid == q]], [regression[qid == q]], k=10) for q in range(60)])
    assert ours >= max(0.9, theirs - 0.01)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "convert", [sp.csr_array, lambda X: csr_with_long_indices(X), lambda X: X.astype(np.float32), pd.DataFrame]
)
def test_any_kind_of_features_gives_the_same_model(loss, convert):
    X, y, qid = draw()
    X = X.astype(np.float32).astype(np.float64)
    one = Ranker(loss, gap_rel=1e-5).fit(X, y, qid=qid)
    other = Ranker(loss, gap_rel=1e-5).fit(convert(X), y, qid=pd.Series(qid))
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-5)
    assert other.score(convert(X), y, qid=qid) == pytest.approx(one.score(X, y, qid=qid), abs=5e-3)


def csr_with_long_indices(X):
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


@pytest.mark.parametrize("loss", LOSSES)
def test_queries_may_be_scattered(loss):
    X, y, qid = draw()
    order = np.random.default_rng(0).permutation(y.size)
    together = Ranker(loss, gap_rel=1e-6).fit(X, y, qid=qid)
    scattered = Ranker(loss, gap_rel=1e-6).fit(X[order], y[order], qid=qid[order])
    assert scattered.objective_ == pytest.approx(together.objective_, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_without_ids_all_documents_are_one_query(loss):
    X, y, _ = draw(n_queries=5)
    one = Ranker(loss, solver="deterministic").fit(X, y, qid=np.zeros(len(y)))
    other = Ranker(loss, solver="deterministic").fit(X, y, qid=np.zeros(y.size, int))
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_pairs_of_one_query_of_two_classes_maximize_the_area_under_the_roc_curve():
    X, y, qid = draw(noise=0.1)
    X = X - np.stack([X[qid == q].mean(axis=0) for q in range(60)])[qid]
    model = Ranker(lam=1e-6).fit(X, y > 0, qid=np.zeros(len(y)))
    assert roc_auc_score(y > 0, model.predict(X)) > 0.97


def test_a_function_makes_any_risk():
    X, y, qid = draw()
    model = Ranker(partial(NdcgRisk, k=3, gain=exponential_gain), lam=0.1).fit(X, y, qid=qid)
    risk = NdcgRisk(X, y, qid, k=3, gain=exponential_gain)
    assert model.objective_ == pytest.approx(minimize(risk, L2(0.1)).objective, rel=2e-3)


def test_the_solver_can_be_chosen():
    X, y, qid = draw()
    ours = Ranker(solver=CuttingPlane(), gap_rel=1e-4).fit(X, y, qid=qid)
    same = minimize(PairwiseRisk(X, y, qid), L2(1e-2), "proximal_bundle", stop=Stop(gap_rel=1e-4))
    assert ours.objective_ == pytest.approx(same.objective, rel=2e-4)


def test_warm_start_begins_where_the_last_fit_ended():
    X, y, qid = draw()
    model = Ranker("ndcg@5", warm_start=True).fit(X, y, qid=qid)
    reached = model.objective_
    assert model.fit(X, y, qid=qid).result_.trace[0].objective == pytest.approx(reached, rel=1e-9)
    assert model.fit(X[:, :4], y, qid=qid).coef_.shape == (4,)


def test_a_run_that_ends_early_warns_and_keeps_its_certificate():
    X, y, qid = draw()
    with pytest.warns(ConvergenceWarning, match="lower bound"):
        model = Ranker("ndcg@5", lam=1e-6, max_steps=2).fit(X, y, qid=qid)
    assert model.lower_bound_ < model.objective_


# --------------------------------------------------------------------------------------------------------------- score


def test_the_score_is_the_mean_ndcg_of_queries_with_a_relevant_document():
    X, y, qid = draw(n_queries=8, size=4)
    y[qid == 3] = 0.0
    model = Ranker().fit(X, y, qid=qid)
    scores = model.predict(X)
    means = [ndcg_score([y[qid == q]], [scores[qid == q]], k=10) for q in range(8) if y[qid == q].any()]
    assert len(means) < 8
    assert model.score(X, y, qid=qid) == pytest.approx(np.mean(means))


def test_of_tied_scores_the_later_row_comes_first():
    X, y = np.zeros((4, 1)), np.array([3.0, 2.0, 0.0, 0.0])
    model = Ranker().fit(np.arange(4.0)[:, None], y, qid=np.zeros(4))
    assert model.score(X, y, qid=np.zeros(4)) == pytest.approx(ndcg_score([y], [np.arange(4.0)], k=10))


@pytest.mark.parametrize("metric", ["ndcg@3", "exponential_ndcg@10", "map", "mrr", "precision@2", "err@5"])
def test_the_score_is_any_measure_of_rankings_by_its_name(metric):
    X, y, qid = draw(n_queries=8)
    model = Ranker().fit(X, y, qid=qid)
    assert model.score(X, y, qid=qid, metric=metric) == ranking_score(metric, y, model.predict(X), qid)


# ------------------------------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize("loss", LOSSES)
def test_a_query_without_weight_might_as_well_be_absent(loss):
    X, y, qid = draw(n_queries=12)
    kept = qid < 8
    one = Ranker(loss, lam=0.1, gap_rel=1e-7).fit(X, y, qid=qid, sample_weight=kept * 2.0)
    other = Ranker(loss, lam=0.1, gap_rel=1e-7).fit(X[kept], y[kept], qid=qid[kept])
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-6)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=2e-3)


def test_documents_of_a_query_must_have_one_weight():
    X, y, qid = draw(n_queries=4)
    with pytest.raises(DataError, match="sample_weight must be equal for all documents of a query"):
        Ranker().fit(X, y, qid=qid, sample_weight=np.arange(y.size))


def test_a_function_is_given_weights_only_where_there_are_some():
    X, y, qid = draw(n_queries=4)
    Ranker(lambda X, y, qid: PairwiseRisk(X, y, qid), lam=0.1).fit(X, y, qid=qid)
    weight = np.where(qid == 0, 0.0, 1.0)
    weighted = Ranker(PairwiseRisk, lam=0.1).fit(X, y, qid=qid, sample_weight=weight)
    assert weighted.objective_ == Ranker("pairwise", lam=0.1).fit(X, y, qid=qid, sample_weight=weight).objective_


@pytest.mark.parametrize("weighting", ["query", "root", "pair"])
def test_queries_of_pairs_are_weighted_as_the_risk_weights_them(weighting):
    X, y, qid = draw(n_queries=6)
    kept = (qid != 1) | (np.arange(y.size) % 2 == 0)  # a query with fewer pairs
    X, y, qid = X[kept], y[kept], qid[kept]
    model = Ranker(lam=0.1, weighting=weighting).fit(X, y, qid=qid)
    same = minimize(PairwiseRisk(X, y, qid, weighting=weighting), L2(0.1))
    assert model.objective_ == pytest.approx(same.objective, rel=1e-9)


def test_a_weighting_of_pairs_is_refused_for_other_losses():
    X, y, qid = draw(n_queries=4)
    with pytest.raises(ParameterError, match=r"`weighting` is for 'pairwise', .* got 'pair' with the loss 'softmax'"):
        Ranker("softmax", weighting="pair").fit(X, y, qid=qid)


def test_the_only_document_of_a_query_is_ranked_well():
    model = Ranker().fit(np.arange(3.0)[:, None], [0, 1, 2], qid=np.zeros(3))
    assert model.score(np.ones((2, 1)), [1, 0], qid=[1, 2]) == 1.0


@pytest.mark.parametrize(
    ("y", "rule"), [([0, 0], "ndcg@10 needs a query with a relevant"), ([1, -1], "must not be negat")]
)
def test_relevances_that_have_no_ndcg_are_refused(y, rule):
    model = Ranker().fit(np.arange(3.0)[:, None], [0, 1, 2], qid=np.zeros(3))
    with pytest.raises(DataError, match=rule):
        model.score(np.ones((2, 1)), y, qid=[0, 0])


def test_documents_without_queries_are_refused_by_the_name_of_the_parameter():
    X, y = np.arange(3.0)[:, None], [0, 1, 2]
    with pytest.raises(DataError, match=r"`qid` must give the query.*qid=np.zeros"):
        Ranker().fit(X, y)
    with pytest.raises(DataError, match="`qid` must give the query"):
        Ranker().fit(X, y, qid=np.zeros(3)).score(X, y)


def test_ids_are_routed_through_a_grid_search():
    X, y, qid = draw()
    with config_context(enable_metadata_routing=True):
        ranker = Ranker().set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(ranker, {"lam": [1e-3, 1e3]}, cv=GroupKFold(3))
        search.fit(X, y, qid=qid, groups=qid)
    assert np.isfinite(search.best_score_)


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("loss", ["ndcg", "ndcg@", "ndcg@0", "ndcg@x", "mrr@3", "hinge", ""])
def test_unknown_losses_are_refused(loss):
    with pytest.raises(ParameterError, match=r"`loss` must be one of 'pairwise', .*'mrr', .*'ndcg@k'"):
        Ranker(loss).fit(np.eye(3), [1, 0, 0], qid=np.zeros(3))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("y", "qid", "rule"),
    [
        ([1, 0, 0], [1, 2], "one query id per row"),
        ([1, 0, np.nan], [1, 1, 1], "NaN"),
        ([0, 0, 0], [1, 1, 1], "at least 2 grades|a relevant document"),
    ],
)
def test_bad_documents_are_refused(loss, y, qid, rule):
    with pytest.raises(ValueError, match=rule):
        Ranker(loss).fit(np.eye(3), y, qid=qid)


# --------------------------------------------------------------------------------------------------------- model files


@pytest.mark.parametrize("loss", LOSSES)
def test_a_ranker_comes_back_as_it_went(tmp_path, loss):
    X, y, qid = draw()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = Ranker(loss, lam=0.1).fit(frame, y, qid=qid)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    np.testing.assert_array_equal(back.predict(frame), model.predict(frame))
    assert back.get_params() == model.get_params()
    for name in ("objective_", "lower_bound_", "gap_", "n_iter_"):
        assert getattr(back, name) == getattr(model, name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert back.score(frame, y, qid=qid) == model.score(frame, y, qid=qid)


def test_a_function_cannot_be_saved(tmp_path):
    model = Ranker(NdcgRisk).fit(np.arange(3.0)[:, None], [0, 1, 2], qid=np.zeros(3))
    with pytest.raises(ModelFileError, match="`loss` cannot be saved: the class NdcgRisk"):
        save_model(model, tmp_path / "model.uc")


def test_a_model_file_with_an_unknown_loss_is_refused(tmp_path):
    save_model(Ranker().fit(np.arange(3.0)[:, None], [0, 1, 2], qid=np.zeros(3)), tmp_path / "model.uc")
    edit(tmp_path / "model.uc", lambda header: header["params"].update(loss="os.system"))
    with pytest.raises(ModelFileError, match="`loss` must be one of"):
        load_model(tmp_path / "model.uc")
