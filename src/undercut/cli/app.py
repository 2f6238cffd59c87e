"""The commands, and what their exit codes mean.

0  done: for ``train``, the wanted gap was reached
1  the data, a file or a model is not as it must be
2  an option is wrong
3  ``train`` ended before the wanted gap was reached; the model is saved, its certificate says how far it is
130  Ctrl-C; the model is saved with the best solution so far
"""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from undercut.cli.demo import demo
from undercut.cli.evaluate import evaluate, predict
from undercut.cli.trace import trace
from undercut.cli.train import train
from undercut.errors import ParameterError, UndercutError

app = typer.Typer(
    name="undercut",
    help="Regularized risk minimization with a certificate: how far is the answer from the optimum?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(train)
app.command()(predict)
app.command()(evaluate)
app.command()(trace)
app.command()(demo)


def main() -> None:
    """Run the command line; errors the user can mend are one line on standard error."""
    try:
        app()
    except ParameterError as error:
        _fail(error, 2)
    except (UndercutError, OSError, ValueError) as error:  # a ValueError is scikit-learn's word for bad data
        _fail(error, 1)


def _fail(error: Exception, code: int) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True, emoji=False).print(f"undercut: error: {error}", markup=False)
    sys.exit(code)
