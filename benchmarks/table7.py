"""Table 7: large-margin hidden Markov models (Do and Artières 2012, Sec. 5.5), on spoken digits in place of TIMIT.

    python benchmarks/table7.py                 # some 20 minutes on one core
    python benchmarks/table7.py --processes 12  # as many jobs at a time, each with one thread
    python benchmarks/table7.py --only folds --quick  # one fold, one lambda

1. Isolated digits in five folds, by the number of the recording: every speaker is in every fold.  NRBMLS is
   ``NonconvexBundle`` with the line search ``single`` to a gap of 1 %, NRBM the same without line search, NBM
   ``ClassicBundle``, SGD a stochastic subgradient method with batches of 30 utterances in the metric of the penalty,
   the best of three step sizes; a + means as many evaluations, or passes, as NRBMLS took, a * the same objective.
2. Isolated digits of a speaker who was not in the training data.  Lambda and theta are also chosen by validation: each
   of the five training speakers is left out in turn.
3. Connected digits: three to seven recordings of one speaker, one after the other; word error by edit distance.
4. Maximum likelihood beside hmmlearn, at the same number of iterations.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from common import DataMissing, Table, data_file, print_machine
from undercut import L2, NonconvexBundle, Stop, minimize
from undercut.io import SpeechData, joined, load_speech
from undercut.maps.cepstra import normalized
from undercut.measures.edit_distance import word_error_rate
from undercut.risks.structured.hmm.connected import fit_connected
from undercut.risks.structured.hmm.frames import Frames
from undercut.risks.structured.hmm.layout import HmmLayout
from undercut.risks.structured.hmm.paths import looped
from undercut.risks.structured.hmm.risk import ConnectedRisk, WordRisk
from undercut.risks.structured.hmm.start import Likelihood, fit_words
from undercut.solvers import ClassicBundle

FILE = Path("speech", "fsdd_mfcc39.npz")
LAMS = (0.01, 0.005, 0.003, 0.002)
FOLDS, SPEAKERS, GAP = range(5), range(6), 0.01
N_STATES, N_MIXTURES, ONES = 5, 2, (1.0, 1.0, 1.0)
OURS = NonconvexBundle(line_search="single")
MOST = 500  # evaluations of NBM, passes of SGD
BATCH, STEP_SIZES, IDLE = 30, (0.03, 0.1, 0.3), 5
GRID = tuple(product((0.01, 0.03, 0.1, 0.3), (ONES, (1.0, 4.0, 1.0))))  # lambda and theta that validation chooses from
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


@dataclass(frozen=True)
class Digits:
    """Training and test utterances in units of the training data, and the maximum likelihood start."""

    train: Frames
    y: np.ndarray
    test: Frames
    y_test: np.ndarray
    w0: np.ndarray = field(repr=False)
    seconds: float = 0.0  # of the start

    def error(self, w: np.ndarray) -> float:
        scores = self.test.word_scores(self.test.layout.unpack(w))
        return float(np.mean(scores.argmax(axis=1) != self.y_test))

    def reg(self, lam: float, theta: tuple[float, float, float] = ONES) -> L2:
        return L2(lam, center=self.w0, weights=self.train.layout.penalty_weights(theta))


@cache
def recordings(kind: str) -> SpeechData:
    """All recordings, with features as they are, or normalized by utterance or by speaker."""
    data = load_speech(data_file(FILE))
    if kind == "none":
        return data
    groups = data.speaker if kind == "speaker" else None
    return data._replace(X=normalized(data.X, data.lengths, groups))


def units(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, scale = train.mean(axis=0), train.std(axis=0)
    return (train - mean) / scale, (test - mean) / scale


@cache
def digits(kind: str, split: Callable[[SpeechData], tuple[np.ndarray, np.ndarray]]) -> Digits:
    """Isolated digits; ``split`` gives the masks of training and test recordings."""
    data = recordings(kind)
    train, test = (data.take(mask) for mask in split(data))
    X, X_test = units(train.X, test.X)
    layout = HmmLayout(10, N_STATES, N_MIXTURES, X.shape[1])
    y = train.y.astype(np.int64)
    began = time.perf_counter()
    w0 = fit_words(X, train.lengths, y, layout, Likelihood()).w
    seconds = time.perf_counter() - began
    return Digits(Frames(X, train.lengths, layout), y, Frames(X_test, test.lengths, layout), test.y, w0, seconds)


@dataclass(frozen=True)
class Fold:
    number: int

    def __call__(self, data: SpeechData) -> tuple[np.ndarray, np.ndarray]:
        test = data.recording % 5 == self.number
        return ~test, test


@dataclass(frozen=True)
class Speaker:
    """One speaker tests; those in ``without`` are in neither part."""

    number: int
    without: tuple[int, ...] = ()

    def __call__(self, data: SpeechData) -> tuple[np.ndarray, np.ndarray]:
        test = data.speaker == self.number
        return ~test & ~np.isin(data.speaker, self.without), test


# ------------------------------------------------------------------------------------------------------ methods


def bundle(on: Digits, lam: float, method: str, solver: Any, stop: Stop, theta: Any = ONES) -> tuple[Run, Any]:
    risk = WordRisk(on.train, on.y)
    began = time.perf_counter()
    result = minimize(risk, on.reg(lam, theta), solver, w0=on.w0, stop=stop)
    seconds = time.perf_counter() - began
    return Run(method, lam, result.n_evaluations, seconds, result.objective, on.error(result.w)), result


def sgd(on: Digits, lam: float, method: str, n_passes: int) -> Run:
    """The best of some step sizes; the objective after each pass is not counted as an evaluation."""
    runs = [_sgd(on, lam, method, n_passes, size) for size in STEP_SIZES]
    return min(runs, key=lambda run: run.objective)


def _sgd(on: Digits, lam: float, method: str, n_passes: int, size: float) -> Run:
    """``w <- w - eta_t M^-1 J'(w)`` on batches, M the metric of the penalty and ``eta_t = size / (1 + size lam t)``."""
    risk, reg, rng = WordRisk(on.train, on.y), on.reg(lam), np.random.default_rng(0)
    metric, n_batches = reg.weights**2, risk.n_samples // BATCH
    w, best, idle, seconds, done = on.w0, (np.inf, on.w0), 0, 0.0, 0
    while done < n_passes and idle < IDLE:
        began = time.perf_counter()
        for at, rows in enumerate(np.array_split(rng.permutation(risk.n_samples), n_batches)):
            eta = size / (1.0 + size * lam * (done * n_batches + at))
            w = w - eta * (risk.batch(rows).cut(w).a / metric + lam * (w - on.w0))
        seconds += time.perf_counter() - began
        done += 1
        objective = reg.value(w) + risk.value(w)
        idle = 0 if objective < best[0] else idle + 1
        best = min(best, (objective, w), key=lambda pair: pair[0])
    return Run(method, lam, done, seconds, best[0], on.error(best[1]))


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


