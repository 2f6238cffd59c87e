"""``undercut path``: fits for many lambdas, each certified, and the choice of one of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

from undercut.cli.commands.info import feature_names
from undercut.cli.models import build, chosen_model, required_queries
from undercut.cli.options.given import Given
from undercut.cli.options.table import SHARED, named
from undercut.cli.reports.report import Row, certificate_rows, labels, print_report
from undercut.cli.standard import check_outputs, input_file, logged, write_model
from undercut.cli.tasks.samples import read_training, read_weights
from undercut.cli.tasks.sequences import read_sequences, templates
from undercut.errors import ParameterError
from undercut.estimators import (
    KernelClassifier,
    LinearClassifier,
    LinearClassifierCV,
    LinearRegressor,
    LinearRegressorCV,
    MultivariateClassifier,
    MultivariateClassifierCV,
    Ranker,
    RankerCV,
    SequenceLabeler,
    SequenceLabelerCV,
)
from undercut.estimators.kernels.kernel_search import kernel_search
from undercut.plotting import check_picture, plot_path
from undercut.selection import Path as LambdaPath
from undercut.trace import Status

CHOOSERS: dict[type[Any], type[Any]] = {
    LinearClassifier: LinearClassifierCV,
    LinearRegressor: LinearRegressorCV,
    MultivariateClassifier: MultivariateClassifierCV,
    Ranker: RankerCV,
    SequenceLabeler: SequenceLabelerCV,
}
KERNEL_CS = tuple(10.0**k for k in range(-2, 5))
OWN = ("cv", "scoring", "rule", "extend", "early")  # options and parameters alike


def run(file: Path, given: Given) -> int:
    """Fit the path and choose; the exit code."""
    if "output" in given and "cv" not in given:
        raise named("output").refusal("needs --cv, which chooses the model to write", given["output"])
    check_outputs(given.get("output"), given["plot"], given["log_file"])
    if "plot" in given:
        check_picture(given["plot"])
    logs = logged(quiet="quiet" in given, log_file=given["log_file"])
    with logs, input_file(file) as source, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the table says it
        return _kernel(source, given) if "kernel" in given else _path(source, given)


def _path(file: Path, given: Given) -> int:
    """A path of lambdas."""
    plain = _plain(given)
    if type(plain) not in CHOOSERS:
        label = chosen_model(given).label(given["loss"] or "")
        raise ParameterError(f"undercut path has no grid for {label}: use undercut train")
    settings = plain.get_params(deep=False)
    settings.pop("lam")
    chooser = _checked(CHOOSERS[type(plain)](**settings | {"lams": given.get("lambdas")} | _choice(given)))
    X, y, rest = (_sequences if "task" in given else _rows)(file, chooser, given)
    if "cv" in given:
        with _live(given) as live:
            chooser._watch = live
            chooser.fit(X, y, **rest)
    if "output" in given:
        write_model(_with_table(chooser.best_estimator_, chooser), given["output"])
    lams = chooser.lams_ if "cv" in given else given.get("lambdas")
    path = chooser.full_path(X, y, lams=lams, epsilon=given["epsilon"], **rest)
    if "plot" in given:
        results, lam = getattr(chooser, "cv_results_", None), getattr(chooser, "lam_", None)
        plot_path(path, given["plot"], cv_results=results, lam=lam, names=_names(chooser, path))
    _print(path, chooser, given)
    return 0 if all(status is Status.CONVERGED for status in path.statuses) else 3


def _names(chooser: Any, path: LambdaPath) -> list[str] | None:
    """The features as ``undercut info`` calls them; ``None`` where coefficients are more than features."""
    n_params = path.coefficients.shape[1]
    return list(map(feature_names(chooser), range(n_params))) if n_params == chooser.n_features_in_ else None


def _plain(given: Given) -> Any:
    """The estimator that the options describe, for one lambda."""
    shared = Given({name: value for name, value in given.items() if name in SHARED})
    shared.typed = {}
    return build(shared, verbose=0)


def _checked(chooser: Any) -> Any:
    """The estimator, its parameters checked before any file is read."""
    try:
        chooser._validate_params()
    except ValueError as error:
        raise ParameterError(str(error)) from error
    return chooser


def _choice(given: Given) -> dict[str, Any]:
    return {name: given[name] for name in OWN if name in given}


def _rows(file: Path, model: Any, given: Given) -> tuple[Any, Any, dict[str, Any]]:
    """X, y and the other arguments of ``fit`` for an SVMlight file or a table."""
    X, y, qid = read_training(model, file, given)
    weight = read_weights(given["weights"], y.size)
    rest = {} if weight is None else {"sample_weight": weight}
    if isinstance(model, Ranker):
        return X, y, rest | {"qid": required_queries(qid)}
    return X, y if isinstance(model, LinearRegressor) else labels(y), rest


def _with_table(chosen: Any, model: Any) -> Any:
    """The chosen model with the columns of the table that it was fitted to."""
    if hasattr(model, "table_"):
        chosen.table_ = model.table_
    return chosen


def _sequences(file: Path, model: Any, given: Given) -> tuple[Any, Any, dict[str, Any]]:
    """The same for a file of sequences."""
    data = read_sequences(file, given["folds"], given["n_features"])
    given.check_file(data.kind)
    if data.is_text:
        model.features = templates(given["template"] or ["window"], given["columns"], given["min_count"])
    return data.X, data.targets, {"sample_weight": read_weights(given["weights"], data.lengths.size), **data.options}


# --- What is shown -------------------------------------------------------------------------------------------------


class _LiveTable:
    """A table of the scores that are known so far, one row per lambda."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.scores: dict[float, list[float]] = {}

    def __call__(self, fold: int, lam: float, score: float) -> None:
        self.scores.setdefault(lam, []).append(score)
        table = Table("lambda", "folds", "mean score", box=None)
        for each, scores in sorted(self.scores.items(), reverse=True):
            table.add_row(f"{each:.3g}", str(len(scores)), f"{np.mean(scores):.5f}")
        self.live.update(table)


