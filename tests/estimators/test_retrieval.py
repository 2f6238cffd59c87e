"""Measures of rankings against scikit-learn and hand-made rankings, ties as trec_eval breaks them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

from undercut.errors import DataError, ParameterError
from undercut.estimators.ranking.retrieval import ranking_score

Y = np.array([0.0, 2.0, 1.0, 0.0, 1.0, 0.0, 0.0])
QID = np.array([1, 1, 1, 1, 2, 2, 3])  # the last query has nothing relevant
SCORES = np.array([3.0, 2.0, 1.0, 0.0, 1.0, 2.0, 0.0])  # grades in order: 0 2 1 0, then 0 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mrr", (1 / 2 + 1 / 2) / 2),
        ("mrr@1", 0.0),
        ("precision@2", (1 / 2 + 1 / 2) / 2),
        ("precision@3", (2 / 3 + 1 / 2) / 2),
        ("map", ((1 / 2 + 2 / 3) / 2 + 1 / 2) / 2),
        ("err@2", ((3 / 4) / 2 + (1 / 4) / 2) / 2),
        ("err", ((3 / 4) / 2 + (1 / 4) * (1 / 4) / 3 + (1 / 4) / 2) / 2),
    ],
)
def test_equals_what_one_counts_by_hand(name, value):
    assert ranking_score(name, Y, SCORES, QID) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("k", [1, 3, 20])
@pytest.mark.parametrize(("name", "gain"), [("ndcg", lambda y: y), ("exponential_ndcg", lambda y: 2.0**y - 1.0)])
def test_ndcg_is_that_of_scikit_learn_without_ties(name, gain, k, rng):
    y, scores = rng.integers(0, 4, 20).astype(float), rng.standard_normal(20)
    assert ranking_score(f"{name}@{k}", y, scores) == pytest.approx(ndcg_score([gain(y)], [scores], k=k), rel=1e-12)


def test_average_precision_is_that_of_scikit_learn_without_ties(rng):
    y, scores = rng.integers(0, 2, 30).astype(float), rng.standard_normal(30)
    assert ranking_score("map", y, scores) == pytest.approx(average_precision_score(y, scores), rel=1e-12)


def test_of_equal_scores_the_later_row_comes_first():
    assert ranking_score("mrr", [1, 0], np.zeros(2)) == 0.5
    assert ranking_score("mrr", [0, 1], np.zeros(2)) == 1.0


def test_the_order_of_queries_in_the_file_does_not_matter(rng):
    y, scores, qid = rng.integers(0, 3, 40), rng.standard_normal(40), rng.integers(0, 5, 40)
    order = rng.permutation(40)
    for name in ("ndcg@5", "map", "mrr", "precision@3", "err@10"):
        assert ranking_score(name, y[order], scores[order], qid[order]) == pytest.approx(
            ranking_score(name, y, scores, qid), rel=1e-12
        )


@pytest.mark.parametrize("name", ["auc", "ndcg@0", "ndcg@x", "ndcg@", ""])
def test_unknown_names_are_refused(name):
    with pytest.raises(ParameterError, match="must be one of 'ndcg', 'exponential_ndcg', 'map'"):
        ranking_score(name, Y, SCORES, QID)


def test_rankings_without_anything_relevant_are_refused():
    with pytest.raises(DataError, match="1 queries without any"):
        ranking_score("map", np.zeros(3), np.arange(3.0))
