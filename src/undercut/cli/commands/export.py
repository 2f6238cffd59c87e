"""``undercut export``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from undercut.errors import ParameterError
from undercut.estimators import export_onnx
from undercut.estimators.files.onnx_export import DTYPES
from undercut.io import load_model


def write_graph(model: Path, output: Path, dtype: Any) -> None:
    """Write a saved model as an ONNX file."""
    if dtype not in DTYPES:
        raise ParameterError(f"--dtype must be {' or '.join(DTYPES)}; got {dtype!r}")
    export_onnx(load_model(model), output, dtype=dtype)
