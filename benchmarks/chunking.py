"""CoNLL-2000 chunking with the usual templates, beside CRFsuite: the same objective, time to it, chunk F1, memory.

    J(w) = lam/2 |w|^2 + 1/n sum_s -log p(y_s | x_s; w)        CRFsuite:  c2 |w|^2 + sum_s -log p(y_s | x_s; w)

so ``lam = 2 c2 / n`` and its loss is n J.  CRFsuite's first and last tokens have the attributes __BOS__ and __EOS__,
which are our weights ``start`` and ``end``; it has no bias.  By default it fits only the pairs of attribute and label,
and of label and next label, that occur: our ``pairs="seen"``, with the same parameters and the same minimum.  All pairs
have a lower minimum of the same J.  Our runs end at a certified gap, and not before CRFsuite's last J is reached.  The
log of CRFsuite counts processor time, so ours is counted too, all threads together, the construction of the risk
included; memory is the most that a fit took beyond its data.  Expected:

    the minimum of seen pairs is CRFsuite's: as many parameters, a lower bound below its J, and J as low;
    chunk F1 of at least 93.5;
    no more time to CRFsuite's last objective than CRFsuite's.

The second table is one evaluation of the risk, value and gradient, on one thread and on all.  CRFsuite is
``pip install python-crfsuite``; without it our half is run to its gap.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from common import DATA_VARIABLE, DataMissing, Table, peak_memory, print_machine, reset_peak_memory, run_apart
from undercut import L2, ChainRisk, Lbfgs, NonconvexBundle, Progress, Stop, minimize
from undercut.contracts import Solver
from undercut.io import ConllData, load_conll
from undercut.maps import SPELLING, WINDOW, TemplateFeatures
from undercut.measures.chunks import chunk_scores
from undercut.risks import CRF

TEMPLATES = {"window": WINDOW, "window and spelling": WINDOW + SPELLING}
Pairs = Literal["seen", "all"]
SOLVERS: dict[str, Solver] = {"lbfgs": Lbfgs(), "bundle": NonconvexBundle(line_search="greedy", max_planes=30)}


@dataclass
class Run:
    """A fit: J and processor seconds after each iteration, and what came of it."""

    n_params: int
    objectives: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    lower_bound: float = -np.inf
    certified: float = np.nan  # processor seconds to the gap
    wall: float = np.nan
    memory: float = np.nan
    f1: float = np.nan
    accuracy: float = np.nan

    def seconds_to(self, objective: float) -> float:
        """Processor time until J was at most this; NaN if it never was."""
        reached = [s for s, value in zip(self.seconds, self.objectives, strict=True) if value <= objective]
        return reached[0] if reached else np.nan

    def judge(self, data: ConllData, tags: list[str]) -> None:
        self.f1 = 100.0 * chunk_scores(data.columns[-1], tags, data.lengths)[""].f1
        self.accuracy = 100.0 * float(np.mean(np.array(data.columns[-1]) == np.array(tags)))


def read(which: str, n_sentences: int | None = None) -> ConllData:
    """A part of the set, or its first sentences."""
    folder, file = os.environ.get(DATA_VARIABLE), Path("conll2000", f"{which}.txt.gz")
    if not folder or not (Path(folder) / file).is_file():
        raise DataMissing(f"{DATA_VARIABLE} must name a folder that holds {file}")
    data = load_conll(Path(folder) / file, n_columns=3)
    if n_sentences is None or n_sentences >= data.lengths.size:
        return data
    n_tokens = int(data.lengths[:n_sentences].sum())
    return ConllData(tuple(column[:n_tokens] for column in data.columns), data.lengths[:n_sentences])


def fit_ours(
    pairs: Pairs, solver: str, templates: str, c2: float, target: float, gap_rel: float, n_sentences: int | None
) -> Run:
    """Fit until J is at most ``target`` and the gap is certified."""
    train, test = read("train", n_sentences), read("test")
    features = TemplateFeatures(TEMPLATES[templates])
    X, Z = features.fit_transform(train), features.transform(test)
    labels, y = np.unique(train.columns[-1], return_inverse=True)
    options: dict[str, Any] = {"n_labels": labels.size, "start": True, "end": True, "bias": False}
    compiled = ChainRisk(X[:200], y[:200], CRF(), [100, 100], pairs=pairs, **options)
    compiled.cut(np.zeros(compiled.n_params))
    del compiled
    before = reset_peak_memory()
    began, wall = time.process_time(), time.perf_counter()
    risk = ChainRisk(X, y, CRF(), train.lengths, pairs=pairs, **options)
    run = Run(risk.n_params)

    def watch(at: Progress) -> bool:
        run.objectives.append(at.objective)
        run.seconds.append(time.process_time() - began)
        certified = at.gap <= gap_rel * at.objective
        if certified and np.isnan(run.certified):
            run.certified = run.seconds[-1]
        return at.objective <= target and certified

    lam = 2.0 * c2 / train.lengths.size
    stop = Stop(gap_rel=1e-9, max_evaluations=1000)
    result = minimize(risk, L2(lam), SOLVERS[solver], stop=stop, callbacks=[watch])
    run.wall, run.memory = time.perf_counter() - wall, peak_memory() - before
    run.lower_bound = result.lower_bound
    tested = ChainRisk(Z, np.zeros(Z.shape[0], np.int64), CRF(), test.lengths, **options)
    run.judge(test, labels[tested.decode(tested.design.pack(risk.unpack(result.w)))].tolist())
    return run


def fit_crfsuite(every_pair: bool, templates: str, c2: float, n_sentences: int | None) -> Run:
    """CRFsuite's L-BFGS with its own rules of when to stop."""
    import pycrfsuite

    train, test = read("train", n_sentences), read("test")
    features = TemplateFeatures(TEMPLATES[templates]).fit(train)
    names = np.array(features.names(), dtype=object)
    examples = list(zip(attributes(features.transform(train), names, train), train.sentences(-1), strict=True))
    before = reset_peak_memory()
    wall = time.perf_counter()
    trainer = pycrfsuite.Trainer(verbose=False)
    for xs, ys in examples:
        trainer.append(xs, ys)
    pairs = {"feature.possible_states": every_pair, "feature.possible_transitions": every_pair}
    trainer.set_params({"c1": 0.0, "c2": c2, **pairs})
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder, "model"))
        trainer.train(model)
        log = trainer.logparser
        run = Run(int(log.featgen_num_features), wall=time.perf_counter() - wall, memory=peak_memory() - before)
        run.objectives = [row["loss"] / train.lengths.size for row in log.iterations]
        run.seconds = np.cumsum([row["time"] for row in log.iterations]).tolist()
        tagger = pycrfsuite.Tagger()
        tagger.open(model)
        run.judge(test, [tag for xs in attributes(features.transform(test), names, test) for tag in tagger.tag(xs)])
    return run


