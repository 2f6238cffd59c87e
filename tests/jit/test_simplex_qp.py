import numpy as np

from undercut._jit.simplex_qp import solve_warm


def test_a_support_that_is_full_takes_no_other_plane():
    H, b = np.eye(2), np.array([0.0, 1.0])
    alpha, room = np.array([1.0, 0.0]), np.array([0, 7])
    L, p, q, shift = np.eye(2) * np.sqrt(2.0), np.zeros(2), np.full(2, np.sqrt(0.5)), 1.0
    size, residual, _, _ = solve_warm(H, b, np.arange(2), alpha, room[:1], 1, L, p, q, shift, 1e-9, 10)
    assert size == 1
    assert residual > 0.0
    assert room.tolist() == [0, 7]
