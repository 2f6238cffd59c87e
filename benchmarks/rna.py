"""RNA folding (Do, Le, Foo 2009, Figure 3, left): speed, certificates, the figure, and accuracy beside ViennaRNA.

The 151 families of the paper, one sequence each, in the two published folds A and B, and TORNADO's training set A.
Targets:

    one decoding of all 151 sequences in at most 0.8 s of one core, log Z with its gradient in at most 3 s;
    two threads 1.8 times as fast as one;
    a CRF at lambda = 0.1 certified to 1 % within 25 evaluations, a margin at 0.01 within 400, below 0.99 within 40;
    each fold tested on the other: F of the CRF at least 0.66, of the margin at least 0.63;
    trained on TORNADO, F on families left out no lower than that of ViennaRNA's minimum free energy.

Lambda and gamma are chosen by cross-validation inside the training fold.  ``UNDERCUT_DATA`` names the folder that holds
``rna/S-151Rfam.tsv.gz`` and ``rna/TORNADO_TrA.tsv.gz``; ViennaRNA (``pip install ViennaRNA``) is left out where it is
not installed.  ``--parts speed figure3`` runs some of the parts, ``--quick`` shorter ones.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from common import DataMissing, Table, data_file, print_machine
from undercut import L2, CuttingPlane, ProximalBundle, Stop, StructuredRisk, minimize
from undercut.estimators import RnaFolder
from undercut.io import RnaData, load_rna
from undercut.io.dot_bracket import partners
from undercut.measures.base_pairs import mean_pair_scores, pair_scores
from undercut.risks import FoldingModel, LikelihoodRisk
from undercut.risks.structured.folding.grammar import cleaned
from undercut.solvers import CachedCuttingPlane
from undercut.threads import one_thread

LAMBDAS = {"crf": (0.1, 0.03, 0.3), "margin": (1e-2, 3e-3, 3e-2)}
GAMMAS = (1.5, 3.0, 6.0)
FIGURE_LAMBDAS = (1e-1, 1e-2, 1e-3, 1e-4)
HELD_OUT = ("ASE", "SRP", "TMR")  # RNase P, signal recognition particle, transfer-messenger RNA
SAME = ("RF00009", "RF00010", "RF00011", "RF00017", "RF00023", "RF00169")  # the same families in Rfam
UNKNOWN = ("PDB", "RFA")  # sources whose families are not told
FILES = {"S-151": Path("rna", "S-151Rfam.tsv.gz"), "TORNADO": Path("rna", "TORNADO_TrA.tsv.gz")}


def taken(data: RnaData, rows: np.ndarray | list[int]) -> RnaData:
    """Some of the sequences, in the four letters."""
    names, families, sequences, structures = ([each[i] for i in rows] for each in data)
    return RnaData(names, families, [x.upper().replace("T", "U") for x in sequences], structures)


def read(name: str) -> RnaData:
    data = load_rna(data_file(FILES[name]))
    return taken(data, range(len(data.names)))


def folds(data: RnaData) -> dict[str, RnaData]:
    return {fold: taken(data, [i for i, n in enumerate(data.names) if n.endswith(f"_{fold}")]) for fold in "AB"}


def truths(data: RnaData) -> list[np.ndarray]:
    return [partners(structure) for structure in data.structures]


def grammatical(data: RnaData) -> list[np.ndarray]:
    return [cleaned(x, y).y for x, y in zip(data.sequences, truths(data), strict=True)]


# --- Speed -----------------------------------------------------------------------------------------------------------


def seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """The least time of three."""
    times = []
    for _ in range(3):
        began = clock()
        work()
        times.append(clock() - began)
    return min(times)


def speed(quick: bool) -> None:
    data = read("S-151")
    model, X, Y = FoldingModel(), data.sequences, grammatical(data)
    w = 0.1 * np.random.default_rng(0).standard_normal(model.n_params)
    table = Table("All 151 sequences once", ["what", "processor s, one core", "target", "two threads: times as fast"])
    for name, kind, target in (("decoding", StructuredRisk, 0.8), ("log Z and gradient", LikelihoodRisk, 3.0)):
        one, two = (kind(model, X, Y, n_jobs=n_jobs) for n_jobs in (1, 2))
        with one_thread():
            one.cut(w)
            two.cut(w)
            pairs = [(wall(one.cut, w), wall(two.cut, w)) for _ in range(3 if quick else 7)]
            cpu = seconds(lambda risk=one: risk.cut(w), time.process_time)
        table.row(name, f"{cpu:.2f}", target, f"{max(alone / both for alone, both in pairs):.2f}")
    if (vienna := peer()) is not None:
        cpu = seconds(lambda: [vienna.fold(x) for x in X], time.process_time)
        table.row("ViennaRNA's minimum free energy", f"{cpu:.2f}", "", "")


def wall(work: Callable[[np.ndarray], object], w: np.ndarray) -> float:
    began = time.perf_counter()
    work(w)
    return time.perf_counter() - began


def peer():
    """ViennaRNA, where it is installed."""
    try:
        import RNA
    except ImportError:
        print("\nViennaRNA skipped: it is not installed (pip install ViennaRNA)")
        return None
    return RNA


# --- Certificates and Figure 3 ---------------------------------------------------------------------------------------


def certificates(quick: bool) -> None:
    train = folds(read("S-151"))["A"]
    model, X, Y = FoldingModel(), train.sequences, grammatical(train)
    table = Table(
        "Fold A from w = 0 to a certified gap of 1 %",
        ["loss", "lambda", "solver", "evaluations", "target", "below 0.99 after", "objective", "lower bound", "cpu s"],
    )
    runs = [("crf", 0.1, LikelihoodRisk(model, X, Y), 25), ("margin", 1e-2, StructuredRisk(model, X, Y, cache=50), 400)]
    for loss, lam, risk, target in runs:
        began = time.process_time()
        result = minimize(risk, L2(lam), stop=Stop(gap_rel=1e-2, max_evaluations=target))
        solver = "CachedCuttingPlane" if loss == "margin" else "NonconvexBundle"
        below = next((row.n_evaluations for row in result.trace if row.objective < 0.99), "-")
        table.row(
            loss, lam, solver, result.n_evaluations, target, below, f"{result.objective:.4f}",
            f"{result.lower_bound:.4f}", f"{time.process_time() - began:.1f}",
        )  # fmt: skip


def figure3(quick: bool) -> None:
    train = folds(read("S-151"))["A"]
    model, X, Y = FoldingModel(), train.sequences, grammatical(train)
    marks = (10, 20, 40) if quick else (20, 60, 120)
    table = Table(
        f"Figure 3, left: objective (lower bound) on fold A after {', '.join(map(str, marks))} evaluations; J(0) = 1",
        ["lambda", "solver", *map(str, marks)],
    )
    solvers = {
        "CuttingPlane": CuttingPlane(),
        "ProximalBundle, as printed": ProximalBundle(variant="printed"),
        "ProximalBundle": ProximalBundle(),
        "CachedCuttingPlane": CachedCuttingPlane(),
    }
    for lam in FIGURE_LAMBDAS:
        for name, solver in solvers.items():
            risk = StructuredRisk(model, X, Y, cache=50 if isinstance(solver, CachedCuttingPlane) else 0)
            stop = Stop(gap_rel=1e-3, max_evaluations=marks[-1], max_seconds=60.0 if quick else 600.0)
            trace = minimize(risk, L2(lam), solver, stop=stop).trace
            cells = []
            for mark in marks:
                row = [row for row in trace if row.n_evaluations <= mark][-1]
                note = "" if row.n_evaluations == mark or row is not trace[-1] else f" at {row.n_evaluations}"
                cells.append(f"{row.objective:.4f} ({row.lower_bound:.3f}){note}")
            table.row(f"{lam:g}", name, *cells)


# --- Accuracy --------------------------------------------------------------------------------------------------------


def fitted(loss: str, lam: float, train: RnaData, gap_rel: float = 1e-2) -> RnaFolder:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RnaFolder(loss, lam, decode="viterbi", gap_rel=gap_rel, max_seconds=600.0).fit(train)


def viterbi(folder: RnaFolder, data: RnaData) -> list[np.ndarray]:
    model = FoldingModel()
    scores = model.prepare(folder.coef_)
    return [model.predict(scores, x) for x in data.sequences]


def most_accurate(folder: RnaFolder, data: RnaData, gamma: float) -> list[np.ndarray]:
    model = FoldingModel()
    scores = model.prepare(folder.coef_)
    return [model.most_accurate(scores, x, gamma) for x in data.sequences]


def chosen(loss: str, train: RnaData, quick: bool) -> tuple[float, float]:
    """Lambda and gamma by two-fold cross-validation inside the training fold.

    The lambda of a CRF is the one of the best likelihood, which is a smoother measure than F, and gamma that of the
    best pooled F; the lambda of a margin is that of the best F.
    """
    halves = [taken(train, range(first, len(train.names), 2)) for first in (0, 1)]
    lambdas = LAMBDAS[loss][:1] if quick else LAMBDAS[loss]
    gammas = GAMMAS if loss == "crf" else (0.0,)
    Y = [y for half in halves for y in truths(half)]
    scores = {}
    for lam in lambdas:
        tested = list(zip([fitted(loss, lam, halves[1 - k], 2e-2) for k in (0, 1)], halves, strict=True))
        likelihood = -sum(held_out_loss(*pair) for pair in tested) if loss == "crf" else 0.0
        for gamma in gammas:
            predict = viterbi if loss == "margin" else lambda folder, half, g=gamma: most_accurate(folder, half, g)
            answers = [y for folder, half in tested for y in predict(folder, half)]
            scores[lam, gamma] = likelihood, pair_scores(Y, answers).f
    return max(scores, key=lambda setting: scores[setting])


def held_out_loss(folder: RnaFolder, data: RnaData) -> float:
    return LikelihoodRisk(FoldingModel(), data.sequences, grammatical(data)).value(folder.coef_)


def row_of(table: Table, name: str, Y: list[np.ndarray], answers: list[np.ndarray], note: str = "") -> None:
    cells = [f"{value:.3f}" for value in (*pair_scores(Y, answers), *mean_pair_scores(Y, answers))]
    table.row(name, *cells, note)


COLUMNS = ["method", "sensitivity", "PPV", "F", "mean sensitivity", "mean PPV", "mean F", "settings"]


def accuracy(quick: bool) -> None:
    parts = folds(read("S-151"))
    Y = [y for fold in "AB" for y in truths(parts[fold])]
    table = Table("Each fold tested on the other, 151 sequences: all pairs together, and means of sequences", COLUMNS)
    for loss in ("crf", "margin"):
        answers: dict[str, list[np.ndarray]] = {}
        notes = []
        for fold, other in ("AB", "BA"):
            lam, gamma = chosen(loss, parts[other], quick)
            folder = fitted(loss, lam, parts[other])
            notes.append(f"{lam:g}" + (f", gamma {gamma:g}" if loss == "crf" else ""))
            answers.setdefault("Viterbi", []).extend(viterbi(folder, parts[fold]))
            if loss == "crf":
                answers.setdefault("MEA", []).extend(most_accurate(folder, parts[fold], gamma))
                answers.setdefault("MEA, gamma 6", []).extend(most_accurate(folder, parts[fold], 6.0))
        for name, structures in answers.items():
            row_of(table, f"{loss}, {name}", Y, structures, "lambda " + " and ".join(notes))
    vienna_rows(table, [x for fold in "AB" for x in parts[fold].sequences], Y)


def vienna_rows(table: Table, sequences: list[str], Y: list[np.ndarray]) -> None:
    if (vienna := peer()) is None:
        return
    answers: dict[str, list[np.ndarray]] = {"MFE": [], "centroid": [], "MEA": []}
    for x in sequences:
        compound = vienna.fold_compound(x)
        best = compound.mfe()[0]
        compound.pf()
        for name, structure in (("MFE", best), ("centroid", compound.centroid()[0]), ("MEA", compound.MEA()[0])):
            answers[name].append(partners(structure))
    for name, structures in answers.items():
        row_of(table, f"ViennaRNA, {name}", Y, structures)


def tornado(quick: bool) -> None:
    data = read("TORNADO")
    longest, n_test = (100, 20) if quick else (200, 60)
    source = np.array([name.partition("_")[0] for name in data.names])
    lengths = np.array([len(x) for x in data.sequences])
    known = ~np.isin(source, (*HELD_OUT, *UNKNOWN, *SAME)) & (lengths <= longest)
    train = taken(data, np.flatnonzero(known))
    test = [i for name in HELD_OUT for i in np.flatnonzero(source == name)[:: max(1, (source == name).sum() // n_test)]]
    held_out = taken(data, test)
    lam = LAMBDAS["crf"][0]
    folder = fitted("crf", lam, train, 2e-2)
    Y = truths(held_out)
    title = f"TORNADO: trained on {len(train.names)} sequences of at most {longest} letters, tested on {len(test)} of "
    table = Table(title + f"the families {', '.join(HELD_OUT)}, which no training sequence belongs to", COLUMNS)
    row_of(table, "crf, MEA, gamma 6", Y, most_accurate(folder, held_out, 6.0), f"lambda {lam:g}")
    row_of(table, "crf, Viterbi", Y, viterbi(folder, held_out), f"lambda {lam:g}")
    vienna_rows(table, held_out.sequences, Y)


PARTS = {"speed": speed, "certificates": certificates, "figure3": figure3, "accuracy": accuracy, "tornado": tornado}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to run; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer settings, evaluations and sequences")
    given = parser.parse_args()
    try:
        for file in FILES.values():
            data_file(file)
    except DataMissing as reason:
        sys.exit(f"skipped: {reason}")
    print_machine()
    for part in given.parts:
        PARTS[part](given.quick)


if __name__ == "__main__":
    main()
