"""Table 7: large-margin hidden Markov models (Do and Artières 2012, Sec. 5.5), on spoken digits in place of TIMIT.

    python benchmarks/table7.py                 # some 20 minutes on one core
    python benchmarks/table7.py --processes 12  # as many jobs at a time, each with one thread
    python benchmarks/table7.py --only folds --quick  # one fold, one lambda

1. Isolated digits in five folds, by the number of the recording: every speaker is in every fold.  NRBMLS is
   ``NonconvexBundle`` with the line search ``single`` to a gap of 1 %, NRBM the same without line search, NBM
   ``ClassicBundle``, SGD ``StochasticGradient`` with batches of 30 utterances, 60 passes, the best of
   three step sizes; a + means as many evaluations, or passes, as NRBMLS took, a * the same objective.
2. Isolated digits of a speaker who was not in the training data.  Lambda, theta, the margin and a share of the way from
   the maximum likelihood solution are also chosen by validation: each of the five training speakers is left out in
   turn, and either the best settings are taken, or the shortest way within one standard error of them.  Exact tests
   compare with maximum likelihood: McNemar's on recordings that one of both gets right, and the sign test on speakers.
3. Connected digits: three to seven recordings of one speaker, one after the other; word error by edit distance.
4. Maximum likelihood beside hmmlearn, at the same number of iterations.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest

from common import DataMissing, Table, data_file, print_machine
from speech_sets import FILE, N_MIXTURES, N_STATES, ONES, Digits, Fold, Speaker, digits, recordings, units
from undercut import L2, NonconvexBundle, Stop, minimize
from undercut.io import joined
from undercut.measures.edit_distance import word_error_rate
from undercut.risks.structured.hmm.connected import fit_connected
from undercut.risks.structured.hmm.frames import Frames
from undercut.risks.structured.hmm.layout import HmmLayout
from undercut.risks.structured.hmm.paths import looped
from undercut.risks.structured.hmm.risk import ConnectedRisk, WordRisk
from undercut.risks.structured.hmm.start import Likelihood, fit_words
from undercut.solvers import ClassicBundle, StochasticGradient

LAMS = (0.01, 0.005, 0.003, 0.002)
FOLDS, SPEAKERS, GAP = range(5), range(6), 0.01
OURS = NonconvexBundle(line_search="single")
MOST = 500  # evaluations of NBM
STEP_SIZES = (0.03, 0.1, 0.3)
# What validation chooses from: lambda, theta and margin of a run, and the share of its way from the start.
GRID = tuple(product((0.01, 0.03, 0.1), (ONES, (1.0, 4.0, 1.0)), (1.0, 3.0, 10.0)))
SHARES = (0.25, 0.5, 1.0)
N_CONNECTED, N_TEST, SEEDS = 600, 200, range(3)
# Evaluations, objective and error of phones on TIMIT, as printed.
PAPER = {
    "NRBMLS": [(72, 0.583, 0.281), (104, 0.542, 0.276), (132, 0.507, 0.274), (396, 0.474, 0.277)],
    "NBM+": [(72, 0.584, 0.282), (104, 0.545, 0.278), (132, 0.512, 0.276), (396, 0.475, 0.278)],
    "NBM": [(416, 0.580, 0.283), (629, 0.539, 0.277), (916, 0.504, 0.275), (1181, 0.472, 0.278)],
    "SGD+": [(72, 0.598, 0.286), (104, 0.612, 0.281), (132, 0.653, 0.278), (396, 0.765, 0.277)],
    "SGD": [(439, 0.594, 0.285), (502, 0.552, 0.280), (594, 0.517, 0.274), (667, 0.487, 0.275)],
}


@dataclass(frozen=True)
class Run:
    """What a method reached."""

    method: str
    lam: float
    n_evaluations: float
    seconds: float
    objective: float
    error: float


# ------------------------------------------------------------------------------------------------------ methods


def bundle(on: Digits, lam: float, method: str, solver: Any, stop: Stop) -> tuple[Run, Any]:
    risk = WordRisk(on.train, on.y)
    began = time.perf_counter()
    result = minimize(risk, on.reg(lam), solver, w0=on.w0, stop=stop)
    seconds = time.perf_counter() - began
    return Run(method, lam, result.n_evaluations, seconds, result.objective, on.error(result.w)), result


def sgd(on: Digits, lam: float, method: str, n_passes: int) -> Run:
    """The best of some step sizes; the objective after each pass is not counted as an evaluation."""
    solvers = [StochasticGradient(step_size=size, batch_size=30, momentum=0.0, half_life=10.0) for size in STEP_SIZES]
    stop = Stop(gap_rel=0.0, max_steps=n_passes)
    runs = [bundle(on, lam, method, solver, stop)[0] for solver in solvers]
    return replace(min(runs, key=lambda run: run.objective), n_evaluations=n_passes)


def fold_runs(number: int, lam: float) -> list[Run]:
    """All methods on one fold at one lambda."""
    on = digits("none", Fold(number))
    ours, result = bundle(on, lam, "NRBMLS", OURS, Stop(gap_rel=GAP))
    stop, same = Stop(gap_rel=1e-3, max_evaluations=MOST), Stop(gap_rel=0.0, max_evaluations=ours.n_evaluations)
    plain, _ = bundle(on, lam, "NRBM", NonconvexBundle(), Stop(gap_rel=GAP, max_evaluations=MOST))
    nbm, long = bundle(on, lam, "NBM", ClassicBundle(), stop)
    reached = next((row for row in long.trace if row.objective <= result.objective), None)
    as_good = Run("NBM*", lam, np.nan if reached is None else reached.n_evaluations,
                  np.nan if reached is None else reached.seconds, result.objective, np.nan)  # fmt: skip
    value = WordRisk(on.train, on.y).value(on.w0)
    return [
        Run("ML", lam, 0, on.seconds, value, on.error(on.w0)), ours, plain,
        bundle(on, lam, "NBM+", ClassicBundle(), same)[0], as_good, nbm,
        sgd(on, lam, "SGD+", ours.n_evaluations), sgd(on, lam, "SGD", 60),
    ]  # fmt: skip


class Choice(NamedTuple):
    """Settings that validation chose."""

    lam: float
    theta: tuple[float, float, float]
    margin: float
    share: float  # of the way from the start to the solution

    def __str__(self) -> str:
        return f"{self.lam:g}, {self.theta[1]:g}, {self.margin:g}, {self.share:g}"


CHOICES = [Choice(*each, share) for each, share in product(GRID, SHARES)]


@dataclass(frozen=True)
class Across:
    """Wrong recordings of a speaker who was not in the training data, by method, and the settings that were chosen."""

    kind: str
    speaker: int
    wrong: dict[str, np.ndarray]
    choices: dict[str, Choice]


def wrongs(on: Digits, lam: float, theta: tuple[float, float, float], margin: float) -> list[np.ndarray]:
    """The wrong recordings after a run, for every share of its way."""
    risk, stop = WordRisk(on.train, on.y, margin=margin), Stop(gap_rel=GAP, max_evaluations=100)
    away = minimize(risk, on.reg(lam, theta), OURS, w0=on.w0, stop=stop).w - on.w0
    return [on.wrong(on.w0 + share * away) for share in SHARES]


def across_run(kind: str, speaker: int) -> Across:
    """Train on five speakers, with settings that are good when each of them is left out in turn."""
    others = [other for other in SPEAKERS if other != speaker]
    inner = [digits(kind, Speaker(other, (speaker,))) for other in others]
    errors = np.array([[wrong.mean() for each in GRID for wrong in wrongs(on, *each)] for on in inner])
    mean, best = errors.mean(axis=0), int(errors.mean(axis=0).argmin())
    near = np.flatnonzero(mean <= mean[best] + errors[:, best].std(ddof=1) / np.sqrt(len(others)))
    nearest = max(near, key=lambda at: (-CHOICES[at].share, CHOICES[at].lam, -mean[at]))
    choices = {"margin, validated": CHOICES[best], "margin, one standard error": CHOICES[nearest]}
    digits.cache_clear()
    on = digits(kind, Speaker(speaker))
    tried = {"margin, lambda 0.01": Choice(0.01, ONES, 1.0, 1.0), **choices}
    found = {title: wrongs(on, *each[:3])[SHARES.index(each.share)] for title, each in tried.items()}
    return Across(kind, speaker, {"ML": on.wrong(on.w0), **found}, choices)


@dataclass(frozen=True)
class Connected:
    """Word errors of one lambda and one draw of utterances."""

    lam: float
    ml: float
    ml_penalty: float  # with the word penalty that is best on the training data
    margin: float
    n_evaluations: int
    seconds: float
    objectives: tuple[float, float]


def connected_runs(seed: int, lams: Sequence[float]) -> list[Connected]:
    """Train on utterances of the recordings of four folds, test on those of fold 0."""
    data = recordings("none")
    said = [joined(data.take(mask), n, seed=seed) for mask, n in zip(Fold(0)(data), (N_CONNECTED, N_TEST), strict=True)]
    (train, test), (X, X_test) = said, units(said[0].X, said[1].X)
    layout = HmmLayout(10, N_STATES, N_MIXTURES, X.shape[1])
    words = np.concatenate(train.y).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum([len(each) for each in train.y])])
    frames, tests = (Frames(rows, np.diff(part.offsets), layout) for rows, part in ((X, train), (X_test, test)))
    start = fit_connected(X, frames.lengths, words, ends, layout, Likelihood())
    plain = start.w.copy()
    layout.unpack(plain).enter[:] = np.log(np.bincount(words) / words.size)
    risk = ConnectedRisk(frames, np.repeat(words, start.lengths), words, ends)

    def error(w: np.ndarray) -> float:
        return word_error_rate(test.y, [path.words(layout).tolist() for path in looped(tests, layout.unpack(w))])

    def run(lam: float) -> Connected:
        began = time.perf_counter()
        reg = L2(lam, center=start.w, weights=layout.penalty_weights(ONES))
        result = minimize(risk, reg, OURS, w0=start.w, stop=Stop(gap_rel=GAP))
        seconds = time.perf_counter() - began
        objectives = (risk.value(start.w), result.objective)
        errors = (error(plain), error(start.w), error(result.w))
        return Connected(lam, *errors, result.n_evaluations, seconds, objectives)

    return [run(lam) for lam in lams]


@dataclass(frozen=True)
class Peer:
    """Times of maximum likelihood, and the log-likelihood per frame that hmmlearn finds for both solutions."""

    word: int
    seconds: float
    peer_seconds: float
    likelihood: float
    peer_likelihood: float


def peer_run(word: int) -> Peer:
    """The model of one word; both take at most ten iterations, each from its own start."""
    from hmmlearn.hmm import GMMHMM

    data = recordings("none").take(recordings("none").y == word)
    X = units(data.X, data.X)[0]
    layout = HmmLayout(1, N_STATES, N_MIXTURES, X.shape[1])
    y = np.zeros(data.lengths.size, np.int64)
    fit_words(X, data.lengths, y, layout, Likelihood())  # compile
    began = time.perf_counter()
    fit = fit_words(X, data.lengths, y, layout, Likelihood())
    seconds = time.perf_counter() - began
    models = []
    for _ in range(2):
        model = GMMHMM(N_STATES, N_MIXTURES, covariance_type="diag", n_iter=10, tol=1e-3 * len(X), init_params="mcw",
                       params="tmcw", random_state=0)  # fmt: skip
        model.startprob_ = np.eye(N_STATES)[0]
        model.transmat_ = 0.8 * np.eye(N_STATES) + 0.2 * np.eye(N_STATES, k=1)
        model.transmat_[-1, -1] = 1.0
        models.append(model)
    ours, peer = models
    began = time.perf_counter()
    peer.fit(X, data.lengths)
    peer_seconds = time.perf_counter() - began
    _fill(ours, layout, fit.w)
    return Peer(word, seconds, peer_seconds, *(model.score(X, data.lengths) / len(X) for model in (ours, peer)))


def _fill(model: Any, layout: HmmLayout, w: np.ndarray) -> None:
    """Give hmmlearn's model our parameters."""
    weights, d = layout.unpack(w), layout.n_features
    covariances = -0.5 / weights.gaussians[:, d + 1 :]
    means = weights.gaussians[:, 1 : d + 1] * covariances
    normalizer = layout.natural(np.ones(len(means)), means, covariances)[:, 0]
    shape = (N_STATES, N_MIXTURES)
    model.weights_ = np.exp(weights.gaussians[:, 0] - normalizer).reshape(shape)
    model.weights_ /= model.weights_.sum(axis=1, keepdims=True)
    model.means_, model.covars_ = means.reshape(*shape, d), covariances.reshape(*shape, d)
    stay = np.exp(weights.stay)
    model.transmat_ = np.diag(stay) + np.diag(1.0 - stay[:-1], k=1)
    model.transmat_[-1, -1] = 1.0


