import numpy as np
from hypothesis import given, strategies as st

from undercut._jit.compile import njit
from undercut._jit.exponential import LEAST, exp_of_fall


@njit(error_model="numpy")
def each(x, out):
    for i in range(x.size):
        out[i] = exp_of_fall(x[i])


def exponentials(*x):
    out = np.empty(len(x))
    each(np.array(x), out)
    return out


@given(st.lists(st.floats(LEAST, 0.0), min_size=1, max_size=40))
def test_it_is_the_exponential_up_to_rounding(x):
    np.testing.assert_allclose(exponentials(*x), np.exp(np.array(x)), rtol=5e-16, atol=0.0)


def test_it_is_one_at_zero_and_zero_far_below():
    assert exponentials(0.0, -0.0, np.nextafter(LEAST, -np.inf), -1e300, -np.inf).tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_it_keeps_what_is_no_number():
    assert np.isnan(exponentials(np.nan))[0]
