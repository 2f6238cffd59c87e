"""A linear regressor with a certificate."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import RegressorMixin, _fit_context

from undercut.contracts import Loss, RegressionLoss, Regularizer, Solver
from undercut.estimators import penalties
from undercut.estimators.certified import CertifiedEstimator
from undercut.estimators.cluster import blocks
from undercut.estimators.cluster.lazy import lazily
from undercut.estimators.cluster.partitions import PartitionedData, is_partitioned
from undercut.estimators.inputs import optional_weight, take_columns, validated
from undercut.estimators.linear.linear_model import LinearModel, Start, Task, start_coef
from undercut.estimators.linear.sparse_coef import SparseCoefMixin
from undercut.losses import Poisson, of_kind
from undercut.maps.design import trusted_design
from undercut.risks import LinearRisk, ShardedRisk
from undercut.trace import Callbacks
from undercut.types import FloatArray


class RegressorBase(RegressorMixin, LinearModel):
    """Losses of regression and predictions."""

    _fitted: ClassVar[tuple[str, ...]] = ("coef_", "intercept_")
    _losses: ClassVar[dict[str, type[Loss]]] = of_kind(RegressionLoss)

    def _take(self, tasks: list[Task], solutions: list[FloatArray]) -> None:
        """Set the coefficients."""
        self.coef_, self.intercept_ = solutions[0], tasks[0].risk.intercept(solutions[0])

    @lazily
    def predict(self, X: Any) -> FloatArray:
        """The score, or for the Poisson loss the mean ``exp(score)``."""
        return self._loss().predict(self._scores(X).ravel())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = isinstance(self.loss, Poisson) or self.loss == "poisson"
        return tags


class LinearRegressor(SparseCoefMixin, RegressorBase, CertifiedEstimator):
    """``min_{w,b} reg(w) + sum_i weight_i l(y_i, <w, x_i> + b)``, the weights scaled to sum to one.

    Parameters
    ----------
    loss : "squared", "absolute", "epsilon_insensitive", "quantile", "huber", "poisson", or a ``Loss``
        A loss with settings of its own is given as an object: ``Quantile(0.9)``, ``EpsilonInsensitive(0.5)``.
    lam, penalty, l1_ratio, solver, fit_intercept, gap_rel, max_steps, max_seconds, warm_start, verbose, random_state :
        As in ``LinearClassifier``.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : float
    objective_, lower_bound_, gap_ : the certificate: ``lower_bound_ <= optimum <= objective_``
    n_iter_ : steps of the run
    result_ : ``Result``

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearRegressor(loss="absolute", lam=1e-6).fit(X, y)
    >>> model.gap_ <= 1e-3 * model.objective_, round(model.score(X, y), 1)
    (True, 0.5)
    """

    _fits_streams: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CertifiedEstimator._parameter_constraints,
        **penalties.CONSTRAINTS,
    }

    def __init__(
        self,
        loss: str | Loss = "squared",
        lam: float = 1e-4,
        *,
        penalty: str | Regularizer = "l2",
        l1_ratio: float = 0.5,
        solver: str | Solver[Any, Any, Any] = "auto",
        fit_intercept: bool = True,
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
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearRegressor:
        """Fit the model; a weight of 2 equals duplicating the sample.

        X, y and the weights may be Dask arrays or dataframes, or X the names of SVMlight files that workers read.
        """
        last = Start.of(self)
        if is_partitioned(X):
            tasks = [Task(self._shards(PartitionedData.of(X, y, sample_weight=sample_weight)))]
        else:
            X, y = validated(self, X, y=y, y_numeric=True, reset=True)
            tasks = self._tasks(X, y, sample_weight)
        reg = penalties.regularizer(self.penalty, self.lam, self.l1_ratio)
        minimizer = self._minimizer()
        result = minimizer(tasks[0].risk, reg, start_coef(last, self.n_features_in_))
        self._take(tasks, [result.w])
        return self._conclude(minimizer, [result])

    def _shards(self, data: PartitionedData) -> ShardedRisk:
        """The problem of data in partitions."""
        data.require("y", "pass y")
        take_columns(self, data)
        return data.risk(blocks.regression, loss=self._loss(), fit_intercept=self.fit_intercept)

    def _tasks(self, X: Any, y: FloatArray, sample_weight: Any = None) -> list[Task]:
        """The only problem of a fit."""
        weight = optional_weight(sample_weight, X)
        return [Task(LinearRisk(trusted_design(X), y, self._loss(), weight, fit_intercept=self.fit_intercept))]
