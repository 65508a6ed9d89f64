"""Rows through the sink without Spark: tasks, a commit, and what a reader then sees."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.check.log_dir_check import SourceCheck
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.disk.disk import Disk
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from engine.record.memory_records import MemoryRecords
from engine.record.record import Record
from kafkafs.spark.sink.frame_columns import FrameColumns, FrameReader
from kafkafs.spark.sink.job_folder import JobFolder
from kafkafs.spark.sink.log_dir_assembly import Json, commit
from kafkafs.spark.sink.task_writer import TaskOutput, TaskWriter
from kafkafs.spark.sink.write_options import parse_write_options

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
    "timestamp": pa.int64(),
    "timestampType": pa.int32(),
    "leaderEpoch": pa.int32(),
    "codec": pa.string(),
    "transaction": pa.string(),
    "_corrupt": pa.string(),
}
NOW = 1_700_000_000_000
Row = dict[str, Any]


class Unsynced(Disk):
    """A disk for tests without crashes."""

    syncs = False


def row(offset: int | None = None, **columns: Any) -> Row:
    """A row of t-0, with something in it."""
    found = {"topic": "t", "partition": 0, "key": b"k", "value": b"v", "timestamp": NOW} | columns
    return found if offset is None else found | {"offset": offset}


def batches(rows: Sequence[Row], size: int = 7) -> Iterator[pa.RecordBatch]:
    """The rows in record batches of some size."""
    names = list(rows[0]) if rows else ["topic", "value"]
    for start in range(0, len(rows), size):
        arrays = [
            pa.array([each[name] for each in rows[start : start + size]], TYPES[name])
            for name in names
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


class Written:
    """A job: tasks by their rows, then `commit`."""

    def __init__(
        self, target: Path, columns: Sequence[str], disk: Disk | None = None, **options: str
    ):
        batch_bytes = options.pop("batchBytes", "64k")
        self.options = parse_write_options({"path": str(target), **options})
        if batch_bytes.isdigit():  # smaller than what anybody may ask for
            self.options = dataclasses.replace(self.options, batch_bytes=int(batch_bytes))
        keeps = "offset" in columns and self.options.offsets != "assign"
        self.reader = FrameReader(FrameColumns(tuple(columns), keeps), self.options, NOW)
        self.disk = disk or Unsynced()
        self.job = JobFolder.make(str(target), self.disk)
        self.outputs: list[TaskOutput] = []

    def task(self, rows: Sequence[Row], number: int | None = None, attempt: int = 0) -> TaskOutput:
        """An attempt of a task; it counts if it is appended to `outputs`."""
        task = len(self.outputs) if number is None else number
        return self.writer().write(task, attempt, batches(rows))

    def writer(self) -> TaskWriter:
        """Of one attempt."""
        return TaskWriter(self.job.path, self.reader, self.disk)

    def commit(self) -> Json:
        """Make the target."""
        keeps = self.reader.columns.keeps_offsets
        return commit(
            self.job, self.outputs, self.options, keeps_offsets=keeps, disk=self.disk, threads=1
        )


def write(target: Path, *tasks: Sequence[Row], **options: str) -> Json:
    """A log dir of the rows of some tasks; its manifest."""
    columns = list(next((rows[0] for rows in tasks if rows), {"topic": "", "value": b""}))
    job = Written(target, columns, **options)
    for rows in tasks:
        job.outputs.append(job.task(rows))
    return job.commit()


def records_of(target: Path, partition: str = "t-0") -> list[Record]:
    """What a reader sees of a partition, damage being an error."""
    source = open_source(str(target))
    try:
        log = {str(name): log for name, log in source.partitions().items()}[partition]
        view = log.view()
        found: list[Record] = []
        for _, item in view.runs(view.log_start_offset, view.log_end_offset):
            assert isinstance(item, BatchRun), item
            found += MemoryRecords(item.buffer).records()
        return found
    finally:
        source.close()


def bounds_of(target: Path, partition: str = "t-0") -> tuple[int, int]:
    """Log start and log end."""
    source = open_source(str(target))
    try:
        view = {str(name): log for name, log in source.partitions().items()}[partition].view()
        return view.log_start_offset, view.log_end_offset
    finally:
        source.close()


def findings_in(target: Path) -> list[str]:
    """What a check of every byte has against a log dir."""
    source = open_source(str(target))
    try:
        return [
            f"{each.rule}: {each.sentence}"
            for each in SourceCheck(source).run()
            if isinstance(each, Finding) and each.severity is not Severity.NOTE
        ]
    finally:
        source.close()