# ------------------------------------------------------------------------------------------------------- tables


def spread(values: Sequence[float], digits: str, scale: float = 1.0) -> str:
    values = [scale * value for value in values if np.isfinite(value)]
    return f"{np.mean(values):{digits}} ± {np.std(values):{digits}}" if values else "not reached"


def print_folds(outcomes: Iterable[list[Run]], lams: Sequence[float]) -> None:
    runs = [run for outcome in outcomes for run in outcome]
    columns = ["lambda", "method", "evaluations", "paper's", "seconds", "objective", "paper's", "test error, %"]
    table = Table("1. Isolated digits, five folds, features as in the file", [*columns, "paper's (phones of TIMIT)"])
    for lam, method in product(lams, dict.fromkeys(run.method for run in runs)):
        here = [run for run in runs if (run.lam, run.method) == (lam, method)]
        if not here:
            continue
        evaluations, objective, error = PAPER[method][LAMS.index(lam)] if method in PAPER else ("", "", "")
        table.row(
            f"{lam:g}", method, spread([run.n_evaluations for run in here], ".1f"), evaluations,
            spread([run.seconds for run in here], ".2f"), spread([run.objective for run in here], ".4f"), objective,
            spread([run.error for run in here], ".2f", 100.0) if method != "NBM*" else "",
            f"{100 * error:.1f}" if error else "",
        )  # fmt: skip


