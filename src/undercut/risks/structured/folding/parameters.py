"""Parameter files in the format of CONTRAfold 2: a line ``name value`` for each parameter.

A parameter that is the same from either strand, such as ``helix_stacking_AUCG``, may have either of its two names.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from undercut.errors import DataError
from undercut.risks.structured.folding.features import names
from undercut.types import FilePath, FloatArray

EITHER_WAY = ("base_pair_", "helix_stacking_", "internal_1x1_nucleotides_")


def load_parameters(path: FilePath) -> FloatArray:
    """The weights of a file; ``DataError`` names a line that is wrong, or a parameter that is missing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_parameters(np.arange(336.0), f"{folder}/folding.params")
    ...     load_parameters(f"{folder}/folding.params")[:3]
    array([0., 1., 2.])
    """
    at = {name: j for j, name in enumerate(names())}
    w = np.full(len(at), np.nan)
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        fields = line.split()
        if not fields or line.startswith("#"):
            continue
        name, value = _named(fields[0], at), _number(fields[1:])
        if name is None or value is None:
            raise DataError(f"{os.fsdecode(path)}:{number}: must be the name of a parameter and a number; got {line!r}")
        w[at[name]] = value
    if np.isnan(w).any():
        missing = [name for name, value in zip(names(), w, strict=True) if np.isnan(value)]
        raise DataError(f"{os.fsdecode(path)}: must have all {w.size} parameters; {missing[0]} is missing")
    return w


def save_parameters(w: FloatArray, path: FilePath) -> None:
    """Write weights, such as ``coef_`` of an ``RnaFolder``."""
    lines = (f"{name} {value!r}\n" for name, value in zip(names(), w.tolist(), strict=True))
    Path(path).write_text("".join(lines), encoding="utf-8")


def _named(name: str, at: dict[str, int]) -> str | None:
    """The name by which a parameter is known."""
    kind, _, letters = name.rpartition("_")
    turned = f"{kind}_{letters[::-1]}"
    if name in at:
        return name
    return turned if turned in at and f"{kind}_" in EITHER_WAY else None


def _number(fields: list[str]) -> float | None:
    try:
        value = float(fields[0]) if len(fields) == 1 else np.nan
    except ValueError:
        return None
    return value if np.isfinite(value) else None
