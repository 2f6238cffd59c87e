"""Paths of lambda on a sample of RCV1 (CCAT), with L1 and with L2, every point certified and started from the last one.

    J(w) = lam |w|_1  or  lam/2 |w|^2,   + 1/n sum_i l(y_i <w, x_i>),        C = 1 / (n lam) in LIBLINEAR's notation

LIBLINEAR's L1 knows the squared hinge and the logistic loss, no hinge, so it is compared on those.  It has no
certificate; its excess is measured against our lower bound, which holds for its solution as well, so most of it is
our own gap.  Every LIBLINEAR run starts from zero, as it must.  A run of ours that meets its time limit says so by its
gap.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from common import DataMissing, Table, data_path, load, print_machine, warm_up
from undercut import (
    L1,
    L2,
    Hinge,
    LevelBundle,
    LinearRisk,
    LineSearchBundle,
    Logistic,
    Result,
    SquaredHinge,
    Stop,
    minimize,
)
from undercut.contracts import Loss, Regularizer
from undercut.io import load_svmlight

NAME = "rcv1-sample"
LAMBDAS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
LOSSES: dict[str, Loss] = {"squared hinge": SquaredHinge(), "logistic": Logistic(), "hinge": Hinge()}
PENALTIES: dict[str, type[Regularizer]] = {"L1": L1, "L2": L2}


@dataclass(frozen=True)
class Data:
    X: sp.csr_matrix
    y: np.ndarray
    X_test: sp.csr_matrix
    y_test: np.ndarray

    def error(self, w: np.ndarray) -> float:
        """Share of the test samples on the wrong side."""
        return float(np.mean(self.y_test * (self.X_test @ w) <= 0.0))


def load_all() -> Data:
    X, y = load(NAME)
    path = data_path(NAME)
    X_test, y_test, _ = load_svmlight(path.with_name(path.name.replace(".bz2", ".t.bz2")), n_features=X.shape[1])
    return Data(X, y, X_test, np.where(y_test == 1, 1.0, -1.0))


def path(risk: LinearRisk, penalty: str, gap: float, max_seconds: float) -> Iterator[tuple[float, Result]]:
    """The solutions from the largest lambda to the smallest; each starts where the last one ended."""
    solver = LevelBundle() if penalty == "L1" else LineSearchBundle()
    w = None
    for lam in LAMBDAS:
        stop = Stop(gap_rel=gap, max_seconds=max_seconds)
        result = minimize(risk, PENALTIES[penalty](lam), solver, w0=w, stop=stop)
        w = result.w
        yield lam, result


def liblinear(data: Data, loss: str, penalty: str, lam: float) -> tuple[np.ndarray, float]:
    """Its weights and its time, at scikit-learn's default tolerance."""
    C, kind = 1.0 / (data.y.size * lam), penalty.lower()
    if loss == "logistic":
        ratio = {"l1": 1.0, "l2": 0.0}[kind]
        model = LogisticRegression(C=C, l1_ratio=ratio, solver="liblinear", fit_intercept=False, max_iter=1000)
    else:
        dual = loss == "hinge"
        name = loss.replace(" ", "_")
        model = LinearSVC(C=C, penalty=kind, loss=name, dual=dual, fit_intercept=False, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        began = time.perf_counter()
        model.fit(data.X, data.y)
        return model.coef_.ravel(), time.perf_counter() - began


def peer(data: Data, risk: LinearRisk, loss: str, penalty: str, lam: float, bound: float) -> list[str]:
    """LIBLINEAR's excess over our bound, nonzeros, test error and time."""
    if (loss, penalty) == ("hinge", "L1"):
        return ["-"] * 4
    w, seconds = liblinear(data, loss, penalty, lam)
    objective = PENALTIES[penalty](lam).value(w) + risk.value(w)
    error = f"{100.0 * data.error(w):.2f}"
    return [f"{objective / bound - 1.0:.1e}", str(np.count_nonzero(w)), error, f"{seconds:.2f}"]


def table(data: Data, loss: str, penalty: str, gap: float, max_seconds: float) -> None:
    ours = ["lambda", "objective", "relative gap", "nonzeros", "test error %", "steps", "seconds"]
    theirs = [f"LIBLINEAR's {what}" for what in ("excess", "nonzeros", "test error %", "seconds")]
    rows = Table(f"{penalty}, {loss}", ours + theirs)
    risk, total = LinearRisk(data.X, data.y, LOSSES[loss]), 0.0
    for lam, result in path(risk, penalty, gap, max_seconds):
        seconds = result.trace[-1].seconds
        total += seconds
        cells = [
            f"{lam:g}",
            f"{result.objective:.6f}",
            f"{result.gap / result.objective:.1e}",
            np.count_nonzero(result.w),
            f"{100.0 * data.error(result.w):.2f}",
            result.n_steps,
            f"{seconds:.2f}",
        ]
        rows.row(*cells, *peer(data, risk, loss, penalty, lam, result.lower_bound))
    print(f"\nwhole path: {total:.1f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gap", type=float, default=1e-3, help="relative gap of every point")
    parser.add_argument("--max-seconds", type=float, default=30.0, help="for every point")
    args = parser.parse_args()
    try:
        data = load_all()
    except DataMissing as reason:
        print(f"{Path(__file__).name} skipped: {reason}")
        return 1
    print_machine()
    warm_up()
    for penalty in PENALTIES:
        for loss in LOSSES:
            table(data, loss, penalty, args.gap, args.max_seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
