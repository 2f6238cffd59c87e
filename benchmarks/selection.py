"""Choosing lambda: paths of 20 lambdas from 1e-2 to 1e-8, and five-fold cross-validation over them.

    J(w) = lam/2 |w|^2 + 1/n sum_i max(0, 1 - y_i <w, x_i>),        C = 1 / (n lam) in LIBLINEAR's notation

Table 1 compares a path, whose points hand on their planes, scores and dual points, with 20 fits that know nothing of
each other, both to a certified relative gap of 1e-3.  Table 2 compares the choice by cross-validation with
``GridSearchCV(LinearSVC)`` and, for the logistic loss, ``LogisticRegressionCV``; LIBLINEAR's own search (``-C``) is not
part of scikit-learn.  How far a peer is off is measured at each lambda against our lower bound.  Table 3 has paths of
L1 beside celer and skglm.  Table 4 checks a certified path at 1000 random lambdas.

Times are processor seconds of one process; a fit of ours ends after ``--max-seconds`` and says so by its gap.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from common import ALL_SETS, Table, data_path, load, load_rest, on_this_machine, print_machine, warm_up
from undercut import L2, Hinge, LinearRisk, Logistic, Stop, minimize
from undercut.estimators import LinearClassifierCV
from undercut.estimators.cross_validated import SelectionWarning
from undercut.io import load_svmlight
from undercut.regularizers.named import named_regularizer
from undercut.selection import Path as LambdaPath, regularization_path

LAMS = np.geomspace(1e-2, 1e-8, 20)
SETS = ("a9a", "ijcnn1", "w8a", "rcv1-sample", "mnist", "covtype")
TESTS = {
    "a9a": "a9a.t", "ijcnn1": "ijcnn1.t.bz2", "w8a": "w8a.t", "rcv1-sample": "rcv1-sample.ccat.t.bz2",
    "mnist": "mnist.scale.t.bz2",
}  # fmt: skip
GAP = 1e-3
SAMPLES, QUICK_SAMPLES = None, 4000


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


def rows_of(name: str, n_rows: int | None) -> tuple[sp.csr_matrix, np.ndarray]:
    X, y = load(name)
    return (X, y) if n_rows is None else (X[:n_rows], y[:n_rows])


def test_rows(name: str, n_features: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """The samples that no fit has seen."""
    if name not in TESTS:
        return load_rest(name)
    X, y, _ = load_svmlight(data_path(name).with_name(TESTS[name]))
    X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], max(X.shape[1], n_features)))
    return X[:, :n_features], np.where(y == ALL_SETS[name].positive, 1.0, -1.0)


def table_paths(names: list[str], n_rows: int | None, max_seconds: float) -> None:
    table = Table(
        "1. Paths: 20 lambdas beside 20 fits of their own",
        ["set", "n", "path, s", "20 fits, s", "ratio", "3 hardest fits, s", "evaluations: path / fits",
         "largest gap: path / fits", "a quarter, and less than the 3 hardest"],
    )  # fmt: skip
    stop = Stop(gap_rel=GAP, max_seconds=max_seconds)
    for name in names:
        X, y = rows_of(name, n_rows)
        risk = LinearRisk(X, y, Hinge())
        path, ours = timed(lambda risk=risk: regularization_path(risk, LAMS, stop=stop))
        fits = [timed(lambda risk=risk, lam=lam: minimize(risk, L2(lam), stop=stop)) for lam in LAMS]
        seconds = np.array([spent for _, spent in fits])
        alone, hardest = seconds.sum(), np.sort(seconds)[-3:].sum()
        evaluations = f"{path.n_evaluations.sum()} / {sum(fit.n_evaluations for fit, _ in fits)}"
        gaps = f"{(path.gaps / path.objectives).max():.1e} / {max(fit.gap / fit.objective for fit, _ in fits):.1e}"
        met = "yes" if ours <= 0.25 * alone and ours < hardest else "no"
        table.row(
            name, y.size, f"{ours:.2f}", f"{alone:.2f}", f"{ours / alone:.2f}", f"{hardest:.2f}", evaluations, gaps, met
        )


def peer_at(X: Any, y: np.ndarray, lam: float) -> Any:
    return LinearSVC(C=1.0 / (y.size * lam), loss="hinge", dual=True, fit_intercept=False, random_state=0).fit(X, y)


def excess(path: LambdaPath, risk: LinearRisk, X: Any, y: np.ndarray) -> str:
    """How far LinearSVC is off at most, on all samples, and at how many lambdas by more than the wanted gap."""
    off = []
    for lam, bound in zip(path.lams, path.lower_bounds, strict=True):
        w = peer_at(X, y, lam).coef_.ravel()
        off.append((L2(lam).value(w) + risk.value(w)) / bound - 1.0)
    return f"{max(off):.1e}; {sum(share > 2.0 * GAP for share in off)} of {len(off)} lambdas by more than {2 * GAP:g}"


def table_choice(names: list[str], n_rows: int | None, max_seconds: float) -> None:
    table = Table(
        "2. Five-fold cross-validation over 20 lambdas",
        ["set", "method", "seconds", "ratio", "lambda", "score of the folds", "test accuracy", "fits that did not "
         "converge", "how far off", "ended early"],
    )  # fmt: skip
    for name in names:
        X, y = rows_of(name, n_rows)
        test = test_rows(name, X.shape[1])
        own = LinearClassifierCV(LAMS, fit_intercept=False, max_seconds=max_seconds)
        _, ours = timed(lambda own=own, X=X, y=y: own.fit(X, y))
        gap = f"{own.cv_results_['max_gap'].max():.1e} at most, certified"
        table.row(
            name, "ours, hinge", f"{ours:.1f}", "1", f"{own.lam_:.2g}", f"{own.best_score_:.4f}",
            f"{own.score(*test):.4f}", 0, gap, f"{own.n_decided_} of 100",
        )  # fmt: skip
        row_liblinear(table, name, X, y, test, ours)
        row_logistic(table, name, X, y, test)


def row_liblinear(table: Table, name: str, X: Any, y: np.ndarray, test: Any, ours: float) -> None:
    C = {"C": list(1.0 / (0.8 * y.size * LAMS))}
    search = GridSearchCV(LinearSVC(loss="hinge", dual=True, fit_intercept=False, random_state=0), C)
    (_, failed), theirs = timed(lambda: counted(lambda: search.fit(X, y)))
    risk = LinearRisk(X, y, Hinge())
    path = regularization_path(risk, LAMS, stop=Stop(max_seconds=60.0))
    off, _ = counted(lambda: excess(path, risk, X, y))
    lam = 1.0 / (0.8 * y.size * search.best_params_["C"])
    table.row(
        name, "GridSearchCV(LinearSVC)", f"{theirs:.1f}", f"{theirs / ours:.1f}", f"{lam:.2g}",
        f"{search.best_score_:.4f}", f"{search.score(*test):.4f}", failed, off, "-",
    )  # fmt: skip


def row_logistic(table: Table, name: str, X: Any, y: np.ndarray, test: Any) -> None:
    """Both choices for the logistic loss."""
    own = LinearClassifierCV(LAMS, loss="logistic", fit_intercept=False)
    _, ours = timed(lambda: own.fit(X, y))
    gap = f"{own.cv_results_['max_gap'].max():.1e} at most, certified"
    table.row(
        name, "ours, logistic", f"{ours:.1f}", "1", f"{own.lam_:.2g}", f"{own.best_score_:.4f}",
        f"{own.score(*test):.4f}", 0, gap, f"{own.n_decided_} of 100",
    )  # fmt: skip
    Cs = 1.0 / (0.8 * y.size * LAMS)
    peer = LogisticRegressionCV(Cs=list(Cs), cv=5, fit_intercept=False, scoring="accuracy", use_legacy_attributes=False)
    (_, failed), theirs = timed(lambda: counted(lambda: peer.fit(X, y)))
    lam = 1.0 / (0.8 * y.size * float(np.ravel(peer.C_)[0]))
    score = float(np.max(np.mean(np.asarray(peer.scores_).reshape(5, -1), axis=0)))
    table.row(
        name, "LogisticRegressionCV", f"{theirs:.1f}", f"{theirs / ours:.1f}", f"{lam:.2g}", f"{score:.4f}",
        f"{peer.score(*test):.4f}", failed, "-", "-",
    )  # fmt: skip


def counted(work: Callable[[], Any]) -> tuple[Any, int]:
    """What a function returns, and how often it warned that a fit did not converge."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = work()
    return found, sum(issubclass(each.category, ConvergenceWarning) for each in seen)


