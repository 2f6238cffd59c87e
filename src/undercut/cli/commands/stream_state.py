"""Checkpoints of a stream: the model with its games, and how much of which file it has learned from."""

from __future__ import annotations

import hashlib
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

from undercut.cli.words import BY_PARAMETER
from undercut.errors import CheckpointError
from undercut.estimators.certified import TRANSIENT
from undercut.estimators.files.stored import encode
from undercut.io.checkpoint import DAMAGE, Content, check_writable, read_checkpoint, write_checkpoint
from undercut.io.model_file import ModelState
from undercut.io.several import matching
from undercut.solvers.saving.checkpoint import check_free
from undercut.trace import Status

SAMPLED = 2**20  # bytes of a file that are compared


class Position(NamedTuple):
    """Where a stream is, beside what the model knows."""

    number: int  # of the pass
    loss: float
    n_counted: float
    seen_before: int
    seconds: float


class StreamCheckpoint:
    """The file of one stream; without a path nothing is written."""

    def __init__(self, path: Path | None, every: float, data: Path) -> None:
        self.path, self.every, self.data = path, every, data
        self._due = 0.0

    def claim(self, *, resumed: bool) -> None:
        """Refuse a file that cannot be written, or that holds something else."""
        if self.path is not None:
            if not resumed:
                check_free(self.path)
            check_writable(self.path, "checkpoint")

    def offer(self, model: Any, at: Position) -> None:
        """Save the stream if it is time."""
        if time.perf_counter() >= self._due:
            self.save(model, at, ended=False)

    def save(self, model: Any, at: Position, *, ended: bool) -> None:
        """Save the stream, which is over or not."""
        if self.path is None:
            return
        state = model.state()
        about = {
            "step": int(model.n_samples_seen_), "objective": at.loss / max(at.n_counted, 1.0), "lower_bound": -math.inf,
            "seconds": at.seconds, "certificate": "none", "solver": str(model.solver),
            "status": Status.MAX_PASSES.name if ended else None, "problem": {"stream": str(self.data)},
        }  # fmt: skip
        stream = {
            "at": list(at), "data": _fingerprint(self.data), "estimator": type(model).__name__,
            "params": state.params, "fitted": state.fitted,
        }  # fmt: skip
        write_checkpoint(self.path, Content({"runs": {"": about}, "stream": stream}, state.arrays))
        self._due = time.perf_counter() + self.every


def load_stream(path: Path, wanted: Any, data: Path) -> tuple[Any, Position]:
    """The model of a checkpoint and where its stream is; ``CheckpointError`` if it is of another one."""
    content = read_checkpoint(path)
    stream = content.header.get("stream")
    if stream is None:
        raise CheckpointError(f"{path} is no checkpoint of train --online: drop --online, or name another file")
    differs = _differences(stream, wanted, data)
    if differs:
        raise CheckpointError(f"{path} holds another stream: {'; '.join(differs)}")
    try:
        state = ModelState(stream["params"], stream["fitted"], content.arrays)
        return type(wanted).from_state(state), Position(*stream["at"])
    except DAMAGE as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error


def _differences(stream: dict[str, Any], wanted: Any, data: Path) -> list[str]:
    """What is not as it was, in the words of the command line."""
    if stream["estimator"] != type(wanted).__name__:
        return [f"it trains a {stream['estimator']}, not a {type(wanted).__name__}"]
    params = {name: value for name, value in wanted.get_params(deep=False).items() if name not in TRANSIENT}
    found = []
    for name, value in params.items():
        old, new = stream["params"].get(name), encode(value, name, {})
        if old != new and name != "verbose":
            flag = BY_PARAMETER[name].flag() if name in BY_PARAMETER else name
            found.append(f"{flag} was {old} and is {new}")
    if stream["data"] != _fingerprint(data):
        found.append(f"the data differ: {data} is not the file it has read")
    return found


def _fingerprint(data: Path) -> list[Any]:
    """The size of each file and a checksum of its beginning; nothing for standard input."""
    found: list[Any] = []
    for path in map(Path, matching(data)):
        if path.is_file():
            with open(path, "rb") as file:
                found += [path.stat().st_size, hashlib.blake2b(file.read(SAMPLED), digest_size=12).hexdigest()]
    return found
