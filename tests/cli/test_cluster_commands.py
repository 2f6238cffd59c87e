"""``--scheduler``: files that workers read, to train on, to predict and to evaluate."""

from __future__ import annotations

import bz2
import json
import sys

import dask
import numpy as np
import pytest

from undercut import load_model

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.usefixtures("as_for_many_samples")]


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


def compared(undercut, folder, cluster, kinds, *options):
    """The reports of train and evaluate, and the predictions, here and on workers."""
    there = ("--scheduler", cluster.client.scheduler.address)
    found = []
    for name, file, where in (("here", kinds[0], ()), ("there", kinds[1], there)):
        code, out, err = undercut("train", file, "-o", folder / name, *options, "--json", *where)
        assert code == 0, err
        _, scores, _ = undercut("evaluate", folder / name, file, "--json", *where)
        code, predictions, err = undercut("predict", folder / name, file, *where)
        assert code == 0, err
        found.append((json.loads(out), json.loads(scores), predictions))
    return found


def assert_same(here, there):
    assert there[0]["objective"] == pytest.approx(here[0]["objective"], abs=1e-9)
    for key, value in here[1].items():
        if isinstance(value, float) and not key.startswith("training"):
            assert there[1][key] == pytest.approx(value, abs=1e-7)
    assert there[2] == here[2]


def test_a_kernel_machine_is_trained_and_evaluated_there(undercut, cluster, folder):
    there = ("--scheduler", cluster.client.scheduler.address)
    options = ("--kernel", "rbf", "--C", "0.1", "--gap", "0.02", "--json")
    model, files = folder / "kernel", folder / "part-*"
    code, out, err = undercut("train", files, "-o", model, *options, *there)
    assert code == 0, err
    here = json.loads(undercut("train", files, "-o", folder / "here", *options)[1])
    assert json.loads(out)["lower_bound"] <= here["objective"]
    assert here["lower_bound"] <= json.loads(out)["objective"]
    scores = [json.loads(undercut("evaluate", model, files, "--json", *where)[1]) for where in ((), there)]
    assert scores[1] == pytest.approx(scores[0], abs=1e-9)
    assert undercut("predict", model, files, *there)[1] == undercut("predict", model, files)[1]


@pytest.mark.parametrize("partitions", ["along", "mean"])
def test_an_online_model_passes_over_partitions(undercut, cluster, folder, partitions):
    there = ("--scheduler", cluster.client.scheduler.address)
    command = ("train", folder / "part-*", "--online", "--lambda", "1e-2", "--passes", "4", "--json")
    code, out, err = undercut(*command, "-o", folder / "m", "--partitions", partitions, *there)
    assert code == 0, err
    report = json.loads(out)
    assert (report["lower_bound"], report["status"], report["steps"]) == (None, "max_passes", 4)
    _, scores, _ = undercut("evaluate", folder / "m", folder / "part-*", "--json", *there)
    assert json.loads(scores)["accuracy"] > 0.75
    code, _, err = undercut(*command, "-o", folder / "m", "--partitions", partitions)
    assert code == 2
    assert "--partitions needs --workers or --scheduler" in err


def test_sequences_are_labelled_there_as_here(undercut, cluster, tmp_path):
    rng = np.random.default_rng(0)
    for k in range(3):
        words = [f"{rng.choice(['dog', 'runs', f'w{k}'])} X {rng.choice(['B-N', 'I-N', 'O'])}\n" for _ in range(30)]
        sentences = ["".join(words[at : at + 4]) for at in range(0, 30, 4)]
        (tmp_path / f"part-{k}.txt").write_text("\n".join(sentences))
    parts = [(tmp_path / f"part-{k}.txt").read_text() for k in range(3)]
    (tmp_path / "all.conll").write_text("\n".join(parts))
    options = ("--task", "sequence", "--loss", "crf", "--C", "1", "--min-count", "2")
    files = tmp_path / "all.conll", tmp_path / "part-*.txt"
    here, there = compared(undercut, tmp_path, cluster, files, *options)
    assert_same(here, there)
    assert "chunk_f1" in there[1]
    _, one, _ = undercut("predict", tmp_path / "there", files[0], "--scores")
    _, other, _ = undercut(
        "predict", tmp_path / "there", files[1], "--scores", "--scheduler", cluster.client.scheduler.address
    )
    assert other == one


def test_rna_is_folded_there_as_here(undercut, cluster, tmp_path):
    records = [">a\nGGGAAAUCCC\n(((....)))\n", ">b\nCCGAAACGG\n(((...)))\n", ">c\nAAAAAA\n......\n"]
    for k, text in enumerate(records):
        (tmp_path / f"part-{k}.fa").write_text(text)
    (tmp_path / "all.fasta").write_text("".join(records))
    files = tmp_path / "all.fasta", tmp_path / "part-*.fa"
    assert_same(*compared(undercut, tmp_path, cluster, files, "--task", "rna", "--lambda", "0.01"))


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (["1 1:2 2:1\n-1 2:1\n" * 5, "1 0:1 2:3\n-1 0:2\n" * 5], ("--loss", "logistic")),
        (["1 qid:1 1:1 2:0.5\n2 qid:1 2:1\n", "2 qid:3 0:1 2:1\n1 qid:4 1:1\n"], ("--task", "sequence")),
    ],
    ids=["rows", "sequences"],
)
def test_files_of_which_one_counts_features_from_zero_are_read_alike_by_all_workers(
    undercut, cluster, tmp_path, rows, options
):
    """Index 0 occurs in one file only, and the other one must not be shifted against it."""
    for k, text in enumerate(rows):
        (tmp_path / f"part-{k}.svm").write_text(text)
    (tmp_path / "all.rows").write_text("".join(rows))
    there = ("--scheduler", cluster.client.scheduler.address)
    for name, file, where in (("one", "all.rows", ()), ("other", "part-*.svm", there)):
        command = ("train", tmp_path / file, "-o", tmp_path / name, "--lambda", "0.1", *options)
        assert undercut(*command, *where)[0] == 0
    one, other = load_model(tmp_path / "one"), load_model(tmp_path / "other")
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-8)
    code, _, err = undercut(
        "train", tmp_path / "part-*.svm", "-o", tmp_path / "m", "--n-features", "2", *options, *there
    )
    assert code == 1
    assert "svm:1: feature index must be at most 1" in err


def test_what_a_cluster_cannot_do_is_said_before_it_begins(undercut, folder, monkeypatch):
    file, address = folder / "part-*", "tcp://127.0.0.1:1"
    code, _, err = undercut("train", folder / "none-*", "-o", folder / "m", "--scheduler", address)
    assert code == 1
    assert "a pattern must match at least one file" in err
    code, _, err = undercut("train", file, "-o", folder / "m", "--scheduler", address, "--memory", "1GB")
    assert code == 2
    assert "exclude each other" in err
    code, _, err = undercut("train", file, "-o", folder / "m", "--scheduler", address, "--nu", "0.1")
    assert code == 2
    assert "--scheduler is not for a NoveltyDetector" in err
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        code, _, err = undercut("train", file, "-o", folder / "m", "--scheduler", address)
    assert code == 1
    assert f"no scheduler answers at {address}" in err
    for name in ("undercut.maps.cluster", "undercut.maps.cluster.clients", "undercut.maps.cluster.parts"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dask", None)
    code, _, err = undercut("train", file, "-o", folder / "m", "--workers", "1")
    assert code == 1
    assert "pip install 'undercut[dask]'" in err
