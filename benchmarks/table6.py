"""Table 6 of Do and Artières (2012): a transductive support vector machine for the digits 3 and 8 of MNIST.

PCA on the 11982 training images, 200 of them labelled, lambda = 0.01, no intercept; every method starts from the
support vector machine of the labelled samples.  The paper says neither how many components it kept, nor how they were
scaled, nor which samples were labelled.  Here it is 50 components at a quarter of their size, where the objectives come
out as printed for every gamma, and several random splits, whose mean and standard deviation are shown.  Expected:

    a test error below the supervised one's for every gamma up to 20;
    evaluations no more than the paper's in most rows of NRBMLS.

The paper gives no tolerance for this table; its rule elsewhere is a gap of 0.1 %.  Rows are to a gap of 1 % and
of 0.1 %.

The step size of the subgradient method is the best of three by its objective, at every gamma and split.  CCCP solves
its inner problems by ``NonconvexBundle``, as in the paper, so that evaluations count alike; the default inner solver
has an exact line search, and counts that as one evaluation.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from common import DataMissing, Table, data_path, print_machine, warm_up
from undercut import L2, Hinge, LinearRisk, NonconvexBundle, Stop, minimize
from undercut.contracts import Solver
from undercut.io import load_svmlight
from undercut.risks import TransductiveRisk
from undercut.solvers import ClassicBundle, ConvexConcave, Subgradient

LAM, N_LABELLED, SCALE = 0.01, 200, 0.25
GAMMAS = (1, 2, 5, 10, 20, 50)
GAPS = (1e-2, 1e-3)
METHODS: dict[str, list[Solver]] = {
    "NRBMLS": [NonconvexBundle(line_search="greedy")],
    "NBM": [ClassicBundle()],
    "CCCP": [ConvexConcave(inner=NonconvexBundle(line_search="greedy"))],
    "SG": [Subgradient(step_size=size, n_steps=500) for size in (0.1, 0.5, 2.0)],
}
# Evaluations, objective and test error as printed; the supervised error there is 0.0776.
PAPER = {
    "NRBMLS": [(24, 0.26, 0.057), (21, 0.35, 0.055), (25, 0.55, 0.051), (39, 0.81, 0.049), (90, 1.20, 0.048),
               (41, 2.19, 0.084)],
    "NBM": [(113, 0.26, 0.058), (59, 0.35, 0.054), (197, 0.55, 0.051), (57, 0.81, 0.051), (104, 1.20, 0.051),
            (193, 2.00, 0.054)],
    "CCCP": [(181, 0.26, 0.057), (206, 0.36, 0.054), (375, 0.57, 0.057), (680, 0.86, 0.056), (1083, 1.72, 0.122),
             (151, 9.38, 0.548)],
    "SG": [(500, 0.26, 0.057), (500, 0.35, 0.054), (500, 0.61, 0.051), (500, 1.62, 0.401), (500, 2.37, 0.476),
           (500, 3.60, 0.505)],
}  # fmt: skip


@dataclass(frozen=True)
class Digits:
    """3 against 8 in the coordinates of the principal components."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def error(self, w: np.ndarray) -> float:
        return float(np.mean(np.sign(self.X_test @ w) != self.y_test))


@dataclass(frozen=True)
class Run:
    seconds: float
    n_evaluations: int
    objective: float
    error: float


def load_digits(n_components: int) -> Digits:
    train = data_path("mnist")
    parts = []
    for file in (train, Path(str(train).replace("mnist.scale.bz2", "mnist.scale.t.bz2"))):
        X, y, _ = load_svmlight(file, n_features=780)
        rows = np.isin(y, (3, 8))
        parts.append((X[rows].toarray(), np.where(y[rows] == 8, 1.0, -1.0)))
    pca = PCA(n_components, random_state=0).fit(parts[0][0])
    (X, y), (X_test, y_test) = parts
    return Digits(SCALE * pca.transform(X), y, SCALE * pca.transform(X_test), y_test)


def split(digits: Digits, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Targets with 200 labels, the supervised solution and its test error."""
    labelled = np.random.default_rng(seed).choice(digits.y.size, N_LABELLED, replace=False)
    target = np.zeros(digits.y.size)
    target[labelled] = digits.y[labelled]
    supervised = LinearRisk(digits.X[labelled], digits.y[labelled], Hinge())
    w0 = minimize(supervised, L2(LAM), stop=Stop(gap_rel=1e-3)).w
    return target, w0, digits.error(w0)


def run(digits: Digits, target: np.ndarray, w0: np.ndarray, gamma: float, solvers: list[Solver], gap: float) -> Run:
    """The solver with the lowest objective; its time and evaluations are its own."""
    risk, runs = TransductiveRisk(digits.X, target, gamma), []
    for solver in solvers:
        began = time.perf_counter()
        result = minimize(risk, L2(LAM), solver, w0=w0, stop=Stop(gap_rel=gap, max_evaluations=5000))
        seconds = time.perf_counter() - began
        runs.append(Run(seconds, result.n_evaluations, result.objective, digits.error(result.w)))
    return min(runs, key=lambda each: each.objective)


def spread(values: list[float], digits: str) -> str:
    return f"{np.mean(values):{digits}} ± {np.std(values):{digits}}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--components", type=int, default=50)
    options = parser.parse_args()
    try:
        digits = load_digits(options.components)
    except DataMissing as reason:
        sys.exit(f"skipped: {reason}")
    print_machine()
    warm_up()
    splits = [split(digits, seed) for seed in range(options.splits)]
    supervised = [error for _, _, error in splits]
    print(f"\n{options.splits} splits; supervised test error {spread(supervised, '.4f')} (paper: 0.0776)")
    columns = ["gamma", "method", "gap", "seconds", "evaluations", "paper's", "objective", "paper's", "test error"]
    table = Table("Table 6: 3 against 8, 200 labelled, 11782 unlabelled", [*columns, "paper's", "below supervised in"])
    for at, gamma in enumerate(GAMMAS):
        for method, gap in product(METHODS, GAPS):
            runs = [run(digits, target, w0, gamma, METHODS[method], gap) for target, w0, _ in splits]
            evaluations, objective, error = PAPER[method][at]
            below = sum(each.error < error for each, error in zip(runs, supervised, strict=True))
            table.row(
                gamma, method, f"{gap:g}", f"{np.mean([each.seconds for each in runs]):.2f}",
                spread([each.n_evaluations for each in runs], ".0f"), evaluations,
                spread([each.objective for each in runs], ".3f"), objective,
                spread([each.error for each in runs], ".4f"), error, f"{below} of {len(runs)}",
            )  # fmt: skip


if __name__ == "__main__":
    main()
