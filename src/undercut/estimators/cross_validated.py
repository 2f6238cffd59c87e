"""Estimators that choose their lambda: what the classes share, over one cross-validation along the path."""

from __future__ import annotations

import inspect
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import StrOptions

from undercut.errors import DataError, ParameterError
from undercut.estimators.certified import CertifiedEstimator, frames_inside
from undercut.estimators.folds import Split, checked_splits, named_fold
from undercut.estimators.penalties import regularizer
from undercut.regularizers import L2
from undercut.selection.cross_validation import Fold, Scores, Search, Watch, cross_validate
from undercut.selection.grid import PER_DECADE, MakeRegularizer, first_lambda, given_grid
from undercut.selection.path import Path, regularization_path
from undercut.solvers import Stop
from undercut.trace import Status
from undercut.types import Array, FloatArray

OWN = {  # the parameters that stand in place of lambda, and their defaults
    "lams": None, "cv": 5, "scoring": None, "rule": "best", "extend": False, "early": "evident", "n_jobs": None,
}  # fmt: skip
GRID_GAP = 1e-2  # relative gap of the path that only finds the grid
EXTRA, MOST_EXTRA = 4, 20  # lambdas beyond the end of a grid: at a time, and at most


class Given(NamedTuple):
    """What ``fit`` was given, checked."""

    X: Any
    y: Any
    rest: dict[str, Any]  # the other arguments of ``fit``
    n: int  # what is divided into folds
    shared: Any = None  # what all folds use


class SelectionWarning(UserWarning):
    """The best lambda is the first or the last of its grid."""


def selecting(kind: type) -> Callable[..., None]:
    """A constructor with the parameters of an estimator, and those of the choice in place of ``lam``."""
    base = [p for name, p in inspect.signature(kind).parameters.items() if name not in ("lam", *OWN)]
    own = [inspect.Parameter(name, _place(at), default=value) for at, (name, value) in enumerate(OWN.items())]
    rest = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in base]
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

    def __init__(self: Any, *args: Any, **settings: Any) -> None:
        bound = signature.bind(self, *args, **settings)
        bound.apply_defaults()
        self._keep(bound.arguments)

    signature = inspect.Signature([this, *own, *rest])
    __init__.__signature__ = signature
    return __init__


def _place(at: int) -> Any:
    """The first three may be given by their place."""
    return inspect.Parameter.POSITIONAL_OR_KEYWORD if at < 3 else inspect.Parameter.KEYWORD_ONLY


CHOSEN = ("lam_", "best_score_", "best_index_", "best_params_", "lams_", "n_decided_")  # what a model file holds of it


