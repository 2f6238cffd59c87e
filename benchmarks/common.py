"""What the benchmarks share: the data sets, the machine's description, tables, and a clock with named parts.

Real data are found through the environment variable ``UNDERCUT_DATA``, a folder that holds ``libsvm/a9a`` and so on,
under the names and in the formats of their publisher (https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets).
"""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_info

from undercut import L2, Hinge, LinearRisk, LineSearchBundle, Stop, __version__, minimize
from undercut.io import load_svmlight
from undercut.solvers.bundle.plane_rows import FIRST_CAPACITY
from undercut.solvers.online import OnlineSolver

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATA_VARIABLE = "UNDERCUT_DATA"


class DataMissing(Exception):
    """A real data set is not on this machine."""


@dataclass(frozen=True)
class DataSet:
    """One class against the rest at the lambda that generalizes best, and what is expected there."""

    file: str
    positive: float
    lam: float
    prototype_steps: int = 0  # of an 80-line NumPy prototype, to a certified relative gap of 1e-3
    target: float = 0.0  # LIBLINEAR's time over ours, at the same objective
    n_rows: int | None = None
    shuffled: bool = False
    folder: str = "libsvm"


SETS = {
    "a9a": DataSet("a9a", 1, 1e-4, 41, 0.5),
    "ijcnn1": DataSet("ijcnn1.tr.bz2", 1, 1e-7, 85, 4),
    "w8a": DataSet("w8a", 1, 1e-8, 822, 2),
    "connect-4": DataSet("connect-4.bz2", 2, 1e-7, 243, 4, n_rows=54045),
    "mnist": DataSet("mnist.scale.bz2", 8, 1e-5, 180, 2),
    "covtype": DataSet("covtype.libsvm.binary.scale.bz2", 2, 1e-8, 179, 20, n_rows=464808, shuffled=True),
}
TEXT_SETS = {"rcv1-sample": DataSet("rcv1-sample.ccat.bz2", 1, 1e-7, folder="text")}
ALL_SETS = SETS | TEXT_SETS


def data_path(name: str) -> Path:
    """Where a set lies; ``DataMissing`` names the variable and the file."""
    return data_file(Path(ALL_SETS[name].folder, ALL_SETS[name].file))


def data_file(file: Path) -> Path:
    """Where a file lies, by its place in the folder of data."""
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        raise DataMissing(f"{DATA_VARIABLE} is not set: it must name the folder that holds {file}")
    if not (Path(folder) / file).is_file():
        raise DataMissing(f"{DATA_VARIABLE} names a folder without {file}")
    return Path(folder) / file


@lru_cache(maxsize=1)
def load(name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """The samples and their labels -1 and +1."""
    which = ALL_SETS[name]
    X, y, _ = load_svmlight(data_path(name))
    if which.shuffled or which.n_rows:
        rows = _row_order(which, y.size)[: which.n_rows]
        X, y = X[rows], y[rows]
    return X, np.where(y == which.positive, 1.0, -1.0)


def load_rest(name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """The samples that ``load`` leaves out, to test on."""
    which = ALL_SETS[name]
    X, y, _ = load_svmlight(data_path(name))
    rows = _row_order(which, y.size)[which.n_rows :]
    return X[rows], np.where(y[rows] == which.positive, 1.0, -1.0)


def _row_order(which: DataSet, n: int) -> np.ndarray:
    return np.random.default_rng(0).permutation(n) if which.shuffled else np.arange(n)


def on_this_machine(names: Sequence[str]) -> list[str]:
    """The sets that are here; a line for each that is not."""
    found = []
    for name in names:
        try:
            data_path(name)
            found.append(name)
        except DataMissing as reason:
            print(f"{name} skipped: {reason}")
    return found


def iterates(solver: OnlineSolver, risk: LinearRisk, reg: L2) -> Iterator[np.ndarray]:
    """The last iterate of an online method after each pass, from w = 0; nothing is evaluated on the way."""
    solver = replace(solver, evaluate_every=None)
    state = solver.init(risk, reg, np.zeros(risk.n_params))
    while solver.ended(state) is None:
        state = solver.step(risk, reg, state)
        yield state.game.last


def save_figure(figure: Figure, folder: str, name: str) -> None:
    """Write a PNG, and a line that says so."""
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    print(f"\nwritten: {path}", flush=True)


def warm_up() -> None:
    """Compile, or load what is compiled, on a tiny problem; enough steps that the bundle grows at least once."""
    rng = np.random.default_rng(0)
    X = sp.random(400, 60, density=0.5, format="csr", random_state=rng)
    risk = LinearRisk(X, np.where(rng.random(400) < 0.5, 1.0, -1.0), Hinge())
    result = minimize(risk, L2(1e-4), LineSearchBundle(), stop=Stop(gap_rel=1e-6))
    assert max(row.n_cuts for row in result.trace) > FIRST_CAPACITY


def print_machine() -> None:
    """One line that says what the numbers below were measured with."""
    packages = ("numpy", "scipy", "scikit-learn", "numba", "piqp", "daqp")
    blas = sorted({f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpool_info()})
    facts = [
        f"{_cpu_model()}, {os.cpu_count()} cores",
        f"Python {platform.python_version()}",
        f"undercut {__version__}",
    ]
    facts += [f"{name} {_version(name)}" for name in packages]
    print("; ".join([*facts, f"threads: {', '.join(blas)}"]), flush=True)


def _version(package: str) -> str:
    with suppress(ImportError):
        return version(package)
    return "(not installed)"


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


class Table:
    """A GitHub table, printed row by row."""

    def __init__(self, title: str, columns: Sequence[str]) -> None:
        print(f"\n### {title}\n\n{self._line(columns)}\n{self._line(['---'] * len(columns))}", flush=True)

    def row(self, *cells: object) -> None:
        print(self._line([str(cell) for cell in cells]), flush=True)

    @staticmethod
    def _line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"


def run_apart(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)`` in a process of its own, so that its peak memory is its own."""
    return next(side_by_side(function, [args], 1))


def side_by_side(function: Callable[..., Any], jobs: Iterable[tuple[Any, ...]], n_processes: int) -> Iterator[Any]:
    """``function(*job)`` for each job, in their order, by as many processes at a time."""
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(function, *zip(*jobs, strict=True))


class PartClock:
    """Time by named parts; a part that runs inside another is not counted there as well."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._stack: list[str] = []
        self._mark = time.perf_counter()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._charge()
        self._stack.append(name)
        try:
            yield
        finally:
            self._charge()
            self._stack.pop()

    def wrap(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """The same function, its time charged to ``name``."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return function(*args, **kwargs)

        return timed

    def _charge(self) -> None:
        now = time.perf_counter()
        if self._stack:
            self.seconds[self._stack[-1]] += now - self._mark
        self._mark = now


def reset_peak_memory() -> float:
    """Give freed memory back to the system, forget the peak so far, and return what is in use, in MB."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _resident("VmRSS")


def peak_memory() -> float:
    """The most memory this process has used since ``reset_peak_memory``, in MB; NaN where the system hides it."""
    return _resident("VmHWM")


def _resident(field: str) -> float:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024.0
    return float("nan")
