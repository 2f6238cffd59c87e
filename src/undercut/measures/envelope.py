"""The concave envelope of a measure's loss, and the sums over samples that touch it.

The loss Delta of a set of mistakes has modular majorants, sums over the samples that bound it for every set:

    Delta(mistakes)  <=  constant + sum_{i in mistakes} cost_i

The least of them at given probabilities beta of mistakes is the concave envelope of Delta, the largest mean loss of
random mistakes with these probabilities (duality of linear programs):

    h(beta)  =  max { E Delta(mistakes) : P(i in mistakes) = beta_i }
             =  min over majorants of  constant + <cost, beta>

Here Delta depends on the numbers of misses and of alarms, convex in the first and concave in the second.  So the mean
is largest where the sets of misses are nested, and where their number decides that of the alarms: one more alarm adds
the same to the loss, its cost, at every number of misses.  Alarms of larger probability may have to cost less, so that
all of them occur often enough.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undercut.measures.contingency import CurvedMeasure
from undercut.types import Array, FloatArray

HALVINGS = 50  # of the interval of the logarithm of a cost
LEAST_COST = 1e-12  # relative to the largest
EXACT = 1e-12  # relative: differences of sums of probabilities that are rounding
ROUGH = 1e-4  # share of the expected alarms that may lack before costs are divided; the bound allows for it
MOST_COSTS = 30  # of alarms: what still lacks then is allowed for by the bound


class Envelope(NamedTuple):
    """A lower bound of h, and the costs of a majorant that touches h at the same probabilities, or nearly so."""

    value: float
    misses: FloatArray  # costs of the positive samples
    alarms: FloatArray  # costs of the negative samples


def envelope(measure: CurvedMeasure, misses: FloatArray, alarms: FloatArray, scores: FloatArray) -> Envelope:
    """The envelope at the probabilities of misses, one per positive sample, and of alarms, one per negative sample.

    Of two positives that are missed with the same probability, the one with the lower score is missed first.
    """
    order, ranks = np.lexsort((scores, -misses)), np.argsort(-alarms)
    edges = np.concatenate([[1.0], misses[order], [0.0]])
    probability = edges[:-1] - edges[1:]  # of so many misses, in nested sets
    occurs = np.flatnonzero(probability > 0.0)
    tables = _Tables(measure, misses.size, alarms.size, occurs)
    expected = np.append(0.0, np.cumsum(alarms[ranks]))  # alarms among the most likely samples
    slots = _divided(tables, probability[occurs], expected)

    # 1. The mean loss of random mistakes that exist, less what may be rounding in the check that they do.
    n_alarms, mean = np.sum([slot.n_alarms for slot in slots], axis=0), float(expected[-1])
    n_alarms = n_alarms + mean - float(probability[occurs] @ n_alarms)
    evenness = _evenness(n_alarms, probability[occurs], expected)
    value = float(probability[occurs] @ tables.mean_loss(n_alarms + evenness * (mean - n_alarms)))
    value -= EXACT * mean * tables.largest_cost

    # 2. The least convex function of the number of misses that, with these costs of alarms, bounds the loss.
    costs, alarm_costs = np.empty_like(misses), np.empty_like(alarms)
    costs[order] = np.diff(tables.excess(slots))
    for slot in slots:
        alarm_costs[ranks[slot.start : slot.stop]] = slot.cost
    return Envelope(value, costs, alarm_costs)


class Slot(NamedTuple):
    """Alarms of one cost: those of the ranks from ``start`` to ``stop`` by probability."""

    start: int
    stop: int
    cost: float
    n_alarms: FloatArray  # by number of misses that occurs


class _Tables:
    """The losses by numbers of misses, some of which occur, and of alarms."""

    def __init__(self, measure: CurvedMeasure, n_positive: int, n_negative: int, occurs: Array) -> None:
        self.measure, self.n_positive, self.n_negative = measure, n_positive, n_negative
        self.hits = n_positive - np.arange(n_positive + 1.0)
        self.seen = self.hits[occurs]
        first = self.loss(self.hits, 1.0) - self.loss(self.hits, 0.0) if n_negative else np.zeros(1)
        # the loss is concave in the number of alarms; those of a large beta change it by less than rounding
        self.largest_cost = max(float(first.max()), float(np.finfo(float).eps))

    def loss(self, hits: FloatArray, n_alarms: FloatArray | float) -> FloatArray:
        loss: FloatArray = self.measure.loss(hits, n_alarms, self.n_positive - hits, self.n_negative - n_alarms)
        return loss

    def mean_loss(self, n_alarms: FloatArray) -> FloatArray:
        """Where the number of alarms is one of the two integers around a given mean."""
        low = np.clip(np.floor(n_alarms), 0.0, self.n_negative)
        high = np.minimum(low + 1.0, self.n_negative)
        at_low = self.loss(self.seen, low)
        mean: FloatArray = at_low + (n_alarms - low) * (self.loss(self.seen, high) - at_low)
        return mean

    def worthwhile(self, hits: FloatArray, cost: float, start: int, stop: int) -> FloatArray:
        """How many alarms of these ranks are worth their cost."""
        n_alarms = self.measure.worthwhile(hits, cost, self.n_positive, self.n_negative)
        counts: FloatArray = np.clip(n_alarms, start, stop) - start
        return counts

    def slot(self, weight: FloatArray, start: int, stop: int, mean: float) -> Slot:
        """The cost at which the expected number of alarms of these ranks is the given one, and the numbers."""
        if start == stop:
            return Slot(start, stop, 0.0, np.zeros(weight.size))
        low, high = LEAST_COST * self.largest_cost, 2.0 * self.largest_cost
        many, few = np.full(weight.size, float(stop - start)), np.zeros(weight.size)
        is_certain = mean >= stop - start
        for _ in range(HALVINGS):
            cost = float(np.sqrt(low * high))
            n_alarms = self.worthwhile(self.seen, cost, start, stop)
            reached = float(weight @ n_alarms)
            if reached > mean or (is_certain and reached >= mean):
                low, many = cost, n_alarms
            else:
                high, few = cost, n_alarms
        return Slot(start, stop, low if is_certain else high, _level(weight, few, many, mean))

    def excess(self, slots: list[Slot]) -> FloatArray:
        """By number of misses, the largest difference of the loss and the costs of the alarms."""
        slots = [slot for slot in slots if slot.start < slot.stop]
        counts = [self.worthwhile(self.hits, slot.cost, slot.start, slot.stop) for slot in slots]
        excess = self.loss(self.hits, np.sum(counts, axis=0) if counts else 0.0)
        for slot, count in zip(slots, counts, strict=True):
            excess -= slot.cost * count
        return excess


def _level(weight: FloatArray, few: FloatArray, many: FloatArray, mean: float) -> FloatArray:
    """The most even numbers from ``few`` to ``many`` with this mean."""
    low, high = float(few.min()), float(many.max())
    for _ in range(HALVINGS):
        level = 0.5 * (low + high)
        if float(weight @ np.clip(level, few, many)) > mean:
            high = level
        else:
            low = level
    numbers: FloatArray = np.clip(low, few, many)
    return numbers


def _divided(tables: _Tables, weight: FloatArray, expected: FloatArray) -> list[Slot]:
    """Ranks of alarms by cost: divided where too few of the most likely ones would occur (Groenevelt 1991)."""
    total, open_slots = float(expected[-1]), [(0, expected.size - 1)]
    done: list[Slot] = []
    while open_slots:
        start, stop = open_slots.pop()
        slot = tables.slot(weight, start, stop, float(expected[stop] - expected[start]))
        lack = expected[start : stop + 1] - expected[start] - _room(slot.n_alarms, weight, stop - start)
        worst = int(lack.argmax())
        if 0 < worst < stop - start and lack[worst] > ROUGH * total and len(done) + len(open_slots) < MOST_COSTS:
            open_slots += [(start + worst, stop), (start, start + worst)]
        else:
            done.append(slot)
    return done


def _room(n_alarms: FloatArray, weight: FloatArray, most: int) -> FloatArray:
    """``E min(m, number of alarms)`` for m = 0 to ``most``: at most so many alarms of m samples can occur."""
    m = np.arange(most + 1.0)
    order = np.argsort(n_alarms)
    numbers, weight = n_alarms[order], weight[order]
    below = np.searchsorted(numbers, m, side="right")
    alarms, rest = np.append(0.0, np.cumsum(weight * numbers)), np.append(np.cumsum(weight[::-1])[::-1], 0.0)
    room: FloatArray = alarms[below] + m * rest[below]
    return room


def _evenness(n_alarms: FloatArray, weight: FloatArray, expected: FloatArray) -> float:
    """How far the numbers of alarms must move to their mean for random sets of these sizes to exist.

    They exist if for every m the m most likely alarms are not more than sets of these sizes can have of them:

        sum of the m largest probabilities  <=  E min(m, number of alarms)        (a sum of uniform matroids)

    The right side is concave in the numbers, and where all are equal to their mean it is large enough.
    """
    m = np.arange(float(expected.size))
    room = _room(n_alarms, weight, expected.size - 1)
    lack, most = expected - room, np.minimum(m, expected[-1]) - room
    short = lack > EXACT * expected
    return float((lack[short] / np.maximum(most[short], lack[short])).max(initial=0.0))