class CrossValidated(CertifiedEstimator):
    """An estimator whose lambda is chosen by cross-validation.

    Parameters
    ----------
    lams : the lambdas, or None for a grid from where w = 0 is nearly optimal to where the training risk stops falling
    cv : int, a splitter of scikit-learn, or a list of pairs (training rows, held-out rows)
    scoring : as in ``GridSearchCV``; None is the estimator's own ``score``
    rule : "best" or "one_standard_error"
        The lambda with the highest mean score; or the strongest one whose mean is within one standard error of that.
    extend : bool
        Whether to go on beyond a grid whose best lambda is its end, by at most 20 lambdas; without it that leads to a
        warning.
    early : "evident", "proved" or "never"
        When a fit of a fold ends before its gap is reached, or is not begun: where other lambdas are better by more
        than chance, where it is proved that the choice cannot change, or never.
    max_seconds : limit for each lambda of a fold
    n_jobs : int or None
        Folds at a time, in threads; inside ``joblib.parallel_config("loky")`` in processes.

    Attributes
    ----------
    lam_ : the choice
    best_score_, best_index_, best_params_, cv_results_ : as in ``GridSearchCV``
    best_estimator_ : the plain estimator with this lambda, fitted to all samples
    lams_ : all lambdas that were tried, from strong to weak
    coef_, objective_, lower_bound_, gap_, ... : those of ``best_estimator_``
    n_decided_ : how many fits ended before their gap was reached, because the choice could not or would hardly change
    n_skipped_ : how many of them were not begun, because other folds had shown that their lambda is worse
    """

    lams: Any
    cv: Any
    scoring: Any
    rule: str
    extend: bool
    early: str
    n_jobs: int | None
    _kind: ClassVar[type[Any]]
    _fits_streams: ClassVar[bool] = False  # folds copy rows
    _watch: Watch | None = None  # called with every score as soon as it is known
    _own_constraints: ClassVar[dict[str, list[Any]]] = {
        "lams": ["array-like", None],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "rule": [StrOptions({"best", "one_standard_error"})],
        "extend": ["boolean"],
        "early": [StrOptions({"evident", "proved", "never"})],
        "n_jobs": [Integral, None],
    }

    @abstractmethod
    def _given(self, *data: Any, **rest: Any) -> Given:
        """The arguments of ``fit``, checked."""

    @abstractmethod
    def _fold(self, model: Any, given: Given, train: Array, held_out: Array) -> Fold:
        """The problems on some of the samples, and their score on others; ``model`` belongs to the fold."""

    @abstractmethod
    def _all(self, model: Any, given: Given) -> list[Any]:
        """The risks of all samples."""

    def full_path(self, *data: Any, lams: Any = None, epsilon: float | None = None, **rest: Any) -> Path:
        """The path of all samples, which ``fit`` would be given; several problems add up.

        lams, epsilon : as in ``regularization_path``
        """
        given, search = self._given(*data, **rest), self._search()
        risks = self._all(self._plain(1.0), given)
        if lams is None and len(risks) > 1:
            lams = self._found_grid(given, search)
        if epsilon is not None and len(risks) > 1:
            raise ParameterError(
                f"`epsilon` is for fits of one problem; this one has {len(risks)}, one per class: use `multi_class` "
                "crammer_singer or multinomial, which have one for all classes"
            )
        make = partial(regularization_path, penalty=search.penalty, solver=search.solver, stop=search.stop)
        return Path.sum([_uninterrupted(make(risk, lams, epsilon=epsilon)) for risk in risks])

    def _select(self, given: Given, groups: Any = None) -> Self:
        """Choose lambda and fit the plain estimator with it."""
        scores = self._scores_of_grid(given, groups)
        self._warn_about(scores, given)
        self._report(scores)
        return self._refit(given, self._plain(self.lam_))

    def _scores_of_grid(self, given: Given, groups: Any) -> Scores:
        """The scores of all lambdas, beyond the end of the grid too where that is wanted."""
        grid = None if self.lams is None else given_grid(self.lams)
        score = self._scoring_along(given, groups)
        lams = self._found_grid(given, self._search()) if grid is None else grid
        return self._beyond_ends(score, score(lams), given)

    def _scoring_along(self, given: Given, groups: Any) -> Callable[..., Scores]:
        """What scores lambdas: a function of them, and of the solutions of every fold to begin from, ``starts``."""
        folds = [self._maker(given, *split) for split in self._splits(given, groups)]
        return partial(cross_validate, folds, search=self._search())

    def _refit(self, given: Given, plain: Any) -> Self:
        """Fit the plain estimator with the chosen lambda, and take over what it has."""
        self.best_estimator_ = plain.fit(given.X, given.y, **given.rest)
        if hasattr(self, "feature_names_in_"):
            self.best_estimator_.feature_names_in_ = self.feature_names_in_
        fitted = {name: value for name, value in vars(self.best_estimator_).items() if name.endswith("_")}
        vars(self).update(fitted)
        return self

    def _search(self) -> Search:
        stop = Stop(gap_rel=self.gap_rel, max_steps=self.max_steps, max_seconds=self.max_seconds or np.inf)
        solver = "deterministic" if self.solver == "auto" and self.random_state is not None else self.solver
        return Search(self._penalty(), solver, stop, self.n_jobs, self.rule == "best", self._watch, self.early)

    def _penalty(self) -> MakeRegularizer:
        penalty = getattr(self, "penalty", "l2")
        if not isinstance(penalty, str):
            raise DataError(f"`penalty` must be a name, which lambda is chosen for; got {penalty!r}")
        if penalty == "l2":
            return L2
        return lambda lam: regularizer(penalty, lam, self.l1_ratio)

    def _plain(self, lam: float) -> Any:
        """The estimator for one lambda."""
        names = inspect.signature(self._kind).parameters
        settings = {name: value for name, value in self.get_params(deep=False).items() if name in names}
        return self._kind(**settings | {"lam": lam})

    def _maker(self, given: Given, train: Array, held_out: Array, name: str) -> Callable[[], Fold]:
        return partial(named_fold, partial(self._fold, self._plain(1.0), given, train, held_out), name)

    def _splits(self, given: Given, groups: Any) -> list[Split]:
        rows = self._splitter(given).split(np.zeros((given.n, 1)), self._split_target(given), groups)
        splits = checked_splits(rows, given.n)
        for split in splits:
            self._check_fold(given, split.train, split.name)
        return splits

    def _splitter(self, given: Given) -> Any:
        """What divides the samples into folds."""
        return check_cv(self.cv, self._split_target(given), classifier=is_classifier(self))

    def _split_target(self, given: Given) -> Any:
        """What a splitter sees of the targets."""
        return given.y

    def _check_fold(self, given: Given, train: Array, name: str) -> None:
        """Refuse a fold whose training part cannot be learned from."""
        if is_classifier(self):
            weight = given.rest.get("sample_weight")
            check_classes(given.y[train if weight is None else train[weight[train] > 0.0]], name)

    def _found_grid(self, given: Given, search: Search) -> FloatArray:
        """The lambdas that the paths of all samples find, one grid for all problems."""
        stop = replace(search.stop, gap_rel=max(GRID_GAP, self.gap_rel))
        find = partial(regularization_path, penalty=search.penalty, solver=search.solver, stop=stop)
        paths = [_uninterrupted(find(risk)) for risk in self._all(self._plain(1.0), given)]
        high, low = max(path.lams[0] for path in paths), min(path.lams[-1] for path in paths)
        return np.geomspace(high, low, 1 + round(PER_DECADE * np.log10(high / low)))

    def _beyond_ends(self, score: Callable[..., Scores], scores: Scores, given: Given) -> Scores:
        """Go on beyond the end of the grid where the best lambda is, if that is wanted."""
        most = scores.lams.size + MOST_EXTRA
        while self.extend and self._is_end(scores, given) and scores.lams.size < most:
            at = scores.best()
            weak = at > 0
            ratio = scores.lams[-1] / scores.lams[-2] if weak else scores.lams[0] / scores.lams[1]
            more = scores.lams[at] * ratio ** np.arange(1.0, EXTRA + 1.0)
            scores = scores.joined(score(more if weak else more[::-1], starts=scores.ends))
        return scores

    def _is_end(self, scores: Scores, given: Given) -> bool:
        """Whether lambdas beyond the grid may be better; beyond one where w = 0 is nearly optimal they are not."""
        at = scores.best()
        if scores.lams.size == 1 or at not in (0, scores.lams.size - 1):
            return False
        return at > 0 or bool(scores.lams[0] < self._first_lambda(given))

    def _first_lambda(self, given: Given) -> float:
        penalty = self._penalty()
        return max(first_lambda(risk, penalty) for risk in self._all(self._plain(1.0), given))

    def _warn_about(self, scores: Scores, given: Given) -> None:
        """Warn where a larger grid or longer runs may change the choice."""
        if self._is_end(scores, given):
            n_added = MOST_EXTRA if self.extend else 0
            warn_end(scores.lams, scores.best(), n_added=n_added, offer="" if self.extend else ", or extend=True")
        _warn_unfinished(scores)

    def _report(self, scores: Scores) -> None:
        at = scores.best(one_standard_error=self.rule == "one_standard_error")
        self.cv_results_ = scores.table()
        self.lams_, self.lam_, self.best_index_ = scores.lams, float(scores.lams[at]), at
        self.best_score_ = float(scores.means[at])
        self.best_params_ = {"lam": self.lam_}
        self.n_decided_ = int(scores.decided.sum())
        self.n_skipped_ = int(scores.skipped.sum())

    def _score_on(self, X: Any, y: Any, **rest: Any) -> Callable[[Any], float]:
        """The score of a model on some samples; its own one takes ``rest`` too."""
        scorer = self._scorer()
        if scorer is None:
            return lambda model: float(model.score(X, y, **rest))
        return lambda model: float(scorer(model, X, y))

    def _scorer(self) -> Callable[..., float] | None:
        """The score that was asked for, ``None`` for the estimator's own."""
        if self.scoring is None:
            return None
        return check_scoring(self._plain(1.0), scoring=self.scoring)


