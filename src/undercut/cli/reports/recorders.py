"""What ``train`` writes while it runs: the checkpoint and the trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from undercut.callbacks import Checkpoint, TraceFile
from undercut.cli.options.given import Given
from undercut.trace import Callback


def recorders(file: Path, given: Given) -> list[Callback]:
    """The callbacks that the options ask for."""
    found: list[Callback] = []
    if "checkpoint" in given or "resume" in given:
        path = given["checkpoint"] or given["resume"]
        found.append(Checkpoint(path, given["every"], resume=given["resume"] or False))
    if "trace" in given:
        found.append(TraceFile(given["trace"], about(file, given)))
    return found


def about(file: Path, given: Given) -> dict[str, Any]:
    """The data and the settings, for the first line of a trace."""
    return {"data": str(file), "settings": {option.key(): value for option, value in given.options()}}
