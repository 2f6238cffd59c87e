"""Cross-validation over a path: every fold goes from strong to weak, and its solutions are scored as they come."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata

from undercut.contracts import Regularizer, Risk
from undercut.errors import DataError
from undercut.risks.baseline import constant_objective, is_bound_of_a_measure
from undercut.selection.decision import AccuracyBounds, Board, Decision
from undercut.selection.grid import MakeRegularizer
from undercut.selection.path import check_convex
from undercut.selection.warm import WarmRuns, never
from undercut.solvers.driver import Stop
from undercut.solvers.registry import AnySolver
from undercut.trace import Result, Status
from undercut.types import FloatArray

Watch = Callable[[int, float, float], None]  # called with the number of a fold, a lambda and the score


@dataclass
class Fold:
    """The problems on the training samples of a fold, and the score of their solutions on the others."""

    risks: list[Risk]
    score: Callable[[list[FloatArray]], float]
    bounds: AccuracyBounds | None = None  # where the score is the accuracy of one problem


@dataclass(frozen=True)
class Search:
    """What every fold is minimized with."""

    penalty: MakeRegularizer
    solver: AnySolver | str = "auto"
    stop: Stop = Stop()  # noqa: RUF009  (frozen)
    n_jobs: int | None = None
    may_skip: bool = True  # whether a lambda that cannot have the best mean needs no accurate score
    watch: Watch | None = None

    def stop_for(self, risk: Risk, reg: Regularizer) -> Stop:
        """The rule of a run; for measures and rankings the gap is also relative to the gain over equal scores."""
        return replace(self.stop, baseline=constant_objective(risk, reg)) if is_bound_of_a_measure(risk) else self.stop


@dataclass(frozen=True)
class Scores:
    """What the folds found; every array has the shape (n_folds, n_lams)."""

    lams: FloatArray
    scores: FloatArray
    fit_seconds: FloatArray
    score_seconds: FloatArray
    gaps: FloatArray  # relative, the largest of a fold's problems
    n_steps: FloatArray
    decided: FloatArray  # whether the run ended before its gap was reached, because the choice could not change
    unfinished: FloatArray  # whether a run met a limit before its gap was reached
    ends: list[list[FloatArray]]  # the solutions of every fold at its last lambda

    @property
    def means(self) -> FloatArray:
        """The mean score of every lambda."""
        return np.asarray(self.scores.mean(axis=0))

    @property
    def errors(self) -> FloatArray:
        """The standard error of that mean."""
        return np.asarray(self.scores.std(axis=0) / math.sqrt(self.scores.shape[0]))

    def joined(self, other: Scores) -> Scores:
        """These and those of other lambdas, from strong to weak."""
        lams = np.concatenate([self.lams, other.lams])
        order = np.argsort(-lams, kind="stable")
        parts = {name: np.hstack([getattr(self, name), getattr(other, name)])[:, order] for name in ARRAYS}
        return replace(self, lams=lams[order], ends=other.ends, **parts)

    def best(self, *, one_standard_error: bool = False) -> int:
        """The number of the lambda with the highest mean; or of the strongest within one standard error of it."""
        best = int(np.argmax(self.means))
        if not one_standard_error:
            return best
        return int(np.flatnonzero(self.means >= self.means[best] - self.errors[best])[0])

    def table(self) -> dict[str, Any]:
        """The numbers under the names of scikit-learn's ``cv_results_``, and gaps, steps and early ends."""
        rows: dict[str, Any] = {}
        for name, values in (("fit_time", self.fit_seconds), ("score_time", self.score_seconds)):
            rows |= {f"mean_{name}": values.mean(axis=0), f"std_{name}": values.std(axis=0)}
        rows["param_lam"] = np.ma.array(self.lams, mask=False)
        rows["params"] = [{"lam": float(lam)} for lam in self.lams]
        if len(self.scores) <= MANY_FOLDS:
            rows |= {f"split{fold}_test_score": scores for fold, scores in enumerate(self.scores)}
        rows |= {"mean_test_score": self.means, "std_test_score": self.scores.std(axis=0)}
        rows["rank_test_score"] = rankdata(-self.means, method="min").astype(np.int32)
        rows |= {"max_gap": self.gaps.max(axis=0), "mean_steps": self.n_steps.mean(axis=0)}
        rows["n_decided"] = self.decided.sum(axis=0).astype(np.int32)
        return rows


