"""What all tests share: reproducible property tests and a random generator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "undercut",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("undercut")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
