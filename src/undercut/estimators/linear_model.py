"""What the linear estimators share: their parameters' domains, one certified fit, and how it is reported."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from undercut.callbacks import LiveProgress
from undercut.contracts import Loss, Regularizer, Risk, Solver
from undercut.errors import ModelFileError, require
from undercut.estimators.penalties import describe, rebuild, regularizer
from undercut.estimators.sparse_coef import dense_coef
from undercut.regularizers import L2
from undercut.risks import LinearRisk, ScoreRisk
from undercut.solvers import SOLVERS, Stop, minimize
from undercut.trace import Callback, Progress, Result, Status
from undercut.types import Array, FloatArray

FLOATS = [np.float64, np.float32]


def lam_from_C(C: float, n_samples: int) -> float:
    """The ``lam`` of ``lam/2 |w|^2 + mean loss`` that equals the ``C`` of ``|w|^2 / 2 + C * summed loss``.

    >>> lam_from_C(C=1.0, n_samples=1000)
    0.001
    """
    require(C > 0.0, "`C` must be positive", C)
    require(n_samples >= 1, "`n_samples` must be at least 1", n_samples)
    return 1.0 / (n_samples * C)


class Fit(NamedTuple):
    """One solved problem."""

    w: FloatArray
    intercept: float
    result: Result


class LinearModel(BaseEstimator):
    """A linear model fitted by ``minimize``; subclasses say what the targets of their problems are."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [str, Loss],
        "lam": [Interval(Real, 0.0, None, closed="neither")],
        "solver": [StrOptions({"auto", *SOLVERS}), Solver],
        "fit_intercept": ["boolean"],
        "gap_rel": [Interval(Real, 0.0, None, closed="left")],
        "max_steps": [Interval(Integral, 1, None, closed="left")],
        "max_seconds": [Interval(Real, 0.0, None, closed="neither"), None],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }
    _losses: ClassVar[dict[str, type[Loss]]]

    def _loss(self) -> Loss:
        if isinstance(self.loss, Loss):
            return self.loss
        if self.loss not in self._losses:
            known = ", ".join(repr(name) for name in self._losses)
            raise ValueError(f"`loss` must be one of {known}, or a Loss; got {self.loss!r}")
        return self._losses[self.loss]()

    def _regularizer(self) -> Regularizer:
        if "penalty" not in self._get_param_names():
            return L2(self.lam)
        return regularizer(self.penalty, self.lam, self.l1_ratio)

    def _saved(self) -> dict[str, Any]:
        """What the model minimizes, for a model file: the parameters that are objects of this library."""
        saved: dict[str, Any] = {}
        if "loss" in self._get_param_names():
            loss = self._loss()
            names = {kind: name for name, kind in self._losses.items()}
            if type(loss) not in names:
                raise ModelFileError(f"only our own losses can be saved; got {type(loss).__name__}: pickle is unsafe")
            saved["loss"] = {"name": names[type(loss)], "settings": asdict(loss)}  # type: ignore[call-overload]
        if isinstance(getattr(self, "penalty", None), Regularizer):
            saved["penalty"] = describe(self.penalty)
        return saved

    @classmethod
    def _restored(cls, saved: dict[str, Any]) -> dict[str, Any]:
        """The parameters that ``_saved`` described; a name where that is enough."""
        params: dict[str, Any] = {}
        if "loss" in cls._get_param_names():
            name, settings = saved["loss"]["name"], saved["loss"]["settings"]
            loss = cls._losses[name](**settings)
            params["loss"] = loss if settings else name
        if "penalty" in saved:
            params["penalty"] = rebuild(saved["penalty"])
        return params

    def _validated(self, X: Any, reset: bool = False, **options: Any) -> Any:
        """X, or X and the ``y`` among the options, as arrays."""
        return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=FLOATS, **options)

    def _solve(
        self,
        X: Any,
        y: FloatArray,
        weight: Array | None,
        w0: FloatArray | None,
        title: str = "",
        *,
        brief: bool = False,
    ) -> Fit:
        """Fit one problem."""
        risk = LinearRisk(X, y, self._loss(), sample_weight=weight, fit_intercept=self.fit_intercept)
        return self._fitted(risk, w0, title, brief=brief)

    def _fitted(self, risk: ScoreRisk, w0: FloatArray | None, title: str = "", *, brief: bool = False) -> Fit:
        """The minimizer of a risk, with the intercept that belongs to it."""
        result = self._minimize(risk, w0, title, brief=brief)
        return Fit(result.w, risk.intercept(result.w), result)

    def _minimize(
        self,
        risk: Risk,
        w0: FloatArray | None,
        title: str = "",
        *,
        solver: Any = None,
        reg: Regularizer | None = None,
        brief: bool = False,
        gap_abs: float = 0.0,
    ) -> Result:
        """Minimize a risk to the wanted gap, or with one ``brief`` step after Ctrl-C has ended an earlier problem.

        A run that ends early warns, certificate included.
        """
        max_steps = 1 if brief else self.max_steps
        max_seconds = self.max_seconds or np.inf
        stop = Stop(gap_abs=gap_abs, gap_rel=self.gap_rel, max_steps=max_steps, max_seconds=max_seconds)
        reg, solver = reg or self._regularizer(), solver or self.solver
        with live_progress(title, self.verbose) as callbacks:
            result = minimize(risk, reg, solver, w0=w0, stop=stop, callbacks=callbacks)
        warn_unless(result, {Status.CONVERGED}, title)
        return result

    def _joined(self, coef: FloatArray, intercept: float) -> FloatArray:
        """The parameters of the risk: the best intercept is found again, so w alone."""
        return coef

    def to_arrays(self) -> dict[str, Array]:
        """What a model file stores of the fit, beside its header."""
        return {"coef": np.ascontiguousarray(dense_coef(self)), "intercept": np.atleast_1d(self.intercept_)}

    def restore(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take in what a model file holds besides coefficients; ``ValueError`` if the parts do not fit together."""

    def _report(self, results: list[Result]) -> None:
        """The certificate of the fit; several problems add up."""
        self.result_ = results[0] if len(results) == 1 else results
        self.certificate_ = results[0].certificate
        self.objective_ = float(sum(result.objective for result in results))
        self.gap_ = float(sum(result.gap for result in results))
        self.lower_bound_ = self.objective_ - self.gap_ if self.certificate_ == "global" else -np.inf
        self.n_iter_ = max(1, *(result.n_steps for result in results), 1)

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        X = self._validated(X)
        scores: FloatArray = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@contextmanager
def live_progress(title: str, verbose: int) -> Iterator[list[Callback]]:
    """The callbacks of a fit: a live line if ``verbose``."""
    if not verbose:
        yield []
        return
    with LiveProgress(title) as live:
        yield [live]


def warn_unless(result: Result, fine: set[Status], title: str) -> None:
    """Warn about a run that ended otherwise, with the remedy and what is known all the same."""
    if result.status in fine:
        return
    about = f"{title}: " if title else ""
    last = result.trace[-1] if result.trace else Progress(certificate=result.certificate)
    warnings.warn(
        f"{about}{result.message}; objective {result.objective:.6g}, {last.bound_name} {result.lower_bound:.6g}, "
        f"{last.gap_name} {result.gap:.3g}",
        ConvergenceWarning,
        stacklevel=_frames_inside(),
    )


def _frames_inside() -> int:
    """How many frames up the user's own code is, where a warning belongs."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("undercut", "sklearn"):
        frame, level = frame.f_back, level + 1
    return level
