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
from undercut.selection.decision import Board, Decision
from undercut.selection.grid import MakeRegularizer
from undercut.selection.held_out import HeldOut
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
    held_out: HeldOut | None = None  # where the score is a mean over samples that can be bounded


@dataclass(frozen=True)
class Search:
    """What every fold is minimized with."""

    penalty: MakeRegularizer
    solver: AnySolver | str = "auto"
    stop: Stop = Stop()  # noqa: RUF009  (frozen)
    n_jobs: int | None = None
    may_skip: bool = True  # whether a lambda that cannot have the best mean needs no accurate score
    watch: Watch | None = None
    early: str = "evident"  # fits end early by "evident" differences, where it is "proved" only, or "never"

    @property
    def by_evidence(self) -> bool:
        """Whether a lambda that predicts worse beyond chance is given up."""
        return self.may_skip and self.early == "evident"

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
    skipped: FloatArray  # whether there was no run, because other folds have shown that the lambda is worse
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
        rows["n_skipped"] = self.skipped.sum(axis=0).astype(np.int32)
        return rows


MANY_FOLDS = 1000  # the table holds the scores of single folds unless there are more
ARRAYS = ("scores", "fit_seconds", "score_seconds", "gaps", "n_steps", "decided", "unfinished", "skipped")


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
    along = _Along(fold, number, search, board, start or [None] * len(fold.risks))
    rows: dict[str, Any] = {name: [] for name in ARRAYS}
    for at, lam in enumerate(lams.tolist()):
        lead = board.race.leader(at) if search.by_evidence else None
        found = along.fitted(at, lam) if lead is None else along.skipped(lam, rows["scores"][lead.by] - lead.mean)
        for name, value in zip(ARRAYS, found, strict=True):
            rows[name].append(value)
        if search.watch is not None:
            search.watch(number, lam, found[0])
    return rows | {"end": along.solutions}


class _Along:
    """The problems of one fold on their way along the path; what it finds of a lambda has the order of ``ARRAYS``."""

    def __init__(self, fold: Fold, number: int, search: Search, board: Board, starts: list[FloatArray | None]) -> None:
        self.fold, self.number, self.search, self.board = fold, number, search, board
        self.runs = [WarmRuns(risk, search.solver, w0) for risk, w0 in zip(fold.risks, starts, strict=True)]
        self.solutions = [np.zeros(risk.n_params) for risk in fold.risks]
        self.seen: dict[int, FloatArray] = {}  # the held-out values at the lambdas so far, by number

    def fitted(self, at: int, lam: float) -> tuple[float, ...]:
        """A lambda that is fitted."""
        began, reg = time.perf_counter(), self.search.penalty(lam)
        results = []
        for run, watch in zip(self.runs, self._watches(at, reg), strict=True):
            results.append(run(reg, self.search.stop_for(run.risk, reg), watch))
            _check(results[-1], self.number, lam)
        fitted = time.perf_counter()
        self.solutions = [result.w for result in results]
        score = float(self.fold.score(self.solutions))
        if self.fold.held_out is not None:
            values = self.fold.held_out.values(self.solutions)
            self.board.race.meet(self.number, at, values, self.seen)
            self.seen[at] = values
        return score, fitted - began, time.perf_counter() - fitted, *_measures(results), False

    def skipped(self, lam: float, score: float) -> tuple[float, ...]:
        """A lambda that is left at the solutions of the last one, with the score that other folds let expect."""
        reg = self.search.penalty(lam)
        starts = [start.as_result() for run in self.runs if (start := run.start(reg)) is not None]
        return score, 0.0, 0.0, *_measures(starts), True

    def _watches(self, at: int, reg: Regularizer) -> list[Any]:
        """What may end the runs of a lambda before their gaps are reached."""
        if self.fold.held_out is None or self.search.early == "never" or reg.strong_convexity <= 0.0:
            return [never] * len(self.runs)
        decision = Decision(
            self.fold.held_out, self.board, self.seen, self.number, at, reg.strong_convexity, self.solutions,
            self.search.may_skip, self.search.by_evidence,
        )  # fmt: skip
        return [decision.watch(problem) for problem in range(len(self.runs))]


def _check(result: Result, number: int, lam: float) -> None:
    if result.status is Status.STOPPED:
        raise KeyboardInterrupt
    if not np.isfinite(result.w).all() or not math.isfinite(result.objective):
        raise DataError(f"fold {number + 1} at lambda {lam:.3g}: {result.message}")


def _measures(results: list[Result]) -> tuple[float, int, bool, bool]:
    """The largest relative gap, the steps, whether the lambda was decided early, and whether one met a limit."""
    gap = max(result.gap / abs(result.objective) if result.objective else result.gap for result in results)
    decided = any(result.status is Status.DECIDED for result in results)
    unfinished = any(result.status not in (Status.CONVERGED, Status.DECIDED) for result in results)
    return gap, sum(result.n_steps for result in results), decided, unfinished
