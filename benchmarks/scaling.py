"""One risk in partitions on a cluster: time of an evaluation, what travels per step, strong and weak scaling.

covtype (logistic loss) once, 4 and 16 times, every copy with noise in its values, the rcv1 sample once and 8 times, and
the CRF of the OCR set once and 8 times: in this process, and on 1, 2 and 4 worker processes of this machine, one thread
each.  Expected:

    the same steps as in one process;
    bytes within 1.2 of 2 x 8 x d for each worker and plane, beside the trial points of line searches;
    overhead of one worker below 20 % once an evaluation takes half a second;
    two workers at least 1.6 times as fast as one where the evaluation is not bound by memory.

Beside it, to the objective that we certify: L-BFGS of dask-ml's GLMs, which needs a dense X, and ``SGDClassifier``
of scikit-learn, passed along the partitions.  ``--quick`` takes a minute on a quiet machine; data as in ``linear.py``.
``--keep FOLDER`` writes what a case measured as soon as it is over, and does not measure it again, so that a run that
was stopped goes on; ``--seconds`` begins no case after that time.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy: a worker is one thread

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from common import DataMissing, Table, data_file, load, print_machine
from undercut import L2, LinearRisk, Logistic, Stop, minimize
from undercut.contracts import Risk
from undercut.io import load_ocr
from undercut.maps.cluster import Cluster
from undercut.risks import CRF, ChainRisk, ShardedRisk
from undercut.solvers import LineSearchBundle, NonconvexBundle

GAP, LAM = 1e-3, 1e-4
EVALUATIONS = 5
NOISE = 0.01  # relative, in the values of every copy
WEAK = (("covtype", 1), ("covtype", 4), ("covtype", 16))
CASES = (  # the longest one last; an evaluation of ocr x8 takes more than half a second
    ("ocr", 1), ("ocr", 8), *WEAK[:2], ("rcv1-sample", 1), ("rcv1-sample", 8), *WEAK[2:],
)  # fmt: skip
QUICK = (("covtype", 1),)
QUICK_ROWS = 100_000
RIVALS = (("covtype", 1), ("rcv1-sample", 1))
ITERATIONS = (20, 40, 80, 160)  # of L-BFGS, each from the beginning
STEPS, FEW_STEPS, MANY = 60, 12, 8  # of a solver; few for that many copies or more
PASSES = 20


class Source(NamedTuple):
    """A partition: some rows in a file, repeated with noise."""

    file: str
    copies: int


def part(source: Source) -> dict[str, Any]:
    """The data of a partition, made where it is called."""
    held = dict(np.load(source.file))
    values, y = held["data"], np.tile(held["y"], source.copies)
    entries = np.arange(held["first"], held["first"] + values.size).reshape(values.shape)
    noisy = [
        values * (1.0 + NOISE * np.sin(12.9898 * copy + 78.233 * entries) * (copy > 0)) for copy in range(source.copies)
    ]
    if "lengths" in held:
        return {"X": np.concatenate(noisy), "y": y, "lengths": np.tile(held["lengths"], source.copies)}
    copies = [sp.csr_matrix((each, held["indices"], held["indptr"]), shape=held["shape"]) for each in noisy]
    return {"X": sp.vstack(copies, format="csr"), "y": y}


def written(folder: Path, name: str, copies: int, n_parts: int, n_rows: int | None) -> list[Source]:
    """The partitions of a set as files, which workers read by themselves."""
    edges, save = _ocr(n_parts) if name == "ocr" else _rows(name, n_parts, n_rows)
    sources = []
    for k in range(n_parts):
        file = folder / f"{name}-{n_parts}-{k}.npz"
        if not file.exists():
            np.savez(file, **save(edges[k], edges[k + 1]))
        sources.append(Source(str(file), copies))
    return sources


def _rows(name: str, n_parts: int, n_rows: int | None) -> tuple[list[int], Callable[[int, int], dict[str, Any]]]:
    X, y = (whole[:n_rows] for whole in load(name))

    def save(low: int, high: int) -> dict[str, Any]:
        some = X[low:high]
        return {
            "data": some.data, "indices": some.indices, "indptr": some.indptr, "shape": np.array(some.shape),
            "y": y[low:high], "first": np.array(X.indptr[low]),
        }  # fmt: skip

    return [y.size * k // n_parts for k in range(n_parts + 1)], save


def _ocr(n_parts: int) -> tuple[list[int], Callable[[int, int], dict[str, Any]]]:
    words = load_ocr(data_file(Path("ocr", "letter.data.gz")))
    starts = np.concatenate([[0], np.cumsum(words.lengths)])
    letters = np.searchsorted(np.unique(words.y), words.y)

    def save(low: int, high: int) -> dict[str, Any]:
        tokens = slice(starts[low], starts[high])
        return {
            "data": words.X[tokens], "y": letters[tokens], "lengths": words.lengths[low:high],
            "first": np.array(words.X.shape[1] * starts[low]),
        }  # fmt: skip

    return [words.lengths.size * k // n_parts for k in range(n_parts + 1)], save


@dataclass
class Measured:
    """What was measured of one case with one number of workers; 0 is this process without a cluster."""

    n_workers: int
    n_params: int
    n_samples: int
    evaluation: float
    steps: int
    seconds: float
    objective: float
    planes: float  # evaluations per step
    sent: float = 0.0  # bytes per step, both ways
    rounds: float = 0.0  # per step
    rivals: list[tuple[str, float, int]] = field(default_factory=list)  # name, seconds, iterations or passes


def maker(name: str) -> Callable[..., Risk]:
    return partial(ChainRisk, loss=CRF(), n_labels=26) if name == "ocr" else partial(LinearRisk, loss=Logistic())


def solver(name: str) -> Any:
    return NonconvexBundle(line_search="greedy") if name == "ocr" else LineSearchBundle()


def evaluation(risk: Risk) -> float:
    """The median time of a plane, each at another point."""
    rng, seconds = np.random.default_rng(0), []
    for _ in range(EVALUATIONS + 1):
        w = 0.01 * rng.standard_normal(risk.n_params)
        began = time.perf_counter()
        risk.cut(w)
        seconds.append(time.perf_counter() - began)
    return median(seconds[1:])  # the first one compiles


def measured(risk: Any, name: str, n_workers: int, max_steps: int) -> Measured:
    plane = evaluation(risk)
    began = time.perf_counter()
    result = minimize(risk, L2(LAM), solver(name), stop=Stop(gap_rel=GAP, max_steps=max_steps))
    seconds = time.perf_counter() - began
    planes = result.n_evaluations / result.n_steps
    return Measured(n_workers, risk.n_params, risk.n_samples, plane, result.n_steps, seconds, result.objective, planes)


def on_cluster(name: str, sources: list[Source], max_steps: int, with_rivals: bool) -> Measured:
    with Cluster(len(sources)) as cluster:
        parts = cluster.load(part, sources)
        risk = ShardedRisk.of(parts, maker(name))
        risk.cut(np.zeros(risk.n_params))  # compiles
        before = cluster.traffic.total, cluster.traffic.rounds
        result = measured(risk, name, len(sources), max_steps)
        planes = EVALUATIONS + 1
        result.rounds = (cluster.traffic.rounds - before[1] - planes) / result.steps
        own = 16 * risk.n_params * len(sources) * planes
        result.sent = (cluster.traffic.total - before[0] - own) / result.steps
        if with_rivals:
            result.rivals = rivals(cluster, sources, risk, result.objective)
    return result


def rivals(cluster: Cluster, sources: list[Source], risk: Any, target: float) -> list[tuple[str, float, int]]:
    """Seconds to the same objective; of each run its data are on the workers before."""

    def reached(w: np.ndarray) -> bool:
        return L2(LAM).value(w) + risk.value(w) <= target

    found = []
    if risk.n_params < 1000:
        try:
            found.append(("dask-ml L-BFGS", *_lbfgs(sources, risk, reached)))
        except (ImportError, TypeError) as error:
            print(f"dask-ml L-BFGS is left out: {type(error).__name__}: {error}", file=sys.stderr)
    found.append(("SGDClassifier", *_sgd(cluster.client, sources, reached)))
    return found


def _lbfgs(sources: list[Source], risk: Any, reached: Callable[[np.ndarray], bool]) -> tuple[float, int]:
    import dask
    import dask.array as da
    from dask_glm import algorithms
    from scipy.optimize import fmin_l_bfgs_b

    # dask-glm passes an argument that SciPy 1.18 removed.
    algorithms.fmin_l_bfgs_b = lambda *given, iprint=0, **settings: fmin_l_bfgs_b(*given, **settings)
    warnings.simplefilter("ignore", FutureWarning)  # of the names of its settings
    blocks = [dask.delayed(part)(source) for source in sources]
    rows = [dask.delayed(_size)(block) for block in blocks]
    sizes = dask.compute(*rows)
    X = [
        da.from_delayed(dask.delayed(_dense)(block), (n, risk.n_params), float)
        for block, n in zip(blocks, sizes, strict=True)
    ]
    y = [da.from_delayed(dask.delayed(_binary)(block), (n,), float) for block, n in zip(blocks, sizes, strict=True)]
    X, y = dask.persist(da.concatenate(X), da.concatenate(y))
    for iterations in ITERATIONS:
        began = time.perf_counter()
        lam = LAM * sum(sizes)  # beside the sum of the losses
        w = algorithms.lbfgs(X, y, regularizer="l2", lamduh=lam, max_iter=iterations, tol=0.0, normalize=False)
        seconds = time.perf_counter() - began
        if reached(np.asarray(w)):
            return seconds, iterations
    return float("inf"), ITERATIONS[-1]


def _size(data: dict[str, Any]) -> int:
    return int(data["y"].size)


def _dense(data: dict[str, Any]) -> np.ndarray:
    dense: np.ndarray = data["X"].toarray()
    return dense


def _binary(data: dict[str, Any]) -> np.ndarray:
    return np.where(data["y"] > 0.0, 1.0, 0.0)


def _sgd(client: Any, sources: list[Source], reached: Callable[[np.ndarray], bool]) -> tuple[float, int]:
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(loss="log_loss", alpha=LAM, fit_intercept=False, random_state=0)
    blocks = client.map(part, sources)
    client.gather([client.submit(_size, block) for block in blocks])  # they are there
    seconds = 0.0
    for passes in range(1, PASSES + 1):
        began = time.perf_counter()
        for block in blocks:
            model = client.submit(_partial_fit, model, block)
        model = client.gather(model)
        seconds += time.perf_counter() - began
        if reached(model.coef_.ravel()):
            return seconds, passes
    return float("inf"), PASSES


def _partial_fit(model: Any, data: dict[str, Any]) -> Any:
    return model.partial_fit(data["X"], data["y"], classes=[-1.0, 1.0])


def kept_case(name: str, copies: int, workers: list[int], args: argparse.Namespace) -> list[Measured]:
    """What ``--keep`` knows of a case, else what is measured now."""
    file = args.keep and args.keep / f"{name}-x{copies}.json"
    if file and file.exists():
        return [Measured(**each) for each in json.loads(file.read_text(encoding="utf-8"))]
    results = measured_case(name, copies, workers, args)
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([asdict(each) for each in results]), encoding="utf-8")
    return results


def measured_case(name: str, copies: int, workers: list[int], args: argparse.Namespace) -> list[Measured]:
    """This process first, then clusters."""
    with TemporaryDirectory() as folder:
        limit = QUICK_ROWS if args.quick else None
        max_steps = args.max_steps or (FEW_STEPS if copies >= MANY else STEPS)
        whole = written(Path(folder), name, copies, 1, limit)
        data = part(whole[0])
        results = [measured(maker(name)(**data), name, 0, max_steps)]
        del data
        for n in workers:
            sources = written(Path(folder), name, copies, n, limit)
            results.append(on_cluster(name, sources, max_steps, (name, copies) in RIVALS and n == max(workers)))
    return results


def print_case(case: str, results: list[Measured], tables: dict[str, list[tuple[object, ...]]]) -> None:
    local, one = results[0], next(result for result in results if result.n_workers == 1)
    for result in results:
        n = result.n_workers
        overhead = f"{100 * (one.evaluation / local.evaluation - 1):+.0f} %" if n == 1 else ""
        faster = f"{one.evaluation / result.evaluation:.2f}" if n > 1 else ""
        tables["evaluation"].append(
            (case, result.n_samples, n or "none", f"{1e3 * result.evaluation:.1f}", overhead, faster)
        )
        per_step = f"{1e3 * result.seconds / result.steps:.1f}"
        row = (case, n or "none", result.steps, f"{result.objective:.10g}", per_step, *travels(result))
        tables["steps"].append(row)
        for rival, seconds, count in result.rivals:
            times = f"{seconds / result.seconds:.1f}" if np.isfinite(seconds) else "not reached"
            tables["rivals"].append((case, n, f"{result.seconds:.2f}", rival, f"{seconds:.2f}", count, times))


def travels(result: Measured) -> tuple[str, ...]:
    """Bytes and rounds of a step: in all, as a multiple of two vectors per plane and worker, and what is beside."""
    planes = f"{result.planes:.2f}"
    if result.n_workers == 0:
        return planes, "", "", "", ""
    vectors = 16 * result.n_params * result.n_workers * result.planes
    beside = (result.sent - vectors) / result.n_workers
    return planes, f"{result.sent / 1e3:.1f}", f"{result.sent / vectors:.2f}", f"{beside:.0f}", f"{result.rounds:.1f}"


COLUMNS = {
    "evaluation": ("Value and subgradient", ("set", "samples", "workers", "ms", "overhead", "times as fast as one")),
    "steps": (
        f"Steps to a gap of {GAP:g}, or the limit",
        (
            "set",
            "workers",
            "steps",
            "objective",
            "ms per step",
            "planes per step",
            "kB per step",
            "of 2 x 8 d per plane, each",
            "bytes beside, each",
            "rounds per step",
        ),
    ),
    "weak": ("The same rows for every worker", ("set", "workers", "ms", "of one worker's time")),
    "rivals": (
        "To the objective that we certify",
        ("set", "workers", "ours, s", "other", "s", "iterations or passes", "of our time"),
    ),
}


def weak(results: dict[tuple[str, int], list[Measured]]) -> list[tuple[object, ...]]:
    """n times the rows on n workers."""
    same = {
        case: next((one for one in results[case] if one.n_workers == case[1]), None) for case in WEAK if case in results
    }
    first = same.get(WEAK[0])
    return [
        (f"{name} x{copies}", copies, f"{1e3 * one.evaluation:.1f}", f"{one.evaluation / first.evaluation:.2f}")
        for (name, copies), one in same.items()
        if one is not None and first is not None
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="some rows of covtype, in a minute")
    parser.add_argument("--workers", default="1,2,4", help="numbers of worker processes, 1 among them")
    parser.add_argument("--cases", nargs="*", help="such as covtype:4 ocr:1; all by default")
    parser.add_argument("--max-steps", type=int, help=f"default {STEPS}, and {FEW_STEPS} for {MANY} copies or more")
    parser.add_argument("--keep", type=Path, help="a folder for what each case measured")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after that time")
    args = parser.parse_args()
    began = time.perf_counter()
    workers = [1, 2] if args.quick else [int(n) for n in args.workers.split(",")]
    cases = QUICK if args.quick else CASES
    if args.cases:
        cases = tuple((case.partition(":")[0], int(case.partition(":")[2] or 1)) for case in args.cases)
    print_machine()
    results: dict[tuple[str, int], list[Measured]] = {}
    tables: dict[str, list[tuple[object, ...]]] = {name: [] for name in COLUMNS}
    for name, copies in cases:
        if time.perf_counter() - began > args.seconds:
            print(f"{name} x{copies} left out: no time")
            continue
        try:
            results[name, copies] = kept_case(name, copies, workers, args)
            print(f"{name} x{copies}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        except DataMissing as reason:
            print(f"{name} skipped: {reason}")
            continue
        print_case(f"{name} x{copies}", results[name, copies], tables)
    tables["weak"] = weak(results)
    for key, (title, columns) in COLUMNS.items():
        if tables[key]:
            table = Table(title, columns)
            for row in tables[key]:
                table.row(*row)


if __name__ == "__main__":
    main()
