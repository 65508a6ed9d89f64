"""Batches in a file or a part of a file: slices, search by offset, search by timestamp."""

from __future__ import annotations

from collections.abc import Iterator

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.errors import KafkaStorageError
from engine.record.log_input_stream import ReadableFile, Walk, walk_batches
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from engine.units import (
    MAX_INT32,
    NO_TIMESTAMP,
    BatchPosition,
    FoundTimestamp,
    Offset,
    Position,
    Timestamp,
    TimestampOffset,
)


class FileRecords:
    """Batches of a file between two fixed positions; what is appended later is not seen.

    All positions are absolute in the file, also in slices. Threads may share an instance; it owns
    no descriptor and closes nothing.

    Args:
        file: file that is read by position.
        start: position of the first batch.
        end: position to stop at; None for the current size of the file.
        is_slice: take `end` as it is, without a look at the file's size.
        largest: largest allowed file, Kafka's 2^31-1 bytes; None for any.
        budgets: limits of a batch that is read whole and of its inflated size.
        walk: function that finds the batches.

    Raises:
        KafkaStorageError: the file is larger than `largest`.
        ValueError: a slice without an end.
    """

    __slots__ = ("_budgets", "_walk", "end", "file", "is_slice", "start")

    def __init__(
        self,
        file: ReadableFile,
        start: Position = 0,
        end: Position | None = None,
        is_slice: bool = False,
        *,
        largest: int | None = MAX_INT32,
        budgets: Budgets = DEFAULT_BUDGETS,
        walk: Walk = walk_batches,
    ) -> None:
        self.file = file
        self.start = start
        self.is_slice = is_slice
        self._budgets = budgets
        self._walk = walk
        if is_slice:
            if end is None:
                raise ValueError("a slice needs an end")
            self.end = end
            return
        size = file.size()
        if largest is not None and size > largest:
            raise KafkaStorageError(
                f"{file.path} has {size} bytes, more than the {largest} that a segment may have"
            )
        self.end = size if end is None else min(size, end)

    def __repr__(self) -> str:
        return f"<records of {self.file.path}, bytes {self.start} to {self.end}>"

    @property
    def size(self) -> int:
        """Bytes, whether they make whole batches or not."""
        return self.end - self.start

    @property
    def path(self) -> str:
        """Path of the file, for errors."""
        return self.file.path

    def slice(self, position: Position, size: int) -> FileRecords:
        """Return the part from an absolute position on, cut at this part's end.

        Raises:
            ValueError: the position is outside this part, or the size is negative.
        """
        if not self.start <= position <= self.end:
            raise ValueError(f"position {position} is not within {self.start} to {self.end}")
        if size < 0:
            raise ValueError(f"the size {size} is negative")
        end = min(position + size, self.end)
        return FileRecords(self.file, position, end, True, budgets=self._budgets, walk=self._walk)

    def read_into(self, buffer: bytearray | memoryview, position: Position) -> int:
        """Fill a buffer from an absolute position on; return the number of bytes before the end."""
        data = self.file.read_at(position, max(0, min(len(buffer), self.end - position)))
        buffer[: len(data)] = data
        return len(data)

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the batches, up to the first that is not whole. Raises CorruptRecordError for an impossible frame."""
        return self.batches_from(self.start)

    def batches_from(self, position: Position) -> Iterator[RecordBatch]:
        """Yield the batches from an absolute position on, which must be the start of a batch."""
        return self._walk(self.file, position, self.end, self._budgets)

    def records(self) -> Iterator[Record]:
        """Yield the records of all batches."""
        for batch in self.batches():
            yield from batch.records(self._budgets)

    def search_for_offset(self, target: Offset, start_position: Position) -> BatchPosition | None:
        """Return the first batch from a position on with a last offset at or above a target.

        If the target is in a gap, this is the batch after the gap. The returned base offset is the
        one in the header, which for magic 0 and 1 is the last offset.
        """
        for batch in self.batches_from(start_position):
            if batch.last_offset >= target:
                base = batch.base_offset if batch.magic >= 2 else batch.last_offset
                return BatchPosition(base, batch.last_offset, batch.file_position, batch.size)
        return None

    def search_for_timestamp(
        self, target: Timestamp, start_position: Position, start_offset: Offset
    ) -> FoundTimestamp | None:
        """Return the first record, in offset order, with a timestamp at or after a target.

        Looks only at positions from `start_position` and offsets from `start_offset` on. Raises as
        a batch's `records` does if the record would be in a damaged batch.
        """
        for batch in self.batches_from(start_position):
            if batch.max_timestamp < target:
                continue
            for record in batch.records(self._budgets):
                if record.timestamp >= target and record.offset >= start_offset:
                    return FoundTimestamp(record.timestamp, record.offset, batch.leader_epoch)
        return None

    def largest_timestamp_after(self, position: Position) -> TimestampOffset:
        """Return the largest timestamp of the batches from a position on, and its batch's last offset.

        Of equal timestamps the first batch counts. (-1, -1) without a timestamp.
        """
        largest = TimestampOffset(NO_TIMESTAMP, -1)
        for batch in self.batches_from(position):
            if batch.max_timestamp > largest.timestamp:
                largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
        return largest
