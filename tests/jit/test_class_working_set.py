"""Coordinate descent over the classes of a feature: what it leaves out must not matter."""

from __future__ import annotations

import numpy as np
import pytest

from undercut._jit.class_working_set import SWEEPS, bends, descend


def plain_move(slopes, bend, l1, l2, w):
    """All sweeps over all classes of one feature, without shortcuts."""
    *a, total, ridge = bend
    w, change = w.copy(), np.zeros_like(w)
    for _ in range(SWEEPS):
        for k in range(w.size):
            curvature = a[k] + ridge - a[k] ** 2 / total
            slope = slopes[k] + (a[k] + ridge) * change[k] - a[k] * np.dot(a, change) / total
            force = curvature * w[k] - slope
            best = np.sign(force) * max(abs(force) - l1, 0.0) / (curvature + l2)
            change[k] += best - w[k]
            w[k] = best
    return w


@pytest.mark.parametrize("l1", [0.0, 0.01, 0.05, 1.0])
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_a_feature_moves_as_in_sweeps_over_all_classes(l1, l2):
    rng = np.random.default_rng(0)
    n, n_classes = 30, 6
    P, weight, ridge = rng.dirichlet(np.ones(n_classes), n), np.full(n, 1.0 / n), np.full(n, 0.001)
    column = np.array([0, n]), np.arange(n, dtype=np.int32), rng.standard_normal(n)
    slopes = 0.05 * rng.standard_normal((1, n_classes))
    bend = np.zeros((1, n_classes + 2))
    bends(*column, P, weight, ridge, bend)
    W = np.where(rng.random((1, n_classes)) < 0.5, rng.standard_normal((1, n_classes)), 0.0)
    expected = plain_move(slopes[0], bend[0], l1, l2, W[0])
    Z = np.zeros((n, n_classes))
    start = W.copy()
    descend(*column, P, weight, ridge, Z, slopes, bend, l1, l2, W, np.array([0]))
    np.testing.assert_allclose(W[0], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(Z, np.outer(column[2], (W - start)[0]), atol=1e-12)
