"""Choices of lambda by five-fold cross-validation: ours, and those of scikit-learn and LIBLINEAR.

A rival's fits on the training rows of the first fold are compared with lower bounds that our path proves for the same
problem; the time that takes is not counted as the rival's.
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC

from common import ALL_SETS, data_path, load, load_rest, warm_up
from limited import Report
from undercut import L2, Hinge, LinearRisk, Logistic, MulticlassRisk, SquaredHinge, Stop
from undercut.estimators import LinearClassifierCV
from undercut.estimators.cross_validated import SelectionWarning
from undercut.io import load_svmlight
from undercut.losses import Softmax
from undercut.selection import Path as LambdaPath, regularization_path

LAMS = np.geomspace(1e-2, 1e-8, 20)
N_FOLDS = 5
N_FITS = N_FOLDS * LAMS.size
GAP = 1e-3
TESTS = {
    "a9a": "a9a.t", "ijcnn1": "ijcnn1.t.bz2", "w8a": "w8a.t", "rcv1-sample": "rcv1-sample.ccat.t.bz2",
    "mnist": "mnist.scale.t.bz2",
}  # fmt: skip
LOSSES = {"hinge": Hinge, "logistic": Logistic, "squared_hinge": SquaredHinge}


class Samples(NamedTuple):
    X: sp.csr_matrix
    y: np.ndarray


class Data(NamedTuple):
    """mnist has its ten classes, every other set -1 and +1."""

    train: Samples
    test: Samples

    @property
    def n_fold(self) -> float:
        """Rows that a fold is trained on."""
        return self.train.y.size * (1.0 - 1.0 / N_FOLDS)


class Choice(NamedTuple):
    """What a search found; numbers of fits are out of ``N_FITS`` for all folds and lambdas."""

    seconds: float
    lam: float
    score: float  # mean of the folds
    test: float  # accuracy
    failed: str  # fits that did not converge
    off: str  # how far from the optimum
    decided: str = "-"  # fits that ended early because the choice could not change


# --------------------------------------------------------------------------------------------------------------- data


def read(name: str, n_rows: int | None) -> Data:
    X, y = _rows(name, data_path(name)) if name == "mnist" else load(name)
    train = Samples(X[:n_rows], y[:n_rows])
    return Data(train, _test(name, X.shape[1]))


def _rows(name: str, path: Path) -> tuple[sp.csr_matrix, np.ndarray]:
    X, y, _ = load_svmlight(path)
    return X, y if name == "mnist" else np.where(y == ALL_SETS[name].positive, 1.0, -1.0)


def _test(name: str, n_features: int) -> Samples:
    """The samples that no fit has seen."""
    if name not in TESTS:
        return Samples(*load_rest(name))
    X, y = _rows(name, data_path(name).with_name(TESTS[name]))
    X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], max(X.shape[1], n_features)))
    return Samples(X[:, :n_features], y)


# ------------------------------------------------------------------------------------------------------------- bounds


def risks_of(data: Samples, loss: str) -> list[Any]:
    """The problems of a fit: several classes jointly for the logistic loss, else one against the rest."""
    classes = np.unique(data.y)
    if classes.size > 2 and loss == "logistic":
        return [MulticlassRisk(data.X, np.searchsorted(classes, data.y), Softmax())]
    positives = classes[1:] if classes.size == 2 else classes
    return [LinearRisk(data.X, np.where(data.y == one, 1.0, -1.0), LOSSES[loss]()) for one in positives]


class Bounds:
    """Lower bounds at lambdas for the problems on some samples."""

    def __init__(self, data: Samples, loss: str, lams: np.ndarray) -> None:
        self.lams, self.risks = lams, risks_of(data, loss)
        stop = Stop(gap_rel=GAP, max_seconds=60.0)
        self.path = LambdaPath.sum([regularization_path(risk, lams, stop=stop) for risk in self.risks])

    def excess(self, coef: np.ndarray, at: int) -> float:
        """How far coefficients are above the bound, relative to it."""
        rows = np.reshape(coef, (len(self.risks), -1))
        values = [L2(self.lams[at]).value(w) + risk.value(w) for w, risk in zip(rows, self.risks, strict=True)]
        return float(sum(values) / self.path.lower_bounds[at] - 1.0)


@dataclass
class Watch:
    """Scores the fits of a rival, and tells how far it has come."""

    report: Report
    data: Data
    loss: str
    by_fold: bool  # whether all lambdas of a fold follow each other, or all folds of a lambda
    warned: list[Any] = field(default_factory=list)
    n: int = 0
    seconds: float = 0.0  # of the comparison with the bounds
    off: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        X, y = self.data.train
        rows, _ = next(StratifiedKFold(N_FOLDS).split(X, y))
        self.bounds = Bounds(Samples(X[rows], y[rows]), self.loss, LAMS)

    def __call__(self, model: Any, X: Any, y: np.ndarray) -> float:
        accuracy = float(np.mean(model.predict(X) == y))
        began = time.process_time()
        fold, at = divmod(self.n, LAMS.size) if self.by_fold else divmod(self.n, N_FOLDS)[::-1]
        if fold == 0:
            self.off.append(self.bounds.excess(model.coef_, at))
        self.n += 1
        self.report((f"{self.n} of {N_FITS} fits", self.failed, excess_text(self.off)))
        self.seconds += time.process_time() - began
        return accuracy

    @property
    def failed(self) -> str:
        return str(sum(issubclass(each.category, ConvergenceWarning) for each in self.warned))


def excess_text(off: list[float]) -> str:
    if not off:
        return "-"
    over = sum(share > 2.0 * GAP for share in off)
    return f"{max(off):.1e} at most; {over} of {len(off)} lambdas by more than {2 * GAP:g}"


# ------------------------------------------------------------------------------------------------------------ methods


def ours(report: Report, name: str, n_rows: int | None, max_seconds: float, loss: str, gap: float = GAP) -> Choice:
    data = read(name, n_rows)
    joint = loss == "logistic" and name == "mnist"
    model = LinearClassifierCV(
        LAMS, loss=loss, fit_intercept=False, gap_rel=gap, max_seconds=max_seconds,
        multi_class="multinomial" if joint else "ovr",
    )  # fmt: skip
    warm_up()
    with warnings.catch_warnings(record=True):
        model.fit(data.train.X[:: data.train.y.size // 200], data.train.y[:: data.train.y.size // 200])  # compiles
    told = []
    model._watch = lambda fold, lam, score: (told.append(score), report((f"{len(told)} of {N_FITS} fits", "0", "-")))
    report.begin()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        began = time.process_time()
        model.fit(*data.train)
        seconds = time.process_time() - began
    whole = model.cv_results_["n_decided"] == 0  # lambdas of which no fit ended early
    off = f"{model.cv_results_['max_gap'][whole].max(initial=0.0):.1e} at most, certified"
    failed = str(sum(issubclass(each.category, ConvergenceWarning) for each in warned))
    score = model.score(*data.test)
    decided = f"{model.n_decided_} of {N_FITS}, {model.n_skipped_} not begun"
    return Choice(seconds, model.lam_, model.best_score_, score, failed, off, decided)


def _watched(watch: Watch, search: Any) -> tuple[Any, float]:
    """The fitted search, and its seconds without those of the comparison."""
    watch.report.begin()
    with warnings.catch_warnings(record=True) as watch.warned:
        warnings.simplefilter("always")
        began = time.process_time()
        search.fit(*watch.data.train)
        return search, time.process_time() - began - watch.seconds


def grid_search(report: Report, name: str, n_rows: int | None) -> Choice:
    data = read(name, n_rows)
    watch = Watch(report, data, "hinge", by_fold=False)
    model = LinearSVC(loss="hinge", dual=True, fit_intercept=False, random_state=0)
    grid = {"C": list(1.0 / (data.n_fold * LAMS))}
    search, seconds = _watched(watch, GridSearchCV(model, grid, cv=N_FOLDS, scoring=watch))
    lam = 1.0 / (data.n_fold * search.best_params_["C"])
    test = search.best_estimator_.score(*data.test)
    return Choice(seconds, lam, search.best_score_, test, watch.failed, excess_text(watch.off))


def logistic_cv(report: Report, name: str, n_rows: int | None) -> Choice:
    data = read(name, n_rows)
    watch = Watch(report, data, "logistic", by_fold=True)
    Cs = list(1.0 / (data.n_fold * LAMS))
    search = LogisticRegressionCV(Cs=Cs, cv=N_FOLDS, fit_intercept=False, scoring=watch)
    search, seconds = _watched(watch, search)
    lam = 1.0 / (data.n_fold * float(np.ravel(search.C_)[0]))
    scores = search.scores_  # by class in versions before 1.10
    by_fold = np.asarray(next(iter(scores.values())) if isinstance(scores, dict) else scores).reshape(N_FOLDS, -1)
    test = float(np.mean(search.predict(data.test.X) == data.test.y))
    return Choice(seconds, lam, float(by_fold.mean(axis=0).max()), test, watch.failed, excess_text(watch.off))


def own_search(report: Report, name: str, n_rows: int | None, loss: str) -> Choice:
    """LIBLINEAR's search: C doubles from the one of our largest lambda, each fit starts from the last one."""
    from liblinear.liblinearutil import parameter, problem, train

    data = read(name, n_rows)
    X, y = data.train
    kind = {"logistic": 0, "squared_hinge": 2}[loss]
    samples = problem(y, X)
    report.begin()
    with _printed() as text:
        report((f"its table of C is in {text}", "-", "-"))
        began = time.process_time()
        settings = parameter(f"-C -s {kind} -c {1.0 / (data.n_fold * LAMS[0])} -v {N_FOLDS} -q")
        C, _, score = train(samples, settings)
        model = train(samples, f"-s {kind} -c {C} -q")
        seconds = time.process_time() - began
    lam = 1.0 / (data.n_fold * C)
    labels = np.array(model.get_labels())
    W = np.reshape(model.w[: model.get_nr_feature() * (1 if labels.size == 2 else labels.size)], (X.shape[1], -1)).T
    scores = data.test.X[:, : W.shape[1]] @ W.T
    guess = np.where(scores[:, 0] > 0, labels[0], labels[1]) if labels.size == 2 else labels[scores.argmax(axis=1)]
    off = _off_at(data.train, loss, 1.0 / (y.size * C), W, labels)
    return Choice(seconds, lam, score, float(np.mean(guess == data.test.y)), "not told", f"{off:.1e} at its choice")


