"""A linear classifier with a certificate."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions
from typing_extensions import override

from undercut.contracts import Loss, MarginLoss, MulticlassLoss, Regularizer, Solver
from undercut.errors import ParameterError
from undercut.estimators import penalties
from undercut.estimators.certified import CertifiedEstimator, Minimizer
from undercut.estimators.class_predictions import ClassPredictions, ClassProbabilities
from undercut.estimators.cluster import blocks
from undercut.estimators.cluster.blocks import Target
from undercut.estimators.cluster.partitions import PartitionedData, is_partitioned
from undercut.estimators.inputs import take_columns, validated
from undercut.estimators.linear.linear_model import LinearModel, Start, Task, solved, start_coef
from undercut.estimators.linear.sparse_coef import SparseCoefMixin
from undercut.estimators.targets import (
    Problem,
    class_factors,
    class_weighted,
    encode_classes,
    one_against_rest,
    positive_codes,
)
from undercut.losses import CrammerSinger, Hinge, Logistic, Softmax, of_kind
from undercut.maps.design import trusted_design
from undercut.maps.sharded import ShardedDesign
from undercut.risks import LinearRisk, MulticlassRisk
from undercut.trace import Callbacks, Result
from undercut.types import Array, FloatArray

CONVEX_LOSSES = {name: loss for name, loss in of_kind(MarginLoss).items() if loss.is_convex}


class LinearClassifier(SparseCoefMixin, ClassProbabilities, ClassPredictions, LinearModel, CertifiedEstimator):
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
    max_steps : limit for each problem; reaching it warns and keeps the certificate.
    max_seconds : limit for the whole fit, shared by its classes; reaching it warns and keeps the certificate.
    warm_start : bool
        Start from the last fit's coefficients.
    verbose : 0, 1 or 2
        1 shows objective, bound, gap and the time left: live on a terminal and in a notebook, elsewhere as a line every
        few seconds of the logger ``undercut``.  2 prints every step.
    random_state : int, RandomState or None
        With a number ``solver="auto"`` compares solvers by counts of passes instead of the clock, so that fits can be
        repeated exactly.
    callbacks : list of functions or None
        Called with the ``Progress`` of every step; one that returns ``True`` ends the run of its problem.
    n_jobs : int or None
        Classes that are fitted at the same time, on threads; -1 is one per core.

    Attributes
    ----------
    coef_ : array of shape (1, n_features), or (n_classes, n_features) for more than two classes
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of labels
    objective_, lower_bound_, gap_ : the certificate: ``lower_bound_ <= optimum <= objective_``
    certificate_ : "global", or "local" for a non-convex loss: ``gap_`` is then the model gap, and there is no bound
    n_iter_ : steps of the longest run
    result_ : ``Result``, or a list of one per class
    interrupted_ : whether Ctrl-C or SIGTERM ended the fit, which then raises and keeps its best solution

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = LinearClassifier(lam=1e-3).fit(scale(X), y)
    >>> clf.gap_ <= 1e-3 * clf.objective_, round(clf.score(scale(X), y), 2)
    (True, 0.99)
    """

    _losses: ClassVar[dict[str, type[Loss]]] = of_kind(MarginLoss)
    _fitted: ClassVar[tuple[str, ...]] = ("classes_", "coef_", "intercept_")
    _fits_streams: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CertifiedEstimator._parameter_constraints,
        **penalties.CONSTRAINTS,
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
        callbacks: Callbacks = None,
        n_jobs: int | None = None,
    ) -> None:
        self._keep(locals())

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearClassifier:
        """Fit the model; a weight of 2 equals duplicating the sample.

        X, y and the weights may be Dask arrays or dataframes, or X the names of SVMlight files that workers read.
        """
        self._joint_loss()  # settings that contradict each other are refused before the data are read
        last = Start.of(self)
        if is_partitioned(X):
            tasks = self._sharded_tasks(PartitionedData.of(X, y, sample_weight=sample_weight), last)
        else:
            X, y = validated(self, X, y=y, reset=True)
            tasks = self._tasks(X, y, sample_weight, last)
        minimizer = self._minimizer()
        runs_each = 1 if all(task.risk.is_convex or task.problem.start is not None for task in tasks) else 2
        results = list(minimizer.each(partial(self._solve, minimizer), tasks, runs_each))
        self._take(tasks, [result.w for result in results])
        return self._conclude(minimizer, results)

    def _tasks(self, X: Any, y: Array, sample_weight: Any = None, last: Start | None = None) -> list[Task]:
        """The problems of a fit: one per class against the rest, or one for all; with the starts of a last fit."""
        self.classes_, codes = encode_classes(y)
        weight = class_weighted(X, y, self.classes_, codes, self.class_weight, sample_weight)
        start = start_coef(last, X.shape[1], self.classes_)
        joint, loss, free = self._joint_loss(), self._loss(), self.fit_intercept
        if joint is not None:
            risk = MulticlassRisk(trusted_design(X), codes, joint, weight, free, n_classes=self.classes_.size)
            return [Task(risk, Problem(codes, _joint_start(start)))]
        return [  # each with a design of its own: several may be solved at the same time
            Task(LinearRisk(trusted_design(X), problem.target, loss, weight, free), problem)
            for problem in one_against_rest(self.classes_, codes, start)
        ]

    def _sharded_tasks(self, data: PartitionedData, last: Start | None) -> list[Task]:
        """The same problems for data in partitions."""
        take_columns(self, data)
        self.classes_, counts = data.classes()
        target = Target(self.classes_, class_factors(self.class_weight, self.classes_, counts))
        start = start_coef(last, data.n_features, self.classes_)
        joint, free = self._joint_loss(), self.fit_intercept
        if joint is None:
            loss, make = self._loss(), partial(data.risk, blocks.one_class, target=target, fit_intercept=free)
            problems = list(one_against_rest(self.classes_, np.empty(0, np.int64), start))
            return [
                Task(make(code=code, loss=loss), problem, None if loss.is_convex else make(code=code, loss=Hinge()))
                for code, problem in zip(positive_codes(self.classes_.size), problems, strict=True)
            ]
        problem = Problem(np.empty(0), _joint_start(start))
        if not free:
            return [Task(data.risk(blocks.all_classes, target=target, loss=joint), problem)]
        y = data.gathered("y")  # the intercepts of several classes need all scores in one place
        weight = target.weight(y, data.gathered("sample_weight") if "sample_weight" in data.fields else None)
        design, n_classes = ShardedDesign(data.parts), self.classes_.size
        return [Task(MulticlassRisk(design, target.codes(y), joint, weight, True, n_classes=n_classes), problem)]

    def _take(self, tasks: list[Task], solutions: list[FloatArray]) -> None:
        """Set the coefficients; of one problem for two classes, the difference of their rows."""
        risk = tasks[0].risk
        if self._joint_loss() is None:
            self.coef_, self.intercept_ = solved(tasks, solutions)
            return
        W = solutions[0].reshape(self.classes_.size, -1)
        b = risk.intercepts(solutions[0]) if isinstance(risk, MulticlassRisk) else np.zeros(self.classes_.size)
        self.coef_, self.intercept_ = (W, b) if b.size > 2 else (W[1:] - W[:1], b[1:] - b[:1])

    def _solve(self, minimizer: Minimizer, task: Task) -> Result:
        """Solve one problem; a non-convex one from the optimum of the hinge loss."""
        risk, reg, w0 = task.risk, self._regularizer(), task.problem.start
        if w0 is None and not risk.is_convex:
            hinge = task.convex or LinearRisk(risk.design, risk.y, Hinge(), risk.weight, risk.fit_intercept)
            w0 = minimizer(hinge, reg, problem=task.problem.start_of(), solver="auto").w
        return minimizer(risk, reg, w0, problem=task.problem)

    def _regularizer(self) -> Regularizer:
        return penalties.regularizer(self.penalty, self.lam, self.l1_ratio)

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

    @override
    def _probabilities(self, scores: FloatArray) -> FloatArray:
        """Class probabilities: the softmax of the scores, or one-against-rest probabilities normalized."""
        if self.multi_class == "multinomial" and scores.shape[1] > 1:
            return softmax(scores, axis=1)
        return super()._probabilities(scores)


def _joint_start(coef: FloatArray | None) -> FloatArray | None:
    """Where the one problem of all classes starts; the row of two classes is the difference of theirs."""
    if coef is None:
        return None
    return (coef if coef.shape[0] > 1 else np.vstack([-0.5 * coef, 0.5 * coef])).reshape(-1)
