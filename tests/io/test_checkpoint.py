"""Checkpoint files: whole or not there, checked, and never more than data."""

from __future__ import annotations

import errno
import os
import stat

import numpy as np
import pytest

import undercut
from undercut import L2, FunctionRisk, Hinge, LinearRisk, Progress, Stop, minimize
from undercut.callbacks import Checkpoint
from undercut.contracts import QuadraticRegularizer, Risk, Solver
from undercut.errors import CheckpointError, ParameterError
from undercut.io import checkpoint
from undercut.io.checkpoint import Content, check_writable, read_checkpoint, write_checkpoint
from undercut.solvers.saving.checkpoint import load_run

FEW = Stop(gap_rel=0.0, max_steps=5)


def problem(seed=0):
    rng = np.random.default_rng(seed)
    return LinearRisk(rng.standard_normal((30, 4)), rng.choice([-1.0, 1.0], 30), Hinge()), L2(1e-3)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run.ck"
    minimize(*problem(), stop=FEW, callbacks=[Checkpoint(path)])
    return path


def test_arrays_of_every_kind_survive(tmp_path):
    arrays = {
        "bits": np.array([True, False]),
        "counts": np.arange(3, dtype=np.int32),
        "nothing": np.empty((0, 4)),
        "one": np.array(3.0),
        "half": np.ones(2, np.float32),
    }
    write_checkpoint(tmp_path / "run.ck", Content({"x": [1, None, "é"]}, arrays))
    content = read_checkpoint(tmp_path / "run.ck")
    assert content.header == {"x": [1, None, "é"]}
    for name, array in arrays.items():
        np.testing.assert_array_equal(content.arrays[name], array)
        assert content.arrays[name].dtype == array.dtype


def test_thousands_of_damaged_files_are_refused(path):
    """Bits flipped in the header and in the arrays, and files cut short."""
    good = path.read_bytes()
    chance = np.random.default_rng(0)
    for number in range(1500):
        damaged = bytearray(good)
        if number % 3 == 0:
            del damaged[int(chance.integers(len(good))) :]
        else:
            damaged[int(chance.integers(len(good)))] ^= 1 << int(chance.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"run\.ck"):
            load_run(path)


def test_a_checkpoint_of_another_version_is_refused_with_both(path, monkeypatch):
    monkeypatch.setattr(undercut, "__version__", "99.0")
    with pytest.raises(CheckpointError, match=r"written by undercut .*, and this is 99\.0"):
        minimize(*problem(), resume=path)


def test_a_checkpoint_of_another_problem_is_refused_with_what_differs(path):
    risk, reg = problem()
    for other, message in [
        ((problem(1)[0], reg), "the data differ in `y`"),
        ((risk, L2(2e-3)), r"`lam` was 0\.001 and is 0\.002"),
        ((risk, reg, "cutting_plane"), "`solver` was Relay and is CuttingPlane"),
        ((FunctionRisk(lambda w: (0.0, w), n_params=4), reg), "`risk` was LinearRisk and is FunctionRisk"),
    ]:
        with pytest.raises(CheckpointError, match=message):
            minimize(*other, resume=path)


def test_the_old_file_survives_a_full_disk(path, monkeypatch):
    before = path.read_bytes()
    write = os.fsync

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot write the checkpoint to .*: No space left"):
        minimize(*problem(), stop=Stop(max_steps=9), callbacks=[Checkpoint(path)], resume=path)
    monkeypatch.setattr(os, "fsync", write)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["run.ck"]


def test_a_disk_that_fills_up_later_costs_the_checkpoint_but_not_the_run(tmp_path, monkeypatch):
    path, writes, write = tmp_path / "run.ck", [], os.replace

    def full(*given):
        writes.append(given)
        if len(writes) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(*given)

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left on device; the last checkpoint is as it was"):
        result = minimize(*problem(), stop=FEW, callbacks=[Checkpoint(path, every=0.0)])
    assert result.n_steps == 5
    assert load_run(path).header["step"] == 1


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a folder that cannot be written to")
def test_a_folder_without_permission_is_refused_before_the_first_step(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(PermissionError, match="cannot write the checkpoint"):
        minimize(*problem(), callbacks=[Checkpoint(tmp_path / "run.ck")])


def test_a_path_that_cannot_be_written_is_refused_before_the_first_step(tmp_path):
    steps = []
    for place in (tmp_path / "none" / "run.ck", tmp_path):
        with pytest.raises((OSError, CheckpointError), match=str(tmp_path)):
            minimize(*problem(), callbacks=[Checkpoint(place), steps.append])
    with pytest.raises(OSError, match="cannot write the model"):
        check_writable(tmp_path, "model")
    assert steps == []


def test_an_interval_below_zero_is_refused():
    with pytest.raises(ParameterError, match="`every`"):
        Checkpoint("run.ck", every=-1.0)


class Holder:
    """What a state may hold."""

    def __init__(self, content):
        self.content = content
        self.solution = np.zeros(2)
        self.progress = Progress(0, 1.0)


class Strange(Solver[Holder, Risk, QuadraticRegularizer]):
    """A solver whose state cannot be saved."""

    content = object()

    def certificate(self, risk):
        return "none"

    def init(self, risk, reg, w0):
        return Holder(self.content)

    def step(self, risk, reg, state):
        raise AssertionError("the run must end before the first step")


def test_a_state_that_cannot_be_saved_ends_the_run_before_its_first_step(tmp_path):
    risk = FunctionRisk(lambda w: (float(w @ w), 2 * w), n_params=2)
    with pytest.raises(CheckpointError, match="a object cannot be saved in a checkpoint"):
        minimize(risk, L2(1.0), Strange(), callbacks=[Checkpoint(tmp_path / "run.ck")])


def test_a_file_names_no_class_of_another_library(path):
    content = read_checkpoint(path)
    state = content.header["runs"][""]["state"]
    state["object"] = "subprocess:Popen"
    write_checkpoint(path, content)
    with pytest.raises(CheckpointError, match="subprocess:Popen, which is no class of this problem"):
        minimize(*problem(), resume=path)


def test_two_processes_may_check_the_same_path_at_once(tmp_path, monkeypatch):
    def removed_by_the_other(path, content):
        path.write_bytes(content)
        path.unlink()

    monkeypatch.setattr(checkpoint, "_write_through", removed_by_the_other)
    check_writable(tmp_path / "model.uc", "results")