MANY_FOLDS = 1000  # the table holds the scores of single folds unless there are more
ARRAYS = ("scores", "fit_seconds", "score_seconds", "gaps", "n_steps", "decided", "unfinished")


def cross_validate(
    folds: Sequence[Callable[[], Fold]], lams: FloatArray, search: Search, starts: list[list[FloatArray]] | None = None
) -> Scores:
    """The scores of all folds for all lambdas, which go from strong to weak.

    A fold is made where it is needed, in a thread, or in a process inside ``joblib.parallel_config("loky")``.
    ``starts`` are solutions of every fold to begin from.
    """
    board = Board.of(len(folds), lams.size)
    jobs = [
        delayed(_run)(make, number, lams, search, board, starts[number] if starts else None)
        for number, make in enumerate(folds)
    ]
    runs = Parallel(n_jobs=search.n_jobs, prefer="threads")(jobs)
    columns = {name: np.array([run[name] for run in runs], dtype=np.float64) for name in ARRAYS}
    return Scores(lams, ends=[run["end"] for run in runs], **columns)


def _run(
    make: Callable[[], Fold], number: int, lams: FloatArray, search: Search, board: Board, start: Any
) -> dict[str, Any]:
    """One fold along the path."""
    fold = make()
    for risk in fold.risks:
        check_convex(risk)
    starts = start or [None] * len(fold.risks)
    runs = [WarmRuns(risk, search.solver, w0) for risk, w0 in zip(fold.risks, starts, strict=True)]
    rows: dict[str, Any] = {name: [] for name in ARRAYS}
    for at, lam in enumerate(lams.tolist()):
        began = time.perf_counter()
        decide = _decision(fold, board, number, at, search, lam)
        reg = search.penalty(lam)
        results = [run(reg, search.stop_for(run.risk, reg), decide) for run in runs]
        _check(results, number, lam)
        fitted = time.perf_counter()
        rows["end"] = [result.w for result in results]
        score = float(fold.score(rows["end"]))
        found = (score, fitted - began, time.perf_counter() - fitted, *_measures(results))
        for name, value in zip(ARRAYS, found, strict=True):
            rows[name].append(value)
        if search.watch is not None:
            search.watch(number, lam, score)
    return rows


def _decision(fold: Fold, board: Board, number: int, at: int, search: Search, lam: float) -> Any:
    """What may end a run before its gap is reached."""
    strength = search.penalty(lam).strong_convexity
    if fold.bounds is None or strength <= 0.0:
        return never
    return Decision(fold.bounds, board, number, at, strength, search.may_skip)


def _check(results: list[Result], number: int, lam: float) -> None:
    for result in results:
        if result.status is Status.STOPPED:
            raise KeyboardInterrupt
        if not np.isfinite(result.w).all() or not math.isfinite(result.objective):
            raise DataError(f"fold {number + 1} at lambda {lam:.3g}: {result.message}")


def _measures(results: list[Result]) -> tuple[float, int, bool, bool]:
    """The largest relative gap, the steps, whether all runs were decided early, and whether one met a limit."""
    gap = max(result.gap / abs(result.objective) if result.objective else result.gap for result in results)
    decided = all(result.status is Status.DECIDED for result in results)
    unfinished = any(result.status not in (Status.CONVERGED, Status.DECIDED) for result in results)
    return gap, sum(result.n_steps for result in results), decided, unfinished
