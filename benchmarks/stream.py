"""Memory of ``undercut train --online`` on a file ten times the bound that is set for it.

A block of random samples is written again and again until the file has the wanted size; the command then runs in a
process of its own, on that file and on one block alone, and the difference of the two peaks is what the size costs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from common import print_machine

BOUND_MB = 50
FACTOR = 10
FEATURES = 1000
COMMAND = "import sys; sys.argv[0] = 'undercut'; from undercut.cli import main; main()"


def block(n_samples: int, seed: int = 0) -> bytes:
    """Sparse samples whose label is the sign of a random linear function, as SVMlight text."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(FEATURES)
    lines = []
    for _ in range(n_samples):
        columns = np.sort(rng.choice(FEATURES, 30, replace=False))
        values = rng.random(30).round(4)
        label = "+1" if values @ w[columns] > 0.0 else "-1"
        lines.append(" ".join([label, *(f"{j + 1}:{x}" for j, x in zip(columns, values, strict=True))]))
    return ("\n".join(lines) + "\n").encode()


def peak_mb(file: Path, model: Path, chunk_rows: int) -> tuple[float, float]:
    """Peak resident memory and seconds of one pass over a file."""
    options = [
        "--lambda",
        "1e-6",
        "--chunk-rows",
        str(chunk_rows),
        "--n-features",
        str(FEATURES),
        "--classes=-1,1",
        "-q",
    ]
    command = [sys.executable, "-c", COMMAND, "train", "--online", str(file), *options, "-o", str(model)]
    began = time.perf_counter()
    with subprocess.Popen(command) as run:
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode:
        raise SystemExit(f"undercut train ended with {run.returncode}")
    return usage.ru_maxrss / 1024.0, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunk-rows", type=int, default=10_000)
    chunk_rows = parser.parse_args().chunk_rows
    print_machine()
    text = block(20_000)
    with tempfile.TemporaryDirectory() as folder:
        small, large, model = Path(folder, "small.svm"), Path(folder, "large.svm"), Path(folder, "model.uc")
        small.write_bytes(text)
        with large.open("wb") as file:
            while file.tell() < BOUND_MB * FACTOR * 2**20:
                file.write(text)
        peak_mb(small, model, chunk_rows)  # compiles, if need be
        rows = [(path.name, path.stat().st_size / 2**20, *peak_mb(path, model, chunk_rows)) for path in (small, large)]
    print("\n| file | MB on disk | peak MB | seconds |\n| --- | --- | --- | --- |")
    for name, size, peak, seconds in rows:
        print(f"| {name} | {size:.0f} | {peak:.0f} | {seconds:.1f} |")
    growth = rows[1][2] - rows[0][2]
    verdict = "ok" if growth <= BOUND_MB else "MISSED"
    print(f"\nthe larger file costs {growth:.0f} MB more, of {BOUND_MB} allowed: {verdict}")


if __name__ == "__main__":
    main()
