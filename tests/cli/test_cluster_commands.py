"""``--scheduler``: files that workers read, to train on, to predict and to evaluate."""

from __future__ import annotations

import bz2
import json
import sys

import dask
import numpy as np
import pytest

pytestmark = pytest.mark.xdist_group("cluster")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same rows in one file, and in a plain and a compressed one."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((80, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(80) > 0.0, 1, -1)
    lines = [
        f"{label} " + " ".join(f"{at + 1}:{value:.6g}" for at, value in enumerate(row)) + "\n"
        for label, row in zip(y, X, strict=True)
    ]
    folder = tmp_path_factory.mktemp("rows")
    (folder / "all.svm").write_text("".join(lines))
    (folder / "part-0.svm").write_text("".join(lines[:50]))
    (folder / "part-1.svm.bz2").write_bytes(bz2.compress("".join(lines[50:]).encode()))
    return folder


def test_workers_train_predict_and_evaluate_like_this_process(undercut, cluster, folder):
    there = ("--scheduler", cluster.client.scheduler.address)
    options = ("--loss", "logistic", "--C", "1", "--json")
    reports = {}
    for name, file, where in (("here", folder / "all.svm", ()), ("there", folder / "part-*", there)):
        code, out, err = undercut("train", file, "-o", folder / name, *options, *where)
        assert code == 0, err
        _, scores, _ = undercut("evaluate", folder / name, file, "--json", *where)
        _, labels, _ = undercut("predict", folder / name, file, *where)
        reports[name] = json.loads(out), json.loads(scores), labels
    here, other = reports["here"], reports["there"]
    assert other[0]["objective"] == pytest.approx(here[0]["objective"], abs=1e-9)
    assert other[1]["accuracy"] == here[1]["accuracy"]
    assert other[1]["test_risk"] == pytest.approx(here[1]["test_risk"], abs=1e-8)
    assert other[2] == here[2]


def test_what_a_cluster_cannot_do_is_said_before_it_begins(undercut, folder, monkeypatch):
    file, address = folder / "part-*", "tcp://127.0.0.1:1"
    code, _, err = undercut("train", folder / "none-*", "-o", folder / "m", "--scheduler", address)
    assert code == 1
    assert "a pattern must match at least one file" in err
    code, _, err = undercut("train", file, "-o", folder / "m", "--scheduler", address, "--memory", "1GB")
    assert code == 2
    assert "exclude each other" in err
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        code, _, err = undercut("train", file, "-o", folder / "m", "--scheduler", address)
    assert code == 1
    assert f"no scheduler answers at {address}" in err
    for name in ("undercut.maps.cluster", "undercut.maps.cluster.clients"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dask", None)
    code, _, err = undercut("train", file, "-o", folder / "m", "--workers", "1")
    assert code == 1
    assert "pip install 'undercut[dask]'" in err
