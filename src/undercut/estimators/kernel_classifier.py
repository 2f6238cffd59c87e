"""A support vector machine with a certificate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from typing_extensions import override

from undercut.devices import on_device
from undercut.errors import DataError, ModelFileError, require
from undercut.estimators.linear_classifier import ClassifierBase
from undercut.estimators.linear_model import Fit, LinearModel, live_progress
from undercut.losses import Hinge
from undercut.maps.gram import KERNELS, DenseGram, Gram, GramFactor, Kernel, TiledGram, named_kernel
from undercut.regularizers import L2, KernelNorm
from undercut.risks import GramRisk, LinearRisk
from undercut.solvers import KernelHedging, PairDescent
from undercut.trace import Status
from undercut.types import Array, FloatArray

SOLVERS = ("auto", "descent", "hedging", "bundle")
CONVEX_KERNELS = {"linear", "rbf"}  # positive semidefinite whatever their settings
DOUBLE = 4000  # samples up to which the Gram matrix is stored in double precision; certificates always are
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
        "degree": [Interval(Integral, 1, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "solver": [StrOptions(set(SOLVERS)), KernelHedging, PairDescent],
        "store_gram": ["boolean"],
        "device": [str, None],
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
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.solver = solver
        self.store_gram = store_gram
        self.device = device
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
        self._check_together()
        last = self._last_fit(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise DataError(f"a classifier needs samples of at least 2 classes; got 1 class: {self.classes_[0]}")
        weight = self._weights(X, y, codes, sample_weight)
        for code, label in enumerate(self.classes_.tolist()):
            if weight is not None and not weight[codes == code].any():
                raise DataError(f"every class must have a sample of positive weight; class {label!r} has none")
        with live_progress(f"Gram matrix of {y.size} samples:", self.verbose):
            gram = self._gram(X)
        solve = self._by_bundle(gram) if self.solver == "bundle" else partial(self._by_hedging, gram)
        lam = 1.0 / (self.C * (y.size if weight is None else float(weight.sum())))
        fits: list[Fit] = []
        for at, code in enumerate(self._positives(self.classes_.size)):
            target, w0 = np.where(codes == code, 1.0, -1.0), None if last is None else last[at]
            title = f"class {self.classes_[code]}" if self.classes_.size > 2 else ""
            brief = any(fit.result.status is Status.STOPPED for fit in fits)
            fits.append(solve(target, weight, lam, w0, title=title, brief=brief))
        self._set_machines(X, codes, fits)
        self._report([fit.result for fit in fits])
        return self

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

    def _by_hedging(
        self, gram: Gram, y: FloatArray, weight: Array | None, lam: float, w0: FloatArray | None, **run: Any
    ) -> Fit:
        """One class against the rest, over the coefficients of f."""
        risk = GramRisk(gram, y, weight, self.fit_intercept)
        result = self._minimize(risk, w0, reg=KernelNorm(lam, gram), solver=self._solver(gram), **run)
        return Fit(result.w, risk.intercept(result.w), result)

    def _by_bundle(self, gram: Gram) -> Callable[..., Fit]:
        """The same over coordinates in which the norm of f is the plain one."""
        factor = GramFactor(gram.block(np.arange(gram.n_samples)))

        def solve(y: FloatArray, weight: Array | None, lam: float, w0: FloatArray | None, **run: Any) -> Fit:
            risk = LinearRisk(factor.features, y, Hinge(), weight, self.fit_intercept)
            start = None if w0 is None else factor.features.T @ w0
            result = self._minimize(risk, start, reg=L2(lam), solver="auto", **run)
            return Fit(factor.coefficients(result.w), risk.intercept(result.w), result)

        return solve

    def _solver(self, gram: Gram) -> KernelHedging | PairDescent:
        if not isinstance(self.solver, str):
            return self.solver
        if self.device is not None or not self.store_gram:
            return KernelHedging()
        if self.solver != "hedging":
            return PairDescent()
        return KernelHedging(blocks=max(2, min(BLOCKS, gram.n_samples // BLOCK_SAMPLES)))

    def _gram(self, X: Any) -> Gram:
        """The Gram matrix of the training samples; refused if it does not fit, or is none."""
        if self.kernel == "precomputed":
            return DenseGram(self._placed(X))
        self._gamma = _gamma(self.gamma, X)
        check = self.kernel not in CONVEX_KERNELS
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
            K = np.asarray(self._kernel()(X, self.support_vectors_))
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

    @override
    def _saved(self) -> dict[str, Any]:
        if callable(self.kernel):
            raise ModelFileError("only named and precomputed kernels can be saved, a function cannot: pickle is unsafe")
        fitted = {
            "gamma": getattr(self, "_gamma", 1.0),
            "n_features": self.n_features_in_,
            "n_fitted": self._n_fitted,
            "n_support": self.n_support_.tolist(),
        }
        return super()._saved() | {"machine": fitted}

    @override
    def restore(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        described = header["machine"]
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
        if self.n_support_.sum() != size or not 0.0 < self._gamma < np.inf:
            raise ValueError(f"{self.n_support_.tolist()} support vectors by class and gamma {self._gamma} do not fit")
        if pairwise and self.n_features_in_ != self._n_fitted:
            raise ValueError(f"a matrix of {self._n_fitted} samples does not fit {self.n_features_in_} columns")

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
