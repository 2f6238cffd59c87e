"""The choice of C and gamma for kernel machines: one Gram matrix per gamma serves all folds and all C."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv

from undercut.errors import DataError, require
from undercut.estimators.cross_validated import check_classes, warn_of_end
from undercut.estimators.folds import Split, checked_splits
from undercut.estimators.inputs import checked_weight, validated
from undercut.estimators.kernels.kernel_classifier import KernelClassifier, gamma_of
from undercut.estimators.targets import encode_classes
from undercut.maps.gram import named_kernel
from undercut.types import Array, FloatArray

SEVERAL = 3  # values of a grid, from which on a best one at its end is told
LARGEST = 20_000  # samples: the Gram matrix and one fold's part of it must fit into memory


@dataclass(frozen=True)
class KernelChoice:
    """The accuracies of all folds, of shape (n_gammas, n_Cs, n_folds), and the best machine, fitted to all samples."""

    gammas: list[Any]
    Cs: FloatArray
    scores: FloatArray
    best: KernelClassifier

    @property
    def means(self) -> FloatArray:
        """The mean accuracy of every pair."""
        return np.asarray(self.scores.mean(axis=2))


def kernel_search(
    machine: KernelClassifier,
    X: Any,
    y: Any,
    *,
    Cs: Any,
    gammas: Any = ("scale",),
    cv: Any = 5,
    sample_weight: Any = None,
) -> KernelChoice:
    """Choose C and gamma of a machine with a named kernel by the accuracy of held-out samples.

    ``sample_weight`` multiplies C in the fits, not the accuracies.

    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(100, noise=0.1, factor=0.5, random_state=0)
    >>> choice = kernel_search(KernelClassifier(), X, y, Cs=[0.1, 1.0], gammas=[0.01, 1.0], cv=3)
    >>> choice.best.gamma, choice.best.C, choice.means.shape
    (1.0, 1.0, (2, 2))
    """
    grid = np.unique(np.asarray(Cs, dtype=np.float64).ravel())  # strong regularization first
    require(grid.size > 0 and bool((grid > 0.0).all()), "`Cs` must be positive numbers, at least one", Cs)
    require(len(gammas) > 0, "`gammas` must hold at least one gamma", gammas)
    samples = X  # as they are given, with the names of their columns
    X, y = validated(clone(machine), X, y=y, reset=True)
    if y.size > LARGEST:
        raise DataError(f"a search needs the Gram matrix in memory, of at most {LARGEST} samples; got {y.size}")
    encode_classes(y)
    weight = checked_weight(sample_weight, X)
    splits = checked_splits(check_cv(cv, y, classifier=True).split(np.zeros(y.size), y), y.size)
    for train, _, name in splits:
        check_classes(y[train[weight[train] > 0.0]], name)
    scores = np.empty((len(gammas), grid.size, len(splits)))
    for at, gamma in enumerate(gammas):
        K = _gram(machine, gamma, X)
        for fold, split in enumerate(splits):
            scores[at, :, fold] = list(_fold_scores(machine, K, y, weight, grid, split))
    best_gamma, best_C = np.unravel_index(int(scores.mean(axis=2).argmax()), scores.shape[:2])
    settings = machine.get_params(deep=False) | {"gamma": gammas[best_gamma], "C": float(grid[best_C])}
    _warn_ends({"C": grid.tolist(), "gamma": list(gammas)}, settings)
    return KernelChoice(list(gammas), grid, scores, KernelClassifier(**settings).fit(samples, y, weight))


def _warn_ends(grids: dict[str, list[Any]], best: dict[str, Any]) -> None:
    """Warn of best values at the ends of grids of several numbers."""
    for name, grid in grids.items():
        numbers = sorted(value for value in grid if not isinstance(value, str))
        if len(numbers) >= SEVERAL and best[name] in (numbers[0], numbers[-1]):
            warn_of_end(name, best[name], f"{name}s", is_least=best[name] == numbers[0])


def _gram(machine: KernelClassifier, gamma: Any, X: Any) -> FloatArray:
    """The Gram matrix of all samples."""
    named = isinstance(machine.kernel, str) and machine.kernel != "precomputed"
    require(named, "`kernel` must be the name of a kernel function", machine.kernel)
    number = gamma_of(gamma, X)
    kernel = named_kernel(str(machine.kernel), degree=machine.degree, gamma=number, coef0=machine.coef0)
    return np.asarray(kernel(X, X), dtype=np.float64)


def _fold_scores(
    machine: KernelClassifier, K: FloatArray, y: Array, weight: FloatArray, Cs: FloatArray, split: Split
) -> Iterator[float]:
    """The accuracy of one fold for every C, each machine from the last one."""
    settings = machine.get_params(deep=False) | {"kernel": "precomputed", "warm_start": True, "gamma": "auto"}
    fold = KernelClassifier(**settings)
    train, held_out, _ = split
    own, others = K[np.ix_(train, train)], K[np.ix_(held_out, train)]
    for C in Cs.tolist():
        yield float(fold.set_params(C=C).fit(own, y[train], weight[train]).score(others, y[held_out]))
