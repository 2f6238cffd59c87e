"""Traces and results: what is written is read again, and what is damaged is named by file and line."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from undercut import L2, FunctionRisk, Progress, Result, Status, minimize
from undercut.errors import DataError
from undercut.trace import read_trace, write_trace

finite = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**62)
rows = st.builds(
    Progress,
    step=counts,
    objective=finite | st.just(math.inf),
    lower_bound=finite | st.just(-math.inf),
    n_evaluations=counts,
    n_cuts=counts,
    n_passes=st.floats(0.0, 1e9),
    n_descent=counts,
    n_null=counts,
    n_null2=counts,
    seconds=st.floats(0.0, 1e9),
    certificate=st.sampled_from(["global", "local", "none"]),
)


@given(trace=st.lists(rows, max_size=5))
def test_what_is_written_is_read_again(tmp_path_factory, trace):
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    write_trace(path, trace)
    assert read_trace(path) == trace


def test_the_trace_of_a_run_is_read_again(tmp_path):
    risk = FunctionRisk(lambda w: (float(np.abs(w - 1.0).sum()), np.sign(w - 1.0)), n_params=3)
    result = minimize(risk, L2(0.1))
    write_trace(tmp_path / "trace", iter(result.trace))
    assert read_trace(str(tmp_path / "trace")) == result.trace


def test_every_line_is_json_with_the_gap_and_null_for_what_is_unknown(tmp_path):
    path = tmp_path / "trace"
    write_trace(path, [Progress(step=0, objective=2.0), Progress(step=1, objective=2.0, lower_bound=0.5)])
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first["lower_bound"] is None
    assert first["gap"] is None
    assert second["gap"] == 1.5
    assert {"step", "objective", "n_evaluations", "n_cuts", "n_passes", "seconds"} <= set(first)
    assert "Infinity" not in path.read_text()


def test_an_empty_file_is_an_empty_trace(tmp_path):
    path = tmp_path / "trace"
    write_trace(path, [])
    assert read_trace(path) == []


GOOD = json.dumps({"step": 0, "objective": 1.0, "lower_bound": None, "n_evaluations": 1, "n_cuts": 0, "n_passes": 0.0,
                   "n_descent": 0, "n_null": 0, "n_null2": 0, "seconds": 0.0, "certificate": "global",
                   "gap": None})  # fmt: skip


@pytest.mark.parametrize(
    "bad",
    [
        "not json",
        "",
        "[1, 2]",
        "3",
        '{"step": 1}',
        GOOD.replace('"step": 0', '"step": null'),
        GOOD.replace('"step": 0', '"step": "zero"'),
        GOOD.replace('"objective": 1.0', '"objective": [1.0]'),
        GOOD.replace('"global"', '"guess"'),
        GOOD[:-5],
    ],
)
def test_a_malformed_line_is_named_by_file_and_line(tmp_path, bad):
    path = tmp_path / "broken.jsonl"
    path.write_text(f"{GOOD}\n{bad}\n{GOOD}\n")
    with pytest.raises(DataError, match=r"broken\.jsonl:2: "):
        read_trace(path)


def test_a_file_that_is_not_text_is_refused_as_data(tmp_path):
    path = tmp_path / "binary"
    path.write_bytes(b"\x80\x81\xff\xfe\n")
    with pytest.raises(DataError, match="binary"):
        read_trace(path)


def test_more_fields_than_known_do_no_harm(tmp_path):
    """A later version may write more."""
    path = tmp_path / "trace"
    path.write_text(GOOD[:-1] + ', "temperature": 3}\n')
    assert read_trace(path) == [Progress(step=0, objective=1.0, n_evaluations=1)]


def test_the_gap_of_a_row_is_objective_minus_bound():
    assert Progress(objective=2.0, lower_bound=-1.0).gap == 3.0
    assert Progress().gap == math.inf


def test_a_result_summarizes_its_trace():
    trace = [Progress(step=0, n_evaluations=1), Progress(step=1, objective=3.0, lower_bound=1.0, n_evaluations=4)]
    result = Result(np.zeros(2), 3.0, 1.0, "global", Status.MAX_STEPS, trace)
    assert (result.gap, result.n_evaluations, result.n_steps) == (2.0, 4, 1)
    assert "trace" not in repr(result)


def test_a_result_without_a_trace_counts_nothing():
    result = Result(np.zeros(2), math.inf, -math.inf, "global", Status.NONFINITE, [], "at step 1: why")
    assert (result.n_evaluations, result.n_steps) == (0, 0)
    assert result.gap == math.inf


def test_the_message_is_the_remedy_and_the_detail():
    plain = Result(np.zeros(1), 1.0, 1.0, "global", Status.CONVERGED, [])
    detailed = Result(np.zeros(1), 1.0, 0.0, "global", Status.NONFINITE, [], "at step 3: the value is nan")
    assert plain.message == Status.CONVERGED.value
    assert detailed.message == f"{Status.NONFINITE.value} (at step 3: the value is nan)"


@pytest.mark.parametrize("status", [status for status in Status if status.name not in ("CONVERGED", "GUARANTEED")])
def test_every_status_but_success_says_what_to_do(status):
    assert any(verb in status.value for verb in ("raise", "loosen", "use", "check", "continue", "scale"))


def test_statuses_have_different_messages():
    assert len({status.value for status in Status}) == len(Status)
