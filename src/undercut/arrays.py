"""What this library calls an array, and how many threads work on one.

A BLAS call on a short vector wakes its threads for longer than it computes, so a run keeps BLAS to one thread and
gives the threads back only for the large products that earn them.

An array is NumPy's, or a torch tensor where the large matrix of a problem is one: its vectors then live on the same
device.  Operators and sums are the same for both; what is not is at the end of this file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from undercut.errors import CapabilityError

Array: TypeAlias = NDArray[Any]
FloatArray: TypeAlias = NDArray[np.float64]
T = TypeVar("T")

WORTH_THREADS = 1000  # rows of a large matrix: from here they are divided among threads
LARGE = 4_000_000  # entries: from here a matrix product earns its threads


@cache
def _blas() -> tuple[ThreadpoolController, int]:
    blas = ThreadpoolController().select(user_api="blas")
    return blas, max((library["num_threads"] for library in blas.info()), default=1)


def one_thread() -> AbstractContextManager[Any]:
    """BLAS on one thread."""
    limited: AbstractContextManager[Any] = _blas()[0].limit(limits=1)
    return limited


def all_threads(size: int) -> AbstractContextManager[Any]:
    """BLAS on the threads it had at first, for a product with ``size`` entries."""
    blas, n_threads = _blas()
    return blas.limit(limits=n_threads) if size >= LARGE and n_threads > 1 else nullcontext()


@cache
def _workers(process: int) -> ThreadPoolExecutor:
    """Threads of this process; a forked one would wait for its parent's for ever."""
    return ThreadPoolExecutor(n_threads(), thread_name_prefix="undercut")


def in_threads(work: Callable[[int], T], n: int) -> list[T]:
    """``[work(0), ..., work(n - 1)]`` on as many threads as BLAS had at first; for work without the interpreter."""
    if n == 1 or n_threads() == 1:
        return [work(i) for i in range(n)]
    return list(_workers(os.getpid()).map(work, range(n)))


def n_threads() -> int:
    """How many threads may work at once: as many as BLAS was given."""
    return _blas()[1]


def each(function: Callable[[Any], None], items: Sequence[Any]) -> None:
    """Call a function that releases the interpreter once for every item, on all threads."""
    in_threads(lambda at: function(items[at]), len(items))


def spans(function: Callable[[int, int], None], size: int) -> None:
    """Call a function that releases the interpreter for ``range(low, high)`` that cover ``range(size)``."""
    edges = [size * at // n_threads() for at in range(n_threads() + 1)] if size >= WORTH_THREADS else [0, size]
    each(lambda at: function(edges[at], edges[at + 1]), range(len(edges) - 1))


def on_host(x: Any) -> bool:
    """Whether x is in main memory: NumPy's or SciPy's, not a tensor."""
    return isinstance(x, np.ndarray) or not hasattr(x, "device")


def to_host(x: Any) -> FloatArray:
    """x as a NumPy array of float64."""
    return np.asarray(x if on_host(x) else x.detach().cpu().numpy(), dtype=np.float64)


def beside(v: Any, matrix: Any) -> Any:
    """The float64 vector v where ``matrix`` lives."""
    if on_host(matrix):
        return np.asarray(v, dtype=np.float64)
    import torch

    return torch.as_tensor(v, dtype=torch.float64, device=matrix.device)


def on_device(x: Array, device: str) -> Any:
    """A copy of x as a tensor on a device."""
    try:
        import torch
    except ImportError as error:
        raise CapabilityError(f"device={device!r} needs torch: pip install torch") from error
    try:
        return torch.as_tensor(x, device=device)
    except (AssertionError, RuntimeError) as error:
        raise CapabilityError(f"device must be one that torch can use; got {device!r}: {error}") from error


def boxed(x: Any, upper: Any) -> Any:
    """x clipped to ``[0, upper]``."""
    return np.clip(x, 0.0, upper) if on_host(x) else x.clamp(min=0.0).minimum(upper)


def library(x: Any) -> Any:
    """The library whose functions take x: NumPy or torch."""
    if on_host(x):
        return np
    import torch

    return torch


def cast(x: Any, dtype: str) -> Any:
    """x with entries of another type, itself if it has them already."""
    return x.astype(dtype, copy=False) if on_host(x) else x.to(getattr(library(x), dtype))


def empty_near(x: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """An array to be filled, where x lives."""
    return np.empty(shape, dtype) if on_host(x) else x.new_empty(shape, dtype=getattr(library(x), dtype))


def free_bytes(x: Any) -> float:
    """The memory that is left where x lives; infinite where nothing tells."""
    if not on_host(x) and x.is_cuda:
        return float(library(x).cuda.mem_get_info(x.device)[0])
    with suppress(OSError, ValueError, StopIteration), open("/proc/meminfo", encoding="ascii") as file:
        return 1024.0 * int(next(line for line in file if line.startswith("MemAvailable")).split()[1])
    with suppress(AttributeError, OSError, ValueError):
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    return np.inf
