"""The first fit on a machine: what is compiled for it, beside the same program once all of that is in the cache.

    python benchmarks/cold.py

Every program runs in a process of its own with an empty folder for compiled code, and once more with what the first
run left there.  The difference is what a user waits for once on a machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numba.core import event

from common import Table, data_path, on_this_machine, print_machine
from undercut import LinearClassifier, LinearRegressor
from undercut.io import load_svmlight

Seconds = dict[str, float]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    found = work()
    return found, time.perf_counter() - began


@dataclass(frozen=True)
class FromFile:
    """Read a data set in SVMlight format and fit."""

    set: str
    model: Any

    def run(self) -> Seconds:
        (X, y, _), reading = timed(lambda: load_svmlight(data_path(self.set)))
        return {"reading": reading, "fit": timed(lambda: self.model.fit(X, y))[1]}


@dataclass(frozen=True)
class MadeUp:
    """Fit a made-up table of n samples and d features."""

    n: int
    d: int
    model: Any
    targets: Callable[[np.ndarray], np.ndarray] = np.asarray

    def run(self) -> Seconds:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((self.n, self.d))
        y = self.targets(X @ rng.standard_normal(self.d) + rng.standard_normal(self.n))
        return {"reading": 0.0, "fit": timed(lambda: self.model.fit(X, y))[1]}


PROGRAMS = {
    "a9a from its file, hinge": FromFile("a9a", LinearClassifier()),
    "rcv1 from its file, hinge": FromFile("rcv1-sample", LinearClassifier()),
    "a9a from its file, logistic": FromFile("a9a", LinearClassifier("logistic")),
    "a9a from its file, logistic with L1": FromFile("a9a", LinearClassifier("logistic", penalty="l1")),
    "connect-4 from its file, Crammer-Singer": FromFile("connect-4", LinearClassifier(multi_class="crammer_singer")),
    "connect-4 from its file, softmax": FromFile("connect-4", LinearClassifier("logistic", multi_class="multinomial")),
    "300 x 20, hinge": MadeUp(300, 20, LinearClassifier(), np.sign),
    "300 x 20, squared with L1": MadeUp(300, 20, LinearRegressor(penalty="l1")),
    "20000 x 50, hinge": MadeUp(20000, 50, LinearClassifier(), np.sign),
    "20000 x 50, squared": MadeUp(20000, 50, LinearRegressor()),
    "20000 x 50, absolute": MadeUp(20000, 50, LinearRegressor("absolute")),
}


def run(name: str) -> None:
    """Run a program, and print its seconds and how many functions it compiled."""
    with event.install_recorder("numba:compile") as compilations:
        found = PROGRAMS[name].run()
    functions = {one.data["dispatcher"] for _, one in compilations.buffer}
    print(json.dumps(found | {"functions": len(functions)}))


def apart(name: str, folder: str) -> Seconds:
    """What a process of its own prints, with compiled code in ``folder``."""
    command = [sys.executable, __file__, "--program", name]
    done = subprocess.run(command, env=os.environ | {"NUMBA_CACHE_DIR": folder}, stdout=subprocess.PIPE, check=True)
    found: Seconds = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", choices=PROGRAMS, metavar="NAME", help="run this one only, in this process")
    chosen = parser.parse_args().program
    if chosen:
        run(chosen)
        return
    print_machine()
    titles = ["program", "functions compiled", "reading, s", "fit, s"]
    titles += ["again: reading, s", "again: fit, s", "compilation, s"]
    table = Table("The first run of a program, and the next", titles)
    here = on_this_machine(list({one.set: None for one in PROGRAMS.values() if isinstance(one, FromFile)}))
    for name, program in PROGRAMS.items():
        if isinstance(program, FromFile) and program.set not in here:
            continue
        with TemporaryDirectory() as folder:
            first, again = apart(name, folder), apart(name, folder)
        spent = [first["reading"], first["fit"], again["reading"], again["fit"]]
        compilation = spent[0] + spent[1] - spent[2] - spent[3]
        table.row(name, first["functions"], *(f"{seconds:.2f}" for seconds in (*spent, compilation)))


if __name__ == "__main__":
    main()
