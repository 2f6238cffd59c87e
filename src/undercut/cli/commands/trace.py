"""``undercut trace``."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from undercut.callbacks import describe
from undercut.cli.reports.report import Row, print_report
from undercut.cli.standard import input_file
from undercut.errors import DataError
from undercut.plotting import plot_convergence
from undercut.trace import Progress, read_traces


def summarize(files: list[Path], plot: Path | None, *, as_json: bool = False) -> None:
    """The last line of every trace, and a plot where one is wanted."""
    with ExitStack() as stack:
        traces = {str(file): read_traces(stack.enter_context(input_file(file))) for file in files}
    runs = {_named(file, problem): trace for file, found in traces.items() for problem, trace in found.items()}
    for file, found in traces.items():
        if not any(found.values()):
            raise DataError(f"{file} holds no row of a trace")
    if plot is not None:
        try:
            plot_convergence(runs, plot)
        except ValueError as error:
            raise DataError(f"cannot save the plot to {plot}: {error}") from error
    rows = [Row(f"{name}:", _numbers(trace[-1]), f"{describe(trace[-1])}  {trace[-1].seconds:.2f} s")
            for name, trace in runs.items()]  # fmt: skip
    if as_json:
        rows = [Row("runs", {row.label.rstrip(":"): row.value for row in rows})]
    print_report([*rows, Row("plot", plot)] if plot else rows, as_json=as_json)


def _named(file: str, problem: str) -> str:
    return f"{file} {problem}".rstrip()


def _numbers(last: Progress) -> dict[str, object]:
    return {
        "steps": last.step, "objective": last.objective, "lower_bound": last.lower_bound, "gap": last.gap,
        "certificate": last.certificate, "seconds": last.seconds, "solver": last.solver,
    }  # fmt: skip
