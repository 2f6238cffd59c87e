"""A check of a structured model by brute force: the largest loss, and sums over all labelings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from undercut.contracts import LikelihoodModel, MarginalModel, Rescaling, StructuredModel
from undercut.errors import DataError
from undercut.risks.structured.decoding import LikelihoodShare, MarginShare, point_at
from undercut.testing.tolerance import ROUNDING, magnitude
from undercut.types import FloatArray


def check_structured_model(
    model: StructuredModel | LikelihoodModel,
    X: Sequence[Any],
    Y: Sequence[Any],
    labelings: Callable[[Any], Iterable[Any]],
    *,
    rescaling: Rescaling = "margin",
    n_points: int = 20,
    random_state: int = 0,
) -> None:
    """Check a model by brute force on examples short enough that ``labelings(x)`` can list all labelings of x.

    ``label_loss`` and ``joint_feature`` keep their contracts; ``decode`` finds the largest loss at w = 0 (where label
    losses decide), along single parameters, and at random points from small ones to large ones (where joint features
    decide); it modifies nothing.  Of a model with ``log_partition`` the logarithm of the sum, the expected joint
    feature, and ``marginals`` where there are any, are compared with sums over all labelings at the same points.  A
    model may have either kind of methods or both.

    >>> class Largest:  # Psi(x, y) = x e_y
    ...     n_params = 3
    ...     def joint_feature(self, x, y):
    ...         return np.array([y]), np.array([x])
    ...     def label_loss(self, y, y_hat):
    ...         return abs(y - y_hat)
    ...     def decode(self, w, x, y, rescaling):
    ...         return int(np.argmax(w * x))  # forgets the label loss
    >>> check_structured_model(Largest(), [1.0, 2.0], [0, 2], lambda x: range(3))
    Traceback (most recent call last):
        ...
    AssertionError: decode at w = 0: example 0: it found a loss of 0.0, and the largest is 2.0; ...
    """
    rng = np.random.default_rng(random_state)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        every = list(labelings(x))
        assert every, f"labelings: there must be at least one; got none for example {i}"
        try:
            if hasattr(model, "decode"):
                _check_example(model, rescaling, i, x, y, every, n_points, rng)
            if isinstance(model, LikelihoodModel):
                _check_sums(model, i, x, y, every, n_points, rng)
        except DataError as error:
            raise AssertionError(str(error)) from error


def _check_example(
    model: Any,
    rescaling: Rescaling,
    i: int,
    x: Any,
    y: Any,
    every: list[Any],
    n_points: int,
    rng: np.random.Generator,
) -> None:
    n = len(every)
    tried = MarginShare(rescaling, model, [x] * n, [y] * n, np.ones(n), [i] * n)
    asked = MarginShare(rescaling, model, [x], [y], np.ones(1), [i])
    planes = tried.planes_of(every)
    for what, w in _telling_points(np.unique(planes.A.indices), model.n_params, n_points, rng):
        losses = planes.at(w)
        found, best = float(asked.planes(point_at(model, w)).at(w)[0]), float(losses.max())
        slack = ROUNDING * magnitude(float(np.abs(losses).max()))
        assert abs(found - best) <= slack, (
            f"decode at {what}: example {i}: it found a loss of {found}, and the largest is {best}; decode, "
            "joint_feature, label_loss or labelings is wrong"
        )
        assert best >= -slack, f"labelings: y must be one of them, and its loss is 0; example {i}: they reach {best}"
    after = tried.planes_of(every)
    same = (planes.A != after.A).nnz == 0 and np.array_equal(planes.b, after.b)
    assert same, (
        f"example {i}: decode must not modify x or y, nor joint_feature and label_loss change; they gave something else"
    )


def _check_sums(
    model: LikelihoodModel, i: int, x: Any, y: Any, every: list[Any], n_points: int, rng: np.random.Generator
) -> None:
    """Compare log Z, expectations and marginals with sums over every labeling."""
    n = len(every)
    features = LikelihoodShare(model, [x] * n, every, np.ones(n), [i] * n).truth
    asked = LikelihoodShare(model, [x], [y], np.ones(1), [i])
    for what, w in _telling_points(np.unique(features.indices), model.n_params, n_points, rng):
        point = point_at(model, w)
        scores = features @ w
        log_z = float(np.logaddexp.reduce(scores))
        probability = np.exp(scores - log_z)
        planes = asked.planes(point)
        found = float(planes.at(w)[0] + (asked.truth @ w)[0])
        slack = ROUNDING * magnitude(float(np.abs(scores).max()))
        assert abs(found - log_z) <= slack, (
            f"log_partition at {what}: example {i}: log Z is {found}, and the sum over all labelings gives {log_z}"
        )
        expected = np.asarray(features.T @ probability)
        got = np.asarray(planes.A.todense())[0] + asked.truth.toarray()[0]
        _compare(f"log_partition at {what}: example {i}: the expected joint feature", got, expected, slack)
        if isinstance(model, MarginalModel):
            parts = sum(p * model.parts(x, y_hat) for p, y_hat in zip(probability, every, strict=True))
            got = np.asarray(model.marginals(point.prepared, x))
            _compare(f"marginals at {what}: example {i}: the expectation of parts", got, np.asarray(parts), slack)


def _compare(what: str, got: FloatArray, expected: FloatArray, slack: float) -> None:
    assert got.shape == expected.shape, f"{what} must have shape {expected.shape}; got {got.shape}"
    off = np.abs(got - expected)
    at = np.unravel_index(int(off.argmax()), off.shape)
    allowed = slack * magnitude(float(np.abs(expected).max()))
    place = ", ".join(map(str, at))
    assert off[at] <= allowed, f"{what} is {expected[at]} at [{place}]; got {got[at]}"


def _telling_points(
    active: Any, n_params: int, n_points: int, rng: np.random.Generator
) -> Iterator[tuple[str, FloatArray]]:
    yield "w = 0", np.zeros(n_params)
    for j in rng.permutation(active)[:n_points]:
        for t in (3.0, -3.0):
            w = np.zeros(n_params)
            w[j] = t
            yield f"w = {t} e_{j}", w
    for k in range(n_points):
        scale = 10.0 ** (k % 5 - 2)
        yield f"a random w of scale {scale}", scale * rng.standard_normal(n_params)
