"""Part of a partition that one task writes: segments with their indexes, in a folder of their own."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from engine.clock import SYSTEM_CLOCK
from engine.disk.disk import Disk
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT32, EpochEntry, Offset, TopicPartition
from engine.writing.log_config import LogConfig
from engine.writing.segment.writable_segment import WritableSegment
from kafkafs.spark.sink.batch_encoding import BatchEncoder, EncodedBatch
from kafkafs.spark.sink.frame_columns import RecordError

_CONFIG = LogConfig()
_BEFORE_ALL = -1


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """A synced segment: its base offset, and the bytes of its batches."""

    base_offset: Offset
    size: int


@dataclass(slots=True)
class WrittenPart:
    """Part of a partition that a task wrote; sent to the driver.

    Attributes:
        partition: topic and number.
        folder: path below the folder of the job.
        first_offset, next_offset: first offset, and one past the last; from 0 if offsets are assigned later.
        segments: segments in the order of their offsets.
        records, batches: number of records and batches.
        epochs: leader epochs and their start offsets.
    """

    partition: TopicPartition
    folder: str
    first_offset: Offset = 0
    next_offset: Offset = 0
    segments: list[WrittenSegment] = field(default_factory=list)
    records: int = 0
    batches: int = 0
    epochs: list[EpochEntry] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self.segments)


class PartWriter:
    """Writer of the records of one partition.

    Args:
        part: description to fill in; its folder exists.
        folder: absolute path of that folder.
        encoder: makes batches.
        segment_bytes: largest .log file.
        keeps_offsets: whether records have offsets; otherwise they count from 0.
        disk: writes the files.

    Attributes:
        waiting: bytes of records that are not in a batch yet, about.
    """

    def __init__(
        self,
        part: WrittenPart,
        folder: str,
        encoder: BatchEncoder,
        *,
        segment_bytes: int,
        keeps_offsets: bool,
        disk: Disk,
    ) -> None:
        self.part = part
        self.waiting = 0
        self._folder = folder
        self._encoder = encoder
        self._segment_bytes = segment_bytes
        self._keeps_offsets = keeps_offsets
        self._disk = disk
        self._segment: WritableSegment | None = None
        self._rows: list[pa.RecordBatch] = []
        self._next_offset = 0
        self._epoch = _BEFORE_ALL

    @property
    def is_open(self) -> bool:
        """Whether a segment is open."""
        return self._segment is not None

    def add(self, records: pa.RecordBatch, batch_bytes: int) -> None:
        """Take records; write full batches.

        Raises:
            RecordError: offsets do not ascend, or leader epochs descend.
            OSError: the disk fails.
        """
        if self._keeps_offsets:
            self._check_order(records)
        else:
            records = self._with_offsets(records)
        self._rows.append(records)
        self.waiting += records.nbytes
        if self.waiting >= batch_bytes:
            self.encode(is_last=False)

    def encode(self, *, is_last: bool) -> None:
        """Write the full batches, or all records."""
        if not self._rows:
            return
        follows = self.part.next_offset if self.part.batches else None
        batches, rest = self._encoder.encode(_joined(self._rows), follows, is_last=is_last)
        for batch in batches:
            self._append(batch)
        # A slice would keep the whole record batch in memory.
        self._rows = [rest.take(pa.array(np.arange(len(rest))))] if len(rest) else []
        self.waiting = sum(each.nbytes for each in self._rows)

    def finish_segment(self) -> None:
        """Write all records and sync the segment; the next record begins another one."""
        self.encode(is_last=True)
        self._close_segment()

    def finish(self) -> WrittenPart:
        """Write and sync everything, names included."""
        self.finish_segment()
        self._disk.sync_folder(self._folder)
        return self.part

    def close(self) -> None:
        """Close the files of an unfinished part."""
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close_handlers()

    def _append(self, batch: EncodedBatch) -> None:
        part = self.part
        segment = self._segment_for(batch)
        size = len(batch.data)
        heads = [(batch.last_offset, batch.max_timestamp, size)]
        segment.append(batch.last_offset, MemoryRecords(batch.data), heads)
        if not part.batches:
            part.first_offset = batch.base_offset
        if batch.epoch >= 0 and (not part.epochs or part.epochs[-1].epoch < batch.epoch):
            part.epochs.append(EpochEntry(batch.epoch, batch.base_offset))
        part.next_offset = batch.last_offset + 1
        part.batches += 1
        part.records += batch.records

    def _segment_for(self, batch: EncodedBatch) -> WritableSegment:
        segment = self._segment
        if segment is not None and (
            segment.size + len(batch.data) > self._segment_bytes
            or batch.last_offset - segment.base_offset > MAX_INT32
            or segment.offset_index.is_full
            or segment.time_index.is_full
        ):
            self._close_segment()
            segment = None
        if segment is None:
            segment = self._segment = WritableSegment.open(
                self._folder, batch.base_offset, _CONFIG, SYSTEM_CLOCK, disk=self._disk
            )
        return segment

    def _close_segment(self) -> None:
        segment, self._segment = self._segment, None
        if segment is None:
            return
        try:
            segment.on_become_inactive_segment()
            segment.flush()
            self.part.segments.append(WrittenSegment(segment.base_offset, segment.size))
            segment.close()
        finally:
            segment.close_handlers()

    def _with_offsets(self, records: pa.RecordBatch) -> pa.RecordBatch:
        offsets = np.arange(self._next_offset, self._next_offset + len(records), dtype=np.int64)
        self._next_offset += len(records)
        place = records.schema.get_field_index("offset")
        return records.set_column(place, records.schema.field(place), pa.array(offsets))

    def _check_order(self, records: pa.RecordBatch) -> None:
        offsets = records["offset"].to_numpy()
        if int(offsets[0]) < 0:
            raise RecordError(f"{self.part.partition}: a record cannot have offset {offsets[0]}")
        before = np.concatenate([[self._next_offset - 1], offsets[:-1]])
        bad = np.flatnonzero(offsets <= before)
        if len(bad):
            row = int(bad[0])
            raise RecordError(
                f"{self.part.partition}: offset {offsets[row]} comes after offset {before[row]}: offsets must"
                " ascend, each once (kafkafs.spark.write sorts a frame;"
                " sortWithinPartitions('topic', 'partition', 'offset') does too)"
            )
        self._next_offset = int(offsets[-1]) + 1
        epochs = records["epoch"].to_numpy()
        steps = np.diff(epochs, prepend=np.int32(self._epoch))
        if (steps < 0).any():
            row = int(np.flatnonzero(steps < 0)[0])
            raise RecordError(
                f"{self.part.partition}: at offset {offsets[row]} the leader epoch goes back to"
                f" {epochs[row]}: drop the column leaderEpoch, or set the option leaderEpoch"
            )
        self._epoch = int(epochs[-1])


def _joined(rows: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(rows) == 1:
        return rows[0]
    return pa.Table.from_batches(rows).combine_chunks().to_batches()[0]
