"""Interior point steps for sums of kinks ``sum_ki caps_ki max(0, s_i - kinks_ki)``, in one pass over the kinks each.

A kink has slopes u, v > 0 with ``u + v = cap`` and slacks t, r > 0 with ``t - r = z = s_i - kink - soft u``, where soft
is the length per slope over which a kink is rounded, zero for a sharp one.  The point is optimal where
``r u = t v = 0``; steps aim at ``r u = t v = share mu``.  With ``D = 1 / (t/v + r/u + soft)`` and a move ds of
the score, the linearized equations ``u dr + r du = p`` and ``v dt - t du = q`` have the solution

    du = D (ds + z + (p + r u) / u - (q + t v) / v),      dr = (p - r du) / u,      dt = (q + t du) / v

Arrays of kinks have the shape (.., K, N) and are contiguous: ``kinks`` holds places, caps, soft and share, ``inside``
t, r, u and v, ``aim`` p and q, ``change`` dt, dr and du.  A kink with cap 0 is left out.
"""

from __future__ import annotations

import math

from undercut._jit.compile import njit

BISECTIONS = 40
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**OPTIONS)
def center(scores, kinks, mu, inside):
    """Fill slacks and slopes with ``r u = t v = share mu``, the only such point for given scores."""
    for k in range(kinks.shape[1]):
        for i in range(scores.size):
            cap, soft, z = kinks[1, k, i], kinks[2, k, i], scores[i] - kinks[0, k, i]
            t = r = u = v = 0.0
            if cap > 0.0:
                product = kinks[3, k, i] * mu
                size = abs(z) * cap / (4.0 * product)
                root = 1.0 + math.sqrt(1.0 + 4.0 * size * size)
                small = cap / (root + 2.0 * size)  # the lesser of u and v: (1 - q) cap / 2 with q = 2 size / root
                large = cap - small
                short = product / large
                u, v, t, r = (large, small, z + short, short) if z > 0.0 else (small, large, short, short - z)
                if soft > 0.0:
                    low, high = 0.0, 1.0  # u / cap, by bisection
                    for _ in range(BISECTIONS):
                        part = 0.5 * (low + high)
                        excess = product / (cap - part * cap) - product / (part * cap) + soft * part * cap - z
                        low, high = (low, part) if excess > 0.0 else (part, high)
                    u, v = part * cap, cap - part * cap
                    t, r = product / v, product / u
            inside[0, k, i], inside[1, k, i], inside[2, k, i], inside[3, k, i] = t, r, u, v


@njit(**OPTIONS)
def predict(scores, kinks, inside, D, bend, pull):
    """Fill D, ``bend_i = sum_k D_ki`` and ``pull_i = sum_k D_ki z_ki``, the terms of the step towards mu = 0."""
    for i in range(scores.size):
        bend[i] = pull[i] = 0.0
    for k in range(kinks.shape[1]):
        for i in range(scores.size):
            d = 0.0
            if kinks[1, k, i] > 0.0:
                t, r, u, v = inside[0, k, i], inside[1, k, i], inside[2, k, i], inside[3, k, i]
                d = 1.0 / (t / v + r / u + kinks[2, k, i])
                pull[i] += d * (scores[i] - kinks[0, k, i] - kinks[2, k, i] * u)
            D[k, i] = d
            bend[i] += d


@njit(**OPTIONS)
def reach(scores, kinks, inside, D, ds):
    """Of the step towards mu = 0: the inverse of the longest step, and ``sum (dr - dt) du``."""
    inverse, bent = 1.0, 0.0
    for k in range(kinks.shape[1]):
        for i in range(scores.size):
            if kinks[1, k, i] > 0.0:
                t, r, u, v = inside[0, k, i], inside[1, k, i], inside[2, k, i], inside[3, k, i]
                du = D[k, i] * (ds[i] + scores[i] - kinks[0, k, i] - kinks[2, k, i] * u)
                rise, fall = du / u, du / v
                inverse = max(inverse, 1.0 + rise, 1.0 - fall, -rise, fall)
                bent += du * (t * (1.0 - fall) - r * (1.0 + rise))
    return inverse, bent


