"""``undercut train``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from sklearn.exceptions import ConvergenceWarning

from undercut.cli.report import describe_fit, labels, validated
from undercut.cli.stream import train_online
from undercut.cli.transductive import fit_transductive, stacked, transductive
from undercut.data import load_svmlight
from undercut.errors import ParameterError
from undercut.estimators import LinearClassifier, LinearRegressor, TransductiveClassifier, load_model, save_model
from undercut.online import ONLINE_SOLVERS
from undercut.solvers import SOLVERS
from undercut.trace import Result, Status, write_trace

LOSSES = [*LinearClassifier._losses, *LinearRegressor._losses]


def train(
    file: Annotated[Path, typer.Argument(help="LIBSVM / SVMlight file, also .gz, .bz2 or .xz")],
    loss: Annotated[str, typer.Option(help=f"One of {', '.join(LOSSES)}")] = "hinge",
    lam: Annotated[float, typer.Option("--lambda", help="Lambda, with the loss averaged over samples")] = 1e-4,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model")] = Path("model.uc"),
    gap: Annotated[float, typer.Option(help="Stop at this gap relative to the objective")] = 1e-3,
    solver: Annotated[
        str, typer.Option(help=f"auto, {', '.join(SOLVERS)}; with --online {', '.join(ONLINE_SOLVERS)}")
    ] = "auto",
    intercept: Annotated[bool, typer.Option(help="Fit an intercept, which is not penalized")] = True,
    class_weight: Annotated[str | None, typer.Option(help="balanced, or nothing")] = None,
    max_steps: Annotated[int, typer.Option(help="Limit for each problem")] = 10_000,
    max_seconds: Annotated[float | None, typer.Option(help="Limit for each problem")] = None,
    unlabelled: Annotated[
        Path | None, typer.Option(help="Learn from the samples of this file too, whatever labels it holds")
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="With --unlabelled: what those samples count [1]")] = None,
    balance: Annotated[
        str | None, typer.Option(help="With --unlabelled: labelled, a share of the last class, or none [labelled]")
    ] = None,
    start: Annotated[Path | None, typer.Option(help="Continue from this model")] = None,
    n_features: Annotated[int | None, typer.Option(help="Width of the data if the file does not show it")] = None,
    online: Annotated[bool, typer.Option("--online", help="Stream the file in chunks with an online method")] = False,
    passes: Annotated[int | None, typer.Option(min=1, help="With --online: how often to read the file [1]")] = None,
    chunk_rows: Annotated[int | None, typer.Option(min=1, help="With --online: samples at a time [10000]")] = None,
    classes: Annotated[str | None, typer.Option(help="With --online: all labels, such as -1,1")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write one JSON line per step to this file")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors")] = False,
) -> None:
    """Train a linear model on FILE and save it with its certificate."""
    for path in (output, trace):  # before the work, not after it
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise FileNotFoundError(f"cannot write to {path}: it is a folder, or its folder does not exist")
    if online:
        _refuse(
            "is not for --online", trace=trace, max_seconds=max_seconds, class_weight=class_weight,
            unlabelled=unlabelled,
        )  # fmt: skip
        method = "optimistic_proximal" if solver == "auto" else solver
        choice = {"loss": loss, "lam": lam, "solver": method, "fit_intercept": intercept}
        code = train_online(
            file, choice, output, n_passes=passes or 1, chunk_rows=chunk_rows or 10_000, classes=classes,
            n_features=n_features, start=start, quiet=quiet,
        )  # fmt: skip
        raise typer.Exit(code)
    _refuse("needs --online", passes=passes, chunk_rows=chunk_rows, classes=classes)
    settings: dict[str, Any] = {
        "loss": loss, "lam": lam, "solver": solver, "fit_intercept": intercept, "gap_rel": gap,
        "max_steps": max_steps, "max_seconds": max_seconds, "verbose": int(not quiet),
    }  # fmt: skip
    if unlabelled is None:
        _refuse("needs --unlabelled", gamma=gamma, balance=balance)
        model = _estimator(settings, class_weight)
    else:
        model = transductive(settings, class_weight, gamma, balance)
    if start is not None:
        _continue_from(model, start)
    X, y, _ = load_svmlight(file, n_features=n_features)
    if unlabelled is not None:
        X = stacked(X, unlabelled)
    if start is not None and model.coef_.shape[-1] != X.shape[1]:
        raise ParameterError(f"--start has {model.coef_.shape[-1]} features, and {file} has {X.shape[1]}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report says it
        if isinstance(model, TransductiveClassifier):
            fit_transductive(model, X, labels(y))
        else:
            model.fit(X, labels(y) if isinstance(model, LinearClassifier) else y)
    results = model.result_ if isinstance(model.result_, list) else [model.result_]
    save_model(model, output)
    if trace is not None:
        _write_traces(trace, results, model)
    if not quiet:
        describe_fit(model, results, output)
    raise typer.Exit(_exit_code(results))


def _refuse(reason: str, **given: Any) -> None:
    """Options that would be ignored are refused instead."""
    for name, value in given.items():
        if value is not None:
            raise ParameterError(f"--{name.replace('_', '-')} {reason}: drop it; got {value}")


def _estimator(settings: dict[str, Any], class_weight: str | None) -> Any:
    if class_weight not in (None, "balanced"):
        raise ParameterError(f"--class-weight must be balanced or absent; got {class_weight!r}")
    if settings["loss"] in LinearClassifier._losses:
        model: Any = LinearClassifier(class_weight=class_weight, **settings)
    elif settings["loss"] in LinearRegressor._losses:
        if class_weight is not None:
            raise ParameterError(f"--class-weight is for classification; got the loss {settings['loss']!r}")
        model = LinearRegressor(**settings)
    else:
        raise ParameterError(f"--loss must be one of {', '.join(LOSSES)}; got {settings['loss']!r}")
    return validated(model)


def _continue_from(model: Any, start: Path) -> None:
    """Let a fit begin at a saved model's coefficients."""
    saved = load_model(start)
    if type(saved) is not type(model):
        raise ParameterError(f"--start must be a {type(model).__name__} like the model to train; got {start}")
    model.warm_start = True
    model.coef_, model.intercept_ = saved.coef_, saved.intercept_
    if hasattr(saved, "classes_"):
        model.classes_ = saved.classes_


def _write_traces(path: Path, results: list[Result], model: Any) -> None:
    """One file, or one per class with the label before the suffix."""
    if len(results) == 1:
        write_trace(path, results[0].trace)
        return
    for label, result in zip(model.classes_, results, strict=True):
        write_trace(path.with_name(f"{path.stem}-{label}{path.suffix}"), result.trace)


def _exit_code(results: list[Result]) -> int:
    statuses = {result.status for result in results}
    if Status.STOPPED in statuses:
        return 130
    return 0 if statuses == {Status.CONVERGED} else 3
