"""A transductive support vector machine: a linear classifier that keeps away from unlabelled samples too."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from undercut.contracts import Loss, Solver
from undercut.errors import DataError, ParameterError
from undercut.estimators.linear_classifier import ClassifierBase
from undercut.estimators.linear_model import Fit, LinearModel
from undercut.losses import Hinge
from undercut.risks import LinearRisk, TransductiveRisk
from undercut.types import Array, FloatArray

UNLABELLED = -1


class TransductiveClassifier(ClassifierBase):
    """``min lam/2 |w|^2 + mean over labelled of max(0, 1 - y s) + gamma * mean over unlabelled of max(0, 1 - |s|)``.

    A sample whose label is -1 is unlabelled, as in ``sklearn.semi_supervised``.  The problem is not convex: the search
    starts from the support vector machine of the labelled samples and ends at a stationary point.  Several classes are
    fitted one against the rest.

    Parameters
    ----------
    lam : float
        Lambda.
    gamma : float
        What the unlabelled samples count beside the labelled ones.
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

    _losses: ClassVar[dict[str, type[Loss]]] = {"hinge": Hinge}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: rule for name, rule in LinearModel._parameter_constraints.items() if name != "loss"},
        "gamma": [Interval(Real, 0.0, None, closed="left")],
        "balance": [StrOptions({"labelled"}), Interval(Real, 0.0, 1.0, closed="neither"), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
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
    ) -> None:
        self.lam = lam
        self.gamma = gamma
        self.balance = balance
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.gap_rel = gap_rel
        self.max_steps = max_steps
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TransductiveClassifier:
        """Fit the model; samples whose label is -1 are unlabelled."""
        if self.balance is not None and not self.fit_intercept:
            raise ParameterError("`balance` sets the intercept, and fit_intercept=False leaves none: use balance=None")
        last = self._last()
        X, y = self._validated(X, reset=True, y=y)
        labelled = np.array([label != UNLABELLED for label in y.tolist()])
        codes = np.full(y.size, -1)
        self.classes_, codes[labelled] = _classes(y[labelled])
        if not isinstance(self.balance, str | None) and self.classes_.size > 2:
            raise ParameterError(
                f"`balance` as a number is for two classes; got {self.balance} and {self.classes_.size} classes: "
                "use 'labelled'"
            )
        weight = self._all_weights(X, y, codes, sample_weight)
        self._fit_problems(X, codes, weight, self._start(X, last), self._solve_transductive)
        self.transduction_ = self._decided(safe_sparse_dot(X, self.coef_.T) + self.intercept_)
        self.transduction_[labelled] = y[labelled]
        return self

    def _solve_transductive(
        self, X: Any, target: FloatArray, weight: FloatArray | None, w0: FloatArray | None, title: str, *, brief: bool
    ) -> Fit:
        """One problem, from the solution on the labelled samples unless there is a start."""
        labelled = np.flatnonzero(target)
        if w0 is None:
            own = None if weight is None else weight[labelled]
            supervised = LinearRisk(X[labelled], target[labelled], Hinge(), own, fit_intercept=self.fit_intercept)
            w0 = self._minimize(supervised, None, title, solver="auto", brief=brief).w
        mean: float | None = None
        if self.balance == "labelled":
            mean = float(np.average(target[labelled], weights=None if weight is None else weight[labelled]))
        elif self.balance is not None:
            mean = 2.0 * float(self.balance) - 1.0
        risk = TransductiveRisk(X, target, self.gamma, weight, fit_intercept=self.fit_intercept, balance=mean)
        return self._fitted(risk, w0, title, brief=brief)

    def _all_weights(self, X: Any, y: Array, codes: Array, sample_weight: Any) -> FloatArray | None:
        """Sample weights times class weights, where there is a class."""
        if sample_weight is None and self.class_weight is None:
            return None
        labelled = codes >= 0
        weight: FloatArray = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True, copy=True
        )
        own = self._weights(X[labelled], y[labelled], codes[labelled], weight[labelled])
        weight[labelled] = weight[labelled] if own is None else own
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
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if classes.size < 2:
        raise DataError(
            f"a classifier needs labelled samples of at least 2 classes; got 1 class: {classes[0]} "
            "(the label -1 means unlabelled)"
        )
    return classes, codes
