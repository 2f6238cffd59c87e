"""Precision, recall and F1 of chunks, as the CoNLL shared tasks count them (``conlleval``).

A chunk is a run of tokens of one type.  Tags are ``O`` or a letter and a type, ``B-NP``; between two tokens of a
sentence that are not O, a chunk ends and another begins where

    the types differ,   or   B follows B or I,   or   E or I follows E

which covers the encodings IOB1, IOB2, IOE1 and IOE2.  A predicted chunk is correct if its first token, its last token
and its type all are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from undercut.errors import DataError
from undercut.types import Array

BREAKS = {("B", "B"), ("I", "B"), ("E", "E"), ("E", "I")}  # letters between which a chunk of the same type ends


class Chunk(NamedTuple):
    first: int
    last: int
    kind: str


class ChunkScore(NamedTuple):
    """How many chunks there are, were predicted, and were predicted correctly."""

    n_true: int
    n_predicted: int
    n_correct: int

    @property
    def precision(self) -> float:
        """The share of predicted chunks that are correct; 0 if there are none."""
        return self.n_correct / self.n_predicted if self.n_predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of true chunks that were found; 0 if there are none."""
        return self.n_correct / self.n_true if self.n_true else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if no chunk is correct."""
        return 2 * self.n_correct / (self.n_true + self.n_predicted) if self.n_correct else 0.0


def chunk_scores(y_true: Sequence[str], y_pred: Sequence[str], lengths: Array | Sequence[int]) -> dict[str, ChunkScore]:
    """The score of each type of chunk, and of all under the name ``""``, from the tags of sentences end to end.

    >>> scores = chunk_scores(["B-NP", "I-NP", "O", "B-VP"], ["B-NP", "I-NP", "O", "B-NP"], lengths=[4])
    >>> scores["VP"].recall, scores["NP"].precision, scores[""].f1
    (0.0, 0.5, 0.5)
    """
    if len(y_true) != len(y_pred):
        raise DataError(f"there must be one predicted tag per true one; got {len(y_pred)} for {len(y_true)}")
    true, predicted = set(chunks(y_true, lengths)), set(chunks(y_pred, lengths))
    kinds = sorted({chunk.kind for chunk in true | predicted})
    scores = {"": ChunkScore(len(true), len(predicted), len(true & predicted))}
    for kind in kinds:
        ours, theirs = ({chunk for chunk in side if chunk.kind == kind} for side in (predicted, true))
        scores[kind] = ChunkScore(len(theirs), len(ours), len(ours & theirs))
    return scores


def chunks(tags: Sequence[str], lengths: Array | Sequence[int]) -> list[Chunk]:
    """The chunks that tags of sentences end to end describe.

    >>> chunks(["I-NP", "I-NP", "B-NP", "O", "I-VP"], lengths=[4, 1])
    [Chunk(first=0, last=1, kind='NP'), Chunk(first=2, last=2, kind='NP'), Chunk(first=4, last=4, kind='VP')]
    """
    if sum(lengths) != len(tags):
        raise DataError(f"`lengths` must sum to the number of tags; got {sum(lengths)} and {len(tags)} tags")
    opens = set(np.cumsum(np.asarray(lengths)).tolist())  # where a new sentence begins
    found: list[Chunk] = []
    last = "O", ""
    for t, tag in enumerate(tags):
        letter, kind = _parts(t, tag)
        if letter != "O":
            if t in opens or last[0] == "O" or last[1] != kind or (last[0], letter) in BREAKS:
                found.append(Chunk(t, t, kind))
            else:
                found[-1] = found[-1]._replace(last=t)
        last = letter, kind
    return found


def _parts(t: int, tag: str) -> tuple[str, str]:
    letter, _, kind = tag.partition("-")
    if letter not in ("B", "I", "E", "O"):
        raise DataError(f"a tag must be O, or B, I or E with a type as in B-NP; token {t} has {tag!r}")
    return (letter, kind) if letter != "O" else ("O", "")
