"""What the linear estimators share: their loss by name, scores from ``coef_`` and ``intercept_``, and warm starts."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from undercut.contracts import Loss
from undercut.errors import require
from undercut.estimators.inputs import validated
from undercut.estimators.linear.sparse_coef import dense_coef
from undercut.estimators.targets import Problem, positive_codes
from undercut.io.model_file import ModelState
from undercut.risks import ScoreRisk
from undercut.trace import Result
from undercut.types import Array, FloatArray


def lam_from_C(C: float, n_samples: float) -> float:
    """The ``lam`` of ``lam/2 |w|^2 + mean loss`` that equals the ``C`` of ``|w|^2 / 2 + C * summed loss``.

    ``n_samples`` is the sum of the weights where samples have weights.

    >>> lam_from_C(C=1.0, n_samples=1000)
    0.001
    """
    require(C > 0.0, "`C` must be positive", C)
    require(n_samples > 0, "`n_samples` must be positive", n_samples)
    return 1.0 / (n_samples * C)


class Fit(NamedTuple):
    """One solved problem."""

    w: FloatArray
    intercept: float
    result: Result

    @classmethod
    def of(cls, risk: ScoreRisk, result: Result) -> Fit:
        """A result with the intercept that belongs to it."""
        return cls(result.w, risk.intercept(result.w), result)


class Task(NamedTuple):
    """One problem of a fit."""

    risk: Any
    problem: Problem = Problem(np.empty(0), None)
    convex: Any = None  # the risk whose optimum a search for a non-convex one starts from


def stacked(fits: list[Fit]) -> tuple[FloatArray, FloatArray]:
    """``coef_`` and ``intercept_`` of several problems, one row each."""
    return np.stack([fit.w for fit in fits]), np.array([fit.intercept for fit in fits])


def solved(tasks: list[Task], solutions: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """The same from the problems and their solutions."""
    intercepts = [task.risk.intercept(w) for task, w in zip(tasks, solutions, strict=True)]
    return np.stack(solutions), np.array(intercepts)


class LinearModel:
    """Scores ``<coef_, x> + intercept_``; with ``classes_``, one row of coefficients per problem."""

    coef_: Any
    intercept_: Any
    n_features_in_: int
    _losses: ClassVar[dict[str, type[Loss]]]

    def _loss(self) -> Loss:
        if isinstance(self.loss, Loss):
            return self.loss
        if self.loss not in self._losses:
            known = ", ".join(repr(name) for name in self._losses)
            raise ValueError(f"`loss` must be one of {known}, or a Loss; got {self.loss!r}")
        return self._losses[self.loss]()

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        X = validated(self, X)
        scores: FloatArray = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return scores

    @classmethod
    def from_state(cls, state: ModelState) -> Self:
        """The estimator that ``state`` described; ``ValueError`` if its parts do not fit together."""
        model: Any = super().from_state(state)
        if hasattr(cls, "_losses"):
            model._loss()  # ValueError for an unknown name
        expected, coef = _expected_shape(model), np.asarray(dense_coef(model), dtype=np.float64)
        if coef.shape != expected or np.shape(model.intercept_) != expected[:-1]:
            raise ValueError(
                f"coefficients of shape {coef.shape} and intercepts of shape {np.shape(model.intercept_)} "
                f"do not fit {model.n_features_in_} features and the classes {getattr(model, 'classes_', None)}"
            )
        model.coef_ = coef
        names = getattr(model, "feature_names_in_", None)
        if names is not None and names.shape != (model.n_features_in_,):
            raise ValueError(f"{names.size} names do not fit {model.n_features_in_} features")
        return model


def _expected_shape(model: Any) -> tuple[int, ...]:
    if not hasattr(model, "classes_"):
        return (model.n_features_in_,)
    check_distinct(model.classes_)
    return (len(positive_codes(model.classes_.size)), model.n_features_in_)


def check_distinct(classes: Array) -> None:
    """``ValueError`` unless these are at least two different labels."""
    if classes.ndim != 1 or classes.size < 2 or len(set(classes.tolist())) != classes.size:
        raise ValueError(f"the classes must be different labels; got {classes.tolist()}")


class Start(NamedTuple):
    """Coefficients from which the next fit may start: one row per problem, or the only one."""

    coef: FloatArray
    intercept: Any
    classes: Any = None

    @classmethod
    def of(cls, model: Any) -> Start | None:
        """The last fit of an estimator, with ``warm_start``."""
        if not model.warm_start or not hasattr(model, "coef_"):
            return None
        return cls(dense_coef(model), model.intercept_, getattr(model, "classes_", None))

    def matching(self, n_features: int, classes: Any = None) -> Start | None:
        """Itself where the new data have the same features and classes."""
        same = self.coef.shape[-1] == n_features and np.array_equal(self.classes, classes)
        return self if same else None


def start_coef(last: Start | None, n_features: int, classes: Any = None) -> FloatArray | None:
    """The coefficients to start from, where the last fit was one of the same problem."""
    start = None if last is None else last.matching(n_features, classes)
    return None if start is None else start.coef
