"""Partitions on real worker processes: the same numbers, few bytes, and no fault that changes a certificate."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from distributed.security import Security

from undercut import L2, Hinge, Logistic, Stop, minimize
from undercut.callbacks import Checkpoint, LiveProgress
from undercut.errors import ClusterError, DataError
from undercut.interrupts import graceful
from undercut.maps.cluster import Cluster, ClusterParts
from undercut.maps.parts import Delay, LocalParts, added
from undercut.maps.sharded import ShardedDesign
from undercut.risks import LinearRisk, MultivariateRisk, ShardedRisk
from undercut.risks.combined import free_questions, questions
from undercut.trace import Status

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.usefixtures("as_for_many_samples")]
REG, STOP = L2(0.03), Stop(gap_rel=1e-3)
ROLES = ("client", "scheduler", "worker")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((240, 12))
    return X, np.where(X[:, 0] + 0.7 * rng.standard_normal(240) > 0.2, 1.0, -1.0)


@pytest.fixture(scope="module")
def files(data, tmp_path_factory):
    """The rows in 8 files."""
    folder = tmp_path_factory.mktemp("parts")
    for k, rows in enumerate(np.array_split(np.arange(240), 8)):
        np.savez(folder / f"part-{k}.npz", X=data[0][rows], y=data[1][rows])
    return sorted(folder.iterdir())


def read(path):
    with np.load(path) as arrays:
        return dict(arrays)


def read_once_killed(path, marker):
    """The process that reads the file first dies."""
    if Path(path).name == "part-3.npz" and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return read(path)


def hinge(parts, fit_intercept=False):
    return ShardedRisk.of(parts, partial(LinearRisk, loss=Hinge(), fit_intercept=fit_intercept))


def agrees(result, expected):
    """The same steps to the same certificate."""
    assert result.n_steps == expected.n_steps
    assert abs(result.objective - expected.objective) <= 1e-10
    assert abs(result.lower_bound - expected.lower_bound) <= 1e-10


@pytest.fixture(scope="module")
def local(data, as_for_many_samples):
    return minimize(LinearRisk(*data, Hinge()), REG, stop=STOP)


def test_files_that_workers_read_take_the_local_steps_to_the_same_certificate(cluster, files, local):
    agrees(minimize(hinge(cluster.load(read, files)), REG, stop=STOP), local)


def test_a_free_intercept_and_hessians_work_over_arrays_in_memory(cluster, data):
    X, y = data
    parts = cluster.keep([{"X": X[rows], "y": y[rows]} for rows in (slice(0, 100), slice(100, None))])
    make = partial(LinearRisk, loss=Logistic(), fit_intercept=True)
    risk, single = ShardedRisk.of(parts, make), ShardedRisk.of(LocalParts([{"X": X, "y": y}]), make)
    result, expected = (minimize(each, REG, stop=STOP) for each in (risk, single))
    agrees(result, expected)
    assert result.trace[-1].solver == "Newton"
    assert np.isclose(risk.intercept(result.w), make(X, y).intercept(expected.w), atol=1e-8)


def test_parts_are_not_copied_to_other_workers(cluster, files):
    for _ in range(3):
        risk = hinge(cluster.load(read, files[:2]))
        minimize(risk, REG, stop=Stop(max_steps=4))
        assert {len(homes) for homes in cluster.client.who_has(risk.parts.futures).values()} == {1}


def rows_of(frame):
    return {"X": frame.drop(columns="y").to_numpy(), "y": frame["y"].to_numpy()}


def test_dask_arrays_and_dataframes_are_computed_on_the_workers(cluster, data):
    X, y = data
    w = np.linspace(-1.0, 1.0, 12)
    value = LinearRisk(X, y, Hinge()).value(w)
    arrays = da.from_array(X, chunks=(100, 12)), da.from_array(y, chunks=100)
    assert np.isclose(hinge(cluster.collected(lambda X, y: {"X": X, "y": y}, *arrays)).value(w), value)
    frame = dd.from_pandas(pd.DataFrame(X).assign(y=y), npartitions=3)
    assert np.isclose(hinge(cluster.collected(rows_of, frame)).value(w), value)
    with pytest.raises(DataError, match=r"use X.rechunk\(\{1: -1\}\)"):
        cluster.collected(rows_of, da.from_array(X, chunks=(100, 5)))
    with pytest.raises(DataError, match=r"same blocks of rows; got 3 and 6 blocks: use y.rechunk"):
        cluster.collected(rows_of, arrays[0], da.from_array(y, chunks=40))


def test_measures_gather_their_scores_from_the_workers(cluster, files, data):
    parts = cluster.load(read, files)
    design = ShardedDesign(parts)
    result = minimize(MultivariateRisk(design, design.gathered(parts, "y"), "f1"), L2(0.01))
    assert result.objective == pytest.approx(minimize(MultivariateRisk(*data, "f1"), L2(0.01)).objective, abs=1e-10)


def wide(path):
    """5000 features, most of them zero, so that w is larger than anything else that travels."""
    arrays = read(path)
    X = np.zeros((arrays["X"].shape[0], 5000))
    X[:, :12] = arrays["X"]
    return {"X": X, "y": arrays["y"]}


def transferred(client):
    """The bytes that workers have received from each other."""
    logs = client.run(lambda dask_worker: [entry["total"] for entry in dask_worker.transfer_incoming_log])
    return sum(sum(log) for log in logs.values())


def test_a_step_moves_w_and_a_subgradient_per_worker_and_the_trial_points(cluster, files):
    """The numbers that the counter states are those that Dask measures between the workers."""
    risk = hinge(cluster.load(wide, files))
    n_workers, one_way = cluster.n_workers, 8 * 5000
    before, peers = cluster.traffic.total, transferred(cluster.client)
    for _ in range(5):
        risk.cut(np.ones(5000))
    allowed = 1.2 * 5 * 2 * one_way * n_workers
    assert cluster.traffic.total - before <= allowed
    client_link = 5 * (1 + n_workers) * one_way  # w to one worker, and one sum of each worker to the client
    assert transferred(cluster.client) - peers + client_link <= allowed
    before, steps = cluster.traffic.total, []
    minimize(risk, L2(1e-2), callbacks=[lambda row: steps.append(cluster.traffic.total - before)])
    trial_points = 4 * 64 * 3 * 8 * n_workers + 16 * 240  # at most four rounds, and the kinks of the last
    per_step = (steps[-1] - steps[0]) / (len(steps) - 1)
    assert per_step <= 1.2 * 2 * one_way * n_workers + trial_points


def kill(parts):
    """The process of a worker that holds some of the parts."""
    client = parts.cluster.client
    worker = next(homes[0] for homes in client.who_has(parts.futures).values() if homes)
    os.kill(client.run(os.getpid, workers=[worker])[worker], signal.SIGKILL)


class Killer:
    """Kills a worker just before the n-th time that a question is asked."""

    def __init__(self, monkeypatch, question, after):
        monkeypatch.setattr("undercut.maps.cluster.clients.POLL", 0.5)
        self.after, self.deaths = after, 0
        asked = ClusterParts._round

        def watched(parts, function, shared, given, add):
            if function is question or any(one is question for one in shared):
                self.after -= 1
                if self.after == 0:
                    kill(parts)
                    self.deaths += 1
            return asked(parts, function, shared, given, add)

        monkeypatch.setattr(ClusterParts, "_round", watched)


def test_a_worker_that_dies_while_it_reads_is_replaced(cluster, files, local, tmp_path):
    marker = tmp_path / "killed"
    result = minimize(hinge(cluster.load(partial(read_once_killed, marker=marker), files)), REG, stop=STOP)
    assert marker.exists()
    agrees(result, local)


@pytest.mark.parametrize(
    ("question", "after"),
    [(questions.line_plane, 3), (free_questions.kink_sums, 3)],
    ids=["evaluation", "line search"],
)
def test_a_worker_killed_in_the_middle_of_a_fit_does_not_change_the_certificate(
    cluster, files, local, monkeypatch, question, after
):
    risk = hinge(cluster.load(read, files))
    killer = Killer(monkeypatch, question, after)
    agrees(minimize(risk, REG, stop=STOP), local)
    assert killer.deaths == 1


def test_answers_lost_with_all_workers_before_they_arrive_are_asked_again(cluster, files, monkeypatch):
    """Finished tasks whose results die with their workers, as if SIGTERM reached all processes."""
    monkeypatch.setattr("undercut.maps.cluster.clients.POLL", 0.5)
    risk = hinge(cluster.load(read, files[:2]))
    value, gather, client = risk.value(np.ones(12)), type(cluster.client)._gather, cluster.client
    deaths = []

    async def late(self, futures, *rest, **settings):
        if not deaths:
            for future in futures:
                await future._state.wait()
            for nanny in cluster._local.workers.values():
                deaths.append(nanny.pid)
                os.kill(nanny.pid, signal.SIGKILL)
        return await gather(self, futures, *rest, **settings)

    monkeypatch.setattr(type(client), "_gather", late)
    assert np.isclose(risk.value(np.ones(12)), value, rtol=1e-13)
    assert len(deaths) >= 1


def test_signals_of_a_terminal_do_not_reach_the_workers(cluster):
    """Ctrl-C is sent to the process group of the foreground: workers that get it die in the middle of a step."""
    assert os.getpgrp() not in cluster.client.run(os.getpgrp).values()


def test_workers_of_this_machine_keep_the_memory_of_their_evaluations(cluster):
    assert set(cluster.client.run(os.environ.get, "MALLOC_TRIM_THRESHOLD_").values()) <= {None}


def test_arrays_of_a_killed_worker_are_sent_again(cluster, data):
    X, y = data
    risk = hinge(cluster.keep([{"X": X[rows], "y": y[rows]} for rows in (slice(0, 100), slice(100, None))]))
    value = risk.value(np.ones(12))
    kill(risk.parts)
    assert np.isclose(risk.value(np.ones(12)), value, rtol=1e-13)


def spoiled(path):
    arrays = read(path)
    if Path(path).name == "part-5.npz":
        arrays["X"][0, 0] = np.nan
    return arrays


def narrow(path):
    arrays = read(path)
    return {"X": arrays["X"][:, :7], "y": arrays["y"]} if Path(path).name == "part-5.npz" else arrays


def test_bad_partitions_are_refused_with_file_and_worker(cluster, files):
    with pytest.raises(DataError, match=r"part-5\.npz on worker tcp://127\.0\.0\.1:\d+: X must be finite"):
        hinge(cluster.load(spoiled, files))
    with pytest.raises(DataError, match=r"part-5\.npz has 7, and .*part-0\.npz has 12"):
        hinge(cluster.load(narrow, files))
    with pytest.raises(DataError, match=r"absent\.npz on worker tcp://127\.0\.0\.1:\d+: .*No such file"):
        cluster.load(read, [files[0], files[0].parent / "absent.npz"])


def test_progress_tells_workers_bytes_and_dashboard(cluster, files, caplog):
    risk = hinge(cluster.load(read, files[:2]))
    with caplog.at_level("INFO", logger="undercut"), LiveProgress(verbose=2) as live:
        minimize(risk, REG, stop=Stop(max_steps=1), callbacks=[live])
    line = caplog.messages[-1]
    assert re.search(
        r"step 1 .*  \d+ passes  [12] workers  [\d.]+ [kM]?B moved  dashboard http://127\.0\.0\.1:\d+/status$", line
    )


def fails(risk):
    raise ZeroDivisionError("the user's mistake")


def test_an_error_of_the_users_function_says_where_it_happened(cluster, files):
    with pytest.raises(ClusterError, match=r"part-\d\.npz on worker .*: ZeroDivisionError: the user's mistake"):
        cluster.load(read, files).made(fails)


def test_a_file_that_vanishes_with_its_worker_keeps_the_best_solution(cluster, files, local, tmp_path):
    copies = [Path(tmp_path / path.name) for path in files]
    for path, copy in zip(files, copies, strict=True):
        copy.write_bytes(path.read_bytes())
    risk = hinge(cluster.load(read, copies))

    def lose(row):
        if row.step == 3:
            for copy in copies:
                copy.unlink()
            kill(risk.parts)

    saved = tmp_path / "run.ckpt"
    result = minimize(risk, REG, stop=STOP, callbacks=[lose, Checkpoint(saved)])
    assert result.status is Status.LOST
    assert result.detail.startswith("at step 4: ")
    assert re.search(r"part-\d\.npz on worker tcp://127\.0\.0\.1:\d+: .*No such file", result.detail)
    assert result.lower_bound <= local.objective <= result.objective
    resumed = minimize(hinge(cluster.load(read, files)), REG, stop=STOP, resume=saved)
    assert resumed.status is Status.CONVERGED
    assert abs(resumed.objective - local.objective) <= 2e-3 * local.objective


@contextmanager
def threads(n_threads):
    """A scheduler and a worker in this process."""
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=n_threads, processes=False, dashboard_address="127.0.0.1:0"
        ) as workers,
        Client(workers) as client,
    ):
        yield client


def test_a_scheduler_that_goes_away_keeps_the_best_solution(files, local):
    with threads(1) as client:
        risk = hinge(Cluster(client).load(read, files))

        def close(row):
            if row.step == 2:
                client.cluster.close()

        result = minimize(risk, REG, stop=STOP, callbacks=[close])
        assert result.status is Status.LOST
        assert re.search(r"the scheduler at inproc://.* does not answer", result.detail)
        assert result.lower_bound <= local.objective <= result.objective
        with pytest.raises(ClusterError, match="does not answer"):
            risk.value(result.w)


def waited(part, seconds):
    time.sleep(seconds)
    return part


def test_questions_one_by_one_notice_that_the_scheduler_is_gone(monkeypatch):
    """An answer that cannot arrive any more is not waited for."""
    monkeypatch.setattr("undercut.maps.cluster.clients.POLL", 0.2)
    with threads(2) as client:
        parts = Cluster(client).load(abs, [-1, 2])

        def close(k, answer):
            client.cluster.close()

        with pytest.raises(ClusterError, match="does not answer"):
            parts.streamed(waited, [0, 1, 0, 1], lambda k: (0.05 + k,), close, Delay(2, 2))


def test_no_more_questions_leave_after_ctrl_c():
    with threads(1) as client, graceful() as signals:
        parts, answers = Cluster(client).load(abs, [-1, 2]), []

        def interrupt(k, answer):
            answers.append(answer)
            os.kill(os.getpid(), signal.SIGINT)

        parts.streamed(waited, [0, 1, 0, 1], lambda k: (0.0,), interrupt, Delay(1, 0))
        assert answers == [1]
        assert signals.number == signal.SIGINT


def test_no_scheduler_at_an_address_is_an_error_that_names_it():
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "200ms"}),
        pytest.raises(ClusterError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"),
    ):
        Cluster("tcp://127.0.0.1:9")


def test_a_local_cluster_listens_on_the_loopback_interface_alone(cluster):
    """Addresses of sockets in the state LISTEN (0A) that belong to the client or to a worker."""
    for pid in (os.getpid(), *cluster.client.run(os.getpid).values()):
        links = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()]
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        bound = [row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in links]
        assert all(socket.inet_ntoa(bytes.fromhex(address)[::-1]) == "127.0.0.1" for address in bound)


def certified(folder, name):
    """TLS settings with a key and a certificate of their own, and their files."""
    key, certificate = str(folder / f"{name}.key"), str(folder / f"{name}.pem")
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=undercut"]
    subprocess.run([*request, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    own = {f"tls_{role}_{kind}": file for role in ROLES for kind, file in (("cert", certificate), ("key", key))}
    return Security(tls_ca_file=certificate, require_encryption=True, **own), key, certificate


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
def test_worker_processes_talk_tls_and_connections_without_their_certificate_are_refused(tmp_path, files, local):
    security, key, certificate = certified(tmp_path, "own")
    other, _, _ = certified(tmp_path, "other")
    with Cluster(1, security=security) as cluster:
        assert cluster.address.startswith("tls://127.0.0.1:")
        assert all(worker.startswith("tls://127.0.0.1:") for worker in cluster.workers())
        agrees(minimize(hinge(cluster.load(read, files)), REG, stop=STOP), local)
        settings = {"ca-file": certificate, "client.cert": certificate, "client.key": key}
        settings = {f"distributed.comm.tls.{name}": file for name, file in settings.items()}
        with dask.config.set(settings), Cluster(cluster.address) as again:  # as --scheduler
            assert again.workers() == cluster.workers()
        refused = f"no scheduler answers at .*{cluster.address.partition('//')[2]}"
        with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
            for address, given in ((cluster.address, None), (cluster.address.replace("tls", "tcp"), None),
                                   (cluster.address, other)):  # fmt: skip
                with pytest.raises(ClusterError, match=refused):
                    Cluster(address, security=given)


def products(part, w):
    return (part["X"] @ w).sum(), part["X"].T @ np.ones(len(part["X"]))


def test_sums_come_back_by_a_tree(files, data):
    """More groups of parts than the client takes answers: partial sums are added on the way."""
    with threads(6) as client:
        parts = Cluster(client).load(read, files)
        total, a = parts.total(products, np.ones(12), add=added)
        assert len(parts._placed()) == 6
    assert np.isclose(total, data[0].sum())
    assert np.allclose(a, data[0].sum(axis=0))
