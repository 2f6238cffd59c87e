"""A linear regressor for data that are large or stream by."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context

from undercut.contracts import Loss
from undercut.estimators.cluster import blocks
from undercut.estimators.cluster.partitions import PartitionedData, is_partitioned
from undercut.estimators.inputs import optional_weight, take_columns, validated
from undercut.estimators.linear.linear_model import Start
from undercut.estimators.linear.linear_regressor import RegressorBase
from undercut.estimators.online.online_model import STREAM, OnlineModel
from undercut.estimators.targets import Problem
from undercut.solvers.online.base import OnlineSolver
from undercut.trace import Callbacks


class OnlineRegressor(RegressorBase, OnlineModel):
    """``min_w lam/2 |w|^2 + sum_i weight_i l(y_i, <w, x_i>)`` by projected subgradient steps on mini-batches.

    Parameters and attributes are those of ``OnlineClassifier``, with the losses of ``LinearRegressor``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> OnlineRegressor(loss="absolute", lam=1e-4).fit(scale(X), y / 100).score(scale(X), y / 100) > 0.4
    True
    """

    _fitted: ClassVar[tuple[str, ...]] = ("coef_", "intercept_", *STREAM)

    def __init__(
        self,
        loss: str | Loss = "squared",
        lam: float = 1e-4,
        *,
        solver: str | OnlineSolver = "optimistic_proximal",
        fit_intercept: bool = True,
        n_passes: int = 50,
        batch_size: int = 1,
        average: bool = False,
        certify: bool = False,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
        callbacks: Callbacks = None,
    ) -> None:
        self._keep(locals())

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnlineRegressor:
        """Pass over the data ``n_passes`` times and keep the best iterate; data may be in partitions, as there."""
        self._forget_stream()
        last = Start.of(self)
        if is_partitioned(X):
            data = PartitionedData.of(X, y, sample_weight=sample_weight)
            take_columns(self, data)
            risk = data.risk(blocks.regression, loss=self._loss(), fit_intercept=False, design=self._make_design())
            minimizer = self._minimizer()
            problem = Problem(np.empty(0), self._start(last, data.n_features), "")
            self.coef_, self.intercept_, result = self._fit_partitions(risk, minimizer, problem)
            return self._conclude(minimizer, [result])
        self._check_in_memory()
        X, y = validated(self, X, y=y, y_numeric=True, reset=True)
        weight = optional_weight(sample_weight, X)
        minimizer = self._minimizer()
        problem = Problem(y, self._start(last, X.shape[1]), "")
        self.coef_, self.intercept_, result = self._fit_passes(X, weight, minimizer, problem)
        return self._conclude(minimizer, [result])

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> OnlineRegressor:
        """Learn from one chunk."""
        self._online_solver().check_stream(self._loss())
        X, y = validated(self, X, y=y, y_numeric=True, reset=not hasattr(self, "coef_"))
        y, weight = np.asarray(y, dtype=np.float64), self._chunk_weight(X, sample_weight)
        self._loss().check_target(y)
        if not hasattr(self, "_games"):
            known = hasattr(self, "coef_")
            start = self._joined(self.coef_, self.intercept_) if known else np.zeros(X.shape[1] + self.fit_intercept)
            self._start_games([start])
        self.coef_, self.intercept_, _ = self._absorb(X, [y], weight)[0]
        return self