def time_evaluations(pairs: Pairs, templates: str, n_sentences: int | None) -> tuple[float, float]:
    """Wall and processor seconds of one evaluation, the best of some, on as many threads as BLAS is given."""
    train = read("train", n_sentences)
    X = TemplateFeatures(TEMPLATES[templates]).fit_transform(train)
    y = np.unique(train.columns[-1], return_inverse=True)[1]
    risk = ChainRisk(X, y, CRF(), train.lengths, start=True, end=True, pairs=pairs)
    w = 0.1 * np.random.default_rng(0).standard_normal(risk.n_params)
    times = []
    for _ in range(8):
        wall, cpu = time.perf_counter(), time.process_time()
        risk.cut(w)
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(wall for wall, _ in times), min(cpu for _, cpu in times)


def show_evaluations(options: argparse.Namespace) -> None:
    columns = ["pairs", "wall s, one thread", "wall s, all threads", "speedup", "processor s, all threads"]
    table = Table("One evaluation of the risk", columns)
    for pairs in options.pairs:
        one, _ = run_apart(on_one_thread, pairs, options.templates, options.sentences)
        every, cpu = run_apart(time_evaluations, pairs, options.templates, options.sentences)
        table.row(pairs, f"{one:.3f}", f"{every:.3f}", f"{one / every:.2f}", f"{cpu:.3f}")


