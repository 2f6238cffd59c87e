"""A linear classifier for a performance measure of all labels together, with a certificate."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from undercut.contracts import Design, Solver
from undercut.errors import ConstantModelWarning, DataError, ParameterError
from undercut.estimators.certified import CertifiedEstimator, Minimizer, Rough, frames_inside
from undercut.estimators.class_predictions import ClassPredictions
from undercut.estimators.cluster.partitions import PartitionedData, is_partitioned
from undercut.estimators.inputs import take_columns, validated
from undercut.estimators.linear.linear_model import LinearModel, Start, Task, solved, start_coef
from undercut.estimators.linear.surrogates import Surrogate, Validation, surrogate_named
from undercut.estimators.linear.thresholds import ENOUGH, Split, pays_validation, stratified_folds
from undercut.estimators.targets import Problem, encode_classes
from undercut.io.model_file import ModelState
from undercut.maps.design import trusted_design
from undercut.maps.sharded import ShardedDesign
from undercut.measures import Measure, TopMeasure, measure_named
from undercut.measures.base import counts
from undercut.regularizers import L2
from undercut.risks import MultivariateRisk
from undercut.risks.scores.score_risk import ScoreRisk
from undercut.trace import Callbacks, Result
from undercut.types import Array, FloatArray

RANKINGS = ("roc_auc", "average_precision")  # measures whose bounds are useful where others are not


class Fitted(NamedTuple):
    """A model of all samples."""

    surrogate: Surrogate
    risk: ScoreRisk
    result: Result
    threshold: float = 0.0  # on top of the intercept


class MultivariateClassifier(ClassPredictions, LinearModel, CertifiedEstimator):
    """``min_{w,b} lam/2 |w|^2 + R(w, b)`` for a measure such as F1; two classes.

    R is the convex bound of the measure (``MultivariateRisk``) or another surrogate that validation prefers.

    The positive class is ``classes_[1]``.  The measure is of all samples together, so single samples and classes have
    no weights.

    Parameters
    ----------
    measure : "f1" ("f0.5", ...), "precision@10", "recall@10", "prbep", "roc_auc", "balanced_error", or a ``Measure``
        ``ContingencyMeasure(fun)`` is for a function of one's own.
    lam : float
        Lambda.  Scores are scaled so that the most expensive single mistake requires a margin of one.  Scores of both
        classes weigh as much as their mistakes cost where the direction between the class means separates them best.
    solver : "auto", "line_search_bundle", "cutting_plane", "dual_ascent", "proximal_bundle", or a ``Solver``
    fit_intercept : bool
        Whether to fit an intercept, which is not penalized.  F-beta, the balanced error and functions of one's own
        depend on it, and it is exact.  The top k and the ROC area do not; it decides which samples ``predict`` calls
        positive: the best k training samples, or those above the point of the ROC curve farthest from the diagonal.
    threshold : "auto", "own" or "cv"
        "own" is the intercept that belongs to the surrogate.  "cv" chooses it by the measure itself, on the scores of
        samples in stratified folds that are left out of further fits: the mean of the best ones for 30 bootstrap
        samples of these scores.  The certificate is that of the fit to all samples, with its own intercept.
        "auto" is "cv" for F-beta, the balanced error, Matthews correlation and functions of one's own where each
        class has at least 20 samples, and "own" otherwise and with ``fit_intercept=False``.
    surrogate : "auto", "own", "squared_hinge" or "average_precision"
        What is minimized.  "own" is the convex bound of the measure itself; "squared_hinge" a mean squared hinge loss,
        in which each class weighs what its mistakes cost the measure (those of F1 for measures of a ranking);
        "average_precision" the bound of that measure.  "auto" chooses by the measure itself, on the samples that the
        folds leave out: the squared hinge, which is fast, unless another is better by more than the standard error of
        the difference (or by its average precision, where a measure of a ranking does not tell).  It chooses among
        the first two for F-beta, the balanced error, Matthews correlation and functions of one's own where each class
        has at least 20 samples; among all three for the top k, the break-even point and the partial ROC area; the ROC
        area has its own bound.  ``surrogate_`` and the certificate are those of the choice.
        Five folds for each surrogate share ``max_seconds`` with the fit to all samples, and a relative gap of 0.05
        or 0.01 is enough for them; one that is behind after two folds, or takes over 50 steps in a fold, is given
        up, and so is one whose bound is least for equal scores.  ``random_state`` divides and draws.
        A fit that is interrupted in a fold keeps the first surrogate and its own intercept.
    gap_rel, max_steps, max_seconds, warm_start, verbose, random_state, callbacks : as in ``LinearClassifier``

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
    intercept_ : array of shape (1,)
    classes_ : array of two labels
    surrogate_ : the ``Measure`` whose bound was minimized, or the ``Loss``
    objective_, lower_bound_, gap_, certificate_, n_iter_, result_ : as in ``LinearClassifier``

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = MultivariateClassifier("f1", lam=1e-3).fit(scale(X), y)
    >>> clf.gap_ <= 1e-3 * clf.objective_, round(clf.score(scale(X), y), 2)
    (True, 0.99)
    """

    _fitted: ClassVar[tuple[str, ...]] = ("classes_", "coef_", "intercept_")
    _fits_streams: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CertifiedEstimator._parameter_constraints,
        "measure": [str, Measure],
        "threshold": [StrOptions({"auto", "own", "cv"})],
        "surrogate": [StrOptions({"auto", "own", "average_precision", "squared_hinge"})],
    }

    def __init__(
        self,
        measure: str | Measure = "f1",
        lam: float = 1e-4,
        *,
        solver: str | Solver[Any, Any, Any] = "auto",
        fit_intercept: bool = True,
        threshold: str = "auto",
        surrogate: str = "auto",
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
    def fit(self, X: Any, y: Any = None) -> MultivariateClassifier:
        """Fit the model.

        X and y may be Dask arrays or dataframes, or X the names of SVMlight files that workers read; labels and scores
        are gathered, 8 bytes a row.
        """
        last = Start.of(self)
        design, y = self._read(X, y)
        if self.threshold == "cv" and not self.fit_intercept:
            raise ParameterError('threshold="cv" chooses the intercept: use fit_intercept=True; got False')
        own = self._tasks(design, y)[0]
        start = start_coef(last, self.n_features_in_, self.classes_)
        signs = np.where(y == self.classes_[1], 1.0, -1.0)
        minimizer = self._minimizer()
        self._has_rivals = len(self._surrogate_names(signs)) > 1
        fitted = self._chosen(minimizer, design, signs, None if start is None else start[0])
        self.surrogate_ = fitted.surrogate.trained_by
        risk = fitted.risk if own.risk.measure.sees_intercept else own.risk
        self._take([Task(risk)], [fitted.result.w])
        self.intercept_ = self.intercept_ - fitted.threshold
        self._conclude(minimizer, [fitted.result])
        if own.risk.measure.sees_intercept:
            scores = design.matvec(fitted.result.w) + self.intercept_
            self._warn_if_one_sided(scores, fitted.result.baseline, is_tuned=self._is_tuned(signs))
        return self

    def _read(self, X: Any, y: Any) -> tuple[Design, Array]:
        """The samples, checked, and all labels."""
        if not is_partitioned(X):
            X, y = validated(self, X, y=y, reset=True)
            return trusted_design(X), y
        data = PartitionedData.of(X, y)
        data.require("y", "pass y")
        take_columns(self, data)
        return ShardedDesign(data.parts), data.gathered("y")

    def _chosen(self, minimizer: Minimizer, design: Design, signs: FloatArray, start: FloatArray | None) -> Fitted:
        """The model of the surrogate that validation prefers, with the threshold that it chooses.

        The first surrogate is fitted to all samples before: there is a model whenever the user ends the fit.
        """
        surrogates = [self._surrogate(name) for name in self._surrogate_names(signs)]
        folds = self._folds(signs)
        minimizer.share_among(1 + len(surrogates) * len(folds) + (len(surrogates) > 1))
        starts = [] if start is None else [start]
        fitted = self._fitted_to_all(minimizer, surrogates[0], design, signs, starts)
        held = self._validation(minimizer, design, signs, folds).best(surrogates) if folds else None
        if held is None:
            return fitted
        if held.surrogate is not fitted.surrogate:
            minimizer.share_among(1)
            fitted = self._fitted_to_all(minimizer, held.surrogate, design, signs, [*starts, fitted.result.w])
        return fitted._replace(threshold=held.threshold)

    def _fitted_to_all(
        self, minimizer: Minimizer, surrogate: Surrogate, design: Design, signs: FloatArray, starts: list[FloatArray]
    ) -> Fitted:
        """The model of one surrogate, and its certificate; the fit begins at the best of the starts."""
        risk, reg = surrogate.risk(design, signs), L2(self.lam)
        start = min(starts, key=lambda w: reg.value(w) + risk.value(w)) if len(starts) > 1 else next(iter(starts), None)
        about = f"by the {surrogate.name}" if surrogate.name else ""
        problem = Problem(signs, None, about, surrogate.name)
        return Fitted(surrogate, risk, minimizer(risk, reg, start, problem=problem, is_measure=True))

    def _validation(self, minimizer: Minimizer, design: Design, signs: FloatArray, folds: list[Split]) -> Validation:
        def solve(risk: ScoreRisk, start: FloatArray | None, problem: Problem, rough: Rough) -> FloatArray | None:
            result = minimizer(risk, L2(self.lam), start, problem=problem, rough=rough, is_measure=True)
            is_rival = start is not None
            is_slow = result.n_steps >= rough.max_steps
            return None if is_slow or (is_rival and _has_learned_nothing(result)) else result.w

        return Validation(
            measure=self._measure(),
            design=design,
            signs=signs,
            folds=folds,
            is_tuned=self._is_tuned(signs),
            random_state=self.random_state,
            solve=solve,
            is_over=lambda: minimizer.signal is not None,
        )

    def _surrogate(self, name: str) -> Surrogate:
        return surrogate_named(name, self._measure(), self.fit_intercept)

    def _surrogate_names(self, signs: FloatArray) -> tuple[str, ...]:
        """Those that validation chooses from, the cheapest one first."""
        measure = self._measure()
        if self.surrogate != "auto":
            return (self.surrogate,)
        is_enough = min(counts(signs)) >= (ENOUGH if measure.sees_intercept else 2)
        return (*measure.substitutes, "own") if is_enough else ("own",)

    def _is_tuned(self, signs: FloatArray) -> bool:
        """Whether validation chooses the threshold."""
        is_worthwhile = self.fit_intercept and pays_validation(self._measure(), signs)
        return self.threshold == "cv" or (self.threshold == "auto" and is_worthwhile)

    def _folds(self, signs: FloatArray) -> list[Split]:
        """Those that choose the surrogate and the threshold; none where nothing is to be chosen."""
        if self._is_tuned(signs) or len(self._surrogate_names(signs)) > 1:
            return stratified_folds(signs, self.random_state)
        return []

    def _tasks(self, design: Design, y: Array) -> list[Task]:
        """The only problem of a fit."""
        self.classes_, codes = encode_classes(y)
        if self.classes_.size > 2:
            raise DataError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"a measure is of one class against the rest; got {self.classes_.size} classes"
            )
        return [Task(self._risk(design, np.where(codes == 1, 1.0, -1.0)))]

    def _risk(self, design: Design, signs: FloatArray) -> MultivariateRisk:
        return MultivariateRisk(design, signs, self._measure(), fit_intercept=self.fit_intercept)

    def _remedy_for_constant(self) -> str:
        measure = self._measure()
        if self._has_rivals:
            return (
                "no other surrogate does better on held-out samples, so the features may not tell the classes apart: "
                "check the data, or use a smaller lam"
            )
        others = " or ".join(f'"{name}"' for name in RANKINGS if measure_named(name) != measure)
        if isinstance(measure, TopMeasure) and self.surrogate_ == measure:
            auto = "" if self.surrogate == "auto" else 'surrogate="auto", or '
            return (
                f"the bound of {measure.name} cannot be improved on here: use {auto}measure={others} and take the k "
                "samples with the highest scores, or a smaller lam"
            )
        cv = "" if self.threshold == "cv" or not self.fit_intercept else ' with threshold="cv"'
        return f"use a smaller lam or a smaller gap_rel, or measure={others}{cv}"

    def _warn_if_one_sided(self, scores: FloatArray, baseline: float, *, is_tuned: bool) -> None:
        """Warn where all training samples are called the same, unless the fit has told that it learned nothing."""
        has_learned = baseline - self.objective_ > self.gap_
        labels = self.classes_[np.unique(scores > 0.0).astype(np.intp)]
        if has_learned and labels.size == 1 < self.classes_.size:
            tuned = (
                "held-out samples prefer this threshold, so the features may not tell the classes apart; check them, "
            )
            advice = f"{tuned}or use " if is_tuned else 'use threshold="cv" or ' if self.fit_intercept else "use "
            warnings.warn(
                f"the model calls all training samples {labels.tolist()[0]!r}, although their scores differ: {advice}"
                'a smaller lam, or measure="roc_auc" or "average_precision" and choose a threshold',
                ConstantModelWarning,
                stacklevel=frames_inside(),
            )

    def _take(self, tasks: list[Task], solutions: list[FloatArray]) -> None:
        """Set the coefficients."""
        self.coef_, self.intercept_ = solved(tasks, solutions)

    def score(self, X: Any, y: Any) -> float:
        """The measure itself, larger is better: F1, precision among the top k of X, ..., 1 - Delta in general."""
        scores = self.decision_function(X)
        y = np.asarray(y)
        if not np.isin(y, self.classes_).all():
            raise DataError(f"y must hold labels of the fit, {self.classes_.tolist()}; got {np.unique(y).tolist()}")
        return 1.0 - self._measure().label_loss(np.where(y == self.classes_[1], 1.0, -1.0), scores)

    @classmethod
    def from_state(cls, state: ModelState) -> Self:
        """The classifier that ``state`` described; ``ValueError`` if its parts do not fit together."""
        model = super().from_state(state)
        model._measure()  # ParameterError for an unknown name
        return model

    def _measure(self) -> Measure:
        return measure_named(self.measure) if isinstance(self.measure, str) else self.measure

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _has_learned_nothing(result: Result) -> bool:
    """Whether equal scores for all samples are as good as the solution, up to the gap."""
    return result.baseline - result.objective <= result.gap
