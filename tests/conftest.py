"""What all tests share: reproducible property tests and a random generator."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from undercut.maps.cluster import Cluster

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


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two worker processes on the loopback interface; tests that use it share one xdist group, "cluster"."""
    from undercut.maps.cluster import Cluster  # here: most tests do without Dask

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # workers are killed on purpose
    with Cluster(2) as cluster:
        yield cluster


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def device() -> str:
    """Where torch can compute: a GPU, or the processor where there is none."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def signs() -> tuple[np.ndarray, np.ndarray]:
    """40 samples of 4 features, and labels -1 and +1 with some noise."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 4))
    return X, np.sign(X[:, 0] + 0.5 * rng.standard_normal(40))


@pytest.fixture(scope="module")
def as_for_many_samples() -> Iterator[None]:
    """``auto`` leaves out its solvers of small problems, which data in partitions do not have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("undercut.solvers.choice.conditions.SMALL", 0)
        patch.setattr("undercut.solvers.choice.conditions.QUICK_WORK", 0)
        yield
