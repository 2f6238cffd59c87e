"""Rankers of ours and of others, each with a grid of settings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

from ranking_sets import Documents, Fold
from undercut import Ranker
from undercut.errors import ConstantModelWarning

try:
    from lightgbm import LGBMRanker, early_stopping
except ImportError:
    LGBMRanker = None
try:
    from xgboost import XGBRanker
except ImportError:
    XGBRanker = None

LAMBDAS = (10.0, 1.0, 1e-1, 1e-2, 1e-3, 1e-4)
ALPHAS = (1e3, 1e2, 10.0, 1.0, 0.1, 0.01)  # of Ridge
LEAVES, DEPTHS = (8, 31), (3, 6)  # of LightGBM and XGBoost
N_TREES, RATE, PATIENCE = 500, 0.05, 50  # of both
MOST_PAIRS, MOST_SPARSE_PAIRS = 50_000, 20_000  # of LIBLINEAR; a random choice of more
GAP, SECONDS = 1e-2, 20.0  # of one of our fits

Scorer = Callable[[np.ndarray], np.ndarray]
Method = Callable[[Fold], Iterator[Scorer]]


class Ours:
    """A ranker along the path of lambdas, from the last solution; it counts fits without a certified gap or a model."""

    def __init__(self, loss: str) -> None:
        self.loss = loss
        self.forget()

    def forget(self) -> None:
        """Count anew."""
        self.n_fits = self.n_open = self.n_constant = 0

    def __call__(self, fold: Fold) -> Iterator[Scorer]:
        ranker = Ranker(self.loss, warm_start=True, gap_rel=GAP, max_seconds=SECONDS)
        for lam in LAMBDAS:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                ranker.set_params(lam=lam).fit(fold.train.X, fold.train.y, qid=fold.train.qid)
            self.n_fits += 1
            self.n_open += any(issubclass(one.category, ConvergenceWarning) for one in caught)
            self.n_constant += any(issubclass(one.category, ConstantModelWarning) for one in caught)
            yield linear(ranker.coef_)


def ridge(fold: Fold) -> Iterator[Scorer]:
    for alpha in ALPHAS:
        yield linear(Ridge(alpha=alpha).fit(fold.train.X, fold.train.y).coef_)


def all_pairs(fold: Fold) -> Iterator[Scorer]:
    """LIBLINEAR on the differences of all pairs, every other one turned round."""
    upper, lower = pairs(fold.train)
    X = fold.train.X[upper] - fold.train.X[lower]
    signs = np.where(np.arange(upper.size) % 2 == 0, 1.0, -1.0)
    X = sp.diags(signs) @ X if sp.issparse(X) else X * signs[:, None]
    for lam in LAMBDAS:
        model = LinearSVC(loss="hinge", C=1.0 / (upper.size * lam), fit_intercept=False, random_state=0, max_iter=200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            yield linear(model.fit(X, signs).coef_[0])


def pairs(of: Documents) -> tuple[np.ndarray, np.ndarray]:
    """Rows of different grades of a query; a random choice where there are too many."""
    found = []
    for q in np.unique(of.qid):
        rows = np.flatnonzero(of.qid == q)
        upper, lower = np.nonzero(of.y[rows][:, None] > of.y[rows])
        found.append(np.stack([rows[upper], rows[lower]]))
    every = np.concatenate(found, axis=1)
    n, most = every.shape[1], MOST_SPARSE_PAIRS if sp.issparse(of.X) else MOST_PAIRS
    chosen = np.random.default_rng(0).choice(n, most, replace=False) if n > most else np.arange(n)
    return every[0, chosen], every[1, chosen]


def trees(objective: str, fold: Fold) -> Iterator[Scorer]:
    """LightGBM with early stopping."""
    train, validation = fold.train, fold.validation
    for leaves in LEAVES:
        model = LGBMRanker(
            objective=objective, num_leaves=leaves, n_estimators=N_TREES, learning_rate=RATE, random_state=0, n_jobs=1,
            verbosity=-1,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the names of the arguments, which change between versions
            model.fit(
                train.X, train.y.astype(int), group=sizes(train.qid),
                eval_set=[(validation.X, validation.y.astype(int))], eval_group=[sizes(validation.qid)], eval_at=[10],
                callbacks=[early_stopping(PATIENCE, verbose=False)],
            )  # fmt: skip
        yield model.predict


def xgboost(fold: Fold) -> Iterator[Scorer]:
    """XGBoost with early stopping."""
    train, validation = by_query(fold.train), by_query(fold.validation)
    for depth in DEPTHS:
        model = XGBRanker(
            objective="rank:ndcg", eval_metric="ndcg@10", max_depth=depth, n_estimators=N_TREES, learning_rate=RATE,
            tree_method="hist", early_stopping_rounds=PATIENCE, random_state=0, n_jobs=1, verbosity=0,
        )  # fmt: skip
        evaluation = {"eval_set": [(validation.X, validation.y)], "eval_qid": [validation.qid], "verbose": False}
        yield model.fit(train.X, train.y, qid=train.qid, **evaluation).predict


def by_query(of: Documents) -> Documents:
    """The same documents, sorted by the number of their query: XGBoost refuses others."""
    order = np.argsort(of.qid, kind="stable")
    return Documents(of.X[order], of.y[order], of.qid[order])


def sizes(qid: np.ndarray) -> np.ndarray:
    """Of the queries of a file, which keeps their documents together."""
    starts = np.flatnonzero(np.append(True, qid[1:] != qid[:-1]))
    return np.diff(np.append(starts, qid.size))


def linear(w: np.ndarray) -> Scorer:
    w = w.copy()
    return lambda X: np.asarray(X @ w)


DEFAULT = "Ranker(), pairwise"  # what a user gets without asking
OURS = {
    DEFAULT: Ours("pairwise"),
    "Ranker, ndcg@10": Ours("ndcg@10"),
    "Ranker, map": Ours("map"),
}
LINEAR_RIVALS: dict[str, Method] = {"Ridge on grades": ridge, "LIBLINEAR on all pairs": all_pairs}
TREES: dict[str, Method] = {
    "LightGBM lambdarank": partial(trees, "lambdarank"),
    "LightGBM xendcg": partial(trees, "rank_xendcg"),
    "XGBoost rank:ndcg": xgboost,
}
SKIPPED = [] if LGBMRanker else ["LightGBM lambdarank", "LightGBM xendcg"]
SKIPPED += [] if XGBRanker else ["XGBoost rank:ndcg"]
METHODS: dict[str, Method] = {
    title: method for title, method in {**OURS, **LINEAR_RIVALS, **TREES}.items() if title not in SKIPPED
}
