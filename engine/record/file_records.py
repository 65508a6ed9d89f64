"""Batches in a file, or in a part of one: slices, search by offset, search by timestamp."""

from __future__ import annotations

from collections.abc import Iterator

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.errors import KafkaStorageError
from engine.record.log_input_stream import FileLogInputStream, ReadableFile, iterate
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
    """Batches of a file between two positions, which never change: what a live file gains is not seen.

    All positions are absolute in the file, also those of slices. Threads may share it; it owns no
    descriptor and closes nothing.

    Args:
        file: read by position.
        start: where the first batch starts.
        end: where to stop; None for the file's size now.
        is_slice: do not look at the file's size: `end` is taken as it is.
        largest: the largest file that is allowed, Kafka's 2^31-1 bytes; None for any.
        budgets: how large a batch may be that is read whole, and what it may inflate to.

    Raises:
        KafkaStorageError: the file is larger than `largest`.
        ValueError: a slice without an end.
    """

    __slots__ = ("_budgets", "end", "file", "is_slice", "start")

    def __init__(
        self,
        file: ReadableFile,
        start: Position = 0,
        end: Position | None = None,
        is_slice: bool = False,
        *,
        largest: int | None = MAX_INT32,
        budgets: Budgets = DEFAULT_BUDGETS,
    ) -> None:
        self.file = file
        self.start = start
        self.is_slice = is_slice
        self._budgets = budgets
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
        """File's name, for errors."""
        return self.file.path

    def slice(self, position: Position, size: int) -> FileRecords:
        """Return the part from an absolute position on, as long as this one reaches.

        Raises:
            ValueError: the position is outside this part, or the size is negative.
        """
        if not self.start <= position <= self.end:
            raise ValueError(f"position {position} is not within {self.start} to {self.end}")
        if size < 0:
            raise ValueError(f"the size {size} is negative")
        end = min(position + size, self.end)
        return FileRecords(self.file, position, end, True, budgets=self._budgets)

    def read_into(self, buffer: bytearray | memoryview, position: Position) -> int:
        """Fill a buffer from an absolute position on; how many bytes there were before the end."""
        data = self.file.read_at(position, max(0, min(len(buffer), self.end - position)))
        buffer[: len(data)] = data
        return len(data)

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the batches, up to the first that is not whole. CorruptRecordError where a frame cannot be."""
        return self.batches_from(self.start)

    def batches_from(self, position: Position) -> Iterator[RecordBatch]:
        """Yield the batches from an absolute position on, which must be where one starts."""
        return iterate(FileLogInputStream(self.file, position, self.end, self._budgets))

    def records(self) -> Iterator[Record]:
        """Yield the records of all batches."""
        for batch in self.batches():
            yield from batch.records(self._budgets)

    def search_for_offset(self, target: Offset, start_position: Position) -> BatchPosition | None:
        """Return the first batch from a position on whose last offset is at or above a target.

        The target itself may be in a gap; then it is the batch after the gap. The base offset that comes
        back is the one in the header, which for magic 0 and 1 is the last one.
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

        Looks from a position on and only at offsets from `start_offset` on. Raises what a batch's
        `records` raises when the answer would lie in a damaged one.
        """
        for batch in self.batches_from(start_position):
            if batch.max_timestamp < target:
                continue
            for record in batch.records(self._budgets):
                if record.timestamp >= target and record.offset >= start_offset:
                    return FoundTimestamp(record.timestamp, record.offset, batch.leader_epoch)
        return None

    def largest_timestamp_after(self, position: Position) -> TimestampOffset:
        """Return the largest timestamp of the batches from a position on, and the last offset of its batch.

        The first batch that has it wins. (-1, -1) when there is none.
        """
        largest = TimestampOffset(NO_TIMESTAMP, -1)
        for batch in self.batches_from(position):
            if batch.max_timestamp > largest.timestamp:
                largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
        return largest
