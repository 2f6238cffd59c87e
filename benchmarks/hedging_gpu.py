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

from undercut import DenseGram, GramRisk, KernelHedging, KernelNorm, Result, Stop, minimize
from undercut.data import load_svmlight

SIDE = 28
GAPS = (1e-1, 1e-2, 1e-3)


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


def gaussian(X: torch.Tensor, Z: torch.Tensor, gamma: float, tile: int = 4096) -> torch.Tensor:
    """``exp(-gamma |x - z|^2)`` in float32, tile by tile."""
    K = torch.empty(len(X), len(Z), dtype=torch.float32, device=X.device)
    Z = Z.double()
    norms = (Z * Z).sum(1)
    for low in range(0, len(X), tile):
        part = X[low : low + tile].double()
        distances = (part * part).sum(1)[:, None] + norms - 2.0 * (part @ Z.T)
        K[low : low + tile] = torch.exp(-gamma * distances.clamp_(min=0.0).float())
    return K


def symmetric(X: torch.Tensor, gamma: float) -> torch.Tensor:
    """The Gram matrix, its lower half copied to the upper one: sums in another order round otherwise."""
    K = gaussian(X, X, gamma)
    for low in range(0, len(X), 4096):
        high = min(low + 4096, len(X))
        K[low:high, low:high] = 0.5 * (K[low:high, low:high] + K[low:high, low:high].T)
        K[low:high, high:] = K[high:, low:high].T
    K.fill_diagonal_(1.0)
    return K


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


def test_error(w: np.ndarray, b: float, X: torch.Tensor, gamma: float, X_test: np.ndarray, y_test: np.ndarray) -> float:
    support = np.flatnonzero(w)
    here = torch.as_tensor(X_test, device=X.device)
    coef = torch.as_tensor(w[support], dtype=torch.float32, device=X.device)
    scores = gaussian(here, X[support], gamma) @ coef
    return float(np.mean(np.where(scores.cpu().numpy() + b > 0.0, 1.0, -1.0) != y_test))


def run(n: int, C: float, options: argparse.Namespace, train: tuple, test: tuple) -> None:
    X, y = enlarged(*train, n)
    X = torch.as_tensor(X, device=options.device)
    synchronize(options.device)
    began = time.perf_counter()
    K = symmetric(X, options.gamma)
    synchronize(options.device)
    making = time.perf_counter() - began
    v = torch.rand(n, device=options.device)
    bare = min(clocked(lambda: K @ v, options.device) for _ in range(20))
    risk = GramRisk(DenseGram(K, check=False), y)
    stop = Stop(gap_rel=min(GAPS), max_steps=options.max_steps, max_seconds=options.max_seconds)
    result = minimize(risk, KernelNorm(1.0 / (n * C), risk.gram), KernelHedging(), stop=stop)
    step = result.trace[-1].seconds / max(1, result.n_steps)
    error = test_error(result.w, risk.intercept(result.w), X, options.gamma, *test)
    cells = [n, f"{C:g}", f"{making:.2f}", f"{1e3 * bare:.2f}", f"{1e3 * step:.2f}"]
    cells += [reached(result, gap) for gap in GAPS]
    cells += [f"{result.gap / result.objective:.1e}", result.status.name, np.count_nonzero(result.w), f"{error:.4f}"]
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


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
    gaps = [f"steps / s to {gap:g}" for gap in GAPS]
    columns = ["n", "C", "Gram matrix, s", "K v, ms", "step, ms", *gaps, "gap", "status", "coefficients", "test error"]
    print(f"| {' | '.join(columns)} |\n| {' | '.join(['---'] * len(columns))} |", flush=True)
    for n in options.sizes:
        for C in options.C:
            run(n, C, options, train, test)
            if options.device.startswith("cuda"):
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
