"""Writer of one task: groups rows by partition, and writes a part for each partition."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from engine.disk.disk import DISK, Disk
from engine.units import TopicPartition
from kafkafs.spark.errors import OptionError
from kafkafs.spark.sink.arrow_spans import Column
from kafkafs.spark.sink.batch_encoding import BatchEncoder
from kafkafs.spark.sink.frame_columns import FrameReader, RecordError
from kafkafs.spark.sink.part_writer import PartWriter, WrittenPart
from kafkafs.spark.sink.partitioner import partitions_by_key
from kafkafs.spark.sink.write_options import check_topic

TASKS = "tasks"
"""Folder of a job with a folder for each attempt of a task."""
MOST_OPEN = 128
"""Most partitions with open files in a task: a segment has three files."""
MOST_WAITING = 256 * 1024 * 1024
"""Most bytes of records in incomplete batches."""


@dataclass(slots=True)
class TaskOutput:
    """Output of an attempt of a task.

    Attributes:
        task: number in the stage, which orders assigned offsets.
        folder: path below the folder of the job.
        parts: one part for each partition.
    """

    task: int
    folder: str
    parts: list[WrittenPart] = field(default_factory=list)


class TaskWriter:
    """Writer of the rows of one attempt of a task.

    Args:
        job_folder: folder of the job; it exists.
        reader: converts the frame's record batches.
        disk: writes the files.
    """

    def __init__(self, job_folder: str, reader: FrameReader, disk: Disk = DISK) -> None:
        self._job_folder = job_folder
        self._reader = reader
        self._options = reader.options
        self._disk = disk
        self._encoder = BatchEncoder(self._options.batch_bytes, self._options.compression_level)
        self._writers: dict[TopicPartition, PartWriter] = {}
        self._latest: dict[
            TopicPartition, PartWriter
        ] = {}  # writers with open files, the latest last

    def write(self, task: int, attempt: int, batches: Iterator[pa.RecordBatch]) -> TaskOutput:
        """Write and sync all rows; they are invisible before the commit.

        Args:
            task: number in the stage.
            attempt: id of the attempt.
            batches: the rows.

        Raises:
            RecordError: a row cannot become a record.
            OSError: the disk fails, or the folder of the job is missing. The written files are removed.
        """
        name = f"{task:06d}-{attempt}-{secrets.token_hex(4)}"
        output = TaskOutput(task, os.path.join(TASKS, name))
        folder = os.path.join(self._job_folder, output.folder)
        self._make_folder(folder)
        try:
            for batch in batches:
                if len(batch):
                    self._add(batch, output)
            for writer in self._writers.values():
                writer.finish()
            self._disk.sync_folder(folder)
        except BaseException:
            for writer in self._writers.values():
                writer.close()
            self._disk.remove_tree(folder)
            raise
        return output

    def _make_folder(self, folder: str) -> None:
        try:
            self._disk.make_new_folder(folder)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"the folder of the job is missing on {socket.gethostname()}: {self._job_folder}. Driver"
                " and executors must see the target's file system at the same path; an aborted job has no"
                " folder"
            ) from error

    def _add(self, batch: pa.RecordBatch, output: TaskOutput) -> None:
        records = self._reader.records(batch)
        for partition, rows in self._groups(batch, records):
            chosen = records if len(rows) == len(records) else records.take(pa.array(rows))
            self._writer(partition, output).add(chosen, self._options.batch_bytes)
        if sum(writer.waiting for writer in self._writers.values()) > MOST_WAITING:
            for writer in self._writers.values():
                writer.encode(is_last=True)

    def _groups(
        self, batch: pa.RecordBatch, records: pa.RecordBatch
    ) -> Iterator[tuple[TopicPartition, Column]]:
        """Yield the rows of each partition, in order."""
        topics = self._reader.topics(batch).dictionary_encode()
        names = topics.dictionary.to_pylist()
        codes = topics.indices.to_numpy().astype(np.int64)
        numbers = self._numbers(batch, records, codes, names)
        both = codes << 32 | numbers
        order = np.argsort(both, kind="stable")
        borders = np.flatnonzero(np.diff(both[order])) + 1
        for rows in np.split(order, borders):
            yield TopicPartition(names[codes[rows[0]]], int(numbers[rows[0]])), rows

    def _numbers(
        self, batch: pa.RecordBatch, records: pa.RecordBatch, codes: Column, names: list[str]
    ) -> Column:
        """Return the partition of each row."""
        column = self._reader.partitions(batch)
        if column is None:
            unknown = np.ones(len(batch), bool)
            numbers = np.zeros(len(batch), np.int64)
        else:
            unknown = column.is_null().to_numpy(zero_copy_only=False)
            numbers = column.fill_null(0).to_numpy().astype(np.int64)
        if (numbers < 0).any():
            raise RecordError(f"Invalid partition: {int(numbers.min())}. It is never negative.")
        for code, topic in enumerate(names):
            rows = np.flatnonzero(unknown & (codes == code))
            count = self._options.partitions_of(topic)
            if len(rows):
                numbers[rows] = self._by_key(records, rows, topic, count)
            if count is not None and (numbers[codes == code] >= count).any():
                most = int(numbers[codes == code].max())
                raise RecordError(
                    f"Invalid partition: {topic} has {count} partitions, so there is no partition {most}."
                )
        return numbers

    def _by_key(
        self, records: pa.RecordBatch, rows: Column, topic: str, count: int | None
    ) -> Column:
        if count is None:
            raise RecordError(
                f"null partition present in the data: set the number of partitions of {topic} by numPartitions"
            )
        some = records.take(pa.array(rows))
        return partitions_by_key(some["key"], some["value"], count)

    def _writer(self, partition: TopicPartition, output: TaskOutput) -> PartWriter:
        found = self._writers.get(partition)
        if found is None:
            found = self._writers[partition] = self._new_writer(partition, output)
        self._latest.pop(partition, None)
        self._latest[partition] = found
        if len(self._latest) > MOST_OPEN:
            self._latest.pop(next(iter(self._latest))).finish_segment()
        return found

    def _new_writer(self, partition: TopicPartition, output: TaskOutput) -> PartWriter:
        try:
            check_topic(partition.topic)
        except OptionError as error:
            raise RecordError(str(error)) from None
        folder = os.path.join(output.folder, str(partition))
        part = WrittenPart(partition, folder)
        output.parts.append(part)
        path = os.path.join(self._job_folder, folder)
        self._disk.make_new_folder(path)
        return PartWriter(
            part,
            path,
            self._encoder,
            segment_bytes=self._options.segment_bytes,
            keeps_offsets=self._reader.columns.keeps_offsets,
            disk=self._disk,
        )
