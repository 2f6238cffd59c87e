"""Test problems for non-smooth optimization in any dimension (Haarala, Miettinen and Mäkelä 2004, Sec. 4).

Each is a function with a standard start and, where a formula or a table gives it, the known minimum.  Tests and
benchmarks share them; a user can try a solver on them:

>>> from undercut import L2, NonconvexBundle, minimize
>>> problem = PROBLEMS["chained_crescent_2"]
>>> risk, w0 = problem.risk(100), problem.start(100)
>>> result = minimize(risk, L2(1.0, center=w0), NonconvexBundle(line_search="greedy"), w0=w0)
>>> result.status.name, bool(result.objective < 153)
('CONVERGED', True)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.linalg import hankel

from undercut.errors import require
from undercut.risks import FunctionRisk
from undercut.types import FloatArray

Values = tuple[float, FloatArray]
Pieces = tuple[FloatArray, list[tuple[FloatArray, FloatArray]]]  # values, one row per piece, and derivatives


@dataclass(frozen=True)
class Problem:
    """A function of w of any length of at least 2."""

    name: str
    formula: Callable[[FloatArray], Values]
    start: Callable[[int], FloatArray]
    minimum: Callable[[int], float]  # NaN where it is not known
    convex: bool

    def risk(self, n_params: int) -> FunctionRisk:
        """The function as a risk."""
        require(n_params >= 2, "`n_params` must be at least 2", n_params)
        return FunctionRisk(self.fun, n_params, convex=self.convex)

    def fun(self, w: FloatArray) -> Values:
        """Value and subgradient; far out they overflow, and say so by not being finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.formula(w)


def _chained(slopes_left: FloatArray, slopes_right: FloatArray) -> FloatArray:
    """The gradient of ``sum_i f(w_i, w_{i+1})`` from the derivatives of its terms."""
    gradient = np.zeros(slopes_left.size + 1)
    gradient[:-1] = slopes_left
    gradient[1:] += slopes_right
    return gradient


def _sum_of_largest(pieces: Pieces) -> Values:
    """``sum_i max_k f_k(w_i, w_{i+1})``."""
    values, slopes = pieces
    active = values.argmax(axis=0)
    at = np.arange(active.size)
    left, right = (np.stack(rows)[active, at] for rows in zip(*slopes, strict=True))
    return float(values[active, at].sum()), _chained(left, right)


def _largest_sum(pieces: Pieces) -> Values:
    """``max_k sum_i f_k(w_i, w_{i+1})``."""
    values, slopes = pieces
    sums = values.sum(axis=1)
    return float(sums.max()), _chained(*slopes[int(sums.argmax())])


def _maxq(w: FloatArray) -> Values:
    """``max_i w_i^2``."""
    at = int(np.abs(w).argmax())
    gradient = np.zeros_like(w)
    gradient[at] = 2.0 * w[at]
    return float(w[at] ** 2), gradient


@cache
def _hilbert(n: int) -> FloatArray:
    matrix: FloatArray = hankel(1.0 / np.arange(1, n + 1), 1.0 / np.arange(n, 2 * n))
    return matrix


def _mxhilb(w: FloatArray) -> Values:
    """``max_i |sum_j w_j / (i + j - 1)|``."""
    rows = _hilbert(w.size)
    sums = rows @ w
    at = int(np.abs(sums).argmax())
    return float(abs(sums[at])), math.copysign(1.0, sums[at]) * rows[at]


def _chained_lq(w: FloatArray) -> Values:
    """``sum_i max(-w_i - w_{i+1}, -w_i - w_{i+1} + w_i^2 + w_{i+1}^2 - 1)``."""
    x, y = w[:-1], w[1:]
    ones = np.ones_like(x)
    values = np.stack([-x - y, -x - y + x**2 + y**2 - 1.0])
    return _sum_of_largest((values, [(-ones, -ones), (2.0 * x - 1.0, 2.0 * y - 1.0)]))


def _cb3(w: FloatArray) -> Pieces:
    """``w_i^4 + w_{i+1}^2``, ``(2 - w_i)^2 + (2 - w_{i+1})^2`` and ``2 exp(w_{i+1} - w_i)``."""
    x, y = w[:-1], w[1:]
    growth = 2.0 * np.exp(y - x)
    values = np.stack([x**4 + y**2, (2.0 - x) ** 2 + (2.0 - y) ** 2, growth])
    return values, [(4.0 * x**3, 2.0 * y), (2.0 * x - 4.0, 2.0 * y - 4.0), (-growth, growth)]


