"""Interior point steps for sums of kinks ``sum_ki caps_ki max(0, s_i - kinks_ki)``, in one pass over the kinks each.

A kink has slopes u, v > 0 with ``u + v = cap`` and slacks t, r > 0 with ``t - r = z = s_i - kink - soft u``, where soft
is the length per slope over which a kink is rounded, zero for a sharp one.  The point is optimal where
``r u = t v = 0``; steps aim at ``r u = t v = share mu``.  With ``D = 1 / (t/v + r/u + soft)`` and a move ds of
the score, the linearized equations ``u dr + r du = p`` and ``v dt - t du = q`` have the solution

    du = D (ds + z + (p + r u) / u - (q + t v) / v),      dr = (p - r du) / u,      dt = (q + t du) / v

All arrays of kinks have the shape (K, N) and are contiguous.  A kink with cap 0 is left out.
"""

from __future__ import annotations

import math

from undercut._jit.compile import njit

BISECTIONS = 40
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**OPTIONS)
def center(scores, kinks, caps, soft, mu, share, t, r, u, v):
    """Fill slacks and slopes with ``r u = t v = share mu``, the only such point for given scores."""
    for k in range(caps.shape[0]):
        for i in range(scores.size):
            cap, z = caps[k, i], scores[i] - kinks[k, i]
            t[k, i] = r[k, i] = u[k, i] = v[k, i] = 0.0
            if cap > 0.0:
                product = share[k, i] * mu
                size = abs(z) * cap / (4.0 * product)
                root = 1.0 + math.sqrt(1.0 + 4.0 * size * size)
                small = cap / (root + 2.0 * size)  # the lesser of u and v: (1 - q) cap / 2 with q = 2 size / root
                large = cap - small
                u[k, i], v[k, i] = (large, small) if z > 0.0 else (small, large)
                short = product / large
                t[k, i], r[k, i] = (z + short, short) if z > 0.0 else (short, short - z)
                if soft[k, i] > 0.0:
                    low, high = 0.0, 1.0  # u / cap, by bisection
                    for _ in range(BISECTIONS):
                        part = 0.5 * (low + high)
                        excess = product / (cap - part * cap) - product / (part * cap) + soft[k, i] * part * cap - z
                        low, high = (low, part) if excess > 0.0 else (part, high)
                    u[k, i], v[k, i] = part * cap, cap - part * cap
                    t[k, i], r[k, i] = product / v[k, i], product / u[k, i]


@njit(**OPTIONS)
def predict(scores, kinks, caps, soft, t, r, u, v, D, bend, pull):
    """Fill D, ``bend_i = sum_k D_ki`` and ``pull_i = sum_k D_ki z_ki``, the terms of the step towards mu = 0."""
    bend[:] = 0.0
    pull[:] = 0.0
    for k in range(caps.shape[0]):
        for i in range(scores.size):
            d = 0.0
            if caps[k, i] > 0.0:
                d = 1.0 / (t[k, i] / v[k, i] + r[k, i] / u[k, i] + soft[k, i])
            D[k, i] = d
            bend[i] += d
            pull[i] += d * (scores[i] - kinks[k, i] - soft[k, i] * u[k, i])


@njit(**OPTIONS)
def reach(scores, kinks, caps, soft, t, r, u, v, D, ds):
    """Of the step towards mu = 0: the inverse of the longest step, and ``sum (dr - dt) du``."""
    inverse, bent = 1.0, 0.0
    for k in range(caps.shape[0]):
        for i in range(scores.size):
            if caps[k, i] > 0.0:
                du = D[k, i] * (ds[i] + scores[i] - kinks[k, i] - soft[k, i] * u[k, i])
                rise, fall = du / u[k, i], du / v[k, i]
                inverse = max(inverse, 1.0 + rise, 1.0 - fall, -rise, fall)
                bent += du * (t[k, i] * (1.0 - fall) - r[k, i] * (1.0 + rise))
    return inverse, bent


