"""Files of a JSON header and raw arrays (the safetensors format) with a checksum over every byte.

The checksum is the SHA-256 of the file with zeros in its place; it is the first entry of the header.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load, save

from undercut.types import Array, FilePath

BLANK = "0" * 64
FIELD = re.compile(rb'checksum\\": \\"([0-9a-f]{64})\\"')  # quotes are escaped: the header is a text inside JSON
DAMAGE = (
    SafetensorError, AttributeError, LookupError, TypeError, ValueError, OverflowError, MemoryError, RecursionError,
)  # fmt: skip
"""What reading a damaged file may raise."""


def sealed(header: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    """The content of a file, checksum included."""
    content = save(arrays, metadata={"undercut": json.dumps({"checksum": BLANK} | header)})
    found = _field(content)
    digest = hashlib.sha256(content).hexdigest().encode()
    return content[: found.start(1)] + digest + content[found.end(1) :]


def opened(path: FilePath) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header and the arrays of a file, or one of ``DAMAGE``; a file without a checksum is not checked.

    The header is read first, so that a large file of another kind is refused at once.
    """
    with open(path, "rb") as file:
        start = file.read(8)
        (size,) = struct.unpack("<Q", start) if len(start) == 8 else (0,)
        if not 2 <= size <= os.path.getsize(path) - 8:
            raise ValueError("it has no header")
        start += file.read(size)
        header = json.loads(json.loads(start[8:])["__metadata__"]["undercut"])
        content = start + file.read()
    if "checksum" in header:
        _check(content)
    return header, load(content)


def _check(content: bytes) -> None:
    found = _field(content)
    blank = content[: found.start(1)] + BLANK.encode() + content[found.end(1) :]
    if hashlib.sha256(blank).hexdigest().encode() != found[1]:
        raise ValueError("its checksum does not match its content: the file was changed or cut after it was written")


def _field(content: bytes) -> re.Match[bytes]:
    (size,) = struct.unpack("<Q", content[:8])
    found = FIELD.search(content, 8, 8 + size)
    if found is None:
        raise ValueError("its checksum is missing")
    return found


def write_whole(content: bytes, path: FilePath) -> None:
    """Write a file in one piece, with the permissions of any new file: an older one stays until this is complete."""
    partial = Path(f"{os.fspath(path)}.partial")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise OSError(f"cannot write the model to {path}: {error}") from error
