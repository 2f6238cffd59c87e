"""Worst rankings of relevant and irrelevant documents."""

from __future__ import annotations

import numpy as np
import pytest

from undercut._jit.interleave import worst_average_precision


def slopes_of(good, bad):
    scores, slopes, loss = np.concatenate([good, bad]), np.empty(good.size + bad.size), np.empty(1)
    worst_average_precision(np.array([0, scores.size]), np.array([good.size]), scores, slopes, loss)
    return slopes


@pytest.mark.parametrize("far", [1e8, 1e12, 1e14])
@pytest.mark.parametrize("seed", range(5))
def test_one_far_score_does_not_move_the_other_documents(far, seed):
    rng = np.random.default_rng(seed)
    good, bad = (np.sort(0.3 * rng.standard_normal(n))[::-1].copy() for n in (60, 80))
    good[0] = 1e3
    near = slopes_of(good, bad)
    good[0] = far
    assert np.array_equal(slopes_of(good, bad), near)
