"""Batches one after the other, from a buffer, a file or a stream: the header first, the rest when needed.

Each stops quietly (None) where what is left is shorter than a header or than the batch that it starts:
that is how the end of a log looks while it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Protocol

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.layout import Buffer
from engine.errors import CorruptRecordError, LimitExceededError
from engine.record.batch_frame import HEADER, UP_TO_MAGIC
from engine.record.record_batch import (
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
        """Its name, for errors."""

    def size(self) -> int:
        """How large it is now, in bytes."""

    def read_at(self, position: int, size: int) -> bytes:
        """Bytes from a position on: all that were asked for, or up to the end of the file."""


class ReadableStream(Protocol):
    """A stream that is read from the front, such as a pipe."""

    def read(self, size: int, /) -> bytes:
        """At most that many bytes; none at the end."""


class LogInputStream(Protocol):
    """Where batches come from."""

    def next_batch(self) -> RecordBatch | None:
        """Return the next whole batch; None at the end. CorruptRecordError for a frame that cannot be."""


def iterate(stream: LogInputStream) -> Iterator[RecordBatch]:
    """Yield all batches that are left in a stream."""
    while (batch := stream.next_batch()) is not None:
        yield batch


class BufferLogInputStream:
    """Batches of a buffer; they are views of it.

    Args:
        buffer: starts with a batch.
        largest: the largest length field that is allowed; None for any.
        file_position: where the buffer starts in its file.
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
        """Return the next whole batch; None at the end. CorruptRecordError for a frame that cannot be."""
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
    """Batches of a file between two positions: reads a header each, and the records only when asked for.

    Args:
        file: read by position; it may grow or shrink meanwhile.
        position: where a batch starts.
        end: where to stop; a batch that passes it does not count.
        budgets: how large a batch may be that is read whole.
    """

    def __init__(
        self, file: ReadableFile, position: int, end: int, budgets: Budgets = DEFAULT_BUDGETS
    ) -> None:
        self._file = file
        self._position = position
        self._end = end
        self._budgets = budgets

    def next_batch(self) -> RecordBatch | None:
        """Return the next whole batch; None at the end. CorruptRecordError for a frame that cannot be."""
        position, end, path = self._position, self._end, self._file.path
        if position >= end - UP_TO_MAGIC:
            return None
        wanted = min(HEADER.size, end - position)
        head = self._file.read_at(position, wanted)
        size = batch_size(head, 0, file_position=position, path=path)
        # The file was truncated since, or the batch does not end within it.
        if size is None or size > end - position or len(head) < min(wanted, size):
            return None
        self._position = position + size
        load = partial(read_batch, self._file, position, size, self._budgets)
        return make_batch(head, file_position=position, path=path, load=load)


class StreamLogInputStream:
    """Batches of a stream, each read whole.

    Args:
        stream: starts with a batch.
        path: a name for it, for errors.
        budgets: how large a batch may be.
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
            CorruptRecordError: the batch's frame cannot be.
            LimitExceededError: the batch is larger than may be read.
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
        """So many bytes, or fewer at the end: a pipe gives what it has."""
        data = self._stream.read(size)
        while data and len(data) < size:
            more = self._stream.read(size - len(data))
            if not more:
                break
            data += more
        return data


def read_batch(file: ReadableFile, position: int, size: int, budgets: Budgets) -> bytes:
    """Return the bytes of a batch whose header was read before.

    Raises:
        LimitExceededError: it is larger than may be read.
        CorruptRecordError: the file ends before it does; it was truncated since.
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
