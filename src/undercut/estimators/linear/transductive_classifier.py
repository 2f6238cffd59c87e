"""A transductive support vector machine: a linear classifier that keeps away from unlabelled samples too."""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from undercut.contracts import Solver
from undercut.errors import DataError, ParameterError
from undercut.estimators.certified import CertifiedEstimator, Minimizer
from undercut.estimators.class_predictions import ClassPredictions, labels_of
from undercut.estimators.inputs import checked_weight, validated
from undercut.estimators.linear.linear_model import Fit, LinearModel, Start, stacked, start_coef
from undercut.estimators.targets import Problem, class_weighted, encode_classes, one_against_rest
from undercut.losses import Hinge
from undercut.maps.design import trusted_design
from undercut.regularizers import L2
from undercut.risks import LinearRisk, TransductiveRisk
from undercut.trace import Callbacks
from undercut.types import Array, FloatArray

UNLABELLED = -1


class TransductiveClassifier(ClassPredictions, LinearModel, CertifiedEstimator):
    """``min lam/2 |w|^2 + mean over labelled of max(0, 1 - y s) + gamma * mean over unlabelled of max(0, 1 - |s|)``.

    A sample whose label is -1 is unlabelled, as in ``sklearn.semi_supervised``.  The problem is not convex: the search
    starts from the support vector machine of the labelled samples and ends at a stationary point.  Several classes are
    fitted one against the rest.

    Parameters
    ----------
    lam : float
        Lambda.
    gamma : float
        Weight of the unlabelled samples relative to the labelled ones.
    balance : "labelled", float or None
        The share of the last class among the unlabelled samples that the mean of their scores is to show: that of the
        labelled ones, or a number between 0 and 1 (two classes).  It determines the intercept.  None leaves the
        intercept free, or out with ``fit_intercept=False``; a large ``gamma`` may then put all samples on one side.
    solver : "auto", the name of a solver for non-convex risks such as "convex_concave", or a ``Solver``
    fit_intercept, class_weight, gap_rel, max_steps, max_seconds, warm_start, verbose, random_state :
        as in ``LinearClassifier``; class weights apply to the labelled samples.

    Attributes
    ----------
    coef_, intercept_, classes_ : as in ``LinearClassifier``
    transduction_ : array of labels of the training samples, predicted where there was none
    objective_, gap_, certificate_ : the objective and the gap of the local model, which is no bound
    n_iter_, result_ : steps of the longest run, and its ``Result`` or a list of one per class

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> few = np.where(np.arange(y.size) % 20 == 0, y, -1)
    >>> clf = TransductiveClassifier(lam=1e-2).fit(scale(X), few)
    >>> clf.certificate_, round(clf.score(scale(X), y), 2)
    ('local', 0.96)
    """

    _fitted: ClassVar[tuple[str, ...]] = ("classes_", "coef_", "intercept_")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CertifiedEstimator._parameter_constraints,
        "gamma": [Interval(Real, 0.0, None, closed="left")],
        "balance": [StrOptions({"labelled"}), Interval(Real, 0.0, 1.0, closed="neither"), None],
    }

    def __init__(
        self,
        lam: float = 1e-2,
        gamma: float = 1.0,
        *,
        balance: str | float | None = "labelled",
        solver: str | Solver[Any, Any, Any] = "auto",
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        gap_rel: float = 1e-3,
        max_steps: int = 10_000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
        callbacks: Callbacks = None,
        n_jobs: int | None = None,
    ) -> None:
        self._keep(locals())

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TransductiveClassifier:
        """Fit the model; samples whose label is -1 are unlabelled."""
        if self.balance is not None and not self.fit_intercept:
            raise ParameterError("`balance` sets the intercept, and fit_intercept=False leaves none: use balance=None")
        last = Start.of(self)
        X, y = validated(self, X, y=y, reset=True)
        labelled = np.array([label != UNLABELLED for label in y.tolist()])
        codes = np.full(y.size, -1)
        self.classes_, codes[labelled] = _classes(y[labelled])
        if not isinstance(self.balance, str | None) and self.classes_.size > 2:
            raise ParameterError(
                f"`balance` as a number is for two classes; got {self.balance} and {self.classes_.size} classes: "
                "use 'labelled'"
            )
        weight = self._all_weights(X, y, codes, sample_weight)
        minimizer = self._minimizer()
        fit_one = partial(self._fit_one, X, weight, minimizer)
        start = start_coef(last, X.shape[1], self.classes_)
        fits = list(minimizer.each(fit_one, one_against_rest(self.classes_, codes, start), 2 if start is None else 1))
        self.coef_, self.intercept_ = stacked(fits)
        self.transduction_ = labels_of(trusted_design(X).matmat(self.coef_) + self.intercept_, self.classes_)
        self.transduction_[labelled] = y[labelled]
        return self._conclude(minimizer, [fit.result for fit in fits])

    def _fit_one(self, X: Any, weight: FloatArray | None, minimizer: Minimizer, problem: Problem) -> Fit:
        """One problem, from the solution on the labelled samples unless there is a start."""
        design, target, w0 = trusted_design(X), problem.target, problem.start
        labelled = np.flatnonzero(target)
        own = None if weight is None else weight[labelled]
        if w0 is None:
            supervised = LinearRisk(design.take(labelled), target[labelled], Hinge(), own, self.fit_intercept)
            w0 = minimizer(supervised, L2(self.lam), problem=problem.start_of(), solver="auto").w
        mean: float | None = None
        if self.balance == "labelled":
            mean = float(np.average(target[labelled], weights=own))
        elif self.balance is not None:
            mean = 2.0 * float(self.balance) - 1.0
        risk = TransductiveRisk(design, target, self.gamma, weight, fit_intercept=self.fit_intercept, balance=mean)
        return Fit.of(risk, minimizer(risk, L2(self.lam), w0, problem=problem))

    def _all_weights(self, X: Any, y: Array, codes: Array, sample_weight: Any) -> FloatArray | None:
        """Sample weights times class weights, where there is a class."""
        if sample_weight is None and self.class_weight is None:
            return None
        labelled = codes >= 0
        weight = checked_weight(sample_weight, X)
        known = (X[labelled], y[labelled], self.classes_, codes[labelled])
        weight[labelled] = class_weighted(*known, self.class_weight, weight[labelled])
        empty = np.bincount(codes[labelled], weights=weight[labelled]) == 0.0
        if empty.any():
            raise DataError(f"every class needs a positive weight; the class {self.classes_[empty][0]} has none")
        return weight


def _classes(y: Array) -> tuple[Array, Array]:
    if y.size == 0:
        raise DataError("every sample is unlabelled (-1): label at least one of each class")
    if str(UNLABELLED) in y.tolist():
        raise DataError(
            "the label '-1' is text, and only the number -1 means unlabelled: give y as an array of dtype object"
        )
    try:
        return encode_classes(y)
    except DataError as error:
        raise DataError(f"{error} (the label -1 means unlabelled)") from None
