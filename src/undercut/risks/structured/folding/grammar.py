"""Which structures the model can score, and what is left of one that has other pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undercut._jit.folding import MAX_LOOP, MIN_HAIRPIN
from undercut._jit.folding_structure import HAIRPIN, INTERNAL, PAIRING, first_fault
from undercut.errors import DataError
from undercut.risks.structured.folding.features import LETTERS
from undercut.types import Array

CODES = np.full(256, 4, np.int64)
CODES[np.frombuffer(LETTERS.encode(), np.uint8)] = np.arange(4)


def letters(x: str) -> Array:
    """The codes of the letters, between two that pair with none."""
    if not x:
        raise DataError("a sequence must have at least one letter; got an empty one")
    return CODES[np.frombuffer(f"-{x}-".encode("ascii", "replace"), np.uint8)]


def padded(y: Array) -> Array:
    """Partners counted from 1, 0 for none, with a position at each end."""
    partner = np.zeros(y.size + 2, np.int64)
    partner[1:-1] = y + 1
    return partner


def check_structure(x: str, y: Array) -> None:
    """Raise ``DataError`` for a structure outside the grammar, with the place."""
    if y.size != len(x):
        raise DataError(
            f"a structure must have as many positions as the sequence has letters; got {y.size} for {len(x)}"
        )
    at = np.flatnonzero(y >= 0)
    if (y >= y.size).any() or not np.array_equal(y[y[at]], at):
        raise DataError("partners must agree: if i pairs with j, j pairs with i")
    fault, i, j, k, end = first_fault(letters(x), padded(y))
    if fault == PAIRING:
        raise DataError(f"positions {i} and {j} hold {x[i - 1]} and {x[j - 1]}: pairs are AU, CG and GU")
    if fault == HAIRPIN:
        raise DataError(f"the hairpin inside {i}-{j} has fewer than {MIN_HAIRPIN} unpaired positions")
    if fault == INTERNAL:
        raise DataError(f"the loop between {i}-{j} and {k}-{end} has more than {MAX_LOOP} unpaired positions")


class Cleaned(NamedTuple):
    """A structure inside the grammar, and how many pairs were dropped for each reason."""

    y: Array
    n_noncanonical: int
    n_short_hairpins: int
    n_long_loops: int


def cleaned(x: str, y: Array) -> Cleaned:
    """The structure without the pairs that break a rule; of a loop that is too long, the shorter stem goes.

    >>> cleaned("GGAAACA", np.array([6, 5, -1, -1, -1, 1, 0]))
    Cleaned(y=array([-1,  5, -1, -1, -1,  1, -1]), n_noncanonical=1, n_short_hairpins=0, n_long_loops=0)
    """
    s, partner = letters(x), padded(y)
    dropped = dict.fromkeys((PAIRING, HAIRPIN, INTERNAL), 0)
    while True:
        fault, i, j, k, end = first_fault(s, partner)
        if fault not in dropped:
            return Cleaned(partner[1:-1] - 1, *dropped.values())
        pairs = [(i, j)]
        if fault == INTERNAL:
            pairs = min(_stem(partner, i, j, -1), _stem(partner, k, end, 1), key=len)
        for first, last in pairs:
            partner[first] = partner[last] = 0
        dropped[fault] += len(pairs)


def _stem(partner: Array, i: int, j: int, inward: int) -> list[tuple[int, int]]:
    """The pairs stacked directly on (i, j), outward or inward."""
    stem = []
    while partner[i] == j and i < j:
        stem.append((i, j))
        i, j = i + inward, j - inward
    return stem
