"""Checkpoint files: a JSON header and raw arrays (the safetensors format), written in one piece.

The header holds the versions of the format and of the library, and whatever the writer put into it; a checksum covers
the header and every array.  Reading a file never runs code from it.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from undercut.errors import CheckpointError
from undercut.types import Array

FORMAT = 1
DAMAGE = (
    SafetensorError, AttributeError, LookupError, TypeError, ValueError, OverflowError, MemoryError, RecursionError,
)  # fmt: skip
PROBE = bytes(4096)  # what is written to find out whether a file can be


class Content(NamedTuple):
    """What a file holds."""

    header: dict[str, Any]  # JSON
    arrays: dict[str, Array]


def write_checkpoint(path: str | Path, content: Content) -> None:
    """Write a file in one piece: whatever happens, ``path`` holds the old content or the new one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_checkpoint(f"{folder}/run.ck", Content({"step": 3}, {"w": np.ones(2)}))
    ...     content = read_checkpoint(f"{folder}/run.ck")
    >>> content.header["step"], content.arrays["w"]
    (3, array([1., 1.]))
    """
    header = json.dumps(content.header)
    kept = {"checkpoint": str(FORMAT), "undercut": _version(), "header": header, "checksum": _checksum(header, content)}
    replace_file(path, save(content.arrays, metadata=kept), "checkpoint")


def read_checkpoint(path: str | Path) -> Content:
    """Read what ``write_checkpoint`` of this version of the library wrote; ``CheckpointError`` for anything else."""
    kept = _metadata(path)
    try:
        with safe_open(str(path), framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in sorted(file.keys())}
        content = Content(json.loads(kept["header"]), arrays)
        if _checksum(kept["header"], content) != kept["checksum"]:
            raise ValueError("its checksum does not fit its content")
    except DAMAGE as error:
        raise _damaged(path, error) from error
    return content


def read_header(path: str | Path) -> dict[str, Any]:
    """The header alone, whose checksum is not tested."""
    kept = _metadata(path)
    try:
        header: dict[str, Any] = json.loads(kept["header"])
    except DAMAGE as error:
        raise _damaged(path, error) from error
    return header


def _metadata(path: str | Path) -> dict[str, str]:
    """What is written beside the arrays by this version of the library."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"no such checkpoint: {path}")
    try:
        with safe_open(str(path), framework="numpy") as file:
            kept = dict(file.metadata() or {})
        if "checkpoint" not in kept:
            raise ValueError("it is a file of another kind, such as a model")
        wrote = int(kept["checkpoint"]), kept["undercut"]
    except DAMAGE as error:
        raise _damaged(path, error) from error
    if wrote != (FORMAT, _version()):
        raise CheckpointError(
            f"{path} was written by undercut {wrote[1]} (format {wrote[0]}), and this is {_version()} "
            f"(format {FORMAT}): go on with that version, or start again"
        )
    return kept


def _damaged(path: str | Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"{path} is not a checkpoint of undercut, or is damaged: {error}")


def check_writable(path: str | Path, what: str) -> None:
    """``OSError`` now if ``path`` could not be written later; a file that is there stays as it is."""
    partial = Path(f"{path}.partial")
    try:
        if Path(path).is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        _write_through(partial, PROBE)
        partial.unlink(missing_ok=True)  # another process with the same path may have removed it
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise _cannot_write(what, path, error) from error


def replace_file(path: str | Path, content: bytes, what: str) -> None:
    """Put a file in place of another once it is on the disk; ``OSError`` leaves the old one as it was."""
    partial = Path(f"{path}.partial")
    try:
        _write_through(partial, content)
        os.replace(partial, path)
        _sync_folder(Path(path).parent)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise _cannot_write(what, path, error) from error


def _write_through(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Let the new name reach the disk too, where folders can be synchronized."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _cannot_write(what: str, path: str | Path, error: OSError) -> OSError:
    """The error in words; its type and number stay."""
    return type(error)(error.errno, f"cannot write the {what} to {path}: {error.strerror or error}")


def _version() -> str:
    """Of the library, asked for at run time because the root imports this module."""
    return str(importlib.import_module("undercut").__version__)


def _checksum(header: str, content: Content) -> str:
    """Of the header and of every array with its name, type and shape."""
    digest = hashlib.blake2b(header.encode(), digest_size=16)
    for name, array in sorted(content.arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(as_bytes(array))
    return digest.hexdigest()


def named_parts(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """The arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def as_bytes(array: Array) -> Any:
    """The content of an array row by row, as an object that checksums read."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
