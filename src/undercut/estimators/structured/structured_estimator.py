"""Structured prediction with a certificate, for the user's own models."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from undercut.contracts import MarginalModel, PredictingModel, Risk, Solver
from undercut.errors import CapabilityError, require
from undercut.estimators.certified import CertifiedEstimator
from undercut.estimators.cluster.examples import examples_there, mean_score, sharded_risk
from undercut.estimators.cluster.lazy import mapped_bag
from undercut.estimators.cluster.partitions import is_collection
from undercut.io.model_file import ModelState
from undercut.maps.parts import Parts
from undercut.regularizers import L2
from undercut.risks import LikelihoodRisk, StructuredRisk
from undercut.threads import in_threads
from undercut.trace import Callbacks
from undercut.types import FloatArray

CACHE = 50  # labelings per example that a margin keeps: what decoding costs is saved many times


def _has_marginals(estimator: Any) -> bool:
    return isinstance(estimator._model(), MarginalModel)


class StructuredEstimator(CertifiedEstimator):
    """``min_w lam/2 |w|^2 + sum_i weight_i l(example i)`` for a ``StructuredModel``, weights scaled to sum to one.

    The model is any object with the methods of ``undercut.contracts.StructuredModel`` for ``loss="margin"``, or of
    ``LikelihoodModel`` for ``loss="crf"``.  ``predict`` needs its method ``predict(w, x)``, and ``predict_marginals``
    needs ``marginals(w, x)``; w is what ``prepare(w)`` returned where the model has that method.

    Parameters
    ----------
    model : a ``StructuredModel`` or ``LikelihoodModel``
    loss : "margin" or "crf"
        The large-margin loss with margin rescaling, or the negative log-likelihood.
    lam : float
        Lambda, beside the mean loss of an example.
    solver : "auto", the name of a solver, or a ``Solver``
        "auto" is ``CachedCuttingPlane`` for "margin", ``ProximalBundle`` where examples are in partitions, and
        ``NonconvexBundle`` for "crf".
    n_jobs : int
        Threads or processes that share the examples, -1 for one per core; see ``StructuredRisk``.
    gap_rel, max_steps, max_seconds, warm_start, verbose, random_state, callbacks : as in ``LinearClassifier``

    Attributes
    ----------
    coef_ : array of shape (n_params,)
    objective_, lower_bound_, gap_, certificate_, n_iter_, result_ : as in ``LinearClassifier``

    Examples
    --------
    >>> class Classes:  # Psi(x, y) has x in block y
    ...     n_params = 6
    ...     def joint_feature(self, x, y):
    ...         return 2 * y + np.arange(2), x
    ...     def label_loss(self, y, y_hat):
    ...         return float(y != y_hat)
    ...     def decode(self, w, x, y, rescaling):
    ...         return int(np.argmax(w.reshape(3, 2) @ x + (np.arange(3) != y)))
    ...     def predict(self, w, x):
    ...         return int(np.argmax(w.reshape(3, 2) @ x))
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]), [0, 1, 2]
    >>> estimator = StructuredEstimator(Classes(), lam=0.01).fit(X, y)
    >>> estimator.predict(X), estimator.score(X, y), estimator.certificate_
    ([0, 1, 2], 1.0, 'global')
    """

    coef_: FloatArray
    _fitted: ClassVar[tuple[str, ...]] = ("coef_",)
    _losses: ClassVar[tuple[str, ...]] = ("crf", "margin")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CertifiedEstimator._parameter_constraints,
        "model": [HasMethods(["joint_feature"])],
        "loss": [StrOptions({"margin", "crf"})],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), Options(Integral, {-1})],
    }

    def __init__(
        self,
        model: Any,
        loss: str = "margin",
        lam: float = 1e-2,
        *,
        solver: str | Solver[Any, Any, Any] = "auto",
        n_jobs: int = 1,
        gap_rel: float = 1e-2,
        max_steps: int = 10_000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
        callbacks: Callbacks = None,
    ) -> None:
        self._keep(locals())

    def _model(self) -> Any:
        return self.model

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to inputs X and their labelings; a weight of 2 equals duplicating the example.

        X, y and the weights may be Dask bags, whose examples stay on the workers.
        """
        if is_collection(X):
            return self._fit_risk(self._risk_there(examples_there(X, y, sample_weight)))
        return self._fit_risk(self._risk(X, y, sample_weight))

    def _fit_risk(self, risk: Risk) -> Self:
        minimizer = self._minimizer()
        result = minimizer(risk, L2(self.lam), self._start(risk.n_params))
        self.coef_, self.n_features_in_ = result.w, risk.n_params
        return self._conclude(minimizer, [result])

    def _risk(self, X: Sequence[Any], Y: Sequence[Any], sample_weight: Any) -> Risk:
        if self.loss == "crf":
            return LikelihoodRisk(self._model(), X, Y, n_jobs=self.n_jobs, sample_weight=sample_weight)
        return StructuredRisk(self._model(), X, Y, n_jobs=self.n_jobs, cache=CACHE, sample_weight=sample_weight)

    def _risk_there(self, parts: Parts) -> Risk:
        """The same for examples in partitions, each of which has a worker of its own."""
        require(self.n_jobs == 1, "`n_jobs` must be 1 for examples in partitions: start more workers", self.n_jobs)
        kind = LikelihoodRisk if self.loss == "crf" else StructuredRisk
        return sharded_risk(parts, kind, model=self._model())

    def _start(self, n_params: int) -> FloatArray | None:
        last = getattr(self, "coef_", None) if self.warm_start else None
        return last if last is not None and last.shape == (n_params,) else None

    def predict(self, X: Any) -> Any:
        """The labeling of the highest score for every input; of a Dask bag a bag, computed when it is asked for."""
        if is_collection(X):
            return mapped_bag(self, "predict", X)
        model = self._model()
        if not isinstance(model, PredictingModel):
            raise CapabilityError(
                f"predict needs a model with `predict(w, x)`, and this {type(model).__name__} has none"
            )
        return self._each(model.predict, X)

    @available_if(_has_marginals)
    def predict_marginals(self, X: Any) -> Any:
        """The probabilities of the parts of a labeling, for every input."""
        if is_collection(X):
            return mapped_bag(self, "predict_marginals", X)
        return self._each(self._model().marginals, X)

    def _each(self, method: Any, X: Sequence[Any]) -> list[Any]:
        """What a method of the model says of every input, in threads if it releases the interpreter."""
        check_is_fitted(self)
        model = self._model()
        w = model.prepare(self.coef_) if hasattr(model, "prepare") else self.coef_
        if not getattr(model, "releases_gil", False):
            return [method(w, x) for x in X]
        return in_threads(lambda i: method(w, X[i]), len(X))

    def score(self, X: Any, y: Any) -> float:
        """1 minus the mean label loss."""
        if is_collection(X):
            return mean_score(examples_there(X, y), self)
        losses = [self._model().label_loss(truth, labeling) for truth, labeling in zip(y, self.predict(X), strict=True)]
        return float(1.0 - np.mean(losses))

    @classmethod
    def from_state(cls, state: ModelState) -> Self:
        """The estimator that ``state`` described; ``ValueError`` if its parts do not fit together."""
        estimator = super().from_state(state)
        if estimator.coef_.shape != (estimator._model().n_params,):
            raise ValueError(
                f"coef_ of shape {estimator.coef_.shape} does not fit {estimator._model().n_params} weights"
            )
        return estimator
