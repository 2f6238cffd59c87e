"""Linear models that choose their lambda by cross-validation."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import _fit_context
from sklearn.model_selection import LeaveOneOut
from sklearn.utils._param_validation import StrOptions
from typing_extensions import override

from undercut.errors import ConstantModelWarning, ParameterError, require
from undercut.estimators.certified import frames_inside
from undercut.estimators.cross_validated import CHOSEN, CrossValidated, Given, risks_of, scored, selecting
from undercut.estimators.inputs import checked_weight, optional_weight, validated
from undercut.estimators.linear.linear_classifier import LinearClassifier
from undercut.estimators.linear.linear_regressor import LinearRegressor
from undercut.estimators.targets import encode_classes
from undercut.losses import Poisson, Squared
from undercut.maps.design import trusted_design
from undercut.maps.matrix import Matrix
from undercut.risks import MulticlassRisk
from undercut.selection.cross_validation import ARRAYS, Fold, Scores
from undercut.selection.held_out import Errors, HeldOut, JointClasses, OneAgainstRest, Scored, TwoClasses
from undercut.selection.leave_one_out import left_out_errors
from undercut.types import Array, FloatArray

ERROR_SCORES = {"r2": 2, "neg_mean_squared_error": 2, "neg_mean_absolute_error": 1}  # powers of the error
LEFT_OUT_SCORES = {None: 2, "neg_mean_squared_error": 2, "neg_mean_absolute_error": 1}  # of one sample


class WeightedFolds(CrossValidated):
    """Folds that share X and y: held-out samples have no weight."""

    def _all(self, model: Any, given: Given) -> list[Any]:
        return risks_of(model._tasks(given.X, given.y, given.rest["sample_weight"]))

    @override
    def _fold(self, model: Any, given: Given, train: Array, held_out: Array) -> Fold:
        weight = np.zeros(given.n)
        weight[train] = checked_weight(given.rest["sample_weight"], given.X)[train]
        tasks = model._tasks(given.X, given.y, weight)
        known = self._held_out(model, risks_of(tasks), held_out, given)
        if known is not None:
            return Fold(risks_of(tasks), known.score, known if self.penalty in ("l2", "elasticnet") else None)
        model.n_features_in_ = given.X.shape[1]
        X, y = given.X[held_out], given.y[held_out]
        return Fold(risks_of(tasks), scored(model, tasks, self._score_on(X, y)))

    def _held_out(self, model: Any, risks: list[Any], rows: Array, given: Given) -> HeldOut | None:
        """The held-out samples where the score is a mean over them; ``None`` where it is not."""
        return None


class LinearClassifierCV(WeightedFolds, LinearClassifier):
    """A ``LinearClassifier`` whose lambda is chosen by cross-validation along the path.

    Parameters
    ----------
    lams, cv, scoring, rule, extend, early, n_jobs : as in ``CrossValidated``
    loss, penalty, l1_ratio, solver, ... : as in ``LinearClassifier``

    Attributes are those of ``CrossValidated``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = LinearClassifierCV([1e-1, 1e-2, 1e-3, 1e-4]).fit(scale(X), y)
    >>> clf.lam_, round(clf.best_score_, 2), clf.gap_ <= 1e-3 * clf.objective_
    (0.01, 0.97, True)
    """

    __init__ = selecting(LinearClassifier)
    _kind = LinearClassifier
    _fitted: ClassVar[tuple[str, ...]] = (*LinearClassifier._fitted, *CHOSEN)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearClassifier._parameter_constraints,
        **CrossValidated._own_constraints,
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> LinearClassifierCV:
        """Choose lambda, and fit all samples with it; ``groups`` are for splitters that keep them together."""
        self._select(self._given(X, y, sample_weight), groups)
        self._warn_if_one_class(self.predict(X))
        return self

    def _warn_if_one_class(self, predicted: Array) -> None:
        """Warn where the chosen model tells no samples apart, unless its fit has told that it learned nothing."""
        results = self.result_ if isinstance(self.result_, list) else [self.result_]
        has_learned = sum(result.baseline for result in results) - self.objective_ > self.gap_
        by_labels = self.scoring in (None, "accuracy")  # others may see the order of the scores
        if has_learned and by_labels and (predicted == predicted[0]).all():
            warnings.warn(
                f"the chosen model calls all samples {predicted[:1].tolist()[0]!r}, and no lambda of the grid has a "
                'better score: use class_weight="balanced", a `scoring` such as "balanced_accuracy" or "roc_auc", or '
                "smaller `lams`",
                ConstantModelWarning,
                stacklevel=frames_inside(),
            )

    def _given(self, X: Any, y: Any, sample_weight: Any = None) -> Given:
        self._joint_loss()
        require(self._loss().is_convex, "a path needs a convex `loss`: fit each lambda by itself", self.loss)
        X, y = validated(self, X, y=y, reset=True)
        encode_classes(y)
        return Given(X, y, {"sample_weight": optional_weight(sample_weight, X)}, y.size)

    @override
    def _held_out(self, model: Any, risks: list[Any], rows: Array, given: Given) -> HeldOut | None:
        if self.scoring not in (None, "accuracy"):
            return None
        norms, right = _row_norms(given.X), np.searchsorted(model.classes_, given.y[rows])
        first, held_out = risks[0], trusted_design(given.X[rows])
        if isinstance(first, MulticlassRisk):
            return JointClasses(first, held_out, norms[rows], right) if isinstance(held_out, Matrix) else None
        problems = [Scored(risk, held_out, norms[rows], norms.max()) for risk in risks]
        return OneAgainstRest(problems, right) if len(risks) > 1 else TwoClasses(problems[0], 2.0 * right - 1.0)


class LinearRegressorCV(WeightedFolds, LinearRegressor):
    """A ``LinearRegressor`` whose lambda is chosen by cross-validation along the path.

    Parameters
    ----------
    lams, scoring, rule, extend, early, n_jobs : as in ``CrossValidated``
    cv : int, a splitter, a list of splits, or "loo"
        "loo" leaves out every sample once, in closed form: for the squared loss with the L2 penalty.  The score is then
        minus the squared error, or with scoring="neg_mean_absolute_error" minus the absolute one.
    loss, penalty, l1_ratio, solver, ... : as in ``LinearRegressor``

    Attributes are those of ``CrossValidated``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearRegressorCV([1e-3, 1e-4, 1e-5, 1e-6], cv="loo").fit(X, y)
    >>> model.lam_, round((-model.best_score_) ** 0.5, 1)
    (1e-05, 54.8)
    """

    __init__ = selecting(LinearRegressor)
    _kind = LinearRegressor
    _fitted: ClassVar[tuple[str, ...]] = (*LinearRegressor._fitted, *CHOSEN)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearRegressor._parameter_constraints,
        **CrossValidated._own_constraints,
        "cv": ["cv_object", StrOptions({"loo"})],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> LinearRegressorCV:
        """Choose lambda, and fit all samples with it; ``groups`` are for splitters that keep them together."""
        return self._select(self._given(X, y, sample_weight), groups)

    def _given(self, X: Any, y: Any, sample_weight: Any = None) -> Given:
        X, y = validated(self, X, y=y, y_numeric=True, reset=True)
        weight = {"sample_weight": optional_weight(sample_weight, X)}
        return Given(X, np.asarray(y, dtype=np.float64), weight, y.size)

    @override
    def _held_out(self, model: Any, risks: list[Any], rows: Array, given: Given) -> HeldOut | None:
        name = self.scoring or "r2"
        if name not in ERROR_SCORES or isinstance(self._loss(), Poisson):  # whose prediction is not the score
            return None
        norms, y = _row_norms(given.X), given.y[rows]
        problem = Scored(risks[0], trusted_design(given.X[rows]), norms[rows], norms.max())
        if name != "r2":
            return Errors(problem, y, ERROR_SCORES[name])
        spread = float(np.var(y))
        return Errors(problem, y, 2, spread, 1.0) if spread > 0.0 else None

    @override
    def _scoring_along(self, given: Given, groups: Any) -> Callable[..., Scores]:
        leaves_one_out = isinstance(self.cv, LeaveOneOut) or (isinstance(self.cv, str) and self.cv == "loo")
        if not leaves_one_out:
            return super()._scoring_along(given, groups)
        if not isinstance(self._loss(), Squared) or self.penalty != "l2" or given.rest["sample_weight"] is not None:
            raise ParameterError(
                'leaving out every sample is for loss="squared", penalty="l2" and samples without weights, where it '
                f"has a closed form: use cv=10; got loss={self.loss!r}, penalty={self.penalty!r}"
            )
        names = [name for name in LEFT_OUT_SCORES if name is not None]
        is_known = self.scoring is None or self.scoring in names
        require(is_known, f"`scoring` of samples that are left out one by one must be one of {names}", self.scoring)
        return partial(self._left_out_scores, given)

    def _left_out_scores(self, given: Given, lams: FloatArray, starts: Any = None) -> Scores:
        """The scores of every sample that is left out, in closed form."""
        began = time.perf_counter()
        errors = np.abs(left_out_errors(given.X, given.y, lams, fit_intercept=self.fit_intercept))
        scores = -(errors ** LEFT_OUT_SCORES[self.scoring]).T
        zeros = {name: np.zeros_like(scores) for name in ARRAYS}
        zeros["fit_seconds"] += (time.perf_counter() - began) / scores.size
        return Scores(lams, ends=[], **zeros | {"scores": scores})


def _row_norms(X: Any) -> FloatArray:
    """The length of every sample."""
    squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return np.sqrt(np.asarray(squares, dtype=np.float64).ravel())