@njit(**OPTIONS)
def correct(scores, kinks, caps, soft, t, r, u, v, D, ds, mu, share, allowed, p, q, pull):
    """Fill p and q, which aim at mu and allow for a part of the products of the first step ds, and their pull."""
    pull[:] = 0.0
    for k in range(caps.shape[0]):
        for i in range(scores.size):
            if caps[k, i] > 0.0:
                up, down = u[k, i], v[k, i]
                z = scores[i] - kinks[k, i] - soft[k, i] * up
                du = D[k, i] * (ds[i] + z)
                product = share[k, i] * mu
                first = product + allowed * du * r[k, i] * (1.0 + du / up)
                second = product - allowed * du * t[k, i] * (1.0 - du / down)
                p[k, i] = first - r[k, i] * up
                q[k, i] = second - t[k, i] * down
                pull[i] += D[k, i] * (z + first / up - second / down)


@njit(**OPTIONS)
def recenter(scores, kinks, caps, soft, t, r, u, v, D, p, q, dt, dr, du, step, mu, beyond, share, to_p, to_q, pull):
    """Fill p and q that lead products back which a step makes too small or large by the factor ``beyond``.

    ``pull`` is theirs.  The change of a large product is limited: its whole excess would spoil the others
    (Gondzio 1996).
    """
    pull[:] = 0.0
    for k in range(caps.shape[0]):
        for i in range(scores.size):
            if caps[k, i] > 0.0:
                up, down, over, under = u[k, i], v[k, i], t[k, i], r[k, i]
                first = (under + step * dr[k, i]) * (up + step * du[k, i])
                second = (over + step * dt[k, i]) * (down - step * du[k, i])
                product = share[k, i] * mu
                low, high = product / beyond, product * beyond
                to_p[k, i] = p[k, i] + max(min(max(first, low), high) - first, -high)
                to_q[k, i] = q[k, i] + max(min(max(second, low), high) - second, -high)
                z = scores[i] - kinks[k, i] - soft[k, i] * up
                pull[i] += D[k, i] * (z + (to_p[k, i] + under * up) / up - (to_q[k, i] + over * down) / down)


@njit(**OPTIONS)
def solve(scores, kinks, caps, soft, t, r, u, v, D, p, q, ds, dt, dr, du):
    """Fill dt, dr and du for the equations p and q, and return the inverse of the longest step."""
    inverse = 0.0
    for k in range(caps.shape[0]):
        for i in range(scores.size):
            if caps[k, i] > 0.0:
                up, down, over, under = u[k, i], v[k, i], t[k, i], r[k, i]
                z = scores[i] - kinks[k, i] - soft[k, i] * up
                move = D[k, i] * (ds[i] + z + (p[k, i] + under * up) / up - (q[k, i] + over * down) / down)
                dr[k, i] = (p[k, i] - under * move) / up
                dt[k, i] = (q[k, i] + over * move) / down
                du[k, i] = move
                inverse = max(inverse, -dr[k, i] / under, -dt[k, i] / over, -move / up, move / down)
    return inverse


@njit(**OPTIONS)
def advance(caps, t, r, u, v, dt, dr, du, step, to_t, to_r, to_u, to_v):
    """Fill the next point and return ``sum r u + t v`` there."""
    total = 0.0
    for k in range(caps.shape[0]):
        for i in range(caps.shape[1]):
            if caps[k, i] > 0.0:
                to_t[k, i] = t[k, i] + step * dt[k, i]
                to_r[k, i] = r[k, i] + step * dr[k, i]
                to_u[k, i] = u[k, i] + step * du[k, i]
                to_v[k, i] = v[k, i] - step * du[k, i]
                total += to_r[k, i] * to_u[k, i] + to_t[k, i] * to_v[k, i]
            else:
                to_t[k, i] = to_r[k, i] = to_u[k, i] = to_v[k, i] = 0.0
    return total


@njit(**OPTIONS)
def heights(left, kinks, caps, scores, u, v, n):
    """Of the first n scores: ``sum_i f_i``, how far the plane of slopes u lies below, ``sum u z`` and ``sum v z``."""
    value, below, along_u, along_v = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        loss = left[i] * (scores[i] - kinks[0, i])
        for k in range(caps.shape[0]):
            z = scores[i] - kinks[k, i]
            loss += caps[k, i] * max(z, 0.0)
            below += v[k, i] * max(z, 0.0) + u[k, i] * max(-z, 0.0)
            along_u += u[k, i] * z
            along_v += v[k, i] * z
        value += loss  # loss by loss, so that nothing cancels where it is zero
    return value, below, along_u, along_v
