"""``undercut trace``."""

from __future__ import annotations

from pathlib import Path

from undercut.callbacks import describe
from undercut.cli.report import console
from undercut.errors import DataError
from undercut.plotting import plot_convergence
from undercut.trace import read_trace


def summarize(files: list[Path], plot: Path | None) -> None:
    """The last line of every trace, and a plot where one is wanted."""
    runs = {str(file): read_trace(file) for file in files}
    for name, rows in runs.items():
        if not rows:
            raise DataError(f"{name} holds no row of a trace")
        console().print(f"{name}: {describe(rows[-1])}  {rows[-1].seconds:.2f} s", soft_wrap=True)
    if plot is not None:
        try:
            plot_convergence(runs, plot)
        except ValueError as error:
            raise DataError(f"cannot save the plot to {plot}: {error}") from error
        console().print(f"plot: {plot}")
