"""A one-class support vector machine with a certificate."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import OutlierMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted
from typing_extensions import override

from undercut.contracts import Solver
from undercut.estimators.certified import CertifiedEstimator
from undercut.estimators.inputs import optional_weight, validated
from undercut.estimators.linear.linear_model import LinearModel, Start, start_coef
from undercut.maps.design import trusted_design
from undercut.regularizers import L2
from undercut.risks import NoveltyRisk
from undercut.trace import Callbacks
from undercut.types import Array, FloatArray


class NoveltyDetector(OutlierMixin, LinearModel, CertifiedEstimator):
    """``min_{w,rho} lam/2 |w|^2 + 1/nu sum_i weight_i max(0, rho - <w, x_i>) - rho``, the weights scaled to sum to one.

    The linear one-class support vector machine (Schölkopf et al. 2001) looks for the hyperplane farthest from the
    origin with all but a share ``nu`` of the samples beyond it; what lies on the origin's side is novel.  Do not
    center the features: where the origin is among the samples there is no such hyperplane, which warns and leaves
    ``coef_`` at zero.

    Parameters
    ----------
    nu : float in (0, 1]
        At most this share of the training samples is called novel, and at least this share are support vectors.
    lam : float
        Lambda only scales ``coef_`` and ``offset_``; predictions do not depend on it.  ``lam = 1 / (nu * n_samples)``
        gives the numbers of scikit-learn's ``OneClassSVM(kernel="linear")``.
    solver : "auto", "line_search_bundle", "cutting_plane", "dual_ascent", or a ``Solver``
    gap_rel, max_steps, max_seconds, warm_start, verbose, random_state, callbacks : as in ``LinearClassifier``

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    offset_ : float
        The margin rho.
    intercept_ : float
        ``-offset_``
    objective_, lower_bound_, gap_, certificate_, n_iter_, result_ : as in ``LinearClassifier``

    Examples
    --------
    >>> X = 3.0 + np.random.default_rng(0).standard_normal((200, 2))
    >>> model = NoveltyDetector(nu=0.1).fit(X)
    >>> round(float((model.predict(X) == -1).mean()), 2), model.predict([[0.0, 0.0], [3.0, 3.0]])
    (0.1, array([-1,  1]))
    """

    _fitted: ClassVar[tuple[str, ...]] = ("coef_", "intercept_")
    _fits_streams: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CertifiedEstimator._parameter_constraints,
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def __init__(
        self,
        nu: float = 0.5,
        lam: float = 1.0,
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
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> NoveltyDetector:
        """Fit the model; ``y`` is ignored, a weight of 2 equals duplicating the sample."""
        last = Start.of(self)
        X = validated(self, X, reset=True)
        risk = NoveltyRisk(trusted_design(X), self.nu, optional_weight(sample_weight, X))
        tiny = 1e-9 * self._scale(X)
        minimizer = self._minimizer(gap_abs=tiny)
        result = minimizer(risk, L2(self.lam), start_coef(last, X.shape[1]))
        if result.objective >= -tiny:
            warnings.warn(
                "the origin lies among the samples, so no hyperplane separates them from it: shift the features, or "
                "lower nu",
                UserWarning,
                stacklevel=2,
            )
        self.coef_, self.intercept_ = result.w, risk.intercept(result.w)
        return self._conclude(minimizer, [result])

    @override
    def _warn_if_constant(self, baseline: float) -> None:
        """``fit`` has its own words for it: the origin lies among the samples."""

    def _scale(self, X: Any) -> float:
        """What ``-objective = |nearest point of the samples' reduced hull|^2 / (2 lam)`` is to be compared with."""
        squares = trusted_design(X).squared_rmatvec(np.ones(X.shape[0])).sum()
        return float(squares) / (X.shape[0] * 2.0 * self.lam)

    @property
    def offset_(self) -> float:
        """The margin rho: ``decision_function = score_samples - offset_``."""
        return -self.intercept_

    def score_samples(self, X: Any) -> FloatArray:
        """``<w, x>``, the larger the more ordinary."""
        check_is_fitted(self)
        scores: FloatArray = validated(self, X) @ self.coef_
        return scores

    def decision_function(self, X: Any) -> FloatArray:
        """``<w, x> - rho``: negative for what is novel."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> Array:
        """-1 for novel samples, +1 for the others."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)
