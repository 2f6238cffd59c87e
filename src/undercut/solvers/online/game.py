"""The position of a player in an online game, and the samples that it is played against."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from undercut._jit import online as kernel
from undercut.contracts import CompiledSlope, Loss, Rows
from undercut.errors import NonfiniteError
from undercut.losses import compiled_slope
from undercut.maps.matrix import Matrix
from undercut.types import Array, FloatArray


@dataclass
class Game:
    """The player's position: ``w = scale * v``, the sum of the iterates, t, tau_{1:t}, R and G."""

    v: FloatArray
    u: FloatArray
    numbers: FloatArray
    rng: np.random.Generator

    @property
    def last(self) -> FloatArray:
        """The last iterate."""
        return np.asarray(self.numbers[kernel.SCALE] * self.v)

    @property
    def average(self) -> FloatArray:
        """The mean of the iterates, of the current phase where there are phases."""
        count = self.numbers[kernel.N_SUMMED]
        if count == 0.0:
            return self.last
        return np.asarray((self.numbers[kernel.WEIGHT_V] * self.v + self.u) / count)

    def copy(self, *, averaging: bool) -> Game:
        """The same position in arrays of its own; without averaging the sum of the iterates never changes."""
        return Game(self.v.copy(), self.u.copy() if averaging else self.u, self.numbers.copy(), _copied(self.rng))

    def move_to(self, w: FloatArray) -> None:
        """Replace the last iterate."""
        if self.numbers[kernel.WEIGHT_V] != 0.0:
            self.u += self.numbers[kernel.WEIGHT_V] * self.v
        self.v[:] = w
        self.numbers[[kernel.SCALE, kernel.WEIGHT_V]] = 1.0, 0.0
        self.numbers[kernel.NORM2] = float(w @ w)


def _copied(rng: np.random.Generator) -> np.random.Generator:
    """A generator of the same numbers; ``deepcopy`` takes twice as long."""
    bits = type(rng.bit_generator)(0)
    bits.state = rng.bit_generator.state
    return np.random.Generator(bits)


class Samples(NamedTuple):
    """The samples of a linear model, read row by row."""

    design: Matrix
    rows: Rows
    y: FloatArray
    weight: FloatArray  # multiplies the losses, and is one on average
    loss: Loss
    slope: CompiledSlope | None  # None: a user's own loss, played one mini-batch at a time
    bound: float  # on the norm of a subgradient of the loss: L max_i weight_i |x_i|, infinity where L is

    @classmethod
    def of(cls, design: Matrix, y: FloatArray, weight: FloatArray, loss: Loss) -> Samples:
        """The samples, with the bound that the Lipschitz constant of the loss gives."""
        rows, bound = design.rows(), math.inf
        if math.isfinite(loss.lipschitz):
            bound = loss.lipschitz * float(kernel.largest_row(*rows, weight))
        return cls(design, rows, y, weight, loss, compiled_slope(loss), bound)

    def subgradient(self, rows: Array, w: FloatArray) -> FloatArray:
        """Of ``mean_i weight_i l(y_i, <w, x_i>)`` over some rows."""
        part = self.design.take(rows)
        slopes = self.loss.value_slope(self.y[rows], part.matvec(w))[1]
        a = part.rmatvec(self.weight[rows] / len(rows) * slopes)
        if not np.isfinite(a).all():
            raise NonfiniteError("the subgradient of a mini-batch is not finite")
        return a
