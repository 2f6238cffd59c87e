"""Model files: a JSON header and raw arrays (the safetensors format), so that loading one never runs code from it.

The header holds the format's version, the class of the estimator, its parameters and its fitted attributes; how these
are written is up to the estimators (``undercut.estimators.files.saving``).

| version | since | |
|---|---|---|
| 1 | 0.1 | one layout per estimator |
| 2 | | parameters and fitted attributes, tagged |
| 3 | | a checksum, packed arrays, pipelines |
"""

from __future__ import annotations

import importlib
import os
from typing import Any, NamedTuple

from undercut.errors import ModelFileError
from undercut.io.container import DAMAGE, opened, sealed, write_whole
from undercut.io.model_file_v1 import from_version_1
from undercut.io.packing import packed, unpacked
from undercut.types import Array, FilePath

VERSION = 3


class ModelState(NamedTuple):
    """What makes an equal estimator."""

    params: dict[str, Any]  # constructor parameters as JSON
    fitted: dict[str, Any]  # fitted attributes as JSON
    arrays: dict[str, Array]  # what the two refer to


def save_model(model: Any, path: FilePath) -> None:
    """Write a fitted estimator; an older file at ``path`` is replaced only once the new one is complete.

    ``model`` is an estimator of this library, or a scikit-learn ``Pipeline`` of one after scikit-learn's scalers,
    encoders, vectorizers and so on; ``ModelFileError`` names what cannot be saved.

    >>> import tempfile
    >>> import numpy as np
    >>> from undercut import LinearClassifier
    >>> X, y = np.eye(2), np.array([0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(LinearClassifier().fit(X, y), f"{folder}/model.uc")
    ...     load_model(f"{folder}/model.uc").predict(X)
    array([0, 1])
    """
    name, state = _saving().state_of(model)
    records, arrays = packed(state.arrays)
    header = {"version": VERSION, "estimator": name, "params": state.params, "fitted": state.fitted}
    write_whole(sealed(header | {"packed": records}, arrays), path)


def load_model(path: FilePath) -> Any:
    """Read what ``save_model`` wrote; ``ModelFileError`` for anything else, also for a file that was damaged."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"no such model file: {os.fsdecode(path)}")
    try:
        header, arrays = opened(path)
        if header["version"] == 1:
            header, arrays = from_version_1(header, arrays)
        elif header["version"] == VERSION and "checksum" in header:
            arrays = unpacked(header["packed"], arrays)
        elif header["version"] != 2:
            raise ValueError(_unreadable(header))
        return _saving().restored(header["estimator"], ModelState(header["params"], header["fitted"], arrays))
    except DAMAGE as error:
        name = os.fsdecode(path)
        raise ModelFileError(f"{name} is not a model file of undercut, or is damaged: {error}") from error


def _unreadable(header: dict[str, Any]) -> str:
    if header["version"] == VERSION:
        return "its checksum is missing"
    return f"format version {header['version']!r} is unknown; this undercut reads 1 to {VERSION}"


def _saving() -> Any:
    """How estimators are written; found at run time, because estimators import this module."""
    return importlib.import_module("undercut.estimators.files.saving")
