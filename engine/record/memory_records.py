"""Batches in a buffer."""

from __future__ import annotations

from collections.abc import Iterator

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.layout import Buffer
from engine.record.log_input_stream import BufferLogInputStream, iterate
from engine.record.record import Record
from engine.record.record_batch import RecordBatch, batch_size


class MemoryRecords:
    """A run of batches in a buffer, which is neither copied nor changed.

    Args:
        buffer: bytes that start with a batch.
        file_position: position of the buffer in its file; positions of the methods are absolute in the file.
        path: the file, for errors.

    Attributes:
        size: bytes, of whole batches or not.
    """

    __slots__ = ("buffer", "path", "size", "start")

    def __init__(self, buffer: Buffer, *, file_position: int = 0, path: str | None = None) -> None:
        self.buffer = memoryview(buffer)
        self.size = len(self.buffer)
        self.start = file_position
        self.path = path

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MemoryRecords):
            return NotImplemented
        return self.buffer == other.buffer

    def __hash__(self) -> int:
        return hash(bytes(self.buffer))

    @property
    def end(self) -> int:
        """Position after the last byte."""
        return self.start + len(self.buffer)

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the batches, up to the first that is not whole. Raises CorruptRecordError for an impossible frame."""
        return iterate(BufferLogInputStream(self.buffer, file_position=self.start, path=self.path))

    def records(self, budgets: Budgets = DEFAULT_BUDGETS) -> Iterator[Record]:
        """Yield the records of all batches."""
        for batch in self.batches():
            yield from batch.records(budgets)

    @property
    def valid_bytes(self) -> int:
        """Bytes of the whole batches."""
        return sum(batch.size for batch in self.batches())

    def next_batch_size(self) -> int | None:
        """Return the size of the first batch, whole or not; None when the buffer ends before its magic.

        Raises:
            CorruptRecordError: the length or the magic is impossible.
        """
        return batch_size(self.buffer, 0, file_position=self.start, path=self.path)

    def slice(self, position: int, size: int) -> MemoryRecords:
        """Return the part from an absolute position on, cut at the buffer's end.

        Raises:
            ValueError: the position is outside the buffer, or the size is negative.
        """
        if not self.start <= position <= self.end:
            raise ValueError(f"position {position} is not within {self.start} to {self.end}")
        if size < 0:
            raise ValueError(f"the size {size} is negative")
        offset = position - self.start
        return MemoryRecords(
            self.buffer[offset : offset + size], file_position=position, path=self.path
        )
