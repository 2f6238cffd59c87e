"""A support vector machine with a certificate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from undercut.devices import on_device
from undercut.errors import DataError, require
from undercut.estimators.certified import CertifiedEstimator, Minimizer, live_progress
from undercut.estimators.class_predictions import ClassPredictions
from undercut.estimators.cluster.partitions import PartitionedData, PartitionedRows, is_partitioned
from undercut.estimators.inputs import take_columns, validated
from undercut.estimators.linear.linear_model import Fit, check_distinct
from undercut.estimators.targets import Problem, class_weighted, encode_classes, one_against_rest, positive_codes
from undercut.io.model_file import ModelState
from undercut.losses import Hinge
from undercut.maps.gram import KERNELS, DenseGram, Gram, GramFactor, Kernel, ShardedGram, TiledGram, named_kernel
from undercut.regularizers import L2, KernelNorm
from undercut.risks import GramRisk, LinearRisk
from undercut.solvers import KernelHedging, PairDescent
from undercut.trace import Callbacks
from undercut.types import Array, FloatArray

SOLVERS = ("auto", "descent", "hedging", "bundle")
CONVEX_KERNELS = {"linear", "rbf"}  # positive semidefinite whatever their settings
DOUBLE = 4000  # samples up to which the Gram matrix is stored in double precision; certificates always are
BLOCKS, BLOCK_SAMPLES = 8, 100  # how many blocks, of how many samples at least
CHUNK = 2**24  # entries of a kernel matrix at a time when predicting


class KernelClassifier(ClassPredictions, CertifiedEstimator):
    """``min_{f,b} 1/2 |f|^2 + C sum_i weight_i max(0, 1 - y_i (f(x_i) + b))`` over the functions of a kernel.

    Parameters and attributes are those of scikit-learn's ``SVC`` where they have the same meaning.  Several classes are
    fitted one against the rest, not one against one: one Gram matrix serves all of them, and the certificate is the sum
    of theirs.  ``objective_`` and the bound are in the notation of this library, the problem divided by
    ``C sum_i weight_i``.

    Parameters
    ----------
    C : float
    kernel : "linear", "poly", "rbf", "sigmoid", "precomputed", or a function ``kernel(X, Z)``
        A kernel must be positive semidefinite; one that is not is refused with its eigenvalue.
    degree, gamma, coef0 : of the named kernels, as in ``SVC``
    solver : "auto", "descent", "hedging", "bundle", a ``PairDescent`` or a ``KernelHedging``
        "descent" is ``PairDescent()``, coordinate descent in pairs on the dual problem.  "hedging" is progressive
        hedging: over blocks of samples, or over single ones where there is a device or the Gram matrix is not stored.
        "bundle" is the bundle method on a Cholesky factor of the Gram matrix; ``dual_coef_`` then expands f in
        independent samples, whatever their margin.  "auto" is "descent" where that is possible, else "hedging".
    store_gram : bool
        Whether to keep the Gram matrix; otherwise it is computed anew for every product, which takes far longer but
        hardly any memory.
    device : str or None
        Where the Gram matrix is kept, such as "cuda"; needs torch.  None is main memory.
    fit_intercept : bool
    class_weight : dict, "balanced" or None
    warm_start : bool
        Start from the last fit if it had as many samples.
    gap_rel, max_steps, max_seconds, verbose, random_state, callbacks, n_jobs : as in ``LinearClassifier``

    Attributes
    ----------
    support_ : indices of the samples with a coefficient in any problem
    support_vectors_ : these samples; empty for a precomputed kernel
    n_support_ : how many there are of each class
    dual_coef_ : array of shape (1, n_support), or (n_classes, n_support) for more than two classes
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of labels
    objective_, lower_bound_, gap_, certificate_, n_iter_, result_ : as in ``LinearClassifier``

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(200, noise=0.1, factor=0.5, random_state=0)
    >>> clf = KernelClassifier(C=10.0).fit(X, y)
    >>> clf.gap_ <= 1e-3 * clf.objective_, clf.score(X, y)
    (True, 0.995)
    """

    _fitted: ClassVar[tuple[str, ...]] = (
        "classes_", "support_", "support_vectors_", "n_support_", "dual_coef_", "intercept_", "_gamma", "_n_fitted",
    )  # fmt: skip
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CertifiedEstimator._parameter_constraints,
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "kernel": [StrOptions({*KERNELS, "precomputed"}), callable],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "solver": [StrOptions(set(SOLVERS)), KernelHedging, PairDescent],
        "store_gram": ["boolean"],
        "device": [str, None],
    }

    def __init__(
        self,
        C: float = 1.0,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        *,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        solver: str | KernelHedging | PairDescent = "auto",
        store_gram: bool = True,
        device: str | None = None,
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
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelClassifier:
        """Fit the model; ``sample_weight`` multiplies C.  X is the Gram matrix if the kernel is precomputed.

        X and y may be Dask arrays or dataframes, or X the names of SVMlight files: the workers keep blocks of rows of
        the Gram matrix, and multiply by them.  Labels and support vectors come to this process.
        """
        self._check_together()
        if is_partitioned(X):
            X, y = self._rows_there(PartitionedData.of(X, y))
        else:
            X, y = validated(self, X, y=y, reset=True)
        classes, codes = encode_classes(y)
        starts = self._last_fit(classes, y.size)
        self.classes_ = classes
        weight = class_weighted(X, y, classes, codes, self.class_weight, sample_weight)
        _check_each_class(classes, codes, weight)
        minimizer = self._minimizer()  # here: the time limit counts the Gram matrix
        with live_progress(f"Gram matrix of {y.size} samples:", self.verbose):
            gram = self._gram(X)
        lam = 1.0 / (self.C * (y.size if weight is None else float(weight.sum())))
        fit_one = self._by_bundle(gram) if self.solver == "bundle" else partial(self._by_hedging, gram)
        if not gram.on_host:
            minimizer.jobs = 1  # a device has one copy of the rows in use
        fit_one = partial(fit_one, weight, lam, minimizer)
        fits = list(minimizer.each(fit_one, one_against_rest(classes, codes, starts)))
        self._set_machines(X, codes, fits)
        return self._conclude(minimizer, [fit.result for fit in fits])

    def _rows_there(self, data: PartitionedData) -> tuple[PartitionedRows, Array]:
        """Data in partitions; settings that need the Gram matrix in one place are refused."""
        data.require("y", "pass y")
        for broken, rule in (
            (self.kernel == "precomputed", "`kernel` must be a function of samples for data in partitions"),
            (self.device is not None, "`device` must be None for data in partitions"),
            (self.solver in ("descent", "bundle"), "`solver` must be 'auto' or 'hedging' for data in partitions"),
        ):
            require(not broken, rule, {"kernel": self.kernel, "solver": self.solver, "device": self.device})
        take_columns(self, data)
        return PartitionedRows(data), data.gathered("y")

    def _check_together(self) -> None:
        """Settings that would be ignored are refused instead."""
        rules = (
            (self.device is not None and not self.store_gram, "`device` keeps the Gram matrix: use store_gram=True"),
            (
                self.device is not None and self.solver in ("descent", "bundle"),
                "`device` is for solver='hedging': use that, or device=None",
            ),
            (
                not self.store_gram and (self.kernel == "precomputed" or self.solver in ("descent", "bundle")),
                "store_gram=False is for solver='hedging' and a kernel that is not precomputed",
            ),
        )
        for broken, rule in rules:
            require(not broken, rule, {"solver": self.solver, "device": self.device, "store_gram": self.store_gram})

    def _by_hedging(self, gram: Gram, weight: Any, lam: float, minimizer: Minimizer, problem: Problem) -> Fit:
        """One class against the rest, over the coefficients of f."""
        risk = GramRisk(gram, problem.target, weight, self.fit_intercept)
        reg = KernelNorm(lam, gram)
        result = minimizer(risk, reg, problem.start, problem=problem, solver=self._solver(gram))
        return Fit(result.w, risk.intercept(result.w), result)

    def _by_bundle(self, gram: Gram) -> Callable[..., Fit]:
        """The same over coordinates in which the norm of f is the plain one."""
        factor = GramFactor(gram.block(np.arange(gram.n_samples)))

        def fit_one(weight: Any, lam: float, minimizer: Minimizer, problem: Problem) -> Fit:
            risk = LinearRisk(factor.features, problem.target, Hinge(), weight, self.fit_intercept)
            start = None if problem.start is None else factor.features.T @ problem.start
            result = minimizer(risk, L2(lam), start, problem=problem, solver="auto")
            return Fit(factor.coefficients(result.w), risk.intercept(result.w), result)

        return fit_one

    def _solver(self, gram: Gram) -> KernelHedging | PairDescent:
        if not isinstance(self.solver, str):
            return self.solver
        if self.device is not None or not self.store_gram or isinstance(gram, ShardedGram):
            return KernelHedging()
        if self.solver != "hedging":
            return PairDescent()
        return KernelHedging(blocks=max(2, min(BLOCKS, gram.n_samples // BLOCK_SAMPLES)))

    def _gram(self, X: Any) -> Gram:
        """The Gram matrix of the training samples; refused if it exceeds memory or is not positive semidefinite."""
        if self.kernel == "precomputed":
            return DenseGram(self._placed(X))
        self._gamma = gamma_of(self.gamma, X)
        check = self.kernel not in CONVEX_KERNELS
        if isinstance(X, PartitionedRows):
            return ShardedGram.of(self._kernel(), X.parts, check=check)
        if not self.store_gram:
            return TiledGram(self._kernel(), X, check=check)
        dtype = "float64" if X.shape[0] <= DOUBLE or self.solver == "bundle" else "float32"
        return DenseGram.of(self._kernel(), self._placed(X), dtype, check=check)

    def _placed(self, X: Any) -> Any:
        """X where its Gram matrix is to be; a device, and a matrix that is one already, take dense ones only."""
        if sp.issparse(X) and (self.kernel == "precomputed" or self.device is not None):
            X = X.toarray()
        return X if self.device is None else on_device(X, self.device)

    def _kernel(self) -> Kernel:
        """The function of all ``k(x, z)``."""
        if callable(self.kernel):
            return self.kernel
        return named_kernel(self.kernel, degree=self.degree, gamma=self._gamma, coef0=self.coef0)

    def _last_fit(self, classes: Array, n_samples: int) -> FloatArray | None:
        """The coefficients of all samples in the last fit, if it had the same classes and as many samples."""
        if not self.warm_start or not hasattr(self, "dual_coef_") or self._n_fitted != n_samples:
            return None
        if not np.array_equal(self.classes_, classes):
            return None
        coef = np.zeros((self.dual_coef_.shape[0], n_samples))
        coef[:, self.support_] = self.dual_coef_
        return coef

    def _set_machines(self, X: Any, codes: Array, fits: list[Fit]) -> None:
        coef = np.stack([fit.w for fit in fits])
        self.support_ = np.flatnonzero(coef.any(axis=0))
        self.support_vectors_ = X[:0, :0] if self.kernel == "precomputed" else X[self.support_]
        self.n_support_ = np.bincount(codes[self.support_], minlength=self.classes_.size)
        self.dual_coef_ = coef[:, self.support_]
        self.intercept_ = np.array([fit.intercept for fit in fits])
        self._n_fitted = X.shape[0]

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        X = validated(self, X)
        chunk = max(1, CHUNK // max(1, self.support_.size))
        parts = [self._block_scores(X[low : low + chunk]) for low in range(0, X.shape[0], chunk)]
        return np.concatenate(parts) + self.intercept_

    def _block_scores(self, X: Any) -> FloatArray:
        if self.kernel == "precomputed":
            K = X[:, self.support_]
        elif self.support_.size:
            K = np.asarray(self._kernel()(X, self.support_vectors_))
        else:
            K = np.zeros((X.shape[0], 0))
        return np.asarray(K @ self.dual_coef_.T)

    @classmethod
    def from_state(cls, state: ModelState) -> Self:
        """The machine that ``state`` described; ``ValueError`` if its parts do not fit together."""
        model = super().from_state(state)
        check_distinct(model.classes_)
        model.support_ = np.asarray(model.support_, dtype=np.int64)
        model.n_support_ = np.asarray(model.n_support_, dtype=np.int64)
        size, pairwise = model.support_.size, model.kernel == "precomputed"
        coef, vectors = model.dual_coef_.shape, (0, 0) if pairwise else (size, model.n_features_in_)
        n_problems = len(positive_codes(model.classes_.size))
        bounded = size == 0 or 0 <= model.support_.min() <= model.support_.max() < model._n_fitted
        if model.support_vectors_.shape != vectors or coef != (n_problems, size) or not bounded:
            raise ValueError(f"{size} support vectors do not fit coefficients of shape {coef}")
        if model.intercept_.shape != (n_problems,) or model.n_support_.shape != model.classes_.shape:
            raise ValueError(
                f"the intercepts or the counts of support vectors do not fit {model.classes_.size} classes"
            )
        if model.n_support_.sum() != size or not 0.0 < getattr(model, "_gamma", 1.0) < np.inf:
            raise ValueError(f"{model.n_support_.tolist()} support vectors by class or gamma do not fit the model")
        if pairwise and model.n_features_in_ != model._n_fitted:
            raise ValueError(f"a matrix of {model._n_fitted} samples does not fit {model.n_features_in_} columns")
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def _check_each_class(classes: Array, codes: Array, weight: FloatArray | None) -> None:
    for code, label in enumerate(classes.tolist()):
        if weight is not None and not weight[codes == code].any():
            raise DataError(f"every class must have a sample of positive weight; class {label!r} has none")


def gamma_of(gamma: float | str, X: Any) -> float:
    """The number that "scale" and "auto" stand for, as in ``SVC``."""
    if not isinstance(gamma, str):
        return float(gamma)
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if isinstance(X, PartitionedRows):
        variance = X.variance()
    else:
        variance = X.multiply(X).mean() - X.mean() ** 2 if sp.issparse(X) else X.var()
    return 1.0 / (X.shape[1] * float(variance)) if variance > 0.0 else 1.0