def _active_faces(w: FloatArray) -> Values:
    """``max(g(-sum_i w_i), g(w_1), ..., g(w_n))`` with ``g(s) = log(|s| + 1)``."""
    total, at = float(w.sum()), int(np.abs(w).argmax())
    gradient = np.zeros_like(w)
    if abs(total) > abs(w[at]):
        gradient[:] = np.sign(total) / (abs(total) + 1.0)
        return math.log1p(abs(total)), gradient
    gradient[at] = np.sign(w[at]) / (abs(w[at]) + 1.0)
    return math.log1p(abs(float(w[at]))), gradient


def _power(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """``|x|^(y^2 + 1)`` and its derivatives."""
    size, exponent = np.abs(x), y**2 + 1.0
    value = size**exponent
    log = np.log(np.where(size > 0.0, size, 1.0))
    return value, exponent * np.sign(x) * size ** (exponent - 1.0), 2.0 * y * log * value


def _brown_2(w: FloatArray) -> Values:
    """``sum_i |w_i|^(w_{i+1}^2 + 1) + |w_{i+1}|^(w_i^2 + 1)``."""
    x, y = w[:-1], w[1:]
    first, first_x, first_y = _power(x, y)
    second, second_y, second_x = _power(y, x)
    return float(first.sum() + second.sum()), _chained(first_x + second_x, first_y + second_y)


def _mifflin_2(w: FloatArray) -> Values:
    """``sum_i -w_i + 2 q_i + 1.75 |q_i|`` with ``q_i = w_i^2 + w_{i+1}^2 - 1``."""
    x, y = w[:-1], w[1:]
    q = x**2 + y**2 - 1.0
    bend = np.where(q >= 0.0, 7.5, 0.5)  # 2 (2 +- 1.75)
    return float((2.0 * q + 1.75 * np.abs(q) - x).sum()), _chained(bend * x - 1.0, bend * y)


def _crescent(w: FloatArray) -> Pieces:
    """``w_i^2 + (w_{i+1} - 1)^2 + w_{i+1} - 1`` and ``-w_i^2 - (w_{i+1} - 1)^2 + w_{i+1} + 1``."""
    x, y = w[:-1], w[1:]
    q = x**2 + (y - 1.0) ** 2
    values = np.stack([q + y - 1.0, -q + y + 1.0])
    return values, [(2.0 * x, 2.0 * y - 1.0), (-2.0 * x, 3.0 - 2.0 * y)]


def _all(value: float) -> Callable[[int], FloatArray]:
    return lambda n: np.full(n, value)


def _alternating(odd: float, even: float) -> Callable[[int], FloatArray]:
    return lambda n: np.where(np.arange(n) % 2 == 0, odd, even)


def _ramp_start(n: int) -> FloatArray:
    """1, ..., n/2, -(n/2 + 1), ..., -n."""
    i = np.arange(1.0, n + 1.0)
    return np.where(i <= n // 2, i, -i)


def _zero(n: int) -> float:
    return 0.0


MIFFLIN_2 = {50: -34.795, 200: -140.86, 1000: -706.55}  # the minima that are published

PROBLEMS: dict[str, Problem] = {
    problem.name: problem
    for problem in (
        Problem("maxq", _maxq, _ramp_start, _zero, True),
        Problem("mxhilb", _mxhilb, np.ones, _zero, True),
        Problem("chained_lq", _chained_lq, _all(-0.5), lambda n: -(n - 1) * math.sqrt(2.0), True),
        Problem("chained_cb3_1", lambda w: _sum_of_largest(_cb3(w)), _all(2.0), lambda n: 2.0 * (n - 1), True),
        Problem("chained_cb3_2", lambda w: _largest_sum(_cb3(w)), _all(2.0), lambda n: 2.0 * (n - 1), True),
        Problem("active_faces", _active_faces, np.ones, _zero, False),
        Problem("brown_2", _brown_2, _alternating(-1.0, 1.0), _zero, False),
        Problem("chained_mifflin_2", _mifflin_2, _all(-1.0), lambda n: MIFFLIN_2.get(n, math.nan), False),
        Problem("chained_crescent_1", lambda w: _largest_sum(_crescent(w)), _alternating(-1.5, 2.0), _zero, False),
        Problem("chained_crescent_2", lambda w: _sum_of_largest(_crescent(w)), _alternating(-1.5, 2.0), _zero, False),
    )
}
