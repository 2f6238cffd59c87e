"""What classifiers of words and recognizers of connected words share: utterances, start, penalty, model files."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from undercut.contracts import Solver
from undercut.devices import on_device
from undercut.errors import DataError, ParameterError, require
from undercut.estimators.certified import CertifiedEstimator
from undercut.estimators.linear.linear_model import check_distinct
from undercut.io.model_file import ModelState
from undercut.io.speech import LARGEST, features, lengths_of
from undercut.maps.cepstra import normalized
from undercut.maps.sequences import stack_sequences
from undercut.regularizers import L2
from undercut.risks.structured.hmm.frames import Frames
from undercut.risks.structured.hmm.layout import HmmLayout
from undercut.risks.structured.hmm.risk import HmmRisk
from undercut.risks.structured.hmm.start import Likelihood
from undercut.solvers import NonconvexBundle
from undercut.trace import Callbacks
from undercut.types import Array, FloatArray


class Utterances(NamedTuple):
    """All frames in one matrix, and how many of them each utterance has."""

    X: FloatArray
    lengths: Array


class HmmModel(CertifiedEstimator):
    """Left-to-right hidden Markov models of words, trained with a large margin around their likelihood solution."""

    classes_: Array
    parameters_: FloatArray
    layout_: HmmLayout
    _fitted: ClassVar[tuple[str, ...]] = ("classes_", "parameters_", "center_", "layout_", "mean_", "scale_")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CertifiedEstimator._parameter_constraints,
        "n_states": [Interval(Integral, 1, None, closed="left")],
        "n_mixtures": [Interval(Integral, 1, None, closed="left")],
        "covariance": [StrOptions({"diag", "full"})],
        "theta": [tuple, list],
        "margin": [Interval(Real, 0.0, None, closed="neither")],
        "normalize": [StrOptions({"utterance"}), None],
        "n_em": [Interval(Integral, 0, None, closed="left")],
        "variance_floor": [Interval(Real, 0.0, None, closed="neither")],
        "device": [str, None],
    }

    def __init__(
        self,
        n_states: int = 5,
        n_mixtures: int = 2,
        lam: float = 1e-2,
        *,
        covariance: Literal["diag", "full"] = "diag",
        theta: tuple[float, float, float] = (1.0, 1.0, 1.0),
        margin: float = 1.0,
        normalize: Literal["utterance"] | None = None,
        n_em: int = 10,
        variance_floor: float = 1e-2,
        device: str | None = None,
        solver: str | Solver[Any, Any, Any] = "auto",
        gap_rel: float = 1e-2,
        max_steps: int = 10_000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
        callbacks: Callbacks = None,
    ) -> None:
        self._keep(locals())

    def _prepared(self, utterances: Utterances, classes: Array, weight: FloatArray) -> tuple[Frames, FloatArray | None]:
        """The frames in the units of this fit, and the solution of the last one where ``warm_start`` asks for it."""
        self.n_features_in_ = utterances.X.shape[1]
        layout = HmmLayout(classes.size, self.n_states, self.n_mixtures, self.n_features_in_, self.covariance)
        last = self._last(layout, classes)
        self.classes_, self.layout_ = classes, layout
        self._standardize(utterances, weight)
        return self._frames(utterances), last

    def _minimize(self, risk: HmmRisk, center: FloatArray, last: FloatArray | None) -> Self:
        """Train from the center, or from the last solution, and conclude the fit."""
        self.center_, layout = center, self.layout_
        reg = L2(self.lam, center=center, weights=layout.penalty_weights(self._theta()))
        minimizer = self._minimizer()
        solver = NonconvexBundle(line_search="single") if self.solver == "auto" else None
        result = minimizer(risk, reg, center if last is None else last, solver=solver)
        self.parameters_ = result.w
        return self._conclude(minimizer, [result])

    def _theta(self) -> tuple[float, float, float]:
        theta = tuple(self.theta)
        good = len(theta) == 3 and all(isinstance(each, Real) and 0.0 < float(each) < np.inf for each in theta)
        require(good, "`theta` must be three positive numbers, for slopes, squares and moves", self.theta)
        return float(theta[0]), float(theta[1]), float(theta[2])

    def _likelihood(self) -> Likelihood:
        return Likelihood(n_em=self.n_em, variance_floor=self.variance_floor)

    def _last(self, layout: HmmLayout, classes: Array) -> FloatArray | None:
        """The solution of the last fit where ``warm_start`` asks for it; refused if it is of other sizes."""
        if not (self.warm_start and hasattr(self, "parameters_")):
            return None
        if layout != self.layout_ or not np.array_equal(classes, self.classes_):
            raise ParameterError(
                "a warm start needs the words, states, Gaussians, features and covariances of the last fit, "
                f"{_sizes(self.layout_)}; got {_sizes(layout)}, or other words: start without it"
            )
        return self.parameters_

    def _standardize(self, utterances: Utterances, weight: FloatArray) -> None:
        """Set the units of the features, which make the penalty independent of theirs."""
        of_frame = np.repeat(weight, utterances.lengths)
        self.mean_ = np.average(utterances.X, axis=0, weights=of_frame)
        variance = np.average((utterances.X - self.mean_) ** 2, axis=0, weights=of_frame)
        constant = variance <= (1e-12 * np.abs(self.mean_)) ** 2
        self.scale_ = np.sqrt(np.where(constant, 1.0, variance))

    def _frames(self, utterances: Utterances) -> Frames:
        """The utterances in the units of the fit, on the device."""
        X = (utterances.X - self.mean_) / self.scale_
        return Frames(X if self.device is None else on_device(X, self.device), utterances.lengths, self.layout_)

    def _utterances(self, X: Any, offsets: Any) -> Utterances:
        """All frames in one matrix of double precision, checked."""
        if offsets is None and getattr(X, "ndim", 1) == 2:
            raise DataError(f"X must be a list of utterances; got one matrix of shape {X.shape}: pass its `offsets`")
        if offsets is None:
            stacked = stack_sequences(X)
        else:
            rows = features(X)
            stacked = stack_sequences(rows, lengths_of(offsets, rows.shape[0]))
        frames = features(stacked.X)
        largest = float(np.abs(frames).max())
        if largest > LARGEST:
            raise DataError(
                f"squares of features must not overflow; got a feature of {largest:.3g}: scale the features"
            )
        lengths = stacked.lengths
        if lengths.min() < self.n_states:
            at = int(np.argmin(lengths))
            raise DataError(
                f"an utterance must have at least one frame per state, {self.n_states}; utterance {at} has "
                f"{lengths[at]}: use fewer states, or leave it out"
            )
        return Utterances(normalized(frames, lengths) if self.normalize == "utterance" else frames, lengths)

    def _known(self, X: Any, offsets: Any) -> Frames:
        """Utterances for a fitted model."""
        check_is_fitted(self, "parameters_")
        utterances = self._utterances(X, offsets)
        if utterances.X.shape[1] != self.n_features_in_:
            raise DataError(
                f"X must have the {self.n_features_in_} features of the fit; got {utterances.X.shape[1]} features"
            )
        return self._frames(utterances)

    @classmethod
    def from_state(cls, state: ModelState) -> Self:
        """The model that ``state`` described; ``ValueError`` if its parts do not fit together."""
        model = super().from_state(state)
        check_distinct(model.classes_)
        layout = model.layout_
        if (layout.n_words, layout.n_features) != (model.classes_.size, model.n_features_in_):
            raise ValueError(f"{layout} does not fit {model.classes_.size} words and {model.n_features_in_} features")
        shapes = {"parameters_": layout.n_params, "center_": layout.n_params}
        for name, size in (shapes | {"mean_": layout.n_features, "scale_": layout.n_features}).items():
            if getattr(model, name).shape != (size,):
                raise ValueError(f"{name} of shape {getattr(model, name).shape} does not fit {layout}")
        return model


def _sizes(layout: HmmLayout) -> str:
    """The sizes of models in words."""
    return (
        f"{layout.n_words} words of {layout.n_states} states with {layout.n_mixtures} Gaussians of "
        f"{layout.n_features} features ({layout.covariance})"
    )
