"""Parameters and fitted attributes as JSON and arrays, and back.

Plain values stay as they are; everything else is a JSON object with a key that says what it is (``READERS``), or
``object`` with its settings and, as ``kind``, the name of its class.  Nothing but the classes in ``KINDS``, this
library's estimators and what ``transformers`` lists of scikit-learn is ever made from a file.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from undercut import losses, measures, regularizers, solvers
from undercut.errors import ModelFileError
from undercut.estimators.files import transformers
from undercut.estimators.labels import class_array
from undercut.io.model_file import ModelState
from undercut.io.tables import Column, TableColumns
from undercut.kinds import named_class
from undercut.maps.boltzmann import ContrastiveDivergence
from undercut.maps.templates import TemplateFeatures
from undercut.regularizers import BlockSum
from undercut.risks import CRF, M3N
from undercut.risks.structured.hmm.layout import HmmLayout
from undercut.solvers import online
from undercut.solvers.online.game import Game
from undercut.types import Array

Arrays = dict[str, Array]

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for room in (losses, measures, regularizers, solvers, online)
    for kind in vars(room).values()
    if isinstance(kind, type) and is_dataclass(kind)
} | {
    kind.__name__: kind
    for kind in (BlockSum, Column, ContrastiveDivergence, CRF, Game, HmmLayout, M3N, TableColumns, TemplateFeatures)
}
CSR = ("data", "indices", "indptr")
TYPES: dict[str, Any] = {kind.__name__: kind for kind in (object, bool, int, float, str, np.number)}
MANY = 64  # texts from which on they are stored as bytes, which are compressed


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
    if hasattr(value, "__array__") and not isinstance(value, type):
        return _array(np.asarray(value), name, arrays)
    if transformers.known(value, transformers.FUNCTIONS):
        return {"function": value.__name__}
    kind = named_class(value)
    if transformers.known(kind, transformers.CLASSES):
        return _transformer(value, name, arrays)
    if KINDS.get(kind.__name__) is not kind:
        raise ModelFileError(
            f"`{name}` cannot be saved: {_name_of(value)} is not part of undercut, nor one of scikit-learn's common "
            "transformers, and pickle is unsafe; use one of these by its name or as an object"
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


def own_kinds() -> dict[str, Any]:
    """The estimators of this library by name; found at run time, because they import this module."""
    room = importlib.import_module("undercut.estimators")
    public = {name: getattr(room, name) for name in room.__all__}
    return {name: kind for name, kind in public.items() if hasattr(kind, "from_state")}


def is_own(value: Any) -> bool:
    """Whether this is an estimator of this library, not of a subclass."""
    return own_kinds().get(type(value).__name__) is type(value)


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


# ------------------------------------------------------------------------------------------------------- writers


def _tagged(tag: str, content: Any, name: str, arrays: Arrays) -> dict[str, Any]:
    return {tag: encode(content, name, arrays)}


def _array(value: Array, name: str, arrays: Arrays) -> dict[str, Any]:
    if value.dtype.kind == "O":
        return {"objects": [list(value.shape), encode(value.reshape(-1).tolist(), name, arrays)]}
    if value.dtype.kind == "U":
        return _tagged("labels", value.tolist(), name, arrays)
    if value.dtype.kind not in "biuf":
        raise ModelFileError(f"`{name}` cannot be saved: it is an array of {value.dtype}; use numbers or texts")
    while name in arrays:
        name += "+"
    native = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("="))
    arrays[name] = native.reshape(value.shape)  # also of shape ()
    return {"array": name}


def _csr(value: Any, name: str, arrays: Arrays) -> dict[str, Any]:
    rows = value.tocsr()
    parts = [encode(getattr(rows, part), f"{name}.{part}", arrays) for part in CSR]
    return {"csr": [*parts, *(int(size) for size in rows.shape)]}


def _dict(value: dict[Any, Any], name: str, arrays: Arrays) -> dict[str, Any]:
    keys, numbers = list(value), list(value.values())
    if len(keys) >= MANY and {type(key) for key in keys} == {str} and {type(each) for each in numbers} == {int}:
        return _tagged("vocabulary", [keys, np.array(numbers, np.int64)], name, arrays)
    return {"dict": [[encode(key, name, arrays), encode(item, f"{name}.{key}", arrays)] for key, item in value.items()]}


def _items(value: Any, name: str, arrays: Arrays) -> dict[str, Any]:
    tag = "tuple" if isinstance(value, tuple) else "list"
    if len(value) >= MANY and {type(item) for item in value} == {str}:
        return {tag: _texts(list(value), name, arrays)}
    return {tag: [encode(item, _path(name, at, item), arrays) for at, item in enumerate(value)]}


def _texts(value: list[str], name: str, arrays: Arrays) -> dict[str, Any]:
    raw = [text.encode(errors="surrogatepass") for text in value]
    sizes = np.array([len(text) for text in raw], np.int64)
    joined = np.frombuffer(b"".join(raw), np.uint8)
    return {"texts": [_array(joined, f"{name}.texts", arrays), _array(sizes, f"{name}.sizes", arrays)]}


def _path(name: str, at: int, item: Any) -> str:
    """What an item is called in messages; a step of a pipeline by its name."""
    if isinstance(item, tuple) and item and isinstance(item[0], str):
        return f"{name}.{item[0]}".removeprefix("steps.")
    return name if isinstance(item, BaseEstimator) else f"{name}.{at}"


def _type(value: type, name: str, arrays: Arrays) -> dict[str, Any]:
    if TYPES.get(value.__name__) is value or issubclass(value, np.generic):
        return {"type": value.__name__}
    raise ModelFileError(f"`{name}` cannot be saved: {_name_of(value)} is not a type of numbers; use such a type")


def _transformer(value: Any, name: str, arrays: Arrays) -> dict[str, Any]:
    kind, inside = type(value).__name__, f"{name}." if name else ""
    parts = (transformers.params_of(value), transformers.fitted_of(value))
    params, fitted = ({key: encode(item, inside + key, arrays) for key, item in part.items()} for part in parts)
    return {"transformer": [kind, params, fitted]}


def _estimator(value: BaseEstimator, name: str, arrays: Arrays) -> dict[str, Any]:
    """An estimator or a transformer inside a pipeline."""
    if not is_own(value):
        if transformers.known(type(value), transformers.CLASSES):
            return _transformer(value, name, arrays)
        raise ModelFileError(
            f"`{name}` cannot be saved: {_name_of(value)} is not part of undercut, nor one of scikit-learn's common "
            f"transformers, which are {', '.join(transformers.CLASSES)}; pickle is unsafe"
        )
    state = value.state()
    arrays |= {f"{name}/{key}": array for key, array in state.arrays.items()}
    return {"estimator": [type(value).__name__, state.params, state.fitted, f"{name}/"]}


# ------------------------------------------------------------------------------------------------------- readers


def _each(content: Any, arrays: Arrays) -> list[Any]:
    return [decode(item, arrays) for item in (decode(content, arrays) if isinstance(content, dict) else content)]


def _read_objects(content: list[Any], arrays: Arrays) -> Array:
    shape, items = content
    items = decode(items, arrays)
    array = np.empty(len(items), object)
    for at, item in enumerate(items):  # NumPy would unfold tuples
        array[at] = item
    return array.reshape(shape)


def _read_texts(content: list[Any], arrays: Arrays) -> list[str]:
    raw, sizes = _each(content, arrays)
    raw, sizes = np.asarray(raw, np.uint8).tobytes(), np.asarray(sizes)
    if sizes.dtype != np.int64 or sizes.ndim != 1 or sizes.min(initial=0) < 0 or sizes.sum() != len(raw):
        raise ValueError("the sizes of texts do not fit their bytes")
    ends = np.cumsum(sizes).tolist()
    parts = [raw[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]
    return [part.decode(errors="surrogatepass") for part in parts]


def _read_vocabulary(content: Any, arrays: Arrays) -> dict[str, int]:
    keys, numbers = decode(content, arrays)
    return dict(zip(keys, numbers.tolist(), strict=True))


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


def _read_type(content: str, arrays: Arrays) -> Any:
    if content in TYPES:
        return TYPES[content]
    return np.dtype(content).type


def _read_dtype(content: str, arrays: Arrays) -> np.dtype[Any]:
    dtype = np.dtype(str(content))
    if dtype.kind not in "biufOU":
        raise ValueError(f"{content!r} is not a type of numbers or texts")
    return dtype


def _read_transformer(content: list[Any], arrays: Arrays) -> Any:
    kind, *parts = content
    return transformers.made(kind, *({name: decode(value, arrays) for name, value in part.items()} for part in parts))


def _read_estimator(content: list[Any], arrays: Arrays) -> Any:
    kind, params, fitted, prefix = content
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return own_kinds()[kind].from_state(ModelState(params, fitted, own))


WRITERS: dict[Any, Callable[[Any, str, Arrays], dict[str, Any]]] = {
    np.ndarray: _array,
    sp.spmatrix: _csr,
    sp.sparray: _csr,
    dict: _dict,
    (list, tuple): _items,
    (set, frozenset): lambda value, *rest: _tagged("set", sorted(value), *rest),
    slice: lambda value, *rest: _tagged("slice", [value.start, value.stop, value.step], *rest),
    type: _type,
    np.dtype: lambda value, name, arrays: {"dtype": value.str},
    np.random.Generator: lambda value, *rest: _tagged("generator", value.bit_generator.state, *rest),
    np.random.RandomState: lambda value, *rest: _tagged("random_state", value.get_state(legacy=False), *rest),
    BaseEstimator: _estimator,
}
READERS: dict[str, Callable[[Any, Arrays], Any]] = {
    "array": lambda content, arrays: arrays[content],
    "labels": lambda content, arrays: class_array(_each(content, arrays)),
    "objects": _read_objects,
    "texts": _read_texts,
    "csr": _read_csr,
    "dict": lambda content, arrays: {decode(key, arrays): decode(item, arrays) for key, item in content},
    "vocabulary": _read_vocabulary,
    "list": _each,
    "tuple": lambda content, arrays: tuple(_each(content, arrays)),
    "set": lambda content, arrays: frozenset(decode(content, arrays)),
    "slice": lambda content, arrays: slice(*decode(content, arrays)),
    "type": _read_type,
    "dtype": _read_dtype,
    "function": lambda content, arrays: transformers.named(content, transformers.FUNCTIONS),
    "generator": _generator,
    "random_state": _random_state,
    "transformer": _read_transformer,
    "estimator": _read_estimator,
}
