"""The losses of structured examples at w, each a plane, found by the user's decoder; examples share the work.

    margin:  Delta(y, y_hat) + <w, Psi(x, y_hat) - Psi(x, y)>
    slack:   Delta(y, y_hat) (1 + <w, Psi(x, y_hat) - Psi(x, y)>)

Either is ``<a, w> + b`` with ``b = Delta`` and ``a`` the difference of joint features, times 1 or Delta.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_all_start_methods, get_context
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from undercut.contracts import Labeling, Rescaling, StructuredModel
from undercut.errors import CapabilityError, DataError
from undercut.threads import one_thread
from undercut.types import Array, FloatArray

BLOCK = 256  # examples whose planes are in memory at a time when only the sum is needed


class Planes(NamedTuple):
    """One plane ``<a_i, w> + b_i`` per example."""

    A: sp.csr_matrix
    b: FloatArray

    def at(self, w: FloatArray) -> FloatArray:
        """Their values at w."""
        return np.asarray(self.A @ w + self.b)


class Sum(NamedTuple):
    """The weighted sum of losses at w, as a plane."""

    a: FloatArray
    b: float
    value: float


def weighted_sum(planes: Planes, scores: FloatArray, weight: FloatArray) -> Sum:
    """The sum of ``weight_i max(0, scores_i)`` of planes with these scores; the true labeling has the score 0."""
    active = np.where(scores <= 0.0, 0.0, weight)
    return Sum(np.asarray(planes.A.T @ active), float(active @ planes.b), float(active @ scores))


class Share:
    """Some of the examples; ``numbers`` are their positions among all, for messages."""

    def __init__(
        self,
        model: StructuredModel,
        rescaling: Rescaling,
        X: Sequence[Any],
        Y: Sequence[Labeling],
        weight: FloatArray,
        numbers: Sequence[int],
    ) -> None:
        self.model, self.rescaling, self.X, self.Y = model, rescaling, X, Y
        self.weight, self.numbers = weight, numbers
        for k, y in enumerate(Y):
            if (loss := self._label_loss(k, y)) != 0.0:
                raise DataError(f"example {numbers[k]}: label_loss(y, y) must be 0; got {loss}")
        self.truth = self._stack([self._joint_feature(k, y) for k, y in enumerate(Y)])

    def planes(self, w: FloatArray) -> Planes:
        """The plane of each example's loss at w."""
        return self._planes(w, 0, len(self.Y))

    def total(self, w: FloatArray) -> Sum:
        """The weighted sum of the losses at w."""
        a, b, value = np.zeros(self.model.n_params), 0.0, 0.0
        for first in range(0, len(self.Y), BLOCK):
            planes = self._planes(w, first, min(first + BLOCK, len(self.Y)))
            part = weighted_sum(planes, planes.at(w), self.weight[first : first + BLOCK])
            a += part.a
            b, value = b + part.b, value + part.value
        return Sum(a, b, value)

    def _planes(self, w: FloatArray, first: int, end: int) -> Planes:
        w = w.view()
        w.flags.writeable = False
        return self.planes_of([self._decode(w, k) for k in range(first, end)], first)

    def planes_of(self, answers: Sequence[Labeling], first: int = 0) -> Planes:
        """The planes of these labelings of the examples from ``first`` on."""
        b = np.array([self._label_loss(k, y_hat) for k, y_hat in enumerate(answers, first)])
        A = self._stack([self._joint_feature(k, y_hat) for k, y_hat in enumerate(answers, first)])
        A = A - self.truth[first : first + len(answers)]
        if self.rescaling == "slack":
            A = sp.csr_matrix(sp.diags_array(b) @ A)
        return Planes(A, b)

    def _decode(self, w: FloatArray, k: int) -> Labeling:
        return self._ask(k, self.model.decode, w, self.X[k], self.Y[k], self.rescaling)

    def _label_loss(self, k: int, y_hat: Labeling) -> float:
        loss = float(self._ask(k, self.model.label_loss, self.Y[k], y_hat))
        if not 0.0 <= loss < np.inf:
            raise DataError(f"example {self.numbers[k]}: label_loss must be finite and non-negative; got {loss}")
        return loss

    def _joint_feature(self, k: int, y: Labeling) -> tuple[Array, FloatArray]:
        feature = self._ask(k, self.model.joint_feature, self.X[k], y)
        try:
            return as_sparse(feature, self.model.n_params)
        except DataError as error:
            raise DataError(f"example {self.numbers[k]}: {error}") from None

    def _ask(self, k: int, method: Callable[..., Any], *args: Any) -> Any:
        try:
            return method(*args)
        except Exception as error:
            raise DataError(
                f"example {self.numbers[k]}: {method.__name__} raised {type(error).__name__}: {error}"
            ) from error

    def _stack(self, rows: list[tuple[Array, FloatArray]]) -> sp.csr_matrix:
        indptr = np.cumsum([0, *(values.size for _, values in rows)])
        indices = np.concatenate([indices for indices, _ in rows])
        values = np.concatenate([values for _, values in rows])
        return sp.csr_matrix((values, indices, indptr), shape=(len(rows), self.model.n_params))