def _off_at(train: Samples, loss: str, lam: float, W: np.ndarray, labels: np.ndarray) -> float:
    """How far LIBLINEAR's last fit is from our bound; its problems are one against the rest for every loss."""
    order = np.argsort(labels)
    rows = W[order] if labels.size > 2 else W * (1.0 if labels[0] > labels[1] else -1.0)
    positives = labels[order] if labels.size > 2 else labels[order][1:]
    off = []
    for w, positive in zip(rows, positives, strict=True):
        bounds = Bounds(Samples(train.X, np.where(train.y == positive, 1.0, -1.0)), loss, np.array([lam]))
        off.append(bounds.excess(w, 0))
    return max(off)


class _printed:
    """What C code prints, in a file whose name is given; each line as soon as it is there."""

    def __enter__(self) -> str:
        libc = ctypes.CDLL(None)
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 2, 0)  # 2: not buffered
        self.file = tempfile.NamedTemporaryFile(suffix=".txt", delete=False)
        self.before = os.dup(1)
        os.dup2(self.file.fileno(), 1)
        return self.file.name

    def __exit__(self, *_: object) -> None:
        os.dup2(self.before, 1)
        Path(self.file.name).unlink()


def how_far(so_far: str) -> str:
    """The searched part of LIBLINEAR's grid, from the file that it writes."""
    found = re.search(r"its table of C is in (\S+)", so_far)
    if not found:
        return so_far
    file = Path(found[1])
    count = len(re.findall(r"log2c=", file.read_text()))
    file.unlink()
    return f"{count} values of C"


METHODS = {  # by name: the function, its arguments, and the one of ours that it is compared with
    "ours, hinge": (partial(ours, loss="hinge"), "ours, hinge"),
    "ours, hinge, gap 1e-2": (partial(ours, loss="hinge", gap=1e-2), "ours, hinge"),
    "GridSearchCV(LinearSVC)": (grid_search, "ours, hinge"),
    "ours, logistic": (partial(ours, loss="logistic"), "ours, logistic"),
    "LogisticRegressionCV": (logistic_cv, "ours, logistic"),
    "LIBLINEAR -C, logistic": (partial(own_search, loss="logistic"), "ours, logistic"),
    "ours, squared hinge": (partial(ours, loss="squared_hinge"), "ours, squared hinge"),
    "LIBLINEAR -C, squared hinge": (partial(own_search, loss="squared_hinge"), "ours, squared hinge"),
}
warnings.simplefilter("ignore", SelectionWarning)