def print_across(outcomes: Iterable[Across]) -> None:
    runs = list(outcomes)
    columns = ["normalization", "method", *(f"speaker {number}" for number in SPEAKERS), "mean error, %"]
    table = Table("2. Isolated digits, each speaker left out", columns)
    kinds = {kind: sorted((run for run in runs if run.kind == kind), key=lambda run: run.speaker)
             for kind in dict.fromkeys(run.kind for run in runs)}  # fmt: skip
    for kind, here in kinds.items():
        for title in here[0].wrong:
            errors = [100.0 * run.wrong[title].mean() for run in here]
            table.row(kind, title, *(f"{error:.1f}" for error in errors), f"{np.mean(errors):.2f}")
        for title in here[0].choices:
            chosen = [str(run.choices[title]) for run in here]
            table.row(kind, f"lambda, theta of squares, margin, share ({title})", *chosen, "")
    columns = ["normalization", "method", "right where ML is wrong", "wrong where ML is right", "p, recordings"]
    table = Table("Margin beside maximum likelihood", [*columns, "speakers better", "worse", "p, speakers"])
    for kind, here in kinds.items():
        for title in [title for title in here[0].wrong if title != "ML"]:
            table.row(kind, title, *comparison([(run.wrong["ML"], run.wrong[title]) for run in here]))