def _uninterrupted(path: Path) -> Path:
    """The path, unless Ctrl-C ended it: that ends the fit too."""
    if path.statuses[-1] is Status.STOPPED:
        raise KeyboardInterrupt
    return path


def _warn_unfinished(scores: Scores) -> None:
    """Warn about fits that met a limit before their gap was reached."""
    count = int(scores.unfinished.sum())
    if count:
        warnings.warn(
            f"{count} of {scores.scores.size} fits of the folds met a limit before `gap_rel`; the largest relative gap "
            f"is {scores.gaps.max():.3g}: raise max_steps or max_seconds, or leave out the smallest lambdas",
            ConvergenceWarning,
            stacklevel=frames_inside(),
        )


def check_classes(y: Array, fold: str) -> None:
    """Refuse a fold with a single class to train on."""
    classes = np.unique(y).tolist()
    if len(classes) < 2:
        raise DataError(
            f"{fold} has samples of a single class to train on, {classes}: use fewer folds, a stratified splitter "
            "such as cv=5, or more samples of the other class"
        )


def warn_end(lams: FloatArray, at: int, *, n_added: int = 0, offer: str = "") -> None:
    """Warn that the best lambda is the first or the last of its grid; ``offer`` is a second remedy."""
    added = f" and of {n_added} lambdas added to it" if n_added else ""
    warn_of_end("lambda", lams[at], "lams", is_least=at > 0, added=added, offer=offer)


def warn_of_end(name: str, best: float, parameter: str, *, is_least: bool, added: str = "", offer: str = "") -> None:
    """Warn that the best value is the least or the largest of the grid that a parameter gives."""
    end, other = ("smallest", "smaller") if is_least else ("largest", "larger")
    warnings.warn(
        f"the best {name}, {best:.3g}, is the {end} of the grid{added}, and a {other} one may be better: "
        f"set `{parameter}` to {other} ones{offer}",
        SelectionWarning,
        stacklevel=frames_inside(),
    )


def scored(model: Any, tasks: list[Any], score: Callable[[Any], float]) -> Callable[[list[FloatArray]], float]:
    """The score of solutions: the model takes them, and is scored."""

    def of(solutions: list[FloatArray]) -> float:
        model._take(tasks, solutions)
        return score(model)

    return of


def risks_of(tasks: Iterable[Any]) -> list[Any]:
    """The risks of some problems."""
    return [task.risk for task in tasks]
