"""Objects as JSON and arrays, and back: how the state of a run gets into a checkpoint.

A state is made of numbers, arrays, tuples and objects of this library or of the user's own solver.  What it shares with
the problem, such as X or the regularizer, is written as a path (``risk.design``) and is taken from the problem at hand
when the state is read.  Objects are made without calling anything of their class, and only classes of this library and
of the modules of risk, regularizer and solver are made at all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from types import MethodType
from typing import Any

import numpy as np
import scipy.sparse as sp

from undercut.devices import on_device, on_host
from undercut.errors import CheckpointError
from undercut.kinds import combined
from undercut.maps.parts import Parts
from undercut.types import Array

MAX_ITEMS = 64  # longer lists are data, of which no state holds a part
MAX_DEPTH = 8
OURS = "undercut"
LEAVES = (str, type, np.ndarray, Parts)


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots included."""
    slots = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if name != "__dict__")
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return held | getattr(value, "__dict__", {})


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object or a short container holds, by name; data in parts are not looked into."""
    if isinstance(value, (list, tuple)) and len(value) <= MAX_ITEMS:
        yield from ((str(at), item) for at, item in enumerate(value))
    elif isinstance(value, dict) and len(value) <= MAX_ITEMS:
        yield from ((str(key), item) for key, item in value.items())
    elif not isinstance(value, LEAVES) and not callable(value) and hasattr(type(value), "__module__"):
        yield from attributes(value).items()


class Problem:
    """Risk, regularizer and solver, and every object that they hold, by path."""

    def __init__(self, **roots: Any) -> None:
        self.by_path: dict[str, Any] = {}
        self._path_of: dict[Any, str] = {}
        self.modules = {type(root).__module__ for root in roots.values()}
        for name, root in roots.items():
            self._add(name, root, 0)

    def _add(self, path: str, value: Any, depth: int) -> None:
        key = _identity(value)
        if key is None or key in self._path_of or depth > MAX_DEPTH:
            return
        self._path_of[key] = path
        self.by_path[path] = value
        for name, part in parts(value):
            self._add(f"{path}.{name}", part, depth + 1)

    def path(self, value: Any) -> str | None:
        """Where the problem holds this very object."""
        key = _identity(value)
        return None if key is None else self._path_of.get(key)

    def at(self, path: str) -> Any:
        """The object at a path."""
        if path not in self.by_path:
            raise CheckpointError(f"the problem has no {path}, which the checkpoint refers to: start again")
        return self.by_path[path]

    def carried(self) -> Iterator[tuple[str, Any]]:
        """The objects whose answers depend on earlier ones; their class names what they remember in ``carried``."""
        return ((path, value) for path, value in self.by_path.items() if getattr(type(value), "carried", ()))


def _identity(value: Any) -> Any:
    """Equal for an array and another one over the same memory, else only for the same object; ``None`` for values."""
    if isinstance(value, np.ndarray):
        return value.__array_interface__["data"], value.shape, value.strides, value.dtype.str
    return None if value is None or isinstance(value, (bool, int, float, str, Enum, type)) else id(value)


@dataclass
class Encoder:
    """Writes objects of one problem; ``arrays`` fills up with copies."""

    problem: Problem
    arrays: dict[str, Array] = field(default_factory=dict)
    _seen: dict[int, int | str] = field(default_factory=dict)  # objects by number, arrays by name

    def tree(self, value: Any) -> Any:
        """``value`` for JSON."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        if (path := self.problem.path(value)) is not None:
            return {"known": path}
        for kind, write in self._writers().items():
            if isinstance(value, kind):
                return write(value)
        if isinstance(value, MethodType):
            return {"method": value.__name__, "of": self.tree(value.__self__)}
        return self._tensor(value) if not on_host(value) else self._object(value)

    def _writers(self) -> dict[Any, Callable[[Any], dict[str, Any]]]:
        return {
            np.ndarray: self._array,
            np.generic: lambda value: {"scalar": [value.dtype.str, value.item()]},
            Enum: lambda value: {"enum": _name(type(value)), "name": value.name},
            tuple: self._tuple,
            list: lambda value: {"list": self._each(value)},
            dict: lambda value: {"dict": [[self.tree(key), self.tree(item)] for key, item in value.items()]},
            np.random.Generator: lambda value: {"generator": self.tree(value.bit_generator.state)},
            sp.csr_matrix: lambda value: {"csr": self._each((value.data, value.indices, value.indptr, *value.shape))},
        }

    def _each(self, values: Any) -> list[Any]:
        return [self.tree(value) for value in values]

    def _array(self, value: Array) -> dict[str, Any]:
        if value.dtype.kind not in "biuf":
            raise CheckpointError(f"an array of {value.dtype} cannot be saved")
        name = self._seen.get(id(value))
        if name is None:
            name = self._seen[id(value)] = f"a{len(self.arrays)}"
            self.arrays[name] = (value.T if _is_columnwise(value) else value).copy(order="C")
        return {"array": name} | ({"columnwise": True} if _is_columnwise(value) else {})

    def _tensor(self, value: Any) -> dict[str, Any]:
        return self._array(value.detach().cpu().numpy()) | {"device": str(value.device)}

    def _tuple(self, value: tuple[Any, ...]) -> dict[str, Any]:
        if type(value) is tuple:
            return {"tuple": self._each(value)}
        self._check(type(value))
        return {"named": _name(type(value)), "items": self._each(value)}

    def _object(self, value: Any) -> dict[str, Any]:
        if id(value) in self._seen:
            return {"same": self._seen[id(value)]}
        number = self._seen[id(value)] = len(self._seen)
        named, kinds = vars(type(value)).get("_combines", (type(value), ()))
        for kind in (named, *kinds):
            self._check(kind)
        held = {name: None if name in _derived(value) else part for name, part in attributes(value).items()}
        return {
            "object": _name(named),
            "kinds": [_name(kind) for kind in kinds],
            "number": number,
            "holds": {name: self.tree(part) for name, part in held.items()},
        }

    def _check(self, kind: type) -> None:
        if not _is_trusted(kind.__module__, self.problem) or "<locals>" in kind.__qualname__:
            raise CheckpointError(
                f"a {kind.__qualname__} cannot be saved in a checkpoint: keep the state of a solver in numbers, "
                "arrays, tuples and classes that the solver's module defines outside of functions"
            )


