"""Rows that stay on disk: the same products and fits as in memory, a cache that is never stale, bounded memory."""

from __future__ import annotations

import bz2
import gzip
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from undercut import (
    L1,
    L2,
    Checkpoint,
    KernelClassifier,
    LinearClassifier,
    LinearClassifierCV,
    LinearRegressor,
    MultivariateClassifier,
    NoveltyDetector,
    Ranker,
    Stop,
    minimize,
)
from undercut.errors import CapabilityError, DataError, ParameterError
from undercut.io import svmlight_reader
from undercut.io.rows import row_cache_writer
from undercut.losses import CrammerSinger, Softmax, named
from undercut.maps import streamed
from undercut.maps.design import as_design
from undercut.maps.streamed import memory_size, stream_svmlight
from undercut.risks import LinearRisk, MulticlassRisk
from undercut.solvers import SOLVERS, InteriorPoint, LineSearchBundle, Race, Relay
from undercut.solvers.auto import resolve

ROOM = "64GB"
BATCH = (
    "classic_bundle", "convex_concave", "cutting_plane", "lbfgs", "level_bundle", "line_search_bundle", "newton",
    "nonconvex_bundle", "proximal_bundle", "subgradient", "truncated_newton",
)  # fmt: skip
RNG = np.random.default_rng(7)
X = RNG.normal(size=(90, 8)) * (RNG.random((90, 8)) < 0.4)
LABELS = np.where(X @ RNG.normal(size=8) + 0.3 * RNG.normal(size=90) > 0.0, 1.0, -1.0)
FORMS = {
    "CSR float64": X,
    "CSR float32": np.round(8 * X) / 8,
    "dense float64": X + 1.0,
    "dense float32": np.round(X) + 1,
}


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Write rows as an SVMlight file and open them in blocks of a few rows, given back to the system after use."""
    monkeypatch.setattr(streamed, "MOST_BLOCK", 400)

    def opened(X, y=LABELS, name="data.svm", qid=None, **options):
        dump_svmlight_file(X, y, str(tmp_path / name), zero_based=False, query_id=qid)
        data = stream_svmlight(tmp_path / name, memory=ROOM, **options)
        data.X._stays = False
        return data

    return opened


# Products


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("width", [5, 8, 11])
def test_products_are_those_of_the_rows_in_memory(opened, form, width):
    rows = FORMS[form]
    design = opened(rows).X
    assert (design.is_dense, str(design.dtype)) == (form.startswith("dense"), form.split()[1])
    assert len(design._blocks) > 3
    full = as_design(np.pad(rows, [(0, 0), (0, 3)])[:, :width])
    design = design.resized(width)
    rng = np.random.default_rng(0)
    w, g, W, G = rng.normal(size=width), rng.random(90), rng.normal(size=(2, width)), rng.normal(size=(90, 2))
    g[:30] = 0.0
    for product, arguments in [
        ("matvec", [w]), ("rmatvec", [g]), ("matmat", [W]), ("rmatmat", [G]), ("weighted_gram", [g]),
        ("gram_product", [g, w]), ("squared_rmatvec", [g]),
    ]:  # fmt: skip
        np.testing.assert_allclose(
            getattr(design, product)(*arguments), getattr(full, product)(*arguments), rtol=1e-12, atol=1e-12
        )
    np.testing.assert_allclose(pickle.loads(pickle.dumps(design)) @ sp.csr_matrix(W).T, full.matmat(W), atol=1e-12)
    blocks = [(rows, np.asarray(block.todense() if sp.issparse(block) else block)) for rows, block in design.blocks()]
    assert np.vstack([block for _, block in blocks]).shape == (90, width)


# Fits


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared_hinge", "absolute", "huber", "squared", "ramp"])
def test_a_fit_is_the_one_of_rows_in_memory(opened, loss, fit_intercept):
    design = opened(X).X
    stop = Stop(gap_rel=1e-6)
    solver = resolve("auto", LinearRisk(design, LABELS, named(loss), None, fit_intercept), L2(0.01), 1e-6)
    results = [
        minimize(LinearRisk(form, LABELS, named(loss), None, fit_intercept), L2(0.01), solver, stop=stop)
        for form in (design, X)
    ]
    assert results[0].status is results[1].status
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-10)
    for early, same in zip(*(result.trace[:10] for result in results), strict=True):
        assert early.lower_bound == pytest.approx(same.lower_bound, rel=1e-10)
    if results[0].certificate == "global":  # rounding may lead to another model of a risk that is not convex
        assert results[0].lower_bound == pytest.approx(results[1].lower_bound, rel=1e-10)


@pytest.mark.parametrize("loss", [CrammerSinger(), Softmax()])
def test_several_classes_are_fitted_as_in_memory(opened, loss):
    design, y = opened(X).X, (np.arange(90) + (LABELS > 0)) % 3
    results = [minimize(MulticlassRisk(form, y, loss, None, True), L2(0.05)) for form in (design, X)]
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-10)


@pytest.mark.parametrize("name", BATCH)
def test_every_batch_solver_works_as_in_memory(opened, name):
    risks = [LinearRisk(form, LABELS, named("logistic")) for form in (opened(X).X, X)]
    solver = SOLVERS[name]()
    gap = 1e-9 if name == "truncated_newton" else 1e-4  # on disk it has no inverse from a sample of rows: other steps
    results = [minimize(risk, L2(0.1), solver, stop=Stop(gap_rel=gap, max_steps=200)) for risk in risks]
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-8)


def test_a_resumed_run_is_the_uninterrupted_one(opened, tmp_path):
    risks = [LinearRisk(opened(X).X, LABELS, named("hinge"), None, True) for _ in range(3)]
    whole = minimize(risks[0], L2(1e-4), stop=Stop(gap_rel=1e-6))
    minimize(risks[1], L2(1e-4), stop=Stop(gap_rel=1e-6, max_steps=4), callbacks=[Checkpoint(tmp_path / "run")])
    resumed = minimize(risks[2], L2(1e-4), stop=Stop(gap_rel=1e-6), resume=tmp_path / "run")
    np.testing.assert_array_equal(resumed.w, whole.w)
    assert resumed.n_steps == whole.n_steps


@pytest.mark.parametrize("name", ["dual_coordinate", "pegasos"])
def test_a_solver_that_visits_rows_in_any_order_refuses_rows_on_disk(opened, name):
    SOLVERS[name]().check(LinearRisk(X, LABELS, named("hinge")), L2(0.1))
    with pytest.raises(CapabilityError):
        SOLVERS[name]().check(LinearRisk(opened(X).X, LABELS, named("hinge")), L2(0.1))


@pytest.mark.parametrize("reg", [L2(1e-2), L2(1e-8), L1(1e-2)])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
def test_auto_takes_no_solver_that_copies_x(opened, loss, reg):
    design = opened(X).X
    chosen = resolve("auto", LinearRisk(design, LABELS, named(loss)), reg)
    solvers = chosen.candidates if isinstance(chosen, Race | Relay) else (chosen,)
    assert not {type(solver).__name__ for solver in solvers} & {"DualCoordinate", "WorkingSet", "ColumnGeneration"}


def test_auto_keeps_no_more_planes_than_fit(opened):
    design = opened(X).X
    design.plane_bytes = 30 * 3 * 8 * 8
    risk = LinearRisk(design, LABELS, named("hinge"))
    limited = LineSearchBundle(max_planes=30)
    assert resolve("auto", risk, L2(1e-2)).candidates == (limited, InteriorPoint(), limited)
    many = LinearRisk(np.tile(X, (12, 1)), np.tile(LABELS, 12), named("hinge"))
    assert LineSearchBundle() in resolve("auto", many, L2(1e-2)).candidates


@pytest.mark.parametrize(
    "model",
    [
        LinearClassifier(lam=0.01), LinearClassifier("logistic", penalty="l1", lam=0.01), LinearRegressor(lam=0.1),
        MultivariateClassifier("f1", lam=0.01), NoveltyDetector(0.5), Ranker(lam=0.1),
    ],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_linear_estimators_fit_and_predict_as_in_memory(opened, model):
    qid = np.repeat(np.arange(9), 10)
    data = opened(X + 1.0, qid=qid)
    options = {"qid": data.qid} if isinstance(model, Ranker) else {}
    model.set_params(gap_rel=1e-9)
    coefs = [model.fit(form, LABELS, **options).coef_ for form in (X + 1.0, data.X)]
    np.testing.assert_allclose(coefs[0], coefs[1], rtol=1e-3, atol=1e-3)
    scores = getattr(model, "decision_function", model.predict)
    np.testing.assert_allclose(scores(data.X), scores(X + 1.0), atol=1e-8)


@pytest.mark.parametrize("model", [LinearClassifierCV(), KernelClassifier()], ids=lambda model: type(model).__name__)
def test_estimators_that_need_rows_in_memory_say_so(opened, model):
    with pytest.raises(DataError, match=f"X must be in memory for {type(model).__name__}; got rows on disk"):
        model.fit(opened(X).X, LABELS)


def test_a_design_of_other_rows_or_features_is_refused(opened):
    data = opened(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        LinearClassifier().fit(data.X, LABELS[:5])
    with pytest.raises(ValueError, match="features"):
        LinearClassifier().fit(X[:, :5], LABELS).predict(data.X)


# The cache


def test_the_cache_is_made_once(opened, tmp_path, monkeypatch):
    opened(X)
    monkeypatch.setattr(row_cache_writer, "iter_rows", None)  # reading the text again would fail
    assert stream_svmlight(tmp_path / "data.svm", memory=ROOM).X.shape == (90, 8)


def test_a_changed_file_is_read_again_even_if_size_and_time_are_the_same(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 1:1\n")
    about = path.stat()
    assert stream_svmlight(path, memory=ROOM).y.tolist() == [1.0]
    path.write_text("2 1:1\n")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert stream_svmlight(path, memory=ROOM).y.tolist() == [2.0]
    assert len(list(tmp_path.iterdir())) == 2  # the file and one cache


@pytest.mark.parametrize("name", ["values", "meta.json"])
def test_a_damaged_cache_is_made_again(opened, tmp_path, name):
    opened(X)
    file = next(tmp_path.glob(f"*.rows/{name}"))
    file.write_bytes(file.read_bytes()[:-5])
    np.testing.assert_allclose(stream_svmlight(tmp_path / "data.svm", memory=ROOM).X @ np.eye(8), X, rtol=1e-15)


def test_an_error_in_the_file_leaves_no_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(svmlight_reader, "BLOCK_BYTES", 8)
    path = tmp_path / "data.svm"
    path.write_text("1 1:1\n" * 20 + "bad\n")
    with pytest.raises(DataError, match=r"data\.svm:21: label must be a number"):
        stream_svmlight(path, memory=ROOM)
    assert [file.name for file in tmp_path.iterdir()] == ["data.svm"]


def test_two_processes_may_write_the_cache_at_the_same_time(opened, tmp_path, monkeypatch):
    opened(X)
    finished = next(tmp_path.glob("*.rows"))
    aside = tmp_path / "aside"
    finished.rename(aside)
    write_meta = row_cache_writer.write_meta

    def slow(*arguments):
        write_meta(*arguments)
        shutil.copytree(aside, finished, dirs_exist_ok=True)  # the other process is first

    monkeypatch.setattr(row_cache_writer, "write_meta", slow)
    assert stream_svmlight(tmp_path / "data.svm", memory=ROOM).X.shape == (90, 8)
    assert not list(tmp_path.glob(".data*"))


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_compressed_files_with_index_zero_and_a_named_folder(tmp_path, suffix, compress):
    path, folder = tmp_path / f"data.svm{suffix}", tmp_path / "deep" / "caches"
    path.write_bytes(compress(b"1 1:0.5\n-1 0:0.1 2:3\n"))
    design = stream_svmlight(path, memory=ROOM, cache=folder, n_features=4).X
    np.testing.assert_array_equal(design @ np.eye(4), [[0, 0.5, 0, 0], [0.1, 0, 3, 0]])
    assert len(list(folder.iterdir())) == 1
    with pytest.raises(DataError, match="features must be among the first 2"):
        stream_svmlight(path, memory=ROOM, cache=folder, n_features=2)


def test_rows_without_features_are_rows(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1\n-1\n1 2:0.5\n1\n")
    design = stream_svmlight(path, memory=ROOM).X
    np.testing.assert_array_equal(design @ np.eye(2), [[0, 0], [0, 0], [0, 0.5], [0, 0]])
    path.write_text("1\n-1\n")
    assert stream_svmlight(path, memory=ROOM).X.shape == (2, 0)
    path.write_text("# nothing\n")
    with pytest.raises(DataError, match="holds no sample"):
        stream_svmlight(path, memory=ROOM)


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 1:1\n")
    with pytest.raises(DataError, match=r"cannot be written to .* name another folder by `cache`"):
        stream_svmlight(path, memory=ROOM, cache=path)


# Memory


@pytest.mark.parametrize("memory", ["much", "2XB", "-1", 0])
def test_a_size_that_is_none_is_refused(memory):
    with pytest.raises(ParameterError, match="`memory` must be"):
        memory_size(memory)


def test_too_little_memory_for_the_vectors_is_refused_with_the_amount(tmp_path, monkeypatch):
    monkeypatch.setattr(streamed, "resident_bytes", lambda: 10**6)
    path = tmp_path / "data.svm"
    path.write_text("1 1:1\n-1 1:2\n" * 20_000)
    data = stream_svmlight(path, memory="8MB")
    with pytest.raises(DataError, match=r"`memory` must be at least 12MB for 40000 rows and 1 features"):
        LinearClassifier().fit(data.X, data.y)
    data = stream_svmlight(path, memory="12MB")
    assert LinearClassifier(lam=0.1).fit(data.X, data.y).classes_.tolist() == [-1.0, 1.0]
    with pytest.raises(DataError, match="`memory` must be at least"):
        LinearClassifier().fit(data.X, np.arange(data.y.size) % 5)


MEASURE = """
import sys
from undercut import L2, Hinge, LinearRisk, Stop, minimize
from undercut.maps.streamed import resident_bytes, stream_svmlight

def fit(file, memory):
    X, y, _ = stream_svmlight(file, memory=memory)
    return X, minimize(LinearRisk(X, y, Hinge(), None, True), L2(1e-3), stop=Stop(gap_rel=1e-2))

fit(sys.argv[1], 1e12)  # all is imported and compiled by now
before = resident_bytes()
X, result = fit(sys.argv[2], int(1.3 * before) + 10**7)
peak = 1024 * int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])  # ru_maxrss includes the parent
print(peak, before, X.memory, X._cache.n_bytes, int(result.gap <= 1e-2 * result.objective))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell the resident memory")
def test_the_resident_memory_stays_within_the_bound(tmp_path):
    rng = np.random.default_rng(0)
    small, path = tmp_path / "small.svm", tmp_path / "data.svm"
    lines = [
        f"{1 - 2 * (at % 2)} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(rng.normal(0.1 * (at % 2), 1, 200)))
        for at in range(100)
    ]
    small.write_text("\n".join(lines))
    path.write_text(("\n".join(lines) + "\n") * 480)
    command = [sys.executable, "-c", MEASURE, str(small), str(path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, before, memory, data, converged = map(int, printed.stdout.split())
    assert converged
    assert before + data > memory  # in memory the data would not have fit
    assert peak <= memory
