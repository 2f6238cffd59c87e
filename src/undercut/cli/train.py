"""``undercut train``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer
from sklearn.exceptions import ConvergenceWarning

from undercut.cli import options
from undercut.cli.models import DEFAULT_LOSS, OPTIONS, Choice, fit, number_or_word
from undercut.cli.report import describe_fit
from undercut.cli.sequences import read_sequences, templates
from undercut.cli.stream import train_online
from undercut.errors import ParameterError
from undercut.io import load_model, load_svmlight, save_model
from undercut.trace import Result, Status, write_trace

KERNEL_OPTIONS = ("C", "degree", "coef0", "device")
SEQUENCE_OPTIONS = ("template", "columns", "min_count", "folds", "pairs")


def train(
    file: options.File,
    task: options.Task = None,
    loss: options.Loss = None,
    measure: options.Measure = None,
    nu: options.Nu = None,
    kernel: options.Kernel = None,
    C: options.C = None,
    gamma: options.Gamma = None,
    degree: options.Degree = None,
    coef0: options.Coef0 = None,
    device: options.Device = None,
    template: options.Template = None,
    columns: options.Columns = None,
    min_count: options.MinCount = None,
    folds: options.Folds = None,
    pairs: options.Pairs = None,
    lam: options.Lambda = None,
    penalty: options.Penalty = None,
    l1_ratio: options.L1Ratio = None,
    multi_class: options.MultiClass = None,
    output: options.Output = Path("model.uc"),
    gap: options.Gap = None,
    solver: options.Solver = "auto",
    intercept: options.Intercept = True,
    class_weight: options.ClassWeight = None,
    max_steps: options.MaxSteps = None,
    max_seconds: options.MaxSeconds = None,
    unlabelled: options.Unlabelled = None,
    balance: options.Balance = None,
    start: options.Start = None,
    n_features: options.NFeatures = None,
    online: options.Online = False,
    passes: options.Passes = None,
    chunk_rows: options.ChunkRows = None,
    classes: options.Classes = None,
    trace: options.Trace = None,
    quiet: options.Quiet = False,
) -> None:
    """Train a model on FILE and save it with its certificate."""
    given = SimpleNamespace(**locals())
    _check_writable(output, trace)
    if online:
        raise typer.Exit(_stream(given))
    _refuse(given, "needs --online", "passes", "chunk_rows", "classes")
    try:
        model, results = _fit_rows(given) if task is None else _fit_sequences(given)
    except KeyboardInterrupt:
        typer.echo("undercut: interrupted; there is no model to save", err=True)
        raise typer.Exit(130) from None
    save_model(model, output)
    if trace is not None:
        _write_traces(trace, results, model)
    if not quiet:
        describe_fit(model, results, output)
    raise typer.Exit(_exit_code(model, results))


def _stream(given: SimpleNamespace) -> int:
    """``--online``; the exit code."""
    _refuse(
        given, "is not for --online", "trace", "max_seconds", "class_weight", "unlabelled", "measure", "nu", "penalty",
        "l1_ratio", "multi_class", "gap", "max_steps", "balance", "kernel", "task", "gamma", *KERNEL_OPTIONS,
        *SEQUENCE_OPTIONS,
    )  # fmt: skip
    choice = {
        "loss": given.loss or DEFAULT_LOSS, "lam": 1e-4 if given.lam is None else given.lam,
        "fit_intercept": given.intercept, "solver": "optimistic_proximal" if given.solver == "auto" else given.solver,
    }  # fmt: skip
    return train_online(
        given.file, choice, given.output, n_passes=given.passes or 1, chunk_rows=given.chunk_rows or 10_000,
        classes=given.classes, n_features=given.n_features, start=given.start, quiet=given.quiet,
    )  # fmt: skip


def _fit_rows(given: SimpleNamespace) -> tuple[Any, list[Result]]:
    """A model of the rows of an SVMlight file."""
    _refuse(given, "needs --task sequence", *SEQUENCE_OPTIONS)
    if given.kernel is None:
        _refuse(given, "needs --kernel", *KERNEL_OPTIONS)
        if given.unlabelled is None:
            _refuse(given, "needs --kernel or --unlabelled", "gamma")
    model = _estimator(given)
    X, y, qid = load_svmlight(given.file, n_features=given.n_features)
    return model, _fit(model, given.start, X.shape[0], X.shape[1], lambda: fit(model, X, y, qid, given.unlabelled))


def _fit_sequences(given: SimpleNamespace) -> tuple[Any, list[Result]]:
    """A model of the sequences of any file."""
    model = _estimator(given)
    data = read_sequences(given.file, given.folds, given.n_features)
    if data.is_text:
        model.features = templates(given.template or [], given.columns, given.min_count)
        if given.columns is not None and len(model.features.columns) > len(data.X.columns):
            raise ParameterError(
                f"--columns names {given.columns}; {given.file} has {len(data.X.columns)} before the label"
            )
    else:
        _refuse(given, "is for CoNLL files", "template", "columns", "min_count")
    width = None if data.is_text else data.X.shape[1]
    if given.n_features not in (None, width):
        _refuse(given, "is for SVMlight files", "n_features")
    fitting = partial(model.fit, data.X, data.targets, **data.options)
    return model, _fit(model, given.start, len(data.y), width, fitting)


def _estimator(given: SimpleNamespace) -> Any:
    settings: dict[str, Any] = {
        "solver": given.solver, "max_seconds": given.max_seconds, "verbose": int(not given.quiet),
        **({} if given.gap is None else {"gap_rel": given.gap}),
        **({} if given.max_steps is None else {"max_steps": given.max_steps}),
        **({} if given.lam is None else {"lam": given.lam}),
    }  # fmt: skip
    extras = {name: getattr(given, name) for name in OPTIONS if name != "fit_intercept"}
    extras |= {"fit_intercept": None if given.intercept else False, "gamma": number_or_word(given.gamma)}
    return Choice(
        given.loss, given.measure, given.nu, given.kernel, given.task, given.unlabelled, given.balance, settings, extras
    ).estimator()


def _check_writable(*paths: Path | None) -> None:
    """Before the work, not after it."""
    for path in paths:
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise FileNotFoundError(f"cannot write to {path}: it is a folder, or its folder does not exist")


def _fit(model: Any, start: Path | None, n_rows: int, width: int | None, fitting: Callable[[], object]) -> list[Result]:
    """Fit the model, from a saved one where asked; one result per problem."""
    if start is not None:
        _continue_from(model, start)
        if width is not None and model.n_features_in_ != width:
            raise ParameterError(f"--start has {model.n_features_in_} features, and the data have {width}")
        if getattr(model, "_n_fitted", n_rows) != n_rows:
            raise ParameterError(f"--start was fitted to {model._n_fitted} samples, and the data have {n_rows}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report says it
        try:
            fitting()
        except KeyboardInterrupt:
            if not getattr(model, "interrupted_", False):  # no solution was kept
                raise
    return model.result_ if isinstance(model.result_, list) else [model.result_]


def _refuse(given: SimpleNamespace, reason: str, *names: str) -> None:
    """Options that would be ignored are refused instead."""
    for name in names:
        if (value := getattr(given, name)) is not None:
            raise ParameterError(f"--{name.replace('_', '-')} {reason}: drop it; got {value}")


def _continue_from(model: Any, start: Path) -> None:
    """Let a fit begin where a saved model's ended."""
    saved = load_model(start)
    if type(saved) is not type(model):
        raise ParameterError(f"--start must be a {type(model).__name__} like the model to train; got {start}")
    params = model.get_params(deep=False) | {"warm_start": True}
    vars(model).update(vars(saved) | params)


def _write_traces(path: Path, results: list[Result], model: Any) -> None:
    """One file, or one per class with the label before the suffix."""
    if len(results) == 1:
        write_trace(path, results[0].trace)
        return
    for label, result in zip(model.classes_, results, strict=True):
        write_trace(path.with_name(f"{path.stem}-{label}{path.suffix}"), result.trace)


def _exit_code(model: Any, results: list[Result]) -> int:
    if model.interrupted_:
        return 130
    return 0 if all(result.status is Status.CONVERGED for result in results) else 3