def comparison(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[Any]:
    """Differences between two methods and how likely such are by chance, by recording and by speaker; two-sided."""
    before, after = (np.concatenate(part) for part in zip(*pairs, strict=True))
    better, worse = int((before & ~after).sum()), int((~before & after).sum())
    changes = [int(after.sum()) - int(before.sum()) for before, after in pairs]
    speakers = sum(change < 0 for change in changes), sum(change > 0 for change in changes)
    return [better, worse, p_value(better, worse), *speakers, p_value(*speakers)]


def p_value(better: int, worse: int) -> str:
    """That of a fair coin."""
    return f"{binomtest(better, better + worse).pvalue:.3f}" if better + worse else "-"


def print_connected(outcomes: Iterable[list[Connected]]) -> None:
    runs = [run for outcome in outcomes for run in outcome]
    columns = ["lambda", "ML, word error, %", "ML with the best word penalty", "margin", "evaluations", "seconds"]
    table = Table(f"3. Connected digits, {N_CONNECTED} utterances", [*columns, "risk of ML", "objective"])
    for lam in dict.fromkeys(run.lam for run in runs):
        here = [run for run in runs if run.lam == lam]
        errors = ([getattr(run, name) for run in here] for name in ("ml", "ml_penalty", "margin"))
        table.row(
            f"{lam:g}", *(spread(each, ".2f", 100.0) for each in errors),
            spread([run.n_evaluations for run in here], ".1f"), spread([run.seconds for run in here], ".2f"),
            *(spread([run.objectives[at] for run in here], ".4f") for at in range(2)),
        )  # fmt: skip


def print_peers(outcomes: Iterable[Peer]) -> None:
    columns = ["digit", "seconds", "hmmlearn's", "ratio", "log-likelihood per frame", "hmmlearn's"]
    table = Table("4. Maximum likelihood beside hmmlearn, 300 recordings of a digit", columns)
    for run in outcomes:
        ratio = run.peer_seconds / run.seconds
        table.row(run.word, f"{run.seconds:.3f}", f"{run.peer_seconds:.2f}", f"{ratio:.0f}", f"{run.likelihood:.3f}",
                  f"{run.peer_likelihood:.3f}")  # fmt: skip


def jobs(part: str, quick: bool, lams: Sequence[float]) -> list[Any]:
    """What one part consists of; the first few in a quick run."""
    every = {
        "folds": [partial(fold_runs, fold, lam) for fold, lam in product(FOLDS, lams)],
        "across": [partial(across_run, kind, one) for kind, one in product(("speaker", "utterance", "none"), SPEAKERS)],
        "connected": [partial(connected_runs, seed, lams) for seed in SEEDS],
        "peers": [partial(peer_run, word) for word in range(10)],
    }[part]
    return every[:1] if quick else every


def outcomes(work: dict[str, list[Any]], n_processes: int) -> Iterator[tuple[str, list[Any]]]:
    """The parts with the outcomes of their jobs, one after the other; no process waits for the end of a part."""
    if n_processes == 1:
        yield from ((part, [job() for job in jobs]) for part, jobs in work.items())
        return
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        futures = {part: [pool.submit(job) for job in jobs] for part, jobs in work.items()}
        yield from ((part, [future.result() for future in some]) for part, some in futures.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="jobs at a time, each with one thread")
    parser.add_argument("--only", nargs="+", default=["folds", "across", "connected", "peers"])
    parser.add_argument("--lambdas", nargs="+", type=float, default=list(LAMS))
    parser.add_argument("--quick", action="store_true", help="the first job of each part")
    options = parser.parse_args()
    try:
        data_file(FILE)
    except DataMissing as reason:
        sys.exit(f"skipped: {reason}")
    print_machine()
    show = {
        "folds": lambda outcomes: print_folds(outcomes, options.lambdas),
        "across": print_across,
        "connected": print_connected,
        "peers": print_peers,
    }
    if find_spec("hmmlearn") is None and "peers" in options.only:
        options.only.remove("peers")
        print("without the fourth table: hmmlearn is not installed")
    work = {part: jobs(part, options.quick, options.lambdas) for part in options.only}
    for part, found in outcomes(work, options.processes):
        show[part](found)


if __name__ == "__main__":
    main()
