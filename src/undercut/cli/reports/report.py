"""What the command line prints about a model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from rich.console import Console

from undercut.cli.standard import PRINTED
from undercut.cli.words import in_options
from undercut.display import LOGGER
from undercut.io.sequences.sequence_files import labels as labels
from undercut.trace import Result, Status


def console() -> Console:
    """Where reports go: standard output, as wide as it is."""
    return Console(highlight=False, emoji=False)


class Row(NamedTuple):
    """A line of a report: what it is called, its value, and the value in words where a number does not do."""

    label: str
    value: Any
    text: str = ""
    name: str = ""  # in JSON, where it does not follow from the label

    @property
    def key(self) -> str:
        """The name in JSON.

        >>> Row("lower bound", 0.5).key
        'lower_bound'
        """
        return self.name or self.label.lower().replace(" ", "_").replace("-", "_")


def print_report(rows: Sequence[Row], *, as_json: bool = False, to_error: bool = False, quiet: bool = False) -> None:
    """Labels and values in two columns, never cut, or one JSON object; a copy goes to the log file."""
    if as_json:
        text = json.dumps(as_table(rows))
    else:
        shown = [row for row in _expanded(rows) if row.value is not None]
        width = max((len(row.label) for row in shown), default=0)
        text = "\n".join(f"{row.label:<{width}}  {row.text or _short(row.value)}".rstrip() for row in shown)
    if not quiet:
        typer.echo(text, err=to_error)
    for line in text.splitlines():
        LOGGER.info(line, extra={PRINTED: True})


def as_table(rows: Sequence[Row]) -> dict[str, Any]:
    """The rows for JSON; a row of rows is a table in the table."""
    return {row.key: as_table(row.value) if _is_nested(row) else plain(row.value) for row in rows}


def _expanded(rows: Sequence[Row]) -> Iterator[Row]:
    """The rows in a list; those of a row of rows bear its label."""
    for row in rows:
        if _is_nested(row):
            for part in row.value:
                label = part.label if part.label.startswith(f"{row.label} ") else f"{row.label} {part.label}"
                yield Row(label, part.value, part.text)
        else:
            yield row


def _is_nested(row: Row) -> bool:
    return isinstance(row.value, list) and bool(row.value) and isinstance(row.value[0], Row)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(item)}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def plain(value: Any) -> Any:
    """A value for JSON, which has no NumPy numbers and no infinity.

    >>> plain({1: np.float64(0.5), "b": [np.inf, Path("x")]})
    {'1': 0.5, 'b': [None, 'x']}
    """
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def fit_rows(model: Any, results: list[Result], output: Path) -> list[Row]:
    """The certificate, the status and where the model went."""
    worst = next((result for result in results if result.status is not Status.CONVERGED), results[0])
    seconds = sum(result.trace[-1].seconds for result in results if result.trace)
    return [
        *certificate_rows(model),
        *_sparsity(model),
        Row("steps", model.n_iter_),
        Row("seconds", seconds, f"{seconds:.2f}"),
        Row("status", worst.status.name.lower(), _ending(worst)),
        Row("model", str(output)),
    ]


def _ending(result: Result) -> str:
    """How a run ended, in the words of the command line."""
    if result.status is not Status.STOPPED:
        return in_options(result.message)
    if result.interrupted or not result.detail:
        return "stopped: the best solution so far is kept; continue with --resume CHECKPOINT, or with --start MODEL"
    return f"stopped early: {result.detail}"


def _sparsity(model: Any) -> list[Row]:
    """How many coefficients are left, where the penalty or the loss makes zeros."""
    if hasattr(model, "n_support_"):
        return [Row("support vectors", model.support_.size, f"{model.support_.size} of {model._n_fitted} samples")]
    if getattr(model, "penalty", "l2") == "l2":
        return []
    count = int(np.count_nonzero(model.coef_))
    return [Row("coefficients", count, f"{count} of {model.coef_.size} are not zero")]


def certificate_rows(model: Any) -> list[Row]:
    """Objective, bound and gap of a fitted model; nothing for one that learned from a stream."""
    if not hasattr(model, "objective_"):
        return []
    relative = model.gap_ / abs(model.objective_) if model.objective_ else model.gap_
    gap = f"{model.gap_:.3g} ({100 * relative:.3g} % of the objective)"
    objective = Row("objective", model.objective_, f"{model.objective_:.8g}")
    if model.certificate_ == "local":
        text = f"{gap}: a stationary point up to that, not a bound on the optimum"
        return [objective, Row("lower bound", None), Row("gap", None), Row("model gap", model.gap_, text)]
    if model.certificate_ == "none":
        return [objective, Row("lower bound", None), Row("gap", None)]
    return [objective, Row("lower bound", model.lower_bound_, f"{model.lower_bound_:.8g}"), Row("gap", model.gap_, gap)]