def on_one_thread(pairs: Pairs, templates: str, n_sentences: int | None) -> tuple[float, float]:
    with threadpool_limits(1):
        return time_evaluations(pairs, templates, n_sentences)


def attributes(X: sp.csr_matrix, names: np.ndarray, data: ConllData) -> list[list[list[str]]]:
    """The features of each token by name, with marks at both ends of a sentence."""
    tokens = [names[X.indices[first:end]].tolist() for first, end in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
    ends = np.cumsum(data.lengths)
    for first, end in zip(ends - data.lengths, ends, strict=True):
        tokens[first].append("__BOS__")
        tokens[end - 1].append("__EOS__")
    return [tokens[end - length : end] for end, length in zip(ends, data.lengths, strict=True)]


def show(table: Table, name: str, run: Run, target: float) -> None:
    reached = [run.seconds_to(share * target) if target < np.inf else np.nan for share in (1.001, 1.0)]
    times = [*reached, run.certified, run.seconds[-1], run.wall]
    table.row(
        name, run.n_params, f"{run.objectives[-1]:.6f}", f"{run.lower_bound:.6f}", len(run.objectives),
        *(f"{seconds:.1f}" for seconds in times), f"{run.f1:.2f}", f"{run.accuracy:.2f}", f"{run.memory:.0f}",
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--c2", type=float, default=1.0, help="CRFsuite's coefficient of |w|^2")
    parser.add_argument("--sentences", type=int, default=None, help="train on the first ones only")
    parser.add_argument("--templates", choices=TEMPLATES, default="window")
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=list(SOLVERS))
    parser.add_argument("--gap-rel", type=float, default=1e-3)
    parser.add_argument("--pairs", nargs="+", choices=["seen", "all"], default=["seen", "all"])
    parser.add_argument("--crfsuite-all", action="store_true", help="let CRFsuite fit all pairs too")
    options = parser.parse_args()
    try:
        n = read("train", options.sentences).lengths.size
    except DataMissing as reason:
        print(f"skipped: {reason}")
        return
    print_machine()
    columns = ["method", "parameters", "J", "lower bound", "iterations"]
    columns += [
        "processor s to 1.001 times CRFsuite's J",
        "to CRFsuite's J",
        f"to a gap of {options.gap_rel:g}",
        "in all",
    ]
    title = f"CoNLL-2000, {n} sentences, {options.templates}, c2 = {options.c2:g}, lambda = {2 * options.c2 / n:.4g}"
    table = Table(title, [*columns, "wall s", "chunk F1", "accuracy", "memory in MB"])
    for pairs in options.pairs:
        compare(table, pairs, options)
    show_evaluations(options)


def compare(table: Table, pairs: Pairs, options: argparse.Namespace) -> None:
    """CRFsuite and ours with the same parameters, where CRFsuite takes part."""
    theirs, target = None, np.inf
    if pairs == "seen" or options.crfsuite_all:
        try:
            theirs = run_apart(fit_crfsuite, pairs == "all", options.templates, options.c2, options.sentences)
            target = theirs.objectives[-1]
            show(table, f"CRFsuite, {pairs} pairs", theirs, target)
        except ImportError as reason:
            print(f"CRFsuite skipped: {reason}")
    for solver in options.solvers:
        run = run_apart(
            fit_ours, pairs, solver, options.templates, options.c2, target, options.gap_rel, options.sentences
        )
        show(table, f"undercut, {pairs} pairs, {solver}", run, target)
        if theirs is not None:
            check_same_minimum(run, theirs)


def check_same_minimum(ours: Run, theirs: Run) -> None:
    """Both minimize the same function: theirs is above our bound, and ours was to reach theirs."""
    assert ours.n_params == theirs.n_params, "not the same parameters"
    assert ours.lower_bound <= theirs.objectives[-1], "CRFsuite's J is below a lower bound of it"
    assert ours.objectives[-1] <= theirs.objectives[-1], "CRFsuite's J was not reached"


if __name__ == "__main__":
    main()
