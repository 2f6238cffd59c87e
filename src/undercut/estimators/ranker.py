"""A linear ranker with a certificate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.metrics import ndcg_score

from undercut.contracts import Solver
from undercut.errors import DataError, ParameterError
from undercut.estimators.certified import CertifiedEstimator
from undercut.estimators.inputs import validated
from undercut.estimators.linear_model import LinearModel, Start, Task, start_coef
from undercut.io.model_file import ModelState
from undercut.maps.design import trusted_design
from undercut.regularizers import L2
from undercut.risks import (
    AveragePrecisionRisk,
    ListwiseRisk,
    NdcgRisk,
    OrdinalRisk,
    PairwiseRisk,
    PrecisionAtRisk,
    ReciprocalRankRisk,
    WeightedPairwiseRisk,
)
from undercut.risks.ranking.gains import half_gain
from undercut.risks.ranking.queries import Queries, non_negative
from undercut.risks.scores.score_risk import ScoreRisk
from undercut.trace import Callbacks
from undercut.types import FloatArray

MakeRisk = Callable[..., ScoreRisk]  # from X, y and qid


def _relevant(y: Any) -> FloatArray:
    """1 for every relevant document."""
    return (non_negative(y, len(y)) > 0.0).astype(np.float64)


def _reciprocal_rank(X: Any, y: Any, qid: Any, **weights: Any) -> ScoreRisk:
    return ListwiseRisk(X, _relevant(y), qid, **weights)


def _precision(X: Any, y: Any, qid: Any, k: int, **weights: Any) -> ScoreRisk:
    return PairwiseRisk(X, _relevant(y), qid, **weights)


def _ndcg(X: Any, y: Any, qid: Any, k: int, **weights: Any) -> ScoreRisk:
    return ListwiseRisk(X, y, qid, **weights)


RISKS: dict[str, MakeRisk] = {
    "pairwise": PairwiseRisk,
    "weighted_pairwise": WeightedPairwiseRisk,
    "softmax": ListwiseRisk,
    "xendcg": partial(ListwiseRisk, gain=half_gain),
    "map": AveragePrecisionRisk,
    "mrr": _reciprocal_rank,
    "ordinal": OrdinalRisk,
    "structured_mrr": ReciprocalRankRisk,
}
RISKS_AT: dict[str, MakeRisk] = {
    "ndcg": _ndcg,
    "precision": _precision,
    "structured_ndcg": NdcgRisk,
    "structured_precision": PrecisionAtRisk,
}
ANY_SIGN = ("pairwise", "ordinal")  # losses that know only the order of the relevances
SCORE_PLACES = 10


def named_risk(loss: str) -> MakeRisk:
    """The risk that a name stands for.

    >>> named_risk("structured_ndcg@5").keywords
    {'k': 5}
    """
    measure, _, places = loss.partition("@")
    if measure in RISKS_AT and places.isdecimal() and int(places) >= 1:
        return partial(RISKS_AT[measure], k=int(places))
    if loss not in RISKS:
        names = ", ".join(repr(name) for name in [*RISKS, *[f"{measure}@k" for measure in RISKS_AT]])
        raise ParameterError(f"`loss` must be one of {names} with a number k of places, or a function; got {loss!r}")
    return RISKS[loss]


class Ranker(LinearModel, CertifiedEstimator):
    """``min_w lam/2 |w|^2 + R(w)``, R a mean over queries of how badly ``X w`` ranks their documents.

    There is no intercept: a ranking does not depend on it.

    Parameters
    ----------
    loss : str or function
        What is minimized.  For each measure the convex risk that learns it best: "ndcg@10" and "softmax" the softmax
        cross-entropy of the relevances, "mrr" that of the relevant documents, "precision@10" pairs of relevant and
        irrelevant ones, "map" the pairs that the worst ranking inverts.  Then "pairwise" (all pairs of different
        grades), "weighted_pairwise" (by what their exchange costs), "xendcg", "ordinal".  The structured hinges
        "structured_ndcg@10", "structured_precision@10" and "structured_mrr" bound the measure from above, and suit
        short queries only.  A function makes a risk from X, y and qid, for instance
        ``functools.partial(NdcgRisk, k=5, gain=my_gain)``.
    lam, solver, gap_rel, max_steps, max_seconds, warm_start, verbose, random_state :
        As in ``LinearClassifier``.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : 0.0
    objective_, lower_bound_, gap_, certificate_, n_iter_, result_ : as in ``LinearClassifier``

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.standard_normal((300, 5)), np.repeat(np.arange(30), 10)
    >>> y = np.clip(np.round(X @ [1.0, -1.0, 0.5, 0.0, 0.0]), 0, 2)
    >>> ranker = Ranker("ndcg@10", lam=1e-3).fit(X, y, qid=qid)
    >>> ranker.gap_ <= 1e-3 * ranker.objective_, round(ranker.score(X, y, qid=qid), 2)
    (True, 1.0)
    """

    _fitted: ClassVar[tuple[str, ...]] = ("coef_", "intercept_")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CertifiedEstimator._parameter_constraints,
        "loss": [str, callable],
    }

    def __init__(
        self,
        loss: str | MakeRisk = "pairwise",
        lam: float = 1e-2,
        *,
        solver: str | Solver[Any, Any, Any] = "auto",
        gap_rel: float = 1e-3,
        max_steps: int = 10_000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
        callbacks: Callbacks = None,
    ) -> None:
        self._keep(locals())

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, qid: Any = None) -> Ranker:
        """Fit the model to relevances y; documents with equal ``qid`` are one query."""
        check_queries(qid)
        last = Start.of(self)
        X, y = validated(self, X, y=y, y_numeric=True, ensure_min_samples=2, reset=True)
        tasks = self._tasks(trusted_design(X) if isinstance(self.loss, str) else X, y, qid)
        minimizer = self._minimizer()
        result = minimizer(tasks[0].risk, L2(self.lam), start_coef(last, X.shape[1]))
        self._take(tasks, [result.w])
        return self._conclude(minimizer, [result])

    def _tasks(self, X: Any, y: FloatArray, qid: Any) -> list[Task]:
        """The only problem of a fit."""
        return [Task((named_risk(self.loss) if isinstance(self.loss, str) else self.loss)(X, y, qid))]

    def _take(self, tasks: list[Task], solutions: list[FloatArray]) -> None:
        """Set the coefficients."""
        self.coef_, self.intercept_ = solutions[0], tasks[0].risk.intercept(solutions[0])

    def predict(self, X: Any) -> FloatArray:
        """Scores: within a query, the higher the better."""
        return self._scores(X)

    def score(self, X: Any, y: Any, qid: Any = None) -> float:
        """The mean NDCG@10, as scikit-learn's ``ndcg_score`` defines it, over queries with a relevant document."""
        check_queries(qid)
        return mean_ndcg(y, self.predict(X), qid)

    @classmethod
    def from_state(cls, state: ModelState) -> Self:
        """The ranker that ``state`` described; ``ValueError`` if its parts do not fit together."""
        model = super().from_state(state)
        named_risk(model.loss)  # ParameterError for an unknown name
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.positive_only = self.loss not in ANY_SIGN
        return tags


def check_queries(qid: Any) -> None:
    """Refuse documents without queries."""
    if qid is None:
        raise DataError(
            "`qid` must give the query of each document; got None: pass one number per row, equal ones for a single "
            "query, such as qid=np.zeros(len(y))"
        )


def mean_ndcg(y: Any, scores: FloatArray, qid: Any = None, k: int = SCORE_PLACES) -> float:
    """The mean NDCG@k over queries with a relevant document; it is 1 where that is the only document."""
    y, queries = non_negative(y, scores.size), Queries.of(qid, scores.size)
    ranked = [rows for rows in np.split(queries.order, queries.starts[1:-1]) if y[rows].any()]
    if not ranked:
        raise DataError(f"NDCG needs a query with a relevant document; got {queries} without any")
    found = [ndcg_score([y[rows]], [scores[rows]], k=k) if rows.size > 1 else 1.0 for rows in ranked]
    return float(np.mean(found))
