"""What every estimator with a certificate shares: one rule to stop, the report of the certificate, the saved state."""

from __future__ import annotations

import inspect
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from signal import SIGINT
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from undercut.callbacks import LiveProgress
from undercut.contracts import Loss, Regularizer, Risk, Solver
from undercut.errors import ConstantModelWarning, ModelFileError
from undercut.estimators.files.stored import decode, encode
from undercut.estimators.sharing import Budget, at_once, effective_n_jobs
from undercut.estimators.targets import Problem
from undercut.estimators.tasks import CallbackSupportMixin, begin_task, end_task
from undercut.interrupts import graceful, raise_for
from undercut.io.model_file import ModelState
from undercut.risks.baseline import constant_objective, is_bound_of_a_measure
from undercut.solvers import SOLVERS, Stop, minimize
from undercut.trace import BOUND_NAMES, Callback, Callbacks, Progress, Result, Status, open_sessions
from undercut.types import FloatArray

NUMBERS = ("objective_", "lower_bound_", "gap_")
CERTIFICATE = (*NUMBERS, "certificate_", "n_iter_")
INPUTS = ("n_features_in_", "feature_names_in_")
NAMELESS = Problem(np.empty(0), None)  # the only problem of a fit
P = TypeVar("P")
T = TypeVar("T")
TRANSIENT = ("callbacks", "n_jobs")  # parameters that are no part of a model
RECORDS = ("lam_", "table_", "training_")  # the lambda of a cross-validation; columns and training, of the command line


class Rough(NamedTuple):
    """Limits of a run that only decides something."""

    gap_rel: float = 0.0
    max_steps: int = sys.maxsize


EXACT = Rough()


class Minimizer:
    """Solves the problems of one fit, all by the same rule to stop, in the same time, with the same callbacks.

    Ctrl-C or SIGTERM ends the runs that it meets; each problem after it gets a single step, so that the fit has all
    its parts.  A second one is raised at once.
    """

    def __init__(
        self, solver: Any, stop: Stop, verbose: int, fine: frozenset[Status], callbacks: Callbacks, jobs: int | None
    ) -> None:
        self.solver, self.stop, self.verbose, self.jobs = solver, stop, verbose, jobs
        self.fine = fine  # statuses that need no warning
        self.signal: int | None = None  # what ended the fit
        self._sessions = open_sessions(callbacks or ())
        self._began = time.perf_counter()
        self.share_among(1)

    def share_among(self, n_runs: int, n_threads: int = 1) -> None:
        """Divide the time that is left; that of a resumed fit is counted from its beginning."""
        before = max((sum(session.done.values()) for session in self._sessions), default=0.0) / n_threads
        spent = before + time.perf_counter() - self._began
        self._budget = Budget(max(self.stop.max_seconds - spent, 0.0), n_runs, n_threads)

    def each(self, work: Callable[[P], T], problems: Iterable[P], runs_each: int = 1) -> Iterator[T]:
        """What ``work`` makes of several problems, each in that many runs at most; ``jobs`` of them at a time."""
        problems = list(problems)
        n_threads = min(effective_n_jobs(self.jobs), len(problems))
        self.share_among(runs_each * len(problems), n_threads)
        if n_threads == 1:
            return map(work, problems)
        verbose, self.verbose = self.verbose, 0  # lines of several problems at once would overwrite each other
        return iter(at_once(work, problems, n_threads, verbose))

    def __call__(
        self,
        risk: Risk,
        reg: Regularizer,
        w0: FloatArray | None = None,
        *,
        problem: Problem = NAMELESS,
        solver: Any = None,
        rough: Rough = EXACT,
        is_measure: bool = False,
    ) -> Result:
        """Minimize ``reg + risk``; a run that ends early warns, unless that is within the limits of a rough one.

        The gap of a model that ``is_measure`` says to be of a measure is relative to what it gains over equal scores.
        """
        name = problem.name
        with graceful() as signals, live_progress(problem.title, self.verbose, self.stop.gap_rel) as live:
            self.signal = self.signal or signals.number  # one that arrived between two runs
            stopped = self.signal is not None
            callbacks = [*live, *(session.part(name) for session in self._sessions)]
            baseline = constant_objective(risk, reg)
            stop = self._stop(name)
            stop = replace(
                stop, gap_rel=max(stop.gap_rel, rough.gap_rel), max_steps=min(stop.max_steps, rough.max_steps)
            )
            if is_measure or is_bound_of_a_measure(risk):
                stop = replace(stop, baseline=baseline)
            result = minimize(risk, reg, solver or self.solver, w0=w0, stop=stop, callbacks=callbacks)
            if result.interrupted and stopped:
                raise KeyboardInterrupt
            if result.interrupted:
                self.signal = signals.number or SIGINT
        is_enough = result.status is Status.STOPPED or result.n_steps >= rough.max_steps
        if not is_enough and self.signal is None:
            warn_unless(result, self.fine, problem.title)
        return replace(result, baseline=baseline)

    def close(self) -> None:
        """The fit is over."""
        for session in self._sessions:
            session.close()

    def _stop(self, name: str) -> Stop:
        """The rule for the next run: with its share of the time, beside what it had before it was resumed."""
        before = max((session.done.get(name, 0.0) for session in self._sessions), default=0.0)
        stop = replace(self.stop, max_seconds=before + self._budget.share())
        return stop if self.signal is None else replace(stop, max_steps=1, max_passes=1)


