"""Sizes and ages of a log's segments, and the files that go with each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from engine.files.file_names import SEGMENT_KINDS, producer_snapshot_name
from engine.log.partition_log import PartitionLog
from engine.log.segment.batch_search import LOOK_UP_CHUNK
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.units import MAX_INT64, NO_TIMESTAMP, Offset, Timestamp, TopicPartition

_BLOCK = 512


class ListedSegment(NamedTuple):
    """A segment, as the rules for deletion see it.

    Attributes:
        base_offset, size: as in its name; bytes of its records file.
        largest_timestamp: largest timestamp; the modification time of its records file without one.
        is_modification_time: whether it is that time.
        modified: modification time of its records file.
        files: names of the files that go with it.
        allocated: bytes that these take on the disk.
    """

    base_offset: Offset
    size: int
    largest_timestamp: Timestamp
    is_modification_time: bool
    modified: Timestamp
    files: tuple[str, ...]
    allocated: int


@dataclass(frozen=True, slots=True)
class AgedLog:
    """A log with the ages of its segments.

    Attributes:
        partition, name: topic and partition; name of the log in its source.
        folder: its folder, as shown to people.
        log_start_offset, log_end_offset: offsets of the log.
        segments: its segments, ascending; the last one is active.
        first_timestamp: largest timestamp of the oldest batch; -1 without one.
        cleaner_offset: offset that the log was compacted up to, None if unknown.
        view: the log.
    """

    partition: TopicPartition
    name: str
    folder: str
    log_start_offset: Offset
    log_end_offset: Offset
    segments: tuple[ListedSegment, ...]
    first_timestamp: Timestamp
    cleaner_offset: Offset | None
    view: LogView

    @property
    def size(self) -> int:
        """Bytes of all records files."""
        return sum(segment.size for segment in self.segments)

    @classmethod
    def of(cls, log: PartitionLog) -> AgedLog | None:
        """Return a log with its ages; None for one without segments.

        Raises:
            OSError: the log cannot be read.
        """
        view = log.view()
        if not view.base_offsets:
            return None
        segments = tuple(_ages(view))
        return cls(
            log.topic_partition,
            log.name,
            log.root.display(log.folder),
            view.log_start_offset,
            view.log_end_offset,
            segments,
            first_timestamp(view.segment_at(0)),
            log.checkpoints.cleaner_offset(log.topic_partition),
            view,
        )

    def first_timestamps_from(self, offset: Offset) -> list[Timestamp]:
        """Return the timestamps of the first batches of the segments from the floor of an offset on."""
        return [first_timestamp(segment) for segment in self.view.segments_from(offset)]


def first_timestamp(segment: LogSegment) -> Timestamp:
    """Return the largest timestamp of a segment's first batch; -1 without one."""
    for item in segment.scan(0, chunk=LOOK_UP_CHUNK):
        if isinstance(item, BatchRun):
            return int(item.table["max_timestamp"][0])
    return NO_TIMESTAMP


def _ages(view: LogView) -> Iterator[ListedSegment]:
    log, listing = view.log, view.listing
    snapshots = set(listing.producer_snapshots)
    for place in range(len(view)):
        segment = view.segment_at(place)
        base = segment.base_offset
        names = [
            listing.real(f"{base:020}{kind.value}")
            for kind in SEGMENT_KINDS
            if listing.has_file(listing.real(f"{base:020}{kind.value}"))
        ]
        records = log.only or listing.real(f"{base:020}.log")
        if base in snapshots:
            names.append(producer_snapshot_name(base))
        status = dict(log.root.stat_files(log.folder, {*names, records}))
        if records not in status:  # deleted since
            continue
        # Whole milliseconds, as File.lastModified returns them.
        modified = status[records].st_mtime_ns // 1_000_000
        largest = segment.newest().timestamp
        yield ListedSegment(
            base,
            segment.size,
            modified if largest < 0 else min(largest, MAX_INT64),
            largest < 0,
            modified,
            tuple(sorted(status)),
            sum(each.st_blocks for each in status.values()) * _BLOCK,
        )
