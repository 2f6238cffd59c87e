"""``undercut train --online``: a file of any size, read in chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from signal import SIGINT
from typing import Any

import numpy as np

from undercut.cli.commands.stream_state import Position, StreamCheckpoint, load_stream
from undercut.cli.commands.valid import BestPass
from undercut.cli.models import build
from undercut.cli.options.given import Given
from undercut.cli.options.table import OPTIONS, ROWS, named
from undercut.cli.reports.record import record
from undercut.cli.reports.recorders import about
from undercut.cli.reports.report import Row, labels
from undercut.cli.standard import STANDARD, write_model
from undercut.cli.tasks.samples import read_weights
from undercut.cli.tasks.tables import check_no_table, table_chunks, training_table
from undercut.display import Display, Part
from undercut.errors import DataError, ParameterError
from undercut.estimators import OnlineClassifier, OnlineRegressor, lam_from_C
from undercut.estimators.targets import positive_codes
from undercut.interrupts import EXIT_CODE, graceful, requested
from undercut.io import iter_svmlight, load_model
from undercut.io.frames import is_table, read_frame
from undercut.io.reading import open_decompressed, watch_reading
from undercut.io.several import matching
from undercut.io.svmlight import SvmlightData
from undercut.io.trace_file import TraceFile
from undercut.trace import Progress, row_as_json
from undercut.types import Array, FloatArray


def train_online(file: Path, given: Given) -> tuple[Any, list[Row], int]:
    """Stream ``file``, ``--passes`` times: the model, the report and the exit code.

    The model is saved after every pass, and on Ctrl-C.
    """
    _check(file, given)
    model = _continued(given) if "start" in given else build(given)
    if "C" in given:
        model.lam = lam_from_C(given["C"], _n_samples(file))
    position = None
    if "resume" in given:
        model, position = load_stream(given["resume"], model, file)
    stream = _Stream(model, file, given, position)
    with graceful() as signals:
        try:
            stream.run()
        except KeyboardInterrupt:
            if signals.number is not None or not hasattr(model, "coef_"):
                raise
            stream.save()
            signals.number = SIGINT
    if given["output"] == STANDARD:
        write_model(model, STANDARD)
    if signals.number is not None:
        kept = f"stopped: what was learned from {model.n_samples_seen_} samples is in {given['output']}"
        return model, stream.rows("stopped", kept), EXIT_CODE + signals.number
    return model, stream.rows("done", "done: the file was read to its end"), 0


def _check(file: Path, given: Given) -> None:
    """Refuse what a stream in this process cannot do."""
    if given["class_weight"] == "balanced":
        remedy = "give pairs such as 1:5,-1:1"
        raise named("class_weight").refusal("needs all the data and is not for --online", "balanced", remedy)
    if "partitions" in given:
        raise named("partitions").refusal("needs --workers or --scheduler", given["partitions"])
    if file == STANDARD and given["passes"] > 1:
        raise ParameterError(f"--passes must be 1 where standard input is read; got {given['passes']}: name a file")


class _Stream:
    """The passes over a file, and the loss of each sample before the model learned from it."""

    def __init__(self, model: Any, file: Path, given: Given, at: Position | None = None) -> None:
        self.model, self.file, self.given = model, file, given
        self.classifies = isinstance(model, OnlineClassifier)
        at = at or Position(1, 0.0, 0.0, getattr(model, "n_samples_seen_", 0), 0.0)
        self.first, self.loss, self.n_counted, self.seen_before, seconds = at
        self.share: float | None = None  # of the file that is read
        self._began = time.perf_counter() - seconds
        self._best = BestPass(given["valid"], given["patience"]) if "valid" in given else None
        self._checkpoint = StreamCheckpoint(given["checkpoint"] or given["resume"], given["every"], file)
        self.table: SvmlightData | None = None
        if is_table(file):
            self.table, model.table_ = training_table(file, given)
        else:
            given.check_file(ROWS)
            check_no_table(model, file)

    def run(self) -> None:
        """Learn with a trace and checkpoints."""
        given = self.given
        self._checkpoint.claim(resumed="resume" in given)
        trace = TraceFile(given["trace"], about(self.file, given)).session() if "trace" in given else None
        if trace is not None:
            trace.begin({"objective": "mean loss of samples before the model learned from them"})
        try:
            self.learn(lambda progress: None if trace is None else trace.write(row_as_json(progress)))
        finally:
            if trace is not None:
                trace.close()

    def learn(self, tell: Callable[[Progress], None]) -> None:
        """Learn from every chunk of every pass, and save the model after each pass; ends early after a signal."""
        given, model = self.given, self.model
        learn_chunk = partial(self._learn_chunk, self._classes(), self._weights())
        n_passes = given["passes"]
        with Display() as display, watch_reading(self._read):
            for number in range(self.first, n_passes + 1):
                display.title = f"pass {number} of {n_passes}"
                for X, y in self._chunks(skip=getattr(model, "stream_position_", 0)):
                    learn_chunk(X, y)
                    display.show(self._parts(), self.share)
                    tell(self._progress(number))
                    self._checkpoint.offer(model, self._position(number))
                    if requested() is not None:
                        self.save()
                        self._checkpoint.save(model, self._position(number), ended=False)
                        return
                model.stream_position_ = 0
                if self._best is None:
                    self.save()
                elif self._best.is_over(model):
                    break
            self._checkpoint.save(model, self._position(n_passes + 1), ended=True)
            if self._best is not None:
                vars(model).update(vars(self._best.model))
                self.save()

    def _weights(self) -> FloatArray | None:
        given = self.given["weights"]
        return None if given is None else read_weights(given, _n_samples(self.file))

    def _learn_chunk(self, classes: dict[str, Any], weights: FloatArray | None, X: Any, y: FloatArray) -> None:
        """Count the loss of a chunk, then learn from it."""
        target = labels(y) if self.classifies else y
        at = getattr(self.model, "stream_position_", 0)
        weight = None if weights is None else weights[at : at + y.size]
        self._count(X, target)
        self.model.partial_fit(X, target, sample_weight=weight, **classes)
        self.model.stream_position_ += y.size

    def _position(self, number: int) -> Position:
        seconds = time.perf_counter() - self._began
        return Position(number, self.loss, self.n_counted, self.seen_before, seconds)

    def _progress(self, number: int) -> Progress:
        """A row of the trace: a chunk is a step."""
        seen, seconds = self.model.n_samples_seen_ - self.seen_before, time.perf_counter() - self._began
        return Progress(
            int(seen), self.mean_loss, n_passes=float(number), seconds=seconds, certificate="none",
            solver=str(self.model.solver),
        )  # fmt: skip

    def _classes(self) -> dict[str, Any]:
        """The labels that ``--classes`` names; those of a table are known before the first chunk."""
        if self.classifies and "classes" in self.given:
            return {"classes": _parse_classes(self.given["classes"])}
        return {"classes": np.unique(labels(self.table.y))} if self.classifies and self.table is not None else {}

    def save(self) -> None:
        """Write the model, with the record of its training."""
        record(self.model, self.file, self.given, samples=self.model.n_samples_seen_, progressive_loss=self.mean_loss)
        if self.given["output"] != STANDARD:  # which takes one model, the last
            write_model(self.model, self.given["output"])

    def rows(self, status: str, ending: str) -> list[Row]:
        """The report; a stream has no certificate."""
        seconds = time.perf_counter() - self._began
        return [
            *(Row(label, None) for label in ("objective", "lower bound", "gap")),
            Row("samples seen", self.model.n_samples_seen_),
            Row("features", self.model.n_features_in_),
            Row("progressive loss", self.mean_loss),
            Row("steps", int(self.model.n_samples_seen_ - self.seen_before)),
            Row("seconds", seconds, f"{seconds:.2f}"),
            Row("status", status, ending),
            Row("model", str(self.given["output"])),
        ]

    @property
    def mean_loss(self) -> float:
        """The mean loss of samples before the model learned from their chunk."""
        return self.loss / max(self.n_counted, 1.0)

    def _chunks(self, skip: int) -> Iterator[tuple[Any, FloatArray]]:
        """The chunks of the file without the first ``skip`` samples, which an interrupted pass has learned from."""
        for X, y, _ in self._source():
            if skip < y.size:
                yield self.model.widened(X[skip:]), y[skip:]
            skip = max(0, skip - y.size)

    def _source(self) -> Iterator[SvmlightData]:
        given = self.given
        if self.table is not None:
            return table_chunks(self.table, given["chunk_rows"])
        settings = {"chunk_rows": given["chunk_rows"], "n_features": given["n_features"]}
        return chain.from_iterable(iter_svmlight(path, **settings) for path in matching(self.file))

    def _count(self, X: Any, y: Array) -> None:
        """Add the losses of a chunk, in the mean over the classes; a model that knows nothing yet scores zero."""
        model = self.model
        scores = np.atleast_2d(model._scores(X).T) if hasattr(model, "coef_") else np.zeros((1, y.size))
        targets = [y]
        if self.classifies:
            classes = getattr(model, "classes_", np.unique(y))
            targets = [np.where(y == classes[code], 1.0, -1.0) for code in positive_codes(classes.size)]
            scores = np.broadcast_to(scores, (len(targets), y.size))
        values = [model._loss().value_slope(target, score)[0] for target, score in zip(targets, scores, strict=True)]
        self.loss += float(np.sum(np.mean(values, axis=0)))
        self.n_counted += y.size

    def _read(self, done: int, total: int) -> None:
        self.share = done / total if total else None

    def _parts(self) -> list[Part]:
        seen = self.model.n_samples_seen_ - self.seen_before
        speed = seen / max(time.perf_counter() - self._began, 1e-3)
        return [
            Part(f"{seen} samples", 2),
            Part(f"{speed:.3g} per second", 1),
            Part(f"progressive loss {self.mean_loss:.4g}"),
        ]


def _n_samples(file: Path) -> int:
    """The samples of a file, by a first scan of its lines."""
    if file == STANDARD:
        raise ParameterError(
            "--C and --weights need a file that can be read twice; got -: use --lambda, or name a file"
        )
    if is_table(file):
        return read_frame(file).height
    return sum(map(_n_lines, matching(file)))


def _n_lines(path: str) -> int:
    with open_decompressed(path) as stream:
        return sum(1 for line in stream if line.split(b"#")[0].strip())


def _continued(given: Given) -> Any:
    """The model of ``--start``, whose settings must be those that are wanted now."""
    model, start = load_model(given["start"]), given["start"]
    if not isinstance(model, OnlineClassifier | OnlineRegressor) or not hasattr(model, "_games"):
        raise ParameterError(f"--start must be a model of train --online to go on with --online; got {start}")
    wanted = build(given)
    for option in (option for option in OPTIONS if option.sets and option.online and hasattr(wanted, option.sets)):
        old, new = (_setting(estimator, option.sets) for estimator in (model, wanted))
        if old != new:
            raise ParameterError(f"--start was trained with {option.flag()} {old}, which must stay the same; got {new}")
    return model


def _setting(estimator: Any, name: str) -> Any:
    """A parameter; two names may stand for one loss."""
    return estimator._loss() if name == "loss" else getattr(estimator, name)


def _parse_classes(text: str) -> Any:
    try:
        return labels(np.array([float(word) for word in text.split(",")]))
    except ValueError as error:
        raise DataError(f"--classes must be numbers separated by commas; got {text!r}") from error
