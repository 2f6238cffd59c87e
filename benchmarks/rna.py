"""RNA folding (Do, Le, Foo 2009, Figure 3, left): speed, certificates, the figure, and accuracy beside ViennaRNA.

The 151 families of the paper, one sequence each, in the two published folds A and B, and TORNADO's training set A.
Targets:

    one decoding of all 151 sequences in at most 0.8 s of one core, log Z with its gradient in at most 3 s;
    two threads 1.8 times as fast as one;
    a CRF at lambda = 0.1 certified to 1 % within 25 evaluations, a margin at 0.01 within 400, below 0.99 within 40;
    each fold tested on the other: F of the CRF at least 0.66, of the margin at least 0.63;
    trained on TORNADO, F on families left out no lower than that of ViennaRNA's minimum free energy.

Lambda, gamma and the margin's label loss are chosen by five-fold cross-validation inside the training fold, on a
third of TORNADO by families.  "mean weights" are the mean of the five fits of a margin in that cross-validation with
the chosen settings: J is convex, so J of the mean is at most the mean of their J.

``UNDERCUT_DATA`` names the folder that holds ``rna/S-151Rfam.tsv.gz`` and ``rna/TORNADO_TrA.tsv.gz``; ViennaRNA
(``pip install ViennaRNA``) is left out where it is not installed.  ``--parts speed figure3`` runs some of the parts,
``--quick`` shorter ones, ``--processes 14`` as many fits at a time.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import GroupKFold

from common import DataMissing, Table, data_file, print_machine, side_by_side
from undercut import L2, CuttingPlane, ProximalBundle, Stop, StructuredRisk, minimize
from undercut.estimators import RnaFolder
from undercut.io import RnaData, load_rna
from undercut.io.dot_bracket import partners
from undercut.measures.base_pairs import mean_pair_scores, pair_scores
from undercut.risks import FoldingModel, LikelihoodRisk
from undercut.risks.structured.folding.grammar import cleaned
from undercut.solvers import CachedCuttingPlane
from undercut.threads import one_thread

LAMBDAS = {"crf": (0.1, 0.02, 0.05, 0.2, 0.5), "margin": (1e-2, 3e-3, 3e-2, 1e-1)}
DELTAS = {"crf": ("missed",), "margin": ("missed", "pairs", "hamming")}
GAMMAS = (1.5, 2.0, 3.0, 4.5, 6.0, 9.0)
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


def speed(quick: bool, n_processes: int) -> None:
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
        table.row(name, f"{cpu:.2f}", target, f"{np.median([alone / both for alone, both in pairs]):.2f}")
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


def certificates(quick: bool, n_processes: int) -> None:
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


def figure3(quick: bool, n_processes: int) -> None:
    marks = (10, 20, 40) if quick else (20, 60, 120)
    table = Table(
        f"Figure 3, left: objective (lower bound) on fold A after {', '.join(map(str, marks))} evaluations; J(0) = 1",
        ["lambda", "solver", *map(str, marks)],
    )
    jobs = [(lam, name, marks, 60.0 if quick else 300.0) for lam in FIGURE_LAMBDAS for name in FIGURE_SOLVERS]
    for row in side_by_side(figure3_row, jobs, n_processes):
        table.row(*row)


FIGURE_SOLVERS = {
    "CuttingPlane": CuttingPlane(),
    "ProximalBundle, as printed": ProximalBundle(variant="printed"),
    "ProximalBundle": ProximalBundle(),
    "CachedCuttingPlane": CachedCuttingPlane(),
}


def figure3_row(lam: float, name: str, marks: tuple[int, ...], max_seconds: float) -> list[str]:
    train = folds(read("S-151"))["A"]
    solver = FIGURE_SOLVERS[name]
    cache = 50 if isinstance(solver, CachedCuttingPlane) else 0
    risk = StructuredRisk(FoldingModel(), train.sequences, grammatical(train), cache=cache, n_jobs=1)
    stop = Stop(gap_rel=1e-3, max_evaluations=marks[-1], max_seconds=max_seconds)
    trace = minimize(risk, L2(lam), solver, stop=stop).trace
    cells = []
    for mark in marks:
        row = [row for row in trace if row.n_evaluations <= mark][-1]
        note = "" if row.n_evaluations == mark or row is not trace[-1] else f" at {row.n_evaluations}"
        cells.append(f"{row.objective:.4f} ({row.lower_bound:.3f}){note}")
    return [f"{lam:g}", name, *cells]


# --- Accuracy --------------------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """What a fit is given."""

    loss: str
    lam: float
    delta: str

    def __str__(self) -> str:
        return f"lambda {self.lam:g}" + (f", {self.delta}" if self.loss == "margin" else "")


def fitted(setting: Setting, train: RnaData, gap_rel: float = 1e-2, n_jobs: int = 1) -> RnaFolder:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = RnaFolder(**setting._asdict(), decode="viterbi", n_jobs=n_jobs, gap_rel=gap_rel, max_seconds=3000.0)
        return folder.fit(train)


def answers_of(folder: RnaFolder, data: RnaData) -> dict[str, list[np.ndarray]]:
    """The predictions by Viterbi decoding and, of a CRF, those of maximum expected accuracy for every gamma."""
    model = FoldingModel()
    scores = model.prepare(folder.coef_)
    found = {"Viterbi": [model.predict(scores, x) for x in data.sequences]}
    if folder.loss == "crf":
        for gamma in GAMMAS:
            found[mea(gamma)] = [model.most_accurate(scores, x, gamma) for x in data.sequences]
    return found


def mea(gamma: float) -> str:
    return f"MEA, gamma {gamma:g}"


class HeldOut(NamedTuple):
    """A fit to a part of the training set, and how it does on the rest."""

    coef: np.ndarray
    loss: float  # of a CRF
    answers: dict[str, list[np.ndarray]]


def held_out(setting: Setting, train: RnaData, test: RnaData) -> HeldOut:
    folder = fitted(setting, train, 2e-2)
    loss = 0.0
    if setting.loss == "crf":
        risk = LikelihoodRisk(FoldingModel(), test.sequences, grammatical(test), n_jobs=1)
        loss = len(test.names) * risk.value(folder.coef_)
    return HeldOut(folder.coef_, loss, answers_of(folder, test))


class Choice(NamedTuple):
    """A setting, a way of decoding, and the mean weights of the fits to parts of the training set."""

    setting: Setting
    decoding: str
    mean_coef: np.ndarray


def cross_validated(loss: str, train: RnaData, groups: Sequence, quick: bool, n_processes: int) -> Choice:
    """The best setting and decoding by five-fold cross-validation inside the training set.

    The lambda of a CRF is the one of the best likelihood, a smoother measure than F, and gamma that of the best F of
    all pairs together; lambda and label loss of a margin are those of the best F.
    """
    lambdas = LAMBDAS[loss][:2] if quick else LAMBDAS[loss]
    settings = [Setting(loss, lam, delta) for lam in lambdas for delta in DELTAS[loss]]
    parts = list(GroupKFold(2 if quick else 5).split(groups, groups=groups))
    jobs = [(each, taken(train, fit), taken(train, test)) for each in settings for fit, test in parts]
    found = list(side_by_side(held_out, jobs, n_processes))
    Y = [y for _, test in parts for y in truths(taken(train, test))]
    scored = []
    for k, setting in enumerate(settings):
        of_parts = found[k * len(parts) : (k + 1) * len(parts)]
        mean_coef = np.mean([part.coef for part in of_parts], axis=0)
        for name in of_parts[0].answers:
            pairs = pair_scores(Y, [y for part in of_parts for y in part.answers[name]])
            if loss == "margin" or name != "Viterbi":
                score = -sum(part.loss for part in of_parts), pairs.f
                scored.append((score, Choice(setting, name, mean_coef)))
    return max(scored, key=itemgetter(0))[1]


def chosen(loss: str, train: RnaData, groups: Sequence, quick: bool, n_processes: int) -> tuple[Setting, str]:
    """A setting and a way of decoding."""
    return cross_validated(loss, train, groups, quick, n_processes)[:2]


def averaged(folder: RnaFolder, choice: Choice, train: RnaData) -> tuple[RnaFolder, str]:
    """A margin with the mean weights, and how far their objective is above the lower bound of the whole set."""
    mean = copy(folder)
    mean.coef_ = choice.mean_coef
    risk = StructuredRisk(FoldingModel(choice.setting.delta), train.sequences, grammatical(train))
    objective = risk.value(mean.coef_) + L2(choice.setting.lam).value(mean.coef_)
    return mean, f"gap {1.0 - folder.lower_bound_ / objective:.1%}"


def row_of(table: Table, name: str, Y: list[np.ndarray], answers: list[np.ndarray], note: str = "") -> None:
    """Scores, and how far F would move with other sequences: its standard deviation over 200 bootstrap samples."""
    rng = np.random.default_rng(0)
    samples = [rng.integers(len(Y), size=len(Y)) for _ in range(200)]
    spread = np.std([pair_scores([Y[i] for i in rows], [answers[i] for i in rows]).f for rows in samples])
    cells = [f"{value:.3f}" for value in (*pair_scores(Y, answers), *mean_pair_scores(Y, answers))]
    cells[2] += f" ± {spread:.3f}"
    table.row(name, *cells, note)


COLUMNS = ["method", "sensitivity", "PPV", "F", "mean sensitivity", "mean PPV", "mean F", "settings"]


def accuracy(quick: bool, n_processes: int) -> None:
    parts = folds(read("S-151"))
    Y = [y for fold in "AB" for y in truths(parts[fold])]
    table = Table("Each fold tested on the other, 151 sequences: all pairs together, and means of sequences", COLUMNS)
    for loss in ("crf", "margin"):
        answers: dict[str, list[np.ndarray]] = {}
        notes: dict[str, list[str]] = {}
        for fold, other in ("AB", "BA"):
            train = parts[other]
            choice = cross_validated(loss, train, range(len(train.names)), quick, n_processes)
            folder = fitted(choice.setting, train, n_jobs=-1)
            found = answers_of(folder, parts[fold])
            rows = {"chosen": (choice.decoding, found[choice.decoding])}
            if loss == "crf":
                rows |= {name: (name, found[name]) for name in ("Viterbi", mea(6.0))}
            else:
                mean, gap = averaged(folder, choice, train)
                rows["mean weights"] = gap, answers_of(mean, parts[fold])["Viterbi"]
            for row, (note, structures) in rows.items():
                answers.setdefault(row, []).extend(structures)
                notes.setdefault(row, []).append(f"{choice.setting}, {note}")
        for row, structures in answers.items():
            row_of(table, f"{loss}, {row}", Y, structures, " and ".join(notes[row]))
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


def tornado(quick: bool, n_processes: int) -> None:
    """The settings are chosen on a third of the sequences of at most 200 letters, a hundredth of the work."""
    data = read("TORNADO")
    longest, n_test = (100, 20) if quick else (1000, 60)
    source = np.array([name.partition("_")[0] for name in data.names])
    lengths = np.array([len(x) for x in data.sequences])
    known = np.flatnonzero(~np.isin(source, (*HELD_OUT, *UNKNOWN, *SAME)) & (lengths <= longest))
    test = [i for name in HELD_OUT for i in np.flatnonzero(source == name)[:: max(1, (source == name).sum() // n_test)]]
    held_out_families = taken(data, test)
    third = known[lengths[known] <= 200][::3]
    setting, decoding = chosen("crf", taken(data, third), source[third], quick, n_processes)
    answers = answers_of(fitted(setting, taken(data, known), 2e-2, n_jobs=-1), held_out_families)
    Y = truths(held_out_families)
    title = f"TORNADO: trained on {len(known)} sequences, tested on {len(test)} of "
    table = Table(title + f"the families {', '.join(HELD_OUT)}, which no training sequence belongs to", COLUMNS)
    for row, name in {"chosen": decoding, "Viterbi": "Viterbi", mea(6.0): mea(6.0)}.items():
        row_of(table, f"crf, {row}", Y, answers[name], f"{setting}, {name}")
    vienna_rows(table, held_out_families.sequences, Y)


PARTS = {"speed": speed, "certificates": certificates, "figure3": figure3, "accuracy": accuracy, "tornado": tornado}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to run; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer settings, evaluations and sequences")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="fits at a time, each with one thread")
    given = parser.parse_args()
    try:
        for file in FILES.values():
            data_file(file)
    except DataMissing as reason:
        sys.exit(f"skipped: {reason}")
    print_machine()
    for part in given.parts:
        PARTS[part](given.quick, given.processes)


if __name__ == "__main__":
    main()
