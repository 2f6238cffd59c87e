"""What a problem is, in words that can be compared: settings by value, data by checksum."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from undercut.io.checkpoint import as_bytes
from undercut.kinds import named_class
from undercut.solvers.saving.snapshot import MAX_DEPTH, MAX_ITEMS, attributes, parts
from undercut.types import Array

DIGEST = 12  # bytes
AT_MOST = 3  # differences that a message names


class Fingerprints:
    """The fingerprints of the problems of one fit; data that they share are read once."""

    def __init__(self) -> None:
        self._digests: dict[int, tuple[Array, str]] = {}

    def of(self, **roots: Any) -> dict[str, str]:
        """Every setting and every array that the public attributes of some objects lead to, by path.

        >>> from undercut import L2
        >>> Fingerprints().of(reg=L2(0.5))["reg.lam"]
        '0.5'
        """
        found: dict[str, str] = {}
        for name, root in roots.items():
            self._add(name, root, found, 0)
        return found

    def _add(self, path: str, value: Any, found: dict[str, str], depth: int) -> None:
        found[path] = self._leaf(value)
        if depth < MAX_DEPTH:
            for name, part in parts(value):
                if _counts(type(value), name):
                    self._add(f"{path}.{name}", part, found, depth + 1)

    def _leaf(self, value: Any) -> str:
        if value is None or isinstance(value, (bool, int, float, str, np.generic)):
            return repr(value.item() if isinstance(value, np.generic) else value)
        if isinstance(value, np.ndarray):
            if id(value) not in self._digests:
                self._digests[id(value)] = value, _digest(value)
            return self._digests[id(value)][1]
        if isinstance(value, (list, tuple)) and len(value) > MAX_ITEMS:
            return f"{type(value).__name__} {_digest(value)}"
        if isinstance(value, type) or callable(value):
            return str(getattr(value, "__qualname__", type(value).__name__))
        return named_class(value).__name__


def differences(before: dict[str, str], now: dict[str, str]) -> str:
    """What differs between two problems, in words; empty if they are the same."""
    names = [name for name in (before | now) if before.get(name) != now.get(name)]
    outer = [name for name in names if not any(name.startswith(f"{other}.") for other in names)]
    words = [_difference(name, before.get(name), now.get(name)) for name in outer[:AT_MOST]]
    more = [f"and {len(outer) - AT_MOST} more differences"] if len(outer) > AT_MOST else []
    return "; ".join(words + more)


def _difference(path: str, before: str | None, now: str | None) -> str:
    owner, _, setting = path.rpartition(".")
    name = setting if owner in ("risk", "reg", "solver") else path  # by the name of the parameter
    if any(text is not None and text.startswith("array") for text in (before, now)):
        return f"the data differ in `{name}` ({_size(before)}, now {_size(now)})"
    return f"`{name}` was {before or 'absent'} and is {now or 'absent'}"


def _size(text: str | None) -> str:
    return "absent" if text is None else text.partition(" #")[0]


def _counts(kind: type, name: str) -> bool:
    """Whether an attribute is part of the problem: private ones are derived, some are only memory."""
    return not name.startswith("_") and name not in ("scratch", *getattr(kind, "carried", ()))


def _digest(value: Any) -> str:
    digest = hashlib.blake2b(digest_size=DIGEST)
    _feed(digest, value, 0)
    size = "x".join(map(str, value.shape)) if isinstance(value, np.ndarray) else str(len(value))
    return f"array {size} #{digest.hexdigest()}"


def _feed(digest: Any, value: Any, depth: int) -> None:
    """Let a value count in a checksum, whatever it is made of."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(as_bytes(value))
    elif isinstance(value, (list, tuple, np.ndarray)):
        digest.update(f"{type(value).__name__}{len(value)}".encode())
        for item in value:
            _feed(digest, item, depth + 1)
    elif value is None or isinstance(value, (bool, int, float, str, bytes, np.generic)):
        digest.update(repr(value).encode())
    else:
        digest.update(type(value).__name__.encode())
        for name, part in sorted(attributes(value).items()) if depth < MAX_DEPTH else ():
            digest.update(name.encode())
            _feed(digest, part, depth + 1)