def table_sparse(n_rows: int | None, max_seconds: float) -> None:
    """Paths of L1 on text."""
    table = Table(
        "3. L1 on the rcv1 sample: 20 lambdas from the largest to a hundredth of it",
        ["loss", "method", "seconds", "nonzeros at the end", "largest excess over our lower bound"],
    )
    X, y = rows_of("rcv1-sample", n_rows)
    risk = LinearRisk(X, y, Logistic())
    top = float(np.abs(risk.cut(np.zeros(risk.n_params)).a).max())
    lams = np.geomspace(0.99 * top, 0.0099 * top, 20)
    stop = Stop(gap_rel=GAP, max_seconds=max_seconds)
    regularization_path(LinearRisk(X[:500], y[:500], Logistic()), lams[:3], penalty="l1")  # compiles
    path, ours = timed(lambda: regularization_path(risk, lams, penalty="l1", stop=stop))
    gap = float((path.gaps / path.lower_bounds).max())
    table.row("logistic", "ours", f"{ours:.2f}", path.n_nonzero[-1], f"{gap:.1e}, certified")
    for method, run in SPARSE_PEERS.items():
        try:
            run(X[:500], y[:500], lams[:3])  # compiles
            coefs, theirs = timed(lambda run=run: run(X, y, lams))
        except ImportError:
            table.row("logistic", f"{method}, not installed", "-", "-", "-")
            continue
        values = [named_regularizer("l1", lam).value(w) + risk.value(w) for lam, w in zip(lams, coefs, strict=True)]
        off = float((np.array(values) / path.lower_bounds).max() - 1.0)
        table.row("logistic", method, f"{theirs:.2f}", np.count_nonzero(coefs[-1]), f"{off:.1e}")


