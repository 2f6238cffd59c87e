"""Estimators over Dask collections and files that workers read: the numbers of the same data in memory."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

from undercut import (
    KernelClassifier,
    LinearClassifier,
    LinearClassifierCV,
    LinearRegressor,
    MultivariateClassifier,
    NoveltyDetector,
    OnlineClassifier,
    Ranker,
    TransductiveClassifier,
)
from undercut.errors import DataError, ParameterError
from undercut.estimators.cluster.blocks import placed
from undercut.estimators.cluster.partitions import PartitionedData, divided
from undercut.io.several import load_numbered, matching
from undercut.maps.parts import LocalParts
from undercut.solvers import MeanOfPartitions
from undercut.solvers.online import Pegasos

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.usefixtures("cluster", "as_for_many_samples")]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 4)) + 0.2
    return X, np.digitize(X[:, 0] + 0.4 * rng.standard_normal(120), [-0.3, 0.7])


@pytest.fixture(scope="module")
def arrays(data):
    X, y = data
    return da.from_array(X, chunks=(50, 4)), da.from_array(y, chunks=50)


@pytest.fixture(scope="module")
def here(data):
    """Partitions in this process."""
    X, y = data
    return PartitionedData._measured(LocalParts([{"X": X[at : at + 50], "y": y[at : at + 50]} for at in (0, 50, 100)]))


@pytest.fixture(scope="module")
def files(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    X, y = data
    for at in range(3):
        rows = slice(40 * at, 40 * at + 40)
        name, qid = str(folder / f"part-{at}.svm"), np.arange(40) // 10 + 10 * at
        dump_svmlight_file(X[rows, : 3 + (at > 0)], y[rows], name, zero_based=False, query_id=qid)
    return folder


def assert_same(one, other):
    assert one.objective_ == pytest.approx(other.objective_, abs=1e-10)
    assert one.lower_bound_ == pytest.approx(other.lower_bound_, abs=1e-10)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-8)
    np.testing.assert_allclose(one.intercept_, other.intercept_, atol=1e-8)


def test_a_classifier_of_dask_arrays_is_that_of_arrays(data, arrays):
    settings = {"loss": "logistic", "lam": 0.01, "class_weight": "balanced"}
    assert_same(LinearClassifier(**settings).fit(*arrays), LinearClassifier(**settings).fit(*data))


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "hinge", "solver": "line_search_bundle"},
        {"loss": "logistic", "multi_class": "multinomial"},
        {"multi_class": "crammer_singer", "fit_intercept": False, "solver": "cutting_plane", "gap_rel": 0.1},
    ],
)
def test_the_problems_of_partitions_are_those_of_all_rows(data, here, settings):
    one, other = (LinearClassifier(**({"lam": 0.05} | settings)) for _ in range(2))
    assert_same(one.fit(here), other.fit(*data))


def test_a_nonconvex_loss_of_partitions_has_the_objective_of_all_rows(data, here):
    """The search starts on kinks, so that rounding decides which stationary point it ends at; J there is the same."""
    X, y = data
    model = LinearClassifier("ramp", lam=0.05, fit_intercept=False, solver="nonconvex_bundle").fit(here)
    margins = np.where(y[:, None] == model.classes_, 1.0, -1.0) * (X @ model.coef_.T)
    losses = np.clip(1.0 - margins, 0.0, 2.0).mean(axis=0)
    objective = float((0.5 * model.lam * (model.coef_**2).sum(axis=1) + losses).sum())
    assert model.objective_ == pytest.approx(objective, rel=1e-12)
    assert model.certificate_ == "local"
    assert model.gap_ <= 1e-3 * model.objective_


def test_weights_of_dask_arrays_are_those_of_arrays(data, arrays):
    weight = np.linspace(0.0, 2.0, 120)
    one = LinearRegressor(lam=0.01).fit(*arrays, sample_weight=da.from_array(weight, chunks=50))
    assert_same(one, LinearRegressor(lam=0.01).fit(*data, sample_weight=weight))


def test_predictions_of_dask_arrays_are_lazy_dask_arrays(data, arrays):
    model = LinearClassifier("logistic", lam=0.01).fit(*data)
    for name in ("predict", "decision_function", "predict_proba"):
        lazy, known = getattr(model, name)(arrays[0]), getattr(model, name)(data[0])
        assert isinstance(lazy, da.Array)
        assert lazy.shape == known.shape
        np.testing.assert_allclose(lazy.compute(), known)
    with pytest.raises(DataError, match="X has 3 features, and LinearClassifier expects 4"):
        model.predict(arrays[0][:, :3])


def test_a_regressor_of_dask_dataframes_knows_their_columns(data):
    frame = pd.DataFrame(data[0], columns=list("abcd"))
    target = pd.Series(data[0] @ [1.0, 2.0, 0.0, -1.0])
    frames = dd.from_pandas(frame, npartitions=2)
    model = LinearRegressor(lam=0.01).fit(frames, dd.from_pandas(target, npartitions=2))
    known = LinearRegressor(lam=0.01).fit(frame, target)
    assert_same(model, known)
    assert model.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_allclose(model.predict(frames).compute(), known.predict(frame))


def test_files_are_read_by_workers_and_give_the_same_models(data, files):
    X, y = data[0].copy(), data[1]
    X[:40, 3] = 0.0  # the first file does not have this feature
    pattern = str(files / "part-*.svm")
    assert_same(LinearClassifier("logistic", lam=0.01).fit(pattern), LinearClassifier("logistic", lam=0.01).fit(X, y))
    qid = np.arange(120) // 10
    settings = {"loss": "softmax", "lam": 0.1, "solver": "cutting_plane", "gap_rel": 0.01}
    assert_same(Ranker(**settings).fit(pattern), Ranker(**settings).fit(X, y, qid=qid))


def test_files_are_divided_so_that_every_row_is_read_once(data, files, monkeypatch):
    monkeypatch.setattr("undercut.estimators.cluster.partitions.SMALLEST", 1)
    sources = divided(matching([files / "part-0.svm"]), 3)
    assert [source.byte_range is None for source in sources] == [False] * 3
    assert sum(load_numbered(source).data.y.size for source in sources) == 40


def read_dying_once(source, marker):
    """The process that reads the second file first dies."""
    if "part-1" in source.path and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return placed(load_numbered(source), False, 4)


def test_a_worker_killed_while_it_reads_does_not_change_the_certificate(cluster, files, tmp_path):
    sources = divided(matching(str(files / "part-*.svm")), 1)
    read = partial(read_dying_once, marker=str(tmp_path / "killed"))
    rows = PartitionedData._measured(cluster.load(read, sources))
    assert (tmp_path / "killed").exists()
    assert_same(LinearRegressor(lam=0.01).fit(rows), LinearRegressor(lam=0.01).fit(str(files / "part-*.svm")))


def test_a_measure_of_all_labels_gathers_scores(data, here):
    settings = {"measure": "roc_auc", "lam": 0.1, "gap_rel": 0.01}
    two = here.with_parts(here.parts.made(lambda block: block | {"y": block["y"] > 0}), 4)
    model = MultivariateClassifier(**settings).fit(two)
    assert_same(model, MultivariateClassifier(**settings).fit(data[0], data[1] > 0))


def test_a_kernel_machine_keeps_its_gram_matrix_on_the_workers(data, arrays):
    X, y = data[0], (data[1] > 0).astype(int)
    settings = {"C": 0.1, "gap_rel": 0.05, "solver": "hedging", "store_gram": False}
    known = KernelClassifier(**settings).fit(X, y)
    settings["store_gram"] = True
    model = KernelClassifier(**settings).fit(arrays[0], (arrays[1] > 0).astype(int))
    assert model.objective_ == pytest.approx(known.objective_, abs=1e-9)
    np.testing.assert_allclose(model.decision_function(X), known.decision_function(X), atol=1e-7)
    with pytest.raises(ParameterError, match="`solver` must be 'auto' or 'hedging' for data in partitions"):
        KernelClassifier(solver="descent").fit(*arrays)


def test_an_online_model_visits_partitions(data, arrays):
    y = arrays[1] > 0
    for solver in ("pegasos", MeanOfPartitions(method=Pegasos(n_passes=3))):
        model = OnlineClassifier(lam=0.01, solver=solver, n_passes=3).fit(arrays[0], y)
        assert model.score(data[0], data[1] > 0) > 0.7
    with pytest.raises(DataError, match="MeanOfPartitions is for data in partitions; got arrays in memory"):
        OnlineClassifier(solver=MeanOfPartitions()).fit(*data)


def test_data_that_are_wrong_are_refused_by_the_worker_that_has_them(data, arrays, files):
    X = data[0].copy()
    X[70, 1] = np.nan
    with pytest.raises(DataError, match=r"partition 1 on worker .*X must be finite"):
        LinearClassifier().fit(da.from_array(X, chunks=(50, 4)), arrays[1])
    with pytest.raises(DataError, match="y must be a Dask array or series like X; got ndarray"):
        LinearClassifier().fit(arrays[0], data[1])
    with pytest.raises(DataError, match="every block of a Dask array must have all columns"):
        LinearClassifier().fit(arrays[0].rechunk((50, 2)), arrays[1])
    with pytest.raises(DataError, match="a pattern must match at least one file"):
        LinearClassifier().fit(str(files / "nothing-*.svm"))
    with pytest.raises(DataError, match="query 1 is in partition 0 and partition 1"):
        Ranker().fit(*arrays, qid=da.from_array(np.arange(120) // 40, chunks=50))
    with pytest.raises(DataError, match="files hold their own y: pass only the files"):
        LinearClassifier().fit(str(files / "part-*.svm"), data[1])


@pytest.mark.parametrize("kind", [LinearClassifierCV, NoveltyDetector, TransductiveClassifier])
def test_estimators_that_need_rows_in_memory_refuse_partitions(kind, arrays):
    X, y = arrays
    for given in (X, "part-*.svm"):
        with pytest.raises(DataError, match=rf"in memory for {kind.__name__}; got .* compute\(\)"):
            kind().fit(given, y)