@dataclass(frozen=True)
class Across:
    """Errors on a speaker who was not in the training data."""

    kind: str
    speaker: int
    ml: float
    margin: float  # lambda 0.01, theta 1
    chosen: float
    lam: float
    theta: tuple[float, float, float]


def across_run(kind: str, speaker: int) -> Across:
    """Train on five speakers, with settings that are best when each of them is left out in turn."""
    settings = Stop(gap_rel=GAP, max_evaluations=100)
    errors = np.zeros(len(GRID))
    for other in SPEAKERS:
        if other == speaker:
            continue
        on = digits(kind, Speaker(other, (speaker,)))
        for at, (lam, theta) in enumerate(GRID):
            errors[at] += bundle(on, lam, "", OURS, settings, theta)[0].error
        digits.cache_clear()
    best = max(range(len(GRID)), key=lambda at: (-round(errors[at], 9), GRID[at][0]))
    on = digits(kind, Speaker(speaker))
    plain, chosen = (bundle(on, lam, "", OURS, settings, theta)[0].error for lam, theta in ((0.01, ONES), GRID[best]))
    return Across(kind, speaker, on.error(on.w0), plain, chosen, *GRID[best])


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


def connected_run(seed: int, lam: float) -> Connected:
    """Utterances of the recordings of fold 0 test."""
    data = recordings("none")
    said = [joined(data.take(mask), n, seed=seed) for mask, n in zip(Fold(0)(data), (N_CONNECTED, N_TEST), strict=True)]
    (train, test), (X, X_test) = said, units(said[0].X, said[1].X)
    layout = HmmLayout(10, N_STATES, N_MIXTURES, X.shape[1])
    words = np.concatenate(train.y).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum([len(each) for each in train.y])])
    lengths = np.diff(train.offsets)
    start = fit_connected(X, lengths, words, ends, layout, Likelihood())
    frames, tests = Frames(X, lengths, layout), Frames(X_test, np.diff(test.offsets), layout)

    def error(w: np.ndarray) -> float:
        return word_error_rate(test.y, [path.words(layout).tolist() for path in looped(tests, layout.unpack(w))])

    plain = start.w.copy()
    layout.unpack(plain).enter[:] = np.log(np.bincount(words) / words.size)
    risk = ConnectedRisk(frames, np.repeat(words, start.lengths), words, ends)
    began = time.perf_counter()
    reg = L2(lam, center=start.w, weights=layout.penalty_weights(ONES))
    result = minimize(risk, reg, OURS, w0=start.w, stop=Stop(gap_rel=GAP))
    seconds = time.perf_counter() - began
    return Connected(
        lam, error(plain), error(start.w), error(result.w), result.n_evaluations, seconds,
        (risk.value(start.w), result.objective),
    )  # fmt: skip


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
            spread([run.error for run in here], ".2f", 100.0), f"{100 * error:.1f}" if error else "",
        )  # fmt: skip


def print_across(outcomes: Iterable[Across]) -> None:
    runs = list(outcomes)
    columns = ["normalization", "method", *(f"speaker {number}" for number in SPEAKERS), "mean error, %"]
    table = Table("2. Isolated digits, each speaker left out", columns)
    for kind in dict.fromkeys(run.kind for run in runs):
        here = sorted((run for run in runs if run.kind == kind), key=lambda run: run.speaker)
        for title, name in (("ML", "ml"), ("margin, lambda 0.01", "margin"), ("margin, validated", "chosen")):
            errors = [100.0 * getattr(run, name) for run in here]
            table.row(kind, title, *(f"{error:.1f}" for error in errors), f"{np.mean(errors):.2f}")
        table.row(kind, "its lambda", *(f"{run.lam:g}" for run in here), "")
        table.row(kind, "its theta of squares", *(f"{run.theta[1]:g}" for run in here), "")


def print_connected(outcomes: Iterable[Connected]) -> None:
    runs = list(outcomes)
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
        "connected": [partial(connected_run, seed, lam) for lam, seed in product(lams, SEEDS)],
        "peers": [partial(peer_run, word) for word in range(10)],
    }[part]
    return every[:1] if quick else every


def done(work: list[Any], n_processes: int) -> Iterator[Any]:
    """The outcomes of some jobs, in their order."""
    if n_processes == 1:
        yield from (job() for job in work)
        return
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        yield from [future.result() for future in [pool.submit(job) for job in work]]


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
    for part in options.only:
        show[part](done(jobs(part, options.quick, options.lambdas), options.processes))


if __name__ == "__main__":
    main()
