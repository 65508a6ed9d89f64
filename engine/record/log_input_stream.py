"""Iterate over batches in a buffer, a file or a stream: the header first, the rest when needed.

Each stream ends (None) where fewer bytes are left than a header or the batch has: so does a log
that is being written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol, TypeAlias

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.fixed_width import read_int32
from engine.coding.layout import Buffer
from engine.errors import CorruptRecordError, LimitExceededError
from engine.record.batch_frame import HEADER, LENGTH_POSITION, LOG_OVERHEAD, UP_TO_MAGIC
from engine.record.record_batch import (
    MINIMUM_LENGTH,
    RecordBatch,
    batch_at,
    batch_size,
    make_batch,
)

_PIECE = 1024 * 1024


class ReadableFile(Protocol):
    """A file that is read by position, such as a SourceFile."""

    @property
    def path(self) -> str:
        """Path of the file, for errors."""

    def size(self) -> int:
        """Return the current size of the file in bytes."""

    def read_at(self, position: int, size: int) -> bytes:
        """Return `size` bytes from a position on, fewer only at the end of the file."""


class ReadableStream(Protocol):
    """A stream that is read from the front, such as a pipe."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, none at the end."""


class LogInputStream(Protocol):
    """Source of batches."""

    def next_batch(self) -> RecordBatch | None:
        """Return the next whole batch; None at the end. Raises CorruptRecordError for an impossible frame."""


def iterate(stream: LogInputStream) -> Iterator[RecordBatch]:
    """Yield the batches that are left in a stream."""
    while (batch := stream.next_batch()) is not None:
        yield batch


class BufferLogInputStream:
    """Batches of a buffer, as views of it.

    Args:
        buffer: bytes that start with a batch.
        largest: largest allowed length field; None for any.
        file_position: position of the buffer in its file.
        path: the file, for errors.
    """

    def __init__(
        self,
        buffer: Buffer,
        *,
        largest: int | None = None,
        file_position: int = 0,
        path: str | None = None,
    ) -> None:
        self._buffer = memoryview(buffer)
        self._largest = largest
        self._file_position = file_position
        self._path = path
        self._position = 0

    def next_batch(self) -> RecordBatch | None:
        """Return the next whole batch; None at the end. Raises CorruptRecordError for an impossible frame."""
        if self._position == len(self._buffer):
            return None
        batch = batch_at(
            self._buffer,
            self._position,
            file_position=self._file_position + self._position,
            path=self._path,
            largest=self._largest,
        )
        if batch is not None:
            self._position += batch.size
        return batch


class FileLogInputStream:
    """Batches of a file between two positions; reads a header each, and the records only on demand.

    Args:
        file: file that is read by position; it may grow or shrink while batches are read.
        position: position of a batch.
        end: position to stop at; a batch across it does not count.
        budgets: limit of a batch that is read whole.
    """

    def __init__(
        self, file: ReadableFile, position: int, end: int, budgets: Budgets = DEFAULT_BUDGETS
    ) -> None:
        self._file = file
        self._position = position
        self._end = end
        self._budgets = budgets

    def next_batch(self) -> RecordBatch | None:
        """Return the next whole batch; None at the end. Raises CorruptRecordError for an impossible frame."""
        position, end, path = self._position, self._end, self._file.path
        if position >= end - UP_TO_MAGIC:
            return None
        wanted = min(HEADER.size, end - position)
        head = self._file.read_at(position, wanted)
        # The file was truncated since its size was read, or the batch does not end within the file. As in Kafka, that is
        # looked at before the magic: noise behind the last batch is its end, unless its length is too small for any.
        if len(head) < UP_TO_MAGIC:
            return None
        length = read_int32(head, LENGTH_POSITION)
        if length >= MINIMUM_LENGTH[0] and length > end - position - LOG_OVERHEAD:
            return None
        size = batch_size(head, 0, file_position=position, path=path)
        if size is None or len(head) < min(wanted, size):
            return None
        self._position = position + size
        load = partial(read_batch, self._file, position, size, self._budgets)
        return make_batch(head, file_position=position, path=path, load=load)


Walk: TypeAlias = Callable[[ReadableFile, int, int, Budgets], Iterator[RecordBatch]]
"""Iterates over the batches of a file from a position up to an end."""


def walk_batches(
    file: ReadableFile, position: int, end: int, budgets: Budgets
) -> Iterator[RecordBatch]:
    """Iterate over the batches of a file, as FileLogInputStream finds them."""
    return iterate(FileLogInputStream(file, position, end, budgets))


class StreamLogInputStream:
    """Batches of a stream, each read whole.

    Args:
        stream: stream that starts with a batch.
        path: a name for it, for errors.
        budgets: limit of a batch.
    """

    def __init__(
        self,
        stream: ReadableStream,
        *,
        path: str | None = None,
        budgets: Budgets = DEFAULT_BUDGETS,
    ) -> None:
        self._stream = stream
        self._path = path
        self._budgets = budgets
        self._position = 0

    def next_batch(self) -> RecordBatch | None:
        """Return the next whole batch; None at the end.

        Raises:
            CorruptRecordError: the frame is impossible.
            LimitExceededError: the batch is larger than the budget.
        """
        data = bytearray(self._read(UP_TO_MAGIC))
        size = batch_size(data, 0, file_position=self._position, path=self._path)
        if size is None:
            return None
        if size > self._budgets.batch_bytes:
            raise _too_large(size, self._position, self._path, self._budgets)
        while len(data) < size:
            piece = self._read(min(size - len(data), _PIECE))
            if not piece:
                return None
            data += piece
        batch = make_batch(data, file_position=self._position, path=self._path)
        self._position += size
        return batch

    def _read(self, size: int) -> bytes:
        """Return `size` bytes, or fewer at the end: a pipe may give fewer than wanted at once."""
        data = self._stream.read(size)
        while data and len(data) < size:
            more = self._stream.read(size - len(data))
            if not more:
                break
            data += more
        return data


def read_batch(file: ReadableFile, position: int, size: int, budgets: Budgets) -> bytes:
    """Return the bytes of a batch after its header was read.

    Raises:
        LimitExceededError: the batch is larger than the budget.
        CorruptRecordError: the file ends before the batch; it was truncated since.
    """
    if size > budgets.batch_bytes:
        raise _too_large(size, position, file.path, budgets)
    data = file.read_at(position, size)
    if len(data) < size:
        raise CorruptRecordError(
            "the file ends inside the batch",
            path=file.path,
            position=position,
            expected=f"{size} bytes",
            found=len(data),
        )
    return data


def _too_large(size: int, position: int, path: str | None, budgets: Budgets) -> LimitExceededError:
    return LimitExceededError(
        "the batch is too large to be read",
        limit="batch_bytes",
        path=path,
        position=position,
        expected=f"at most {budgets.batch_bytes} bytes",
        found=size,
    )
