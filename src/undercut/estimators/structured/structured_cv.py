"""Models of measures, rankings and sequences that choose their lambda by cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.model_selection import GroupKFold
from typing_extensions import override

from undercut.errors import DataError, require
from undercut.estimators.cross_validated import CHOSEN, CrossValidated, Given, risks_of, scored, selecting
from undercut.estimators.inputs import checked_weight, validated
from undercut.estimators.linear.linear_model import Task
from undercut.estimators.linear.multivariate_classifier import MultivariateClassifier
from undercut.estimators.linear.thresholds import averaged_threshold
from undercut.estimators.ranking.ranker import Ranker, check_queries
from undercut.estimators.structured.sequence_labeler import SequenceLabeler
from undercut.maps.design import trusted_design
from undercut.measures.base import counts
from undercut.selection.cross_validation import Fold
from undercut.selection.shared_rows import SharedRows
from undercut.types import Array, FloatArray


class MultivariateClassifierCV(CrossValidated, MultivariateClassifier):
    """A ``MultivariateClassifier`` whose lambda is chosen by cross-validation along the path.

    Parameters
    ----------
    lams, cv, scoring, rule, extend, early, n_jobs : as in ``CrossValidated``; the default score is the measure
    measure, solver, fit_intercept, ... : as in ``MultivariateClassifier``
    surrogate : as in ``MultivariateClassifier``; with "auto" each one has its own path, and the best pair of a
        surrogate and a lambda is fitted to all samples (``best_params_`` has both)
    threshold : as in ``MultivariateClassifier``; where validation chooses it, lambdas are compared with the threshold
        that is best for the held-out samples of their fold

    Attributes are those of ``CrossValidated``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = MultivariateClassifierCV([1e-1, 1e-2, 1e-3], cv=3, measure="f1", extend=True).fit(scale(X), y)
    >>> sorted(clf.best_params_), clf.best_score_ > 0.95
    (['lam', 'surrogate'], True)
    """

    __init__ = selecting(MultivariateClassifier)
    _kind = MultivariateClassifier
    _fitted: ClassVar[tuple[str, ...]] = (*MultivariateClassifier._fitted, *CHOSEN)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MultivariateClassifier._parameter_constraints,
        **CrossValidated._own_constraints,
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, groups: Any = None) -> MultivariateClassifierCV:
        """Choose lambda, and fit all samples with it; ``groups`` are for splitters that keep them together."""
        return self._select(self._given(X, y), groups)

    def _given(self, X: Any, y: Any) -> Given:
        X, y = validated(self, X, y=y, reset=True)
        self._tasks(trusted_design(X), y)  # refuses what is no measure of two classes
        return Given(X, y, {}, y.size)

    @override
    def _select(self, given: Given, groups: Any = None) -> MultivariateClassifierCV:
        """Choose the surrogate and lambda together."""
        trials = [self._with(name) for name in self._surrogate_names(self._signs(given))]
        scores = [trial._scores_of_grid(given, groups) for trial in trials]
        best = int(np.argmax([each.means[each.best()] for each in scores]))
        trials[best]._warn_about(scores[best], given)
        self._report(scores[best])
        self.best_params_ = {"lam": self.lam_, "surrogate": trials[best].surrogate}
        return self._refit(given, trials[best]._plain(self.lam_))

    def _with(self, surrogate: str) -> MultivariateClassifierCV:
        """The same settings with one surrogate."""
        other: MultivariateClassifierCV = clone(self).set_params(surrogate=surrogate)
        other._watch = self._watch
        return other

    def _signs(self, given: Given) -> FloatArray:
        return np.where(given.y == np.unique(given.y)[1], 1.0, -1.0)

    @override
    def _all(self, model: Any, given: Given) -> list[Any]:
        """The risk of the surrogate; that of the choice after ``fit``, the own bound before it."""
        chosen = getattr(self, "best_params_", {}).get("surrogate", "own")
        name = chosen if model.surrogate == "auto" else model.surrogate
        return [model._surrogate(name).risk(trusted_design(given.X), self._signs(given))]

    @override
    def _fold(self, model: Any, given: Given, train: Array, held_out: Array) -> Fold:
        signs = self._signs(given)
        tasks = [Task(model._surrogate(model.surrogate).part(trusted_design(given.X), signs, train))]
        model.classes_, model.n_features_in_ = np.unique(given.y), given.X.shape[1]
        score = self._measured(given.X[held_out], signs[held_out], signs)
        if self.scoring is not None:
            score = self._score_on(given.X[held_out], given.y[held_out])
        return Fold(risks_of(tasks), scored(model, tasks, score))

    def _measured(self, X: Any, held_out: FloatArray, signs: FloatArray) -> Callable[[Any], float]:
        """The measure on held-out samples, as a part of all samples, with the threshold that the fit will have."""
        measure = self._measure().of_part(held_out.size, signs.size)
        measure.check(*counts(held_out))
        is_tuned = self._is_tuned(signs)

        def score(model: Any) -> float:
            scores = model.decision_function(X)
            at = averaged_threshold(measure, held_out, scores, self.random_state) if is_tuned else 0.0
            return 1.0 - measure.label_loss(held_out, scores - at)

        return score


class RankerCV(CrossValidated, Ranker):
    """A ``Ranker`` whose lambda is chosen by cross-validation along the path; queries stay together.

    Parameters
    ----------
    lams, rule, extend, early, n_jobs : as in ``CrossValidated``
    scoring : the name of a measure of rankings such as "map" or "ndcg@5" (``Ranker.score``), a function
        ``scorer(ranker, X, y)``, or None for "ndcg@10"
    cv : int, a splitter, or a list of splits
        A number is that of folds, and the documents of a query are in one of them.
    loss, weighting, solver, ... : as in ``Ranker``

    Attributes are those of ``CrossValidated``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.standard_normal((300, 5)), np.repeat(np.arange(30), 10)
    >>> y = np.clip(np.round(X @ [1.0, -1.0, 0.5, 0.0, 0.0]), 0, 2)
    >>> ranker = RankerCV([1.0, 1e-1, 1e-2], cv=3, extend=True).fit(X, y, qid=qid)
    >>> round(ranker.best_score_, 1)
    1.0
    """

    __init__ = selecting(Ranker)
    _kind = Ranker
    _fitted: ClassVar[tuple[str, ...]] = (*Ranker._fitted, *CHOSEN)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Ranker._parameter_constraints,
        **CrossValidated._own_constraints,
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None, groups: Any = None) -> RankerCV:
        """Choose lambda, and fit all documents with it; documents with equal ``qid`` are one query."""
        given = self._given(X, y, qid, sample_weight)
        return self._select(given, given.rest["qid"] if groups is None else groups)

    def _given(self, X: Any, y: Any, qid: Any, sample_weight: Any = None) -> Given:
        check_queries(qid)
        X, y = validated(self, X, y=y, y_numeric=True, ensure_min_samples=2, reset=True)
        rest = {"qid": np.asarray(qid)}
        if sample_weight is not None:
            rest["sample_weight"] = checked_weight(sample_weight, X)
        return Given(X, np.asarray(y, dtype=np.float64), rest, y.size)

    @override
    def _splitter(self, given: Given) -> Any:
        return GroupKFold(self.cv) if isinstance(self.cv, Integral) else super()._splitter(given)

    @override
    def _all(self, model: Any, given: Given) -> list[Any]:
        return risks_of(model._tasks(self._rows(given.X, np.arange(given.n)), given.y, **given.rest))

    @override
    def _fold(self, model: Any, given: Given, train: Array, held_out: Array) -> Fold:
        tasks = model._tasks(
            self._rows(given.X, train), given.y[train], **{name: value[train] for name, value in given.rest.items()}
        )
        model.n_features_in_ = given.X.shape[1]
        X, y, qid = given.X[held_out], given.y[held_out], given.rest["qid"][held_out]

        def score(model: Any) -> float:
            if callable(self.scoring):
                return float(self.scoring(model, X, y))
            return float(model.score(X, y, qid=qid, metric=self.scoring or "ndcg@10"))

        return Fold(risks_of(tasks), scored(model, tasks, score))

    def _rows(self, X: Any, rows: Array) -> Any:
        """Some rows of X: without a copy for a loss by its name, and for a function as it takes them."""
        return SharedRows(trusted_design(X), rows) if isinstance(self.loss, str) else X[rows]


class SequenceLabelerCV(CrossValidated, SequenceLabeler):
    """A ``SequenceLabeler`` whose lambda is chosen by cross-validation along the path; the folds are of sequences.

    Features of templates are made once, for all folds.

    Parameters
    ----------
    lams, cv, rule, extend, early, n_jobs : as in ``CrossValidated``
    scoring : a function ``scorer(labeler, X, y)`` of lists of sequences, or None for the share of right labels
    loss, solver, features, ... : as in ``SequenceLabeler``

    Attributes are those of ``CrossValidated``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.standard_normal((4, 3)) for _ in range(20)]
    >>> y = [["up" if row[0] > 0.0 else "down" for row in rows] for rows in X]
    >>> labeler = SequenceLabelerCV([1.0, 1e-1, 1e-2], cv=2, extend=True).fit(X, y)
    >>> labeler.best_score_ > 0.8
    True
    """

    __init__ = selecting(SequenceLabeler)
    _kind = SequenceLabeler
    _fitted: ClassVar[tuple[str, ...]] = (*SequenceLabeler._fitted, *CHOSEN)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SequenceLabeler._parameter_constraints,
        **CrossValidated._own_constraints,
        "scoring": [callable, None],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, lengths: Any = None, groups: Any = None
    ) -> SequenceLabelerCV:
        """Choose lambda, and fit all sequences with it; ``groups`` are of sequences."""
        return self._select(self._given(X, y, sample_weight, lengths), groups)

    def _given(self, X: Any, y: Any, sample_weight: Any = None, lengths: Any = None) -> Given:
        require(not self.hidden, "a path of lambda is for linear models: use GridSearchCV for networks", self.hidden)
        sequences = self._sequences(X, lengths, fit=True)
        rest = {"sample_weight": sample_weight, "lengths": lengths}
        return Given(X, y, rest, sequences.lengths.size, sequences)

    @override
    def _split_target(self, given: Given) -> Any:
        return None

    @override
    def _all(self, model: Any, given: Given) -> list[Any]:
        return risks_of(self._tasks_of(model, given, given.rest["sample_weight"]))

    def _tasks_of(self, model: Any, given: Given, weight: Any) -> list[Any]:
        if self.features is not None:
            model.features_ = self.features_
        return list(model._tasks(given.shared, given.y, weight, flat=given.rest["lengths"] is not None))

    @override
    def _fold(self, model: Any, given: Given, train: Array, held_out: Array) -> Fold:
        weight, test = np.zeros(given.n), np.zeros(given.n)
        own = given.rest["sample_weight"]
        weight[train] = 1.0 if own is None else np.asarray(own)[train]
        test[held_out] = 1.0
        tasks = self._tasks_of(model, given, weight)
        score = self._score_on(given.X, given.y, sample_weight=test, lengths=given.rest["lengths"])
        if self.scoring is not None:
            if not isinstance(given.X, list):
                raise DataError("`scoring` needs X as a list of sequences; got another form: use scoring=None")
            score = self._score_on([given.X[at] for at in held_out], [given.y[at] for at in held_out])
        return Fold(risks_of(tasks), scored(model, tasks, score))