@njit(**OPTIONS)
def correct(scores, kinks, inside, D, ds, mu, allowed, aim, pull):
    """Fill p and q, which aim at mu and allow for a part of the products of the first step ds, and their pull."""
    for i in range(scores.size):
        pull[i] = 0.0
    for k in range(kinks.shape[1]):
        for i in range(scores.size):
            if kinks[1, k, i] > 0.0:
                t, r, u, v = inside[0, k, i], inside[1, k, i], inside[2, k, i], inside[3, k, i]
                z = scores[i] - kinks[0, k, i] - kinks[2, k, i] * u
                du = D[k, i] * (ds[i] + z)
                product = kinks[3, k, i] * mu
                first = product + allowed * du * r * (1.0 + du / u)
                second = product - allowed * du * t * (1.0 - du / v)
                aim[0, k, i] = first - r * u
                aim[1, k, i] = second - t * v
                pull[i] += D[k, i] * (z + first / u - second / v)


@njit(**OPTIONS)
def recenter(scores, kinks, inside, D, aim, change, step, mu, beyond, to, pull):
    """Fill ``to`` with p and q that lead products back which a step makes too small or large by the factor ``beyond``.

    ``pull`` is theirs.  The change of a large product is limited: its whole excess would spoil the others
    (Gondzio 1996).
    """
    for i in range(scores.size):
        pull[i] = 0.0
    for k in range(kinks.shape[1]):
        for i in range(scores.size):
            if kinks[1, k, i] > 0.0:
                t, r, u, v = inside[0, k, i], inside[1, k, i], inside[2, k, i], inside[3, k, i]
                first = (r + step * change[1, k, i]) * (u + step * change[2, k, i])
                second = (t + step * change[0, k, i]) * (v - step * change[2, k, i])
                low, high = kinks[3, k, i] * mu / beyond, kinks[3, k, i] * mu * beyond
                p = aim[0, k, i] + max(min(max(first, low), high) - first, -high)
                q = aim[1, k, i] + max(min(max(second, low), high) - second, -high)
                z = scores[i] - kinks[0, k, i] - kinks[2, k, i] * u
                to[0, k, i], to[1, k, i] = p, q
                pull[i] += D[k, i] * (z + (p + r * u) / u - (q + t * v) / v)


@njit(**OPTIONS)
def solve(scores, kinks, inside, D, aim, ds, change):
    """Fill dt, dr and du for the equations p and q, and return the inverse of the longest step."""
    inverse = 0.0
    for k in range(kinks.shape[1]):
        for i in range(scores.size):
            if kinks[1, k, i] > 0.0:
                t, r, u, v = inside[0, k, i], inside[1, k, i], inside[2, k, i], inside[3, k, i]
                p, q, z = aim[0, k, i], aim[1, k, i], scores[i] - kinks[0, k, i] - kinks[2, k, i] * u
                du = D[k, i] * (ds[i] + z + (p + r * u) / u - (q + t * v) / v)
                dr, dt = (p - r * du) / u, (q + t * du) / v
                change[0, k, i], change[1, k, i], change[2, k, i] = dt, dr, du
                inverse = max(inverse, -dr / r, -dt / t, -du / u, du / v)
    return inverse


@njit(**OPTIONS)
def advance(kinks, inside, change, step, to):
    """Fill the next point and return ``sum r u + t v`` there."""
    total = 0.0
    for k in range(kinks.shape[1]):
        for i in range(kinks.shape[2]):
            t = r = u = v = 0.0
            if kinks[1, k, i] > 0.0:
                t, r = inside[0, k, i] + step * change[0, k, i], inside[1, k, i] + step * change[1, k, i]
                u, v = inside[2, k, i] + step * change[2, k, i], inside[3, k, i] - step * change[2, k, i]
                total += r * u + t * v
            to[0, k, i], to[1, k, i], to[2, k, i], to[3, k, i] = t, r, u, v
    return total


@njit(**OPTIONS)
def heights(left, kinks, scores, inside, n):
    """Of the first n scores: ``sum_i f_i``, how far the plane of slopes u lies below, ``sum u z`` and ``sum v z``."""
    value, below, along_u, along_v = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        loss = left[i] * (scores[i] - kinks[0, 0, i])
        for k in range(kinks.shape[1]):
            z, u, v = scores[i] - kinks[0, k, i], inside[2, k, i], inside[3, k, i]
            loss += kinks[1, k, i] * max(z, 0.0)
            below += v * max(z, 0.0) + u * max(-z, 0.0)
            along_u += u * z
            along_v += v * z
        value += loss  # loss by loss, so that nothing cancels where it is zero
    return value, below, along_u, along_v