@contextmanager
def _live(given: Given) -> Iterator[_LiveTable | None]:
    """Shows the scores while they come, on a terminal."""
    console = Console(stderr=True)
    if "quiet" in given or not console.is_terminal:
        yield None
        return
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        yield _LiveTable(live)


def _print(path: LambdaPath, chooser: Any, given: Given) -> None:
    rows = [Row("path", _points(path, chooser), name="path")]
    if "cv" in given:
        fits = chooser.cv_results_["params"]
        n_fits, n_skipped = len(fits) * given["cv"], chooser.n_skipped_
        saved = f"{chooser.n_decided_} of {n_fits} fits, which could not change the choice; {n_skipped} not begun"
        rows += [
            Row("lambda", chooser.lam_, f"{chooser.lam_:.6g}"),
            Row("score", chooser.best_score_, f"{chooser.best_score_:.6g}"),
            Row("standard error", _error(chooser, chooser.best_index_)),
            Row("ended early", chooser.n_decided_, saved),
            *certificate_rows(chooser),
        ]
    if path.certified is not None:
        low, high = path.certified
        text = f"{path.epsilon:g} of the optimum for every lambda from {low:.3g} to {high:.3g}"
        rows.append(Row("certified", [low, high], text))
    if "output" in given:
        rows.append(Row("model", str(given["output"])))
    if "quiet" not in given and "json" not in given:
        typer.echo(_table(rows[0].value) + ("\n" if rows[1:] else ""))
    as_json = "json" in given
    if as_json or rows[1:]:
        print_report(rows if as_json else rows[1:], as_json=as_json, quiet="quiet" in given and not as_json)


def _error(chooser: Any, at: int) -> float:
    """The standard error of a mean score."""
    folds = sum(name.startswith("split") for name in chooser.cv_results_)
    return float(chooser.cv_results_["std_test_score"][at] / math.sqrt(max(folds, 1)))


def _points(path: LambdaPath, chooser: Any) -> list[dict[str, Any]]:
    """One table of numbers per lambda."""
    points = []
    for at, lam in enumerate(path.lams.tolist()):
        point = {
            "lambda": lam,
            "objective": float(path.objectives[at]),
            "lower_bound": float(path.lower_bounds[at]),
            "gap": float(path.gaps[at]),
            "nonzero": int(path.n_nonzero[at]),
            "evaluations": int(path.n_evaluations[at]),
            "seconds": float(path.seconds[at]),
        }
        if hasattr(chooser, "cv_results_"):
            score = float(chooser.cv_results_["mean_test_score"][at])
            chosen = at == chooser.best_index_
            point |= {"score": score, "standard_error": _error(chooser, at), "chosen": chosen}
        points.append(point)
    return points


def _table(points: list[dict[str, Any]]) -> str:
    """The points as lines of text."""
    scored = "score" in points[0]
    head = f"{'lambda':>10}  {'objective':>11}  {'gap':>8}  {'not zero':>8}  {'seconds':>8}"
    lines = [head + ("  score" if scored else "")]
    for point in points:
        relative = point["gap"] / point["objective"] if point["objective"] else point["gap"]
        line = f"{point['lambda']:>10.3g}  {point['objective']:>11.6g}  {100.0 * relative:>7.3f}%"
        line += f"  {point['nonzero']:>8}  {point['seconds']:>8.2f}"
        if scored:
            line += f"  {point['score']:.5f} ± {point['standard_error']:.5f}" + (
                " <- chosen" if point["chosen"] else ""
            )
        lines.append(line)
    return "\n".join(lines)


# --- Kernel machines -----------------------------------------------------------------------------------------------


def _kernel(file: Path, given: Given) -> int:
    """The grid of C and gamma of a kernel machine."""
    if "cv" not in given:
        raise named("kernel").refusal("needs --cv, which chooses C and gamma", given["kernel"], "give it 5 folds")
    machine = _plain(given)
    assert isinstance(machine, KernelClassifier)
    X, y, rest = _rows(file, machine, given)
    choice = kernel_search(
        machine, X, y, Cs=given["Cs"] or KERNEL_CS, gammas=given["gammas"] or ("scale",), cv=given["cv"], **rest
    )
    if "output" in given:
        write_model(_with_table(choice.best, machine), given["output"])
    grid = [
        {"gamma": gamma, "C": float(C), "score": float(score)}
        for gamma, means in zip(choice.gammas, choice.means, strict=True)
        for C, score in zip(choice.Cs, means, strict=True)
    ]
    if "json" not in given and "quiet" not in given:
        lines = [f"{point['gamma']!s:>10}  {point['C']:>10.3g}  {point['score']:.5f}" for point in grid]
        typer.echo("\n".join([f"{'gamma':>10}  {'C':>10}  score", *lines]) + "\n")
    rows = [Row("grid", grid)] if "json" in given else []
    rows += [Row("C", choice.best.C, name="C"), Row("gamma", choice.best.gamma)]
    rows += [Row("score", float(choice.means.max())), *certificate_rows(choice.best)]
    print_report(rows, as_json="json" in given, quiet="quiet" in given and "json" not in given)
    return 0
