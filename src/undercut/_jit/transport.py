"""The transportation problem with many sources and few sinks.

    max_flow  sum_ik flow_ik utility_ik      flow >= 0,   sum_k flow_ik = supply_i,   sum_i flow_ik = capacity_k
    =  min_b  sum_i supply_i max_k (utility_ik + b_k)  -  sum_k capacity_k b_k

Successive shortest paths on the K sinks: an arc k -> l moves the source at k that loses least, and prices b keep all
losses non-negative, so that Dijkstra's method applies.  It starts from any prices, the better the faster: sources that
would lose much are not queued until a path needs one of them.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush

import numpy as np

from undercut._jit.compile import njit

BALANCED = 1e-14  # a sink is full if it is so up to this share of all supply
FIRST_REACH = 0.03  # sources that lose more than this share of the spread are not queued at first


@njit(cache=True, nogil=True)
def transport(utility, supply, capacity, b, flow, max_paths):
    """Fill ``flow`` with an optimal plan and improve the prices ``b`` to optimal ones; whether that succeeded.

    It does within ``max_paths`` paths, of which a problem needs about one per source, or rounding is in the way.
    """
    K = capacity.size
    spread = _spread(utility)
    mean = b.mean()
    for k in range(K):
        b[k] = min(max(b[k] - mean, -spread), spread)  # none are farther apart at the optimum
    excess = _to_the_best(utility, supply, b, flow)
    for k in range(K):
        excess[k] -= capacity[k]
    full = BALANCED * supply.sum()
    reach = FIRST_REACH * spread
    movable, known = _queues(utility, flow, b, reach)
    for _ in range(max_paths):
        source = excess.argmax()
        target, distance, before, moved = _shortest_path(movable, known, flow, b, source, excess, full / K)
        if excess[source] <= full or target < 0:
            b -= b.mean()
            return True
        if _leads_too_far(source, target, before, moved):
            if reach == math.inf:
                return False
            reach = 4.0 * reach if reach < spread else math.inf
            movable, known = _queues(utility, flow, b, reach)
            continue
        for k in range(K):
            b[k] += min(distance[k], distance[target])
        _skip_detours(source, target, before, moved)
        _augment(source, target, before, moved, utility, flow, excess, movable, full / supply.size)
    return False


@njit(inline="always")
def _spread(utility):
    """The largest difference of two utilities of one source."""
    spread = 0.0
    for i in range(utility.shape[0]):
        low, high = utility[i, 0], utility[i, 0]
        for k in range(1, utility.shape[1]):
            low, high = min(low, utility[i, k]), max(high, utility[i, k])
        spread = max(spread, high - low)
    return spread


@njit(inline="always")
def _to_the_best(utility, supply, b, flow):
    """Every source to its best sink at prices b; the load of each sink."""
    flow[:] = 0.0
    load = np.zeros(b.size)
    for i in range(supply.size):
        best = 0
        for k in range(1, b.size):
            if utility[i, k] + b[k] > utility[i, best] + b[best]:
                best = k
        flow[i, best] = supply[i]
        load[best] += supply[i]
    return load


@njit(cache=True, nogil=True)
def _queues(utility, flow, b, reach):
    """For each arc k -> l the sources at k that lose no more than ``reach`` now, those first that lose least.

    They are heaps of (utility lost, source), number ``k K + l``; all who lose no more utility than ``known`` are there.
    """
    n, K = flow.shape
    movable = [[(0.0, 0) for _ in range(0)] for _ in range(K * K)]
    known = np.empty(K * K)
    for k in range(K):
        for m in range(K):
            known[k * K + m] = reach - (b[k] - b[m])
    for i in range(n):
        for k in range(K):
            if flow[i, k] > 0.0:
                for m in range(K):
                    lost = utility[i, k] - utility[i, m]
                    if m != k and lost <= known[k * K + m]:
                        movable[k * K + m].append((lost, i))
    for queue in movable:
        heapify(queue)
    return movable, known


@njit(inline="always")
def _shortest_path(movable, known, flow, b, source, excess, full):
    """The nearest sink with room, -1 if there is none, and the best ways from a sink to all that are nearer.

    These are the losses on the way to each, the sink before it, and the source moved from there.  The source is -1
    where it is not queued, and the loss is at least the one given.
    """
    K = b.size
    distance, done = np.full(K, math.inf), np.zeros(K, np.bool_)
    before, moved = np.full(K, -1), np.full(K, -1)
    distance[source] = 0.0
    for _ in range(K):
        k = -1
        for m in range(K):
            if not done[m] and (k < 0 or distance[m] < distance[k]):
                k = m
        if distance[k] == math.inf:
            break
        if excess[k] < -full:
            return k, distance, before, moved
        done[k] = True
        for m in range(K):
            if done[m]:
                continue
            queue = movable[k * K + m]
            while len(queue) > 0 and flow[queue[0][1], k] == 0.0:  # has left k since
                heappop(queue)
            lost, first = known[k * K + m], -1
            if len(queue) > 0 and queue[0][0] <= lost:
                lost, first = queue[0]
            through = distance[k] + max(0.0, lost + (b[k] - b[m]))
            if through < distance[m]:
                distance[m], before[m], moved[m] = through, k, first
    return -1, distance, before, moved


@njit(inline="always")
def _leads_too_far(source, target, before, moved):
    """Whether the path needs a source that is not queued."""
    at = target
    while at != source:
        if moved[at] < 0:
            return True
        at = before[at]
    return False


@njit(inline="always")
def _skip_detours(source, target, before, moved):
    """Who moves twice in a row moves once."""
    at = target
    while before[at] != source:
        if moved[at] == moved[before[at]]:
            before[at] = before[before[at]]
        else:
            at = before[at]


@njit(inline="always")
def _augment(source, target, before, moved, utility, flow, excess, movable, dust):
    """Move as much as can go along the path, and queue those who have arrived somewhere new."""
    amount = min(excess[source], -excess[target])
    at = target
    while at != source:
        amount = min(amount, flow[moved[at], before[at]])
        at = before[at]
    at = target
    while at != source:
        i, k = moved[at], before[at]
        if flow[i, at] == 0.0:
            for m in range(excess.size):
                if m != at:
                    heappush(movable[at * excess.size + m], (utility[i, at] - utility[i, m], i))
        _move(flow, excess, i, k, at, flow[i, k] if flow[i, k] - amount <= dust else amount)
        at = k


@njit(inline="always")
def _move(flow, excess, i, k, m, amount):
    flow[i, k] -= amount
    flow[i, m] += amount
    excess[k] -= amount
    excess[m] += amount
