"""F1, precision among the first k, ROC area: trained for the measure, or LIBLINEAR with class weights and a threshold.

    J(w) = lam/2 |w|^2 + R(w),        C = 1 / (n lam) in LIBLINEAR's notation

A quarter of the training rows is held out.  There lambda (both sides, one grid), the class weights (LIBLINEAR: none or
balanced) and for F1 the threshold on the scores (both sides) are chosen by the measure itself; the model is then tested
as it is.  ``k`` is half the number of positives of whatever rows are looked at, so that it means the same everywhere.
Ours goes down the grid with warm starts, to a certified relative gap of 1e-2 or a limit of seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from common import DATA_VARIABLE, Table, print_machine
from undercut import L2, MultivariateRisk, Stop, minimize
from undercut.io import load_svmlight
from undercut.measures import FBeta, Measure, PrecisionAt, RocArea

LAMBDAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
GAP = 1e-2
HELD_OUT = 0.25


@dataclass(frozen=True)
class DataSet:
    """One class against the rest; the test file has ``.t`` in its name."""

    file: str
    positive: float
    counts: bool = False  # whether the features are raw counts of terms

    @property
    def test_file(self) -> str:
        return self.file.replace(".bz2", ".t.bz2") if self.file.endswith(".bz2") else f"{self.file}.t"


SETS = {
    "a9a": DataSet("libsvm/a9a", 1),
    "w8a": DataSet("libsvm/w8a", 1),
    "rcv1 sample, CCAT": DataSet("text/rcv1-sample.ccat.bz2", 1),
    "20news, talk.religion.misc": DataSet("text/20news-bydate.bz2", 19, counts=True),
    "20news, talk.politics.misc": DataSet("text/20news-bydate.bz2", 18, counts=True),
    "20news, alt.atheism": DataSet("text/20news-bydate.bz2", 0, counts=True),
}
MEASURES: dict[str, Callable[[np.ndarray], Measure]] = {
    "F1": lambda y: FBeta(),
    "precision@P/2": lambda y: PrecisionAt(max(1, int(np.sum(y > 0.0)) // 2)),
    "ROC area": lambda y: RocArea(),
}


class Samples(NamedTuple):
    X: sp.csr_matrix
    y: np.ndarray


class Split(NamedTuple):
    fit: Samples
    held_out: Samples
    test: Samples


class Trained(NamedTuple):
    """A linear model, how it came about, and how long that took."""

    settings: str
    w: np.ndarray
    b: float
    seconds: float
    gap: str = ""

    def scores(self, X: sp.csr_matrix) -> np.ndarray:
        return np.asarray(X @ self.w + self.b)


class Chosen(NamedTuple):
    """The best model of a grid on the held-out rows, and what is subtracted from its scores."""

    model: Trained
    cutoff: float


# --------------------------------------------------------------------------------------------------------------- data


def load(name: str) -> Split:
    """Rows to fit on, rows to choose by and rows to test on."""
    which, folder = SETS[name], Path(os.environ[DATA_VARIABLE])
    parts = [load_svmlight(folder / file) for file in (which.file, which.test_file)]
    width = max(part.X.shape[1] for part in parts)
    X, X_test = (sp.csr_matrix((p.X.data, p.X.indices, p.X.indptr), (p.X.shape[0], width)) for p in parts)
    y, y_test = (np.where(part.y == which.positive, 1.0, -1.0) for part in parts)
    if which.counts:
        weigh = TfidfTransformer(sublinear_tf=True).fit(X)
        X, X_test = weigh.transform(X), weigh.transform(X_test)
    order = np.random.default_rng(0).permutation(y.size)
    held, kept = np.split(order, [int(HELD_OUT * y.size)])
    return Split(Samples(X[kept], y[kept]), Samples(X[held], y[held]), Samples(X_test, y_test))


def on_this_machine() -> list[str]:
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        sys.exit(f"{DATA_VARIABLE} is not set: it must name the folder that holds {SETS['a9a'].file}")
    missing = [name for name, which in SETS.items() if not (Path(folder) / which.test_file).is_file()]
    for name in missing:
        print(f"{name} skipped: {DATA_VARIABLE} names a folder without {SETS[name].test_file}")
    return [name for name in SETS if name not in missing]


# ------------------------------------------------------------------------------------------------------------ methods


def ours(data: Samples, measure: Measure, max_seconds: float) -> Iterator[Trained]:
    w = None
    for lam in LAMBDAS:
        began = time.perf_counter()
        risk = MultivariateRisk(*data, measure, fit_intercept=True)
        result = minimize(risk, L2(lam), w0=w, stop=Stop(gap_rel=GAP, max_seconds=max_seconds))
        w = result.w
        gap = f"{result.gap / result.objective:.1e}"
        yield Trained(f"λ = {lam:.0e}", w, risk.intercept(w), time.perf_counter() - began, gap)


def liblinear(data: Samples, kind: str) -> Iterator[Trained]:
    for lam in LAMBDAS:
        for weight in (None, "balanced"):
            C = 1.0 / (lam * data.y.size)
            model = (
                LinearSVC(C=C, class_weight=weight)
                if kind == "LinearSVC"
                else LogisticRegression(C=C, class_weight=weight, solver="liblinear")
            )
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(*data)
            seconds = time.perf_counter() - began
            yield Trained(f"λ = {lam:.0e}, {weight or 'even'}", model.coef_.ravel(), model.intercept_[0], seconds)


def best_cutoff(y: np.ndarray, scores: np.ndarray) -> float:
    """The threshold of the largest F1."""
    order = np.argsort(-scores)
    hits = np.cumsum(y[order] > 0.0)
    f1 = 2.0 * hits / (np.arange(1, y.size + 1) + hits[-1])
    at = int(f1.argmax())
    return 0.5 * float(scores[order[at]] + scores[order[min(at + 1, y.size - 1)]])


def choose(models: list[Trained], held_out: Samples, name: str) -> Chosen:
    """By the measure on the held-out rows."""
    X, y = held_out
    best, chosen = np.inf, None
    for model in models:
        scores = model.scores(X)
        cutoff = best_cutoff(y, scores) if name == "F1" else 0.0
        if (loss := MEASURES[name](y).label_loss(y, scores - cutoff)) < best:
            best, chosen = loss, Chosen(model, cutoff)
    assert chosen is not None
    return chosen


# -------------------------------------------------------------------------------------------------------------- table


def rows_of(name: str, max_seconds: float) -> Iterator[list[str]]:
    data = load(name)
    share = f"{np.mean(data.fit.y > 0.0):.3f}"
    rivals = {kind: list(liblinear(data.fit, kind)) for kind in ("LinearSVC", "LogisticRegression")}
    X, y = data.test
    for title, make in MEASURES.items():
        measure = make(y)
        methods = {"MultivariateRisk": list(ours(data.fit, make(data.fit.y), max_seconds)), **rivals}
        for method, models in methods.items():
            model, cutoff = choose(models, data.held_out, title)
            reached = 1.0 - measure.label_loss(y, model.scores(X) - cutoff)
            own = f"{1.0 - measure.label_loss(y, model.scores(X)):.4f}" if title == "F1" else ""
            total = sum(each.seconds for each in models)
            yield [
                name, share, title, method, model.settings, f"{reached:.4f}", own,
                f"{model.seconds:.2f}", f"{total:.1f}", model.gap,
            ]  # fmt: skip


def warm_up() -> None:
    """Compile, or load what is compiled."""
    rng = np.random.default_rng(0)
    data = Samples(sp.random(200, 20, density=0.5, format="csr", random_state=rng), np.repeat([1.0, -1.0], 100))
    for make in MEASURES.values():
        list(ours(data, make(data.y), 1.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-seconds", type=float, default=6.0, help="of one of our fits")
    args = parser.parse_args()
    names = on_this_machine()
    print_machine()
    warm_up()
    table = Table(
        f"Measures of all labels together: ours to a relative gap of {GAP:g} or {args.max_seconds:g} s a fit",
        [
            "set", "positives", "measure", "method", "chosen", "test", "test, own threshold", "seconds",
            "seconds, whole grid", "relative gap",
        ],
    )  # fmt: skip
    for name in names:
        for row in rows_of(name, args.max_seconds):
            table.row(*row)


if __name__ == "__main__":
    main()
