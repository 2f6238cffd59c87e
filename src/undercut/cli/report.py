"""What the command line prints about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from undercut.cli.words import in_options
from undercut.trace import Result, Status
from undercut.types import Array, FloatArray


def console() -> Console:
    """Where reports go: standard output, as wide as it is."""
    return Console(highlight=False, emoji=False)


def labels(y: FloatArray) -> Array:
    """Class labels of a file: integers where all of them are."""
    whole = y.astype(np.int64)
    return whole if np.array_equal(whole, y) else y


def print_rows(rows: list[tuple[str, str]]) -> None:
    """Names and values in two columns, never cut."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        console().print(f"{name:<{width}}  {value}", markup=False, soft_wrap=True)


def describe_fit(model: Any, results: list[Result], output: Path) -> None:
    """The certificate, the status and where the model went."""
    worst = next((result for result in results if result.status is not Status.CONVERGED), results[0])
    seconds = sum(result.trace[-1].seconds for result in results if result.trace)
    print_rows(
        [
            *certificate_rows(model),
            *_sparsity(model),
            ("steps", f"{model.n_iter_}"),
            ("seconds", f"{seconds:.2f}"),
            ("status", in_options(worst.message)),
            ("model", str(output)),
        ]
    )


def _sparsity(model: Any) -> list[tuple[str, str]]:
    """How many coefficients are left, where the penalty or the loss makes zeros."""
    if hasattr(model, "n_support_"):
        return [("support vectors", f"{model.support_.size} of {model._n_fitted} samples")]
    if getattr(model, "penalty", "l2") == "l2":
        return []
    return [("coefficients", f"{np.count_nonzero(model.coef_)} of {model.coef_.size} are not zero")]


def certificate_rows(model: Any) -> list[tuple[str, str]]:
    """Objective, bound and gap of a fitted model, in words; nothing for one that learned from a stream."""
    if not hasattr(model, "objective_"):
        return []
    relative = model.gap_ / abs(model.objective_) if model.objective_ else model.gap_
    gap = f"{model.gap_:.3g} ({100 * relative:.3g} % of the objective)"
    if model.certificate_ == "local":
        return [
            ("objective", f"{model.objective_:.8g}"),
            ("model gap", f"{gap}: a stationary point up to that, not a bound on the optimum"),
        ]
    if model.certificate_ == "none":
        return [("objective", f"{model.objective_:.8g}")]
    return [("objective", f"{model.objective_:.8g}"), ("lower bound", f"{model.lower_bound_:.8g}"), ("gap", gap)]
