"""Names of features, as in scikit-learn: from pandas and polars frames, checked by predict, kept by a model file."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from undercut import (
    KernelClassifier,
    LinearClassifier,
    LinearRegressor,
    MultivariateClassifier,
    NoveltyDetector,
    OnlineClassifier,
    OnlineRegressor,
    Ranker,
    TransductiveClassifier,
    load_model,
    save_model,
)
from undercut.estimators.inputs import feature_names

rng = np.random.default_rng(0)
DATA = {name: 3.0 + rng.standard_normal(40) for name in ("age", "größe", "size 2")}
TARGET = (DATA["age"] > 3.0).astype(int)
MODELS = [
    LinearClassifier(lam=1e-2),
    LinearRegressor(),
    MultivariateClassifier(lam=1e-1),
    NoveltyDetector(),
    OnlineClassifier(n_passes=2),
    OnlineRegressor(n_passes=2),
    Ranker(lam=1e-1),
    KernelClassifier(),
    TransductiveClassifier(lam=1e-1),
]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_names_of_columns_are_kept_saved_and_checked(model, kind, tmp_path):
    frame = kind(DATA)
    qid = {"qid": np.arange(40) % 4} if isinstance(model, Ranker) else {}
    model.fit(frame, TARGET, **qid)
    assert model.feature_names_in_.tolist() == list(DATA)
    save_model(model, tmp_path / "model.uc")
    back = load_model(tmp_path / "model.uc")
    assert feature_names(back) == list(DATA)
    np.testing.assert_array_equal(back.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        back.predict(frame[["size 2", "age", "größe"]])
    with pytest.raises(ValueError, match="feature names should match"):
        back.predict(kind({**DATA, "other": DATA["age"]}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        back.predict(frame.to_numpy())
