"""Structures of RNA as text: a dot for an unpaired position, brackets for the two ends of a pair.

``()`` are nested; ``[]``, ``{}``, ``<>`` and letters such as ``A ... a`` mark pairs that may cross them: pseudoknots.
"""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase

import numpy as np
from numpy.typing import NDArray

from undercut.errors import DataError

UNPAIRED = ".-_:,~"
OPENING = "([{<" + ascii_uppercase
CLOSING = ")]}>" + ascii_lowercase
OPENS = dict(zip(OPENING, CLOSING, strict=True))
CLOSES = dict(zip(CLOSING, OPENING, strict=True))


def partners(structure: str, *, drop_pseudoknots: bool = False) -> NDArray[np.int64]:
    """The partner of every position, counted from 0, or -1.

    Pairs that cross others are refused with their place, or left out: those of the kind of brackets that opens later.

    >>> partners("((...).)").tolist()
    [7, 5, -1, -1, -1, 1, -1, 0]
    >>> partners("((..[[..))..]]", drop_pseudoknots=True).tolist()
    [9, 8, -1, -1, -1, -1, -1, -1, 1, 0, -1, -1, -1, -1]
    >>> partners("((...)")
    Traceback (most recent call last):
        ...
    undercut.errors.DataError: every bracket must be closed; '(' at position 1 is not
    """
    open_at: dict[str, list[int]] = {}
    pairs = list[tuple[int, int]]()
    for at, letter in enumerate(structure):
        if letter in OPENS:
            open_at.setdefault(letter, []).append(at)
        elif letter in CLOSES:
            stack = open_at.get(CLOSES[letter])
            if not stack:
                raise DataError(f"every closing bracket must have been opened; {letter!r} at position {at + 1} was not")
            pairs.append((stack.pop(), at))
        elif letter not in UNPAIRED:
            raise DataError(f"a structure has dots and brackets; got {letter!r} at position {at + 1}")
    for letter, stack in open_at.items():
        if stack:
            raise DataError(f"every bracket must be closed; {letter!r} at position {stack[0] + 1} is not")
    kinds = [OPENING.index(structure[first]) for first, _ in pairs]
    return nested([pair for _, pair in sorted(zip(kinds, pairs, strict=True))], len(structure), drop_pseudoknots)


def nested(pairs: list[tuple[int, int]], n: int, drop_pseudoknots: bool) -> NDArray[np.int64]:
    """The partners of n positions; a pair that crosses an earlier one is refused or left out."""
    partner = np.full(n, -1, np.int64)
    for first, last in pairs:
        inside = partner[first : last + 1]
        partnered = inside[inside >= 0]
        if not ((partnered > first) & (partnered < last)).all():
            if drop_pseudoknots:
                continue
            other = partnered[(partnered < first) | (partnered > last)][0]
            low, high = sorted((int(other), int(partner[other])))
            raise DataError(
                f"pairs must be nested: {first + 1}-{last + 1} crosses {low + 1}-{high + 1}, a pseudoknot; "
                "drop_pseudoknots=True leaves such pairs out"
            )
        partner[first], partner[last] = last, first
    return partner


def dot_bracket(partner: NDArray[np.int64]) -> str:
    """The text of a nested structure.

    >>> dot_bracket(np.array([4, -1, -1, -1, 0]))
    '(...)'
    """
    text = np.full(partner.size, ".")
    at = np.arange(partner.size)
    text[(partner >= 0) & (partner > at)] = "("
    text[(partner >= 0) & (partner < at)] = ")"
    return "".join(text)


def bracketed(pairs: list[tuple[int, int]], n: int) -> str:
    """The text of n positions with these pairs; one that crosses pairs of a kind takes the next kind of brackets.

    >>> bracketed([(0, 5), (3, 8)], 9)
    '(..[.)..]'
    """
    kinds = list[list[tuple[int, int]]]()
    text = ["."] * n
    for first, last in pairs:
        crossed = [any(a < first < b < last or first < a < last < b for a, b in kind) for kind in kinds]
        kind = crossed.index(False) if False in crossed else len(kinds)
        if kind == len(kinds):
            kinds.append([])
        if kind >= len(OPENING):
            raise DataError(f"at most {len(OPENING)} pairs can cross each other in dots and brackets; got more")
        kinds[kind].append((first, last))
        text[first], text[last] = OPENING[kind], CLOSING[kind]
    return "".join(text)