class CertifiedEstimator(CallbackSupportMixin, BaseEstimator):
    """An estimator fitted by ``minimize``: it owns the solver, the rule to stop, the report and the saved state.

    Parameters
    ----------
    solver : the name of a solver, or a ``Solver``
    gap_rel : float
        Stop once ``objective - lower_bound <= gap_rel * objective``.  For measures and rankings the gap is also at most
        ``gap_rel`` times what can be gained over a model with equal scores for all samples.
    max_steps : limit for each problem; reaching it warns and keeps the certificate.
    max_seconds : limit for the whole fit, shared by its problems; reaching it warns and keeps the certificate.
    verbose : 0, 1 or 2
        1 shows objective, bound, gap and the time left: live on a terminal and in a notebook, elsewhere as a line every
        few seconds of the logger ``undercut``.  2 prints every step.
    callbacks : list of functions or None
        Called with the ``Progress`` of every step; one that returns ``True`` ends the run of its problem.
        ``set_callbacks`` takes scikit-learn's own, where its version has them (1.9).

    Attributes
    ----------
    objective_, lower_bound_, gap_ : the certificate: ``lower_bound_ <= optimum <= objective_``
    certificate_ : "global", or "local" for a non-convex problem: ``gap_`` is then the model gap, and there is no bound
    n_iter_ : steps of the longest run
    result_ : ``Result``, or a list of one per problem
    interrupted_ : bool
        Whether Ctrl-C or SIGTERM ended the fit, after the step in hand.  ``fit`` then raises ``KeyboardInterrupt`` or
        ``SystemExit``, so that a loop of fits ends too, and the estimator holds the best solution so far with its
        certificate.
    """

    solver: Any
    gap_rel: float
    max_steps: int
    max_seconds: float | None
    verbose: int
    callbacks: Callbacks
    n_features_in_: int

    # The domains of all parameters with one meaning in every estimator; scikit-learn reads those that there are.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "loss": [str, Loss],
        "lam": [Interval(Real, 0.0, None, closed="neither")],
        "solver": [StrOptions({"auto", "deterministic", *SOLVERS}), Solver],
        "fit_intercept": ["boolean"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "gap_rel": [Interval(Real, 0.0, None, closed="left")],
        "max_steps": [Interval(Integral, 1, None, closed="left")],
        "max_seconds": [Interval(Real, 0.0, None, closed="neither"), None],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "callbacks": [list, tuple, None],
        "n_jobs": [Integral, None],
    }
    _fitted: ClassVar[tuple[str, ...]]  # the attributes of a fit that a model file holds, beside the certificate
    _fits_streams: ClassVar[bool] = False  # whether the rows of X may stay on disk

    def _keep(self, given: dict[str, Any]) -> None:
        """Set the parameters from the ``locals()`` of a constructor."""
        vars(self).update({name: value for name, value in given.items() if name != "self"})

    def _minimizer(self, gap_abs: float = 0.0) -> Minimizer:
        """What solves the problems of one fit."""
        seconds = self.max_seconds or np.inf
        stop = Stop(gap_abs=gap_abs, gap_rel=self.gap_rel, max_steps=self.max_steps, max_seconds=seconds)
        solver = "deterministic" if self.solver == "auto" and self.random_state is not None else self.solver
        jobs = getattr(self, "n_jobs", None)
        return Minimizer(solver, stop, self.verbose, frozenset({Status.CONVERGED}), self._watchers(), jobs)

    def _watchers(self) -> list[Callback]:
        """The user's callbacks, and scikit-learn's where they are set; the fit begins here."""
        return [*(self.callbacks or ()), *begin_task(self)]

    def _conclude(self, minimizer: Minimizer, results: list[Result]) -> Self:
        """Report the certificate, in which several problems add up; raise what belongs to a signal that came."""
        self.result_ = results[0] if len(results) == 1 else results
        self.certificate_ = results[0].certificate
        self.objective_ = float(sum(result.objective for result in results))
        self.gap_ = float(sum(result.gap for result in results))
        self.lower_bound_ = self.objective_ - self.gap_ if self.certificate_ == "global" else -np.inf
        self.n_iter_ = max(1, *(result.n_steps for result in results), 1)
        self.interrupted_ = minimizer.signal is not None
        minimizer.close()
        end_task(self)
        if minimizer.signal is not None:
            raise_for(minimizer.signal)
        if all(result.status is Status.CONVERGED for result in results):
            self._warn_if_constant(sum(result.baseline for result in results))
        return self

    def _warn_if_constant(self, baseline: float) -> None:
        """Warn where equal scores for all samples are as good as the solution, up to the gap."""
        if baseline - self.objective_ <= self.gap_:
            warnings.warn(
                f"this fit has learned nothing: the objective is {self.objective_:.6g} with a gap of {self.gap_:.3g}, "
                f"and {baseline:.6g} with equal scores for all samples: {self._remedy_for_constant()}",
                ConstantModelWarning,
                stacklevel=frames_inside(),
            )

    def _remedy_for_constant(self) -> str:
        """What to do about a model that has learned nothing."""
        return (
            "use a smaller lambda (a larger C) or a smaller gap_rel, scale the features, or give more weight to a rare "
            "class"
        )

    def state(self) -> ModelState:
        """Parameters and fit for a model file; ``ModelFileError`` names the parameter that cannot be stored."""
        if not hasattr(self, "n_features_in_"):
            raise ModelFileError(f"only a fitted estimator can be saved: call fit first; got {self}")
        known = (*CERTIFICATE, *INPUTS, *RECORDS, *self._fitted)
        arrays: dict[str, Any] = {}
        given = {name: value for name, value in self.get_params(deep=False).items() if name not in TRANSIENT}
        params = {name: encode(value, name, arrays) for name, value in given.items()}
        fitted = {name: encode(getattr(self, name), name, arrays) for name in known if name in vars(self)}
        return ModelState(params, fitted, arrays)

    @classmethod
    def from_state(cls, state: ModelState) -> Self:
        """The estimator that ``state`` described; ``ValueError`` if its parts do not fit together."""
        model = cls(**{name: decode(value, state.arrays) for name, value in state.params.items()})
        model._validate_params()
        for name, value in state.fitted.items():
            if name not in (*CERTIFICATE, *INPUTS, *RECORDS, *cls._fitted):
                raise ValueError(f"a {cls.__name__} has no attribute {name!r}")
            setattr(model, name, decode(value, state.arrays))
        model.n_features_in_ = int(model.n_features_in_)
        if hasattr(model, "feature_names_in_"):
            model.feature_names_in_ = np.array(model.feature_names_in_, dtype=object)
        if hasattr(model, "table_"):
            model.table_.check(model.n_features_in_)
        if not isinstance(getattr(model, "training_", {}), dict):
            raise ValueError("the record of the training is not a dict")
        model._check_certificate()
        if not all(
            np.isfinite(array).all() for name, array in state.arrays.items() if name.split(".")[0] not in state.params
        ):
            raise ValueError("the coefficients are not finite")
        return model

    def _check_certificate(self) -> None:
        """Refuse a certificate with parts that are missing or of another kind."""
        self.n_iter_ = int(self.n_iter_)
        for name in NUMBERS:
            setattr(self, name, float(getattr(self, name)))
        if self.certificate_ not in BOUND_NAMES:
            raise ValueError(f"the certificate {self.certificate_!r} is unknown")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@contextmanager
def live_progress(title: str, verbose: int, gap_rel: float = 0.0) -> Iterator[list[Callback]]:
    """The callbacks of a fit: a line that shows how it goes if ``verbose``."""
    if not verbose:
        yield []
        return
    with LiveProgress(title, gap_rel=gap_rel, verbose=verbose) as live:
        yield [live]


def warn_unless(result: Result, fine: frozenset[Status], title: str) -> None:
    """Warn about a run that ended with another status: the remedy, and the certificate."""
    if result.status in fine:
        return
    about = f"{title}: " if title else ""
    last = result.trace[-1] if result.trace else Progress(certificate=result.certificate)
    warnings.warn(
        f"{about}{result.message}; objective {result.objective:.6g}, {last.bound_name} {result.lower_bound:.6g}, "
        f"{last.gap_name} {result.gap:.3g}",
        ConvergenceWarning,
        stacklevel=frames_inside(),
    )


def frames_inside() -> int:
    """How many frames up the user's own code is, where a warning belongs."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("undercut", "sklearn"):
        frame, level = frame.f_back, level + 1
    return level