def as_sparse(feature: Any, n_params: int) -> tuple[Array, FloatArray]:
    """A joint feature as (indices, values), given so or as an array."""
    if not isinstance(feature, tuple):
        dense = np.asarray(feature, dtype=np.float64)
        if dense.shape != (n_params,):
            raise DataError(f"joint_feature must have shape ({n_params},); got {dense.shape}")
        feature = np.flatnonzero(dense), dense[dense != 0.0]
    if len(feature) != 2:
        raise DataError(f"joint_feature must be an array or a tuple (indices, values); got {len(feature)} parts")
    indices, values = np.asarray(feature[0]), np.asarray(feature[1], dtype=np.float64)
    if indices.ndim != 1 or indices.shape != values.shape or (indices.size and indices.dtype.kind not in "iu"):
        got = f"{indices.dtype} of shape {indices.shape} and {values.shape}"
        raise DataError(f"joint_feature must give as many integer indices as values; got {got}")
    if indices.size and not 0 <= indices.min() <= indices.max() < n_params:
        got = f"{indices.min()} ... {indices.max()}"
        raise DataError(f"joint_feature must give indices from 0 to {n_params - 1}; got {got}")
    if not np.isfinite(values).all():
        raise DataError(f"joint_feature must be finite; got {values[~np.isfinite(values)][0]}")
    return indices.astype(np.int64, copy=False), values


Question: TypeAlias = Callable[[Share, FloatArray], Any]


class Workers:
    """Decoding of all shares, in this thread or in one thread per share."""

    def __init__(self, shares: list[Share], use_threads: bool) -> None:
        self._shares = shares
        self._pool: Executor | None = ThreadPoolExecutor(len(shares)) if use_threads and len(shares) > 1 else None

    def ask(self, question: Question, w: FloatArray) -> list[Any]:
        """The answer of each share."""
        if self._pool is None:
            return [question(share, w) for share in self._shares]
        return list(self._pool.map(question, self._shares, [w] * len(self._shares)))


class Processes(Workers):
    """One process per share, which keeps its examples as long as this object lives; only w is sent at each call."""

    def __init__(self, make: Callable[..., Share], arguments: list[tuple[Any, ...]]) -> None:
        context = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
        context.set_forkserver_preload([__name__])  # imported once for all processes
        self._pools = [ProcessPoolExecutor(1, mp_context=context, initializer=_prepare_worker) for _ in arguments]
        loads = [pool.submit(_hold, _pickled((make, some))) for pool, some in zip(self._pools, arguments, strict=True)]
        for load in loads:
            _result(load)

    def ask(self, question: Question, w: FloatArray) -> list[Any]:
        answers = [pool.submit(_answer, question, w) for pool in self._pools]
        return [_result(answer) for answer in answers]


_held: list[Share] = []  # in a worker process, its share


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the driver handles Ctrl-C
    one_thread().__enter__()  # for the life of the process: the other cores run other workers


def _pickled(thing: Any) -> bytes:
    try:
        return pickle.dumps(thing)
    except Exception as error:
        raise CapabilityError(f"n_jobs > 1 sends model, X and Y to processes: they {_REMEDY}; got {error}") from error


def _hold(load: bytes) -> None:
    try:
        make, arguments = pickle.loads(load)
    except (AttributeError, ImportError) as error:
        raise CapabilityError(f"n_jobs > 1 sends the model to processes: it {_REMEDY}; got {error}") from error
    _held[:] = [make(*arguments)]


def _result(future: Future[Any]) -> Any:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise CapabilityError(
            "a process that decodes has died: it may have run out of memory; a script that uses n_jobs > 1 must keep "
            "its work under `if __name__ == '__main__':`; use n_jobs=1 to see the model's own error"
        ) from error


def _answer(question: Question, w: FloatArray) -> Any:
    return question(_held[0], w)


_REMEDY = (
    "must be picklable and defined in a module that can be imported there; move it there, use n_jobs=1, or set "
    "releases_gil = True on the model to use threads"
)


def start_workers(
    model: StructuredModel,
    rescaling: Rescaling,
    X: Sequence[Any],
    Y: Sequence[Labeling],
    weight: FloatArray,
    n_jobs: int,
) -> tuple[Workers, list[Array]]:
    """Workers for the examples, and which examples each has, every n-th one.

    Examples of weight zero are left out, unless all are.
    """
    weighted = np.flatnonzero(weight) if weight.any() else np.arange(len(weight))
    n_jobs = min(n_jobs if n_jobs > 0 else os.cpu_count() or 1, weighted.size)
    rows = [weighted[first::n_jobs] for first in range(n_jobs)]
    arguments = [
        (model, rescaling, [X[i] for i in some], [Y[i] for i in some], weight[some], some.tolist()) for some in rows
    ]
    use_threads = bool(getattr(model, "releases_gil", False))
    if n_jobs > 1 and not use_threads:
        return Processes(Share, arguments), rows
    return Workers([Share(*some) for some in arguments], use_threads), rows
