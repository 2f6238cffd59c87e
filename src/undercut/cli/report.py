"""What the command line prints about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from undercut.arrays import Array, FloatArray
from undercut.trace import Result, Status


def console() -> Console:
    """Where reports go: standard output, as wide as it is."""
    return Console(highlight=False)


def labels(y: FloatArray) -> Array:
    """Class labels of a file: integers where all of them are."""
    whole = y.astype(np.int64)
    return whole if np.array_equal(whole, y) else y


def describe_fit(model: Any, results: list[Result], output: Path) -> None:
    """The certificate, the status and where the model went."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in certificate_rows(model):
        table.add_row(name, value)
    table.add_row("steps", f"{model.n_iter_}")
    table.add_row("seconds", f"{sum(result.trace[-1].seconds for result in results if result.trace):.2f}")
    worst = next((result for result in results if result.status is not Status.CONVERGED), results[0])
    table.add_row("status", worst.message)
    table.add_row("model", str(output))
    console().print(table)


def certificate_rows(model: Any) -> list[tuple[str, str]]:
    """Objective, bound and gap of a fitted model, in words."""
    relative = model.gap_ / abs(model.objective_) if model.objective_ else model.gap_
    return [
        ("objective", f"{model.objective_:.8g}"),
        ("lower bound", f"{model.lower_bound_:.8g}"),
        ("gap", f"{model.gap_:.3g} ({100 * relative:.3g} % of the objective)"),
    ]
