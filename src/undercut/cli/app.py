"""The commands, and what their exit codes mean.

0  done: for ``train``, the wanted gap was reached
1  the data, a file or a model is not as it must be
2  an option is wrong
3  ``train`` ended before the wanted gap was reached; the model is saved, its certificate says how far it is
130  Ctrl-C; the model is saved with the best solution so far
143  SIGTERM; the same

A command imports what it needs when it runs, so that ``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from undercut import __version__
from undercut.cli.options.config import with_config
from undercut.cli.options.given import Given
from undercut.cli.options.signature import path_signature, train_signature
from undercut.cli.options.table import OPTIONS, path_options
from undercut.cli.words import in_options
from undercut.errors import ParameterError, UndercutError

app = typer.Typer(name="undercut", no_args_is_help=True, pretty_exceptions_enable=False)

ModelFile = Annotated[Path, typer.Argument(help="A model written by undercut train; - is standard input")]
DataFile = Annotated[
    Path, typer.Argument(help="Files like those it was trained on, by name or pattern; - is standard input")
]
Folds = Annotated[str | None, typer.Option(help="Of letter.data, such as 8-9")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse features never seen in training; else they are ignored")]
Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no notes")]
Memory = Annotated[
    str | None,
    typer.Option(help="Leave the rows on disk, in a cache beside FILE, and use at most this, such as 2GB"),
]
Scheduler = Annotated[
    str | None, typer.Option(help="Use the workers of the Dask scheduler at this address, which read the files")
]
Workers = Annotated[int | None, typer.Option(help="The same with this many new processes on this machine", min=1)]
Cache = Annotated[Path | None, typer.Option(help="With --memory: the folder of that cache")]
LogFile = Annotated[Path | None, typer.Option(help="Append progress and report to this file")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"undercut {__version__}")
        raise typer.Exit


@app.callback()
def undercut(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Regularized risk minimization with a certificate: how far is the answer from the optimum?"""


def train(file: Path | None = None, **typed: Any) -> None:
    """Train a model on FILE and save it with its certificate."""
    source, options = with_config(file, typed, "train", OPTIONS)
    given = Given.read(options)
    given.check()
    from undercut.cli.commands.train import run

    raise typer.Exit(run(source, given))


train.__signature__ = train_signature()
app.command()(train)


def path(file: Path | None = None, **typed: Any) -> None:
    """Fit FILE for many lambdas, each certified, and choose one of them by cross-validation."""
    source, options = with_config(file, typed, "path", path_options())
    given = Given.read(options)
    given.check()
    from undercut.cli.commands.path import run

    raise typer.Exit(run(source, given))


path.__signature__ = path_signature()
app.command()(path)


@app.command()
def predict(
    model: ModelFile,
    file: DataFile,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write; else standard output")] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Write decision values, or probabilities of a crf, instead of labels")
    ] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Write the probability of each label, of models with log-losses")
    ] = False,
    folds: Folds = None,
    strict: Strict = False,
    memory: Memory = None,
    cache: Cache = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    quiet: Quiet = False,
    log_file: LogFile = None,
) -> None:
    """Write one prediction per line of FILE, which needs no labels.

    Scores and probabilities have a header that names the labels.
    """
    if scores and probabilities:
        raise ParameterError("--scores and --probabilities exclude each other: give one of them")
    wanted = "probabilities" if probabilities else "scores" if scores else "labels"
    from undercut.cli.commands.evaluate import predict_there, write_predictions
    from undercut.cli.standard import input_file, logged
    from undercut.cli.tasks.partitions import OnCluster
    from undercut.cli.tasks.samples import OnDisk

    given = _checked(memory=memory, cache=cache, scheduler=scheduler, workers=workers)
    with logged(quiet=quiet, log_file=log_file), input_file(model) as of:
        if (cluster := OnCluster.of(given)) is not None:
            with cluster.connected():
                predict_there(of, file, output, wanted=wanted, folds=folds, strict=strict)
            return
        with input_file(file) as source:
            write_predictions(of, source, output, wanted=wanted, folds=folds, strict=strict, on_disk=OnDisk.of(given))


