"""One task of an export: some splits become files of a topic and a day each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from engine.budgets import MiB
from engine.disk.disk import DISK, Disk
from engine.log.partition_log import PartitionLog
from engine.units import NO_TIMESTAMP, TopicPartition
from kafkafs.decode.searching.apart import Apart
from kafkafs.decode.shown_text import json_text
from kafkafs.export.file_columns import file_schema
from kafkafs.export.file_formats import FORMATS
from kafkafs.export.file_writers import FileOutput, FileWriter, LinesFile, file_maker
from kafkafs.export.folders import MS_OF_DAY, day_of, folder_of
from kafkafs.forms.arrow.arrow_rows import record_batches
from kafkafs.forms.arrow.typed.counted_misfits import CountedMisfits
from kafkafs.forms.arrow.typed_values import TypedValues
from kafkafs.masking.policy import Seen
from kafkafs.records.line_texts import RowLines
from kafkafs.records.rows import Rows
from kafkafs.table.row_options import RowOptions
from kafkafs.table.split_records import DamagedPlace, SplitRecords
from kafkafs.table.splits.split import Split
from kafkafs.table.splits.task_packing import packed

MOST_OPEN = 64
"""Files that a task has open at a time."""
GROUP_BYTES = 64 * MiB
"""Bytes of records that a task holds before it writes them: Parquet's row groups."""
_LINES = 1 * MiB
_TASKS_OF_A_JOB = 4
_LEAST = 8 * MiB
_OPENING = 64 * 1024
"""Cost of opening a split, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """What the files of an export look like.

    Attributes:
        form: format, one of `file_formats.FORMATS`.
        columns: names of columns; record lines have none.
        typed: decoded keys and values that have a type, by topic.
        values: form of bytes in CSV, or of values in record lines.
        codec: codec of the files.
        group_bytes: bytes of records that are written at once.
    """

    form: str
    columns: tuple[str, ...]
    values: str
    codec: str
    typed: Mapping[str, TypedValues] = field(default_factory=dict)
    group_bytes: int = GROUP_BYTES


@dataclass(frozen=True, slots=True)
class ExportTask:
    """Splits of one or more partitions, in order, whose records become the files of one task."""

    number: int
    splits: tuple[Split, ...]

    @property
    def size(self) -> int:
        """Bytes of the source."""
        return sum(split.size for split in self.splits)


@dataclass(slots=True)
class TaskResult:
    """What a task wrote: records by topic, damaged places, and by topic what does not fit its columns.

    Attributes:
        records: number of records.
        damaged: number of damaged places.
        misfits: number of keys and values that do not fit their columns.
        untimed: number of timestamps that do not.
        masked: which fields of the mask records had and lacked.
    """

    records: dict[str, int] = field(default_factory=dict)
    damaged: int = 0
    misfits: dict[str, int] = field(default_factory=dict)
    untimed: Counter[str] = field(default_factory=Counter)
    masked: Seen = field(default_factory=dict)


class RecordSource(NamedTuple):
    """The logs that the splits of an export were planned on.

    Attributes:
        logs: by partition.
        leftovers: files and folders that a broker set aside, by name.
    """

    logs: Mapping[TopicPartition, PartitionLog]
    leftovers: Mapping[str, tuple[PartitionLog, Apart]] = MappingProxyType({})

    def of(self, split: Split) -> tuple[PartitionLog, Apart | None]:
        """Return the log of a split; for a leftover with the records of it that are left out."""
        if split.leftover:
            return self.leftovers[split.leftover]
        return self.logs[split.partition], None


class ExportTaskWriter:
    """Writer of the files of tasks.

    Args:
        source: the logs.
        options: how records are read.
        files: what the files look like.
        staged: absolute path of the folder for the files; its folders `records` and `damage` are made on demand.
        disk: disk to write to.
    """

    def __init__(
        self,
        source: RecordSource,
        options: RowOptions,
        files: FileOptions,
        staged: str,
        disk: Disk = DISK,
    ) -> None:
        self._source = source
        self._options = options
        self._files = files
        self._staged = staged
        self._disk = disk

    def write(self, task: ExportTask, take_note: Callable[[int], None]) -> TaskResult:
        """Write the files of a task; note the bytes of each split.

        Raises:
            CorruptBatchError, LostRecordsError, OSError: nothing of the task counts.
        """
        try:
            return self._write(task, take_note)
        except OSError as error:
            if error.filename is None:  # PyArrow passes on the number alone
                error.filename = self._staged
            raise

    def _write(self, task: ExportTask, take_note: Callable[[int], None]) -> TaskResult:
        result = TaskResult()
        reader = SplitRecords(self._options, as_lines=self._files.form == "jsonl")
        damage: FileOutput | None = None
        folder = f"{self._staged}/records"
        with _DayFiles(self._files, folder, task.number, self._disk) as days:
            for split in task.splits:
                topic = split.partition.topic
                result.records.setdefault(topic, 0)
                for item in reader.read(split, *self._source.of(split)):
                    if isinstance(item, DamagedPlace):
                        result.damaged += 1
                        damage = damage or self._damage_file(task.number)
                        damage.write(_damage_line(item))
                    elif isinstance(item, Rows | RowLines) and len(item):
                        days.add(item)
                        result.records[topic] += len(item)
                take_note(split.size)
        if damage is not None:
            damage.close()
        if self._options.mask is not None:
            result.masked = self._options.mask.policy.seen()
        result.misfits, result.untimed = days.misfits, days.untimed
        return result

    def _damage_file(self, number: int) -> FileOutput:
        folder = f"{self._staged}/damage"
        self._disk.make_folder(folder)
        return FileOutput(self._disk.open(f"{folder}/part-{number:05}.json", exclusive=True))


def _damage_line(place: DamagedPlace) -> bytes:
    facts = {
        "topic": place.split.partition.topic,
        "partition": place.split.partition.partition,
        "offset": place.first_offset,
        "segment": place.split.segment,
        "batchPosition": place.facts.get("position"),
        "damage": json_text(place.facts),
    }
    shown = {name: value for name, value in facts.items() if value is not None}
    return json_text(shown).encode() + b"\n"


class _DayFiles:
    """Files of one task by topic and day; records wait for a group of them."""

    def __init__(self, files: FileOptions, folder: str, number: int, disk: Disk) -> None:
        self._files = files
        self._typed = {topic: CountedMisfits(typed) for topic, typed in files.typed.items()}
        self._folder = folder
        self._number = number
        self._disk = disk
        codec = files.codec
        self._make = file_maker(files.form, files.values, codec)
        self._suffix = FORMATS[files.form].file_suffix(codec)
        self._open: dict[tuple[str, str], FileWriter | LinesFile] = {}
        self._begun: dict[tuple[str, str], int] = {}
        self._waiting: dict[tuple[str, str], list[Any]] = {}
        self._bytes = 0
        self._schemas: dict[str, pa.Schema] = {}
        self.untimed = Counter[str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for file in self._open.values():
                with suppress(Exception):  # the first error is the one that counts
                    file.close()
            return
        self._flush()
        while self._open:
            self._open.popitem()[1].close()

    @property
    def misfits(self) -> dict[str, int]:
        """Number of keys and values that do not fit their columns, by topic that has some."""
        return {topic: typed.count for topic, typed in self._typed.items() if typed.count}

    def add(self, rows: Rows | RowLines) -> None:
        """Add records of one partition."""
        topic = rows.partition.topic
        for day, some in _by_day(rows):
            waiting = self._waiting.setdefault((topic, day), [])
            for part, size in self._parts(some):
                waiting.append(part)
                self._bytes += size
                if self._bytes >= self._files.group_bytes:
                    self._flush()
                    waiting = self._waiting.setdefault((topic, day), [])

    def _parts(self, rows: Rows | RowLines) -> Iterator[tuple[Any, int]]:
        """Yield records in parts of the format, with their sizes in bytes."""
        if isinstance(rows, RowLines):
            lines = rows.texts(self._files.values, _LINES)
            if rows.leftover:
                lines = Apart(rows.leftover, None).named(lines)
            for text in lines:
                yield text, len(text)
            return
        topic = rows.partition.topic
        typed = self._typed.get(topic)
        schema = self._schema(topic)
        has_time = "timestamp" in schema.names and schema.field("timestamp").type.unit == "us"
        for batch in record_batches(schema, rows, typed=typed):
            if has_time and (nulls := batch.column("timestamp").null_count):
                self.untimed[topic] += nulls
            yield batch, batch.nbytes

    def _schema(self, topic: str) -> pa.Schema:
        found = self._schemas.get(topic)
        if found is None:
            files, typed = self._files, self._typed.get(topic)
            types = {} if typed is None else typed.types
            found = self._schemas[topic] = file_schema(files.form, files.columns, types)
        return found

    def _flush(self) -> None:
        """Write all records that wait."""
        waiting, self._waiting, self._bytes = self._waiting, {}, 0
        for place, parts in waiting.items():
            if parts:
                self._file(place).write(parts)

    def _file(self, place: tuple[str, str]) -> Any:  # noqa: ANN401 - takes what `_parts` yields
        file = self._open.pop(place, None)
        if file is None:
            while len(self._open) >= MOST_OPEN:
                oldest = next(iter(self._open))
                self._open.pop(oldest).close()
            file = self._new(place)
        self._open[place] = file  # the last one used is last
        return file

    def _new(self, place: tuple[str, str]) -> FileWriter | LinesFile:
        count = self._begun.get(place, 0)
        self._begun[place] = count + 1
        folder = os.path.join(self._folder, folder_of(*place))
        self._disk.make_folder(folder)
        again = f"-{count:03}" if count else ""
        name = f"part-{self._number:05}{again}{self._suffix}"
        output = FileOutput(self._disk.open(f"{folder}/{name}", exclusive=True))
        return self._make(output, self._schema(place[0]))


def _by_day(rows: Rows | RowLines) -> Iterator[tuple[str, Rows | RowLines]]:
    """Yield the records of each day, in their order."""
    timestamps = rows.timestamps
    missing = timestamps == NO_TIMESTAMP
    days = timestamps // MS_OF_DAY
    if (days == days[0]).all() and (missing == missing[0]).all():
        yield day_of(int(timestamps[0])), rows
        return
    # Without a timestamp is not the same as the last millisecond of 1969, whose day it would get.
    numbers = np.where(missing, np.iinfo(np.int64).min, days)
    for number in np.unique(numbers).tolist():
        own = np.flatnonzero(numbers == number)
        yield day_of(int(timestamps[own[0]])), rows.some(own)


def tasks_of(splits: Sequence[Split], jobs: int) -> list[ExportTask]:
    """Return tasks of neighbouring splits; a few for each job suffice, as each writes files of its own."""
    total = sum(split.size + _OPENING for split in splits)
    most = max(_LEAST, total // (jobs * _TASKS_OF_A_JOB))
    return [ExportTask(number, some) for number, some in enumerate(packed(splits, most, _OPENING))]
