"""Progressive hedging with the Gram matrix on a GPU: MNIST, odd against even digits, a Gaussian kernel.

Every sample is a scenario; all vectors live beside the matrix, which is stored in float32 and computed from distances
in float64; bounds and objectives rest on sums in float64.  n = 12000 is a random part of the training set, 60000 all of
it, 100000 with 40000 images moved by one pixel.  Needs torch; nothing else beyond what undercut needs, and no piqp.

    UNDERCUT_DATA=... python benchmarks/hedging_gpu.py [--device cpu --sizes 1000]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch

from undercut import Result, Stop, minimize
from undercut.io import load_svmlight
from undercut.maps.gram import DenseGram, RbfKernel
from undercut.regularizers import KernelNorm
from undercut.risks import GramRisk
from undercut.solvers import KernelHedging

SIDE = 28
GAPS = (1e-2, 1e-3, 5e-4)


def digits(name: str) -> tuple[np.ndarray, np.ndarray]:
    """All images of a file, and +1 for odd digits."""
    folder = os.environ.get("UNDERCUT_DATA")
    file = Path(folder or ".", "libsvm", name)
    if folder is None or not file.is_file():
        sys.exit(f"skipped: UNDERCUT_DATA must name the folder that holds libsvm/{name}")
    X, y, _ = load_svmlight(file, n_features=SIDE * SIDE)
    return X.toarray().astype(np.float32), np.where(y % 2 == 1, 1.0, -1.0)


def enlarged(X: np.ndarray, y: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """n samples in random order: the given ones, and where they do not suffice some moved by a pixel."""
    rng = np.random.default_rng(0)
    order = rng.permutation(y.size)[:n]
    if n <= y.size:
        return X[order], y[order]
    extra = rng.choice(y.size, n - y.size, replace=False)
    images = X[extra].reshape(-1, SIDE, SIDE)
    moves = rng.choice([-1, 1], extra.size), rng.integers(1, 3, extra.size)
    moved = np.stack([np.roll(image, step, axis=axis - 1) for image, step, axis in zip(images, *moves, strict=True)])
    return np.concatenate([X, moved.reshape(extra.size, -1)]), np.concatenate([y, y[extra]])


def synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def clocked(call, device: str) -> float:
    synchronize(device)
    began = time.perf_counter()
    call()
    synchronize(device)
    return time.perf_counter() - began


def reached(result: Result, gap: float) -> str:
    for row in result.trace:
        if row.gap <= gap * row.objective:
            return f"{row.step} / {row.seconds:.2f}"
    return "-"


def test_error(risk: GramRisk, w: np.ndarray, X: torch.Tensor, gamma: float, test: tuple) -> float:
    """By the samples with a coefficient."""
    support, images = np.flatnonzero(w), torch.as_tensor(test[0], device=X.device)
    scores = RbfKernel(gamma)(images, X[support]) @ torch.as_tensor(w[support], device=X.device)
    return float(np.mean(np.where(scores.cpu().numpy() + risk.intercept(w) > 0.0, 1.0, -1.0) != test[1]))


def bandwidth(K: torch.Tensor, device: str) -> None:
    """Of a bare copy and of products with K."""
    n, copy = len(K), torch.empty_like(K)
    v, half = torch.rand(n, device=device), K.half()
    rows = torch.arange(0, n, 10, device=device)
    near, some = K[rows], v[rows]
    bytes_of = {
        "a copy of K, read and written": (2 * K.nbytes, lambda: copy.copy_(K)),
        "K v": (K.nbytes, lambda: K @ v),
        "K v, K in half precision": (half.nbytes, lambda: half @ v.half()),
        "K v, one entry of v in ten not zero, its rows side by side": (near.nbytes, lambda: some @ near),
        "the same, rows where they are": (near.nbytes, lambda: some @ K[rows]),
    }
    print(f"| n = {n} | ms | TB/s |\n| --- | --- | --- |")
    for name, (size, call) in bytes_of.items():
        seconds = min(clocked(call, device) for _ in range(20))
        print(f"| {name} | {1e3 * seconds:.3f} | {size / seconds / 1e12:.2f} |")
    print(flush=True)


def run(n: int, options: argparse.Namespace, train: tuple, test: tuple) -> list[list[str]]:
    """A row for every C."""
    X, y = enlarged(*train, n)
    X = torch.as_tensor(X, device=options.device)
    made: list[DenseGram] = []
    kernel = RbfKernel(options.gamma)
    making = clocked(lambda: made.append(DenseGram.of(kernel, X, check=False)), options.device)
    gram = made[0]
    bandwidth(gram.K, options.device)
    if options.device.startswith("cuda"):
        torch.cuda.empty_cache()
    risk, rows = GramRisk(gram, y), []
    for C in options.C:
        stop = Stop(gap_rel=min(GAPS), max_steps=options.max_steps, max_seconds=options.max_seconds)
        result = minimize(risk, KernelNorm(1.0 / (n * C), gram), KernelHedging(), stop=stop)
        step = result.trace[-1].seconds / max(1, result.n_steps)
        error = test_error(risk, result.w, X, options.gamma, test)
        cells = [n, f"{C:g}", f"{making:.2f}", f"{1e3 * step:.2f}", *(reached(result, gap) for gap in GAPS)]
        cells += [f"{result.gap / result.objective:.1e}", result.status.name]
        rows.append([*map(str, cells), str(np.count_nonzero(result.w)), f"{error:.4f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sizes", type=int, nargs="+", default=[12000, 60000, 100000])
    parser.add_argument("--C", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--gamma", type=float, default=0.02)
    parser.add_argument("--max-steps", type=int, default=20_000)
    parser.add_argument("--max-seconds", type=float, default=120.0)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    where = torch.cuda.get_device_name() if options.device.startswith("cuda") else options.device
    print(f"{where}; torch {torch.__version__}; gamma = {options.gamma}\n")
    train, test = digits("mnist.scale.bz2"), digits("mnist.scale.t.bz2")
    run(1000, options, train, test)  # compiled, and awake
    rows = [row for n in options.sizes for row in run(n, options, train, test)]
    gaps = [f"steps / s to {gap:g}" for gap in GAPS]
    columns = ["n", "C", "Gram matrix, s", "step, ms", *gaps, "gap", "status", "coefficients", "test error"]
    for row in (columns, ["---"] * len(columns), *rows):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
