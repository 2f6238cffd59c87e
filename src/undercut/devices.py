"""Functions that work alike on NumPy arrays and torch tensors.

If the large matrix of a problem is a torch tensor, its vectors are tensors on the same device.  Operators and sums are
spelled alike for both; this module has the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from scipy.special import expit

from undercut.errors import CapabilityError
from undercut.types import Array, FloatArray


def on_host(x: Any) -> bool:
    """Whether x is in main memory: NumPy's or SciPy's, not a tensor."""
    return isinstance(x, np.ndarray) or not hasattr(x, "device")


def in_memory(x: Any) -> Any:
    """x itself, or the NumPy array of a tensor."""
    return x if on_host(x) else x.detach().cpu().numpy()


def to_host(x: Any) -> FloatArray:
    """x as a NumPy array of float64."""
    return np.asarray(in_memory(x), dtype=np.float64)


def beside(v: Any, matrix: Any) -> Any:
    """The float64 vector v on the device of ``matrix``."""
    if on_host(matrix):
        return np.asarray(v, dtype=np.float64)
    import torch

    return torch.as_tensor(v, dtype=torch.float64, device=matrix.device)


def dtype_name(x: Any) -> str:
    """The name that NumPy and torch have for the dtype of x."""
    return str(x.dtype).removeprefix("torch.")


def sent(x: Array, like: Any, dtype: str | None = None) -> Any:
    """x on the device of ``like``, with its dtype or another one."""
    dtype = dtype or dtype_name(like)
    if on_host(like):
        return x.astype(dtype, copy=False)
    torch = library(like)
    return torch.as_tensor(x, device=like.device).to(getattr(torch, dtype))


def joined(parts: list[Any]) -> Any:
    """Vectors end to end."""
    return np.concatenate(parts) if on_host(parts[0]) else library(parts[0]).cat(parts)


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``; x is overwritten where it is a NumPy array."""
    return expit(x, out=x) if on_host(x) else x.sigmoid()


def relu(x: Any) -> Any:
    """``max(x, 0)``; x is overwritten."""
    return np.maximum(x, 0.0, out=x) if on_host(x) else x.clamp_(min=0.0)


def uniform_like(x: Any, rng: np.random.Generator) -> Any:
    """Random numbers in [0, 1) of the shape and dtype and on the device of x."""
    if on_host(x):
        return rng.random(x.shape, dtype=x.dtype)
    torch = library(x)
    generator = torch.Generator(device=x.device)
    generator.manual_seed(int(rng.integers(2**62)))
    return torch.rand(x.shape, generator=generator, dtype=x.dtype, device=x.device)


def on_device(x: Array, device: str) -> Any:
    """A copy of x as a tensor on a device."""
    torch = need_torch(f"device={device!r}")
    with _usable(device):
        return torch.as_tensor(x, device=device)


def check_device(device: Any) -> None:
    """Refuse a device that torch cannot use."""
    torch = need_torch(f"device={device!r}")
    with _usable(device):
        torch.zeros(1, device=device)


@contextmanager
def _usable(device: Any) -> Iterator[None]:
    """``CapabilityError`` where torch cannot use the device."""
    try:
        yield
    except (AssertionError, RuntimeError, TypeError) as error:
        reason = str(error).partition(". ")[0]
        raise CapabilityError(
            f"`device` must be one that torch can use; got {device!r} ({reason}): use 'cpu', or 'cuda' where "
            "torch.cuda.is_available()"
        ) from error


def boxed(x: Any, upper: Any) -> Any:
    """x clipped to ``[0, upper]``."""
    return np.clip(x, 0.0, upper) if on_host(x) else x.clamp(min=0.0).minimum(upper)


def need_torch(what: str) -> Any:
    """The module torch; ``CapabilityError`` tells which extra brings it."""
    try:
        import torch
    except ImportError as error:
        raise CapabilityError(f"{what} needs torch: pip install 'undercut[torch]'") from error
    return torch


def library(x: Any) -> Any:
    """The library whose functions take x: NumPy or torch."""
    if on_host(x):
        return np
    import torch

    return torch


def cast(x: Any, dtype: str) -> Any:
    """x with entries of this dtype; x itself if it has it already."""
    return x.astype(dtype, copy=False) if on_host(x) else x.to(getattr(library(x), dtype))


def empty_near(x: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """An uninitialized array on the device of x."""
    return np.empty(shape, dtype) if on_host(x) else x.new_empty(shape, dtype=getattr(library(x), dtype))


def zeros_near(x: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """An array of zeros on the device of x; in main memory, parts that are not written yet take no memory."""
    return np.zeros(shape, dtype) if on_host(x) else x.new_zeros(shape, dtype=getattr(library(x), dtype))


def free_bytes(x: Any) -> float:
    """The free memory on the device of x; infinite if unknown."""
    if not on_host(x) and x.is_cuda:
        return float(library(x).cuda.mem_get_info(x.device)[0])
    with suppress(OSError, ValueError, StopIteration), open("/proc/meminfo", encoding="ascii") as file:
        return 1024.0 * int(next(line for line in file if line.startswith("MemAvailable")).split()[1])
    with suppress(AttributeError, OSError, ValueError):
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    return np.inf
