"""F1, precision among the first k, ROC area: trained for the measure, or LIBLINEAR with class weights and a threshold.

    J(w) = lam/2 |w|^2 + R(w),        C = 1 / (n lam) in LIBLINEAR's notation

Each seed draws rows to fit on and rows to choose by from the training file; the test rows are those of the test file.
Lambda (both sides, one grid), the class weights (LIBLINEAR: none or balanced) and for F1 the threshold of methods that
are called tuned are chosen by the measure itself on the rows to choose by; the model is then tested once.  "own" has
the threshold of its bound, "cv" that of ``threshold="cv"``.  ``k`` is half the number of positives of whatever rows are
looked at.  Ours goes down the grid with warm starts, to a certified relative gap of 1e-2 or a limit of seconds.  No
constant was chosen on these sets.  A method has won where the mean of the differences is above its standard error.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from common import DataMissing, Table, data_file, print_machine
from undercut import MultivariateClassifier
from undercut.errors import ConstantModelWarning
from undercut.estimators.linear.thresholds import best_threshold
from undercut.io import load_svmlight
from undercut.measures import AveragePrecision, FBeta, Measure, PrecisionAt, RocArea

LAMBDAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
GAP = 1e-2
N_FIT, N_CHOOSE, N_TEST = 4000, 1500, 10_000  # rows at most


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
    "mnist, 8": DataSet("libsvm/mnist.scale.bz2", 8),
    "mnist, 5": DataSet("libsvm/mnist.scale.bz2", 5),
}
MEASURES: dict[str, Callable[[np.ndarray], Measure]] = {
    "F1": lambda y: FBeta(),
    "precision@P/2": lambda y: PrecisionAt(max(1, int(np.sum(y > 0.0)) // 2)),
    "ROC area": lambda y: RocArea(),
}
OURS: dict[
    str, dict[str, Callable[[np.ndarray], Measure]]
] = {  # what is trained for each measure, the first by default
    "F1": {"f1": MEASURES["F1"]},
    "precision@P/2": {
        "precision@k": MEASURES["precision@P/2"],
        "roc_auc": lambda y: RocArea(),
        "average_precision": lambda y: AveragePrecision(),
    },
    "ROC area": {"roc_auc": MEASURES["ROC area"]},
}
RIVALS = ("LinearSVC", "LogisticRegression")


class Samples(NamedTuple):
    X: sp.csr_matrix
    y: np.ndarray


class Split(NamedTuple):
    fit: Samples
    choose: Samples
    test: Samples


class Trained(NamedTuple):
    """A linear model."""

    w: np.ndarray
    b: float
    lam: float

    def scores(self, X: sp.csr_matrix) -> np.ndarray:
        return np.asarray(X @ self.w + self.b).ravel()


class Fits:
    """How our fits ended."""

    n = n_open = n_constant = 0

    def fit(self, model: MultivariateClassifier, data: Samples) -> MultivariateClassifier:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(*data)
        self.n += 1
        self.n_open += any(issubclass(one.category, ConvergenceWarning) for one in caught)
        self.n_constant += any(issubclass(one.category, ConstantModelWarning) for one in caught)
        return model


FITS = Fits()


# --------------------------------------------------------------------------------------------------------------- data


@cache
def load(file: str, test_file: str, counts: bool) -> tuple[sp.csr_matrix, np.ndarray, sp.csr_matrix, np.ndarray]:
    parts = [load_svmlight(data_file(Path(name))) for name in (file, test_file)]
    width = max(part.X.shape[1] for part in parts)
    X, X_test = (sp.csr_matrix((p.X.data, p.X.indices, p.X.indptr), (p.X.shape[0], width)) for p in parts)
    if counts:
        weigh = TfidfTransformer(sublinear_tf=True).fit(X)
        X, X_test = weigh.transform(X), weigh.transform(X_test)
    return X, parts[0].y, X_test, parts[1].y


def split(name: str, seed: int) -> Split:
    """Rows to fit on, rows to choose by and rows to test on."""
    which = SETS[name]
    X, y, X_test, y_test = load(which.file, which.test_file, which.counts)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(y.size)
    n_choose = min(N_CHOOSE, y.size // 4)
    parts = rows[n_choose : n_choose + N_FIT], rows[:n_choose]
    tested = rng.permutation(y_test.size)[:N_TEST]
    sign = lambda labels: np.where(labels == which.positive, 1.0, -1.0)  # noqa: E731
    return Split(*[Samples(X[part], sign(y[part])) for part in parts], Samples(X_test[tested], sign(y_test[tested])))


# ------------------------------------------------------------------------------------------------------------ methods


def ours(data: Samples, measure: Measure, max_seconds: float) -> Iterator[Trained]:
    model = MultivariateClassifier(measure, gap_rel=GAP, max_seconds=max_seconds, warm_start=True)
    for lam in LAMBDAS:
        FITS.fit(model.set_params(lam=lam), data)
        yield Trained(model.coef_[0].copy(), float(model.intercept_[0]), lam)


def validated(data: Samples, measure: Measure, lam: float, max_seconds: float) -> Trained:
    """The model with the threshold of its own validation."""
    model = MultivariateClassifier(measure, lam=lam, gap_rel=GAP, max_seconds=6.0 * max_seconds, threshold="cv")
    FITS.fit(model, data)
    return Trained(model.coef_[0], float(model.intercept_[0]), lam)


def liblinear(data: Samples, kind: str) -> Iterator[Trained]:
    for lam in LAMBDAS:
        for weight in (None, "balanced"):
            C = 1.0 / (lam * data.y.size)
            model = (
                LinearSVC(C=C, class_weight=weight)
                if kind == "LinearSVC"
                else LogisticRegression(C=C, class_weight=weight, solver="liblinear")
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(*data)
            yield Trained(model.coef_.ravel(), float(model.intercept_[0]), lam)


def loss(title: str, model: Trained, on: Samples, *, tuned: bool = False) -> float:
    """Of the measure; with a threshold for exactly these rows if ``tuned``."""
    measure, scores = MEASURES[title](on.y), model.scores(on.X)
    return measure.label_loss(on.y, scores - (best_threshold(measure, on.y, scores) if tuned else 0.0))


def chosen(title: str, models: list[Trained], on: Samples, *, tuned: bool = False) -> Trained:
    """The best model of a grid, with the best threshold if ``tuned``."""
    best = min(models, key=lambda model: loss(title, model, on, tuned=tuned))
    if not tuned:
        return best
    return best._replace(b=best.b - best_threshold(MEASURES[title](on.y), on.y, best.scores(on.X)))


def timed(models: Iterator[Trained]) -> tuple[list[Trained], float]:
    began = time.process_time()
    return list(models), time.process_time() - began


def outcomes(title: str, data: Split, rivals: dict[str, tuple[list[Trained], float]], max_seconds: float) -> dict:
    """The measure in test and the seconds of the whole grid, by method."""
    found = {}
    for name, make in OURS[title].items():
        grid, seconds = timed(ours(data.fit, make(data.fit.y), max_seconds))
        if title == "F1":
            found[f"{name}, own"] = chosen(title, grid, data.choose), seconds
            found[f"{name}, tuned"] = chosen(title, grid, data.choose, tuned=True), seconds
            lam = found[f"{name}, tuned"][0].lam
            began = time.process_time()
            model = validated(data.fit, make(data.fit.y), lam, max_seconds)
            found[f"{name}, cv"] = model, seconds + time.process_time() - began
        else:
            found[name] = chosen(title, grid, data.choose), seconds
    for name, (grid, seconds) in rivals.items():
        found[name] = chosen(title, grid, data.choose, tuned=title == "F1"), seconds
    return {name: (1.0 - loss(title, model, data.test), seconds) for name, (model, seconds) in found.items()}


# -------------------------------------------------------------------------------------------------------------- tables


def compare(names: list[str], n_seeds: int, max_seconds: float) -> None:
    table = Table(
        f"Measures of all labels together, mean in test over {n_seeds} seeds ± standard error; ours to a relative gap "
        f"of {GAP:g} or {max_seconds:g} s a fit",
        ["set", "positives", "measure", "method", "test", "seconds, whole grid"],
    )
    values: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for name in names:
        try:
            splits = [split(name, seed) for seed in range(n_seeds)]
        except DataMissing as reason:
            print(f"{name} skipped: {reason}")
            continue
        rivals = [{kind: timed(liblinear(data.fit, kind)) for kind in RIVALS} for data in splits]
        for title in MEASURES:
            pairs = zip(splits, rivals, strict=True)
            found = [outcomes(title, data, of_rivals, max_seconds) for data, of_rivals in pairs]
            values[name, title] = {method: np.array([one[method][0] for one in found]) for method in found[0]}
            for method, each in values[name, title].items():
                seconds = np.mean([one[method][1] for one in found])
                share = f"{np.mean(splits[0].fit.y > 0.0):.3f}"
                table.row(name, share, title, method, f"{each.mean():.4f} ± {error(each):.4f}", f"{seconds:.1f}")
    judge(values)


def error(values: np.ndarray) -> float:
    """The standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(values.size))


