"""The parameters of left-to-right hidden Markov models with Gaussian mixtures, in one vector.

A Gaussian with its weight is linear in its natural parameters: its log-density at a frame x is a product with the
moments of x,

    log(weight N(x; mean, covariance)) = <slope_k, moments(x)>,        moments(x) = [1, x, x^2] or [1, x, x x']

so that the scores of all frames are one matrix product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from undercut.devices import library
from undercut.errors import require
from undercut.types import FloatArray

Covariance = Literal["diag", "full"]


class HmmWeights(NamedTuple):
    """The parameters by name, as views."""

    gaussians: FloatArray  # (words x states x mixtures, moments)
    stay: FloatArray  # log-probabilities, (words x states,)
    leave: FloatArray  # (words x states,); from the last state of a word: to its end
    enter: FloatArray  # (words,)


@dataclass(frozen=True)
class HmmLayout:
    """The sizes of the models of some words.

    >>> layout = HmmLayout(n_words=2, n_states=3, n_mixtures=2, n_features=4)
    >>> layout.n_moments, layout.n_params
    (9, 122)
    >>> layout.unpack(np.zeros(122)).gaussians.shape
    (12, 9)
    """

    n_words: int
    n_states: int
    n_mixtures: int
    n_features: int
    covariance: Covariance = "diag"

    def __post_init__(self) -> None:
        for name in ("n_words", "n_states", "n_mixtures", "n_features"):
            require(getattr(self, name) >= 1, f"`{name}` must be at least 1", getattr(self, name))
        require(self.covariance in ("diag", "full"), "`covariance` is 'diag' or 'full'", self.covariance)

    @property
    def n_all_states(self) -> int:
        """States of all words."""
        return self.n_words * self.n_states

    @property
    def n_gaussians(self) -> int:
        """Gaussians of all words."""
        return self.n_all_states * self.n_mixtures

    @property
    def n_moments(self) -> int:
        """The length of ``moments(x)``."""
        d = self.n_features
        return 1 + 2 * d if self.covariance == "diag" else 1 + d + d * (d + 1) // 2

    @property
    def n_params(self) -> int:
        """The length of w."""
        return self.n_gaussians * self.n_moments + 2 * self.n_all_states + self.n_words

    def unpack(self, w: FloatArray) -> HmmWeights:
        """The named parts of w."""
        size, states = self.n_gaussians * self.n_moments, self.n_all_states
        gaussians, stay, leave, enter = np.split(w, [size, size + states, size + 2 * states])
        return HmmWeights(gaussians.reshape(self.n_gaussians, self.n_moments), stay, leave, enter)

    def moments(self, X: Any) -> Any:
        """One row of moments per frame, on the device of X; products of two features are listed once."""
        xp = library(X)
        ones = xp.ones_like(X[:, :1])
        if self.covariance == "diag":
            return xp.concatenate([ones, X, X * X], -1)
        rows, columns = np.triu_indices(self.n_features)
        return xp.concatenate([ones, X, X[:, rows] * X[:, columns]], -1)

    def penalty_weights(self, theta: tuple[float, float, float]) -> FloatArray:
        """Weights of a penalty: theta for constants and slopes of Gaussians, for their squares, and for moves.

        Squares of features of unit variance vary by a factor of sqrt(2) more than the features.
        """
        linear, squares, moves = theta
        gaussian = np.full(self.n_moments, math.sqrt(2.0) * squares)
        gaussian[: 1 + self.n_features] = linear
        if self.covariance == "full":
            rows, columns = np.triu_indices(self.n_features)
            gaussian[1 + self.n_features :][rows != columns] = squares
        return np.concatenate(
            [np.tile(gaussian, self.n_gaussians), np.full(2 * self.n_all_states + self.n_words, moves)]
        )

    def natural(self, weights: FloatArray, means: FloatArray, covariances: FloatArray) -> FloatArray:
        """Gaussians as rows of natural parameters.

        weights : (n,), means : (n, d), covariances : (n, d) for "diag", (n, d, d) for "full"
        """
        constant = np.log(weights) - 0.5 * self.n_features * math.log(2.0 * math.pi)
        if self.covariance == "diag":
            precisions = 1.0 / covariances
            constant = constant - 0.5 * (np.log(covariances) + means**2 * precisions).sum(axis=1)
            return np.column_stack([constant, means * precisions, -0.5 * precisions])
        matrices = np.linalg.inv(covariances)
        slopes = np.einsum("kij,kj->ki", matrices, means)
        constant = constant - 0.5 * (np.linalg.slogdet(covariances)[1] + (slopes * means).sum(axis=1))
        rows, columns = np.triu_indices(self.n_features)
        squares = -0.5 * matrices[:, rows, columns] * np.where(rows == columns, 1.0, 2.0)
        return np.column_stack([constant, slopes, squares])