@app.command()
def evaluate(
    model: ModelFile,
    file: DataFile,
    metrics: Annotated[str | None, typer.Option(help="Of rankings, such as ndcg@10,map,err@5")] = None,
    folds: Folds = None,
    strict: Strict = False,
    memory: Memory = None,
    cache: Cache = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    json: Json = False,
    quiet: Quiet = False,
    log_file: LogFile = None,
) -> None:
    """Print how well MODEL predicts the targets of FILE."""
    from undercut.cli.commands.evaluate import evaluate_there, print_scores
    from undercut.cli.standard import input_file, logged
    from undercut.cli.tasks.partitions import OnCluster
    from undercut.cli.tasks.samples import OnDisk

    given = _checked(memory=memory, cache=cache, scheduler=scheduler, workers=workers)
    with logged(quiet=quiet, log_file=log_file), input_file(model) as of:
        if (cluster := OnCluster.of(given)) is not None:
            with cluster.connected():
                evaluate_there(of, file, folds, strict=strict, as_json=json, metrics=metrics)
            return
        with input_file(file) as source:
            on_disk = OnDisk.of(given)
            print_scores(of, source, folds, strict=strict, as_json=json, metrics=metrics, on_disk=on_disk)


@app.command()
def info(
    model: Annotated[Path, typer.Argument(help="A model or a checkpoint; - is standard input")],
    top: Annotated[int, typer.Option(help="How many of the largest coefficients to show", min=0)] = 10,
    json: Json = False,
) -> None:
    """Print what MODEL is, on what it was trained, its certificate, its settings and its largest coefficients."""
    from undercut.cli.commands.info import print_info
    from undercut.cli.standard import input_file

    with input_file(model) as of:
        print_info(of, top, as_json=json)


@app.command()
def export(
    model: ModelFile,
    output: Annotated[Path, typer.Argument(help="The ONNX file to write; - is standard output")],
    dtype: Annotated[
        str, typer.Option(help="float32 or float64: of the input, the numbers inside and the outputs")
    ] = "float32",
) -> None:
    """Write a linear or kernel MODEL as an ONNX graph, for runtimes without Python."""
    from undercut.cli.commands.export import write_graph
    from undercut.cli.standard import input_file, output_file

    with input_file(model) as of, output_file(output) as file:
        write_graph(of, file, dtype)


@app.command()
def trace(
    files: Annotated[list[Path], typer.Argument(help="Traces written by undercut train --trace; - is standard input")],
    plot: Annotated[Path | None, typer.Option(help="Save a convergence plot here (.png, .pdf, .svg)")] = None,
    json: Json = False,
) -> None:
    """Summarize traces, and plot them beside each other."""
    from undercut.cli.commands.trace import summarize

    summarize(files, plot, as_json=json)


@app.command()
def demo(
    plot: Annotated[Path, typer.Option(help="Where to save the convergence plot")] = Path("convergence.png"),
    json: Json = False,
) -> None:
    """Train an SVM on handwritten digits, certify it, compare it with LIBLINEAR, and plot the run."""
    from undercut.cli.commands.demo import run
    from undercut.cli.standard import logged

    with logged(quiet=json):
        run(plot, as_json=json)


def _checked(**typed: Any) -> Given:
    """Options that another command has too, read and checked by their records."""
    given = Given.read(typed)
    given.check()
    return given


def main() -> None:
    """Run the command line; errors that the user can correct are one line on standard error."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            app(prog_name="undercut")
        except ParameterError as error:
            _fail(error, 2)
        except (UndercutError, OSError, ValueError) as error:  # a ValueError is scikit-learn's word for bad data
            _fail(error, 1)


def _fail(error: Exception, code: int) -> None:
    from undercut.cli.standard import without_copies

    typer.echo(f"undercut: error: {without_copies(in_options(_text(error)))}", err=True)
    sys.exit(code)


def _text(error: Exception) -> str:
    """The message of an error; those of the system without their number."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"undercut: warning: {in_options(str(message))}", err=True)
