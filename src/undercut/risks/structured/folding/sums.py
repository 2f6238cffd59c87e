"""Sums over all structures of a sequence: tables for a w, memory for a thread, and the choice of the semiring."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from undercut._jit.folding import Bonus, Chart, Tables, inside
from undercut._jit.folding_outside import Shares, outside
from undercut._jit.folding_structure import trace
from undercut._jit.rings import LOG, MAX, SUM
from undercut.errors import NonfiniteError
from undercut.risks.structured.folding.features import SIZE, matrix, outside_grammar, positions, views
from undercut.types import Array, FloatArray

MODERATE = 80.0  # tables below have exponentials whose products stay in range


class Scores(NamedTuple):
    """All that depends on w alone."""

    flat: FloatArray  # every entry of the tables, minus infinity outside the grammar
    logs: Tables
    numbers: Tables | None  # their exponentials, where they are moderate


def scores_of(w: FloatArray) -> Scores:
    """The tables of w."""
    flat = matrix() @ w
    if not np.isfinite(flat).all():
        raise NonfiniteError(f"the scores of loops must be finite; got {flat[~np.isfinite(flat)][0]}")
    flat[outside_grammar()] = -np.inf
    return Scores(flat, views(flat), _numbers(flat))


def _numbers(flat: FloatArray) -> Tables | None:
    is_moderate = np.abs(flat[~outside_grammar()]).max() <= MODERATE
    return views(np.exp(flat)) if is_moderate else None


class Workspace:
    """The memory of one thread; it grows with the longest sequence, ``11 n^2`` numbers."""

    def __init__(self) -> None:
        self.capacity = 0

    def reserve(self, n: int) -> Workspace:
        """Memory for n positions."""
        if n > self.capacity:
            self.capacity = n + n // 8
            rows = self.capacity + 3
            square, row = (rows, rows | 1), (rows,)
            self.chart = Chart(*map(np.empty, (*[square] * 6, row)))
            self.shares = Shares(*map(np.empty, (*[square] * 3, row, square, square, row)))
        return self


class Filled(NamedTuple):
    """A chart of sums, with what filled it."""

    ring: Any
    tables: Tables
    tail: FloatArray
    log_z: float


def fill(scores: Scores, s: Array, bonus: Bonus, work: Workspace) -> Filled:
    """Sum over all structures: in numbers if they are in range, else scaled per position, else in logarithms.

    ``bonus`` holds logarithms.
    """
    n = s.size - 2
    none = np.ones(n + 1)
    if scores.numbers is not None:
        if inside(SUM, s, scores.numbers, _exponential(bonus), none, work.chart):
            return Filled(SUM, scores.numbers, none, math.log(work.chart.prefix[n]))
        rate = best_score(scores, s, bonus, work) / n
        scaled, tail = _numbers(scores.flat - rate * positions()), np.exp(-rate * np.arange(n + 1))
        if scaled is not None and inside(SUM, s, scaled, _exponential(bonus), tail, work.chart):
            return Filled(SUM, scaled, tail, math.log(work.chart.prefix[n]) + rate * n)
    inside(LOG, s, scores.logs, bonus, np.zeros(n + 1), work.chart)
    return Filled(LOG, scores.logs, np.zeros(n + 1), float(work.chart.prefix[n]))


def expected_counts(filled: Filled, s: Array, bonus: Bonus, work: Workspace) -> FloatArray:
    """The expected counts of all entries of the tables; ``work.shares.pair`` holds the probabilities of pairs."""
    counts = np.zeros(SIZE)
    given = _exponential(bonus) if filled.ring is SUM else bonus
    outside(filled.ring, s, filled.tables, given, filled.tail, work.chart, work.shares, views(counts))
    return counts


def best_score(scores: Scores, s: Array, bonus: Bonus, work: Workspace) -> float:
    """The highest score of a structure."""
    inside(MAX, s, scores.logs, bonus, np.zeros(s.size - 1), work.chart)
    return float(work.chart.prefix[s.size - 2])


def best_structure(scores: Scores, s: Array, bonus: Bonus, work: Workspace) -> Array:
    """The partners, 0 for none, in the structure of the highest score."""
    tail, partner = np.zeros(s.size - 1), np.empty(s.size, np.int64)
    inside(MAX, s, scores.logs, bonus, tail, work.chart)
    trace(s, scores.logs, tail, work.chart, partner)
    return partner


def _exponential(bonus: Bonus) -> Bonus:
    return Bonus(np.exp(bonus.each), math.exp(bonus.right), bonus.partner)
