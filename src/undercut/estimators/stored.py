"""Parameters and fitted attributes as JSON and arrays, and back.

Plain values stay as they are; everything else is a JSON object with a key that says what it is: ``array``, ``labels``,
``csr``, ``dict``, ``list``, ``tuple``, ``generator``, ``random_state``, or ``object`` with its settings and, as
``kind``, the name of its class.  Nothing but the classes in ``KINDS`` is ever made from a file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from undercut import losses, measures, regularizers, solvers
from undercut.errors import ModelFileError
from undercut.estimators.labels import class_array
from undercut.kinds import named_class
from undercut.maps.templates import TemplateFeatures
from undercut.regularizers import BlockSum
from undercut.risks import CRF, M3N
from undercut.solvers import online
from undercut.solvers.online.base import Game
from undercut.types import Array

Arrays = dict[str, Array]

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for room in (losses, measures, regularizers, solvers, online)
    for kind in vars(room).values()
    if isinstance(kind, type) and is_dataclass(kind)
} | {kind.__name__: kind for kind in (BlockSum, CRF, Game, M3N, TemplateFeatures)}
CSR = ("data", "indices", "indptr")


def encode(value: Any, name: str, arrays: Arrays) -> Any:
    """``value`` for JSON; arrays go into ``arrays``, under names that begin with ``name``.

    >>> arrays = {}
    >>> encode({"spam": 2.0}, "class_weight", arrays)
    {'dict': [['spam', 2.0]]}
    >>> decode(encode(losses.Quantile(0.9), "loss", arrays), arrays)
    Quantile(quantile=0.9)
    """
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, (str, bool, int, float, type(None))):
        return value
    for plain, write in WRITERS.items():
        if isinstance(value, plain):
            return write(value, name, arrays)
    if hasattr(value, "__array__"):
        return _array(np.asarray(value), name, arrays)
    kind = named_class(value)
    if KINDS.get(kind.__name__) is not kind:
        raise ModelFileError(
            f"`{name}` cannot be saved: {_name_of(value)} is not part of undercut, and pickle is unsafe; use one of "
            "undercut's own by its name or as an object"
        )
    return _tagged("object", settings_of(value), name, arrays) | {"kind": kind.__name__}


def decode(value: Any, arrays: Arrays) -> Any:
    """What ``encode`` was given; ``LookupError``, ``TypeError`` or ``ValueError`` for anything else."""
    if not isinstance(value, dict):
        return value
    if "object" in value:
        return _made(value["kind"], decode(value["object"], arrays))
    ((tag, content),) = value.items()
    return READERS[tag](content, arrays)


def settings_of(value: Any) -> dict[str, Any]:
    """The settings that make an equal object of the same class."""
    if isinstance(value, BlockSum):
        return {"blocks": [(block.stop - block.start, reg) for block, reg in value.blocks]}
    if isinstance(value, TemplateFeatures):
        return value.settings() | ({"fitted": value.to_arrays()} if value.is_fitted else {})
    return {field.name: getattr(value, field.name) for field in fields(value) if field.init}


def _made(kind: str, settings: dict[str, Any]) -> Any:
    fitted = settings.pop("fitted", None)
    made = KINDS[kind](**settings)
    if fitted is not None:
        made.restore(fitted)
    return made


def _name_of(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"the function {value.__name__}" if hasattr(value, "__name__") else f"a {type(value).__name__}"


def _tagged(tag: str, content: Any, name: str, arrays: Arrays) -> dict[str, Any]:
    return {tag: encode(content, name, arrays)}


def _array(value: Array, name: str, arrays: Arrays) -> dict[str, Any]:
    if value.dtype.kind not in "biuf":
        return {"labels": [encode(label, name, arrays) for label in value.tolist()]}
    arrays[name] = np.ascontiguousarray(value)
    return {"array": name}


def _csr(value: Any, name: str, arrays: Arrays) -> dict[str, Any]:
    rows = value.tocsr()
    parts = [encode(getattr(rows, part), f"{name}.{part}", arrays) for part in CSR]
    return {"csr": [*parts, *(int(size) for size in rows.shape)]}


def _dict(value: dict[Any, Any], name: str, arrays: Arrays) -> dict[str, Any]:
    return {"dict": [[encode(key, name, arrays), encode(item, f"{name}.{key}", arrays)] for key, item in value.items()]}


def _items(value: Any, name: str, arrays: Arrays) -> dict[str, Any]:
    tag = "tuple" if isinstance(value, tuple) else "list"
    return {tag: [encode(item, f"{name}.{at}", arrays) for at, item in enumerate(value)]}


def _each(content: list[Any], arrays: Arrays) -> list[Any]:
    return [decode(item, arrays) for item in content]


def _read_csr(content: list[Any], arrays: Arrays) -> sp.csr_matrix:
    *parts, n_rows, n_columns = _each(content, arrays)
    matrix = sp.csr_matrix(tuple(parts), shape=(n_rows, n_columns))
    matrix.check_format()
    return matrix


def _generator(content: Any, arrays: Arrays) -> np.random.Generator:
    generator = np.random.default_rng()
    generator.bit_generator.state = decode(content, arrays)
    return generator


def _random_state(content: Any, arrays: Arrays) -> np.random.RandomState:
    state = np.random.RandomState()
    state.set_state(decode(content, arrays))
    return state


WRITERS: dict[Any, Callable[[Any, str, Arrays], dict[str, Any]]] = {
    np.ndarray: _array,
    sp.spmatrix: _csr,
    sp.sparray: _csr,
    dict: _dict,
    (list, tuple): _items,
    np.random.Generator: lambda value, *rest: _tagged("generator", value.bit_generator.state, *rest),
    np.random.RandomState: lambda value, *rest: _tagged("random_state", value.get_state(legacy=False), *rest),
}
READERS: dict[str, Callable[[Any, Arrays], Any]] = {
    "array": lambda content, arrays: arrays[content],
    "labels": lambda content, arrays: class_array(_each(content, arrays)),
    "csr": _read_csr,
    "dict": lambda content, arrays: {decode(key, arrays): decode(item, arrays) for key, item in content},
    "list": _each,
    "tuple": lambda content, arrays: tuple(_each(content, arrays)),
    "generator": _generator,
    "random_state": _random_state,
}
