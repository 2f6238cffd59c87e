"""Which structures the model can score, and what is left of one that has other pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from undercut._jit.folding import MAX_LOOP, MIN_HAIRPIN, NO_PAIR, PAIR_TYPE
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
    """The structure without the pairs that break a rule; where loops are too long, as few pairs go as possible.

    >>> cleaned("GGAAACA", np.array([6, 5, -1, -1, -1, 1, 0]))
    Cleaned(y=array([-1,  5, -1, -1, -1,  1, -1]), n_noncanonical=1, n_short_hairpins=0, n_long_loops=0)
    """
    s, partner = letters(x), padded(y)
    i = np.flatnonzero(partner > np.arange(partner.size))
    j = partner[i]
    noncanonical = PAIR_TYPE[s[i], s[j]] == NO_PAIR
    short = ~noncanonical & (j - i <= MIN_HAIRPIN)  # whatever is inside, too few positions are left
    rest = ~(noncanonical | short)
    pairs = list(zip(i[rest].tolist(), j[rest].tolist(), strict=True))
    partner = _partners(pairs, partner.size)
    if first_fault(s, partner)[0] == INTERNAL:
        partner = _partners(without_long_loops(pairs), partner.size)
    n_long = len(pairs) - int((partner > 0).sum()) // 2
    return Cleaned(partner[1:-1] - 1, int(noncanonical.sum()), int(short.sum()), n_long)


def _partners(pairs: Sequence[tuple[int, int]], size: int) -> Array:
    """Padded partners."""
    partner = np.zeros(size, np.int64)
    for i, j in pairs:
        partner[i], partner[j] = j, i
    return partner


Pairs = list[tuple[int, int]]


class _Part(NamedTuple):
    """A pair of the structure, and what can be kept of it and all inside."""

    last: int  # the second position of the pair
    choice: _Choice
    stems: list[tuple[int, Pairs]]  # each pair inside, this one too, by its span: the most pairs with it outermost


class _Choice(NamedTuple):
    """The most pairs with one of them outermost, and with several side by side; empty if there are none."""

    one: Pairs
    several: Pairs

    def beside(self, right: _Choice) -> _Choice:
        """Of two parts side by side."""
        several = self.one + right.one if self.one and right.one else []
        if self.several:
            several = max(several, self.several + right.most, key=len)
        if right.several:
            several = max(several, self.most + right.several, key=len)
        return _Choice(max(self.one, right.one, key=len), several)

    @property
    def most(self) -> Pairs:
        return max(self.one, self.several, key=len)


def without_long_loops(pairs: Sequence[tuple[int, int]]) -> Pairs:
    """As many of the nested pairs (i, j), sorted by i, as leave no bulge or internal loop over ``MAX_LOOP``.

    What a pair may close is nothing else, one pair near enough, or several pairs; each is solved for the pairs inside
    first.
    """
    parts: list[_Part] = []  # side by side, the leftmost last
    for i, j in reversed(pairs):
        inside, stems = _Choice([], []), []
        while parts and parts[-1].last < j:
            part = parts.pop()
            inside = inside.beside(part.choice)
            stems += part.stems
        near = [kept for span, kept in stems if j - i - 1 - span <= MAX_LOOP]
        stem = [(i, j), *max([inside.several, *near], key=len)]
        choice = _Choice(max(stem, inside.one, key=len), inside.several)
        parts.append(_Part(j, choice, [(j - i + 1, stem), *stems]))
    whole = _Choice([], [])
    for part in reversed(parts):
        whole = whole.beside(part.choice)
    return whole.most
