"""`time/<period>/exact.jsonl`: exactly the records with timestamps in the period, from anywhere in the log.

A period is a range of offsets. In a log with timestamps out of order the range holds records of other times and
misses some of its own. This file has exactly the period's records in offset order, control records too, and a line
{"error": ...} where records may be missing. It decodes everything from the first segment with a new enough
record, so it is for investigations, not for regular use.

The text is not kept. Opening the file measures its size in one pass and leaves a mark about every 512 KiB: an
offset from which the text can be made again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import groupby
from threading import Lock
from typing import NamedTuple

from engine.log.view.log_view import LogView
from engine.units import MAX_INT64, NO_TIMESTAMP, Offset
from kafkafs.decode.failures import Cancelled, ChangedFileError
from kafkafs.tree.node import Attrs, Cancel, Content, File, mtime_of
from kafkafs.tree.partition.partition import Partition, retried
from kafkafs.tree.path_names import Period
from kafkafs.tree.streams import LineSource, bytes_on_disk, text_of

_MARK_EVERY = 512 * 1024
_GUESSED_RATIO = 4
_HEAD = re.compile(
    rb'\{"topic":"(?:[^"\\]|\\.)*","partition":-?\d+,"offset":(\d+),"timestamp":(-?\d+),'
)


class _Mark(NamedTuple):
    """Position of a piece of the text, and the first offset of its records."""

    position: int
    offset: Offset


class ExactFile(File):
    """`exact.jsonl` of a period. Its size is an estimate until it is opened."""

    __slots__ = ("_period", "partition")

    slow = True
    has_error_lines = True

    def __init__(self, path: str, partition: Partition, period: Period) -> None:
        super().__init__(path)
        self.partition = partition
        self._period = period

    @retried
    def attrs(self) -> Attrs:
        partition = self.partition
        view = partition.view()
        owner = partition.owner(view)
        disk = bytes_on_disk(self._source(view), view)
        newest = view.max_timestamp
        timestamp = NO_TIMESTAMP if newest is None else newest.timestamp
        if self._period.end_ms is not None:
            timestamp = min(timestamp, self._period.end_ms)
        mtime = owner.mtime_ns if timestamp == NO_TIMESTAMP else mtime_of(timestamp)
        size = disk * _GUESSED_RATIO
        return owner.file(self.path, size, mtime, partition.ttl(view), exact=disk == 0)

    @retried
    def open(self, cancel: Cancel | None = None) -> Content:
        view = self.partition.view()
        return ExactContent(self, view, self._source(view), cancel)

    def chunks(self) -> Iterator[bytes]:
        view = self.partition.view()
        jobs = self.partition.context.options.jobs
        for lines in self.lines(view, self._source(view), jobs):
            for is_error, some in groupby(lines, lambda each: each[0] is None):
                texts = (text for _, text in some)
                yield from texts if is_error else (b"".join(texts),)

    def lines(
        self, view: LogView, source: LineSource, jobs: int = 1
    ) -> Iterator[list[tuple[Offset | None, bytes]]]:
        """Yield the lines of the file with their offsets, some at a time. The offset of an error line is None.

        Args:
            view: the log.
            source: the records to choose from.
            jobs: number of threads that make the lines.
        """
        partition = self.partition
        rest = b""
        for text in text_of(source, view, partition.options, partition.context.budgets, jobs):
            whole, newline, rest = (rest + text).rpartition(b"\n")
            if newline:
                yield [
                    found
                    for line in whole.split(b"\n")
                    if (found := self._chosen(line + newline)) is not None
                ]
        if rest and (found := self._chosen(rest)) is not None:
            yield [found]

    def _chosen(self, line: bytes) -> tuple[Offset | None, bytes] | None:
        head = _HEAD.match(line)
        if head is None:
            return None, line
        timestamp = int(head[2])
        start, end = self._period
        if (start is not None and timestamp < start) or (end is not None and timestamp >= end):
            return None
        return int(head[1]), line

    def _source(self, view: LogView) -> LineSource:
        """Return the log from the first segment with a record at or after the period's start."""
        start = view.log_start_offset
        if self._period.start_ms is not None:
            found = view.offset_for_time(self._period.start_ms)
            start = view.log_end_offset if found is None else found.offset
        return LineSource(self.partition.name, None, start, view.log_end_offset)


class ExactContent(Content):
    """Text of an opened file, from the log at the moment of opening."""

    __slots__ = (
        "_file",
        "_lock",
        "_marks",
        "_next",
        "_size",
        "_source",
        "_stream",
        "_view",
        "_waiting",
    )

    def __init__(
        self, file: ExactFile, view: LogView, source: LineSource, cancel: Cancel | None
    ) -> None:
        self._file = file
        self._view = view
        self._source = source
        self._marks = [_Mark(0, source.start)]
        self._size = 0
        self._stream: Iterator[list[tuple[Offset | None, bytes]]] = iter(())
        self._waiting = b""
        self._next = -1
        self._lock = Lock()
        for lines in file.lines(view, source):
            if cancel is not None and cancel():
                raise Cancelled
            self._measure(lines)
        self.identity = hash((file.path, view.generation, source, self._size))

    def _measure(self, lines: list[tuple[Offset | None, bytes]]) -> None:
        for offset, line in lines:
            if offset is not None and self._size - self._marks[-1].position >= _MARK_EVERY:
                self._marks.append(_Mark(self._size, offset))
            self._size += len(line)

    @property
    def size(self) -> int:
        return self._size

    def read_now(self, position: int, size: int) -> bytes | None:
        return b"" if position >= self._size else None

    def read(self, position: int, size: int) -> bytes:
        end = min(position + size, self._size)
        if position >= end:
            return b""
        with self._lock:
            return self._read(position, end)

    def _read(self, position: int, end: int) -> bytes:
        if position != self._next:
            self._go_to(position)
        self._fill(end - position)
        data, self._waiting = self._waiting[: end - position], self._waiting[end - position :]
        self._next = end
        return data

    def _go_to(self, position: int) -> None:
        mark = self._marks[bisect_right(self._marks, (position, MAX_INT64)) - 1]
        source = self._source._replace(start=mark.offset)
        self._stream = self._file.lines(self._view, source)
        self._waiting = b""
        skipped = position - mark.position
        self._fill(skipped)
        self._waiting = self._waiting[skipped:]

    def _fill(self, size: int) -> None:
        while len(self._waiting) < size:
            lines = next(self._stream, None)
            if lines is None:
                reason = "the log was changed since this file was opened"
                raise ChangedFileError(reason, path=self._file.path)
            self._waiting += b"".join(line for _, line in lines)
