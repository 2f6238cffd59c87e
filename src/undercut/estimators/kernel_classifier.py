"""A support vector machine with a certificate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import _fit_context
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from undercut.arrays import Array, FloatArray
from undercut.errors import DataError, ModelFileError
from undercut.estimators.linear_classifier import ClassifierBase
from undercut.estimators.linear_model import Fit, LinearModel, live_progress, warn_unless
from undercut.gram import DenseGram, Gram, TiledGram
from undercut.regularizers import KernelNorm
from undercut.risks import GramRisk
from undercut.solvers import KernelHedging, Stop, minimize
from undercut.trace import Status

KERNELS = ("linear", "poly", "rbf", "sigmoid")
CONVEX_KERNELS = {"linear", "rbf"}  # positive semidefinite whatever their settings
DOUBLE = 4000  # samples up to which the Gram matrix is stored in double precision
BLOCKS, BLOCK_SAMPLES = 8, 100  # how many blocks, of how many samples at least
CSR = ("data", "indices", "indptr")
CHUNK = 2**24  # entries of a kernel matrix at a time when predicting


class KernelClassifier(ClassifierBase):
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
    solver : "descent", "hedging", or a ``KernelHedging``
        Pairwise coordinate descent on the whole problem, or progressive hedging over blocks of samples.
    store_gram : bool
        Whether to keep the Gram matrix; otherwise it is computed anew for every product, which takes far longer but
        hardly any memory, and every sample is a scenario of progressive hedging.
    fit_intercept : bool
    class_weight : dict, "balanced" or None
    gap_rel : float
        Stop once ``objective - lower_bound <= gap_rel * objective``.
    max_steps, max_seconds : limits for each problem; reaching one warns and keeps the certificate.
    warm_start : bool
        Start from the last fit if it had as many samples.
    verbose : 0 or 1
    random_state : ignored; all of it is deterministic.

    Attributes
    ----------
    support_ : indices of the samples with a coefficient in any problem
    support_vectors_ : these samples; empty for a precomputed kernel
    n_support_ : how many there are of each class
    dual_coef_ : array of shape (1, n_support), or (n_classes, n_support) for more than two classes
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of labels
    objective_, lower_bound_, gap_ : the certificate: ``lower_bound_ <= optimum <= objective_``
    certificate_ : "global"
    n_iter_ : steps of the longest run
    result_ : ``Result``, or a list of one per class

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(200, noise=0.1, factor=0.5, random_state=0)
    >>> clf = KernelClassifier(C=10.0).fit(X, y)
    >>> clf.gap_ <= 1e-3 * clf.objective_, clf.score(X, y)
    (True, 0.995)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: rule for name, rule in LinearModel._parameter_constraints.items() if name not in ("loss", "lam")},
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "kernel": [StrOptions({*KERNELS, "precomputed"}), callable],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "solver": [StrOptions({"descent", "hedging"}), KernelHedging],
        "store_gram": ["boolean"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        C: float = 1.0,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        *,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        solver: str | KernelHedging = "descent",
        store_gram: bool = True,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        gap_rel: float = 1e-3,
        max_steps: int = 10_000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.solver = solver
        self.store_gram = store_gram
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.gap_rel = gap_rel
        self.max_steps = max_steps
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelClassifier:
        """Fit the model; ``sample_weight`` multiplies C.  X is the Gram matrix if the kernel is precomputed."""
        X, y = self._validated(X, reset=True, y=y)
        check_classification_targets(y)
        last = self._last_fit(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise DataError(f"a classifier needs samples of at least 2 classes; got 1 class: {self.classes_[0]}")
        weight = self._weights(X, y, codes, sample_weight)
        gram = self._gram(X)
        fits: list[Fit] = []
        for at, code in enumerate(self._positives(self.classes_.size)):
            title = f"class {self.classes_[code]}" if self.classes_.size > 2 else ""
            interrupted = any(fit.result.status is Status.STOPPED for fit in fits)
            risk = GramRisk(gram, np.where(codes == code, 1.0, -1.0), weight, self.fit_intercept)
            lam = 1.0 / (self.C * (y.size if weight is None else float(weight.sum())))
            fits.append(self._solve_machine(risk, lam, None if last is None else last[at], title, brief=interrupted))
        self._set_machines(X, codes, fits)
        self._report([fit.result for fit in fits])
        return self

    def _solve_machine(self, risk: GramRisk, lam: float, w0: FloatArray | None, title: str, *, brief: bool) -> Fit:
        """One class against the rest."""
        max_steps = 1 if brief else self.max_steps
        stop = Stop(gap_rel=self.gap_rel, max_steps=max_steps, max_seconds=self.max_seconds or np.inf)
        with live_progress(title, self.verbose) as callbacks:
            result = minimize(
                risk, KernelNorm(lam, risk.gram), self._solver(risk), w0=w0, stop=stop, callbacks=callbacks
            )
        warn_unless(result, {Status.CONVERGED}, title)
        return Fit(result.w, risk.intercept(result.w), result)

    def _solver(self, risk: GramRisk) -> KernelHedging:
        if isinstance(self.solver, KernelHedging):
            return self.solver
        if not self.store_gram:
            return KernelHedging()
        few = max(1, min(BLOCKS, risk.n_params // BLOCK_SAMPLES))
        return KernelHedging(blocks=1 if self.solver == "descent" else few)

    def _gram(self, X: Any) -> Gram:
        """The Gram matrix of the training samples; refused if it does not fit, or is none."""
        if self.kernel == "precomputed":
            return DenseGram(X.toarray() if sp.issparse(X) else X)
        self._gamma = _gamma(self.gamma, X)
        if not self.store_gram:
            return TiledGram(self._kernel, X)
        dtype = np.float64 if X.shape[0] <= DOUBLE else np.float32
        return DenseGram.of(partial(self._kernel, dtype=dtype), X, dtype, check=self.kernel not in CONVEX_KERNELS)

    def _kernel(self, X: Any, Z: Any, dtype: Any = np.float64) -> Array:
        """The matrix of all ``k(x, z)``; ``dtype`` is what it need not be more accurate than."""
        if self.kernel == "rbf":
            return _rbf(X, Z, self._gamma, dtype)
        if callable(self.kernel):
            return np.asarray(self.kernel(X, Z))
        named = partial(pairwise_kernels, metric=self.kernel, filter_params=True)
        return np.asarray(named(X, Z, gamma=self._gamma, degree=self.degree, coef0=self.coef0))

    def _last_fit(self, y: Array) -> FloatArray | None:
        """The coefficients of all samples in the last fit, if it had the same classes and as many samples."""
        if not self.warm_start or not hasattr(self, "dual_coef_") or self._n_fitted != y.size:
            return None
        if not np.array_equal(self.classes_, np.unique(y)):
            return None
        coef = np.zeros((self.dual_coef_.shape[0], y.size))
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
        X = self._validated(X)
        chunk = max(1, CHUNK // max(1, self.support_.size))
        parts = [self._block_scores(X[low : low + chunk]) for low in range(0, X.shape[0], chunk)]
        return np.concatenate(parts) + self.intercept_

    def _block_scores(self, X: Any) -> FloatArray:
        if self.kernel == "precomputed":
            K = X[:, self.support_]
        elif self.support_.size:
            K = self._kernel(X, self.support_vectors_)
        else:
            K = np.zeros((X.shape[0], 0))
        return np.asarray(K @ self.dual_coef_.T)

    def to_arrays(self) -> dict[str, Array]:
        """What a model file stores of the fit; sparse support vectors by their three arrays."""
        arrays = {"coef": np.ascontiguousarray(self.dual_coef_), "intercept": self.intercept_, "support": self.support_}
        vectors = self.support_vectors_
        if sp.issparse(vectors):
            return arrays | {name: getattr(vectors, name) for name in CSR}
        return arrays | {"vectors": np.ascontiguousarray(vectors)}

    def describe_kernel(self) -> dict[str, Any]:
        """What a model file's header says about the kernel and the samples it was fitted to."""
        if callable(self.kernel):
            raise ModelFileError("only named and precomputed kernels can be saved, a function cannot: pickle is unsafe")
        return {
            "gamma": getattr(self, "_gamma", 1.0),
            "n_features": self.n_features_in_,
            "n_fitted": self._n_fitted,
            "n_support": self.n_support_.tolist(),
        }

    def restore_kernel(self, described: dict[str, Any], arrays: dict[str, Array]) -> None:
        """The other way round; ``ValueError`` if the parts do not fit together."""
        self.dual_coef_ = vars(self).pop("coef_")
        self._gamma, self.n_features_in_ = float(described["gamma"]), int(described["n_features"])
        self._n_fitted, self.n_support_ = int(described["n_fitted"]), np.array(described["n_support"], dtype=np.int64)
        self.support_ = np.asarray(arrays["support"], dtype=np.int64)
        size, pairwise = self.support_.size, self.kernel == "precomputed"
        shape = (0, 0) if pairwise else (size, self.n_features_in_)
        if "vectors" in arrays:
            self.support_vectors_ = arrays["vectors"]
        else:
            self.support_vectors_ = sp.csr_matrix(tuple(arrays[name] for name in CSR), shape=shape)
            self.support_vectors_.check_format()
        bounded = size == 0 or 0 <= self.support_.min() <= self.support_.max() < self._n_fitted
        if self.support_vectors_.shape != shape or self.dual_coef_.shape[1] != size or not bounded:
            raise ValueError(f"{size} support vectors do not fit coefficients of shape {self.dual_coef_.shape}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def _gamma(gamma: float | str, X: Any) -> float:
    """The number that "scale" and "auto" stand for, as in ``SVC``."""
    if not isinstance(gamma, str):
        return float(gamma)
    if gamma == "auto":
        return 1.0 / X.shape[1]
    variance = X.multiply(X).mean() - X.mean() ** 2 if sp.issparse(X) else X.var()
    return 1.0 / (X.shape[1] * float(variance)) if variance > 0.0 else 1.0


def _rbf(X: Any, Z: Any, gamma: float, dtype: Any = np.float64) -> Array:
    """``exp(-gamma |x - z|^2)``; distances in double precision, as they are differences of large numbers."""
    X, Z = X.astype(np.float64), Z.astype(np.float64)
    norms = [np.asarray(V.multiply(V).sum(axis=1) if sp.issparse(V) else np.einsum("ij,ij->i", V, V)) for V in (X, Z)]
    K = X @ Z.T
    K = np.asarray(K.toarray() if sp.issparse(K) else K)
    K *= -2.0
    K += norms[0].reshape(-1, 1)
    K += norms[1].reshape(1, -1)
    np.maximum(K, 0.0, out=K)
    K *= -gamma
    K = K.astype(dtype, copy=False)
    with np.errstate(under="ignore"):
        return np.exp(K, out=K)
