"""Interior point steps for sums of kinks ``sum_ki caps_ki max(0, s_i - kinks_ki)``, in one pass over the kinks each.

A kink has slopes u, v > 0 with ``u + v = cap`` and slacks t, r > 0 with ``t - r = z = s_i - kink - soft u``, where soft
is the length per slope over which a kink is rounded, zero for a sharp one.  The point is optimal where
``r u = t v = 0``; steps aim at ``r u = t v = share mu``.  With ``D = 1 / (t/v + r/u + soft)``, ``off = z - t + r`` and
a move ds of the score, the linearized equations ``u dr + r du = p`` and ``v dt - t du = q`` have the solution

    du = D (ds + off + p / u - q / v),      dr = (p - r du) / u,      dt = (q + t du) / v

Arrays of kinks have a column per kink: the first kinks of all N scores, then the second ones, and so on.  ``kinks``
holds places, caps, soft and share, ``inside`` t, r, u and v, ``weights`` D and off, ``aim`` p and q, ``change`` dt, dr
and du.  A kink with cap 0 is left out, and its slacks and slopes are zero.
"""

from __future__ import annotations

import math

from undercut._jit.compile import njit

BISECTIONS = 40
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**OPTIONS)
def center(scores, kinks, mu, inside):
    """Fill slacks and slopes with ``r u = t v = share mu``, the only such point for given scores."""
    for at in range(kinks.shape[1]):
        cap, soft, z = kinks[1, at], kinks[2, at], scores[at % scores.size] - kinks[0, at]
        t = r = u = v = 0.0
        if cap > 0.0:
            product = kinks[3, at] * mu
            size = abs(z) * cap / (4.0 * product)
            root = 1.0 + math.sqrt(1.0 + 4.0 * size * size)
            small = cap / (root + 2.0 * size)  # the lesser of u and v: (1 - q) cap / 2 with q = 2 size / root
            short = product / (cap - small)
            u, v, t, r = (cap - small, small, z + short, short) if z > 0.0 else (small, cap - small, short, short - z)
            if soft > 0.0:
                low, high = 0.0, 1.0  # u / cap, by bisection
                for _ in range(BISECTIONS):
                    part = 0.5 * (low + high)
                    excess = product / (cap - part * cap) - product / (part * cap) + soft * part * cap - z
                    low, high = (low, part) if excess > 0.0 else (part, high)
                u, v = part * cap, cap - part * cap
                t, r = product / v, product / u
        inside[0, at], inside[1, at], inside[2, at], inside[3, at] = t, r, u, v


@njit(**OPTIONS)
def weigh(scores, kinks, inside, weights, bend):
    """Fill the weights, and ``bend_i = sum_k D_ki``."""
    for i in range(scores.size):
        bend[i] = 0.0
    for first in range(0, kinks.shape[1], scores.size):
        for i in range(scores.size):
            at = first + i
            t, r, u, v = inside[0, at], inside[1, at], inside[2, at], inside[3, at]
            weights[0, at] = 1.0 / (t / v + r / u + kinks[2, at]) if u > 0.0 else 0.0
            weights[1, at] = scores[i] - kinks[0, at] - kinks[2, at] * u - t + r
            bend[i] += weights[0, at]


@njit(**OPTIONS)
def aim_at(kinks, inside, change, mu, allowed, aim):
    """Fill p and q, which aim at mu and allow for a part of the products of a step."""
    for at in range(kinks.shape[1]):
        product, bent = kinks[3, at] * mu, allowed * change[2, at]
        aim[0, at] = product - bent * change[1, at] - inside[1, at] * inside[2, at]
        aim[1, at] = product + bent * change[0, at] - inside[0, at] * inside[3, at]


@njit(**OPTIONS)
def recenter(kinks, inside, change, aim, step, mu, beyond, to):
    """Fill ``to`` with p and q that lead products back which a step makes too small or large by the factor ``beyond``.

    The change of a large product is limited: its whole excess would spoil the others (Gondzio 1996).
    """
    for at in range(kinks.shape[1]):
        product, du = kinks[3, at] * mu, step * change[2, at]
        first = (inside[1, at] + step * change[1, at]) * (inside[2, at] + du)
        second = (inside[0, at] + step * change[0, at]) * (inside[3, at] - du)
        low, high = product / beyond, product * beyond
        to[0, at] = aim[0, at] + max(min(max(first, low), high) - first, -high)
        to[1, at] = aim[1, at] + max(min(max(second, low), high) - second, -high)


@njit(**OPTIONS)
def attract(inside, weights, aim, change, pull):
    """Fill du for ``ds = 0``, and ``pull_i = sum_k du_ki``."""
    for i in range(pull.size):
        pull[i] = 0.0
    for first in range(0, inside.shape[1], pull.size):
        for i in range(pull.size):
            at, du = first + i, 0.0
            if inside[2, at] > 0.0:
                du = weights[0, at] * (weights[1, at] + aim[0, at] / inside[2, at] - aim[1, at] / inside[3, at])
            change[2, at] = du
            pull[i] += du


@njit(**OPTIONS)
def solve(inside, weights, aim, ds, change):
    """Complete what ``attract`` began: fill dt, dr and du, and return the inverse of the longest step."""
    inverse = 0.0
    for first in range(0, inside.shape[1], ds.size):
        for i in range(ds.size):
            at, dt, dr, du = first + i, 0.0, 0.0, 0.0
            t, r, u, v = inside[0, at], inside[1, at], inside[2, at], inside[3, at]
            if u > 0.0:
                du = change[2, at] + weights[0, at] * ds[i]
                dr, dt = (aim[0, at] - r * du) / u, (aim[1, at] + t * du) / v
                inverse = max(max(inverse, max(-dr / r, -dt / t)), max(-du / u, du / v))
            change[0, at], change[1, at], change[2, at] = dt, dr, du
    return inverse


@njit(**OPTIONS)
def advance(inside, change, step, to):
    """Fill the next point and return ``sum r u + t v`` there."""
    total = 0.0
    for at in range(inside.shape[1]):
        du = step * change[2, at]
        t, r = inside[0, at] + step * change[0, at], inside[1, at] + step * change[1, at]
        u, v = inside[2, at] + du, inside[3, at] - du
        total += r * u + t * v
        to[0, at], to[1, at], to[2, at], to[3, at] = t, r, u, v
    return total


@njit(**OPTIONS)
def heights(left, kinks, scores, inside, n):
    """Of the first n scores: ``sum_i f_i``, how far the plane of slopes u lies below, ``sum u z`` and ``sum v z``."""
    value, below, along_u, along_v = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        loss = left[i] * (scores[i] - kinks[0, i])
        for at in range(i, kinks.shape[1], scores.size):
            z, u, v = scores[i] - kinks[0, at], inside[2, at], inside[3, at]
            loss += kinks[1, at] * max(z, 0.0)
            below += v * max(z, 0.0) + u * max(-z, 0.0)
            along_u += u * z
            along_v += v * z
        value += loss  # loss by loss, so that nothing cancels where it is zero
    return value, below, along_u, along_v
