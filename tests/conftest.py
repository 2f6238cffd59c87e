"""What all tests share: reproducible property tests and a random generator."""

from __future__ import annotations

import signal

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


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> None:
    """Shells start jobs in the background with SIGINT ignored, which child processes would inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def signs() -> tuple[np.ndarray, np.ndarray]:
    """40 samples of 4 features, and labels -1 and +1 with some noise."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 4))
    return X, np.sign(X[:, 0] + 0.5 * rng.standard_normal(40))