def celer_path(X: Any, y: np.ndarray, lams: np.ndarray) -> np.ndarray:
    import celer

    columns = X.tocsc()
    return np.asarray(celer.celer_path(columns, y, pb="logreg", alphas=y.size * lams, tol=GAP)[1].T)


def skglm_path(X: Any, y: np.ndarray, lams: np.ndarray) -> np.ndarray:
    from skglm import SparseLogisticRegression

    columns, coefs = X.tocsc(), []
    model = SparseLogisticRegression(tol=GAP * lams[-1], fit_intercept=False, warm_start=True)
    for lam in lams:
        model.alpha = lam
        coefs.append(model.fit(columns, y).coef_.ravel().copy())
    return np.array(coefs)


SPARSE_PEERS: dict[str, Callable[..., np.ndarray]] = {"celer_path": celer_path, "skglm, warm": skglm_path}


def table_promise(name: str, n_rows: int | None) -> None:
    table = Table(
        f"4. The certified path of {name} at 1000 random lambdas from 1e-2 to 1e-6",
        ["loss", "epsilon", "lambdas", "seconds", "largest proved gap", "largest excess over the bounds of "
         "50 other fits", "promises broken"],
    )  # fmt: skip
    X, y = rows_of(name, n_rows)
    lams = np.exp(np.random.default_rng(0).uniform(np.log(1e-6), np.log(1e-2), 1000))
    for loss in (Hinge(), Logistic()):
        risk = LinearRisk(X, y, loss)
        for epsilon in (0.05, 0.01):
            path, seconds = timed(lambda e=epsilon, r=risk: regularization_path(r, [1e-2, 1e-6], epsilon=e))
            nearest = [path.at(lam) for lam in lams]
            proved = [each.gap / each.objective for each in nearest]
            off = []
            for lam, each in zip(lams[:50], nearest[:50], strict=True):
                bound = minimize(risk, L2(lam)).lower_bound
                off.append((L2(lam).value(each.w) + risk.value(each.w) - bound) / each.objective)
            broken = sum(share > epsilon * (1.0 + 1e-12) for share in proved)
            table.row(
                type(loss).__name__,
                epsilon,
                len(path),
                f"{seconds:.2f}",
                f"{max(proved):.2e}",
                f"{max(off):.2e}",
                broken,
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"the first {QUICK_SAMPLES} samples of a9a and ijcnn1")
    parser.add_argument("--sets", default=",".join(SETS), help="of the paths")
    parser.add_argument("--choice", default="a9a,ijcnn1,w8a", help="sets of the cross-validation, where LIBLINEAR ends")
    parser.add_argument("--max-seconds", type=float, default=10.0, help="for every fit of ours")
    args = parser.parse_args()
    n_rows = QUICK_SAMPLES if args.quick else SAMPLES
    paths = on_this_machine(["a9a", "ijcnn1"] if args.quick else args.sets.split(","))
    choices = on_this_machine(["a9a"] if args.quick else args.choice.split(","))
    if not paths or not choices:
        print(f"{Path(__file__).name} skipped: no data")
        return 1
    warnings.simplefilter("ignore", SelectionWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)
    print_machine()
    warm_up()
    table_paths(paths, n_rows, args.max_seconds)
    table_choice(choices, n_rows, args.max_seconds)
    if "rcv1-sample" in paths:
        table_sparse(n_rows, args.max_seconds)
    table_promise(paths[0], n_rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
