"""``undercut train``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from signal import SIGINT
from typing import Any, NamedTuple

import typer
from sklearn.exceptions import ConvergenceWarning

from undercut.cli.commands.evaluate import score_rows
from undercut.cli.commands.stream import train_online
from undercut.cli.commands.valid import early_stopping, sequence_stopping
from undercut.cli.models import build, fit
from undercut.cli.options.given import Given
from undercut.cli.options.table import named
from undercut.cli.reports.record import record
from undercut.cli.reports.recorders import recorders
from undercut.cli.reports.report import Row, fit_rows, print_report
from undercut.cli.standard import STANDARD, check_outputs, input_file, logged, write_model
from undercut.cli.tasks.partitions import OnCluster, check_there, fit_partitions, partitions_to_fit
from undercut.cli.tasks.rna import read_rna
from undercut.cli.tasks.samples import OnDisk, read_training, read_weights
from undercut.cli.tasks.sequences import read_sequences, templates
from undercut.cli.tasks.speech import read_speech
from undercut.cli.tasks.structures import rna_to_fit, sequences_to_fit
from undercut.errors import ParameterError
from undercut.estimators import lam_from_C
from undercut.estimators.online.online_model import FINE, OnlineModel
from undercut.interrupts import EXIT_CODE, graceful
from undercut.io import load_model
from undercut.io.several import matching
from undercut.solvers import MeanOfPartitions
from undercut.trace import Result, Status


def run(file: Path, given: Given) -> int:
    """Train what the options describe; the exit code."""
    output = given["output"]
    check_outputs(output, given["trace"], given["log_file"], given["checkpoint"] or given["resume"])
    if output == STANDARD and "json" in given:
        raise ParameterError("--json and --output - both write to standard output: give --output a file")
    with logged(quiet="quiet" in given, log_file=given["log_file"]):
        if (cluster := OnCluster.of(given)) is not None:
            check_there(given)  # before anything is started
            matching(file)
            with cluster.connected():
                return _train(file, file, given, READERS_THERE[given["task"]])
        if "online" in given:
            model, rows, code = train_online(file, given)
            print_fit(model, rows, given)
            return code
        with input_file(file) as source:
            return _train(source, file, given, READERS[given["task"]])


def _train(source: Path, file: Path, given: Given, fit_file: Reader) -> int:
    """Train on ``source``, which the user calls ``file``."""
    try:
        model, fitted, n_samples = fit_file(source, file, given)
    except KeyboardInterrupt:
        typer.echo("undercut: interrupted; there is no model to save", err=True)
        return 130
    rows = fit_rows(model, fitted.results, given["output"])
    facts = {row.key: row.value for row in rows if row.key in ("seconds", "status")}
    record(model, file, given, samples=n_samples, **facts)
    write_model(model, given["output"])
    print_fit(model, rows, given)
    return 0 if _stopped_early(fitted, given) else fitted.exit_code


def _stopped_early(fitted: Fitted, given: Given) -> bool:
    """Whether ``--valid`` ended what did not converge."""
    fine = all(result.status in (Status.CONVERGED, Status.STOPPED) for result in fitted.results)
    return fine and "valid" in given and fitted.exit_code == 3


def print_fit(model: Any, rows: list[Row], given: Given) -> None:
    """The report of a training, with the measures on ``--test``."""
    if "test" in given:
        rows = [*rows, Row("test", score_rows(model, given["test"], on_disk=OnDisk.of(given)))]
    as_json = "json" in given
    quiet = "quiet" in given and not as_json
    print_report(rows, as_json=as_json, to_error=given["output"] == STANDARD, quiet=quiet)


class Fitted(NamedTuple):
    """How the runs of a fit ended."""

    results: list[Result]
    exit_code: int


def _fit_rows(file: Path, name: Path, given: Given) -> tuple[Any, Fitted, int]:
    """A model of the rows of an SVMlight file or of a table."""
    model = _estimator(name, given)
    data = read_training(model, file, given)
    model.callbacks = [*(model.callbacks or ()), *early_stopping(model, data, given)]
    fitting = partial(fit, model, data, given)
    return model, _fit(model, given["start"], data.X.shape[0], data.X.shape[1], fitting), data.y.size


def _fit_on_workers(file: Path, name: Path, given: Given) -> tuple[Any, Fitted, int]:
    """A model of the rows of files that workers read."""
    model = _estimator(name, given)
    if isinstance(model, OnlineModel):
        model.n_passes = given["passes"]
        model.solver = (
            MeanOfPartitions(method=model._online_solver()) if given["partitions"] == "mean" else model.solver
        )
    data = partitions_to_fit(model, file, given)
    fitting = partial(fit_partitions, model, data)
    return model, _fit(model, given["start"], data.n_samples, data.n_features, fitting), data.n_samples


def _fit_sequences_there(file: Path, name: Path, given: Given) -> tuple[Any, Fitted, int]:
    """A model of the sequences of files that workers read."""
    model = _estimator(name, given)
    data = sequences_to_fit(model, file, given)
    return model, _fit(model, given["start"], data.n_tokens, None, partial(model.fit, data)), data.n_sequences


def _fit_rna_there(file: Path, name: Path, given: Given) -> tuple[Any, Fitted, int]:
    """A model of the RNA of files that workers read."""
    model = _estimator(name, given)
    data, n_sequences = rna_to_fit(model, file, given)
    return model, _fit(model, given["start"], n_sequences, None, partial(model.fit, data)), n_sequences


def _fit_sequences(file: Path, name: Path, given: Given) -> tuple[Any, Fitted, int]:
    """A model of the sequences of any file."""
    model = _estimator(name, given)
    data = read_sequences(file, given["folds"], given["n_features"])
    given.check_file(data.kind)
    if data.is_text:
        model.features = templates(given["template"] or ["window"], given["columns"], given["min_count"])
        if "columns" in given and len(model.features.columns) > len(data.X.columns):
            raise ParameterError(
                f"--columns names {given['columns']}; {file} has {len(data.X.columns)} before the label"
            )
    width = None if data.is_text else data.X.shape[1]
    model.callbacks = [*(model.callbacks or ()), *sequence_stopping(model, width, given)]
    n_sequences = data.lengths.size
    weight = read_weights(given["weights"], n_sequences)
    if "C" in given:
        model.lam = lam_from_C(given["C"], n_sequences if weight is None else weight.sum())
    fitting = partial(model.fit, data.X, data.targets, sample_weight=weight, **data.options)
    return model, _fit(model, given["start"], len(data.y), width, fitting), n_sequences


def _fit_rna(file: Path, name: Path, given: Given) -> tuple[Any, Fitted, int]:
    """A model of the RNA of any file."""
    model = _estimator(name, given)
    data = read_rna(file, labelled=True)
    given.check_file("RNA files")
    n_sequences = len(data.sequences)
    weight = read_weights(given["weights"], n_sequences)
    if "C" in given:
        model.lam = lam_from_C(given["C"], n_sequences if weight is None else weight.sum())
    fitting = partial(model.fit, data, sample_weight=weight)
    return model, _fit(model, given["start"], n_sequences, None, fitting), n_sequences


def _fit_speech(file: Path, name: Path, given: Given) -> tuple[Any, Fitted, int]:
    """A model of the recordings of an archive."""
    if "valid" in given:
        raise named("valid").refusal(f"is not for --task {given['task']}", given["valid"])
    model = _estimator(name, given)
    data = read_speech(file, connected=given["task"] == "connected", labelled=True)
    given.check_file("speech archives")
    weight = read_weights(given["weights"], data.lengths.size)
    if "C" in given:
        model.lam = lam_from_C(given["C"], data.lengths.size if weight is None else weight.sum())
    fitting = partial(model.fit, data.X, data.y, sample_weight=weight, offsets=data.offsets)
    return model, _fit(model, given["start"], data.lengths.size, data.X.shape[1], fitting), data.lengths.size


Reader = Callable[[Path, Path, Given], tuple[Any, Fitted, int]]
READERS: dict[str | None, Reader] = {  # by task
    None: _fit_rows,
    "sequence": _fit_sequences,
    "rna": _fit_rna,
    "hmm": _fit_speech,
    "connected": _fit_speech,
}
READERS_THERE: dict[str | None, Reader] = {
    None: _fit_on_workers,
    "sequence": _fit_sequences_there,
    "rna": _fit_rna_there,
}


def _estimator(file: Path, given: Given) -> Any:
    return build(given, verbose=1, callbacks=recorders(file, given))


def _fit(model: Any, start: Path | None, n_rows: int, width: int | None, fitting: Callable[[], object]) -> Fitted:
    """Fit the model, from a saved one where asked."""
    if start is not None:
        _continue_from(model, start)
        if width is not None and model.n_features_in_ != width:
            raise ParameterError(f"--start has {model.n_features_in_} features, and the data have {width}")
        if getattr(model, "_n_fitted", n_rows) != n_rows:
            raise ParameterError(f"--start was fitted to {model._n_fitted} samples, and the data have {n_rows}")
    with warnings.catch_warnings(), graceful() as signals:
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report says it
        try:
            fitting()
        except (KeyboardInterrupt, SystemExit):
            if not getattr(model, "interrupted_", False):  # no solution was kept
                raise
    results = model.result_ if isinstance(model.result_, list) else [model.result_]
    if model.interrupted_:
        return Fitted(results, EXIT_CODE + (signals.number or SIGINT))
    fine = FINE if isinstance(model, OnlineModel) else {Status.CONVERGED}
    return Fitted(results, 0 if all(result.status in fine for result in results) else 3)


def _continue_from(model: Any, start: Path) -> None:
    """Let a fit begin where a saved model's ended."""
    saved = load_model(start)
    if type(saved) is not type(model):
        raise ParameterError(f"--start must be a {type(model).__name__} like the model to train; got {start}")
    params = model.get_params(deep=False) | {"warm_start": True}
    vars(model).update(vars(saved) | params)
