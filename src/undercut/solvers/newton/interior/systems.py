"""The linear equations of an interior point step, by a matrix of the size of x or of the number of samples.

    (q'' + A' B A) dx  =  -(residual + A' pull),      B = diag(bend),   ds = A dx

With few samples and a diagonal ``E = q'' + B`` of the parameters, ``y = B ds + pull``, the change of the slopes, comes
first:

    (B^-1 + X E^-1 X') y  =  -X E^-1 r + B^-1 pull + b 1,      dx = -E^-1 (r + X' y),   ds = B^-1 (y - pull)

with r the rest of the right-hand side of the parameters, and b, the change of a free intercept, such that
``sum y = -residual_b``.  It is accurate also where samples are met exactly: then B is huge, and an error of ``X dx``
times B would spoil the slopes.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from undercut.maps.csr import SparseDesign
from undercut.solvers.newton.factor import Factor
from undercut.solvers.newton.interior.kinked_program import KinkedProgram
from undercut.solvers.newton.interior.rows import Rows
from undercut.types import FloatArray

FLAT = 1e-100  # smallest curvature of a sample's loss


class System(Protocol):
    """The equations at one iterate, factored once."""

    def solve(self, residual: FloatArray, pull: FloatArray) -> tuple[FloatArray, FloatArray]:
        """dx and ds."""


class ParameterSystem:
    """By a matrix of the size of x."""

    def __init__(self, program: KinkedProgram, bend: FloatArray) -> None:
        self.program, self.bend = program, bend
        H = program.rows.weighted_gram(bend)
        program.add_curvature(H)
        self._factor = Factor(H)

    def solve(self, residual: FloatArray, pull: FloatArray) -> tuple[FloatArray, FloatArray]:
        rows = self.program.rows
        dx = -self._factor.solve(residual + rows.rmatvec(pull), self._product)
        return dx, rows.matvec(dx)

    def _product(self, x: FloatArray) -> FloatArray:
        """The matrix times x; accurate also where the scores hardly depend on x."""
        rows = self.program.rows
        return self.program.curved(x) + rows.rmatvec(self.bend * rows.matvec(x))


class SampleSystem:
    """By a matrix of the size of the samples; squares is the diagonal of q'', X the rows as a float64 matrix."""

    def __init__(self, rows: Rows, squares: FloatArray, bend: FloatArray, X: FloatArray | sp.csr_array) -> None:
        self.rows, self.X = rows, X
        self._softness = 1.0 / np.maximum(bend[: rows.n], FLAT)
        self._stiffness = squares + rows.on_parameters(bend).sum(axis=0)
        S = _sample_gram(X, self._stiffness)
        S[np.diag_indices_from(S)] += self._softness
        self._factor = Factor(S)

    def solve(self, residual: FloatArray, pull: FloatArray) -> tuple[FloatArray, FloatArray]:
        rows, X, d = self.rows, self.X, self.rows.d
        rest = rows.with_identity(np.zeros_like(residual), pull)[:d] + residual[:d]
        own = pull[: rows.n]
        y = self._inverse(self._softness * own - X @ (rest / self._stiffness))
        shift = np.zeros(0)
        if rows.fit_intercept:
            shift = np.array([-(residual[-1] + y.sum()) / self._ones.sum()])
            y += shift * self._ones
        w = -(rest + y @ X) / self._stiffness
        return np.append(w, shift), np.concatenate([self._softness * (y - own), *(sign * w for sign in rows.signs)])

    @cached_property
    def _ones(self) -> FloatArray:
        """The solution for a right-hand side of ones."""
        return self._inverse(np.ones(self.rows.n))

    def _inverse(self, b: FloatArray) -> FloatArray:
        return self._factor.solve(b, lambda y: self._softness * y + self.X @ ((y @ self.X) / self._stiffness))


def _sample_gram(X: FloatArray | sp.csr_array, stiffness: FloatArray) -> FloatArray:
    """``X E^-1 X'`` for the diagonal E."""
    if isinstance(X, np.ndarray):
        scaled = X / np.sqrt(stiffness)
        return np.asarray(scaled @ scaled.T)
    return SparseDesign(X.T.tocsr()).weighted_gram(1.0 / stiffness)


def system(program: KinkedProgram, bend: FloatArray) -> System:
    """The equations by the smaller or more accurate matrix."""
    X = program.sample_rows if program.is_dual else None
    return ParameterSystem(program, bend) if X is None else SampleSystem(program.rows, program.squares, bend, X)
