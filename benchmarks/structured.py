"""A structured model in plain Python: how much the remembered labelings and a second process save.

The words of the OCR set, fold 0, as max-margin Markov network, with Viterbi's algorithm in NumPy as the decoder:
what a user's own model costs.  Expected:

    fewer decodings and less time with a cache than without, at the same certified gap;
    two processes faster than one.

``ChainRisk`` is the same risk compiled.  ``UNDERCUT_DATA`` names the folder that holds ``ocr/letter.data.gz``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

from common import DATA_VARIABLE, Table, print_machine
from undercut import L2, ChainRisk, CuttingPlane, Result, Stop, StructuredRisk, minimize
from undercut.contracts import Risk, Solver
from undercut.io import OcrWords, load_ocr
from undercut.risks import M3N
from undercut.solvers import CachedCuttingPlane
from undercut.threads import one_thread

N_LABELS, N_PIXELS = 26, 128
GAP = 1e-2


class Words:
    """Psi counts pixels by letter and pairs of letters; Delta counts wrong letters."""

    n_params = N_LABELS * (N_PIXELS + N_LABELS)

    def joint_feature(self, x, y):
        emissions, transitions = np.zeros((N_LABELS, N_PIXELS)), np.zeros((N_LABELS, N_LABELS))
        np.add.at(emissions, y, x)
        np.add.at(transitions, (y[:-1], y[1:]), 1.0)
        return np.concatenate([emissions.ravel(), transitions.ravel()])

    def label_loss(self, y, y_hat):
        return float(np.sum(y != y_hat))

    def decode(self, w, x, y, rescaling):
        emissions, transitions = np.split(w, [N_LABELS * N_PIXELS])
        scores = x @ emissions.reshape(N_LABELS, -1).T + 1.0
        scores[np.arange(y.size), y] -= 1.0
        best, back = scores[0], []
        for row in scores[1:]:
            through = best[:, None] + transitions.reshape(N_LABELS, N_LABELS)
            back.append(through.argmax(axis=0))
            best = through.max(axis=0) + row
        path = [int(best.argmax())]
        for pointers in reversed(back):
            path.append(int(pointers[path[-1]]))
        return np.array(path[::-1])


def words() -> OcrWords:
    folder = os.environ.get(DATA_VARIABLE)
    file = Path(folder or ".", "ocr", "letter.data.gz")
    if folder is None or not file.is_file():
        sys.exit(f"skipped: {DATA_VARIABLE} must name a folder that holds ocr/letter.data.gz")
    read = load_ocr(file)
    return read.take(read.folds == 0)


def timed(risk: Risk, solver: Solver) -> tuple[Result, float]:
    began = time.perf_counter()
    result = minimize(risk, L2(1e-3), solver, stop=Stop(gap_rel=GAP))
    return result, time.perf_counter() - began


def evaluation(risk: Risk) -> float:
    """The median time of a plane, with BLAS on one thread as inside ``minimize``."""
    w, seconds = np.zeros(risk.n_params), []
    with one_thread():
        for _ in range(10):
            began = time.perf_counter()
            risk.cut(w)
            seconds.append(time.perf_counter() - began)
    return float(np.median(seconds))


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    data = words()
    ends = np.cumsum(data.lengths)[:-1]
    y = np.array([ord(letter) - ord("a") for letter in data.y])
    X, Y = np.split(data.X, ends), np.split(y, ends)
    print_machine()
    table = Table(f"One evaluation of {len(Y)} words", ["risk", "seconds", "times as fast as one process"])
    alone = 0.0
    for n_jobs in (1, 2):
        seconds = evaluation(StructuredRisk(Words(), X, Y, n_jobs=n_jobs))
        alone = alone or seconds
        table.row(f"n_jobs = {n_jobs}", f"{seconds:.3f}", f"{alone / seconds:.2f}")
    compiled = ChainRisk(data.X, y, M3N(), data.lengths, n_labels=N_LABELS, start=False, end=False, bias=False)
    seconds = evaluation(compiled)
    table.row("ChainRisk", f"{seconds:.4f}", f"{alone / seconds:.0f}")
    table = Table(
        f"To a gap of {GAP}, lambda = 1e-3",
        ["cache", "solver", "steps", "decodings of all words", "seconds", "objective"],
    )
    runs: list[tuple[int, Solver]] = [(0, CuttingPlane()), (10, CachedCuttingPlane()), (50, CachedCuttingPlane())]
    for cache, solver in runs:
        result, seconds = timed(StructuredRisk(Words(), X, Y, n_jobs=2, cache=cache), solver)
        name = type(solver).__name__
        table.row(cache, name, result.n_steps, result.n_evaluations, f"{seconds:.1f}", f"{result.objective:.4f}")


if __name__ == "__main__":
    main()
