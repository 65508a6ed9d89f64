"""`log/`: a part of a partition as a broker would have it on disk: whole batches, byte for byte.

The first .log file begins with the batch that holds the first record, and is named after that batch's first
offset; the last one ends with the batch of the last record. There are no indexes: a broker rebuilds them.
leader-epoch-checkpoint is cut as by a broker (truncated from the start and from the end), partition.metadata is
the partition's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from engine.checkpoint.leader_epoch_checkpoint import render
from engine.errors import KafkaStorageError
from engine.files.file_names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, log_file_name
from engine.log.segment.batch_search import first_offset
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.units import NO_TIMESTAMP, Offset, Position
from kafkafs.tree.content import FileContent
from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import FIRST_COOKIE, entry
from kafkafs.tree.lookups import end_offset, next_base, offsets_of_period, segment_with_base
from kafkafs.tree.node import Attrs, Cancel, Content, Entry, File, Kind, Node, mtime_of
from kafkafs.tree.partition.largest_timestamp import newest_timestamp
from kafkafs.tree.partition.partition import Partition, PartitionNode, retried
from kafkafs.tree.partition.source_folder import SourceFileNode
from kafkafs.tree.path_names import Period
from kafkafs.tree.plain_files import BytesFile

_NAME = re.compile(r"([0-9]{20})\.log")
_SIDE_FILES = (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA)
_FIRST_LOG_COOKIE = FIRST_COOKIE + len(_SIDE_FILES)


class Slice(NamedTuple):
    """Bytes [position, end_position) of a segment's .log, for records of [start, end)."""

    segment: LogSegment
    position: Position
    end_position: Position
    start: Offset
    end: Offset


class Slices:
    """Slices of a log between two record offsets. Cheap: created for each question."""

    def __init__(self, view: LogView, start: Offset, end: Offset) -> None:
        self.view = view
        self.start = start
        self.end = end
        self._first: tuple[LogSegment, Position, Offset] | None = None
        if start < end:
            self._first = self._find_first()

    def _find_first(self) -> tuple[LogSegment, Position, Offset] | None:
        """Return the first batch's segment, position and first offset."""
        found = self.view.locate(self.start)
        if found is None:
            return None
        segment = found[0]
        position = self.view.positions(segment, self.start, self.end)[0]
        run = next((i for i in segment.scan(position) if isinstance(i, BatchRun)), None)
        if run is None:
            return None
        return segment, position, first_offset(run)

    @property
    def base_offset(self) -> Offset | None:
        """First offset in the slices, or None if they are empty."""
        return None if self._first is None else self._first[2]

    def names(self, after: Offset = -1) -> Iterator[Offset]:
        """Yield the base offsets of the slices, above an offset."""
        if self._first is None:
            return
        segment, _, base = self._first
        if base > after:
            yield base
        following = next_base(self.view, max(segment.base_offset, after))
        while following is not None and following < self.end:
            if self._size_of(following):
                yield following
            following = next_base(self.view, following)

    def _size_of(self, base: Offset) -> int:
        segment = segment_with_base(self.view, base)
        return 0 if segment is None else segment.size

    def find(self, base: Offset) -> Slice | None:
        """Return the slice with a base offset."""
        if self._first is None:
            return None
        segment, position, first = self._first
        start = self.start
        if base != first:
            found = segment_with_base(self.view, base)
            if found is None or not segment.base_offset < base < self.end or not found.size:
                return None
            segment, position, start = found, 0, base
        following = end_offset(self.view, segment.base_offset)
        if following <= self.end:
            return Slice(segment, position, segment.size, start, following)
        end_position = self.view.positions(segment, start, self.end)[1]
        return Slice(segment, position, end_position, start, self.end)


class SliceFolder(PartitionNode):
    """`log/` of a period; also `/time/<period>/<topic-partition>/`."""

    __slots__ = ("_period",)

    def __init__(self, path: str, partition: Partition, period: Period) -> None:
        super().__init__(path, partition)
        self._period = period

    def slices(self, view: LogView) -> Slices:
        """Return the period's slices, as of a view."""
        return Slices(view, *offsets_of_period(view, self._period))

    @property
    def is_empty(self) -> bool:
        """Whether the period has no records."""
        return self.slices(self.partition.view()).base_offset is None

    @property
    def slow(self) -> bool:
        return True

    @retried
    def lookup(self, name: str) -> Node:
        partition = self.partition
        view = partition.view()
        slices = self.slices(view)
        if slices.base_offset is None:
            raise NotFound(self.child(name))
        if name == LEADER_EPOCH_CHECKPOINT:
            return self._epochs(view, slices)
        if name == PARTITION_METADATA:
            node = SourceFileNode(self.child(name), partition, PARTITION_METADATA)
            node.attrs()
            return node
        match = _NAME.fullmatch(name)
        if match is None or slices.find(int(match[1])) is None:
            raise NotFound(self.child(name))
        return SliceFile(self.child(name), self, int(match[1]))

    def entries(self, after: int = 0) -> Iterator[Entry]:
        slices = self.slices(self.partition.view())
        if slices.base_offset is None:
            return
        for index, name in enumerate(_SIDE_FILES):
            if FIRST_COOKIE + index > after and self._has(name):
                yield entry(self, name, Kind.FILE, FIRST_COOKIE + index)
        for base in slices.names(after - _FIRST_LOG_COOKIE):
            yield entry(self, log_file_name(base), Kind.FILE, base + _FIRST_LOG_COOKIE)

    def _has(self, name: str) -> bool:
        try:
            self.lookup(name)
        except NotFound:
            return False
        return True

    def _epochs(self, view: LogView, slices: Slices) -> Node:
        base = slices.base_offset
        entries = view.leader_epochs.entries_between(base or 0, slices.end)
        if not entries:
            raise NotFound(self.child(LEADER_EPOCH_CHECKPOINT))
        owner = self.partition.owner(view)
        return BytesFile(
            self.child(LEADER_EPOCH_CHECKPOINT),
            render(entries),
            owner,
            mtime_ns=owner.mtime_ns,
            ttl=self.partition.ttl(view),
        )


class SliceFile(File):
    """A part of a segment's .log file."""

    __slots__ = ("_base", "_folder")

    def __init__(self, path: str, folder: SliceFolder, base_offset: Offset) -> None:
        super().__init__(path)
        self._folder = folder
        self._base = base_offset

    @property
    def partition(self) -> Partition:
        """The partition of the log."""
        return self._folder.partition

    @retried
    def attrs(self) -> Attrs:
        partition = self.partition
        view = partition.view()
        piece = self._piece(view)
        owner = partition.owner(view)
        try:
            timestamp = newest_timestamp(view, piece.start, piece.end)
        except KafkaStorageError:
            timestamp = NO_TIMESTAMP
        mtime = owner.mtime_ns if timestamp == NO_TIMESTAMP else mtime_of(timestamp)
        size = piece.end_position - piece.position
        return owner.file(self.path, size, mtime, partition.ttl(view))

    @retried
    def open(self, cancel: Cancel | None = None) -> Content:
        view = self.partition.view()
        piece = self._piece(view)
        return FileContent(
            piece.segment.file,
            piece.position,
            piece.end_position,
            view.log.problems,
            piece.segment.path,
        )

    def _piece(self, view: LogView) -> Slice:
        piece = self._folder.slices(view).find(self._base)
        if piece is None:
            raise NotFound(self.path)
        return piece
