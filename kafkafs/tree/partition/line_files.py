"""Files of record lines: segments (records/, committed/), offset ranges and periods."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.errors import KafkaStorageError
from engine.log.view.log_view import LogView
from engine.units import NO_TIMESTAMP
from kafkafs.decode.line_stream import LineReader, LineStream
from kafkafs.decode.shown_text import plain_json
from kafkafs.tree.errors import NotFound
from kafkafs.tree.lookups import segment_with_base
from kafkafs.tree.node import Attrs, Cancel, Content, File, mtime_of
from kafkafs.tree.partition.largest_timestamp import newest_timestamp
from kafkafs.tree.partition.partition import Partition, retried
from kafkafs.tree.streams import (
    LineSource,
    bytes_on_disk,
    offsets_of,
    refuse_lost_range,
    text_of,
)

MEASURED_INLINE = 256 * 1024
"""Bytes on disk by which a stream may have grown for stat to measure it."""
GUESSED_RATIO = 4
"""Estimated bytes of text per byte on disk."""


class LineContent(Content):
    """An open stream of lines. Keeps the segment files open."""

    __slots__ = ("_is_open", "_reader", "_stream")

    def __init__(self, stream: LineStream) -> None:
        self._stream = stream
        self._reader = LineReader(stream)
        self._is_open = True
        self.identity = hash((stream.serial, stream.size))

    @property
    def lineage(self) -> int:
        """A stream only grows."""
        return hash(self._stream.serial)

    @property
    def size(self) -> int:
        return self._stream.size

    def read_now(self, position: int, size: int) -> bytes | memoryview | None:
        return self._reader.read_now(position, size)

    def notify(self, position: int, size: int, callback: Callable[[], object]) -> bool:
        return self._reader.notify(position, size, callback)

    def read(self, position: int, size: int) -> bytes:
        return self._reader.read(position, size)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._reader.close()
            self._stream.unpin()


class LineFile(File):
    """A file of record lines, decoded when it is opened.

    `source` returns the records to show for a view of the log; they can change with the log.
    """

    __slots__ = ("_source", "partition")

    slow = True
    has_error_lines = True

    def __init__(
        self, path: str, partition: Partition, source: Callable[[LogView], LineSource]
    ) -> None:
        super().__init__(path)
        self.partition = partition
        self._source = source

    @retried
    def attrs(self) -> Attrs:
        partition = self.partition
        view = partition.view()
        source = self._source_in(view)
        size, exact = self._size(view, source)
        owner = partition.owner(view)
        try:
            timestamp = newest_timestamp(view, *offsets_of(source, view))
        except KafkaStorageError:
            timestamp = NO_TIMESTAMP
        mtime = owner.mtime_ns if timestamp == NO_TIMESTAMP else mtime_of(timestamp)
        return owner.file(self.path, size, mtime, partition.ttl(view), exact=exact)

    def xattrs(self) -> dict[str, bytes]:
        """Return the damage found since the file was first opened, if any."""
        view = self.partition.view()
        stream = self.partition.context.streams.peek(self._source_in(view), view)
        if stream is None or not stream.findings.damage_count:
            return {}
        found = stream.findings
        facts = {"damagedPlaces": found.damage_count, "first": found.damage}
        return {"user.kafka.error": plain_json(facts)}

    @retried
    def open(self, cancel: Cancel | None = None) -> Content:
        partition = self.partition
        view = partition.view()
        source = self._source_in(view)
        refuse_lost_range(source, view)
        stream = partition.context.streams.obtain(source, view, partition.options)
        try:
            stream.measure(cancel)
        except BaseException:
            stream.unpin()
            raise
        return LineContent(stream)

    def chunks(self) -> Iterator[bytes]:
        """Decodes once, without measuring the size first."""
        partition = self.partition
        view = partition.view()
        context = partition.context
        source = self._source_in(view)
        refuse_lost_range(source, view)
        yield from text_of(source, view, partition.options, context.budgets, context.options.jobs)

    def _source_in(self, view: LogView) -> LineSource:
        source = self._source(view)
        if source.base_offset is not None and segment_with_base(view, source.base_offset) is None:
            raise NotFound(self.path)
        return source

    def _size(self, view: LogView, source: LineSource) -> tuple[int, bool]:
        context = self.partition.context
        stream = context.streams.peek(source, view)
        if stream is None:
            disk = bytes_on_disk(source, view)
            if disk:
                return disk * GUESSED_RATIO, False
            # No bytes, but maybe a line of what they lost. Which transactions ended may cost a pass over the log.
            shown = source._replace(committed=False)
            text = text_of(shown, view, self.partition.options, context.budgets)
            size = sum(map(len, text))
            return size, not size
        if stream.measure_now(MEASURED_INLINE):
            return stream.size, True
        if stream.is_pinned and stream.size:
            return (
                stream.size,
                False,
            )  # with a larger size the kernel would fill the rest with zeros
        return stream.size + stream.unmeasured_bytes * GUESSED_RATIO, False
