"""``undercut train``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from sklearn.exceptions import ConvergenceWarning

from undercut.cli.models import DEFAULT_LOSS, LOSSES, Choice, fit, number_or_word
from undercut.cli.report import describe_fit
from undercut.cli.sequences import read_sequences, templates
from undercut.cli.stream import train_online
from undercut.data import load_svmlight
from undercut.errors import ParameterError
from undercut.estimators import load_model, save_model
from undercut.estimators.kernel_classifier import KERNELS
from undercut.estimators.kernel_classifier import SOLVERS as KERNEL_SOLVERS
from undercut.online import ONLINE_SOLVERS
from undercut.solvers import SOLVERS
from undercut.trace import Result, Status, write_trace


def train(
    file: Annotated[
        Path,
        typer.Argument(help="LIBSVM / SVMlight file, with --task sequence also CoNLL columns; also .gz, .bz2, .xz"),
    ],
    task: Annotated[str | None, typer.Option(help="sequence: label the tokens of sequences")] = None,
    loss: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(LOSSES)}; default {DEFAULT_LOSS}; with --task sequence m3n (default) or crf"),
    ] = None,
    measure: Annotated[
        str | None, typer.Option(help="f1, precision@10, recall@10, prbep, roc_auc or balanced_error, not a loss")
    ] = None,
    nu: Annotated[float | None, typer.Option(help="Detect novelty: the share of samples that may be novel")] = None,
    kernel: Annotated[str | None, typer.Option(help=f"{', '.join(KERNELS)}: a kernel machine, hinge loss")] = None,
    C: Annotated[float | None, typer.Option("--C", help="With --kernel, in place of lambda; default 1")] = None,
    gamma: Annotated[
        str | None,
        typer.Option(
            help="With --kernel: scale (default), auto or a number; with --unlabelled: what those samples count"
        ),
    ] = None,
    degree: Annotated[int | None, typer.Option(help="Of the poly kernel; default 3")] = None,
    coef0: Annotated[float | None, typer.Option(help="Of the poly and sigmoid kernels; default 0")] = None,
    device: Annotated[str | None, typer.Option(help="With --kernel: where the Gram matrix is, such as cuda")] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(
            help="With --task sequence, repeatable: window (default), spelling, a template such as 'word[-1] word[0]', "
            "or a file of them"
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Names of the first columns of a CoNLL file, for templates; default word,pos")
    ] = None,
    min_count: Annotated[int | None, typer.Option(min=1, help="Leave out rarer features of templates")] = None,
    folds: Annotated[str | None, typer.Option(help="Of letter.data, such as 0-7")] = None,
    pairs: Annotated[
        str | None,
        typer.Option(help="Pairs of feature and label with a weight: all, or seen in the data (default for templates)"),
    ] = None,
    lam: Annotated[
        float | None,
        typer.Option(
            "--lambda", help="Lambda beside the mean loss; default 1e-4, 1e-2 for ranking and --unlabelled, 1 with --nu"
        ),
    ] = None,
    penalty: Annotated[str | None, typer.Option(help="l2, l1 or elasticnet; default l2")] = None,
    l1_ratio: Annotated[float | None, typer.Option(help="Share of l1 in elasticnet; default 0.5")] = None,
    multi_class: Annotated[
        str | None, typer.Option(help="ovr, crammer_singer (hinge) or multinomial (logistic); default ovr")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model")] = Path("model.uc"),
    gap: Annotated[float, typer.Option(help="Stop at this gap relative to the objective")] = 1e-3,
    solver: Annotated[
        str,
        typer.Option(
            help=f"auto, {', '.join(SOLVERS)}; with --kernel {', '.join(KERNEL_SOLVERS)}; "
            f"with --online {', '.join(ONLINE_SOLVERS)}"
        ),
    ] = "auto",
    intercept: Annotated[bool, typer.Option(help="Fit an intercept, which is not penalized")] = True,
    class_weight: Annotated[str | None, typer.Option(help="balanced, or nothing")] = None,
    max_steps: Annotated[int, typer.Option(help="Limit for each problem")] = 10_000,
    max_seconds: Annotated[float | None, typer.Option(help="Limit for each problem")] = None,
    unlabelled: Annotated[
        Path | None, typer.Option(help="Learn from the samples of this file too, whatever labels it holds")
    ] = None,
    balance: Annotated[
        str | None,
        typer.Option(help="With --unlabelled: labelled (default), a share of the last class, or none"),
    ] = None,
    start: Annotated[Path | None, typer.Option(help="Continue from this model")] = None,
    n_features: Annotated[int | None, typer.Option(help="Width of the data if the file does not show it")] = None,
    online: Annotated[bool, typer.Option("--online", help="Stream the file in chunks with an online method")] = False,
    passes: Annotated[int | None, typer.Option(min=1, help="With --online: times to read the file; default 1")] = None,
    chunk_rows: Annotated[int | None, typer.Option(min=1, help="With --online: rows at a time; default 10000")] = None,
    classes: Annotated[str | None, typer.Option(help="With --online: all labels, such as -1,1")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write one JSON line per step to this file")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors")] = False,
) -> None:
    """Train a model on FILE and save it with its certificate."""
    _check_writable(output, trace)
    if online:
        _refuse(
            "is not for --online", trace=trace, max_seconds=max_seconds, class_weight=class_weight,
            unlabelled=unlabelled, measure=measure, nu=nu, penalty=penalty, l1_ratio=l1_ratio, multi_class=multi_class,
            kernel=kernel, C=C, gamma=gamma, degree=degree, coef0=coef0, device=device, task=task,
        )  # fmt: skip
        choice = {
            "loss": loss or DEFAULT_LOSS, "lam": 1e-4 if lam is None else lam, "fit_intercept": intercept,
            "solver": "optimistic_proximal" if solver == "auto" else solver,
        }  # fmt: skip
        code = train_online(
            file, choice, output, n_passes=passes or 1, chunk_rows=chunk_rows or 10_000, classes=classes,
            n_features=n_features, start=start, quiet=quiet,
        )  # fmt: skip
        raise typer.Exit(code)
    _refuse("needs --online", passes=passes, chunk_rows=chunk_rows, classes=classes)
    if task is None:
        _refuse(
            "needs --task sequence", template=template, columns=columns, min_count=min_count, folds=folds, pairs=pairs
        )
    if kernel is None:
        _refuse("needs --kernel", C=C, degree=degree, coef0=coef0, device=device)
        if unlabelled is None:
            _refuse("needs --kernel or --unlabelled", gamma=gamma)
    settings: dict[str, Any] = {
        "solver": solver, "gap_rel": gap, "max_steps": max_steps, "max_seconds": max_seconds,
        "verbose": int(not quiet), **({} if lam is None else {"lam": lam}),
    }  # fmt: skip
    extras = {
        "fit_intercept": None if intercept else False, "class_weight": class_weight, "penalty": penalty,
        "l1_ratio": l1_ratio, "multi_class": multi_class, "gamma": number_or_word(gamma), "C": C, "degree": degree,
        "coef0": coef0, "device": device, "pairs": pairs,
    }  # fmt: skip
    model = Choice(loss, measure, nu, kernel, task, unlabelled, balance, settings, extras).estimator()
    if task is None:
        X, y, qid = load_svmlight(file, n_features=n_features)
        results = _fit(model, start, X.shape[1], lambda: fit(model, X, y, qid, unlabelled))
    else:
        data = read_sequences(file, folds, n_features)
        if data.is_text:
            model.features = templates(template or [], columns, min_count)
        else:
            _refuse("is for CoNLL files", template=template, columns=columns, min_count=min_count)
        width = None if data.is_text else data.X.shape[1]
        results = _fit(model, start, width, lambda: model.fit(data.X, data.targets, **data.options))
    save_model(model, output)
    if trace is not None:
        _write_traces(trace, results, model)
    if not quiet:
        describe_fit(model, results, output)
    raise typer.Exit(_exit_code(results))


def _check_writable(*paths: Path | None) -> None:
    """Before the work, not after it."""
    for path in paths:
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise FileNotFoundError(f"cannot write to {path}: it is a folder, or its folder does not exist")


def _fit(model: Any, start: Path | None, width: int | None, fitting: Callable[[], object]) -> list[Result]:
    """Fit the model, from a saved one where asked; one result per problem."""
    if start is not None:
        _continue_from(model, start)
        if width is not None and model.n_features_in_ != width:
            raise ParameterError(f"--start has {model.n_features_in_} features, and the data have {width}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report says it
        fitting()
    return model.result_ if isinstance(model.result_, list) else [model.result_]


def _refuse(reason: str, **given: Any) -> None:
    """Options that would be ignored are refused instead."""
    for name, value in given.items():
        if value is not None:
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


def _exit_code(results: list[Result]) -> int:
    statuses = {result.status for result in results}
    if Status.STOPPED in statuses:
        return 130
    return 0 if statuses == {Status.CONVERGED} else 3
