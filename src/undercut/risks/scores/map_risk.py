"""Risks that see w through scores that are no linear function of it: ``R(w) = phi(f(w))``."""

from __future__ import annotations

import math

import numpy as np
from typing_extensions import override

from undercut.contracts import Cut, Risk, ScoreFunction, ScoreMap
from undercut.errors import NonfiniteError
from undercut.types import FloatArray


class MapRisk(Risk):
    """``R(w) = phi(f(w))`` by the chain rule; ``lower_bound`` is a lower bound of phi."""

    def __init__(
        self, score_map: ScoreMap, phi: ScoreFunction, *, lower_bound: float = 0.0, is_convex: bool = False
    ) -> None:
        self.map, self.phi, self.lower_bound, self.is_convex = score_map, phi, lower_bound, is_convex
        self.n_params = score_map.shape[1]

    @override
    def value(self, w: FloatArray) -> float:
        return self.phi.evaluate(self.map.forward(w)).value

    @override
    def cut(self, w: FloatArray) -> Cut:
        at = self.phi.evaluate(self.map.forward(w))
        if not math.isfinite(at.value):
            raise NonfiniteError(f"the value of the risk is {at.value}")
        with np.errstate(over="ignore", invalid="ignore"):  # Cut raises NonfiniteError
            a = self.map.backward(at.slopes)
            return Cut(a, at.value - float(a @ w), at.value)
