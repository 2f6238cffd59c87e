"""``crossing`` against a sort: the first t where a non-decreasing piecewise-linear function reaches zero."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from undercut._jit.crossing import SMALL, crossing

SIZES = [0, 1, 2, SMALL - 1, SMALL, SMALL + 1, 2 * SMALL + 3, 1000, 5000]
LAYOUTS = ["random", "ties", "equal", "ascending", "descending", "organ_pipe", "periodic", "clustered"]


def by_sorting(kinks, jumps, slope, curvature, low):
    """The definition, kink by kink; exact where all sums are."""
    last = -math.inf
    for t in np.unique(kinks):
        if slope + curvature * t >= 0.0:
            return max(-slope / curvature if curvature > 0.0 else last, low)
        slope += jumps[kinks == t].sum()
        last = t
        if slope + curvature * t >= 0.0:
            return max(t, low)
    if curvature > 0.0:
        return max(-slope / curvature, low)
    return math.inf


def draw_kinks(layout: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Multiples of 1/64, so that no sum below is rounded."""
    kinks = rng.integers(-6400, 6400, n) / 64.0
    if layout == "ties":
        kinks = rng.integers(-2, 3, n).astype(np.float64)
    elif layout == "equal":
        kinks = np.full(n, 1.5)
    elif layout == "ascending":
        kinks.sort()
    elif layout == "descending":
        kinks = -np.sort(-kinks)
    elif layout == "organ_pipe":
        kinks.sort()
        kinks = np.concatenate([kinks[::2], kinks[1::2][::-1]])
    elif layout == "periodic":  # in step with the stride of any sample
        kinks = (np.arange(n) % max(1, n // 61)).astype(np.float64)
    elif layout == "clustered":  # one far away, all others close together
        kinks = 50.0 + rng.integers(0, 4, n) / 64.0
        kinks[: n // 100 + 1] = -99.0
    return kinks


@st.composite
def arguments(draw):
    n, layout = draw(st.sampled_from(SIZES) | st.integers(0, 600)), draw(st.sampled_from(LAYOUTS))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kinks = draw_kinks(layout, n, rng)
    jumps = rng.integers(0, draw(st.sampled_from([1, 2, 9])), n).astype(np.float64)
    share = draw(st.sampled_from([0.0, 0.01, 0.5, 0.99, 1.0, 1.5]))
    slope = min(-float(math.ceil(share * jumps.sum())) + draw(st.sampled_from([0.0, 1.0])), -1.0)
    curvature = draw(st.sampled_from([0.0, 0.0, 2.0**-10, 1.0, 64.0]))
    low = draw(st.sampled_from([-math.inf, 0.0]))
    return kinks, jumps, slope, curvature, low


@given(arguments())
def test_agrees_with_a_sort(case):
    kinks, jumps, slope, curvature, low = case
    expected = by_sorting(kinks, jumps, slope, curvature, low)
    assert crossing(kinks.copy(), jumps.copy(), slope, curvature, low) == expected


@pytest.mark.parametrize("n", [0, 1, 500])
@pytest.mark.parametrize("curvature", [0.0, 1.0])
@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_a_function_that_is_nowhere_negative_crosses_at_the_low_end(n, curvature, slope):
    assert crossing(np.ones(n), np.ones(n), slope, curvature, 0.0) == 0.0


@pytest.mark.parametrize("n", [0, 1, SMALL + 1, 3000])
@pytest.mark.parametrize("low", [-math.inf, 0.0])
def test_a_function_that_stays_negative_never_crosses(n, low, rng):
    assert crossing(rng.standard_normal(n), np.ones(n), -n - 1.0, 0.0, low) == math.inf


@pytest.mark.parametrize("n", [100, 1000])
def test_every_kink_can_be_the_crossing(n, rng):
    kinks = rng.permutation(n).astype(np.float64)
    for k in range(n):
        assert crossing(kinks.copy(), np.ones(n), -k - 0.5, 0.0, -math.inf) == k


@given(st.integers(129, 3000), st.integers(0, 2**32), st.sampled_from([0.0, 1e-9, 0.3]))
def test_rounding_moves_the_crossing_by_no_more_than_rounding(n, seed, curvature):
    """With weights that are not exact the sums depend on their order; just before t s is not positive, at t not
    negative, up to that."""
    rng = np.random.default_rng(seed)
    kinks, jumps = rng.standard_normal(n), rng.random(n) * 10.0 ** rng.uniform(-8, 0, n)
    jumps /= jumps.sum()
    slope = -jumps[kinks <= np.quantile(kinks, rng.random())].sum()  # reaches zero exactly, if sums were exact
    t = crossing(kinks.copy(), jumps.copy(), slope, curvature, -math.inf)
    before = slope + curvature * t + jumps[kinks < t].sum()
    after = slope + curvature * t + jumps[kinks <= t].sum()
    assert math.isfinite(t)
    assert before <= 1e-13
    assert after >= -1e-13


def test_a_balance_that_rounding_hides_is_found_all_the_same():
    """Where s reaches zero exactly, sums in different orders disagree about its sign; the kink is still there."""
    for seed in range(3000):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(SMALL + 1, 700))
        kinks = rng.standard_normal(n)
        jumps = rng.random(n) if seed % 2 else np.ones(n)
        jumps /= jumps.sum()
        balanced = np.sort(kinks)[int(rng.integers(0, n - 1))]
        slope = -float(jumps[kinks <= balanced].sum())
        t = crossing(kinks.copy(), jumps.copy(), slope, 0.0, -math.inf)
        assert slope + jumps[kinks < t].sum() <= 1e-13, (seed, t)
        assert slope + jumps[kinks <= t].sum() >= -1e-13, (seed, t)
        assert math.isfinite(t), (seed, t)
