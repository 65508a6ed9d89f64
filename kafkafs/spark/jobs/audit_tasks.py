"""Tasks of an audit: check units, then draw conclusions about partitions that several tasks have checked.

In between Spark sorts the results by partition, segment and order. Final results (findings of partitions that
one task has checked whole) pass through.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple, Self, TypeAlias

import pyarrow as pa

from engine.check.log_check import PartitionSummary
from engine.check.log_dir_check import CheckOptions, SourceCheck
from engine.check.rules.finding import Finding, found
from engine.check.segment_look import Look
from engine.clock import SystemClock
from engine.errors import KafkaStorageError
from engine.log.log_directory import LogSource
from engine.units import Offset, Timestamp
from engine.workers import Workers
from kafkafs.spark.jobs.audit_plan import Unit, takes
from kafkafs.spark.source.planning.volume import Volume
from kafkafs.spark.source.worker_process import make_ready

SEEN = pa.schema(
    [
        pa.field("bucket", pa.int32()),
        pa.field("partition", pa.binary()),
        pa.field("segment", pa.int64()),
        pa.field("number", pa.int64()),
        pa.field("payload", pa.binary()),
    ]
)
"""Rows from the first tasks to the second: a pickled event, or a look at a segment; names are bytes."""
EVENTS = pa.schema(
    [
        pa.field("partition", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("number", pa.int64()),
        pa.field("severity", pa.string()),
        pa.field("rule", pa.string()),
        pa.field("file", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("firstOffset", pa.int64()),
        pa.field("nextOffset", pa.int64()),
        pa.field("sentence", pa.string()),
        pa.field("advice", pa.string()),
        pa.field("facts", pa.string()),
        pa.field("summary", pa.string()),
    ]
)
"""Findings, and after those of each partition a row with its summary as JSON and without a rule."""

Event: TypeAlias = Finding | PartitionSummary
_EVENT, _TO_CONCLUDE = -2, -1
_MOST_ROWS = 1000
_MOST_BYTES = 4 << 20
_ROW_FILE_BYTES = 8 << 30
"""Headers of 100 million batches; other tasks checked the segments, so that losing headers means reading again."""


class _Seen(NamedTuple):
    """A row of SEEN; `segment` is a base offset, _EVENT, or _TO_CONCLUDE."""

    bucket: int
    partition: bytes
    segment: int
    number: int
    payload: bytes


class _StillClock(SystemClock):
    def __init__(self, now_ms: Timestamp) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> Timestamp:
        return self._now_ms


@dataclass(frozen=True, slots=True)
class AuditTasks:
    """The two functions of an audit for `mapInArrow`.

    Attributes:
        volume: volume to audit.
        topic: regular expression that must match topics as a whole; None for all.
        now_ms: time of the audit in ms, the same for all tasks.
    """

    volume: Volume
    topic: str | None
    now_ms: Timestamp

    def look(self, plans: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Check tasks of the plan (column `units`, pickled); yield SEEN."""
        tasks = [pickle.loads(one) for plan in plans for one in plan.column("units").to_pylist()]
        units: list[Unit] = [unit for task in tasks for unit in task]
        if not units:
            return
        make_ready()
        with _Opened(self.volume) as opened:
            check = self._check(opened.source(), units)
            seen = (row for unit in units for row in _look_at(check, unit))
            yield from _in_batches(SEEN, seen, "payload")

    def conclude(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn sorted SEEN of one bucket into EVENTS."""
        rows = (_Seen(*row.values()) for batch in batches for row in batch.to_pylist())
        yield from _in_batches(EVENTS, self._events(rows), "sentence")

    def _events(self, rows: Iterator[_Seen]) -> Iterator[dict[str, Any]]:
        with _Opened(self.volume) as opened:
            for _, seen in groupby(rows, key=itemgetter(1)):
                yield from self._of_partition(seen, opened)

    def _of_partition(self, seen: Iterator[_Seen], opened: _Opened) -> Iterator[dict[str, Any]]:
        first = next(seen)
        if first.segment == _EVENT:
            for number, each in enumerate(chain([first], seen)):
                topic, event = pickle.loads(each.payload)
                yield _row(topic, event, number)
            return
        unit: Unit = pickle.loads(first.payload)
        looks = (
            (each.segment, pickle.loads(each.payload))
            for each in seen
            if each.segment != _TO_CONCLUDE
        )
        check = self._check(opened.source(), [unit])
        for number, event in enumerate(_checked(check, unit.partition, looks)):
            yield _row(unit.topic, event, number)

    def _check(self, source: LogSource, units: Iterable[Unit]) -> SourceCheck:
        policies = {unit.topic: unit.policy for unit in units}
        options = CheckOptions(
            takes=takes(self.topic),
            takes_missing=takes(self.topic),
            clock=_StillClock(self.now_ms),
            policy_of=policies.get,
            row_file_bytes=_ROW_FILE_BYTES,
        )
        return SourceCheck(source, options)


class _Opened:
    """A volume that is opened once, on first use."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._source: LogSource | None = None

    def source(self) -> LogSource:
        """Return the source of the volume. Raises NotVisibleError."""
        if self._source is None:
            self._source = self._volume.open()
        return self._source

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._source is not None:
            self._source.close()


# -- the first tasks


def _look_at(check: SourceCheck, unit: Unit) -> Iterator[_Seen]:
    if not unit.partition:
        for number, finding in enumerate(check.beside()):
            if isinstance(finding, Finding):
                yield _event(unit, number, finding)
        return
    log = check.source.partitions().get(unit.partition)
    if unit.segments is not None:
        yield _seen(unit, _TO_CONCLUDE, 0, unit)
        for base in unit.segments if log is not None else ():
            yield from _look_at_segment(check, unit, base)
        return
    for number, event in enumerate(_checked(check, unit.partition)):
        yield _event(unit, number, event)


def _event(unit: Unit, number: int, event: Event) -> _Seen:
    return _seen(unit, _EVENT, number, (unit.topic, event))


def _seen(unit: Unit, segment: int, number: int, payload: object) -> _Seen:
    name = os.fsencode(unit.partition)
    return _Seen(unit.bucket, name, segment, number, pickle.dumps(payload))


def _look_at_segment(check: SourceCheck, unit: Unit, base: Offset) -> Iterator[_Seen]:
    log = check.source.partitions()[unit.partition]
    try:
        for number, look in enumerate(check.segment(log, base)):
            yield _seen(unit, base, number, look)
    except (OSError, KafkaStorageError):
        return  # the concluding task fails at the same place, and reports it


def _checked(
    check: SourceCheck, partition: str, looks: Iterator[tuple[Offset, Look]] | None = None
) -> Iterator[Event]:
    """Yield findings and summary of a partition; nothing if a broker has deleted it since the plan."""
    log = check.source.partitions().get(partition)
    if log is None:
        if check.source.broker_pid is None:
            where = ", ".join(root.path for root in check.source.roots)
            sentence = f"the driver found it, and host {socket.gethostname()} does not"
            yield found("file-unreadable", where, sentence, partition=partition)
        return
    with Workers(1) as workers:
        for event in check.partition(log, workers, looks):
            if isinstance(event, Finding | PartitionSummary):
                yield event


# -- rows


def _row(topic: str, event: Event, number: int) -> dict[str, Any]:
    if isinstance(event, PartitionSummary):
        summary = {
            "live": event.is_live,
            "logStartOffset": event.log_start_offset,
            "logEndOffset": event.log_end_offset,
            "segments": event.segments,
            "bytes": event.size,
            "batches": event.batches,
            "records": event.records,
            "holes": len(event.holes),
            "holeBytes": sum(hole.length for hole in event.holes),
            **{f"{severity}s": event.found[severity] for severity in ("error", "warning", "note")},
        }
        return {
            "partition": _text(event.partition),
            "topic": _text(topic),
            "number": number,
            "summary": json.dumps(summary),
        }
    known = event.to_json()
    facts = known.pop("facts", None)
    texts = {name: _text(value) for name, value in known.items() if isinstance(value, str)}
    return {
        **known,
        **texts,
        "topic": _text(topic) or None,
        "number": number,
        "facts": None if facts is None else json.dumps(facts, default=str),
    }


def _text(name: str) -> str:
    """Return a name as Arrow can hold it: bytes that are not UTF-8 become escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _in_batches(
    schema: pa.Schema, rows: Iterable[Mapping[str, Any] | _Seen], large: str
) -> Iterator[pa.RecordBatch]:
    """Yield rows as record batches of a bounded size; the lengths in column `large` count."""
    some: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        one = row._asdict() if isinstance(row, _Seen) else dict(row)
        some.append(one)
        size += len(one.get(large) or "")
        if len(some) >= _MOST_ROWS or size >= _MOST_BYTES:
            yield pa.RecordBatch.from_pylist(some, schema=schema)
            some, size = [], 0
    if some:
        yield pa.RecordBatch.from_pylist(some, schema=schema)
