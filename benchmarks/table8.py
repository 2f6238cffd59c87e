"""Table 8 of Do and Artières (2012): a NeuroCRF on the OCR set, a chain whose scores come from a deep network.

    python benchmarks/table8.py --processes 5           # the table: five lambdas, five methods
    python benchmarks/table8.py --device cuda           # the same on a GPU without SGD, and the time of one evaluation
    python benchmarks/table8.py --methods SGD --processes 5  # its small batches are faster on processors
    python benchmarks/table8.py --quick                 # one lambda, small layers, few evaluations: a trial
    python benchmarks/table8.py --search --device cuda --hidden "400,400;1000,500" --passes 20,60 --lambdas 2e-4,1e-4
    python benchmarks/table8.py --hidden 800,800 --passes 60 --start-end --precision double --plain

6877 handwritten words; folds 0-7 train, 8-9 test; a search trains on folds 0-6 and validates on fold 7, so that no
choice sees the test folds.  Sigmoid layers from stacked Boltzmann machines, the same for all methods; the risk is a
mean over words, the penalty is centered at the start, err is the share of wrong letters.  The paper does not tell the
sizes of its layers.  Expected, beside the paper's NRBMLS at the same number of evaluations:

    objective no higher at every lambda; err at most .050 at lambda 2e-4, .045 as the goal; an objective below that of
    both L-BFGS at equal evaluations; an evaluation of 400-400 in less than 20 ms on an H200.

The inputs of all layers are centered at their means at the start (Montavon and Müller 2012), of which the paper says
nothing; ``--plain`` leaves that away.  NRBMLS is ``NonconvexBundle(line_search="single")`` with planes in single
precision, once with room for 150 planes and once for 20.  All batch methods get the paper's number of evaluations; a
step of ``Lbfgs`` in progress is completed.  SGD makes as many passes, with the best of three step sizes after two
passes.  ``UNDERCUT_DATA`` names the folder that holds ``ocr/letter.data.gz``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize as scipy_minimize

from common import DataMissing, Table, data_file, print_machine
from undercut import L2, Lbfgs, NonconvexBundle, Stop, minimize
from undercut.contracts import Solver
from undercut.devices import on_device
from undercut.io import OcrWords, load_ocr
from undercut.maps.boltzmann import ContrastiveDivergence
from undercut.risks import CRF, NetworkChainRisk
from undercut.solvers import StochasticGradient

PAPER = {  # lambda: evaluations, objective and error of NRBMLS; objective and error of L-BFGS and SGD after as many
    1e-3: ((64, 1.847, 0.050), (1.802, 0.051), (1.604, 0.059)),
    5e-4: ((81, 1.203, 0.047), (1.196, 0.047), (1.190, 0.056)),
    3e-4: ((116, 0.842, 0.046), (0.805, 0.045), (0.941, 0.053)),
    2e-4: ((116, 0.616, 0.045), (0.617, 0.045), (0.775, 0.054)),
    1e-4: ((130, 0.365, 0.050), (0.375, 0.047), (0.557, 0.055)),
}
FIRST_STEPS = (0.03, 0.1, 0.3)
SEARCH_EVALUATIONS = 130


@dataclass(frozen=True)
class Setting:
    """A network, its pretraining, and where it is computed."""

    hidden: tuple[int, ...] = (400, 400)
    passes: int = 20
    rate: float = 0.1
    start_end: bool = False
    plain: bool = False
    precision: str = "single"
    device: str | None = None
    seed: int = 0
    train: tuple[int, ...] = tuple(range(8))
    test: tuple[int, ...] = (8, 9)


class Outcome(NamedTuple):
    """What a run reached; ``objectives`` by evaluations."""

    evaluations: int
    seconds: float
    objective: float
    error: float
    train_error: float
    status: str
    objectives: list[tuple[int, float]]

    def until(self, objective: float) -> int | str:
        """The evaluations after which the objective prints as that of the paper, or as less."""
        return next((n for n, value in self.objectives if value < objective + 0.0005), "-")


@lru_cache(maxsize=1)
def letters() -> OcrWords:
    return load_ocr(data_file(Path("ocr", "letter.data.gz")))


@lru_cache(maxsize=2)
def risk_of(setting: Setting, folds: tuple[int, ...]) -> NetworkChainRisk:
    """The risk of some folds."""
    words = letters()
    words = words.take(np.isin(words.folds, folds))
    X = words.X.astype(np.float32 if setting.precision == "single" else np.float64)
    y = np.array([ord(letter) - ord("a") for letter in words.y.tolist()])
    ends = {"start": setting.start_end, "end": setting.start_end}
    X = X if setting.device is None else on_device(X, setting.device)
    return NetworkChainRisk(X, y, CRF(), words.lengths, hidden=setting.hidden, n_labels=26, **ends)


def error(risk: NetworkChainRisk, w: np.ndarray) -> float:
    return float(np.mean(risk.decode(w) != risk.y))


def pretrained(setting: Setting) -> np.ndarray:
    """The parameters at the start, of layers that are not centered."""
    risk = risk_of(setting, setting.train)
    machines = ContrastiveDivergence(n_passes=setting.passes, step_size=setting.rate)
    return risk.pretrained_start(machines, np.random.default_rng(setting.seed))


def problem(setting: Setting, w0: np.ndarray, lam: float) -> tuple[NetworkChainRisk, np.ndarray, L2]:
    """The risk of the training words, the start, and the penalty around it."""
    risk = risk_of(setting, setting.train)
    if not setting.plain:
        risk, w0 = risk.centered(w0)
    return risk, w0, L2(lam, center=w0)


def errors(setting: Setting, risk: NetworkChainRisk, w: np.ndarray) -> tuple[float, float]:
    """The shares of wrong letters, test and training."""
    test = risk_of(setting, setting.test)
    return error(test, test.pack(risk.unpack(w))), error(risk, w)


def run_solver(solver: Callable[[], Solver], stop: Stop, setting: Setting, w0: np.ndarray, lam: float) -> Outcome:
    risk, w0, reg = problem(setting, w0, lam)
    began = time.perf_counter()
    result = minimize(risk, reg, solver(), w0=w0, stop=stop)
    seconds = time.perf_counter() - began
    objectives = [(row.n_evaluations, row.objective) for row in result.trace]
    wrong = errors(setting, risk, result.w)
    return Outcome(result.n_evaluations, seconds, result.objective, *wrong, result.status.name, objectives)


def bundle(max_planes: int, setting: Setting, w0: np.ndarray, lam: float, budget: int) -> Outcome:
    def solver() -> Solver:
        return NonconvexBundle(line_search="single", max_planes=max_planes, precision="single")

    return run_solver(solver, Stop(gap_rel=1e-4, max_evaluations=budget - 1), setting, w0, lam)


def nrbmls(*given) -> Outcome:
    return bundle(150, *given)


def nrbmls_20(*given) -> Outcome:
    return bundle(20, *given)


def lbfgs(setting: Setting, w0: np.ndarray, lam: float, budget: int) -> Outcome:
    return run_solver(Lbfgs, Stop(max_evaluations=budget - 1), setting, w0, lam)


def scipy_lbfgs(setting: Setting, w0: np.ndarray, lam: float, budget: int) -> Outcome:
    risk, w0, reg = problem(setting, w0, lam)
    seen, began = [], time.perf_counter()

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        cut = risk.cut(w)
        value = reg.value(w) + cut.value
        seen.append((len(seen) + 1, min(value, seen[-1][1] if seen else np.inf)))
        return value, reg.gradient(w) + cut.a

    options = {"maxfun": budget - 1, "maxiter": budget, "ftol": 0.0, "gtol": 0.0}
    found = scipy_minimize(objective, w0, jac=True, method="L-BFGS-B", options=options)
    seconds = time.perf_counter() - began
    return Outcome(len(seen), seconds, float(found.fun), *errors(setting, risk, found.x), "", seen)


def sgd(setting: Setting, w0: np.ndarray, lam: float, budget: int) -> Outcome:
    def run(step: float, passes: int) -> Outcome:
        stop = Stop(max_steps=passes)
        return run_solver(lambda: StochasticGradient(step_size=step, half_life=20.0), stop, setting, w0, lam)

    step = min(FIRST_STEPS, key=lambda step: run(step, 2).objective)
    found = run(step, budget)
    return found._replace(evaluations=budget, status=f"first step {step}", objectives=[(budget, found.objective)])


METHODS = {"NRBMLS": nrbmls, "NRBMLS, 20 planes": nrbmls_20, "Lbfgs": lbfgs, "SciPy's L-BFGS": scipy_lbfgs, "SGD": sgd}


class Job(NamedTuple):
    method: str
    setting: Setting
    w0: np.ndarray
    lam: float
    budget: int

    def __call__(self) -> Outcome:
        return METHODS[self.method](*self[1:])


def done(jobs: Sequence[Job], n_processes: int) -> Iterator[tuple[Job, Outcome]]:
    """The jobs with their outcomes, in the order in which they end."""
    if n_processes == 1:
        yield from ((job, job()) for job in jobs)
        return
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(Job.__call__, job): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], future.result()


def one_evaluation(setting: Setting) -> None:
    """The time of a value with its gradient, w and gradient in main memory."""
    printed = Table("One evaluation, all training words", ["layers", "parameters", "precision", "on", "milliseconds"])
    for precision in ("single", "double"):
        at = replace(setting, hidden=(400, 400), precision=precision)
        risk = risk_of(at, at.train)
        rng, times = np.random.default_rng(0), []
        w = risk.random_start(rng) + 0.05 * rng.standard_normal(risk.n_params)
        for _ in range(3 if setting.device is None else 23):
            began = time.perf_counter()
            risk.cut(w)
            times.append(time.perf_counter() - began)
        milliseconds = f"{1e3 * np.median(times[1:]):.1f}"
        printed.row("400-400", risk.n_params, precision, setting.device or "processor", milliseconds)


def pretraining(setting: Setting) -> np.ndarray:
    began = time.perf_counter()
    w0 = pretrained(setting)
    sizes = "-".join(map(str, setting.hidden))
    print(f"\nPretraining of {sizes}, {setting.passes} passes: {time.perf_counter() - began:.0f} s", flush=True)
    return w0


def table(setting: Setting, lams: Sequence[float], methods: Sequence[str], n_processes: int, limit: int) -> None:
    w0 = pretraining(setting)
    columns = ["lambda", "method", "evaluations", "paper's", "until the paper's objective", "seconds", "objective"]
    columns += ["paper's", "err", "paper's", "training err", "status"]
    printed = Table(f"Table 8: {setting}", columns)
    jobs = [Job(name, setting, w0, lam, min(PAPER[lam][0][0], limit)) for lam, name in product(lams, methods)]
    outcomes = {}
    for job, outcome in done(jobs, n_processes):
        outcomes[job.method, job.lam] = outcome
        (evaluations, objective, err), rival, stochastic = PAPER[job.lam]
        theirs = {"SGD": stochastic, "Lbfgs": rival, "SciPy's L-BFGS": rival}.get(job.method, (objective, err))
        printed.row(
            job.lam, job.method, outcome.evaluations, evaluations, outcome.until(objective), f"{outcome.seconds:.1f}",
            f"{outcome.objective:.4f}", theirs[0], f"{outcome.error:.4f}", theirs[1], f"{outcome.train_error:.4f}",
            outcome.status,
        )  # fmt: skip
    if "NRBMLS" in methods:
        verdicts(outcomes, lams, methods)


def verdicts(outcomes: dict[tuple[str, float], Outcome], lams: Sequence[float], methods: Sequence[str]) -> None:
    """What was expected of NRBMLS, lambda by lambda."""
    printed = Table("Expected", ["lambda", "objective <= paper's", "below L-BFGS", "20 planes / 150", "err"])
    for lam in lams:
        ours, few = outcomes["NRBMLS", lam], outcomes.get(("NRBMLS, 20 planes", lam))
        rivals = [outcomes[name, lam].objective for name in methods if "bfgs" in name.lower() or "BFGS" in name]
        printed.row(
            lam, f"{ours.objective <= PAPER[lam][0][1]} ({ours.objective:.4f}, {PAPER[lam][0][1]})",
            f"{ours.objective < min(rivals)} ({min(rivals):.4f})" if rivals else "-",
            f"{few.objective / ours.objective:.3f}" if few else "-", f"{ours.error:.4f} ({PAPER[lam][0][2]})",
        )  # fmt: skip


def search(settings: Sequence[Setting], lams: Sequence[float], n_processes: int) -> None:
    """Validation errors of sizes, lengths of pretraining and lambdas; the best at the end."""
    columns = ["layers", "passes", "lambda", "seconds", "objective", "validation err", "training err"]
    printed, rows = Table("Validation on fold 7", columns), []
    for setting in settings:
        at = replace(setting, train=tuple(range(7)), test=(7,))
        w0 = pretrained(at)
        jobs = [Job("NRBMLS", at, w0, lam, SEARCH_EVALUATIONS) for lam in lams]
        for job, outcome in done(jobs, min(n_processes, len(jobs))):
            chosen = "-".join(map(str, at.hidden)), at.passes, job.lam
            found = f"{outcome.objective:.4f}", f"{outcome.error:.4f}", f"{outcome.train_error:.4f}"
            printed.row(*chosen, f"{outcome.seconds:.0f}", *found)
            rows.append((outcome.error, *chosen))
    print("\nBest: " + "; ".join(f"{e:.4f} {s}, {p} passes, lambda {lam:g}" for e, s, p, lam in sorted(rows)[:8]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", default="400,400", help="sizes of the layers; several networks divided by ;")
    parser.add_argument("--passes", default="20", help="of pretraining, per machine; several divided by commas")
    parser.add_argument("--rate", type=float, default=0.1, help="of contrastive divergence")
    parser.add_argument("--lambdas", default="", help="some of the five")
    parser.add_argument("--methods", default="", help="some of NRBMLS;NRBMLS, 20 planes;Lbfgs;SciPy's L-BFGS;SGD")
    parser.add_argument("--start-end", action="store_true", help="weights of the first and last letter of a word too")
    parser.add_argument("--plain", action="store_true", help="layers that are not centered")
    parser.add_argument("--precision", choices=("single", "double"), default="single", help="of the network")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="cuda")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="runs at a time")
    parser.add_argument("--limit", type=int, default=10**6, help="of evaluations, for a trial")
    parser.add_argument("--search", action="store_true", help="validation in place of the table")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    networks = [tuple(int(size) for size in network.split(",")) for network in options.hidden.split(";")]
    settings = [
        Setting(
            hidden, int(passes), options.rate, options.start_end, options.plain, options.precision, options.device,
            options.seed,
        )
        for hidden, passes in product(networks, options.passes.split(","))
    ]  # fmt: skip
    lams = [float(lam) for lam in options.lambdas.split(",")] if options.lambdas else list(PAPER)
    usual = [name for name in METHODS if name != "SGD" or options.device is None]
    methods = options.methods.split(";") if options.methods else usual
    if options.quick:
        settings, lams, options.limit = [replace(settings[0], hidden=(60, 60), passes=2)], [2e-4], 20
    try:
        letters()
    except DataMissing as reason:
        sys.exit(f"skipped: {reason}")
    print_machine()
    if options.search:
        search(settings, lams, options.processes)
        return
    one_evaluation(settings[0])
    for setting in settings:
        table(setting, lams, methods, options.processes, options.limit)


if __name__ == "__main__":
    main()
