"""What losses ask of their targets."""

from __future__ import annotations

import numpy as np

from undercut.errors import DataError
from undercut.types import FloatArray


def check_signs(y: FloatArray) -> None:
    """Binary targets inside a risk are -1 and +1."""
    wrong = np.flatnonzero(np.abs(y) != 1.0)
    if wrong.size:
        raise DataError(f"targets must be -1 or +1; got {y[wrong[0]]} at sample {wrong[0]}")


def check_finite(y: FloatArray) -> None:
    """Regression targets are finite numbers."""
    wrong = np.flatnonzero(~np.isfinite(y))
    if wrong.size:
        raise DataError(f"targets must be finite; got {y[wrong[0]]} at sample {wrong[0]}")
