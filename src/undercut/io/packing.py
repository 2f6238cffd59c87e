"""Arrays in less space: those that are mostly zero by their other entries, integers and bytes compressed.

A packed array is a record for the header, with its dtype and shape, and raw arrays under names of its own.  What a
record claims is compared with what the file holds before memory is taken, so that a small file cannot ask for much.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from undercut.types import Array

Arrays = dict[str, Array]

MIN_BYTES = 512  # smaller arrays stay as they are
SPARSE = 0.5  # share of entries other than zero below which a float array is stored by these
FREE_BYTES = 1 << 28  # any array may take this much memory, a larger one MAX_GROWTH times its size in the file
MAX_GROWTH = 1000
MARK = "|"  # between an array's name and that of its part
PARTS = {"sparse": ("where", "values"), "bytes": ("bytes",)}


def packed(arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """Records of the arrays that take less space packed, and all arrays as they are written.

    >>> records, parts = packed({"coef": np.eye(100)})
    >>> records, list(parts), parts["coef|values"].nbytes
    ({'coef': {'as': 'sparse', 'dtype': 'float64', 'shape': [100, 100]}}, ['coef|where', 'coef|values'], 800)
    >>> bool((unpacked(records, parts)["coef"] == np.eye(100)).all())
    True
    """
    records: dict[str, Any] = {}
    written: Arrays = {}
    for name, array in arrays.items():
        way = "sparse" if array.dtype.kind == "f" else "bytes"
        parts = {f"{name}{MARK}{part}": raw for part, raw in WRITERS[way](array).items()} if _pays(array) else {}
        size = sum(part.nbytes for part in parts.values())
        if parts and size < array.nbytes and array.nbytes <= _limit(size):
            records[name] = {"as": way, "dtype": array.dtype.name, "shape": list(array.shape)}
            written |= parts
        else:
            written[name] = array
    return records, written


def unpacked(records: dict[str, Any], written: Arrays) -> Arrays:
    """The arrays that ``packed`` was given; ``LookupError``, ``TypeError`` or ``ValueError`` for anything else."""
    arrays = dict(written)
    for name, record in records.items():
        parts = {part: arrays.pop(f"{name}{MARK}{part}") for part in PARTS[record["as"]]}
        dtype, shape = np.dtype(str(record["dtype"])), tuple(map(int, record["shape"]))
        size = math.prod(shape)
        if dtype.kind not in "biuf" or min(shape, default=0) < 0 or name in arrays:
            raise ValueError(f"the array {name!r} has an impossible shape {shape} or type {dtype}")
        if size * dtype.itemsize > _limit(sum(part.nbytes for part in parts.values())):
            raise ValueError(f"the array {name!r} of shape {shape} is too large for what the file holds of it")
        arrays[name] = READERS[record["as"]](parts, dtype, size).reshape(shape)
    return arrays


def _pays(array: Array) -> bool:
    if array.dtype.kind == "f" and np.count_nonzero(array) >= SPARSE * array.size:
        return False
    return array.nbytes >= MIN_BYTES


def _limit(stored: int) -> int:
    return max(FREE_BYTES, MAX_GROWTH * stored)


def _sparse(array: Array) -> Arrays:
    flat = array.reshape(-1)
    other = (flat != 0) | np.signbit(flat)  # minus zero is kept too
    return {"where": _deflated(np.packbits(other)), "values": flat[other]}


def _bytes(array: Array) -> Arrays:
    return {"bytes": _deflated(array)}


def _deflated(array: Array) -> Array:
    """Compressed: first bytes of all entries, then second bytes and so on, because their high bytes are alike."""
    planes = array.reshape(-1).view(np.uint8).reshape(-1, array.itemsize).T
    return np.frombuffer(zlib.compress(planes.tobytes()), np.uint8)


def _inflated(packed_bytes: Array, dtype: np.dtype[Any], size: int) -> Array:
    wanted = size * dtype.itemsize
    try:
        raw = zlib.decompressobj().decompress(packed_bytes.tobytes(), wanted + 1)
    except zlib.error as error:
        raise ValueError(f"compressed bytes are damaged: {error}") from error
    if len(raw) != wanted:
        raise ValueError(f"{size} entries of {dtype} take {wanted} bytes; the file has {len(raw)}")
    planes = np.frombuffer(raw, np.uint8).reshape(dtype.itemsize, size)
    return np.ascontiguousarray(planes.T).reshape(-1).view(dtype)


def _read_sparse(parts: Arrays, dtype: np.dtype[Any], size: int) -> Array:
    bits = _inflated(parts["where"], np.dtype(np.uint8), -(-size // 8))
    other = np.unpackbits(bits, count=size).view(np.bool_)
    if parts["values"].dtype != dtype or np.count_nonzero(other) != parts["values"].size:
        raise ValueError(f"{parts['values'].size} values of {parts['values'].dtype} do not fit their places")
    array = np.zeros(size, dtype)
    array[other] = parts["values"]
    return array


WRITERS: dict[str, Callable[[Array], Arrays]] = {"sparse": _sparse, "bytes": _bytes}
READERS: dict[str, Callable[[Arrays, np.dtype[Any], int], Array]] = {
    "sparse": _read_sparse,
    "bytes": lambda parts, dtype, size: _inflated(parts["bytes"], dtype, size),
}
