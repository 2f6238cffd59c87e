"""The peers of ``peers.py``: for each loss and penalty, the estimators of other packages that solve the same problem.

    J(w) = lam penalty(w) + 1/n sum_i loss(y_i, <w, x_i> + b),        C = 1 / (n lam)

Each is limited by a number of iterations, with a tolerance too small to end it earlier; where the cost of an iteration
depends on the tolerance, or their number is not limited, by a tolerance that follows from it.  LIBLINEAR is raced both
ways: variables that its shrinking leaves out come back only when the tolerance is met, which is not always needed.  It
penalizes its intercept, so it is raced only on problems without one.  ``HuberRegressor`` also estimates a scale, so its
objective is another one; ``SGDClassifier`` does not converge to these accuracies.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import sklearn
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, PoissonRegressor, QuantileRegressor, Ridge
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from linear import Fit
from peers_jobs import EPSILON, L1_RATIO, QUANTILE, WIDTH, Job, Problem

SKIPPED: list[str] = []  # packages that are not installed
try:
    import celer
except ImportError:
    SKIPPED.append("celer")
try:
    import skglm
    from skglm import datafits, penalties, solvers
except ImportError:
    SKIPPED.append("skglm")

TINY = 1e-13
MOST_ITERATIONS = 100  # of LIBLINEAR by tolerance, for each step of the ladder
TEXT = ("rcv1-sample", "20news", "text", "short text", "many classes", "documents", "sentences")
MANY_FEATURES = (*TEXT, "wide")  # too many for a dense Hessian
MANY_SAMPLES = ("mnist", "covtype", "tall")  # too many for a kernel method
SPARSE_NUMBERS = ("wide", "short text", "sentences", "rare", "groups")  # sparse sets with numbers or counts
L1_RATIO_ONLY = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)  # `penalty` is deprecated from there on


def _always(job: Job) -> bool:
    return True


def _no_intercept(job: Job) -> bool:
    return not job.intercept


def _few_features(job: Job) -> bool:
    return job.set not in MANY_FEATURES and job.targets != "classes"


def _few_samples(job: Job) -> bool:
    return job.intercept and job.set not in MANY_SAMPLES


def _is_dense(job: Job) -> bool:
    return job.targets in ("numbers", "counts") and job.set not in SPARSE_NUMBERS


class Rival(NamedTuple):
    """A method of another package."""

    name: str
    make: Callable[[Problem, int], Any]  # the estimator that stops after this number of iterations
    suits: Callable[[Job], bool] = _always
    unit: int = 1  # its iterations in one step of the ladder
    compiles: bool = False
    by_tolerance: bool = False


def tolerance(k: int) -> float:
    """A tenth of it for three times the steps of the ladder: 0.1 at 3, 0.01 at 9."""
    return 0.1 * (3.0 / k) ** (1.0 / math.log10(3.0))


# -------------------------------------------------------------------------------------------------- LIBLINEAR, libsvm


LIBLINEAR_LIMITS: dict[str, Callable[[int], dict[str, Any]]] = {
    "": lambda k: {"tol": TINY, "max_iter": k},
    " by tolerance": lambda k: {"tol": tolerance(k), "max_iter": MOST_ITERATIONS * k},
}


def _liblinear(name: str, kind: type, **settings: Any) -> tuple[Rival, ...]:
    """LIBLINEAR through an estimator that takes C, limited in both ways."""

    def rival(kind_of_limit: str, limits: Callable[[int], dict[str, Any]]) -> Rival:
        def make(p: Problem, k: int) -> Any:
            return kind(C=p.C, fit_intercept=False, random_state=0, **limits(k), **settings)

        return Rival(name + kind_of_limit, make, _no_intercept, by_tolerance=bool(kind_of_limit))

    return tuple(rival(*limit) for limit in LIBLINEAR_LIMITS.items())


def _crammer_singer(p: Problem, k: int) -> LinearSVC:
    return LinearSVC(multi_class="crammer_singer", C=p.C, fit_intercept=False, tol=tolerance(k), random_state=0)


class HalfSVR(LinearSVR):
    """``LinearSVR`` whose squared loss has the factor 1/2."""

    def fit(self, X: Any, y: np.ndarray) -> HalfSVR:
        self.C *= 0.5
        return super().fit(X, y)


def _libsvm(kind: type, **settings: Any) -> Rival:
    return Rival(
        "libsvm", lambda p, k: kind(kernel="linear", C=p.C, tol=1e-9, max_iter=k, **settings), _few_samples, unit=100
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------- scikit-learn


def _penalty(l1_ratio: float) -> dict[str, Any]:
    """The settings of ``LogisticRegression`` for a share of L1 in the penalty."""
    if L1_RATIO_ONLY:
        return {"l1_ratio": l1_ratio}
    kind = {0.0: "l2", 1.0: "l1"}.get(l1_ratio, "elasticnet")
    return {"penalty": kind} | ({"l1_ratio": l1_ratio} if kind == "elasticnet" else {})


def _logistic(solver: str, l1_ratio: float = 0.0) -> Callable[[Problem, int], Any]:
    penalty = _penalty(l1_ratio)
    return lambda p, k: LogisticRegression(
        solver=solver, C=p.C, fit_intercept=p.intercept, tol=TINY, max_iter=k, random_state=0, **penalty
    )


def _ridge(solver: str) -> Callable[[Problem, int], Any]:
    return lambda p, k: Ridge(
        alpha=p.y.size * p.lam, fit_intercept=p.intercept, solver=solver, tol=TINY, max_iter=k, random_state=0
    )


def _poisson(solver: str) -> Callable[[Problem, int], Any]:
    return lambda p, k: PoissonRegressor(
        alpha=p.lam, fit_intercept=p.intercept, solver=solver, tol=TINY, max_iter=k
    )  # fmt: skip


class LimitedQuantileRegressor(QuantileRegressor):
    """Zeros instead of an error where HiGHS meets its time limit and has no solution."""

    def fit(self, X: Any, y: np.ndarray) -> LimitedQuantileRegressor:
        self.coef_ = np.zeros(X.shape[1])
        with suppress(TypeError):
            super().fit(X, y)
        return self


def _quantile(quantile: float, share: float = 1.0) -> Rival:
    """A linear program; it takes no number of iterations, but a time limit."""
    return Rival(
        "scikit-learn HiGHS",
        lambda p, k: LimitedQuantileRegressor(
            quantile=quantile, alpha=share * p.lam, fit_intercept=p.intercept, solver="highs",
            solver_options={"time_limit": p.seconds},
        ),
    )  # fmt: skip


def _saga(l1_ratio: float) -> Rival:
    return Rival("scikit-learn saga", _logistic("saga", l1_ratio))


NEWTON = Rival("scikit-learn newton-cholesky", _logistic("newton-cholesky"), _few_features)
LBFGS = Rival("scikit-learn lbfgs", _logistic("lbfgs"))
NEWTON_CG = Rival("scikit-learn newton-cg", _logistic("newton-cg"))
LASSO = Rival(
    "scikit-learn Lasso",
    lambda p, k: Lasso(alpha=p.lam, fit_intercept=p.intercept, tol=TINY, max_iter=k),
)
ENET = Rival(
    "scikit-learn ElasticNet",
    lambda p, k: ElasticNet(alpha=p.lam, l1_ratio=L1_RATIO, fit_intercept=p.intercept, tol=TINY, max_iter=k),
)


# ------------------------------------------------------------------------------------------------------ celer, skglm


def _celer(job: Job) -> list[Rival]:
    makers = {
        ("squared", "L1"): lambda p, k: celer.Lasso(p.lam, fit_intercept=p.intercept, tol=tolerance(k)),
        ("squared", "elastic net"): lambda p, k: celer.ElasticNet(
            p.lam, l1_ratio=L1_RATIO, fit_intercept=p.intercept, tol=tolerance(k)
        ),
        ("logistic", "L1"): lambda p, k: celer.LogisticRegression(C=p.C, tol=tolerance(k)),
    }
    make = makers.get((job.loss, job.penalty))
    has_intercept = job.loss == "squared" or not job.intercept
    return [Rival("celer", make, by_tolerance=True)] if make and has_intercept else []


def _skglm(job: Job) -> list[Rival]:
    """Its L2 penalty is the elastic net without the L1 part; raced only where no other peer has the loss."""
    kinds: dict[str, tuple[str, dict[str, float], str]] = {
        "squared": ("Quadratic", {}, "AndersonCD"),
        "logistic": ("Logistic", {}, "ProxNewton"),
        "Huber": ("Huber", {"delta": WIDTH}, "AndersonCD"),
        "Poisson": ("Poisson", {}, "ProxNewton"),
    }
    if job.loss not in kinds or (job.penalty == "L2" and job.loss != "Huber"):
        return []
    datafit, settings, solver = kinds[job.loss]
    ratio = {"L2": 0.0, "L1": 1.0, "elastic net": L1_RATIO}[job.penalty]

    def make(p: Problem, k: int) -> Any:
        penalty = penalties.L1(p.lam) if ratio == 1.0 else penalties.L1_plus_L2(p.lam, ratio)
        method = getattr(solvers, solver)(tol=tolerance(k), fit_intercept=p.intercept)
        return skglm.GeneralizedLinearEstimator(getattr(datafits, datafit)(**settings), penalty, method)

    return [Rival("skglm", make, compiles=True, by_tolerance=True)]


RIVALS: dict[tuple[str, str], tuple[Rival, ...]] = {
    ("hinge", "L2"): (
        *_liblinear("LIBLINEAR", LinearSVC, loss="hinge", dual=True),
        _libsvm(SVC),
    ),
    ("squared hinge", "L2"): (
        *_liblinear("LIBLINEAR dual", LinearSVC, dual=True),
        *_liblinear("LIBLINEAR primal", LinearSVC, dual=False),
    ),
    ("squared hinge", "L1"): _liblinear("LIBLINEAR", LinearSVC, penalty="l1", dual=False),
    ("logistic", "L2"): (
        *_liblinear("LIBLINEAR primal", LogisticRegression, solver="liblinear"),
        *_liblinear("LIBLINEAR dual", LogisticRegression, solver="liblinear", dual=True),
        NEWTON, LBFGS, NEWTON_CG, _saga(0.0),
    ),
    ("logistic", "L1"): (*_liblinear("LIBLINEAR", LogisticRegression, solver="liblinear", **_penalty(1.0)), _saga(1.0)),
    ("logistic", "elastic net"): (_saga(L1_RATIO),),
    ("softmax", "L2"): (NEWTON_CG, LBFGS, _saga(0.0)),
    ("softmax", "L1"): (_saga(1.0),),
    ("softmax", "elastic net"): (_saga(L1_RATIO),),
    ("Crammer-Singer", "L2"): (Rival("LIBLINEAR", _crammer_singer, _no_intercept, by_tolerance=True),),
    ("squared", "L2"): (
        Rival("scikit-learn Ridge cholesky", _ridge("cholesky"), _is_dense),
        Rival("scikit-learn Ridge sparse_cg", _ridge("sparse_cg")),
        Rival("scikit-learn Ridge lsqr", _ridge("lsqr")),
        *_liblinear("LIBLINEAR", HalfSVR, loss="squared_epsilon_insensitive", epsilon=0.0, dual=False),
    ),
    ("squared", "L1"): (LASSO,),
    ("squared", "elastic net"): (ENET,),
    ("epsilon-insensitive", "L2"): (
        *_liblinear("LIBLINEAR", LinearSVR, epsilon=EPSILON, dual=True),
        _libsvm(SVR, epsilon=EPSILON),
    ),
    ("absolute", "L2"): (
        *_liblinear("LIBLINEAR", LinearSVR, epsilon=0.0, dual=True),
        _libsvm(SVR, epsilon=0.0),
    ),
    ("absolute", "L1"): (_quantile(0.5, share=0.5),),
    ("quantile", "L1"): (_quantile(QUANTILE),),
    ("Poisson", "L2"): (
        Rival("scikit-learn newton-cholesky", _poisson("newton-cholesky"), _few_features),
        Rival("scikit-learn lbfgs", _poisson("lbfgs")),
    ),
}  # fmt: skip


def rivals(job: Job) -> list[Rival]:
    """The peers that solve the problem of a job, installed or not; those that are likely to be fast first."""
    found = [rival for rival in RIVALS.get((job.loss, job.penalty), ()) if rival.suits(job)]
    return _celer(job) + _skglm(job) + found


def fit(rival: Rival, problem: Problem, iterations: int, excess: Callable[[np.ndarray], float]) -> Fit:
    """One run from scratch; its excess is computed outside the clock."""
    limit = rival.unit * iterations
    model = rival.make(problem, limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        model.fit(problem.X, problem.y)
        seconds = time.perf_counter() - began
    coef = model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_
    exhausted = tolerance(limit) < TINY if rival.by_tolerance else _iterations(model) < limit
    return Fit(iterations, seconds, excess(np.ravel(coef)), exhausted)


def _iterations(model: Any) -> int:
    """What a model took; 0 for methods without iterations."""
    taken: Sequence[int] | int | None = getattr(model, "n_iter_", None)
    return 0 if taken is None else int(np.max(taken))
