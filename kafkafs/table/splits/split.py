"""Splits: byte ranges of segments, cut at batches that an offset index or a walk finds.

Nothing is decoded here. A split names the file that it was planned on: a reader that finds another file there
(the broker compacts) looks up the same offsets instead.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from engine.log.partition_log import PartitionLog
from engine.log.segment.batch_search import Extent
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.segment_cuts import Cut, cut
from engine.log.view.log_view import LogView
from engine.record.fate import Fate
from engine.units import MAX_INT64, Offset, Position, TopicPartition
from engine.verdict.log_losses import losses_of
from kafkafs.table.errors import LostRecordsError


class QueryRange(NamedTuple):
    """Offsets [start, stop) of a partition; if part of a larger range, whether it is the first and the last part."""

    partition: TopicPartition
    start: Offset
    stop: Offset
    is_first: bool = True
    is_last: bool = True

    @property
    def size(self) -> int:
        """Number of offsets; there may be fewer records."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A part of a segment for one reader; small, and picklable.

    Attributes:
        source: absolute path of the partition's folder, or of its only .log file.
        path: path of the records file.
        partition: topic and number.
        segment: base offset of the segment.
        identity: device and inode of the records file when the split was planned.
        position, end_position: byte range in the file.
        next_offset: smallest offset that may follow at `position`.
        start, stop: the wanted offsets.
        part_start, part_stop: the offsets of the byte range.
        file_size: end of batches and damage in the file.
        is_first, is_last: whether first and last split of a range; of two splits one reports damage across their border.
        at_log_end: whether the wanted offsets end at the log end.
        owner: owner of the log dir by its meta.properties; None if unknown.
        topic_id: topic id in partition.metadata; None if there is none.
        leftover: name of the file or folder, if a broker set it aside; "" for a log.
        copies: paths of the partition's folders, if the log is joined of several nodes' copies.
        then: end of the log and fates of the transactions whose end is cut off, by producer id, of a log as of a moment.
    """

    source: str
    path: str
    partition: TopicPartition
    segment: Offset
    identity: tuple[int, int]
    position: Position
    end_position: Position
    next_offset: Offset
    start: Offset
    stop: Offset
    part_start: Offset
    part_stop: Offset
    file_size: int
    is_first: bool = True
    is_last: bool = True
    at_log_end: bool = False
    owner: str | None = None
    topic_id: str | None = None
    leftover: str = ""
    copies: tuple[str, ...] = ()
    then: tuple[Offset, dict[int, Fate]] | None = None

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.end_position - self.position

    @property
    def wanted(self) -> tuple[Offset, Offset]:
        """The wanted offsets in the byte range."""
        return max(self.start, self.part_start), min(self.stop, self.part_stop)


NO_SEGMENT = -1
"""Segment of a split for a range without batches whose records are lost."""


def reaches_lost_end(view: LogView, wanted: QueryRange) -> bool:
    """Return whether an empty range is at the end of a log that has lost its last records."""
    if not wanted.start == wanted.stop == view.log_end_offset:
        return False
    return view.lost_segment is not None or losses_of(view).end is not None


def plan(
    view: LogView, wanted: QueryRange, split_bytes: int, owner: str | None = None
) -> Iterator[Split]:
    """Yield the non-empty splits of a range of offsets, in log order."""
    is_empty = True
    for segment, whole in _parts(view, wanted, owner):
        is_empty = False
        yield from _pieces(segment, whole, split_bytes)
    if is_empty and losses_of(view).instead_of(wanted.start, wanted.stop):
        yield _lost(view, wanted, owner)


def plan_leftover(view: LogView, wanted: QueryRange, split_bytes: int) -> Iterator[Split]:
    """Yield the splits of a file or folder that a broker set aside; what it lacks is no loss."""
    for segment, whole in _parts(view, wanted, None):
        yield from _pieces(segment, replace(whole, leftover=view.name), split_bytes)


def plan_live(log: PartitionLog, wanted: QueryRange, split_bytes: int) -> Iterator[Split]:
    """Yield the splits of a range one by one, while a broker may roll, compact and delete segments.

    Raises:
        LostRecordsError: the broker deleted offsets of the range.
    """
    start, failed_at = wanted.start, -1
    while True:
        is_first = wanted.is_first and start == wanted.start
        try:
            for split in plan(
                log.view(0), wanted._replace(start=start, is_first=is_first), split_bytes
            ):
                yield split
                start = split.part_stop
            return
        except FileNotFoundError as error:
            bases = log.view(0).base_offsets
            if failed_at == start or not bases or bases[0] > start:
                why = f"a segment is gone: {error}"
                stop = min(bases[0], wanted.stop) if bases and bases[0] > start else wanted.stop
                raise LostRecordsError(wanted.partition, start, stop, why) from error
            failed_at = start


def plan_segments(view: LogView, wanted: QueryRange, owner: str | None = None) -> Iterator[Split]:
    """Yield a split of the whole segment for each segment of a range."""
    for segment, part in _parts(view, wanted, owner):
        yield replace(
            part,
            position=0,
            end_position=segment.tail_end,
            next_offset=segment.base_offset,
            start=part.part_start,
            stop=min(part.part_stop, view.log_end_offset),
            at_log_end=True,
        )


def _parts(
    view: LogView, wanted: QueryRange, owner: str | None
) -> Iterator[tuple[LogSegment, Split]]:
    """Yield the part of each segment of a range as one split."""
    log = view.log
    source = log.root.display("/".join(name for name in (log.folder, log.only) if name))
    for segment, whole in view.extents(wanted.start, wanted.stop):
        begin, extent = segment.base_offset, whole
        if not extent.start < extent.stop:
            continue
        if not extent.start:
            begin = view.begin_of(segment)
            if begin > segment.base_offset:
                extent = segment.extent(begin, wanted.stop)
                if extent.start >= extent.stop:
                    continue
        place = bisect_right(view.base_offsets, segment.base_offset)
        end = view.base_offsets[place] if place < len(view) else MAX_INT64
        if wanted.stop > end and segment.reaches_beyond:
            end = max(end, segment.next_offset)
        yield (
            segment,
            Split(
                source=source,
                path=log.root.display(segment.path),
                partition=wanted.partition,
                segment=segment.base_offset,
                identity=segment.identity,
                position=extent.start,
                end_position=extent.stop,
                next_offset=extent.next_offset,
                start=wanted.start,
                stop=wanted.stop,
                part_start=begin,
                part_stop=end,
                file_size=segment.tail_end,
                is_first=wanted.is_first,
                is_last=wanted.is_last,
                at_log_end=wanted.stop >= view.log_end_offset,
                owner=owner,
                topic_id=view.topic_id,
                copies=view.copy_folders,
                then=_then(view),
            ),
        )


def _lost(view: LogView, wanted: QueryRange, owner: str | None) -> Split:
    """Return a split without bytes, whose reader meets the loss in the place of the range."""
    log = view.log
    source = log.root.display("/".join(name for name in (log.folder, log.only) if name))
    return Split(
        source=source,
        path=os.path.join(log.root.display(log.folder), ""),
        partition=wanted.partition,
        segment=NO_SEGMENT,
        identity=(0, 0),
        position=0,
        end_position=0,
        next_offset=wanted.start,
        start=wanted.start,
        stop=wanted.stop,
        part_start=wanted.start,
        part_stop=MAX_INT64,
        file_size=0,
        is_first=wanted.is_first,
        is_last=wanted.is_last,
        at_log_end=wanted.stop >= view.log_end_offset,
        owner=owner,
        topic_id=view.topic_id,
        copies=view.copy_folders,
        then=_then(view),
    )


def _then(view: LogView) -> tuple[Offset, dict[int, Fate]] | None:
    return None if view.ended is None else (view.log_end_offset, dict(view.ended))


def _pieces(segment: LogSegment, whole: Split, split_bytes: int) -> Iterator[Split]:
    pieces = math.ceil(whole.size / split_bytes)
    extent = Extent(whole.position, whole.end_position, whole.next_offset)
    cuts: list[Cut] = cut(segment, extent, pieces) if pieces > 1 else []
    rest = whole
    for place in cuts:
        yield replace(rest, end_position=place.position, part_stop=place.first_offset)
        rest = replace(
            rest,
            position=place.position,
            next_offset=place.base_offset,
            part_start=place.first_offset,
        )
    yield rest
