"""What a saved model knows of its training: the command, the data, and how the run ended."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from undercut import __version__
from undercut.cli.options.given import Given
from undercut.cli.options.option import Option

UNRECORDED = (  # how the run was watched and saved, and where options were read
    "config", "json", "quiet", "log_file", "trace", "checkpoint", "every", "resume", "jobs",
)  # fmt: skip


def command_of(file: Path, given: Given) -> str:
    """The command that trains the same model, options of a configuration included."""
    words = ["undercut", "train", str(file)]
    for option, _ in given.options():
        if option.name not in UNRECORDED:
            words += _typed(option, given.typed[option.name])
    return shlex.join(words)


def _typed(option: Option, value: Any) -> list[str]:
    if option.type is bool:
        return [option.flag(value)]
    values = value if isinstance(value, list) else [value]
    return [word for item in values for word in (option.flag(), str(item))]


def record(model: Any, file: Path, given: Given, **facts: Any) -> None:
    """Note on a model how it was trained."""
    model.training_ = {
        "command": command_of(file, given),
        "data": str(file),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        **facts,
    }
