"""A linear regressor for data that are large or stream by."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.validation import _check_sample_weight

from undercut.contracts import Loss
from undercut.estimators.linear_regressor import RegressorBase
from undercut.estimators.online_model import OnlineModel
from undercut.solvers.online.base import OnlineSolver
from undercut.types import FloatArray


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
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.n_passes = n_passes
        self.batch_size = batch_size
        self.average = average
        self.certify = certify
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OnlineRegressor:
        """Pass over the data ``n_passes`` times and keep the best iterate."""
        self._forget_stream()
        start: FloatArray | None = getattr(self, "coef_", None) if self.warm_start else None
        X, y = self._validated(X, reset=True, y=y, y_numeric=True)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        w0 = None
        if start is not None and start.shape == (X.shape[1],):
            w0 = self._joined(start, float(self.intercept_))  # type: ignore[has-type]
        self.coef_, self.intercept_, result = self._fit_passes(X, y, sample_weight, w0)
        self._report([result])
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> OnlineRegressor:
        """Learn from one chunk."""
        self._online_solver().check_stream(self._loss())
        X, y = self._validated(X, reset=not hasattr(self, "coef_"), y=y, y_numeric=True)
        y, weight = np.asarray(y, dtype=np.float64), self._chunk_weight(X, sample_weight)
        self._loss().check_target(y)
        if not hasattr(self, "_games"):
            known = hasattr(self, "coef_")
            start = self._joined(self.coef_, self.intercept_) if known else np.zeros(X.shape[1] + self.fit_intercept)
            self._start_games([start])
        self.coef_, self.intercept_, _ = self._absorb(X, [y], weight)[0]
        return self
