"""A fit that has learned nothing says so, whatever the estimator."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from undercut import (
    KernelClassifier,
    LinearClassifier,
    LinearRegressor,
    MultivariateClassifier,
    Ranker,
    SequenceLabeler,
)
from undercut.errors import ConstantModelWarning
from undercut.measures import ContingencyMeasure
from undercut.solvers import Stop
from undercut.trace import Progress

QUERIES = np.repeat(np.arange(6), 10)


def noise(n=60, seed=0):
    """Features that say nothing about labels 0 and 1, of which 1 is rare."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 3)), (np.arange(n) % 10 == 0) * 1


def error_rate(tp, fp, fn, tn):
    return (fp + fn) / (tp + fp + fn + tn)


def fitted(model, X, y):
    if isinstance(model, Ranker):
        return model.fit(X, y, qid=QUERIES)
    return model.fit(X, y, lengths=np.full(6, 10)) if isinstance(model, SequenceLabeler) else model.fit(X, y)


@pytest.mark.parametrize(
    ("model", "remedy"),
    [
        (LinearClassifier(lam=1.0), "more weight to a rare class"),
        (LinearClassifier("logistic", lam=1e6), "smaller lambda"),
        (LinearRegressor(lam=1e6), "smaller lambda"),
        (KernelClassifier(C=1e-3), "larger C"),
        (SequenceLabeler(lam=1e6), "smaller lambda"),
        (Ranker("structured_mrr", lam=1.0), 'use loss="ndcg@10", "pairwise" or "map"'),
        (
            MultivariateClassifier("precision@3", lam=0.1, surrogate="own"),
            'measure="roc_auc" or "average_precision" and take the k',
        ),
        (MultivariateClassifier(ContingencyMeasure(error_rate), lam=1.0), 'with threshold="cv"'),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_fit_that_has_learned_nothing_warns_with_the_remedy(model, remedy):
    X, y = noise()
    with pytest.warns(ConstantModelWarning, match="learned nothing") as caught:
        fitted(model, X, y)
    assert len(caught) == 1
    assert remedy in str(caught[0].message)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_model_that_has_learned_does_not_warn(n_classes):
    """Although the middle one of three classes cannot be told from the others."""
    X, _ = noise()
    y = np.clip(np.round(2.0 * X[:, 0]), 0, n_classes - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearClassifier(lam=1e-2).fit(X[:, :1], y)


def test_a_constant_that_is_perfect_does_not_warn():
    X, _ = noise()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LinearRegressor().fit(X, np.full(60, 3.0)).predict(X[:1]) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("baseline", "objective", "lower_bound", "status"),
    [
        (1.0, 0.995, 0.99, None),  # within 1 % of the objective, but half of the gain is open
        (1.0, 0.99001, 0.99, "CONVERGED"),
        (1.0, 1.0, 1.0 - 1e-6, "CONVERGED"),  # nothing to gain
        (1.0, 1.0, 1.0 - 1e-4, None),
        (100.0, 1.0, 0.5, None),  # the objective counts where it is smaller than the gain
        (np.inf, 0.995, 0.99, "CONVERGED"),
    ],
)
def test_a_relative_gap_is_relative_to_what_can_be_gained_over_the_baseline(baseline, objective, lower_bound, status):
    found = Stop(gap_rel=1e-2, baseline=baseline).reached(Progress(objective=objective, lower_bound=lower_bound))
    assert (found and found.name) == status


@pytest.mark.parametrize(
    "model",
    [Ranker("pairwise", lam=1.0), Ranker("ordinal", lam=1.0), MultivariateClassifier("roc_auc", lam=1.0)],
    ids=str,
)
def test_measures_and_rankings_are_solved_to_a_share_of_their_gain(model):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = (0.2 * X[:, 0] + rng.standard_normal(60) > 0.0) * 1
    model = fitted(model.set_params(gap_rel=1e-2), X, y)
    gain = model.result_.baseline - model.lower_bound_
    assert gain < 0.5 * model.objective_
    assert model.gap_ <= 1e-2 * gain


def collection(seed, n_queries=20, size=150):
    """Long queries, 70 % of their documents irrelevant, under so much noise that no model ranks well."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), size)
    X = rng.standard_normal((qid.size, 10))
    merit = X @ np.full(10, 10.0**-0.5) + 2.0 * rng.standard_normal(qid.size)
    return X, np.searchsorted(np.quantile(merit, [0.7, 0.86]), merit), qid


@pytest.mark.parametrize(
    "loss", ["pairwise", "weighted_pairwise", "ndcg@10", "xendcg", "map", "mrr", "precision@10", "ordinal"]
)
def test_every_ranker_learns_from_long_queries_with_many_irrelevant_documents(loss):
    X, y, qid = collection(0)
    model = Ranker(loss, lam=1e-2, gap_rel=1e-2).fit(X, y, qid=qid)
    X, y, qid = collection(1)
    assert model.score(X, y, qid=qid) > 0.4


@pytest.mark.parametrize("loss", ["structured_ndcg@10", "structured_mrr", "structured_precision@10"])
def test_a_bound_that_is_useless_there_says_so(loss):
    X, y, qid = collection(0)
    with pytest.warns(ConstantModelWarning, match="learned nothing"):
        model = Ranker(loss, lam=1e-2, gap_rel=1e-2).fit(X, y, qid=qid)
    assert model.gap_ <= 1e-4 * model.objective_


def test_a_measure_whose_model_calls_all_samples_the_same_warns():
    X, y = np.random.default_rng(0).standard_normal((300, 5)), (np.arange(300) < 15) * 1
    with pytest.warns(ConstantModelWarning, match="calls all training samples 0, although their scores differ"):
        model = MultivariateClassifier("mcc", lam=1e-2).fit(X, y)
    assert model.coef_.any()
    assert not model.predict(X).any()


@pytest.mark.parametrize("threshold", ["auto", "cv"])
def test_a_warning_does_not_advise_the_threshold_in_use(threshold):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((300, 10)), rng.integers(0, 2, 300)
    with pytest.warns(ConstantModelWarning, match="held-out samples prefer this threshold") as caught:
        MultivariateClassifier("f1", lam=1e-2, threshold=threshold).fit(X, y)
    assert "threshold=" not in str(caught[0].message)


@pytest.mark.parametrize(
    ("settings", "in_use", "remedy"),
    [
        ({"measure": "precision@10", "lam": 1e9}, "surrogate=", "check the data"),
        ({"measure": "f1", "lam": 1e9}, "threshold=", "check the data"),
        ({"measure": "roc_auc", "lam": 1e9, "threshold": "cv"}, "threshold=", 'measure="average_precision"'),
        ({"measure": "roc_auc", "lam": 1e9}, 'measure="roc_auc"', 'measure="average_precision"'),
    ],
    ids=lambda value: str(value["measure"]) if isinstance(value, dict) else None,
)
def test_a_fit_that_has_learned_nothing_does_not_advise_what_is_in_use(settings, in_use, remedy):
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((300, 10)), rng.integers(0, 2, 300)
    with pytest.warns(ConstantModelWarning, match="learned nothing") as caught:
        MultivariateClassifier(**settings).fit(X, y)
    assert in_use not in str(caught[0].message)
    assert remedy in str(caught[0].message)
