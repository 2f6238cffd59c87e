"""Model files: a JSON header and raw arrays (the safetensors format), so that loading one never runs code from it.

The header holds the format's version, the class of the estimator, its parameters and its fitted attributes; how these
are written is up to the estimator (``state`` and ``from_state``).
"""

from __future__ import annotations

import importlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from undercut.errors import ModelFileError
from undercut.io.model_file_v1 import from_version_1
from undercut.types import Array

VERSION = 2
DAMAGE = (
    SafetensorError, AttributeError, LookupError, TypeError, ValueError, OverflowError, MemoryError, RecursionError,
)  # fmt: skip


class ModelState(NamedTuple):
    """What makes an equal estimator."""

    params: dict[str, Any]  # constructor parameters as JSON
    fitted: dict[str, Any]  # fitted attributes as JSON
    arrays: dict[str, Array]  # what the two refer to


class Savable(Protocol):
    """An estimator that can be saved."""

    def state(self) -> ModelState:
        """Parameters and fit; ``ModelFileError`` names the parameter that cannot be stored."""

    @classmethod
    def from_state(cls, state: ModelState) -> Any:
        """The estimator that ``state`` described; ``ValueError`` if its parts do not fit together."""


def save_model(model: Savable, path: str | Path) -> None:
    """Write a fitted estimator; an older file at ``path`` is replaced only once the new one is complete.

    >>> import tempfile
    >>> import numpy as np
    >>> from undercut import LinearClassifier
    >>> X, y = np.eye(2), np.array([0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(LinearClassifier().fit(X, y), f"{folder}/model.uc")
    ...     load_model(f"{folder}/model.uc").predict(X)
    array([0, 1])
    """
    name = type(model).__name__
    if _estimators().get(name) is not type(model):
        raise ModelFileError(
            f"only estimators of undercut can be saved; got a {name}: save the last step of a pipeline, or use the "
            "base class in place of a subclass"
        )
    state = model.state()
    header = {"version": VERSION, "estimator": name, "params": state.params, "fitted": state.fitted}
    _write(save(state.arrays, metadata={"undercut": json.dumps(header)}), path)


def load_model(path: str | Path) -> Any:
    """Read an estimator that ``save_model`` wrote; ``ModelFileError`` for anything else."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"no such model file: {path}")
    try:
        with safe_open(str(path), framework="numpy") as file:
            header = json.loads((file.metadata() or {})["undercut"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (no mapping)
        if header["version"] == 1:
            header, arrays = from_version_1(header, arrays)
        elif header["version"] != VERSION:
            raise ValueError(f"format version {header['version']!r} is unknown; this undercut reads 1 to {VERSION}")
        kind = _estimators()[header["estimator"]]
        return kind.from_state(ModelState(header["params"], header["fitted"], arrays))
    except DAMAGE as error:
        raise ModelFileError(f"{path} is not a model file of undercut, or is damaged: {error}") from error


def _estimators() -> dict[str, type[Savable]]:
    """The public classes that can be saved, by name; found at run time, because they import this module."""
    room = importlib.import_module("undercut.estimators")
    public = {name: getattr(room, name) for name in room.__all__}
    return {name: kind for name, kind in public.items() if hasattr(kind, "from_state")}


def _write(content: bytes, path: str | Path) -> None:
    """Write a file in one piece, with the permissions of any new file."""
    partial = Path(f"{path}.partial")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise OSError(f"cannot write the model to {path}: {error}") from error
