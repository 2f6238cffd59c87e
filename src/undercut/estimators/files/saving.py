"""What a model file holds of an estimator or a pipeline."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from undercut.errors import ModelFileError
from undercut.estimators.files.stored import decode, encode, is_own, own_kinds
from undercut.estimators.files.transformers import check_version, version
from undercut.io.model_file import ModelState

PIPELINE = "Pipeline"


def state_of(model: Any) -> tuple[str, ModelState]:
    """The name and the state of what is to be saved; ``ModelFileError`` for what cannot be."""
    if is_own(model):
        return type(model).__name__, model.state()
    if type(model) is not Pipeline or not is_own(model[-1]):
        raise ModelFileError(
            "only estimators of undercut, and pipelines that end in one, can be saved; got a "
            f"{_described(model)}: use the base class in place of a subclass"
        )
    model[-1].state()  # refuses one that is not fitted
    for step in model[:-1]:
        check_is_fitted(step)
    arrays: dict[str, Any] = {}
    pipeline = encode(model, "", arrays)
    return PIPELINE, ModelState({"scikit-learn": version()}, {"pipeline": pipeline}, arrays)


def restored(name: str, state: ModelState) -> Any:
    """The estimator or the pipeline of a state; ``LookupError``, ``TypeError`` or ``ValueError`` if it is damaged."""
    if name != PIPELINE:
        return own_kinds()[name].from_state(state)
    check_version(state.params["scikit-learn"])
    pipeline = decode(state.fitted["pipeline"], state.arrays)
    if type(pipeline) is not Pipeline or not is_own(pipeline[-1]):
        raise ValueError("the pipeline does not end in an estimator of undercut")
    return pipeline


def _described(model: Any) -> str:
    name = type(model).__name__
    return f"{name} that ends in a {type(model[-1]).__name__}" if isinstance(model, Pipeline) else name
