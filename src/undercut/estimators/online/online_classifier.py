"""A linear classifier for data that are large or stream by."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context

from undercut.contracts import Loss
from undercut.errors import DataError
from undercut.estimators.class_predictions import ClassPredictions, ClassProbabilities
from undercut.estimators.cluster import blocks
from undercut.estimators.cluster.blocks import Target
from undercut.estimators.cluster.partitions import PartitionedData, is_partitioned
from undercut.estimators.inputs import take_columns, validated
from undercut.estimators.linear.linear_classifier import CONVEX_LOSSES
from undercut.estimators.linear.linear_model import Start, stacked
from undercut.estimators.online.online_model import STREAM, OnlineModel
from undercut.estimators.targets import class_factors, class_weighted, encode_classes, one_against_rest, positive_codes
from undercut.solvers.online.base import OnlineSolver
from undercut.trace import Callbacks
from undercut.types import FloatArray


class OnlineClassifier(ClassProbabilities, ClassPredictions, OnlineModel):
    """``min_w lam/2 |w|^2 + sum_i weight_i l(y_i, <w, x_i>)`` by projected subgradient steps on mini-batches.

    ``fit`` passes over the data and keeps the best iterate; ``partial_fit`` and ``fit_stream`` learn from each chunk
    once.  Several classes are fitted one against the rest.

    Parameters
    ----------
    loss : "hinge", "squared_hinge", "huber_hinge", "logistic", "exponential", or a convex ``Loss``
    lam : float
    solver : "optimistic_proximal", "proximal", "adaptive", "pegasos", or an online solver with its own settings
    fit_intercept : bool
        Whether to learn the weight of a constant feature, which is penalized like the others.
    class_weight : dict, "balanced" (``fit`` only) or None
    n_passes, batch_size : passes of ``fit``, and samples per step
    average : bool
        Report the mean of the iterates instead of the last.
    certify : bool
        Whether ``fit`` ends with a lower bound from one plane; without it ``lower_bound_`` is minus infinity.
    warm_start, verbose, callbacks, n_jobs : as in ``LinearClassifier``
    random_state : int, RandomState, Generator or None
        The seed of the order of samples, or what draws a new one for each fit; ``None`` is 0, so that runs repeat.

    Attributes
    ----------
    coef_, intercept_, classes_ : as in ``LinearClassifier``
    objective_, lower_bound_, gap_, n_iter_, result_ : as there, after ``fit``
    n_samples_seen_ : int, after ``partial_fit``

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> OnlineClassifier(lam=1e-3).fit(X, y).score(X, y) > 0.97
    True
    >>> stream = ((X[i : i + 50], y[i : i + 50]) for i in range(0, 569, 50))
    >>> OnlineClassifier(lam=1e-3).fit_stream(stream, classes=[0, 1]).score(X, y) > 0.9
    True
    """

    _losses: ClassVar[dict[str, type[Loss]]] = CONVEX_LOSSES
    _fitted: ClassVar[tuple[str, ...]] = ("classes_", "coef_", "intercept_", *STREAM)

    def __init__(
        self,
        loss: str | Loss = "hinge",
        lam: float = 1e-4,
        *,
        solver: str | OnlineSolver = "optimistic_proximal",
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        n_passes: int = 50,
        batch_size: int = 1,
        average: bool = False,
        certify: bool = False,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
        callbacks: Callbacks = None,
        n_jobs: int | None = None,
    ) -> None:
        self._keep(locals())

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnlineClassifier:
        """Pass over the data ``n_passes`` times and keep the best iterate.

        X, y and the weights may be Dask arrays or dataframes, or X the names of SVMlight files that workers read: the
        model visits the partitions in turn, or, with ``solver=MeanOfPartitions()``, all at once.
        """
        self._forget_stream()
        last = Start.of(self)
        if is_partitioned(X):
            return self._fit_data(PartitionedData.of(X, y, sample_weight=sample_weight), last)
        self._check_in_memory()
        X, y = validated(self, X, y=y, reset=True)
        self.classes_, codes = encode_classes(y)
        weight = class_weighted(X, y, self.classes_, codes, self.class_weight, sample_weight)
        start = self._start(last, X.shape[1], self.classes_)
        minimizer = self._minimizer()
        fit_one = partial(self._fit_passes, X, weight, minimizer)
        fits = list(minimizer.each(fit_one, one_against_rest(self.classes_, codes, start)))
        self.coef_, self.intercept_ = stacked(fits)
        return self._conclude(minimizer, [fit.result for fit in fits])

    def _fit_data(self, data: PartitionedData, last: Start | None) -> OnlineClassifier:
        """Pass over data in partitions."""
        take_columns(self, data)
        self.classes_, counts = data.classes()
        target = Target(self.classes_, class_factors(self.class_weight, self.classes_, counts))
        start = self._start(last, data.n_features, self.classes_)
        make = partial(data.risk, blocks.one_class, target=target, fit_intercept=False, design=self._make_design())
        minimizer = self._minimizer()
        problems = list(one_against_rest(self.classes_, np.empty(0, np.int64), start))
        risks = [make(code=code, loss=self._loss()) for code in positive_codes(self.classes_.size)]
        fits = [self._fit_partitions(risk, minimizer, each) for risk, each in zip(risks, problems, strict=True)]
        self.coef_, self.intercept_ = stacked(fits)
        return self._conclude(minimizer, [fit.result for fit in fits])

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> OnlineClassifier:
        """Learn from one chunk; the first call names all ``classes`` unless its chunk holds them all."""
        if self.class_weight == "balanced":
            raise DataError("class_weight='balanced' needs all the data: give a dict to partial_fit, or use fit")
        self._online_solver().check_stream(self._loss())
        first = not hasattr(self, "_games")
        X, y = validated(self, X, y=y, reset=not hasattr(self, "coef_"))
        labels = self._labels(y, classes, first)
        unknown = np.setdiff1d(y, labels)
        if unknown.size:
            raise DataError(
                f"class {unknown[0]!r} is not among {labels.tolist()}: name all classes at the first partial_fit"
            )
        codes = np.searchsorted(labels, y)
        targets = [np.where(codes == code, 1.0, -1.0) for code in positive_codes(labels.size)]
        weight = self._chunk_weight(X, sample_weight, self._class_factors(labels)[codes])
        if first:
            starts = self._known_starts(len(targets), X.shape[1])
            self.classes_ = labels
            self._start_games(starts)
        self.coef_, self.intercept_ = stacked(self._absorb(X, targets, weight))
        return self

    def _known_starts(self, n_problems: int, n_features: int) -> list[FloatArray]:
        """Where the games begin: at the last fit, if there is one."""
        if hasattr(self, "coef_"):
            return list(self._joined(self.coef_, self.intercept_))
        return [np.zeros(n_features + int(self.fit_intercept)) for _ in range(n_problems)]

    def _labels(self, y: Any, classes: Any, first: bool) -> Any:
        known = self.classes_ if hasattr(self, "classes_") and (not first or hasattr(self, "coef_")) else None
        named = None if classes is None else np.unique(np.asarray(classes))
        if known is not None:
            if named is not None and not np.array_equal(named, known):
                raise DataError(f"`classes` must stay {known.tolist()}; got {named.tolist()}")
            return known
        labels = np.unique(y) if named is None else named
        if labels.size < 2:
            raise DataError(f"a classifier needs at least 2 classes; got 1 class: {labels[0]!r}; name all in `classes`")
        return labels

    def _class_factors(self, labels: Any) -> FloatArray:
        weights = self.class_weight if isinstance(self.class_weight, dict) else {}
        factors = np.array([float(weights.get(label, 1.0)) for label in labels.tolist()])
        if not (np.isfinite(factors) & (factors >= 0.0)).all():
            raise DataError(f"class_weight must be finite and non-negative; got {self.class_weight}")
        return factors
