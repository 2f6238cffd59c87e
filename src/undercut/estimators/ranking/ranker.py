"""A linear ranker with a certificate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from undercut.contracts import Solver
from undercut.errors import DataError, ParameterError
from undercut.estimators.certified import CertifiedEstimator
from undercut.estimators.cluster import blocks
from undercut.estimators.cluster.lazy import lazily
from undercut.estimators.cluster.partitions import PartitionedData, is_partitioned
from undercut.estimators.inputs import take_columns, validated
from undercut.estimators.linear.linear_model import LinearModel, Start, Task, start_coef
from undercut.estimators.ranking.retrieval import ranking_score
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
    ShardedRisk,
    WeightedPairwiseRisk,
)
from undercut.risks.ranking.gains import half_gain
from undercut.risks.ranking.queries import non_negative
from undercut.risks.ranking.ranking import WEIGHTINGS
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
OF_PAIRS = ("pairwise", "weighted_pairwise", "precision")  # losses of pairs, whose queries can be weighted
WEIGHTING = "root"


def named_risk(loss: str, weighting: str = WEIGHTING) -> MakeRisk:
    """The risk that a name stands for, and the weighting of queries in those of pairs.

    >>> named_risk("structured_ndcg@5").keywords
    {'k': 5}
    """
    measure, _, places = loss.partition("@")
    if weighting != WEIGHTING and measure not in OF_PAIRS:
        raise ParameterError(
            f"`weighting` is for {', '.join(map(repr, OF_PAIRS))}, the losses of pairs: leave it at {WEIGHTING!r}; "
            f"got {weighting!r} with the loss {loss!r}"
        )
    if weighting != WEIGHTING:
        return partial(named_risk(loss), weighting=weighting)
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
    weighting : "query", "root" or "pair"
        The weight of a query in the losses of pairs ("pairwise", "weighted_pairwise", "precision@k"): equal, the root
        of its number of pairs, or that number, so that all pairs weigh the same.
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
    _fits_streams: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CertifiedEstimator._parameter_constraints,
        "loss": [str, callable],
        "weighting": [StrOptions(set(WEIGHTINGS))],
    }

    def __init__(
        self,
        loss: str | MakeRisk = "pairwise",
        lam: float = 1e-2,
        *,
        weighting: str = WEIGHTING,
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
    def fit(self, X: Any, y: Any = None, qid: Any = None, sample_weight: Any = None) -> Ranker:
        """Fit the model to relevances y; documents with equal ``qid`` are one query, and have one weight.

        All may be Dask arrays, or X the names of SVMlight files that workers read; a query is in one partition.
        """
        last = Start.of(self)
        if is_partitioned(X):
            data = PartitionedData.of(X, y, qid=qid, sample_weight=sample_weight, whole_files=True)
            tasks = [Task(self._shards(data))]
        else:
            check_queries(qid)
            X, y = validated(self, X, y=y, y_numeric=True, ensure_min_samples=2, reset=True)
            tasks = self._tasks(trusted_design(X) if isinstance(self.loss, str) else X, y, qid, sample_weight)
        minimizer = self._minimizer()
        result = minimizer(tasks[0].risk, L2(self.lam), start_coef(last, self.n_features_in_))
        self._take(tasks, [result.w])
        return self._conclude(minimizer, [result])

    def _shards(self, data: PartitionedData) -> ShardedRisk:
        """The problem of data in partitions."""
        data.check_queries()
        take_columns(self, data)
        make = named_risk(self.loss, self.weighting) if isinstance(self.loss, str) else self.loss
        return data.risk(blocks.ranking, risk_of=make)

    def _tasks(self, X: Any, y: FloatArray, qid: Any, sample_weight: Any = None) -> list[Task]:
        """The only problem of a fit."""
        make = named_risk(self.loss, self.weighting) if isinstance(self.loss, str) else self.loss
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return [Task(make(X, y, qid, **weights))]

    def _take(self, tasks: list[Task], solutions: list[FloatArray]) -> None:
        """Set the coefficients."""
        self.coef_, self.intercept_ = solutions[0], tasks[0].risk.intercept(solutions[0])

    @lazily
    def predict(self, X: Any) -> FloatArray:
        """Scores: within a query, the higher the better."""
        return self._scores(X)

    def score(self, X: Any, y: Any, qid: Any = None, metric: str = "ndcg@10") -> float:
        """The mean of a measure over queries with a relevant document, larger is better.

        metric : "ndcg", "exponential_ndcg" (gain ``2^y - 1``), "map", "mrr", "precision" or "err", with ``@k`` for the
            first k places; ties are broken as in trec_eval: the later row first.
        """
        check_queries(qid)
        return ranking_score(metric, y, self.predict(X), qid)

    def _remedy_for_constant(self) -> str:
        if isinstance(self.loss, str) and self.loss.startswith("structured"):
            return f'the bound of {self.loss!r} cannot be improved on here: use loss="ndcg@10", "pairwise" or "map"'
        return "use a smaller lam or a smaller gap_rel, scale the features, or try another loss"

    @classmethod
    def from_state(cls, state: ModelState) -> Self:
        """The ranker that ``state`` described; ``ValueError`` if its parts do not fit together."""
        model = super().from_state(state)
        named_risk(model.loss, model.weighting)  # ParameterError for an unknown name
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
