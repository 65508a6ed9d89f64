"""Contents that need no decoding to lines: bytes in memory, byte ranges of source files, inflated batches."""

from __future__ import annotations

import os
import threading
from functools import partial

from engine.budgets import MiB
from engine.errors import UnreadableError
from engine.files.source_files import SourceFile
from engine.log.segment.damage import DamageKind
from engine.log.segment.problems import Problems
from kafkafs.decode.chunk_cache import ChunkCache
from kafkafs.decode.rendered_batch import RenderedBatch
from kafkafs.tree.node import Content


class BytesContent(Content):
    """Bytes in memory."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.identity = hash(data)

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def in_memory(self) -> bytes:
        return self.data

    def read_now(self, position: int, size: int) -> bytes:
        data = self.data
        if position == 0 and size >= len(data):
            return data
        return data[position : position + size]

    read = read_now


class _Buffer(threading.local):
    """A buffer of each thread, for reads that must not block."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(1 << 20))


_buffer = _Buffer()


class FileContent(Content):
    """Bytes [start, end) of a source file, which stays open. If the file is truncated later, reads are short.

    Args:
        file, start, end: the byte range.
        problems: where to note unreadable bytes.
        name: the file's name in `problems`.
    """

    __slots__ = ("_end", "_file", "_name", "_problems", "_start")

    def __init__(
        self,
        file: SourceFile,
        start: int,
        end: int,
        problems: Problems | None = None,
        name: str = "",
    ) -> None:
        self._file = file
        self._start = start
        self._end = end
        self._problems = problems
        self._name = name
        self.identity = hash((file.device, file.inode, start, end, file.stat().st_mtime_ns))

    @property
    def lineage(self) -> int:
        """A file that grows keeps its lineage."""
        return hash((self._file.device, self._file.inode, self._start))

    @property
    def size(self) -> int:
        return self._end - self._start

    def read_now(self, position: int, size: int) -> bytes | memoryview | None:
        start = self._start + position
        size = min(size, self._end - start)
        if size <= 0:
            return b""
        if self._file.unreadable is not None:
            return None
        view = _buffer.view[:size]
        try:
            got = os.preadv(self._file.fd, [view], start, os.RWF_NOWAIT)
        except OSError:  # not in the page cache, or the file system does not support RWF_NOWAIT
            return None
        return view if got == size else None

    def read(self, position: int, size: int) -> bytes:
        start = self._start + position
        size = min(size, self._end - start)
        try:
            return self._file.read_at(start, size) if size > 0 else b""
        except UnreadableError as error:
            if self._problems is not None:
                self._problems.add_error(DamageKind.UNREADABLE, self._name, error)
            raise

    @property
    def has_unreadable(self) -> bool:
        return self._file.unreadable_in(self._start, self._end) is not None

    def read_up_to_unreadable(self, position: int, size: int) -> bytes:
        try:
            return self.read(position, size)
        except UnreadableError as error:
            before = error.position - self._start - position
            if before <= 0:
                raise
        return self.read_up_to_unreadable(position, before)

    def unreadable_end(self, error: UnreadableError) -> int:
        return min(error.position + error.length, self._end) - self._start


class InflatedContent(Content):
    """A range of the bytes that a compressed batch inflates to. Pieces of 8 MiB are cached."""

    __slots__ = ("_batch", "_chunks", "_size", "_start")

    PIECE = 8 * MiB

    def __init__(self, batch: RenderedBatch, start: int, size: int, chunks: ChunkCache) -> None:
        self._batch = batch
        self._start = start
        self._chunks = chunks
        self._size = size
        facts = (batch.segment.identity, batch.header("position"), batch.header("crc"), start)
        self.identity = hash(facts)

    @property
    def size(self) -> int:
        return self._size

    def read_now(self, position: int, size: int) -> bytes | None:
        return None

    def read(self, position: int, size: int) -> bytes:
        end = min(position + size, self._size)
        parts = []
        while position < end:
            number, at = divmod(position, self.PIECE)
            key = "inflated", self.identity, number
            piece = self._chunks.get(key, partial(self._piece, number))
            parts.append(piece[at : at + end - position])
            position += len(parts[-1])
        return b"".join(parts)

    def _piece(self, number: int) -> bytes:
        first = self._start + number * self.PIECE
        last = min(first + self.PIECE, self._start + self._size)
        return bytes(self._batch.columns().arena[first:last])
