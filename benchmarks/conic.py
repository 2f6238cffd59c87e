"""The small problems as conic programs, for Clarabel and HiGHS.

    min_x  1/2 x' diag(squares) x + cost' x        where  b - A x  lies in a product of cones

x begins with w and a free intercept; every loss and penalty adds variables of its own.
"""

from __future__ import annotations

from typing import Any

import clarabel
import highspy
import numpy as np
import scipy.sparse as sp

ZERO, POSITIVE, EXPONENTIAL, POWER = range(4)  # in the order of the rows
TIGHT = 1e-12


class Program:
    """A program that grows by blocks of variables and of rows."""

    def __init__(self, X: np.ndarray, *, fit_intercept: bool) -> None:
        n, d = X.shape
        self.n, self.d, self.size = n, d, d + fit_intercept
        self.cost, self.squares = [np.zeros(self.size)], [np.zeros(self.size)]
        self.scores = np.hstack([X, np.ones((n, 1))]) if fit_intercept else X
        self.rows: list[list[tuple[list[Any], np.ndarray]]] = [[], [], [], []]

    def variables(self, count: int, cost: Any = 0.0, squares: Any = 0.0) -> np.ndarray:
        """The numbers of new variables."""
        self.cost.append(np.full(count, cost))
        self.squares.append(np.full(count, squares))
        self.size += count
        return np.arange(self.size - count, self.size)

    def require(self, cone: int, *terms: Any, at: Any = 0.0) -> None:
        """Rows ``sum of terms + at`` in a cone.

        A term is ``(factors, variables)``, or ``factors`` alone: of the scores.  A single row holds sums of variables.
        """
        first = self.n if not isinstance(terms[0], tuple) else np.size(terms[0][1])
        self.rows[cone].append((list(terms), np.full(first, at) if np.ndim(at) == 0 else np.asarray(at)))

    def matrices(self) -> tuple[sp.csc_matrix, np.ndarray, sp.csc_matrix, np.ndarray]:
        """P, the cost, A and b."""
        values, rows, columns, limits, start = [], [], [], [], 0
        for kind, blocks in enumerate(self.rows):
            stride = 3 if kind >= EXPONENTIAL else 1  # the rows of a cone of three stand together
            groups = [blocks[at : at + stride] for at in range(0, len(blocks), stride)]
            for group in groups:
                count = group[0][1].size
                limit = np.empty(stride * count)
                for at, (terms, constant) in enumerate(group):
                    own = start + at + stride * np.arange(count)
                    limit[at::stride] = constant
                    for term in terms:
                        factors, where = term if isinstance(term, tuple) else (term, None)
                        if where is None:
                            block = -np.broadcast_to(factors, (self.n,))[:, None] * self.scores
                            i, j = np.nonzero(block)
                            values.append(block[i, j])
                            rows.append(own[i])
                            columns.append(j)
                        else:
                            entries = (max(count, np.size(where)),)
                            values.append(-np.broadcast_to(factors, entries))
                            rows.append(np.broadcast_to(own, entries))
                            columns.append(np.broadcast_to(where, entries))
                limits.append(limit)
                start += stride * count
        A = sp.csc_matrix(
            (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(start, self.size)
        )
        squares = np.concatenate(self.squares)
        used = np.flatnonzero(squares)
        indptr = np.searchsorted(used, np.arange(self.size + 1))
        P = sp.csc_matrix((squares[used], used, indptr), shape=(self.size, self.size))
        return P, np.concatenate(self.cost), A, np.concatenate(limits)

    def count(self, cone: int) -> int:
        return sum(constant.size for _, constant in self.rows[cone])


def conic_program(loss: str, penalty: str, X: np.ndarray, y: np.ndarray, lam: float, *, fit_intercept: bool) -> Program:
    program = Program(X, fit_intercept=fit_intercept)
    LOSSES[loss](program, y)
    PENALTIES[penalty](program, lam, np.arange(X.shape[1]))
    return program


def clarabel_solution(program: Program, parts: Any, accuracy: float) -> np.ndarray | None:
    """w by Clarabel from ``program.matrices()``; ``None`` where it fails."""
    cones = []
    if count := program.count(ZERO):
        cones.append(clarabel.ZeroConeT(count))
    if count := program.count(POSITIVE):
        cones.append(clarabel.NonnegativeConeT(count))
    cones += [clarabel.ExponentialConeT()] * (program.count(EXPONENTIAL) // 3)
    cones += [clarabel.PowerConeT(2.0 / 3.0)] * (program.count(POWER) // 3)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs, settings.tol_gap_rel, settings.tol_feas = TIGHT, accuracy, min(accuracy, 1e-8)
    found = clarabel.DefaultSolver(*parts, cones, settings).solve()
    return np.array(found.x[: program.d]) if str(found.status) == "Solved" else None


def highs_solution(program: Program, parts: Any) -> np.ndarray | None:
    """w by HiGHS, of a linear program; ``None`` where it fails."""
    _, cost, A, b = parts
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = program.size, b.size
    lp.col_cost_ = cost
    lp.col_lower_, lp.col_upper_ = np.full(cost.size, -highspy.kHighsInf), np.full(cost.size, highspy.kHighsInf)
    lp.row_lower_, lp.row_upper_ = np.full(b.size, -highspy.kHighsInf), b
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = A.indptr, A.indices, A.data
    solver.passModel(lp)
    solver.run()
    is_solved = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return np.array(solver.getSolution().col_value[: program.d]) if is_solved else None


def _above(program: Program, y: np.ndarray, pieces: tuple[tuple[Any, Any], ...], **cost: Any) -> np.ndarray:
    """Variables e with ``e >= factor s + constant`` for every piece."""
    e = program.variables(program.n, **cost)
    for factor, constant in pieces:
        program.require(POSITIVE, (1.0, e), -factor * np.ones(program.n), at=-constant * np.ones(program.n))
    return e


def _hinge(program: Program, y: np.ndarray) -> None:
    e = _above(program, y, ((-y, 1.0),), cost=1.0 / program.n)
    program.require(POSITIVE, (1.0, e))


def _squared_hinge(program: Program, y: np.ndarray) -> None:
    _above(program, y, ((-y, 1.0),), squares=2.0 / program.n)


def _huber_hinge(program: Program, y: np.ndarray) -> None:
    """``p^2/2 + e`` with ``p + e >= 1.5 - y s`` and ``e >= 0``."""
    p, e = program.variables(program.n, squares=1.0 / program.n), program.variables(program.n, cost=1.0 / program.n)
    program.require(POSITIVE, (1.0, p), (1.0, e), y, at=-1.5)
    program.require(POSITIVE, (1.0, e))


def _logistic(program: Program, y: np.ndarray) -> None:
    """``t`` with ``exp(-y s - t) + exp(-t) <= 1``."""
    n = program.n
    t, one, two = program.variables(n, cost=1.0 / n), program.variables(n), program.variables(n)
    program.require(POSITIVE, (-1.0, one), (-1.0, two), at=1.0)
    for terms, z in (((-y, (-1.0, t)), one), (((-1.0, t),), two)):
        program.require(EXPONENTIAL, *terms)
        program.require(EXPONENTIAL, (0.0, t), at=1.0)
        program.require(EXPONENTIAL, (1.0, z))


def _exponential(program: Program, y: np.ndarray) -> None:
    _exponentials(program, -y)


def _exponentials(program: Program, sign: np.ndarray) -> None:
    """``t >= exp(sign s)``."""
    t = program.variables(program.n, cost=1.0 / program.n)
    program.require(EXPONENTIAL, sign)
    program.require(EXPONENTIAL, (0.0, t), at=1.0)
    program.require(EXPONENTIAL, (1.0, t))


def _poisson(program: Program, y: np.ndarray) -> None:
    _exponentials(program, np.ones(program.n))
    program.cost[0] = program.cost[0] - y @ program.scores / program.n


def _squared(program: Program, y: np.ndarray) -> None:
    r = program.variables(program.n, squares=1.0 / program.n)
    program.require(ZERO, (-1.0, r), 1.0, at=-y)


def _absolute(program: Program, y: np.ndarray) -> None:
    _above(program, y, ((1.0, -y), (-1.0, y)), cost=1.0 / program.n)


def _epsilon_insensitive(program: Program, y: np.ndarray) -> None:
    e = _above(program, y, ((1.0, -y - 0.1), (-1.0, y - 0.1)), cost=1.0 / program.n)
    program.require(POSITIVE, (1.0, e))


def _quantile(program: Program, y: np.ndarray) -> None:
    _above(program, y, ((0.5, -0.5 * y), (-0.5, 0.5 * y)), cost=1.0 / program.n)


def _huber(program: Program, y: np.ndarray) -> None:
    """``p^2/2 + 1.35 (up + down)`` with ``s - y = p + up - down``."""
    n = program.n
    p = program.variables(n, squares=1.0 / n)
    up, down = program.variables(n, cost=1.35 / n), program.variables(n, cost=1.35 / n)
    program.require(ZERO, (-1.0, p), (-1.0, up), (1.0, down), 1.0, at=-y)
    program.require(POSITIVE, (1.0, up))
    program.require(POSITIVE, (1.0, down))


def _l2(program: Program, lam: float, which: np.ndarray) -> None:
    program.squares[0][which] += lam


def _l1(program: Program, lam: float, which: np.ndarray) -> None:
    size = program.variables(which.size, cost=lam)
    for sign in (1.0, -1.0):
        program.require(POSITIVE, (1.0, size), (sign, which))


def _elastic_net(program: Program, lam: float, which: np.ndarray) -> None:
    _l1(program, 0.5 * lam, which)
    _l2(program, 0.5 * lam, which)


def _l2_positive(program: Program, lam: float, which: np.ndarray) -> None:
    _l2(program, lam, which)
    program.require(POSITIVE, (1.0, which))


def _l1_in_a_box(program: Program, lam: float, which: np.ndarray) -> None:
    _l1(program, lam, which)
    program.require(POSITIVE, (1.0, which), at=0.5)
    program.require(POSITIVE, (-1.0, which), at=1.0)


def _entropy(program: Program, lam: float, which: np.ndarray) -> None:
    """``t`` with ``w exp(-t / w) <= 1 / d``."""
    t = program.variables(which.size, cost=lam)
    program.require(ZERO, (1.0, which), at=-np.ones(1))
    program.require(EXPONENTIAL, (-1.0, t))
    program.require(EXPONENTIAL, (1.0, which))
    program.require(EXPONENTIAL, (0.0, t), at=1.0 / which.size)


def _squared_lp(program: Program, lam: float, which: np.ndarray) -> None:
    """``norm^2 / 2`` with ``|w_j| <= r_j^(2/3) norm^(1/3)`` and ``sum r = norm``."""
    norm, r = program.variables(1, squares=lam), program.variables(which.size)
    program.require(ZERO, (1.0, r), (-1.0, norm), at=np.zeros(1))
    program.require(POWER, (1.0, r))
    program.require(POWER, (1.0, norm), at=np.zeros(which.size))
    program.require(POWER, (1.0, which))


def _blocks(program: Program, lam: float, which: np.ndarray) -> None:
    _l1(program, lam, which[: which.size // 2])
    _l2(program, lam, which[which.size // 2 :])


LOSSES = {
    "hinge": _hinge,
    "squared_hinge": _squared_hinge,
    "huber_hinge": _huber_hinge,
    "logistic": _logistic,
    "exponential": _exponential,
    "squared": _squared,
    "absolute": _absolute,
    "epsilon_insensitive": _epsilon_insensitive,
    "quantile": _quantile,
    "huber": _huber,
    "poisson": _poisson,
}
PENALTIES = {
    "L2": _l2,
    "L1": _l1,
    "elastic net": _elastic_net,
    "L2, w >= 0": _l2_positive,
    "L1 in a box": _l1_in_a_box,
    "entropy": _entropy,
    "squared 1.5-norm": _squared_lp,
    "L1 and L2 blocks": _blocks,
}
