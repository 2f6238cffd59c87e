"""The parameters of folding, as CONTRAfold 2 names them, and how they add up to score tables.

| parameters | number | count |
|---|---|---|
| ``base_pair_XY`` | 3 | pairs, whatever their direction |
| ``terminal_mismatch_XYZW`` | 96 | pair XY beside a hairpin or internal loop, and the letters inside the loop |
| ``hairpin_length_at_least_k`` | 31 | hairpins with k or more unpaired positions; 30 stands for all longer ones |
| ``internal_explicit_k_l`` | 10 | internal loops of exactly these lengths, either way round |
| ``bulge_length_at_least_k``, ``internal_length_at_least_k`` | 30 + 29 | by the sum of both lengths |
| ``internal_symmetric_length_at_least_k``, ``internal_asymmetry_at_least_k`` | 15 + 28 | equal sides; difference |
| ``bulge_0x1_nucleotides_X``, ``internal_1x1_nucleotides_XY`` | 4 + 10 | the unpaired letters |
| ``helix_stacking_XYZW`` | 21 | pair XY, and ZW directly inside it, or the same read from the other strand |
| ``helix_closing_XY`` | 6 | pair XY beside a loop that is not a stacked pair |
| ``multi_base``, ``multi_unpaired``, ``multi_paired`` | 3 | loops of several branches |
| ``dangle_left_XYZ``, ``dangle_right_XYZ`` | 24 + 24 | letter beside pair XY in a multi-loop or the outermost loop |
| ``external_unpaired``, ``external_paired`` | 2 | the outermost loop |

``tables = matrix @ w`` are the scores that the dynamic programs read, and ``matrix' counts`` is the joint feature.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
import scipy.sparse as sp

from undercut._jit.folding import MAX_LOOP, Tables
from undercut.types import Array, FloatArray

LETTERS = "ACGU"
ANY = "ACGUN"
PAIRS = ("AU", "UA", "CG", "GC", "GU", "UG")  # in the order of ``PAIR_TYPE``
MAX_SYMMETRIC, MAX_ASYMMETRY, MAX_EXPLICIT = 15, 28, 4
SHAPES: dict[str, tuple[int, ...]] = {
    "base": (6,), "stack": (6, 6), "ends": (6, 5, 5), "dangles": (6, 5, 5), "hairpin": (31,), "inner": (31, 32),
    "bulge": (5,), "single": (5, 5), "multi": (3,), "external": (2,),
}  # fmt: skip
SIZE = sum(map(prod, SHAPES.values()))


def views(flat: FloatArray) -> Tables:
    """The parts of an array of ``SIZE`` numbers by their names."""
    parts: list[Any] = []
    first = 0
    for shape in SHAPES.values():
        parts.append(flat[first : first + prod(shape)].reshape(shape))
        first += prod(shape)
    return Tables(*parts)


@cache
def names() -> tuple[str, ...]:
    """The names of all parameters, in the order of w."""
    found = dict.fromkeys(name for _, _, each in _entries() for name in each)
    return tuple(found)


@cache
def matrix() -> sp.csr_matrix:
    """Which parameters add up to each entry of the tables, shape (``SIZE``, n_params)."""
    at = {name: j for j, name in enumerate(names())}
    number = views(np.arange(SIZE, dtype=np.float64))
    cells = [(int(getattr(number, part)[where]), at[name]) for part, where, each in _entries() for name in each]
    rows, columns = np.array(cells).T
    return sp.csr_matrix((np.ones(len(cells)), (rows, columns)), shape=(SIZE, len(at)))


@cache
def outside_grammar() -> Array:
    """Which entries stand for loops that do not exist: their score is minus infinity."""
    mask = np.zeros(SIZE)
    inner = views(mask).inner
    for l1, l2 in product(range(MAX_LOOP + 1), range(32)):
        inner[l1, l2] = l1 + l2 > MAX_LOOP or max(l1, l2) <= 1
    return mask > 0.0


@cache
def positions() -> FloatArray:
    """How many positions of the sequence each entry stands for; those of a hairpin are counted elsewhere."""
    lengths = np.zeros(SIZE)
    tables = views(lengths)
    tables.base[:] = 2.0
    tables.inner[:] = np.add.outer(np.arange(31), np.arange(32))
    tables.bulge[:] = 1.0
    tables.single[:] = 2.0
    tables.multi[1] = tables.external[0] = 1.0
    return lengths


Entry = tuple[str, Any, list[str]]  # a table, the place in it, the parameters that add up to it


def _entries() -> Iterator[Entry]:
    """Every entry of the tables, without parameters of letters other than A, C, G and U."""
    yield from (("base", t, ["base_pair_" + min(pair, pair[::-1])]) for t, pair in enumerate(PAIRS))
    for (t, pair), (u, inner) in product(enumerate(PAIRS), repeat=2):
        yield "stack", (t, u), ["helix_stacking_" + min(pair + inner, inner[::-1] + pair[::-1])]
    yield from _junctions()
    yield from (("hairpin", k, at_least("hairpin_length", 0, k)) for k in range(MAX_LOOP + 1))
    for l1, l2 in product(range(MAX_LOOP + 1), repeat=2):
        if l1 + l2 <= MAX_LOOP and max(l1, l2) > 1:
            yield "inner", (l1, l2), loop_parameters(l1, l2)
    for a, x in enumerate(ANY):
        yield "bulge", a, loop_parameters(0, 1) + lettered("bulge_0x1_nucleotides_", x)
    for (a, x), (b, y) in product(enumerate(ANY), repeat=2):
        yield "single", (a, b), loop_parameters(1, 1) + lettered("internal_1x1_nucleotides_", min(x + y, y + x))
    yield from (("multi", k, [f"multi_{part}"]) for k, part in enumerate(("base", "unpaired", "paired")))
    yield from (("external", k, [f"external_{part}"]) for k, part in enumerate(("unpaired", "paired")))


def _junctions() -> Iterator[Entry]:
    for (t, pair), (a, x), (b, y) in product(enumerate(PAIRS), enumerate(ANY), enumerate(ANY)):
        closing = f"helix_closing_{pair}"
        yield "ends", (t, a, b), [closing, *lettered(f"terminal_mismatch_{pair}", x + y)]
        dangles = [*lettered(f"dangle_left_{pair}", x), *lettered(f"dangle_right_{pair}", y)]
        yield "dangles", (t, a, b), [closing, *dangles]


def lettered(kind: str, letters: str) -> list[str]:
    """The parameter of these letters, if all are among the four."""
    return [kind + letters] if all(letter in LETTERS for letter in letters) else []


def loop_parameters(l1: int, l2: int) -> list[str]:
    """The parameters of a bulge or internal loop of these lengths."""
    if min(l1, l2) == 0:
        return at_least("bulge_length", 1, l1 + l2)
    parameters = at_least("internal_length", 2, l1 + l2)
    parameters += at_least("internal_asymmetry", 1, min(abs(l1 - l2), MAX_ASYMMETRY))
    if l1 == l2:
        parameters += at_least("internal_symmetric_length", 1, min(l1, MAX_SYMMETRIC))
    if max(l1, l2) <= MAX_EXPLICIT:
        parameters.append(f"internal_explicit_{min(l1, l2)}_{max(l1, l2)}")
    return parameters


def at_least(kind: str, first: int, last: int) -> list[str]:
    """``kind_at_least_first`` to ``kind_at_least_last``."""
    return [f"{kind}_at_least_{k}" for k in range(first, last + 1)]