@dataclass
class Decoder:
    """Reads what a ``Encoder`` of an equal problem wrote."""

    problem: Problem
    arrays: dict[str, Array]
    _made: dict[int, Any] = field(default_factory=dict)
    _read: dict[str, Array] = field(default_factory=dict)

    def value(self, tree: Any) -> Any:
        """The object that was written."""
        if not isinstance(tree, dict):
            return tree
        return self._readers()[next(iter(tree))](tree)

    def _readers(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "known": lambda tree: self.problem.at(tree["known"]),
            "array": self._array,
            "scalar": lambda tree: np.dtype(tree["scalar"][0]).type(tree["scalar"][1]),
            "enum": lambda tree: self._class(tree["enum"])[tree["name"]],
            "tuple": lambda tree: tuple(self._each(tree["tuple"])),
            "list": lambda tree: self._each(tree["list"]),
            "dict": lambda tree: {self.value(key): self.value(item) for key, item in tree["dict"]},
            "named": self._named,
            "method": self._method,
            "generator": self._generator,
            "csr": self._csr,
            "same": lambda tree: self._made[tree["same"]],
            "object": self._object,
        }

    def _each(self, trees: list[Any]) -> list[Any]:
        return [self.value(tree) for tree in trees]

    def _array(self, tree: dict[str, Any]) -> Any:
        name = tree["array"]
        if name not in self._read:
            array = self.arrays[name]
            self._read[name] = array.T if tree.get("columnwise") else array
        array = self._read[name]
        return on_device(array, tree["device"]) if "device" in tree else array

    def _named(self, tree: dict[str, Any]) -> Any:
        kind = self._class(tree["named"])
        return tuple.__new__(kind, self._each(tree["items"]))

    def _method(self, tree: dict[str, Any]) -> Any:
        of = self.value(tree["of"])
        return MethodType(vars_of(type(of))[tree["method"]], of)

    def _generator(self, tree: dict[str, Any]) -> np.random.Generator:
        state = self.value(tree["generator"])
        bits = {kind.__name__: kind for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937)}
        generator = np.random.Generator(bits[state["bit_generator"]]())
        generator.bit_generator.state = state
        return generator

    def _csr(self, tree: dict[str, Any]) -> sp.csr_matrix:
        data, indices, indptr, n_rows, n_columns = self._each(tree["csr"])
        matrix = sp.csr_matrix((data, indices, indptr), shape=(n_rows, n_columns))
        matrix.check_format()
        return matrix

    def _object(self, tree: dict[str, Any]) -> Any:
        kinds = tuple(self._class(name) for name in tree["kinds"])
        named = self._class(tree["object"])
        made = self._made[tree["number"]] = object.__new__(combined(named, kinds) if kinds else named)
        for name, part in tree["holds"].items():
            object.__setattr__(made, name, self.value(part))
        return made

    def _class(self, name: str) -> Any:
        module, _, path = name.partition(":")
        if not _is_trusted(module, self.problem) or module not in sys.modules:
            raise CheckpointError(f"the checkpoint asks for {name}, which is no class of this problem")
        found: Any = sys.modules[module]
        for part in path.split("."):
            found = vars(found)[part]
        if not isinstance(found, type):
            raise CheckpointError(f"the checkpoint asks for {name}, which is no class")
        return found


def vars_of(kind: type) -> dict[str, Any]:
    """Everything that a class defines or inherits, by name."""
    return {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}


def _is_columnwise(value: Array) -> bool:
    return bool(value.flags.f_contiguous and not value.flags.c_contiguous)


def _derived(value: Any) -> tuple[str, ...]:
    """The attributes that follow from the problem; ``Solver.restored`` makes them again."""
    names: tuple[str, ...] = getattr(type(value), "derived", ())
    return names


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _is_trusted(module: str, problem: Problem) -> bool:
    return module.partition(".")[0] == OURS or module in problem.modules
