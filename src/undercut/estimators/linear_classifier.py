"""A linear classifier with a certificate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from undercut.contracts import Loss, MarginLoss, MulticlassLoss, Regularizer, Solver
from undercut.errors import DataError, ParameterError
from undercut.estimators import penalties
from undercut.estimators.linear_model import Fit, LinearModel
from undercut.estimators.sparse_coef import SparseCoefMixin, dense_coef
from undercut.losses import CrammerSinger, Hinge, Logistic, Softmax, of_kind
from undercut.risks import LinearRisk, MulticlassRisk
from undercut.trace import Status
from undercut.types import Array, FloatArray


def _has_probabilities(model: Any) -> bool:
    return model.loss == "logistic" or isinstance(model.loss, Logistic)


class ClassifierBase(ClassifierMixin, LinearModel):
    """Labels, class weights, one problem per class against the rest, and predictions."""

    _losses: ClassVar[dict[str, type[Loss]]] = of_kind(MarginLoss)

    def _fit_one_against_rest(self, X: Any, y: Any, sample_weight: Any, solve: Callable[..., Fit]) -> Any:
        """Fit every class against the rest with ``solve(X, target, weight, w0, title, brief)``."""
        X, y, codes, start = self._encoded(X, y)
        weight = self._weights(X, y, codes, sample_weight)
        return self._fit_problems(X, codes, weight, start, solve)

    def _fit_problems(
        self,
        X: Any,
        codes: Array,
        weight: FloatArray | None,
        start: tuple[FloatArray, FloatArray] | None,
        solve: Callable[..., Fit],
    ) -> Any:
        """The problems of all classes, from codes 0 ... K-1; a negative one makes a target of zero."""
        fits: list[Fit] = []
        for at, code in enumerate(self._positives(self.classes_.size)):
            target = np.where(codes < 0, 0.0, np.where(codes == code, 1.0, -1.0))
            title = f"class {self.classes_[code]}" if self.classes_.size > 2 else ""
            w0 = None if start is None else self._joined(start[0][at], start[1][at])
            interrupted = any(fit.result.status is Status.STOPPED for fit in fits)
            fits.append(solve(X, target, weight, w0, title, brief=interrupted))
        self._set_fits(fits)
        self._report([fit.result for fit in fits])
        return self

    def _encoded(self, X: Any, y: Any) -> tuple[Any, Array, Array, tuple[FloatArray, FloatArray] | None]:
        """X, y and its codes 0 ... K-1, and the last coefficients and intercepts where they can be started from."""
        last = self._last()
        X, y = self._validated(X, reset=True, y=y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise DataError(f"a classifier needs samples of at least 2 classes; got 1 class: {self.classes_[0]}")
        return X, y, codes, self._start(X, last)

    def _last(self) -> tuple[Any, FloatArray, FloatArray] | None:
        """Classes, coefficients and intercepts of the last fit, with ``warm_start``."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        return self.classes_, dense_coef(self), self.intercept_

    def _start(self, X: Any, last: tuple[Any, FloatArray, FloatArray] | None) -> tuple[FloatArray, FloatArray] | None:
        """What of the last fit this one can start from."""
        if last is None:
            return None
        classes, coef, intercept = last
        fits = np.array_equal(classes, self.classes_) and coef.shape[1] == X.shape[1]
        return (coef, intercept) if fits else None

    def _set_fits(self, fits: list[Fit]) -> None:
        self.coef_ = np.stack([fit.w for fit in fits])
        self.intercept_ = np.array([fit.intercept for fit in fits])

    @staticmethod
    def _positives(n_classes: int) -> list[int]:
        return [1] if n_classes == 2 else list(range(n_classes))

    def _weights(self, X: Any, y: Array, codes: Array, sample_weight: Any) -> FloatArray | None:
        if sample_weight is None and self.class_weight is None:
            return None
        weight: FloatArray = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if self.class_weight is None:
            return weight
        per_class = compute_class_weight(self.class_weight, classes=self.classes_, y=y, sample_weight=weight)
        return weight * per_class[codes]

    def decision_function(self, X: Any) -> FloatArray:
        """Scores: one per sample for two classes, else one per sample and class."""
        scores = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:
        """The class with the largest score."""
        return self._decided(self._scores(X))

    def _decided(self, scores: FloatArray) -> Array:
        codes = (scores[:, 0] > 0.0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        labels: Array = self.classes_[codes]
        return labels

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities under the logistic loss; several one-against-rest classes are normalized."""
        probability: FloatArray = expit(self._scores(X))
        if probability.shape[1] == 1:
            return np.hstack([1.0 - probability, probability])
        return np.asarray(probability / probability.sum(axis=1, keepdims=True))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class LinearClassifier(SparseCoefMixin, ClassifierBase):
    """``min_{w,b} reg(w) + sum_i weight_i l(y_i, <w, x_i> + b)``, the weights scaled to sum to one.

    Several classes are fitted one against the rest, and the certificate is the sum of theirs; or jointly, with one
    row of W per class and a loss of all scores ``W x + b``, by ``multi_class``.

    Parameters
    ----------
    loss : "hinge", "squared_hinge", "huber_hinge", "logistic", "exponential", "ramp", or a ``Loss``
        The ramp loss is not convex: the search starts from the hinge loss's optimum and ends at a stationary point,
        and the gap is that of a local model.
    lam : float
        Lambda; ``lam_from_C(C, n_samples)`` translates from ``C``.
    penalty : "l2", "l1", "elasticnet", or a ``Regularizer``
        ``lam/2 |w|^2``, ``lam |w|_1``, ``lam (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)``; a ``Regularizer`` brings its
        own lambda.  Under the last two named ones most coefficients are exactly zero.
    l1_ratio : float
        Share of the absolute values in "elasticnet".
    solver : "auto", the name of a solver such as "cutting_plane", or a ``Solver``
    fit_intercept : bool
        Whether to fit an intercept, which is not penalized.
    class_weight : dict, "balanced" or None
    multi_class : "ovr", "crammer_singer" or "multinomial"
        One problem per class against the rest; or one problem for all, with the Crammer-Singer hinge (``loss="hinge"``)
        or the softmax (``loss="logistic"``).
    label_loss : array of shape (n_classes, n_classes) or None
        For "crammer_singer": what it costs to take class i for class j, in the order of ``classes_``; 1 by default.
    gap_rel : float
        Stop once ``objective - lower_bound <= gap_rel * objective``.
    max_steps, max_seconds : limits for each problem; reaching one warns and keeps the certificate.
    warm_start : bool
        Start from the last fit's coefficients.
    verbose : 0 or 1
        Whether to show objective, bound and gap of fits longer than a second.
    random_state : ignored; every batch solver is deterministic.

    Attributes
    ----------
    coef_ : array of shape (1, n_features), or (n_classes, n_features) for more than two classes
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of labels
    objective_, lower_bound_, gap_ : the certificate: ``lower_bound_ <= optimum <= objective_``
    certificate_ : "global", or "local" for a non-convex loss: ``gap_`` is then the model gap, and there is no bound
    n_iter_ : steps of the longest run
    result_ : ``Result``, or a list of one per class

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = LinearClassifier(lam=1e-3).fit(scale(X), y)
    >>> clf.gap_ <= 1e-3 * clf.objective_, round(clf.score(scale(X), y), 2)
    (True, 0.99)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        **penalties.CONSTRAINTS,
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "multi_class": [StrOptions({"ovr", "crammer_singer", "multinomial"})],
        "label_loss": ["array-like", None],
    }

    def __init__(
        self,
        loss: str | Loss = "hinge",
        lam: float = 1e-4,
        *,
        penalty: str | Regularizer = "l2",
        l1_ratio: float = 0.5,
        solver: str | Solver[Any, Any, Any] = "auto",
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        multi_class: str = "ovr",
        label_loss: Any = None,
        gap_rel: float = 1e-3,
        max_steps: int = 10_000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.label_loss = label_loss
        self.gap_rel = gap_rel
        self.max_steps = max_steps
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearClassifier:
        """Fit the model; ``sample_weight`` counts a sample that often."""
        loss = self._joint_loss()
        if loss is None:
            return self._fit_one_against_rest(X, y, sample_weight, self._solve_from_convex)
        return self._fit_jointly(X, y, sample_weight, loss)

    def _solve_from_convex(
        self, X: Any, y: FloatArray, weight: Array | None, w0: FloatArray | None, title: str, *, brief: bool
    ) -> Fit:
        """Fit one problem; a non-convex one from the optimum of the hinge loss."""
        if w0 is None and not self._loss().is_convex:
            hinge = LinearRisk(X, y, Hinge(), sample_weight=weight, fit_intercept=self.fit_intercept)
            w0 = self._minimize(hinge, None, title, solver="auto", brief=brief).w
        return self._solve(X, y, weight, w0, title, brief=brief)

    def _joint_loss(self) -> MulticlassLoss | None:
        """The loss of all scores, ``None`` for one class against the rest."""
        if self.label_loss is not None and self.multi_class != "crammer_singer":
            raise ParameterError(
                f'`label_loss` belongs to multi_class="crammer_singer"; got multi_class={self.multi_class!r}'
            )
        if self.multi_class == "ovr":
            return None
        name, kind = {"crammer_singer": ("hinge", Hinge), "multinomial": ("logistic", Logistic)}[self.multi_class]
        if not isinstance(self._loss(), kind):
            raise ParameterError(
                f'`multi_class={self.multi_class!r}` goes with loss="{name}"; got loss={self.loss!r}: '
                f'set that, or multi_class="ovr", which takes every loss'
            )
        return Softmax() if self.multi_class == "multinomial" else CrammerSinger(self.label_loss)

    def _fit_jointly(self, X: Any, y: Any, sample_weight: Any, loss: MulticlassLoss) -> LinearClassifier:
        """One problem for all classes; two classes are left with the difference of their rows."""
        X, y, codes, start = self._encoded(X, y)
        K = self.classes_.size
        weight = self._weights(X, y, codes, sample_weight)
        risk = MulticlassRisk(X, codes, loss, weight, fit_intercept=self.fit_intercept, n_classes=K)
        w0 = None
        if start is not None:
            w0 = (start[0] if K > 2 else np.vstack([-0.5 * start[0], 0.5 * start[0]])).reshape(-1)
        result = self._minimize(risk, w0)
        W, b = result.w.reshape(K, -1), risk.intercepts(result.w)
        self.coef_, self.intercept_ = (W, b) if K > 2 else (W[1:] - W[:1], b[1:] - b[:1])
        self._report([result])
        return self

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities: the softmax of the scores, or one-against-rest probabilities normalized."""
        if self.multi_class == "multinomial" and (scores := self._scores(X)).shape[1] > 1:
            return softmax(scores, axis=1)
        return super().predict_proba(X)