def judge(values: dict[tuple[str, str], dict[str, np.ndarray]]) -> None:
    table = Table("Wins, draws and losses on the sets", ["measure", "ours", *RIVALS])
    for title in MEASURES:
        of_sets = [found for (_, measure), found in values.items() if measure == title]
        for method in [one for one in of_sets[0] if one not in RIVALS]:
            table.row(title, method, *[tally(of_sets, method, rival) for rival in RIVALS])
    print(
        f"\nOf {FITS.n} fits {FITS.n_open} ended before a gap of {GAP:g}, and {FITS.n_constant} warned of a constant."
    )


def tally(of_sets: list[dict[str, np.ndarray]], method: str, rival: str) -> str:
    differences = [one[method] - one[rival] for one in of_sets]
    signs = [int(np.sign(each.mean()) * (abs(each.mean()) > error(each))) for each in differences]
    return " / ".join(str(signs.count(which)) for which in (1, 0, -1))


def warm_up() -> None:
    """Compile, or load what is compiled."""
    rng = np.random.default_rng(0)
    data = Samples(sp.random(200, 20, density=0.5, format="csr", random_state=rng), np.repeat([1.0, -1.0], 100))
    for kinds in OURS.values():
        for make in kinds.values():
            list(ours(data, make(data.y), 1.0))
    FITS.n = FITS.n_open = FITS.n_constant = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two seeds")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS), metavar="SET", help="of all")
    parser.add_argument("--max-seconds", type=float, default=10.0, help="of one of our fits")
    args = parser.parse_args()
    print_machine()
    warm_up()
    compare(args.sets, 2 if args.quick else args.seeds, args.max_seconds)


if __name__ == "__main__":
    main()
